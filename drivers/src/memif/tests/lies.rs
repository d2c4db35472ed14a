//! Peers that write what they must not.

use super::*;
use crate::memif::ring::{Descriptor, NEXT};
use hal::DmaMemory;
use kernel::DropReason;

/// A client of the test's own: it writes descriptors as it likes, in front of a server of ours.
struct Liar {
    pair: Pair,
    ring: ring::Ring,
}

const PLACE: u32 = 4 << 20;

impl Liar {
    fn new(how: &How) -> Self {
        let pair = Pair::new(how);
        let ring = pair.client.attachment(true, 0, None).unwrap().ring;
        let bytes: Vec<u8> = (0..1 << 20).map(|at: usize| (at * 13 + (at >> 9)) as u8).collect();
        pair.region.copy_in(PLACE as usize, &bytes).unwrap();
        Self { pair, ring }
    }

    fn write(&self, index: u16, descriptor: Descriptor) {
        let slot = self.ring.slot(index);
        self.ring.descriptors().write_all(slot, [descriptor.first_word(), u64::from(descriptor.offset)]);
    }

    /// Publishes descriptors behind the last ones.
    fn publish(&self, descriptors: &[Descriptor]) {
        let head = self.ring.head().load();
        for (i, descriptor) in (0..).zip(descriptors) {
            self.write(head.wrapping_add(i), *descriptor);
        }
        self.ring.head().store(head.wrapping_add(descriptors.len() as u16));
    }

    fn server(&mut self) -> &mut Side1 {
        &mut self.pair.server_side
    }

    fn bytes(&self, offset: u32, len: u32) -> Vec<u8> {
        let mut bytes = vec![0; len as usize];
        self.pair.region.copy_out(offset as usize, &mut bytes).unwrap();
        bytes
    }

    /// The server is as good as new: a thousand frames pass, and no buffer is missing.
    fn check_alive(mut self) {
        for i in 0..1000 {
            let offset = PLACE + i * 64;
            self.publish(&[good(offset, 60 + i % 1000)]);
            let wanted = self.bytes(offset, 60 + i % 1000);
            assert_eq!(self.server().receive(4), [wanted], "{i}");
        }
        assert_eq!(self.ring.tail().load(), self.ring.head().load());
        self.pair.check_buffers();
    }
}

const fn good(offset: u32, len: u32) -> Descriptor {
    Descriptor { flags: 0, region: 0, len, offset }
}

/// B02: descriptors whose sums wrap, and which point nowhere.
fn bad() -> Vec<Descriptor> {
    let end = REGION as u32;
    vec![
        good(0xffff_ff00, 0x200),
        good(end - 10, 64),
        good(end, 1),
        good(PLACE, 0),
        good(PLACE, u32::MAX),
        good(u32::MAX, u32::MAX),
        Descriptor { region: 1, ..good(PLACE, 64) },
        Descriptor { region: 65_535, ..good(PLACE, 64) },
    ]
}

#[test]
fn b01_a_chain_is_put_together_and_one_without_an_end_is_dropped() {
    for how in How::all() {
        let how = How { buffer: 2048, zero_copy: false, ..how };
        let mut liar = Liar::new(&how);
        for total in [2049, 4096, 4097, 6144] {
            let pieces = (0..total).step_by(2048).map(|at| {
                let len = 2048.min(total - at);
                let flags = if at + len < total { NEXT } else { 0 };
                Descriptor { flags, ..good(PLACE + at, len) }
            });
            liar.publish(&pieces.collect::<Vec<_>>());
            let wanted = liar.bytes(PLACE, total);
            assert_eq!(liar.server().receive(8), [wanted], "{total}");
        }
        liar.publish(&[Descriptor { flags: NEXT, ..good(PLACE, 64) }]);
        assert!(liar.server().receive(8).is_empty());
        assert_eq!(liar.server().drops().get(DropReason::RxDescriptor), 1);
        liar.check_alive();
    }
}

#[test]
fn b02_descriptors_outside_of_the_region_cost_their_frame_alone() {
    for how in [How::plain(), How { fast: false, ..How::plain() }] {
        for wrong in bad() {
            for at in [None, Some(0), Some(3), Some(7)] {
                let mut liar = Liar::new(&how);
                let count = if at.is_some() { 8 } else { 1 };
                let burst: Vec<Descriptor> = (0..count)
                    .map(|i| if at.unwrap_or(0) == i { wrong } else { good(PLACE + 64 * i, 60 + i) })
                    .collect();
                liar.publish(&burst);
                let wanted: Vec<_> = (0..count)
                    .filter(|i| at.unwrap_or(0) != *i)
                    .map(|i| liar.bytes(PLACE + 64 * i, 60 + i))
                    .collect();
                assert_eq!(liar.server().receive(32), wanted, "{wrong:?} at {at:?}");
                let drops = liar.server().drops();
                assert_eq!((drops.get(DropReason::RxDescriptor), drops.total()), (1, 1));
                assert_eq!(liar.server().rx.counters().frames, u64::from(count));
                liar.check_alive();
            }
        }
    }
}

