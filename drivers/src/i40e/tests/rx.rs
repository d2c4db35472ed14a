//! Receive: what is handed out, in what order, and what is armed.

use std::collections::BTreeSet;
use std::vec::Vec;

use hal::DescRing;
use hal::hosted::FakeBar;
use hal::simd::{Isa, Level};
use kernel::{Burst, DropReason, Packet, RxQueue};

use super::super::Rx;
use super::Bench;

const DD: u64 = 1;
const EOF: u64 = 2;

pub(super) fn queue(bench: &Bench) -> Rx<FakeBar> {
    let count = usize::from(bench.setup.descriptors);
    match bench.stride {
        16 => {
            Rx::narrow(0, DescRing::new(bench.ring.clone(), count).unwrap(), bench.doorbell(), &bench.setup)
        }
        _ => Rx::wide(0, DescRing::new(bench.ring.clone(), count).unwrap(), bench.doorbell(), &bench.setup),
    }
}

/// The card finishes descriptor `index` with `len` bytes: hash first, then the quadword with DD.
fn finish(bench: &Bench, index: usize, len: u64, flags: u64) {
    bench.set_word(index, 0, 0xabcd_0000_0000_ffff + ((index as u64) << 32));
    bench.set_word(index, 1, len << 38 | flags | DD);
}

fn take_all(burst: &mut Burst) -> Vec<Packet> {
    core::iter::from_fn(|| burst.pop()).collect()
}

/// Rings of every size that can be asked for, both widths: addresses are those of distinct buffers, one block
/// stays unarmed, and the tail says so.
#[test]
fn a_fresh_ring_is_armed_but_for_one_block() {
    for descriptors in (64..=4096).step_by(32) {
        for stride in [16, 32] {
            let mut bench = Bench::new(descriptors, stride, 4200);
            let mut rx = queue(&bench);
            rx.arm(&mut bench.pool);
            let armed = usize::from(descriptors) - 32;
            let base = bench.setup.memory.addr().as_u64();
            let addrs: BTreeSet<u64> = (0..armed).map(|i| bench.word(i, 0)).collect();
            assert_eq!(addrs.len(), armed);
            assert!(addrs.iter().all(|addr| (addr - base) % 2176 == 128));
            assert!((0..armed).all(|i| bench.word(i, 1) == 0));
            assert_eq!((bench.tails.last() as usize, bench.tails.count()), (armed, 1));
            assert_eq!(bench.pool.available(), 4200 - armed);
        }
    }
}

/// Three laps of numbered frames for each burst limit: order, lengths and hash are kept, and no buffer is lost.
#[test]
fn frames_come_in_order_lap_after_lap() {
    for stride in [16, 32] {
        for limit in [1, 3, 4, 5, 31, 32, 33, 64, 512] {
            let mut bench = Bench::new(96, stride, 300);
            let mut rx = queue(&bench);
            rx.arm(&mut bench.pool);
            let mut burst = Burst::new();
            let (mut written, mut read) = (0_usize, 0_usize);
            while read < 3 * 96 {
                // The card has up to the tail, and takes an odd number at a time.
                let owned = (bench.tails.last() as usize + 96 - written % 96) % 96;
                for _ in 0..owned.min(17) {
                    finish(&bench, written % 96, 60 + (written % 1400) as u64, EOF);
                    written += 1;
                }
                let frames = rx.rx_burst(&mut bench.pool, &mut burst, limit);
                assert!(frames <= limit && frames == burst.len());
                for packet in take_all(&mut burst) {
                    let (len, hash) = (60 + (read % 1400) as u32, 0xabcd_0000 + (read % 96) as u32);
                    assert_eq!(
                        (packet.meta.len(), (packet.meta.lo >> 32) as u32, packet.meta.start()),
                        (len, hash, 0)
                    );
                    kernel::Buffers::give(&mut bench.pool, &[packet.buffer]);
                    read += 1;
                }
            }
            assert_eq!(rx.counters().frames as usize, read);
            rx.release(&mut bench.pool);
            assert_eq!((bench.pool.available(), bench.pool.excess()), (300, 0));
        }
    }
}

/// Completion marks 0, 2, 1, 3: nothing behind the first that is missing is handed out.
#[test]
fn a_hole_in_the_completion_marks_holds_back_what_is_behind_it() {
    let mut bench = Bench::new(64, 32, 100);
    let mut rx = queue(&bench);
    rx.arm(&mut bench.pool);
    let mut burst = Burst::new();
    for (index, handed_out) in [(0, 1), (2, 0), (1, 2), (3, 1)] {
        finish(&bench, index, 60, EOF);
        assert_eq!(rx.rx_burst(&mut bench.pool, &mut burst, 32), handed_out, "after {index}");
    }
    let hashes: Vec<u32> = burst.metas().iter().map(|meta| (meta.lo >> 32) as u32 & 0xffff).collect();
    assert_eq!(hashes, [0, 1, 2, 3]);
}

/// A descriptor that was handed out still bears DD; with an empty pool it is not armed again and must not be
/// handed out twice.
#[test]
fn an_empty_pool_stops_the_ring_and_a_filled_one_starts_it() {
    let mut bench = Bench::new(64, 16, 32);
    let mut rx = queue(&bench);
    rx.arm(&mut bench.pool);
    (0..64).for_each(|i| finish(&bench, i, 60, EOF));
    let mut burst = Burst::new();
    assert_eq!(rx.rx_burst(&mut bench.pool, &mut burst, 512), 32);
    for _ in 0..3 {
        assert_eq!(rx.rx_burst(&mut bench.pool, &mut burst, 512), 0);
    }
    burst.give_back(&mut bench.pool);
    assert_eq!(rx.rx_burst(&mut bench.pool, &mut burst, 512), 0);
    assert_eq!((bench.tails.last(), bench.pool.available()), (0, 0));
    finish(&bench, 32, 61, EOF);
    assert_eq!(rx.rx_burst(&mut bench.pool, &mut burst, 512), 1);
}

