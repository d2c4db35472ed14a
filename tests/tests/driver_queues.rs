//! Several receive queues of one port: the hash, the table, and that no frame is lost or counted twice.

use std::collections::BTreeMap;

use drivers::i40e::{Flows, Key, Options, Rss, State, TABLE_ENTRIES};
use kernel::port::PortControl;
use kernel::{RxQueue, TxQueue, TxRequest};
use rig::direct::Direct;
use rig::flows::{Flow, Kind, frame, tagged};
use rig::frames;
use smoltcp::wire::IpAddress;

const OPTIONS: Options = Options { wide_descriptors: true, promiscuous: true };

fn v4(from: [u8; 4], from_port: u16, to: [u8; 4], to_port: u16) -> Flow {
    let address = |[a, b, c, d]: [u8; 4]| IpAddress::v4(a, b, c, d);
    Flow { from: (address(from), from_port), to: (address(to), to_port) }
}

/// As long as the shortest frame of a wire needs, with `n` at its end.
fn payload(n: u32) -> Vec<u8> {
    [&[0; 20], &n.to_be_bytes()[..]].concat()
}

/// Source, destination, hash.
type Specified = ([u8; 4], u16, [u8; 4], u16, u32);

/// The flows and hashes of Microsoft's "Verifying the RSS Hash Calculation", IPv4 with TCP.
const SPECIFIED: [Specified; 5] = [
    ([66, 9, 149, 187], 2794, [161, 142, 100, 80], 1766, 0x51cc_c178),
    ([199, 92, 111, 2], 14230, [65, 69, 140, 83], 4739, 0xc626_b0ea),
    ([24, 19, 198, 95], 12898, [12, 22, 207, 184], 38024, 0x5c2b_394a),
    ([38, 27, 205, 30], 48228, [209, 142, 163, 6], 2217, 0xafc7_327f),
    ([153, 39, 163, 191], 44251, [202, 188, 127, 2], 1303, 0x10e8_28a2),
];

/// Each flow arrives with the specified hash at the queue that the table has for it.
#[test]
fn flows_of_the_specification_go_where_the_table_says() {
    let mut ring = Direct::start(4, 128, 64, OPTIONS);
    ring.driver.set_rss_queues(4).unwrap();
    for (from, from_port, to, to_port, hash) in SPECIFIED {
        let offered = frame(v4(from, from_port, to, to_port), Kind::Tcp, &[0; 10]);
        let received = ring.receive(&[offered.clone(), tagged(&offered, 7)]);
        let queue = (hash % 512 % 4) as usize;
        let hashes: Vec<_> = received[queue].iter().map(|(_, meta)| meta.flow_hash()).collect();
        assert_eq!(hashes, [Some(hash), Some(hash)], "{from:?}");
        assert_eq!(received.iter().map(Vec::len).sum::<usize>(), 2);
    }
    ring.finish();
}

/// A table of the caller's own, with entries that differ in all 512 places.
#[test]
fn the_whole_table_counts() {
    let mut ring = Direct::start(8, 128, 64, OPTIONS);
    let table: [u8; TABLE_ENTRIES] = core::array::from_fn(|entry| (entry / 5 % 8) as u8);
    ring.driver.set_rss(&Rss { table, ..Rss::spread(8, Key::SPECIFICATION) }).unwrap();
    assert_eq!(ring.driver.rss_table(), table);
    let offered: Vec<_> = (0..2000).map(|n| frame(Flow::v4(n), Kind::Udp, &payload(n))).collect();
    let received = ring.receive(&offered);
    let mut entries = std::collections::BTreeSet::new();
    for (queue, frames) in received.iter().enumerate() {
        for (_, meta) in frames {
            let entry = meta.flow_hash().unwrap() % 512;
            assert_eq!(usize::from(table[entry as usize]), queue);
            entries.insert(entry);
        }
    }
    assert_eq!(received.iter().map(Vec::len).sum::<usize>(), 2000);
    assert!(entries.len() > 450, "{}", entries.len());
    let mut wrong = *ring.driver.rss();
    wrong.table[511] = 64;
    assert!(ring.driver.set_rss(&wrong).is_err());
    assert!(ring.driver.set_rss_queues(65).is_err() && ring.driver.set_rss_queues(0).is_err());
    ring.finish();
}

