//! Flow director filters by hand: descriptors in, programming status and directed frames out. Words as the drivers of
//! Linux and DPDK write and read them.

mod common;

use common::{Guest, LOW};

const RX_RING: u64 = LOW + 0x8_0000;
const PACKET: u64 = LOW + 0x10_0000;
const BUFFER: u64 = LOW + 0x18_0000;
/// A data descriptor of 60 bytes with EOP, RS and DUMMY.
const DUMMY: u64 = 60 << 34 | 0x13 << 4;

fn udp(from: u8, to: u8) -> Vec<u8> {
    let mut frame = vec![0x68, 5, 0xca, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, from, 10, 0, 0, to]);
    frame.extend([0, 9, 0, 9, 0, 8, 0, 0]);
    frame.resize(60, 0);
    frame
}

fn guest() -> Guest {
    let mut guest = Guest::new();
    guest.start_rx(RX_RING, 64, 0);
    (0..64).for_each(|i| guest.put(RX_RING + 16 * i, &(BUFFER + 2048 * i).to_le_bytes()));
    guest.start_tx(LOW, 64, 0);
    guest.writes(&[(0x12_8000, 63), (0x1c_0ac0, 1 << 17)]);
    guest
}

/// A program descriptor for UDP over IPv4 to VSI 3 and a destination, with identifier `id`, and its frame.
fn program(guest: &mut Guest, at: u64, destination: u64, command: u64, id: u64) {
    guest.put(PACKET, &udp(2, 1));
    guest.descriptor(at, 31 << 17 | 3 << 23, 8 | command << 4 | destination << 7 | 1 << 13 | id << 32);
    guest.descriptor(at + 1, PACKET, DUMMY);
    guest.writes(&[(0x10_8000, at as u32 + 2)]);
}

fn words(guest: &Guest, descriptor: u64) -> [u64; 2] {
    let bytes = guest.get(RX_RING + 16 * descriptor, 16);
    [0, 8].map(|at| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()))
}

/// The frame that programs stays in the card; its descriptor is done. A frame of the flow bears the filter's mark.
#[test]
fn a_filter_marks_frames() {
    let mut guest = guest();
    program(&mut guest, 0, 1, 1, 0x55);
    assert_eq!((guest.wire.sent(), guest.get(LOW + 24, 1)[0] & 0xf), (0, 0xf));
    guest.wire.offer(&udp(1, 2));
    guest.card.pump();
    let [first, second] = words(&guest, 0);
    // FLM, and the identifier in place of the hash.
    assert_eq!((first >> 32, second >> 11 & 1, second >> 12 & 3), (0x55, 1, 1));
}

#[test]
fn a_filter_drops_frames_until_it_is_removed() {
    let mut guest = guest();
    program(&mut guest, 0, 0, 1, 1);
    guest.wire.offer(&udp(1, 2));
    guest.card.pump();
    assert_eq!((guest.card.counters().rx_frames, guest.card.counters().rx_filtered), (0, 1));
    program(&mut guest, 2, 0, 2, 1);
    guest.wire.offer(&udp(1, 2));
    guest.card.pump();
    assert_eq!((guest.card.counters().rx_frames, guest.card.counters().rx_filtered), (1, 1));
}

/// What could not be removed is told on receive queue 0: PROGID 1, error bit 1, the identifier.
#[test]
fn a_failure_is_a_status_descriptor() {
    let mut guest = guest();
    program(&mut guest, 0, 1, 2, 0x77);
    let [first, second] = words(&guest, 0);
    assert_eq!((first >> 32, second), (0x77, 0x200_0000 << 38 | 2 << 19 | 1 << 2 | 1));
}
