//! Frames of every kind, both ways, by every way of copying.

use super::*;
use kernel::DropReason;

/// Lengths around everything that could matter.
fn lengths() -> Vec<usize> {
    let mut lengths: Vec<usize> =
        vec![1, 13, 14, 16, 17, 59, 60, 63, 64, 65, 66, 122, 127, 128, 129, 1500, 1518];
    for edge in [1024, 2048, 4096, 6144, 8192] {
        lengths.extend([edge - 1, edge, edge + 1]);
    }
    lengths.extend([100, 200, 9000, 9727, 9728]);
    lengths
}

fn exchange(from: &mut Side1, to: &mut Side1, frames: &[Vec<u8>]) {
    let mut waiting = frames.iter();
    let mut arrived = Vec::new();
    let mut next = waiting.next();
    for _ in 0..100_000 {
        while let Some(frame) = next {
            if from.core.burst.room() < 8 || from.core.pool.available() < 100 {
                break;
            }
            from.core.push_frame(frame);
            next = waiting.next();
        }
        from.send();
        arrived.extend(to.receive(32));
        if next.is_none() && from.core.burst.is_empty() && arrived.len() >= frames.len() {
            break;
        }
    }
    assert_eq!(arrived.len(), frames.len());
    for (number, (got, sent)) in arrived.iter().zip(frames).enumerate() {
        assert!(got == sent, "frame {number} of {} bytes came as {}", sent.len(), got.len());
    }
}

#[test]
fn every_length_comes_as_it_went_both_ways() {
    for how in How::all() {
        let mut pair = Pair::new(&how);
        // Twice around the ring, so that each length meets other descriptors.
        let most = if how.zero_copy { 9728 } else { how.buffer as usize * 64 };
        let lengths: Vec<usize> = lengths().into_iter().filter(|len| *len <= most).collect();
        let frames: Vec<Vec<u8>> =
            (0..7 * lengths.len()).map(|i| frame(i, lengths[i % lengths.len()])).collect();
        exchange(&mut pair.client_side, &mut pair.server_side, &frames);
        exchange(&mut pair.server_side, &mut pair.client_side, &frames);
        let bytes = frames.iter().map(|frame| frame.len() as u64).sum::<u64>();
        let wanted = kernel::port::QueueCounters { frames: frames.len() as u64, bytes };
        for side in [&pair.client_side, &pair.server_side] {
            assert_eq!((side.rx.counters(), side.tx.counters()), (wanted, wanted), "{how:?}");
            assert_eq!(side.drops().total(), 0, "{how:?}");
        }
        pair.check_buffers();
    }
}

/// B06: each piece has its own length, and all of them arrive.
#[test]
fn small_pieces_make_one_frame() {
    for how in How::all() {
        let mut pair = Pair::new(&how);
        let whole = frame(5, 180);
        let pieces: Vec<&[u8]> = whole.chunks(60).collect();
        pair.client_side.core.push(&pieces);
        pair.server_side.core.push(&pieces);
        assert_eq!((pair.client_side.send(), pair.server_side.send()), (1, 1));
        assert_eq!(pair.server_side.receive(32), core::slice::from_ref(&whole), "{how:?}");
        assert_eq!(pair.client_side.receive(32), [whole], "{how:?}");
        pair.check_buffers();
    }
}

/// B06: a frame of exact buffers has no empty descriptor behind it, and NEXT in all but its last.
#[test]
fn descriptors_of_a_chain_add_up() {
    for buffer in [1024_u32, 2048] {
        let mut pair = Pair::new(&How { buffer, ..How::plain() });
        for len in (1..=4 * buffer as usize).step_by(509).chain([1024, 2048, 4096]) {
            let ring = pair.client.attachment(true, 0, None).unwrap().ring;
            let before = ring.head().load();
            pair.client_side.core.push_frame(&frame(1, len));
            assert_eq!(pair.client_side.send(), 1);
            let slots = ring.head().load().wrapping_sub(before);
            assert_eq!(usize::from(slots), len.div_ceil(buffer as usize), "{len}");
            let chain: Vec<_> = (0..slots).map(|i| ring.descriptor(before.wrapping_add(i))).collect();
            assert_eq!(chain.iter().map(|descriptor| descriptor.len as usize).sum::<usize>(), len);
            assert!(chain.iter().all(|descriptor| descriptor.len > 0));
            let (last, others) = chain.split_last().unwrap();
            assert!(last.flags == 0 && others.iter().all(|descriptor| descriptor.flags == ring::NEXT));
            assert_eq!(pair.server_side.receive(1), [frame(1, len)]);
        }
    }
}

