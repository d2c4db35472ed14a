//! A console against the host's side of 5.3, played step by step.

use std::string::ToString;
use std::thread;
use std::time::{Duration, Instant};
use std::vec::Vec;

use super::super::{Console, Error, VERSION_1};
use super::device::Play;
use super::{Whole, transport};
use crate::byte_channel::ByteChannel;

const NAME: &str = "barewire.memif";
const MULTIPORT: u64 = 1 << 1;

/// id, event, value, and what follows.
fn message(port: u32, event: u16, value: u16, name: &[u8]) -> Vec<u8> {
    [&port.to_le_bytes()[..], &event.to_le_bytes(), &value.to_le_bytes(), name].concat()
}

impl Play {
    /// Takes the next chain that the driver sent on `queue`, and says that it is used.
    fn sent(&self, queue: u16) -> Option<Vec<u8>> {
        let mut card = self.card();
        let chain = card.next_chain(queue)?;
        let [(addr, len)] = chain.reads[..] else { panic!("{chain:?}") };
        let bytes = (0..u64::from(len)).map(|n| card.read::<1>(addr + n)[0]).collect();
        card.put_used(queue, chain.id.into(), 0);
        Some(bytes)
    }

    /// Puts bytes into the next buffer of `queue`; says whether there was one.
    fn give(&self, queue: u16, bytes: &[u8]) -> bool {
        let mut card = self.card();
        let Some(chain) = card.next_chain(queue) else { return false };
        let [(addr, room)] = chain.writes[..] else { panic!("{chain:?}") };
        assert!(bytes.len() <= room as usize);
        card.write(addr, bytes);
        card.put_used(queue, chain.id.into(), bytes.len() as u32);
        true
    }

    /// Waits for what the driver says on its control queue.
    fn hears(&self, want: &[u8]) {
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            match self.sent(3) {
                Some(said) => return assert_eq!(said, want),
                None if Instant::now() > until => panic!("nothing was said; wanted {want:?}"),
                None => thread::yield_now(),
            }
        }
    }
}

/// Three ports, the last with the name; opened on the host before the driver knows its name, or not at all.
fn opened(early: bool) -> (Console<Whole>, Play) {
    let (transport, play) = transport(|card| {
        card.offered = VERSION_1 | MULTIPORT | 1;
        card.config[4] = 31;
    });
    let host = play.clone();
    let host = thread::spawn(move || {
        host.hears(&message(0, 0, 1, b""));
        for port in [1, 2, 5] {
            assert!(host.give(2, &message(port, 1, 1, b"")));
        }
        for (port, name) in [(1, &b"another\0"[..]), (2, b"barewire.memif.\0"), (5, b"barewire.memif\0")] {
            host.hears(&message(port, 3, 1, b""));
            if early && port == 5 {
                assert!(host.give(2, &message(port, 6, 1, b"")));
            }
            assert!(host.give(2, &message(port, 7, 1, name)));
        }
        host.hears(&message(5, 6, 1, b""));
    });
    let console = Console::start(transport, NAME).unwrap();
    host.join().unwrap();
    (console, play)
}

/// Queues of port 5 (5.3.2).
const RX: u16 = 12;
const TX: u16 = 13;

#[test]
fn the_port_with_the_name_is_opened_and_its_host_seen_to_come_and_go() {
    let (mut console, play) = opened(true);
    assert_eq!((console.port(), console.openings(), console.is_open()), (5, 1, true));
    for (port, event, value, want) in
        [(5, 6, 0, (1, false)), (2, 6, 1, (1, false)), (5, 6, 1, (2, true)), (5, 2, 0, (2, false))]
    {
        assert!(play.give(2, &message(port, event, value, b"")));
        assert_eq!((console.openings(), console.is_open()), want);
    }
    // Far more often than there are buffers.
    for n in 0..500 {
        assert!(play.give(2, &message(5, 6, n % 2, b"")));
        assert_eq!(console.is_open(), n % 2 == 1);
    }
    console.shut_down().unwrap();
    assert_eq!(play.card().statuses.last(), Some(&0));
}

#[test]
fn bytes_pass_in_order_and_nobody_waits() {
    let (mut console, play) = opened(false);
    assert!(!console.is_open());
    let bytes: Vec<u8> = (0..100_000).map(|n: u32| (n.wrapping_mul(n) >> 3) as u8).collect();
    let (mut given, mut read, mut written, mut back) = (0, Vec::new(), 0, Vec::new());
    let mut part = [0; 700];
    while back.len() < bytes.len() {
        let end = bytes.len().min(given + 1000);
        if given < end && play.give(RX, &bytes[given..end]) {
            given = end;
        }
        let count = console.try_read(&mut part);
        read.extend_from_slice(&part[..count]);
        written += console.try_write(&read[written..]);
        back.extend(play.sent(TX).unwrap_or_default());
    }
    assert!(back == bytes);
    assert_eq!(console.try_read(&mut part), 0);
    // Nobody takes them: all 16 buffers of 1024 bytes, then no more.
    assert_eq!(console.try_write(&bytes), 16 * 1024);
    assert_eq!(console.try_write(&bytes), 0);
    assert!(play.sent(TX).is_some());
    assert_eq!((console.try_write(&bytes), console.fault()), (1024, None));
}

#[test]
fn a_device_with_one_port_is_always_open() {
    let (transport, play) = transport(|_| {});
    let mut console = Console::start(transport, NAME).unwrap();
    assert_eq!((console.port(), console.openings(), console.is_open()), (0, 1, true));
    assert_eq!(console.try_write(b"hello"), 5);
    assert_eq!(play.sent(1).unwrap(), b"hello");
    assert!(play.give(0, b"you"));
    let mut part = [0; 8];
    assert_eq!((console.try_read(&mut part), &part[..3]), (3, &b"you"[..]));
}

#[test]
fn a_device_that_lies_is_left_alone() {
    let lies: [(u16, u32, u32, &str); 3] = [
        (RX, 0, 1025, "virtio: taking used buffers: the device says used len is 0x401"),
        (TX, 9, 0, "virtio: taking used buffers: the device says used idx is 0x1"),
        (2, 70, 0, "virtio: taking used buffers: the device says used id is 0x46"),
    ];
    for (queue, id, len, want) in lies {
        let (mut console, play) = opened(true);
        play.card().put_used(queue, id, len);
        let mut part = [0; 8];
        assert_eq!(console.try_write(b"x") * usize::from(queue != RX), 0);
        assert_eq!(console.try_read(&mut part), 0);
        assert_eq!(console.fault().unwrap().to_string(), want);
        assert_eq!((console.is_open(), console.try_write(b"x"), console.try_read(&mut part)), (false, 0, 0));
    }
    let (mut console, play) = opened(true);
    assert!(play.give(2, &[1; 7]));
    assert_eq!(console.try_read(&mut [0; 8]), 0);
    let fault = console.fault().unwrap();
    assert!(matches!(fault, Error::Device { what: "message length", value: 7, .. }), "{fault}");
}

#[test]
fn a_port_that_is_not_there_is_named() {
    let (transport, _play) = transport(|card| {
        card.offered = VERSION_1 | MULTIPORT;
        card.config[4] = 1;
    });
    let error = Console::start(transport, NAME).err().unwrap();
    assert!(matches!(error, Error::Timeout { value: 0, .. }), "{error}");
}
