//! The reference forms of the modes that touch headers: one packet at a time, nothing clever.

use hal::DmaMemory;

use super::Route;
use crate::burst::Burst;
use crate::packet::Meta;

/// Bytes that the two addresses take at the start of a frame.
pub const ADDRESSES: usize = 12;

/// Calls `each` with the place of each frame that starts in these entries and holds at least both addresses in its first
/// buffer. `first` says that the first entry begins a frame; so does the answer of what follows.
///
/// A first buffer that is shorter is left alone: there is nothing to exchange, and a frame that short does not
/// pass transmit.
#[inline]
pub fn frame_starts(offsets: &[u32], metas: &[Meta], mut first: bool, mut each: impl FnMut(usize)) -> bool {
    for (offset, meta) in offsets.iter().zip(metas) {
        if first && meta.len() as usize >= ADDRESSES {
            each(*offset as usize + meta.start() as usize);
        }
        first = meta.is_last();
    }
    first
}

/// `macswap`: exchanges destination and source.
pub fn macswap(memory: &DmaMemory, burst: &Burst) {
    if burst.plain().is_some() {
        burst.buffers().iter().for_each(|buffer| exchange(memory, *buffer as usize));
    } else {
        macswap_part(memory, burst.buffers(), burst.metas(), true);
    }
}

/// [`macswap`] of some entries, see [`frame_starts`].
pub fn macswap_part(memory: &DmaMemory, offsets: &[u32], metas: &[Meta], first: bool) -> bool {
    frame_starts(offsets, metas, first, |at| exchange(memory, at))
}

/// Exchanges twelve bytes and no more, as three little-endian numbers.
#[inline]
fn exchange(memory: &DmaMemory, at: usize) {
    if let Ok([a, b, c]) = memory.load::<[u32; 3]>(at) {
        let _ = memory.store(at, [b >> 16 | c << 16, c >> 16 | a << 16, a >> 16 | b << 16]);
    }
}

/// `mac`: destination becomes the peer of the sending port, source its own address.
pub fn mac(memory: &DmaMemory, route: &Route, burst: &Burst) {
    mac_part(memory, route, burst.buffers(), burst.metas(), true);
}

/// [`mac`] of some entries, see [`frame_starts`].
pub fn mac_part(memory: &DmaMemory, route: &Route, offsets: &[u32], metas: &[Meta], first: bool) -> bool {
    frame_starts(offsets, metas, first, |at| {
        let _ = memory.store(at, [route.peer.0, route.mac.0]);
    })
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use hal::Machine;
    use hal::hosted::{FakeBar, HostedMachine};

    use super::*;
    use crate::packet::Packet;
    use crate::port::MacAddr;

    /// Frame `n` of `len` bytes: byte `i` is `n + i`, so any byte that moved shows.
    fn frame(n: u8, len: usize) -> Vec<u8> {
        (0..len).map(|i| n.wrapping_add(i as u8)).collect()
    }

    fn memory() -> DmaMemory {
        HostedMachine::<FakeBar>::new(1 << 20).unwrap().dma_alloc(1 << 20, 4096).unwrap()
    }

    fn contents(memory: &DmaMemory, at: u32, len: usize) -> Vec<u8> {
        let mut bytes = std::vec![0; len];
        memory.copy_out(at as usize, &mut bytes).unwrap();
        bytes
    }

    fn burst_of(memory: &DmaMemory, count: u8, len: usize) -> Burst {
        let mut burst = Burst::new();
        for n in 0..count {
            let buffer = u32::from(n) * 2176;
            memory.copy_in(buffer as usize, &frame(n, len)).unwrap();
            burst.push(Packet { buffer, meta: Meta::frame(len as u32) }).unwrap();
        }
        burst
    }

    /// Every burst length from 1 to 40, frames of exactly 14 bytes among them: bytes 0-11 are exchanged, the
    /// rest, and the byte behind the frame, stay.
    #[test]
    fn macswap_exchanges_twelve_bytes_and_nothing_else() {
        for count in 1..=40 {
            for len in [12, 14, 60, 1518] {
                let memory = memory();
                let burst = burst_of(&memory, count, len);
                macswap(&memory, &burst);
                for n in 0..count {
                    let before = frame(n, len);
                    let mut want = [&before[6..12], &before[..6], &before[12..]].concat();
                    want.push(0);
                    assert_eq!(
                        contents(&memory, u32::from(n) * 2176, len + 1),
                        want,
                        "{n} of {count}, {len}"
                    );
                }
            }
        }
    }

    #[test]
    fn frames_without_two_addresses_stay_as_they_are() {
        let memory = memory();
        let burst = burst_of(&memory, 3, 11);
        macswap(&memory, &burst);
        mac(&memory, &Route::default(), &burst);
        assert_eq!(contents(&memory, 2176, 11), frame(1, 11));
    }

    #[test]
    fn only_the_first_buffer_of_a_frame_is_touched() {
        let memory = memory();
        let mut burst = Burst::new();
        for (i, meta) in [Meta::segment(64), Meta::segment(64), Meta::frame(64)].into_iter().enumerate() {
            let buffer = i as u32 * 2176;
            memory.copy_in(buffer as usize, &frame(0, 64)).unwrap();
            burst.push(Packet { buffer, meta }).unwrap();
        }
        macswap(&memory, &burst);
        assert_ne!(contents(&memory, 0, 64), frame(0, 64));
        assert_eq!(contents(&memory, 2176, 64), frame(0, 64));
        assert_eq!(contents(&memory, 2 * 2176, 64), frame(0, 64));
    }

    #[test]
    fn a_frame_that_starts_inside_of_its_buffer_is_found() {
        let memory = memory();
        memory.copy_in(100, &frame(9, 60)).unwrap();
        let mut burst = Burst::new();
        let meta = Meta { lo: 0, hi: Meta::frame(60).hi | 100 << 52 };
        burst.push(Packet { buffer: 0, meta }).unwrap();
        macswap(&memory, &burst);
        assert_eq!(contents(&memory, 100, 6), frame(9, 60)[6..12]);
    }

    /// testpmd's `mac`: destination 02:00:00:00:00:01 is the peer of port 1, source is port 1's own.
    #[test]
    fn mac_writes_peer_and_own_address() {
        let memory = memory();
        let burst = burst_of(&memory, 2, 60);
        let route = Route { mac: MacAddr([0x68, 5, 0xca, 1, 2, 3]), peer: MacAddr([2, 0, 0, 0, 0, 1]) };
        mac(&memory, &route, &burst);
        let want = [&[2, 0, 0, 0, 0, 1, 0x68, 5, 0xca, 1, 2, 3], &frame(1, 60)[12..]].concat();
        assert_eq!(contents(&memory, 2176, 60), want);
    }

    #[test]
    fn a_buffer_outside_of_the_memory_is_left_alone() {
        let memory = memory();
        let mut burst = Burst::new();
        burst.push(Packet { buffer: u32::MAX, meta: Meta::frame(60) }).unwrap();
        macswap(&memory, &burst);
        mac(&memory, &Route::default(), &burst);
    }
}
