//! Transmit: descriptor words, completion, refusals.

use std::vec::Vec;

use hal::DescRing;
use hal::hosted::FakeBar;
use kernel::{BLOCK, Buffers, Burst, DropReason, Meta, Packet, Pool, TxQueue};

use super::super::Tx;
use super::Bench;

const EOP: u64 = 1 << 4;
const RS: u64 = 1 << 5;
const ICRC: u64 = 1 << 6;

pub(super) fn queue(bench: &Bench) -> Tx<FakeBar> {
    let count = usize::from(bench.setup.descriptors);
    Tx::new(0, DescRing::new(bench.ring.clone(), count).unwrap(), bench.doorbell(), &bench.setup)
}

/// A burst of one frame for each list of buffer lengths.
fn burst_of(pool: &mut Pool, frames: &[&[u32]]) -> Burst {
    let mut burst = Burst::new();
    for frame in frames {
        for (i, len) in frame.iter().enumerate() {
            let meta = if i + 1 == frame.len() { Meta::frame(*len) } else { Meta::segment(*len) };
            burst.push(Packet { buffer: pool.take().unwrap(), meta }).unwrap();
        }
    }
    burst
}

/// The card sends everything from `head` to the tail: where RS asks for it, the type becomes 0xF.
fn send(bench: &Bench, head: &mut usize) -> Vec<u64> {
    let count = usize::from(bench.setup.descriptors);
    let mut sizes = Vec::new();
    while *head != bench.tails.last() as usize {
        let word = bench.word(*head, 1);
        assert_eq!(word & 0xf, 0, "descriptor {head} is no data descriptor");
        sizes.push(word >> 34 & 0x3fff);
        if word & RS != 0 {
            assert_ne!(word & EOP, 0, "RS without EOP");
            bench.set_word(*head, 1, word | 0xf);
        }
        *head = (*head + 1) % count;
    }
    sizes
}

#[test]
fn descriptor_words_of_a_burst() {
    let mut bench = Bench::new(64, 16, 100);
    let mut tx = queue(&bench);
    let mut burst = burst_of(&mut bench.pool, &[&[60], &[2048, 1000], &[1514]]);
    let buffers = burst.buffers().to_vec();
    assert_eq!(tx.tx_burst(&mut bench.pool, &mut burst), 3);
    assert!(burst.is_empty());
    assert_eq!((bench.tails.last(), bench.tails.count()), (4, 1));
    let base = bench.setup.memory.addr().as_u64();
    for (index, (len, eop)) in [(60, EOP), (2048, 0), (1000, EOP), (1514, EOP)].into_iter().enumerate() {
        assert_eq!(bench.word(index, 0), base + u64::from(buffers[index]));
        assert_eq!(bench.word(index, 1), len << 34 | ICRC | eop);
    }
    assert_eq!((tx.counters().frames, tx.counters().bytes), (3, 60 + 3048 + 1514));
}

#[test]
fn completion_is_asked_for_once_a_block_and_taken_whole() {
    let mut bench = Bench::new(128, 16, 200);
    let mut tx = queue(&bench);
    let (mut head, mut block) = (0, [0; BLOCK]);
    let mut burst = burst_of(&mut bench.pool, &[&[60][..]; 40]);
    let buffers = burst.buffers().to_vec();
    tx.tx_burst(&mut bench.pool, &mut burst);
    let asked: Vec<usize> = (0..40).filter(|i| bench.word(*i, 1) & RS != 0).collect();
    assert_eq!(asked, [31]);
    assert!(!tx.take_sent(&mut block), "nothing is sent yet");
    send(&bench, &mut head);
    assert!(tx.take_sent(&mut block));
    assert_eq!(block[..], buffers[..32]);
    assert!(!tx.take_sent(&mut block), "8 are no block");
}

/// A type other than 0xF is not "done": a context descriptor (1) or a filter program (8) in the slot that is
/// looked at must not free a buffer.
#[test]
fn only_the_done_type_completes() {
    let mut bench = Bench::new(64, 16, 100);
    let mut tx = queue(&bench);
    let mut burst = burst_of(&mut bench.pool, &[&[60][..]; 32]);
    tx.tx_burst(&mut bench.pool, &mut burst);
    for kind in 0..0xf {
        bench.set_word(31, 1, (bench.word(31, 1) & !0xf) | kind);
        assert!(!tx.take_sent(&mut [0; BLOCK]), "type {kind:#x}");
    }
    bench.set_word(31, 1, bench.word(31, 1) | 0xf);
    assert!(tx.take_sent(&mut [0; BLOCK]));
}

/// A full ring keeps one descriptor free, leaves the rest of the burst to the caller, and goes on when the card
/// has sent.
#[test]
fn what_does_not_fit_stays_in_the_burst() {
    let mut bench = Bench::new(64, 16, 200);
    let mut tx = queue(&bench);
    let mut head = 0;
    let mut burst = burst_of(&mut bench.pool, &[&[60][..]; 100]);
    assert_eq!((tx.tx_burst(&mut bench.pool, &mut burst), burst.len()), (63, 37));
    assert_eq!((tx.tx_burst(&mut bench.pool, &mut burst), bench.tails.count()), (0, 1));
    assert_eq!(send(&bench, &mut head).len(), 63);
    assert_eq!((tx.tx_burst(&mut bench.pool, &mut burst), burst.len()), (32, 5));
}

