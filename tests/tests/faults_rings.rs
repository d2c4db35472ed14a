//! Rings under faults: completion marks late, torn, out of order and missing, and what a card must not be given.

use drivers::i40e::Trouble;
use kernel::port::{PortControl, QueueSetup};
use kernel::{BufferLayout, Buffers, Burst, DropReason, Meta, Packet, RxQueue, TxQueue};
use rig::faulty::{FaultyPort, Shape};
use rig::frames;
use rig::machine::full;

/// Both widths of receive descriptors.
const WIDTHS: [bool; 2] = [false, true];

fn numbered(range: std::ops::Range<u32>) -> Vec<Vec<u8>> {
    range.map(|n| frames::numbered(n, 60 + n as usize % 1000)).collect()
}

/// B24: while the card has not finished, types 0, 1 and 8 stand where "done" is looked for; the card reads descriptors
/// and buffers late, and finds them as they were at the doorbell.
#[test]
fn b24_sent_means_type_15_and_nothing_else() {
    let script = "tx-writeback torn 3 times always\n tx-fetch late 40\n after 300 frames tx-fetch late 60";
    let mut port = FaultyPort::with(Shape { txd: 1056, ..Shape::default() }, script);
    port.pass(&numbered(0..1000));
    port.finish();
}

/// B29: four marks in the order 0, 2, 1, 3, and marks in pieces, with pauses between: frames come out in order, whole,
/// with nothing dropped.
#[test]
fn b29_write_backs_out_of_order_and_in_pieces() {
    for wide in WIDTHS {
        for how in ["swapped 1", "swapped 7", "torn 1", "torn 40", "late 3"] {
            let mut port = FaultyPort::with(Shape { wide, ..Shape::default() }, "");
            port.play(&format!("after 100 frames rx-writeback {how} times 200"));
            port.pass(&numbered(0..1000));
            assert_eq!(port.core.streams[0].all_drops().total(), 0);
            assert_eq!(port.look(), []);
            port.finish();
        }
    }
}
/// B30: a queue is stopped in the middle of a frame of 9000 bytes, two of its five buffers done, lap after lap.
#[test]
fn b30_a_stop_within_a_frame_keeps_no_buffer() {
    let shape = Shape { rxd: 64, txd: 64, ..Shape::default() };
    let mut port = FaultyPort::with(shape, "");
    for lap in 0..if full() { 10_000 } else { 500 } {
        port.play("rx-writeback missing skip 2 times 3");
        let offered = [frames::numbered(lap, 9000)];
        assert_eq!(port.exchange(&offered).len(), 0);
        port.check_buffers();
        port.start_queues().unwrap();
    }
    // A stop waits for marks that are only late: the frame is whole then, and is told.
    port.play("rx-writeback late 100000 skip 2 times 3");
    port.port.wire.offer(frames::numbered(0, 9000));
    for _ in 0..5 {
        port.round();
    }
    let [left, _] = port.stop_queues();
    assert_eq!((left.frames, left.bytes), (1, 9000));
    port.start_queues().unwrap();
    port.finish();
}

/// The register of the card's head holds no index of the ring: the stop counts no more than was in it, and nothing is
/// called stuck.
#[test]
fn a_transmit_head_that_is_no_index_of_the_ring() {
    for head in ["256", "8191", "0xffffffff"] {
        let mut port = FaultyPort::start("");
        port.pass(&numbered(0..100));
        port.play(&format!("register 0x0e4000 reads {head}"));
        assert_eq!(port.look(), []);
        let [_, unsent] = port.stop_queues();
        assert!(unsent.frames <= 100, "{unsent:?}");
        port.start_queues().unwrap();
        port.finish();
    }
}

/// Sent frames of which the card tells late, and in groups out of order: nothing is lost once there is room for what
/// is under way.
#[test]
fn transmit_marks_may_be_late_and_out_of_order() {
    for how in ["late 1", "late 30", "swapped 1", "swapped 9", "torn 5"] {
        let mut port = FaultyPort::with(Shape { txd: 1056, ..Shape::default() }, "");
        port.play(&format!("after 100 frames tx-writeback {how} times 20"));
        port.pass(&numbered(0..1000));
        assert_eq!(port.look(), []);
        port.finish();
    }
}

/// A receive mark that never comes holds up what lies behind it: told by its name, and over with stop and start. What
/// was behind it is told by the stop.
#[test]
fn a_receive_mark_that_never_comes_is_told() {
    for wide in WIDTHS {
        let mut port = FaultyPort::with(Shape { wide, ..Shape::default() }, "");
        port.play("rx-writeback missing skip 40");
        let offered = numbered(0..100);
        assert_eq!(port.exchange(&offered), offered[..40]);
        assert_eq!(port.look(), [Trouble::RxStuck { queue: 0, descriptor: 40 }]);
        let [left, _] = port.stop_queues();
        assert_eq!(left.frames, 59);
        port.start_queues().unwrap();
        assert_eq!(port.look(), []);
        port.was_told("receive queue 0 is stuck: descriptor 40 is not done, others behind it are");
        port.finish();
    }
}

