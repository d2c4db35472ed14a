//! Frames for testpmd, and what its forwarding modes must make of them.

use std::sync::Arc;

use crate::exchange::{Pair, Round};
use crate::frames::{numbered, swapped};
use crate::packets::Packet;
use crate::testpmd::Testpmd;

/// MAC addresses of frames for port `port`.
pub fn macs(port: usize) -> [[u8; 6]; 2] {
    [[2, 0, 0, 0, 0x10, port as u8], [2, 0, 0, 0, 0x20, port as u8]]
}

/// One of 64 flows, of `len` bytes.
pub fn packet(n: u32, len: usize) -> Packet {
    let flow = n as u16 % 64;
    Packet { v6: n & 1 != 0, tcp: n & 2 != 0, addresses: [flow as u8 + 1, 200], ports: [1024 + flow, 9], len }
}

/// Frames that come back as they are, with sizes that go over `sizes` evenly.
pub fn io(count: u32, sizes: std::ops::Range<usize>) -> Round {
    let make = move |port, n: u32| {
        let frame = numbered(n << 1 | port as u32, sizes.start + n as usize * 7 % sizes.len());
        Pair::same(frame)
    };
    Round { count, in_flight: 128, in_order: true, make: Arc::new(make) }
}

/// Flows that come back with their MAC addresses exchanged.
pub fn macswap(count: u32, len: usize) -> Round {
    let make = move |port, n| {
        let frame = packet(n, len).frame(macs(port), n);
        Pair::new(frame.clone(), swapped(&frame))
    };
    Round { count, in_flight: 128, in_order: false, make: Arc::new(make) }
}

/// Flows of which some have wrong checksums; they come back with right ones, and testpmd's addresses.
pub fn csum(count: u32, len: usize) -> Round {
    let make = move |port: usize, n| {
        let packet = packet(n, len);
        let mut sent = packet.frame(macs(port), n);
        let peer = [2, 0, 0, 0, 0, port as u8 ^ 1];
        let back = packet.frame([peer, Testpmd::mac(port ^ 1)], n);
        let (ip, l4) = packet.checksums();
        if let (true, Some(at)) = (wrong_ip(n), ip) {
            sent[at] ^= 0x55;
        }
        if wrong_l4(n) {
            sent[l4 + 1] ^= 0x55;
        }
        Pair::new(sent, back)
    };
    Round { count, in_flight: 128, in_order: false, make: Arc::new(make) }
}

/// TCP frames of 3000 to 8999 bytes that come back in segments of 800 bytes of payload.
pub fn tso(count: u32) -> Round {
    let make = move |port: usize, n: u32| {
        let packet = Packet { tcp: true, ..packet(n, 3000 + n as usize * 7 % 6000) };
        let peer = [2, 0, 0, 0, 0, port as u8 ^ 1];
        let whole = packet.frame([peer, Testpmd::mac(port ^ 1)], n);
        Pair { sent: packet.frame(macs(port), n), back: packet.segments(&whole, 800) }
    };
    Round { count, in_flight: 64, in_order: false, make: Arc::new(make) }
}

/// The IP header checksum of frame `n` of [`csum`] is wrong, if it has one.
pub fn wrong_ip(n: u32) -> bool {
    n / 4 % 3 == 1
}

/// The layer 4 checksum of frame `n` of [`csum`] is wrong.
pub fn wrong_l4(n: u32) -> bool {
    n / 4 % 5 == 2
}