/// Every queue count up to 16: flows stay together and in order, all queues are used, every frame arrives once.
#[test]
fn flows_spread_and_stay_together() {
    for queues in [1, 2, 3, 5, 8, 16] {
        let mut ring = Direct::start(queues, 128, 64, OPTIONS);
        ring.driver.set_rss_queues(queues).unwrap();
        let kinds = [Kind::Tcp, Kind::Udp];
        let offered: Vec<_> = (0..3000_u32)
            .map(|n| {
                let number = n % 300;
                let flow = if number % 3 == 0 { Flow::v6(number as u16) } else { Flow::v4(number) };
                frame(flow, kinds[(number % 2) as usize], &payload(n))
            })
            .collect();
        let received = ring.receive(&offered);
        let mut place: BTreeMap<u32, usize> = BTreeMap::new();
        for (queue, frames) in received.iter().enumerate() {
            let mut last: BTreeMap<u32, u32> = BTreeMap::new();
            for (bytes, meta) in frames {
                let n = u32::from_be_bytes(bytes[bytes.len() - 4..].try_into().unwrap());
                assert_eq!(*place.entry(n % 300).or_insert(queue), queue);
                assert!(last.insert(n % 300, n).is_none_or(|before| before < n));
                assert_eq!(meta.flow_hash().is_some(), queues > 1);
            }
            assert!(!frames.is_empty(), "queue {queue} of {queues}");
        }
        assert_eq!(received.iter().map(Vec::len).sum::<usize>(), 3000);
        let counted: u64 = ring.rx.iter().map(|rx| rx.counters().frames).sum();
        assert_eq!((counted, ring.driver.stats().rx_frames), (3000, 3000));
        ring.finish();
    }
}

/// With the symmetric key both directions of a flow meet at one queue.
#[test]
fn a_symmetric_key_keeps_both_directions_together() {
    let mut ring = Direct::start(4, 128, 64, OPTIONS);
    ring.driver.set_rss_queues(4).unwrap();
    ring.driver.set_rss_key(Key::SYMMETRIC).unwrap();
    for n in 0..100_u16 {
        for flow in [Flow::v4(n.into()), Flow::v6(n)] {
            for kind in [Kind::Tcp, Kind::Udp] {
                let received = ring
                    .receive(&[frame(flow, kind, &payload(1)), frame(flow.reversed(), kind, &payload(2))]);
                let both: Vec<_> = received.iter().filter(|frames| !frames.is_empty()).collect();
                assert_eq!((both.len(), both[0].len()), (1, 2), "{flow:?}");
                assert_eq!(both[0][0].1.flow_hash(), both[0][1].1.flow_hash());
            }
        }
    }
    ring.finish();
}

/// Kinds of flows that are left out, and frames without IP, go to queue 0 without a hash.
#[test]
fn what_is_not_hashed_goes_to_the_first_queue() {
    let mut ring = Direct::start(4, 128, 64, OPTIONS);
    let mut rss = Rss::spread(4, Key::SPECIFICATION);
    rss.flows = Flows::IPV4_TCP;
    ring.driver.set_rss(&rss).unwrap();
    let mut offered: Vec<_> = (0..20).map(|n| frames::numbered(n, 60)).collect();
    offered.extend((0..20).map(|n| frame(Flow::v4(n), Kind::Udp, &payload(1))));
    let received = ring.receive(&offered);
    assert_eq!(received[0].len(), 40);
    assert!(received[0].iter().all(|(_, meta)| meta.flow_hash().is_none()));
    let offered: Vec<_> = (0..20).map(|n| frame(Flow::v4(n), Kind::Tcp, &payload(1))).collect();
    assert!(ring.receive(&offered).iter().skip(1).any(|frames| !frames.is_empty()));
    ring.finish();
}