/// The same for transmit: the ring fills up, and the frames that don't fit are dropped under their name meanwhile.
#[test]
fn a_transmit_mark_that_never_comes_is_told() {
    let mut port = FaultyPort::start("");
    port.play("tx-writeback missing skip 1");
    let back = port.exchange(&numbered(0..1000));
    assert!((255..300).contains(&back.len()), "{}", back.len());
    let stream = &port.core.streams[0];
    assert_eq!(stream.drops.get(DropReason::TxFull), 1000 - back.len() as u64);
    assert_eq!(port.look(), [Trouble::TxStuck { queue: 0, descriptor: 63 }]);
    let [_, unsent] = port.stop_queues();
    assert_eq!(unsent.frames, 0);
    port.start_queues().unwrap();
    port.was_told("transmit queue 0 is stuck: descriptor 63 was sent and is not done");
    port.finish();
}

/// Marks that are only late are no trouble, however often one looks.
#[test]
fn what_is_late_is_not_called_stuck() {
    let mut port = FaultyPort::start("");
    port.play("rx-writeback swapped 4 times always\n tx-writeback late 20 times always");
    for lap in 0..50 {
        numbered(lap * 20..lap * 20 + 20).into_iter().for_each(|frame| port.port.wire.offer(frame));
        while port.port.card().is_busy() || port.port.wire.waiting() > 0 {
            port.round();
            assert_eq!(port.look(), []);
        }
        port.settle();
    }
    assert_eq!((port.port.wire.take().len(), port.told.len()), (1000, 0));
    port.finish();
}

/// The card finds no receive descriptor for a while: frames wait on a lossless wire, and are counted as missed on one
/// that loses; then all goes on.
#[test]
fn a_receive_ring_that_is_empty_for_a_while() {
    let mut port = FaultyPort::start("after 300 frames rx-ring empty 50");
    port.pass(&numbered(0..200));
    port.pass(&numbered(0..200));
    port.port.wire.lose_frames();
    port.play("rx-ring empty 50");
    assert_eq!(port.exchange(&numbered(0..100)).len(), 0);
    assert_eq!(port.driver.stats().rx_missed, 100);
    port.finish();
}

/// B25: what stops a real card's queue never reaches it, each shape is dropped under its name, and the queue goes on.
#[test]
fn b25_illegal_shapes_are_dropped_by_name_and_the_queue_goes_on() {
    use DropReason::{TxBuffer, TxSegments, TxTooLong, TxTooShort};
    let shapes: [(&[u32], Option<DropReason>); 13] = [
        (&[14], Some(TxTooShort)),
        (&[16], Some(TxTooShort)),
        (&[17], None),
        (&[8, 8], Some(TxTooShort)),
        (&[1, 16], None),
        (&[1940, 1940, 1940, 1940, 1968], None),
        (&[1940, 1940, 1940, 1940, 1969], Some(TxTooLong)),
        (&[16383], Some(TxTooLong)),
        (&[100; 8], None),
        (&[100; 9], Some(TxSegments)),
        (&[0], Some(TxBuffer)),
        (&[60, 0], Some(TxBuffer)),
        (&[0, 60], Some(TxBuffer)),
    ];
    let mut port = FaultyPort::start("");
    let core = &mut port.core;
    let mut want = Vec::new();
    for (sizes, reason) in shapes.iter().cycle().take(20 * shapes.len()) {
        let mut burst = Burst::new();
        for (i, size) in sizes.iter().enumerate() {
            let meta = if i + 1 == sizes.len() { Meta::frame(*size) } else { Meta::segment(*size) };
            burst.push(Packet { buffer: core.pool.take().unwrap(), meta }).unwrap();
        }
        let tx = &mut core.streams[0].tx;
        let before = reason.map_or(0, |reason| tx.drops().get(reason));
        let sent = tx.tx_burst(&mut core.pool, &mut burst);
        assert!(burst.is_empty(), "{sizes:?}");
        match reason {
            Some(reason) => assert_eq!((sent, tx.drops().get(*reason)), (0, before + 1), "{sizes:?}"),
            None => want.push(sizes.iter().sum::<u32>().max(60)),
        }
    }
    let lengths: Vec<u32> = port.port.wire.take().iter().map(|frame| frame.len() as u32).collect();
    assert_eq!(lengths, want);
    // These frames were never received, so the stream's own account does not hold; the next one's does.
    let stream = port.core.streams.pop().unwrap();
    port.driver.stop_rx(stream.rx, &mut port.core.pool).unwrap();
    assert_eq!(port.driver.stop_tx(stream.tx, &mut port.core.pool).unwrap().frames, 0);
    port.start_queues().unwrap();
    port.finish();
}

