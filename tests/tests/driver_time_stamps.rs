//! IEEE 1588 between the driver and the model: which frames get a time, in which register, and for how long.

use drivers::i40e::Options;
use kernel::port::time_stamp::TimeStamper;
use kernel::{Meta, TxRequest};
use rig::direct::Direct;

const WIDE: Options = Options { wide_descriptors: true, promiscuous: true };
const NARROW: Options = Options { wide_descriptors: false, promiscuous: true };
const STAMP: TxRequest =
    TxRequest { vlan: None, outer_vlan: None, checksums: None, segmentation: None, time_stamp: true };

/// A PTP message of version 2 over Ethernet (IEEE 1588-2008, annex F): type 0 is Sync, 1 Delay_Req.
fn message(kind: u8) -> Vec<u8> {
    let mut frame = vec![0x01, 0x1b, 0x19, 0, 0, 0, 2, 0xaa, 0, 0, 0, 1, 0x88, 0xf7, kind, 2, 0, 44];
    frame.resize(60, 0);
    frame
}

fn stamps(received: &[(Vec<u8>, Meta)]) -> Vec<Option<u8>> {
    received.iter().map(|(_, meta)| meta.time_stamp()).collect()
}

/// Four registers for received frames; each is free again once it was read. Among other frames, in vector loops as well.
#[test]
fn sync_messages_get_the_registers_that_are_free() {
    for options in [WIDE, NARROW] {
        let mut ring = Direct::start(1, 64, 64, options);
        let sync = message(0);
        assert_eq!(stamps(&ring.receive(std::slice::from_ref(&sync))[0]), [None]);
        let mut clock = ring.driver.time_sync().expect("the clock is this function's");
        clock.enable();
        let mut frames = vec![message(1), message(8)];
        frames.extend((0..5).map(|_| sync.clone()));
        frames.extend((0..9).map(|_| message(11)));
        let received = ring.receive(&frames);
        let mut want = vec![None; 16];
        want[2..6].copy_from_slice(&[Some(0), Some(1), Some(2), Some(3)]);
        assert_eq!(stamps(&received[0]), want);
        assert!(received[0].iter().all(|(_, meta)| meta.ptype() == 2));
        let after = clock.time();
        assert_eq!((clock.receive_stamp(4), clock.receive_stamp(255)), (None, None));
        let times: Vec<u64> = (0..4).map(|index| clock.receive_stamp(index).expect("a time")).collect();
        assert!(times.is_sorted() && times[0] > 0 && times[3] <= after, "{times:?} {after}");
        assert_eq!((0..4).map(|index| clock.receive_stamp(index)).collect::<Vec<_>>(), [None; 4]);
        assert_eq!(stamps(&ring.receive(std::slice::from_ref(&sync))[0]), [Some(0)]);
        clock.release();
        assert_eq!(clock.receive_stamp(0), None);
        clock.disable();
        assert_eq!(stamps(&ring.receive(std::slice::from_ref(&sync))[0]), [None]);
        ring.finish();
    }
}

/// The time of one sent frame is kept until it was fetched; the frame is as it was.
#[test]
fn a_sent_frame_has_its_time_if_it_asked() {
    let mut ring = Direct::start(1, 64, 64, WIDE);
    let mut clock = ring.driver.time_sync().expect("the clock is this function's");
    clock.enable();
    let (sync, plain) = (message(0), TxRequest::default());
    assert_eq!(ring.send(&[&sync], &plain), (1, vec![sync.clone()]));
    assert_eq!(clock.transmit_stamp(), None);
    let before = clock.time();
    assert_eq!(ring.send(&[&sync], &STAMP), (1, vec![sync.clone()]));
    let between = clock.time();
    assert_eq!(ring.send(&[&sync], &STAMP), (1, vec![sync.clone()]));
    let time = clock.transmit_stamp().expect("a time");
    assert!((before..=between).contains(&time), "{before} {time} {between}");
    assert_eq!(clock.transmit_stamp(), None);
    // With a tag, in three pieces, behind a context descriptor for both.
    let request = TxRequest { vlan: Some(5), outer_vlan: Some(6), ..STAMP };
    let (taken, sent) = ring.send(&[&sync[..20], &sync[20..40], &sync[40..]], &request);
    assert_eq!((taken, sent[0].len()), (1, 68));
    assert_eq!(sent[0][12..20], [0x88, 0xa8, 0, 6, 0x81, 0, 0, 5]);
    assert!(clock.transmit_stamp().is_some_and(|time| time >= between));
    ring.finish();
}

/// The clock is the port's: a reset of the function leaves it running.
#[test]
fn a_reset_of_the_function_leaves_the_clock_alone() {
    let mut ring = Direct::start(1, 64, 64, WIDE);
    let mut clock = ring.driver.time_sync().expect("the clock is this function's");
    clock.enable();
    let before = clock.time();
    ring.driver.reset().expect("the reset goes well");
    assert!(clock.time() > before);
}