/// B05, and every size of ring: a burst that is longer than the ring goes in part, and the rest stays.
#[test]
fn bursts_of_every_size_through_rings_of_every_size() {
    for log2_size in 1..=14 {
        for zero_copy in [false, true] {
            let buffer = if log2_size > 11 { 128 } else { 1024 };
            let how = How { log2_size, zero_copy, buffer, buffers: 1600, ..How::plain() };
            if zero_copy && log2_size > 9 {
                continue;
            }
            let mut pair = Pair::new(&how);
            for burst in [1, 2, 31, 32, 33, 255, 256, 257, 512] {
                for i in 0..burst {
                    pair.client_side.core.push_frame(&frame(i, 60 + i % 40));
                }
                let mut arrived = Vec::new();
                while arrived.len() < burst {
                    let sent = pair.client_side.send();
                    assert_eq!(sent, (burst - arrived.len()).min(1 << log2_size), "{log2_size} {burst}");
                    arrived.extend(pair.server_side.receive(512));
                }
                let wanted: Vec<_> = (0..burst).map(|i| frame(i, 60 + i % 40)).collect();
                assert!(arrived == wanted, "{log2_size} {burst}");
            }
            pair.check_buffers();
        }
    }
}

#[test]
fn an_empty_pool_loses_nothing() {
    for how in How::all() {
        let mut pair = Pair::new(&how);
        let mut kept = Vec::new();
        while let Some(buffer) = pair.server_side.core.pool.take() {
            kept.push(buffer);
        }
        for i in 0..20 {
            pair.client_side.core.push_frame(&frame(i, 300));
        }
        pair.client_side.send();
        assert!(pair.server_side.receive(32).is_empty());
        // One buffer, then all of them.
        pair.server_side.core.pool.give(&kept.split_off(kept.len() - 1));
        let mut arrived = pair.server_side.receive(32);
        assert_eq!(arrived.len(), 1, "{how:?}");
        pair.server_side.core.pool.give(&kept);
        for _ in 0..20 {
            pair.client_side.send();
            arrived.extend(pair.server_side.receive(32));
        }
        assert!(arrived == (0..20).map(|i| frame(i, 300)).collect::<Vec<_>>());
        pair.check_buffers();
    }
}

#[test]
fn nothing_of_what_lay_behind_a_packet_reaches_the_peer() {
    for how in How::all().into_iter().filter(|how| !how.zero_copy) {
        let mut pair = Pair::new(&how);
        pair.client_side.core.pool.memory().fill(0x5e);
        pair.server_side.core.pool.memory().fill(0x5e);
        let ways =
            [(true, pair.client.attachment(true, 0, None)), (false, pair.client.attachment(false, 0, None))];
        for (way, attachment) in ways {
            let ring = attachment.unwrap().ring;
            let before = if way { ring.head().load() } else { ring.tail().load() };
            let side = if way { &mut pair.client_side } else { &mut pair.server_side };
            side.core.push_frame(&[1; 70]);
            side.send();
            let descriptor = ring.descriptor(before);
            let mut line = [0; 128];
            pair.region.copy_out(descriptor.offset as usize, &mut line).unwrap();
            assert!(line[..70].iter().all(|byte| *byte == 1));
            assert!(line[70..].iter().all(|byte| *byte == 0), "{how:?} {line:x?}");
        }
    }
}

/// A link that is down takes frames under a name; one that comes again starts from nothing (B07).
#[test]
fn connections_come_and_go() {
    for how in [How::plain(), How { zero_copy: true, ..How::plain() }] {
        let mut pair = Pair::new(&how);
        let mut lost = 0;
        for round in 0..100 {
            let count = 1 + round * 7 % 60;
            for i in 0..count {
                pair.client_side.core.push_frame(&frame(i, 60 + round));
                pair.server_side.core.push_frame(&frame(i, 70 + round));
            }
            pair.client_side.send();
            pair.server_side.send();
            if round % 3 > 0 {
                let wanted: Vec<_> = (0..count).map(|i| frame(i, 60 + round)).collect();
                assert!(pair.server_side.receive(512) == wanted, "{round}");
                assert_eq!(pair.client_side.receive(512).len(), count);
            }
            pair.disconnect();
            pair.client_side.core.push_frame(&frame(0, 60));
            assert_eq!(pair.client_side.send(), 0);
            assert!(pair.client_side.core.burst.is_empty());
            lost += 1;
            assert_eq!(pair.client_side.drops().get(DropReason::TxLinkDown), lost);
            assert!(pair.server_side.receive(32).is_empty());
            pair.connect();
        }
        pair.check_buffers();
    }
}