/// Frames of 1 to 8 buffers across every wrap of rings of several sizes: the card sees each frame whole, and every
/// buffer comes back exactly once.
#[test]
fn frames_in_several_buffers_wrap_and_complete() {
    for descriptors in [64, 96, 512] {
        let mut bench = Bench::new(descriptors, 16, 700);
        let mut tx = queue(&bench);
        let mut head = 0;
        for round in 0..400_usize {
            let frame = [64; 8];
            let mut burst = burst_of(&mut bench.pool, &[&frame[..1 + round % 8], &frame[..1 + round % 3]]);
            let entries = burst.len();
            assert_eq!(tx.tx_burst(&mut bench.pool, &mut burst), 2, "ring {descriptors} round {round}");
            assert_eq!(send(&bench, &mut head).len(), entries);
        }
        let unsent = tx.release(head, &mut bench.pool);
        assert_eq!((unsent.frames, unsent.bytes), (0, 0));
        assert_eq!((bench.pool.available(), bench.pool.excess()), (700, 0));
    }
}

/// Each of these stops the queue of a real card.
#[test]
fn illegal_shapes_never_reach_the_ring() {
    use DropReason::{TxBuffer, TxSegments, TxTooLong, TxTooShort};
    let nine = [64; 9];
    for (frame, refused) in [
        (&[16][..], Some(TxTooShort)),
        (&[8, 8], Some(TxTooShort)),
        (&[17], None),
        (&[2048, 2048, 2048, 2048, 1536], None),
        (&[2048, 2048, 2048, 2048, 1537], Some(TxTooLong)),
        (&nine[..8], None),
        (&nine, Some(TxSegments)),
        (&[60, 0, 60], Some(TxBuffer)),
        (&[60, 0], Some(TxBuffer)),
    ] {
        let mut bench = Bench::new(64, 16, 20);
        let mut tx = queue(&bench);
        let mut burst = burst_of(&mut bench.pool, &[frame, &[60]]);
        let sent = tx.tx_burst(&mut bench.pool, &mut burst);
        assert_eq!(sent, 1 + usize::from(refused.is_none()), "{frame:?}");
        let drops = tx.drops();
        assert_eq!(drops.total(), u64::from(refused.is_some()));
        assert_eq!(refused.map_or(1, |reason| drops.get(reason)), 1, "{frame:?}");
        let held = if refused.is_some() { 1 } else { 1 + frame.len() };
        assert_eq!(bench.pool.available(), 20 - held);
    }
}

#[test]
fn a_buffer_outside_of_the_packet_memory_is_refused() {
    let mut bench = Bench::new(64, 16, 20);
    let mut tx = queue(&bench);
    let mut burst = Burst::new();
    let end = bench.setup.memory.len() as u32;
    for buffer in [end - 59, end, u32::MAX] {
        burst.push(Packet { buffer, meta: Meta::frame(60) }).unwrap();
    }
    assert_eq!(tx.tx_burst(&mut bench.pool, &mut burst), 0);
    assert_eq!((tx.drops().get(DropReason::TxBuffer), bench.tails.count()), (3, 0));
}

/// A link that is down: what the card did not send is told frame by frame, and every buffer is back.
#[test]
fn a_stop_tells_what_was_not_sent() {
    for sent in 0..=3 {
        let mut bench = Bench::new(64, 16, 20);
        let mut tx = queue(&bench);
        let mut burst = burst_of(&mut bench.pool, &[&[60], &[2048, 100], &[61]]);
        tx.tx_burst(&mut bench.pool, &mut burst);
        let head = [0, 1, 3, 4][sent];
        let unsent = tx.release(head, &mut bench.pool);
        assert_eq!((unsent.frames, unsent.bytes), [(3, 2269), (2, 2209), (1, 61), (0, 0)][sent]);
        assert_eq!(bench.pool.available(), 20);
    }
}

/// What the card has passed and not marked is told; without its register the marks say where its head is.
#[test]
fn a_mark_that_is_missing_is_told() {
    let mut bench = Bench::new(128, 16, 200);
    let mut tx = queue(&bench);
    let mut burst = burst_of(&mut bench.pool, &[&[60][..]; 100]);
    tx.tx_burst(&mut bench.pool, &mut burst);
    assert_eq!(
        [0, 31, 32, 100, 101, 8191].map(|head| tx.unmarked(head)),
        [None, None, Some(31), Some(31), None, None]
    );
    assert_eq!(tx.marked_head(), 0);
    bench.set_word(31, 1, bench.word(31, 1) | 0xf);
    assert_eq!((tx.unmarked(64), tx.marked_head()), (None, 32));
    bench.set_word(95, 1, bench.word(95, 1) | 0xf);
    assert_eq!(tx.marked_head(), 32, "a block behind one that is not done does not count");
    bench.set_word(63, 1, bench.word(63, 1) | 0xf);
    assert_eq!(tx.marked_head(), 96);
    assert_eq!(tx.release(96, &mut bench.pool).frames, 4);
    assert_eq!((bench.pool.available(), bench.pool.excess()), (200, 0));
}
