//! `flowgen`: UDP frames to many addresses, and what is received is dropped.
//!
//! As testpmd has it: 00:01:02:03:04:00 to 00:01:02:03:04:01, 10.254.0.0 to 10.253.0.0 and the addresses behind it, port
//! 1000 to 1001, no UDP checksum, and four bytes less than `--txpkts` says, since it counts the FCS.

use hal::{DmaMemory, OutOfBounds};

use super::checksum::ipv4_header_checksum;
use super::segments::HEADERS;
use super::{ModeOptions, Verdict, Work};
use crate::burst::Burst;
use crate::drops::DropReason;
use crate::packet::{Meta, Packet};

const FCS: u16 = 4;
const FIRST_ADDRESS: u32 = u32::from_be_bytes([10, 253, 0, 0]);

/// The generator.
pub struct FlowGen {
    len: u16,
    flows: u32,
    clones: u16,
    /// The flow of the next frame.
    next: u32,
    finished: bool,
}

impl FlowGen {
    /// A generator that begins with the first flow.
    pub fn new(options: &ModeOptions) -> Self {
        let len = options.segments.total().saturating_sub(FCS).max(HEADERS as u16);
        let (flows, clones) = (options.flowgen_flows.max(1), options.flowgen_clones);
        Self { len, flows, clones, next: 0, finished: false }
    }

    /// Drops what was received and makes as many frames as a burst may have.
    pub fn make(&mut self, work: &mut Work<'_>, burst: &mut Burst) -> Verdict {
        work.drop_all(burst, DropReason::FlowGen);
        if self.finished {
            return Verdict::SendMade;
        }
        let (mut copies, mut address) = (0, 0);
        for _ in 0..work.limit.min(burst.room()) {
            if copies == 0 {
                copies = 1 + usize::from(self.clones).min(work.limit);
                address = FIRST_ADDRESS.wrapping_add(self.next);
            }
            let Some(buffer) = work.buffers.take() else { break };
            let packet = Packet { buffer, meta: Meta::frame(self.len.into()) };
            if self.write(work.memory, buffer as usize, address).is_err() || burst.push(packet).is_err() {
                work.buffers.give(&[buffer]);
                break;
            }
            copies -= 1;
            self.next = (self.next + 1) % self.flows;
        }
        Verdict::SendMade
    }

    /// So many frames were made for nothing: their flows come again.
    pub fn unsent(&mut self, frames: usize) {
        let back = (frames as u64 % u64::from(self.flows)) as u32;
        self.next =
            ((u64::from(self.next) + u64::from(self.flows) - u64::from(back)) % u64::from(self.flows)) as u32;
    }

    /// From now on nothing is made.
    pub fn finish(&mut self) {
        self.finished = true;
    }

    fn write(&self, memory: &DmaMemory, at: usize, address: u32) -> Result<(), OutOfBounds> {
        let ip_len = (self.len - 14).to_be_bytes();
        let udp_len = (self.len - 34).to_be_bytes();
        let [a, b, c, d] = address.to_be_bytes();
        let mut ip = [0x45, 0, ip_len[0], ip_len[1], 0, 0, 0, 0, 64, 17, 0, 0, 10, 254, 0, 0, a, b, c, d];
        [ip[10], ip[11]] = ipv4_header_checksum(&ip).to_be_bytes();
        memory.store(at, [0_u8, 1, 2, 3, 4, 1, 0, 1, 2, 3, 4, 0, 0x08, 0x00])?;
        memory.store(at + 14, ip)?;
        memory.store(at + 34, [0x03_u8, 0xe8, 0x03, 0xe9, udp_len[0], udp_len[1], 0, 0])?;
        memory.part(at + HEADERS, usize::from(self.len) - HEADERS)?.fill(0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::forward::examples::{Ground, sums_to_ones};

    /// Destination addresses of the frames of a poll, behind 10.253.
    fn flows(flowgen: &mut FlowGen, ground: &mut Ground) -> Vec<u16> {
        assert_eq!(ground.work(|work, burst| flowgen.make(work, burst)), Verdict::SendMade);
        let frames = ground.frames();
        ground.burst.give_back(&mut ground.pool);
        frames
            .iter()
            .map(|frame| {
                let start = [0, 1, 2, 3, 4, 1, 0, 1, 2, 3, 4, 0, 8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17];
                assert_eq!((&frame[..24], frame.len()), (&start[..], 60));
                assert!(sums_to_ones(&frame[14..34]));
                assert_eq!(frame[26..32], [10, 254, 0, 0, 10, 253]);
                assert_eq!(frame[34..42], [0x03, 0xe8, 0x03, 0xe9, 0, 26, 0, 0]);
                assert!(frame[42..].iter().all(|byte| *byte == 0));
                u16::from_be_bytes([frame[32], frame[33]])
            })
            .collect()
    }

    #[test]
    fn flows_take_turns_and_what_is_received_is_dropped() {
        let mut ground = Ground::new();
        ground.limit = 4;
        ground.arrive(&[1; 60]);
        ground.arrive(&[1; 3000]);
        let options = ModeOptions { flowgen_flows: 6, ..ModeOptions::default() };
        let mut flowgen = FlowGen::new(&options);
        assert_eq!(flows(&mut flowgen, &mut ground), [0, 1, 2, 3]);
        assert_eq!((ground.drops.get(DropReason::FlowGen), ground.drops.total()), (2, 2));
        assert_eq!(flows(&mut flowgen, &mut ground), [4, 5, 0, 1]);
        flowgen.unsent(3);
        assert_eq!(flows(&mut flowgen, &mut ground), [5, 0, 1, 2]);
        flowgen.unsent(9);
        assert_eq!(flows(&mut flowgen, &mut ground), [0, 1, 2, 3]);
        flowgen.finish();
        assert_eq!(flows(&mut flowgen, &mut ground), []);
        assert!(ground.has_all_buffers());
    }

    /// Clones are frames of the same flow, and the flows that they stand for are passed over.
    #[test]
    fn clones_follow_their_frame() {
        let mut ground = Ground::new();
        ground.limit = 7;
        let options = ModeOptions { flowgen_clones: 2, ..ModeOptions::default() };
        assert_eq!(flows(&mut FlowGen::new(&options), &mut ground), [0, 0, 0, 3, 3, 3, 6]);
    }
}