/// One queue is stopped and started while the others go on; no buffer is lost.
#[test]
fn a_queue_stops_and_starts_while_others_run() {
    let mut ring = Direct::start(2, 64, 64, OPTIONS);
    ring.driver.set_rss_queues(2).unwrap();
    let all: Vec<_> = (0..64).map(|n| frame(Flow::v4(n), Kind::Udp, &payload(1))).collect();
    let before = ring.receive(&all);
    let shares: Vec<_> = before.iter().map(Vec::len).collect();
    for _ in 0..50 {
        let stopped = ring.rx.pop().unwrap();
        let left = ring.driver.stop_rx(stopped, &mut ring.pool).unwrap();
        assert_eq!(left.frames, 0);
        ring.start_rx(1, 64);
        let again = ring.receive(&all);
        assert_eq!(again.iter().map(Vec::len).collect::<Vec<_>>(), shares);
    }
    ring.finish();
}

/// B46: a queue that was stopped can't be polled, since stopping takes it; the others are polled on. What was for it finds
/// no descriptor and is counted, and it goes on where it is started again. Polling before there is a link is harmless.
#[test]
fn b46_others_are_polled_while_a_queue_is_stopped() {
    let mut ring = Direct::start(2, 128, 64, OPTIONS);
    ring.driver.set_rss_queues(2).unwrap();
    ring.port.card().set_link(false);
    assert!(ring.receive(&[]).iter().all(Vec::is_empty) && !ring.driver.link().unwrap().up);
    ring.port.card().set_link(true);
    let all: Vec<_> = (0..64).map(|n| frame(Flow::v4(n), Kind::Udp, &payload(n))).collect();
    let shares: Vec<_> = ring.receive(&all).iter().map(Vec::len).collect();
    assert!(shares.iter().all(|share| *share > 10) && shares.iter().sum::<usize>() == 64, "{shares:?}");
    let stopped = ring.rx.pop().unwrap();
    ring.driver.stop_rx(stopped, &mut ring.pool).unwrap();
    ring.port.wire.lose_frames();
    assert_eq!(ring.receive(&all)[0].len(), shares[0]);
    let stats = ring.driver.stats();
    assert_eq!((stats.rx_frames, stats.rx_missed), (64 + shares[0] as u64, shares[1] as u64));
    ring.start_rx(1, 128);
    assert_eq!(ring.receive(&all).iter().map(Vec::len).collect::<Vec<_>>(), shares);
    ring.finish();
}

/// What can be read of each descriptor: as many armed as the ring holds, done when the card has been there, free
/// afterwards.
#[test]
fn descriptors_can_be_looked_at() {
    for wide_descriptors in [true, false] {
        let mut ring = Direct::start(1, 64, 64, Options { wide_descriptors, promiscuous: true });
        let states = |ring: &Direct, wanted: State| {
            let all = (0..64).map(|index| ring.rx[0].descriptor(index).unwrap());
            all.filter(|descriptor| descriptor.state == wanted).count()
        };
        assert_eq!((states(&ring, State::Card), states(&ring, State::Free)), (32, 32));
        (0..3).for_each(|n| ring.port.wire.offer(frames::numbered(n, 60)));
        ring.port.card().pump();
        assert_eq!((states(&ring, State::Done), states(&ring, State::Card)), (3, 29));
        let text = ring.rx[0].descriptor(0).unwrap().to_string();
        assert!(text.starts_with("0: done buffer 0x"), "{text}");
        assert_eq!(ring.rx[0].descriptor(64), None);
        assert_eq!(ring.receive(&[])[0].len(), 3);
        assert_eq!(states(&ring, State::Done), 0);
        let plain = frames::numbered(1, 60);
        for _ in 0..40 {
            assert_eq!(ring.send(&[&plain], &TxRequest::default()).1.len(), 1);
        }
        assert_eq!(ring.tx.descriptor(31).map(|descriptor| descriptor.state), Some(State::Done));
        assert_eq!(ring.tx.descriptor(39).map(|descriptor| descriptor.state), Some(State::Card));
        assert_eq!(ring.tx.descriptor(40).map(|descriptor| descriptor.state), Some(State::Free));
        assert_eq!(ring.tx.counters().frames, 40);
        ring.finish();
    }
}
