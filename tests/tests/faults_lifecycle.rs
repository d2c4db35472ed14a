//! Stop, start and reset, by the driver and behind its back; the link.

use drivers::i40e::Trouble;
use kernel::TxQueue;
use kernel::port::PortControl;
use rig::TestPort;
use rig::faulty::{FaultyPort, Shape, bring_up, play};
use rig::frames;
use rig::machine::full;

fn numbered(range: std::ops::Range<u32>) -> Vec<Vec<u8>> {
    range.map(|n| frames::numbered(n, 60 + n as usize % 1000)).collect()
}

/// B31: stop, start and reset in quick succession, on a card that follows requests late.
#[test]
fn b31_stop_and_quick_start_on_a_slow_card() {
    for (reads, laps) in [(0, 250), (10, 250), (100, 50), (900, 10)] {
        let slow = |kind: &str| {
            format!("{kind} enable late {reads} times always\n {kind} disable late {reads} times always\n")
        };
        let script = slow("rx-queue") + &slow("tx-queue") + &format!("reset late {reads}");
        let mut port = FaultyPort::start(&script);
        for lap in 0..if full() { 1000 } else { laps } {
            port.pass(&numbered(0..lap % 20));
            port.check_buffers();
            if lap % 3 == 0 {
                port.reset();
            }
            port.start_queues().unwrap();
        }
        assert_eq!(port.told, [""; 0]);
        port.finish();
    }
}

/// B31: requests that pass each other: a queue that has not gone off yet is not switched on.
#[test]
fn b31_a_request_under_way_is_waited_for() {
    let mut port = FaultyPort::start("");
    port.play("rx-queue disable late 5000\n tx-queue disable late 5000");
    port.check_buffers();
    assert_eq!(port.told, [""; 0]);
    port.start_queues().unwrap();
    port.finish();
}

/// The slot is switched off and on, and the card works.
fn power_cycle(port: &TestPort) {
    play(port, "reset late 0");
    port.card().reset();
    port.card().config_write(4, &[6, 0]);
}

/// Neither start nor stop of the function's reset waits for ever, and the next try finds a card that works.
#[test]
fn a_reset_that_does_not_end_is_named() {
    let port = TestPort::new();
    play(&port, "reset never");
    let error = bring_up(&port, true).err().unwrap().to_string();
    assert_eq!(error, "reset of the function: PFGEN_CTRL is still 0x1 after 3000 ms");
    power_cycle(&port);
    let driver = bring_up(&port, true).unwrap();
    let mut port = FaultyPort::of(port, driver, Shape::default());
    port.start_queues().unwrap();
    port.check_buffers();
    port.play("reset never");
    let error = port.driver.reset().unwrap_err().to_string();
    assert_eq!(error, "reset of the function: PFGEN_CTRL is still 0x1 after 3000 ms");
    let error = port.start_queues().unwrap_err().to_string();
    assert_eq!(error, "queue setup: queue of a port that did not come up after its reset can't be 0");
    power_cycle(&port.port);
    port.reset();
    port.start_queues().unwrap();
    port.finish();
}

/// A queue that does not come on gives its buffers back; the next try works.
#[test]
fn a_queue_that_will_not_enable_is_named_and_keeps_nothing() {
    for (kind, register) in [("rx", "QRX_ENA"), ("tx", "QTX_ENA")] {
        let mut port = FaultyPort::start("");
        for _ in 0..3 {
            port.check_buffers();
            port.play(&format!("{kind}-queue enable never"));
            let error = port.start_queues().unwrap_err().to_string();
            assert_eq!(error, format!("queue enable: {register} is still 0x1 after 1000 ms"));
            assert_eq!(port.core.pool.available(), port.core.pool.capacity());
            port.start_queues().unwrap();
        }
        port.finish();
    }
}

/// A queue that does not go off keeps its buffers until a reset takes them from the card.
#[test]
fn a_queue_that_will_not_disable_is_parked_until_a_reset() {
    for (kind, register) in [("rx", "QRX_ENA"), ("tx", "QTX_ENA")] {
        let mut port = FaultyPort::start("");
        for lap in 0..3 {
            port.pass(&numbered(0..100 + lap));
            port.play(&format!("{kind}-queue disable never"));
            port.stop_queues();
            port.was_told(&format!("queue disable: {register} is still 0x4 after 1000 ms"));
            let held = port.core.pool.capacity() - port.core.pool.available();
            assert!(held > 0);
            // It still belongs to the card: neither given back nor started again.
            assert!(port.driver.reclaim_rx(0, &mut port.core.pool).is_none());
            assert!(port.driver.reclaim_tx(0, &mut port.core.pool).is_none());
            let error = port.start_queues().unwrap_err().to_string();
            assert_eq!(error, "queue setup: a queue that the card has not given up can't be 0");
            port.reset();
            assert_eq!(port.core.pool.available(), port.core.pool.capacity());
            port.start_queues().unwrap();
        }
        port.finish();
    }
}