/// The last bytes of a region whose size is no multiple of anything, as the fast path can't read them.
#[test]
fn a_packet_at_the_very_end_of_a_region_is_received() {
    let mut liar = Liar::new(&How::plain());
    let end = REGION as u32;
    for len in [1, 60, 64, 65, 1000] {
        liar.publish(&[good(end - len, len), good(PLACE, 60)]);
        let wanted = [liar.bytes(end - len, len), liar.bytes(PLACE, 60)];
        assert_eq!(liar.server().receive(8), wanted);
    }
    liar.check_alive();
}

#[test]
fn b03_every_pattern_of_good_and_bad_keeps_the_pairing() {
    for how in How::all().into_iter().filter(|how| how.buffer == 2048 && !how.zero_copy) {
        let mut liar = Liar::new(&how);
        let mut dropped = 0;
        for pattern in 0..256_u32 {
            let is_good = |i: u32| pattern >> i & 1 == 0;
            let burst: Vec<Descriptor> = (0..8)
                .map(|i| {
                    if is_good(i) { good(PLACE + 128 * i, 64 + i) } else { bad()[(pattern + i) as usize % 8] }
                })
                .collect();
            liar.publish(&burst);
            let wanted: Vec<_> =
                (0..8).filter(|i| is_good(*i)).map(|i| liar.bytes(PLACE + 128 * i, 64 + i)).collect();
            assert!(liar.server().receive(32) == wanted, "{pattern:08b}");
            dropped += u64::from(pattern.count_ones());
            assert_eq!(liar.server().drops().get(DropReason::RxDescriptor), dropped);
        }
        // The second of a chain is bad: the frame is, and the next one is not.
        liar.publish(&[
            Descriptor { flags: NEXT, ..good(PLACE, 64) },
            Descriptor { flags: NEXT, ..good(u32::MAX, 64) },
            good(PLACE, 64),
            good(PLACE, 65),
        ]);
        let wanted = [liar.bytes(PLACE, 65)];
        assert_eq!(liar.server().receive(8), wanted);
        liar.check_alive();
    }
}

#[test]
fn an_index_that_jumps_is_a_fault_and_hurts_nothing() {
    let mut liar = Liar::new(&How::plain());
    for jump in [65, 100, 1000, 32_768, 65_535] {
        let head = liar.ring.head().load();
        liar.ring.head().store(head.wrapping_add(jump));
        assert!(liar.server().receive(32).is_empty());
        assert_eq!(liar.server().rx_plug.fault(), Some(Fault::Index), "{jump}");
        liar.ring.head().store(head);
        liar.pair.connect();
        liar.ring = liar.pair.client.attachment(true, 0, None).unwrap().ring;
        assert_eq!(liar.server().rx_plug.fault(), None);
    }
    liar.check_alive();
}

#[test]
fn frames_longer_than_any_are_dropped_whole() {
    let mut liar = Liar::new(&How::plain());
    liar.publish(&[good(PLACE, 9729), good(PLACE, 9728), good(PLACE, 100_000), good(PLACE, 60)]);
    let wanted = [liar.bytes(PLACE, 9728), liar.bytes(PLACE, 60)];
    assert_eq!(liar.server().receive(8), wanted);
    assert_eq!(liar.server().drops().get(DropReason::RxTooLong), 2);
    // Many small pieces that are too many bytes together.
    let chain: Vec<Descriptor> =
        (0..60).map(|i| Descriptor { flags: u16::from(i < 59), ..good(PLACE, 200) }).collect();
    liar.publish(&chain);
    assert!(liar.server().receive(8).is_empty());
    assert_eq!(liar.server().drops().get(DropReason::RxTooLong), 3);
    liar.check_alive();
}

/// B02 the other way: what a client offers, our server must not write to.
#[test]
fn b02_offered_buffers_outside_of_the_region_are_not_written() {
    for how in [How::plain(), How { fast: false, ..How::plain() }] {
        for wrong in bad() {
            let mut pair = Pair::new(&how);
            let ring = pair.client.attachment(false, 0, None).unwrap().ring;
            for slot in [0, 3, 7] {
                ring.descriptors().write_all(slot, [wrong.first_word(), u64::from(wrong.offset)]);
            }
            let before = snapshot(&pair.region);
            for i in 0..8 {
                pair.server_side.core.push_frame(&frame(i, 60));
            }
            // A frame for a bad buffer is dropped, and the next one has the next buffer.
            assert_eq!(pair.server_side.send(), 8 - 3, "{wrong:?}");
            assert_eq!(pair.server_side.drops().get(DropReason::TxDescriptor), 3);
            assert_eq!((ring.tail().load(), pair.server_side.core.burst.len()), (8, 0));
            check_unwritten(&pair, &before);
            for slot in [0, 3, 7] {
                assert_eq!(ring.descriptor(slot).len, 0);
            }
            let wanted: Vec<_> = [1, 2, 4, 5, 6].into_iter().map(|i| frame(i, 60)).collect();
            assert_eq!(pair.client_side.receive(32), wanted);
            // And the other side drops the empty ones, which are its own fault.
            assert_eq!(pair.client_side.drops().get(DropReason::RxDescriptor), 3);
            pair.check_buffers();
        }
    }
}