#[test]
fn a_frame_in_five_buffers_is_handed_out_whole() {
    let mut bench = Bench::new(64, 32, 100);
    let mut rx = queue(&bench);
    rx.arm(&mut bench.pool);
    let mut burst = Burst::new();
    for index in 0..4 {
        finish(&bench, index, 2048, 0);
        assert_eq!(rx.rx_burst(&mut bench.pool, &mut burst, 32), 0);
    }
    finish(&bench, 4, 1536, EOF);
    assert_eq!(rx.rx_burst(&mut bench.pool, &mut burst, 1), 1);
    let lens: Vec<u32> = burst.metas().iter().map(|meta| meta.len()).collect();
    assert_eq!((lens, burst.frames()), ([2048, 2048, 2048, 2048, 1536].to_vec(), 1));
    assert_eq!(rx.counters().bytes, 9728);
}

/// What is no good frame is dropped once, under its name, and what follows is handed out.
#[test]
fn bad_frames_are_dropped_under_a_name() {
    Level::ALL.into_iter().filter_map(Isa::exactly).for_each(drops_bad_frames);
}

fn drops_bad_frames(isa: Isa) {
    const RXE: u64 = 1 << 19;
    const OVERSIZE: u64 = 1 << 25;
    let mut bench = Bench::with_isa(64, 32, 200, isa);
    let mut rx = queue(&bench);
    rx.arm(&mut bench.pool);
    let mut burst = Burst::new();
    finish(&bench, 0, 60, EOF | RXE);
    finish(&bench, 1, 60, EOF | OVERSIZE);
    finish(&bench, 2, 0, EOF);
    finish(&bench, 3, 2049, EOF);
    finish(&bench, 4, 64, EOF);
    // A length of 0 is waited for, but not for ever.
    let polls = (1..100_000).find(|_| rx.rx_burst(&mut bench.pool, &mut burst, 32) == 1);
    assert!(polls.is_some_and(|polls| polls > 10_000));
    assert_eq!((rx.drops().get(DropReason::RxError), rx.drops().total()), (4, 4));
    // A frame of 7 buffers: 5, then the rest, which is no second frame.
    (5..11).for_each(|i| finish(&bench, i, 2048, 0));
    finish(&bench, 11, 100, EOF);
    finish(&bench, 12, 65, EOF);
    assert_eq!(rx.rx_burst(&mut bench.pool, &mut burst, 32), 1);
    assert_eq!((rx.drops().get(DropReason::RxSegments), rx.drops().total()), (1, 5));
    let lens: Vec<u32> = burst.metas().iter().map(|meta| meta.len()).collect();
    assert_eq!(lens, [64, 65]);
    assert_eq!(rx.counters().frames, 7);
    burst.give_back(&mut bench.pool);
    rx.release(&mut bench.pool);
    assert_eq!((bench.pool.available(), bench.pool.excess()), (200, 0));
}

/// A card that claims a header length or a programming status can't move the start of a frame.
#[test]
fn the_header_field_of_a_write_back_is_not_believed() {
    let mut bench = Bench::new(64, 16, 100);
    let mut rx = queue(&bench);
    rx.arm(&mut bench.pool);
    finish(&bench, 0, 60, EOF | 0xfff << 52);
    let mut burst = Burst::new();
    assert_eq!(rx.rx_burst(&mut bench.pool, &mut burst, 32), 1);
    assert_eq!((burst.metas()[0].start(), burst.metas()[0].hi >> 63), (0, 0));
}

/// Stopped between two buffers of a frame, lap after lap: every buffer is back each time, and whole frames that
/// nobody fetched are told.
#[test]
fn a_stop_gives_every_buffer_back() {
    for lap in 0..100_usize {
        let mut bench = Bench::new(64, 32, 100);
        let mut rx = queue(&bench);
        rx.arm(&mut bench.pool);
        let whole = lap % 20;
        (0..whole).for_each(|i| finish(&bench, i, 60, EOF));
        finish(&bench, whole, 2048, 0);
        let left = rx.release(&mut bench.pool);
        assert_eq!((left.frames, left.bytes), (whole as u64, 60 * whole as u64));
        assert_eq!((bench.pool.available(), bench.pool.excess()), (100, 0));
    }
}

/// A descriptor that holds up others is told, and they are counted when the queue is stopped.
#[test]
fn a_hole_is_told_and_what_is_behind_it_is_counted() {
    let mut bench = Bench::new(64, 32, 100);
    let mut rx = queue(&bench);
    rx.arm(&mut bench.pool);
    assert_eq!(rx.hole(), None);
    [0, 1, 3, 4].into_iter().for_each(|i| finish(&bench, i, 60, EOF));
    assert_eq!(rx.hole(), Some(2));
    let mut burst = Burst::new();
    assert_eq!(rx.rx_burst(&mut bench.pool, &mut burst, 32), 2);
    assert_eq!(rx.hole(), Some(2));
    burst.give_back(&mut bench.pool);
    assert_eq!(rx.release(&mut bench.pool).frames, 2);
    assert_eq!((bench.pool.available(), bench.pool.excess()), (100, 0));
}
