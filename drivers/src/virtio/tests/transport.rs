//! Status handshake, features, queues' addresses, notify addresses (B19, B20 of what went wrong elsewhere).

use std::string::ToString;

use super::super::{Error, Queue, VERSION_1};
use super::{Whole, transport};
use hal::Machine;
use hal::hosted::FakeBar;

const WANTED: u64 = 1 << 1 | 1 << 40;

#[test]
fn a_device_is_started_in_the_order_of_the_standard() {
    let (transport, play) = transport(|card| {
        card.offered = VERSION_1 | 1 << 40 | 1 << 5;
        card.status = 7;
        card.slow_reset = 3;
    });
    let mut setup = transport.negotiate(WANTED, 0).unwrap();
    assert_eq!(setup.features, VERSION_1 | 1 << 40);
    assert_eq!(setup.transport().queues(), 64);
    let queue = setup.queue(5, 100).unwrap();
    assert_eq!(queue.size(), 64);
    setup.run().unwrap();
    let card = play.card();
    // 3.1.1: reset, ACKNOWLEDGE, DRIVER, FEATURES_OK, DRIVER_OK.
    assert_eq!(card.statuses, [0, 1, 3, 11, 15]);
    assert_eq!(card.chosen, VERSION_1 | 1 << 40);
    assert_eq!(card.wrong, []);
    let ring = card.queues[&5];
    assert_eq!((ring.size, ring.enable, ring.vector), (64, 1, 0xffff));
    let [desc, driver, device] = ring.areas;
    assert!(desc % 16 == 0 && driver % 2 == 0 && device % 4 == 0);
    assert!(desc + 16 * 64 <= driver && driver + 6 + 2 * 64 <= device, "{:x?}", ring.areas);
    // VIRTQ_AVAIL_F_NO_INTERRUPT.
    assert_eq!(u16::from_le_bytes(card.read(driver)), 1);
}

fn refused(change: impl FnOnce(&mut super::Card), needed: u64) -> (Error, u8) {
    let (transport, play) = transport(change);
    let error = transport.negotiate(WANTED, needed).err().unwrap();
    (error, play.card().status)
}

#[test]
fn a_device_that_does_not_do_what_is_needed_is_named() {
    let (error, status) = refused(|card| card.offered = 1 << 1, 0);
    assert_eq!(error.to_string(), "virtio: agreeing on features: the device says device_feature is 0x2");
    assert_eq!(status & 0x80, 0x80, "FAILED");
    let (error, _) = refused(|card| card.offered = VERSION_1 | 1 << 1, 1 << 40);
    assert!(matches!(error, Error::Device { what: "device_feature", .. }), "{error}");
    // FEATURES_OK does not stick.
    let (error, _) = refused(|card| card.refused = 8, 0);
    assert!(matches!(error, Error::Device { what: "device_status", value: 3, .. }), "{error}");
    // It stays in reset.
    let (error, _) = refused(|card| card.slow_reset = u32::MAX, 0);
    assert!(matches!(error, Error::Timeout { step: "reset", value: 0xf, .. }), "{error}");
}

fn made(change: impl FnOnce(&mut super::Card), index: u16) -> Result<Queue<FakeBar>, Error> {
    let (transport, _play) = transport(change);
    transport.negotiate(0, 0).unwrap().queue(index, 64)
}

#[test]
fn queues_that_make_no_sense_are_named() {
    for (most, size) in [(1, 1), (3, 2), (64, 64), (32768, 64)] {
        assert_eq!(made(|card| card.most = most, 0).unwrap().size(), size, "{most}");
    }
    let error = made(|card| card.most = 0, 0).err().unwrap();
    assert!(matches!(error, Error::Device { what: "queue_size", value: 0, .. }), "{error}");
    let error = made(|_| {}, 64).err().unwrap();
    assert!(matches!(error, Error::Request { value: 64, .. }), "{error}");
    // 0x400 * 4 lies at the end of the notification structure, 0x3ff * 4 just inside.
    assert!(made(|card| card.notify_off = 0x3ff, 0).is_ok());
    for notify_off in [0x400, 0xffff] {
        let error = made(|card| card.notify_off = notify_off, 0).err().unwrap();
        assert!(matches!(error, Error::Device { what: "queue_notify_off", .. }), "{error}");
    }
}

/// 4.1.4.4: offset times multiplier, and the queue's index as value.
#[test]
fn each_queue_has_its_notify_address() {
    let (transport, play) = transport(|card| card.notify_off = 7);
    let machine: Whole = transport.machine().clone();
    let mut setup = transport.negotiate(0, 0).unwrap();
    let buffer = machine.dma_alloc(64, 64).unwrap();
    for index in [0, 3, 63] {
        let mut queue = setup.queue(index, 8).unwrap();
        queue.publish();
        queue.offer(&[super::super::Piece { memory: &buffer, device_writes: false }]).unwrap();
        queue.publish();
        queue.publish();
    }
    let want = [(7 * 4, 0), (10 * 4, 3), (70 * 4, 63)];
    assert!(play.card().notified.iter().eq(&want), "{:?}", play.card().notified);
}

#[test]
fn configuration_is_of_one_generation_and_inside() {
    let (transport, play) = transport(|card| card.config[4..8].copy_from_slice(&[1, 2, 3, 4]));
    assert_eq!(transport.config(4).unwrap(), [1_u8, 2, 3, 4]);
    assert!(transport.config::<4>(13).is_err() && transport.config::<4>(u32::MAX).is_err());
    play.card().generation_step = 1;
    let error = transport.config::<4>(4).unwrap_err();
    assert!(matches!(error, Error::Device { what: "config_generation", .. }), "{error}");
}