/// A receive queue that comes neither on nor off keeps the buffers that it was armed with until a reset.
#[test]
fn a_queue_that_hangs_in_between_is_parked() {
    let mut port = FaultyPort::start("");
    port.check_buffers();
    port.port.card().faults().registers.push((0x12_0000, 1));
    let error = port.start_queues().unwrap_err().to_string();
    assert!(error.starts_with("queue enable: QRX_ENA is still 0x1 after 1000 ms"), "{error}");
    assert!(port.core.pool.available() < port.core.pool.capacity());
    port.port.card().faults().registers.clear();
    port.reset();
    assert_eq!(port.core.pool.available(), port.core.pool.capacity());
    port.start_queues().unwrap();
    port.finish();
}

/// The function is reset from the card's side, in the middle of traffic: noticed, named, over with a reset of ours.
#[test]
fn a_reset_behind_the_drivers_back() {
    for wide in [false, true] {
        let mut port = FaultyPort::with(Shape { wide, ..Shape::default() }, "");
        for lap in 0..20 {
            port.play(&format!("pf-reset after {} frames", 100 + 13 * lap));
            let back = port.exchange(&numbered(0..200));
            assert!(back.len() < 200);
            let before = port.driver.stats();
            assert!(port.recover());
            let after = port.driver.stats();
            assert!(
                after.rx_frames >= before.rx_frames && after.rx_frames < 1_000_000,
                "{before:?}, {after:?}"
            );
            // What the wire still held comes now.
            port.settle();
            port.port.wire.take();
            assert_eq!(port.look(), []);
        }
        port.was_told("the function was reset, PF_ATQLEN is 0x0");
        port.finish();
    }
}

/// The whole card is reset, its counters with it: waited for, and the counts go on from where they were.
#[test]
fn a_reset_of_the_card() {
    let mut port = FaultyPort::start("");
    port.pass(&numbered(0..200));
    let before = port.driver.stats();
    assert_eq!((before.rx_frames, before.tx_frames), (200, 200));
    port.play("card-reset 40");
    assert_eq!(port.exchange(&[]).len(), 0);
    let troubles = port.look();
    assert!(matches!(troubles[..], [Trouble::CardReset { status: 0x1 }]), "{troubles:?}");
    assert!(port.recover());
    assert_eq!(port.driver.stats(), before);
    port.pass(&numbered(0..100));
    let after = port.driver.stats();
    assert_eq!((after.rx_frames, after.tx_frames), (300, 300));
    assert_eq!((after.rx_bytes - before.rx_bytes, after.rx_missed), (after.tx_bytes - before.tx_bytes, 0));
    port.was_told("the card is being reset, GLGEN_RSTAT is 0x1");
    port.finish();
}

/// Stop, start and reset a thousand times with frames in the rings: buffers, counters and filters stay.
#[test]
fn a_port_is_reset_any_number_of_times() {
    let mut port = FaultyPort::start("");
    let mut random = 1_u32;
    for lap in 0..if full() { 10_000 } else { 300 } {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        port.pass(&numbered(0..random >> 8 & 0x1f));
        // Some are left in the rings.
        numbered(0..random >> 16 & 0x1f).into_iter().for_each(|frame| port.port.wire.offer(frame));
        port.port.card().pump();
        if random >> 24 & 1 != 0 {
            port.core.poll();
        }
        port.check_buffers();
        if lap % 2 == 0 {
            port.reset();
        }
        port.start_queues().unwrap();
        port.settle();
        port.port.wire.take();
    }
    assert_eq!(port.told, [""; 0]);
    port.finish();
}

/// A transmit queue that the card stopped for an illegal descriptor: named, and over with a reset.
#[test]
fn a_queue_that_the_card_stopped_is_named() {
    let mut port = FaultyPort::start("");
    port.pass(&numbered(0..100));
    // A tail beyond the ring, written by somebody else.
    port.port.card().bar_write(0, 0x10_8000, &5000_u32.to_le_bytes());
    assert_eq!(port.look(), [Trouble::Malicious { event: 1 }]);
    assert!(port.recover());
    port.was_told("a transmit queue was stopped, PF_MDET_TX is 0x1");
    assert_eq!(port.look(), []);
    port.ten_thousand();
    port.check_buffers();
    assert_eq!(port.port.card().violations().len(), 1);
}

