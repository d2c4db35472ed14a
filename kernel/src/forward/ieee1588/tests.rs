use std::cell::Cell;
use std::string::ToString;
use std::vec::Vec;

use super::*;
use crate::forward::examples::{Ground, OWN, PEER, with};

/// A clock whose registers a test fills.
#[derive(Default)]
struct Stamps {
    received: [Option<u64>; 4],
    sent: Option<u64>,
    released: bool,
}

impl TimeStamper for Stamps {
    fn enable(&mut self) {}
    fn disable(&mut self) {}
    fn time(&mut self) -> u64 {
        0
    }
    fn receive_stamp(&mut self, index: u8) -> Option<u64> {
        self.received.get_mut(usize::from(index))?.take()
    }
    fn transmit_stamp(&mut self) -> Option<u64> {
        self.sent.take()
    }
    fn release(&mut self) {
        (self.received, self.released) = ([None; 4], true);
    }
}

/// TSYNVALID, register 2, packet type 2.
const STAMPED: u64 = 1 << 7 | 2 << 5 | 2 << 30;

/// A frame of 60 bytes with these behind the addresses.
fn frame(rest: &[u8]) -> Vec<u8> {
    let mut frame = with(&[&OWN, &PEER, rest]);
    frame.resize(60, 0);
    frame
}

struct Rig {
    ground: Ground,
    mode: Ieee1588,
    stamps: Stamps,
    ticks: Cell<u64>,
    told: Vec<Event>,
}

impl Rig {
    /// A clock of a million ticks a second that goes on by one at each look.
    fn new() -> Self {
        let mode = Ieee1588::new(1_000_000);
        let (ground, stamps) = (Ground::new(), Stamps::default());
        Self { ground, mode, stamps, ticks: Cell::new(0), told: Vec::new() }
    }

    fn arrive(&mut self, rest: &[u8], bits: u64) {
        self.ground.arrive(&frame(rest));
        self.ground.burst.entries_mut().1.last_mut().unwrap().hi |= bits;
    }

    /// What is told of one poll.
    fn poll(&mut self) -> Vec<Event> {
        let Self { ground, mode, stamps, ticks, told } = self;
        let look = || ticks.replace(ticks.get() + 1);
        ground.work(|work, burst| mode.forward(work, burst, stamps, look, |event| told.push(event)));
        std::mem::take(told)
    }
}

#[test]
fn a_sync_message_goes_back_and_both_times_are_told() {
    let mut rig = Rig::new();
    rig.stamps.received[2] = Some(5_000_000_007);
    rig.stamps.sent = Some(1);
    rig.arrive(&[0x88, 0xf7, 0, 2], STAMPED);
    let told = rig.poll();
    assert_eq!(told, [Event::Received(5_000_000_007)]);
    assert_eq!(told[0].to_string(), "RX timestamp value 5 s 7 ns");
    assert_eq!(rig.ground.frames()[0][..14], with(&[&PEER, &OWN, &[0x88, 0xf7]]));
    assert!(rig.ground.burst.metas()[0].asks_for_time() && rig.mode.awaits());
    rig.ground.burst.give_back(&mut rig.ground.pool);
    // One of a frame before is not taken for this one's.
    assert_eq!(rig.poll(), []);
    rig.stamps.sent = Some(6_000_000_008);
    assert_eq!(rig.poll(), [Event::Sent(6_000_000_008)]);
    assert!(!rig.mode.awaits() && rig.ground.has_all_buffers());
}

/// testpmd's judgements, in its order.
#[test]
fn what_is_no_stamped_sync_message_is_dropped_and_told() {
    for (rest, bits, event) in [
        (&[8, 0, 0, 2][..], 22 << 30, Event::NotPtp(0x800, 60)),
        (&[0x88, 0xf7, 0, 2], 1 << 30, Event::NotFiltered),
        (&[8, 0, 0, 2], STAMPED, Event::WrongFilter),
        (&[0x88, 0xf7, 0, 1], STAMPED, Event::Version(1)),
        (&[0x88, 0xf7, 0, 0x12], STAMPED, Event::Version(0x12)),
        (&[0x88, 0xf7, 1, 2], STAMPED, Event::Message(1)),
        (&[0x88, 0xf7, 0x10, 2], STAMPED, Event::Message(0x10)),
        (&[0x88, 0xf7, 0, 2], 2 << 30, Event::NotStamped),
    ] {
        let mut rig = Rig::new();
        rig.stamps.received[2] = Some(1);
        rig.arrive(rest, bits);
        assert_eq!(rig.poll(), [event]);
        assert_eq!((rig.ground.drops.get(DropReason::NoPtp), rig.ground.burst.len()), (1, 0));
        // The register is free again, and nothing is awaited.
        assert_eq!(rig.stamps.received[2].is_none(), bits == STAMPED || rig.stamps.released);
        assert_eq!(rig.stamps.released, event == Event::NotStamped);
        assert!(!rig.mode.awaits() && rig.ground.has_all_buffers());
    }
}

/// A frame that ends in its header is not read behind its end.
#[test]
fn a_frame_that_ends_early_is_dropped() {
    for len in 0..16 {
        let mut rig = Rig::new();
        rig.ground.arrive(&frame(&[0x88, 0xf7, 0, 2])[..len.max(1)]);
        rig.ground.burst.entries_mut().1[0].hi |= STAMPED;
        assert_eq!(rig.poll().len(), 1);
        assert!(rig.ground.burst.is_empty() && rig.ground.has_all_buffers());
    }
}

/// 1000 µs, as testpmd waits; with a frame there the mode waits itself.
#[test]
fn a_time_that_does_not_come_is_given_up() {
    for waits in [false, true] {
        let mut rig = Rig::new();
        rig.arrive(&[0x88, 0xf7, 0, 2], STAMPED);
        assert_eq!(rig.poll(), [Event::NoReceiveTime]);
        rig.ground.burst.give_back(&mut rig.ground.pool);
        if waits {
            rig.arrive(&[8, 0], 0);
            assert_eq!(rig.poll(), [Event::NoSendTime, Event::NotPtp(0x800, 60)]);
            assert!((1000..1010).contains(&rig.ticks.get()));
        } else {
            assert!(rig.poll().is_empty());
            rig.ticks.set(1001);
            assert_eq!(rig.poll(), [Event::NoSendTime]);
        }
        assert!(!rig.mode.awaits());
    }
}

#[test]
fn the_first_of_several_messages_asks_for_its_time() {
    let mut rig = Rig::new();
    for _ in 0..3 {
        rig.arrive(&[0x88, 0xf7, 0, 2], STAMPED);
    }
    rig.poll();
    let asks: Vec<bool> = rig.ground.burst.metas().iter().map(|meta| meta.asks_for_time()).collect();
    assert_eq!(asks, [true, false, false]);
}