/// B26: buffers of every size that the card can be told: it fills them to the last byte and not one further. Sizes
/// that are no multiple of the card's unit, or beyond its field, are refused.
#[test]
fn b26_the_card_fills_a_buffer_and_nothing_behind_it() {
    const GUARD: u8 = 0xa5;
    for room in [2048_u32, 2176, 4096, 9728, 16256] {
        let layout = BufferLayout { stride: room + 256, headroom: 128, room };
        let shape = Shape { rxd: 64, txd: 64, layout, ..Shape::default() };
        let mut port = FaultyPort::with(shape, "");
        let memory = port.core.pool.memory().clone();
        memory.fill(GUARD);
        let longest = room.min(9728) as usize;
        let offered: Vec<_> = (0..100).map(|n| frames::numbered(n, longest - n as usize % 2)).collect();
        for chunk in offered.chunks(20) {
            port.pass(chunk);
            port.pass(&[frames::numbered(1, 9728)]);
        }
        let mut full_ones = 0;
        for slot in 0..port.core.pool.capacity() {
            let mut bytes = vec![0; layout.stride as usize];
            memory.copy_out(slot * layout.stride as usize, &mut bytes).unwrap();
            let (front, rest) = bytes.split_at(layout.headroom as usize);
            let (data, back) = rest.split_at(room as usize);
            assert!(front.iter().chain(back).all(|byte| *byte == GUARD), "buffer {slot} of {room} bytes");
            full_ones += usize::from(data.iter().any(|byte| *byte != GUARD));
        }
        assert!(full_ones > 32, "{full_ones}");
        for wrong in [2047, 2100, 16384, 16257, 1920] {
            let setup = QueueSetup { layout: BufferLayout { room: wrong, ..layout }, ..port.setup(64) };
            let error = port.driver.start_rx(1, &setup, &mut port.core.pool).err().unwrap().to_string();
            assert_eq!(error, format!("queue setup: the size of a buffer can't be {wrong}"));
        }
        port.finish();
    }
}

/// B27, as far as scalar loops go: every ring size that there is, three laps of numbered frames.
#[test]
fn b27_every_ring_size_for_three_laps() {
    for wide in WIDTHS {
        let step = if full() { 1 } else { 3 };
        for size in (64..=4096_u16).step_by(32).step_by(step) {
            let mut port = FaultyPort::with(Shape { wide, rxd: size, txd: size, ..Shape::default() }, "");
            let offered: Vec<_> = (0..3 * u32::from(size)).map(|n| frames::numbered(n, 60)).collect();
            for chunk in offered.chunks(usize::from(size) - 32) {
                port.pass(chunk);
            }
            assert_eq!(port.core.streams[0].rx.counters().frames, offered.len() as u64);
            match size {
                64 | 544 | 1024 | 4096 => port.finish(),
                _ => port.check_buffers(),
            }
        }
    }
}

/// B28, as far as scalar loops go: a poll hands out as many frames as it may and there are, and keeps the rest.
#[test]
fn b28_no_more_than_the_callers_burst() {
    let mut port = FaultyPort::with(Shape { rxd: 1024, txd: 64, ..Shape::default() }, "");
    let mut next = 0;
    for limit in 1..=512_usize {
        let waiting = limit + limit % 7;
        let offered: Vec<_> = (0..waiting as u32).map(|n| frames::numbered(next + n, 60)).collect();
        offered.iter().for_each(|frame| port.port.wire.offer(frame.clone()));
        port.port.card().pump();
        let core = &mut port.core;
        for want in [limit, limit % 7] {
            let mut burst = Burst::new();
            let got = core.streams[0].rx.rx_burst(&mut core.pool, &mut burst, limit);
            assert_eq!((got, burst.frames()), (want, want), "limit {limit}");
            for buffer in burst.buffers() {
                let mut frame = [0; 60];
                core.pool.memory().copy_out(*buffer as usize, &mut frame).unwrap();
                assert!(frame[..] == frames::numbered(next, 60), "frame {next}");
                next += 1;
            }
            burst.give_back(&mut core.pool);
        }
    }
    let stream = port.core.streams.pop().unwrap();
    assert_eq!(stream.rx.counters().frames, u64::from(next));
    port.driver.stop_rx(stream.rx, &mut port.core.pool).unwrap();
    port.driver.stop_tx(stream.tx, &mut port.core.pool).unwrap();
    port.start_queues().unwrap();
    port.finish();
}

/// B23's analogue: functions with other numbers of queues than 128, and with queues that don't begin at the card's
/// first.
#[test]
fn b23_other_numbers_of_queues() {
    for queues in [1, 2, 3, 5, 16, 63, 64, 65, 100, 129, 1536] {
        let mut port = FaultyPort::start(&format!("queues {queues}"));
        let usable = 1 << u32::ilog2(queues).min(6);
        let (last, beyond) = (usable as u16 - 1, usable as u16);
        let setup = port.setup(64);
        if last > 0 {
            let rx = port.driver.start_rx(last, &setup, &mut port.core.pool).unwrap();
            port.driver.stop_rx(rx, &mut port.core.pool).unwrap();
        }
        let error = port.driver.start_tx(beyond, &setup).err().unwrap().to_string();
        assert_eq!(error, format!("queue setup: queue can't be {beyond}"));
        port.finish();
    }
    // The card's queues 384 to 511.
    let port = FaultyPort::start("register 0x1c0400 reads 0x81ff0180");
    port.finish();
}