fn snapshot(region: &DmaMemory) -> Vec<u8> {
    let mut bytes = vec![0; region.len()];
    region.copy_out(0, &mut bytes).unwrap();
    bytes
}

/// Nothing but the rings and the buffers from server to client has been written.
fn check_unwritten(pair: &Pair, before: &[u8]) {
    let after = snapshot(&pair.region);
    let Some(Attachment { side: Side::Client(Slots::Own { first, stride, .. }), ring, .. }) =
        pair.client.attachment(false, 0, None)
    else {
        unreachable!()
    };
    let buffers = first as usize..first as usize + usize::from(ring.size()) * stride as usize;
    let rings = 4 * ring::ring_bytes(6);
    for (at, (a, b)) in before.iter().zip(&after).enumerate() {
        assert!(a == b || buffers.contains(&at) || at < rings, "byte {at:#x}");
    }
}

/// A frame that needs more buffers than all that were offered is dropped, and does not block what follows.
#[test]
fn offered_buffers_that_are_too_small_block_nothing() {
    let mut pair = Pair::new(&How { buffer: 128, ..How::plain() });
    pair.server_side.core.push_frame(&frame(1, 9000));
    pair.server_side.core.push_frame(&frame(2, 60));
    assert_eq!(pair.server_side.send(), 1);
    assert_eq!(pair.server_side.drops().get(DropReason::TxDescriptor), 1);
    assert_eq!(pair.client_side.receive(8), [frame(2, 60)]);
    // Buffers whose end is no line's: the neighbour is not touched.
    let ring = pair.client.attachment(false, 0, None).unwrap().ring;
    let slot = ring.slot(ring.tail().load());
    ring.descriptors().write_all(slot, [60 << 32, u64::from(PLACE)]);
    pair.region.copy_in(PLACE as usize, &[0x77; 128]).unwrap();
    pair.server_side.core.push_frame(&frame(3, 60));
    assert_eq!(pair.server_side.send(), 1);
    let mut bytes = [0; 128];
    pair.region.copy_out(PLACE as usize, &mut bytes).unwrap();
    assert_eq!((&bytes[..60], &bytes[60..]), (&frame(3, 60)[..], &[0x77; 68][..]));
}

/// A server that writes lengths and places into a client's descriptors: lengths are bounded, places not looked at.
#[test]
fn a_server_that_lies_to_a_client_reaches_nothing() {
    for how in [How::plain(), How { fast: false, ..How::plain() }, How { zero_copy: true, ..How::plain() }] {
        for len in [0, 2049, 4096, u32::MAX] {
            let mut pair = Pair::new(&how);
            let ring = pair.client.attachment(false, 0, None).unwrap().ring;
            for i in 0..5 {
                pair.server_side.core.push_frame(&frame(i, 60));
            }
            assert_eq!(pair.server_side.send(), 5);
            let lie = Descriptor { flags: 0, region: 9, len, offset: u32::MAX };
            ring.descriptors().write_all(2, [lie.first_word(), u64::from(lie.offset)]);
            let place = Descriptor { flags: 0, region: 7, len: 60, offset: 0xffff_0000 };
            ring.descriptors().write_all(4, [place.first_word(), u64::from(place.offset)]);
            let wanted: Vec<_> = [0, 1, 3, 4].into_iter().map(|i| frame(i, 60)).collect();
            assert_eq!(pair.client_side.receive(32), wanted, "{how:?} {len}");
            assert_eq!(pair.client_side.drops().get(DropReason::RxDescriptor), 1);
            // An index that jumps.
            ring.tail().store(ring.tail().load().wrapping_add(1000));
            assert!(pair.client_side.receive(32).is_empty());
            assert_eq!(pair.client_side.rx_plug.fault(), Some(Fault::Index));
            pair.check_buffers();
        }
    }
}

/// A server that takes back more than it was given.
#[test]
fn an_index_of_taken_packets_that_jumps_is_a_fault() {
    for how in [How::plain(), How { zero_copy: true, ..How::plain() }] {
        for jump in [1, 64, 65_535] {
            let mut pair = Pair::new(&how);
            let ring = pair.client.attachment(true, 0, None).unwrap().ring;
            ring.tail().store(jump);
            pair.client_side.core.push_frame(&frame(0, 60));
            pair.client_side.send();
            assert_eq!(pair.client_side.tx_plug.fault(), Some(Fault::Index), "{how:?} {jump}");
            assert_eq!(pair.client_side.core.burst.len(), 1);
            let Core { pool, burst, .. } = &mut pair.client_side.core;
            burst.give_back(pool);
            pair.check_buffers();
        }
    }
}