/// The same of a receive queue, as far as it can be played: the model stops none.
#[test]
fn a_receive_queue_that_the_card_stopped_is_named() {
    let mut port = FaultyPort::start("");
    port.port.card().faults().registers.push((0x12_a400, 1));
    assert_eq!(port.look(), [Trouble::MaliciousRx { event: 1 }]);
    port.was_told("a receive queue was stopped, PF_MDET_RX is 0x1");
    port.port.card().faults().registers.clear();
    assert_eq!(port.look(), []);
    port.ten_thousand();
    port.check_buffers();
}

/// A card that is gone is named, and not reset; no wait is endless.
#[test]
fn a_card_that_is_gone() {
    let mut port = FaultyPort::start("");
    port.pass(&numbered(0..100));
    let registers = [0x08_0200, 0x0b_8188, 0x0e_6400, 0x12_0000, 0x10_0000, 0x0e_4000, 0x09_2400];
    port.port.card().faults().registers = registers.map(|at| (at, u32::MAX)).to_vec();
    assert_eq!(port.look(), [Trouble::Gone]);
    port.stop_queues();
    port.was_told("queue disable: QRX_ENA is still 0xffffffff after 1000 ms");
    let error = port.driver.reset().unwrap_err().to_string();
    assert!(error.contains("GLGEN_RSTAT is still 0xffffffff"), "{error}");
    // Plugged in again.
    port.port.card().faults().registers.clear();
    port.reset();
    port.start_queues().unwrap();
    port.finish();
}

/// The link flaps while frames pass: what the link took comes back, what it did not is counted, and nothing else.
#[test]
fn the_link_flaps_under_load() {
    let mut port = FaultyPort::start("");
    let mut back = 0;
    for lap in 0..20 {
        port.play(&format!("after {} frames link flap {}", lap * 3, 1 + lap % 5));
        back += port.exchange(&numbered(0..200)).len() as u64;
        assert!(port.driver.link().unwrap().up);
        assert_eq!(port.look(), []);
    }
    let stats = port.driver.stats();
    assert_eq!(port.core.streams[0].tx.counters().frames, back + stats.tx_errors);
    assert_eq!((stats.rx_frames, stats.tx_frames), (4000, back));
    assert!(back < 4000, "no frame met a link that was down");
    port.finish();
}

/// B32: the port starts with its link down, and firmware refuses the frame size then; it is set with the link, and frames
/// of every size pass, with one tag and with two.
#[test]
fn b32_the_frame_size_is_set_once_the_link_is_up() {
    for down_at_start in [true, false] {
        let script =
            if down_at_start { "link down\n mac-config needs-link" } else { "mac-config needs-link" };
        let mut port = FaultyPort::start(script);
        assert_eq!(port.driver.link().unwrap().up, !down_at_start);
        if down_at_start {
            // Asked again meanwhile, it is no error.
            (0..3).for_each(|_| assert!(!port.driver.link().unwrap().up));
        }
        port.play("link up");
        assert!(port.driver.link().unwrap().up);
        let lengths = [1514, 1518, 1522, 1523, 9018, 9724, 9728];
        let mut offered: Vec<_> = lengths.into_iter().map(|len| frames::numbered(len as u32, len)).collect();
        for tags in 1..=2 {
            let mut frame = frames::numbered(tags, 1514);
            for _ in 0..tags {
                frame.splice(12..12, [0x81, 0x00, 0x00, 0x05]);
            }
            offered.push(frame);
        }
        port.pass(&offered);
        port.finish();
    }
}

/// B32: the same after a reset with the link down.
#[test]
fn b32_and_after_a_reset_as_well() {
    let mut port = FaultyPort::start("");
    port.check_buffers();
    port.play("link down\n mac-config needs-link");
    port.reset();
    port.start_queues().unwrap();
    assert!(!port.driver.link().unwrap().up);
    port.play("link up");
    assert!(port.driver.link().unwrap().up);
    port.pass(&[frames::numbered(0, 9728)]);
    port.finish();
}

/// B33: the firmware tells a change only while it has been asked to since the last one; every look at the link is right
/// all the same, with the speed of the card.
#[test]
fn b33_every_change_of_the_link_is_seen() {
    let mut port = FaultyPort::start("");
    let speed = |port: &mut FaultyPort| {
        let link = port.driver.link().unwrap();
        (link.up, link.speed)
    };
    // How often it changes before one looks.
    for changes in [1, 1, 2, 3, 1, 4, 5, 1, 1, 7] {
        let (was_up, _) = speed(&mut port);
        let mut up = was_up;
        for _ in 0..changes {
            up = !up;
            port.port.card().set_link(up);
        }
        assert_eq!(speed(&mut port), (up, if up { 10_000 } else { 0 }), "{changes}");
        assert_eq!(speed(&mut port), (up, if up { 10_000 } else { 0 }), "{changes}");
    }
    port.port.card().set_link(true);
    assert_eq!(speed(&mut port), (true, 10_000));
    port.finish();
}
