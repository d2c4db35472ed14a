//! `txonly`: UDP frames from 198.18.0.1 to 198.18.0.2, port 9 to port 9, as testpmd makes them.

use hal::{DmaMemory, OutOfBounds};

use super::checksum::ipv4_header_checksum;
use super::random::Random;
use super::segments::{HEADERS, Segments};
use super::{ModeOptions, Route, Verdict, Work};
use crate::burst::Burst;
use crate::packet::{Meta, Packet};

/// Where the source port lies in [`TxOnly::headers`].
const SOURCE_PORT_AT: usize = 22;
/// testpmd's first source port of many flows, without the core: the ephemeral range.
const FIRST_FLOW: u16 = 0xc0;

/// The generator: one frame, its addresses, lengths and flow aside.
pub struct TxOnly {
    segments: Segments,
    random: Random,
    /// From the ethertype to the UDP header, for a frame of all segments.
    headers: [u8; HEADERS - 12],
    tx_ip: [[u8; 4]; 2],
    tx_udp: [u16; 2],
    flows: Option<Flows>,
    finished: bool,
}

/// Source ports that take turns: the flow's number above, the core's below.
struct Flows {
    count: u16,
    core: u8,
    next: u16,
}

impl TxOnly {
    /// A generator for core `core`.
    pub fn new(options: &ModeOptions, core: u8) -> Self {
        let flows = options.multi_flow.then_some(Flows { count: options.txonly_flows.max(1), core, next: 0 });
        let segments = options.segments.clone();
        let headers = headers(options.tx_ip, options.tx_udp, segments.total());
        let (tx_ip, tx_udp) = (options.tx_ip, options.tx_udp);
        let random = Random::new(core.into());
        Self { segments, random, headers, tx_ip, tx_udp, flows, finished: false }
    }

    /// Makes as many frames as a burst may have.
    pub fn make(&mut self, work: &mut Work<'_>, burst: &mut Burst) -> Verdict {
        if !self.finished {
            for _ in 0..work.limit {
                if !self.add(work, burst) {
                    break;
                }
            }
        }
        Verdict::SendMade
    }

    /// So many frames were made for nothing: their flows come again.
    pub fn unsent(&mut self, frames: usize) {
        if let Some(flows) = &mut self.flows {
            let back = (frames % usize::from(flows.count)) as u16;
            flows.next = (flows.next + flows.count - back) % flows.count;
        }
    }

    /// From now on nothing is made.
    pub fn finish(&mut self) {
        self.finished = true;
    }

    /// Adds a frame; `false` when there are no buffers for it, or no room.
    fn add(&mut self, work: &mut Work<'_>, burst: &mut Burst) -> bool {
        let lens = self.segments.next(&mut self.random);
        let total: u16 = lens.iter().sum();
        let mut buffers = heapless::Vec::<u32, { super::segments::MAX_SEGMENTS }>::new();
        while buffers.len() < lens.len() && burst.room() >= lens.len() {
            match work.buffers.take() {
                Some(buffer) if buffers.push(buffer).is_ok() => {}
                _ => break,
            }
        }
        if buffers.len() < lens.len() {
            work.buffers.give(&buffers);
            return false;
        }
        let headers = self.next_headers(total);
        if write(work.memory, work.route, &headers, &buffers, self.segments.lens()).is_err() {
            work.buffers.give(&buffers);
            return false;
        }
        let count = buffers.len();
        for (index, (buffer, len)) in buffers.iter().zip(self.segments.lens()).enumerate() {
            let len = u32::from(*len);
            let meta = if index + 1 == count { Meta::frame(len) } else { Meta::segment(len) };
            // There is room, see above.
            let _ = burst.push(Packet { buffer: *buffer, meta });
        }
        true
    }

    /// Headers of a frame of `total` bytes, and of the next flow.
    fn next_headers(&mut self, total: u16) -> [u8; HEADERS - 12] {
        let mut headers = self.headers;
        if total != self.segments.total() {
            headers = self::headers(self.tx_ip, self.tx_udp, total);
        }
        if let Some(flows) = &mut self.flows {
            let port = [(FIRST_FLOW + flows.next) as u8, flows.core];
            headers[SOURCE_PORT_AT..SOURCE_PORT_AT + 2].copy_from_slice(&port);
            flows.next = (flows.next + 1) % flows.count;
        }
        headers
    }
}

/// Writes a frame into its segments; headers may lie in several.
fn write(
    memory: &DmaMemory,
    route: &Route,
    headers: &[u8; HEADERS - 12],
    buffers: &[u32],
    lens: &[u16],
) -> Result<(), OutOfBounds> {
    let mut start = [0; HEADERS];
    start[..6].copy_from_slice(&route.peer.0);
    start[6..12].copy_from_slice(&route.mac.0);
    start[12..].copy_from_slice(headers);
    let mut rest = &start[..];
    for (buffer, len) in buffers.iter().zip(lens) {
        let (at, len) = (*buffer as usize, usize::from(*len));
        let (here, behind) = rest.split_at(rest.len().min(len));
        memory.copy_in(at, here)?;
        memory.part(at + here.len(), len - here.len())?.fill(0);
        rest = behind;
    }
    Ok(())
}

