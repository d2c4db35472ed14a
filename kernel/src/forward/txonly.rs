//! `txonly`: UDP frames from 198.18.0.1 to 198.18.0.2, port 9 to port 9, as testpmd makes them.

use hal::DmaMemory;

use super::Route;
use crate::burst::Burst;
use crate::packet::{Meta, Packet};
use crate::pool::Buffers;

/// Ethernet, IPv4 and UDP headers.
const HEADERS: usize = 14 + 20 + 8;
/// testpmd's TXONLY_DEF_PACKET_LEN.
pub const DEFAULT_LEN: u16 = 64;
/// Least and most bytes of a generated frame, without FCS. The most is what one buffer holds.
pub const LEN_RANGE: core::ops::RangeInclusive<u16> = 60..=2048;

/// The generator: one frame, its addresses aside.
pub struct TxOnly {
    len: u16,
    headers: [u8; HEADERS - 12],
}

impl TxOnly {
    /// Frames of `len` bytes without FCS, kept within [`LEN_RANGE`].
    pub fn new(len: u16) -> Self {
        let len = len.clamp(*LEN_RANGE.start(), *LEN_RANGE.end());
        Self { len, headers: headers(len) }
    }

    /// Adds up to `limit` frames to `burst`.
    pub fn generate(
        &mut self,
        memory: &DmaMemory,
        route: &Route,
        buffers: &mut dyn Buffers,
        burst: &mut Burst,
        limit: usize,
    ) {
        for _ in 0..limit.min(burst.room()) {
            let Some(buffer) = buffers.take() else { return };
            let packet = Packet { buffer, meta: Meta::frame(u32::from(self.len)) };
            if self.write(memory, route, buffer as usize).is_err() || burst.push(packet).is_err() {
                buffers.give(&[buffer]);
                return;
            }
        }
    }

    fn write(&self, memory: &DmaMemory, route: &Route, at: usize) -> Result<(), hal::OutOfBounds> {
        memory.store(at, [route.peer.0, route.mac.0])?;
        memory.store(at + 12, self.headers)?;
        let payload = usize::from(self.len) - HEADERS;
        memory.part(at + HEADERS, payload)?.fill(0);
        Ok(())
    }
}

/// Everything from the ethertype to the UDP header, for a frame of `len` bytes.
fn headers(len: u16) -> [u8; HEADERS - 12] {
    let ip_len = (len - 14).to_be_bytes();
    let udp_len = (len - 34).to_be_bytes();
    let mut ip = [0x45, 0, ip_len[0], ip_len[1], 0, 0, 0, 0, 64, 17, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2];
    let sum = ip_checksum(&ip).to_be_bytes();
    [ip[10], ip[11]] = sum;
    let udp = [0, 9, 0, 9, udp_len[0], udp_len[1], 0, 0];
    let mut out = [0; HEADERS - 12];
    out[..2].copy_from_slice(&[0x08, 0x00]);
    out[2..22].copy_from_slice(&ip);
    out[22..].copy_from_slice(&udp);
    out
}

/// RFC 1071 over an IPv4 header whose checksum field is zero.
fn ip_checksum(header: &[u8; 20]) -> u16 {
    let sum: u32 = header.chunks_exact(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use hal::Machine;
    use hal::hosted::{FakeBar, HostedMachine};

    use super::*;
    use crate::pool::{BufferLayout, Pool};
    use crate::port::MacAddr;

    /// The example of RFC 1071's algorithm that is most often printed: 4500 0073 0000 4000 4011 c0a8 0001
    /// c0a8 00c7 sums to b861.
    #[test]
    fn checksum_of_a_known_header() {
        let header =
            [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7];
        assert_eq!(ip_checksum(&header), 0xb861);
    }

    fn generated(len: u16, buffers: usize, limit: usize) -> (Pool, Burst) {
        let machine = HostedMachine::<FakeBar>::new(1 << 20).unwrap();
        let layout = BufferLayout::DEFAULT;
        let memory = machine.dma_alloc(layout.bytes(buffers), 64).unwrap();
        memory.fill(0xff);
        let mut pool = Pool::new(memory.clone(), layout);
        let mut burst = Burst::new();
        let route = Route { mac: MacAddr([0x68, 0, 0, 0, 0, 1]), peer: MacAddr([2, 0, 0, 0, 0, 0]) };
        TxOnly::new(len).generate(&memory, &route, &mut pool, &mut burst, limit);
        (pool, burst)
    }

    #[test]
    fn frame_is_testpmds() {
        let (pool, mut burst) = generated(64, 4, 1);
        let packet = burst.pop().unwrap();
        let mut frame = [0; 65];
        pool.memory().copy_out(packet.buffer as usize, &mut frame).unwrap();
        let want = [
            0x02, 0, 0, 0, 0, 0, 0x68, 0, 0, 0, 0, 1, 0x08, 0, // addresses, IPv4
            0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17, 0xee, 0x93, 198, 18, 0, 1, 198, 18, 0, 2, //
            0, 9, 0, 9, 0, 30, 0, 0, // UDP, 22 bytes of payload
        ];
        assert_eq!(frame[..42], want);
        assert_eq!((&frame[42..64], frame[64]), (&[0; 22][..], 0xff));
        assert_eq!(packet.meta, Meta::frame(64));
    }

    #[test]
    fn no_more_than_asked_for_and_no_more_than_there_are_buffers() {
        let (pool, burst) = generated(64, 100, 32);
        assert_eq!((burst.len(), pool.available()), (32, 68));
        let (pool, burst) = generated(2048, 5, 32);
        assert_eq!((burst.len(), pool.available()), (5, 0));
    }
}