/// Everything from the ethertype to the UDP header, for a frame of `len` bytes, [`HEADERS`] or more.
fn headers([from, to]: [[u8; 4]; 2], [source, destination]: [u16; 2], len: u16) -> [u8; HEADERS - 12] {
    let ip_len = len.saturating_sub(14).to_be_bytes();
    let udp_len = len.saturating_sub(34).to_be_bytes();
    let mut ip = [0x45, 0, ip_len[0], ip_len[1], 0, 0, 0, 0, 64, 17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    ip[12..16].copy_from_slice(&from);
    ip[16..].copy_from_slice(&to);
    let sum = ipv4_header_checksum(&ip).to_be_bytes();
    [ip[10], ip[11]] = sum;
    let mut out = [0; HEADERS - 12];
    out[..2].copy_from_slice(&[0x08, 0x00]);
    out[2..22].copy_from_slice(&ip);
    out[22..24].copy_from_slice(&source.to_be_bytes());
    out[24..26].copy_from_slice(&destination.to_be_bytes());
    out[26..28].copy_from_slice(&udp_len);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forward::examples::{Ground, OWN, PEER, sums_to_ones, with};
    use crate::forward::segments::Split;
    use crate::pool::Buffers;

    fn options(set: &[(&str, &str)]) -> ModeOptions {
        let mut options = ModeOptions::default();
        set.iter().for_each(|(option, value)| options.set(option, value).unwrap());
        options
    }

    #[test]
    fn frame_is_testpmds() {
        let mut ground = Ground::new();
        ground.limit = 1;
        ground.memory.fill(0xff);
        let mut txonly = TxOnly::new(&ModeOptions::default(), 0);
        assert_eq!(ground.work(|work, burst| txonly.make(work, burst)), Verdict::SendMade);
        let rest = [
            0x08, 0, 0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17, 0xee, 0x93, 198, 18, 0, 1, 198, 18, 0, 2, //
            0, 9, 0, 9, 0, 30, 0, 0, // UDP, 22 bytes of payload
        ];
        assert_eq!(ground.frames(), [with(&[&PEER, &OWN, &rest, &[0; 22]])]);
        assert_eq!(ground.burst.metas(), [Meta::frame(64)]);
        let behind: u8 = ground.memory.load(ground.burst.buffers()[0] as usize + 64).unwrap();
        assert_eq!(behind, 0xff);
    }

    /// B45: lengths and checksums are right on each frame, however it is cut.
    #[test]
    fn b45_frames_of_any_segments_are_right() {
        for (txpkts, split) in [
            ("20,470", "off"),
            ("42", "off"),
            ("1,1,1,1,60", "off"),
            ("13,1,28", "off"),
            ("2048,2048,2048,2048", "rand"),
            ("64,1,1000", "rand"),
        ] {
            let options = options(&[("--txpkts", txpkts), ("--txsplit", split)]);
            let mut txonly = TxOnly::new(&options, 0);
            let mut ground = Ground::new();
            ground.memory.fill(0xee);
            ground.work(|work, burst| txonly.make(work, burst));
            let frames = ground.frames();
            assert_eq!(frames.len(), 32, "{txpkts}");
            for frame in &frames {
                let len = frame.len();
                let (ip, udp) = ((len - 14) as u16, (len - 34) as u16);
                assert_eq!((&frame[16..18], &frame[38..40]), (&ip.to_be_bytes()[..], &udp.to_be_bytes()[..]));
                assert!(sums_to_ones(&frame[14..34]) && frame[42..].iter().all(|byte| *byte == 0));
                assert!(
                    len == usize::from(options.segments.total()) || options.segments.split == Split::Random
                );
            }
            assert!(ground.has_all_buffers());
        }
    }

    /// B45: a frame for which there are not enough buffers is not made, and none of them is lost.
    #[test]
    fn b45_a_pool_that_is_nearly_empty() {
        let mut txonly = TxOnly::new(&options(&[("--txpkts", "64,64,64")]), 0);
        let mut ground = Ground::new();
        let mut taken = std::vec::Vec::new();
        while ground.pool.available() > 8 {
            taken.extend(ground.pool.take());
        }
        ground.work(|work, burst| txonly.make(work, burst));
        assert_eq!((ground.burst.frames(), ground.burst.len(), ground.pool.available()), (2, 6, 2));
        ground.pool.give(&taken);
        assert!(ground.has_all_buffers());
    }

    #[test]
    fn flows_of_cores_differ_and_those_that_were_not_sent_come_again() {
        let mut options =
            options(&[("--txonly-nb-flows", "3"), ("--tx-udp", "1,2"), ("--tx-ip", "1.2.3.4,5.6.7.8")]);
        assert!(options.set_flag("--txonly-multi-flow"));
        let mut txonly = TxOnly::new(&options, 7);
        let mut ports = |unsent: usize| {
            let mut ground = Ground::new();
            ground.limit = 4;
            ground.work(|work, burst| txonly.make(work, burst));
            txonly.unsent(unsent);
            let frames = ground.frames();
            frames.iter().for_each(|frame| {
                assert_eq!((&frame[26..34], &frame[36..38]), (&[1, 2, 3, 4, 5, 6, 7, 8][..], &[0, 2][..]));
            });
            frames.iter().map(|frame| [frame[34], frame[35]]).collect::<std::vec::Vec<_>>()
        };
        assert_eq!(ports(2), [[0xc0, 7], [0xc1, 7], [0xc2, 7], [0xc0, 7]]);
        assert_eq!(ports(0), [[0xc2, 7], [0xc0, 7], [0xc1, 7], [0xc2, 7]]);
    }
}
