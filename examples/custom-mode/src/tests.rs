//! The mode on the loop of a core, with queues in memory.

use std::vec;
use std::vec::Vec;

use boot::modes::CustomMode;
use hal::hosted::{FakeBar, HostedMachine};
use hal::simd::Isa;
use hal::{DmaError, Machine};
use kernel::config::Config;
use kernel::forward::Route;
use kernel::lcore::{Lcore, Stream};
use kernel::port::fake::{FakeRx, FakeTx};
use kernel::{BufferLayout, DropReason, Pool};

use super::*;

const BUFFERS: usize = 128;

/// What comes out when these frames come in, and how many were dropped by the mode.
fn through(frames: &[Vec<u8>]) -> (Vec<Vec<u8>>, u64) {
    let machine = HostedMachine::<FakeBar>::new(1 << 20).unwrap();
    let layout = BufferLayout::DEFAULT;
    let memory = machine.dma_alloc(layout.bytes(BUFFERS), 64).unwrap();
    let none = |len| Err(DmaError { len });
    let ground = CoreGround { core: 0, streams: 1, isa: Isa::best(), ticks_per_second: 1, memory: &none };
    let mode = Ttl::new(&Config::default(), &ground).unwrap();
    let mut core = Lcore::new(Pool::new(memory.clone(), layout), mode, 32);
    let (rx, tx) = (FakeRx::new(memory.clone(), 2048), FakeTx::new(memory, 1000));
    assert!(core.streams.push(Stream::new((0, 1), rx, tx, Route::default())).is_ok());
    for frame in frames {
        core.streams[0].rx.arrive(frame);
    }
    while core.poll() > 0 {}
    let stream = &core.streams[0];
    assert_eq!(core.pool.available() + stream.tx.held(), BUFFERS);
    (stream.tx.sent.clone(), stream.drops.get(DropReason::Mode))
}

/// The header of RFC 1071's usual example: 192.168.0.1 to 192.168.0.199, time to live 64, checksum 0xb861.
fn packet(ttl: u8, checksum: [u8; 2]) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([8, 0, 0x45, 0, 0, 0x73, 0, 0, 0x40, 0, ttl, 0x11]);
    frame.extend(checksum);
    frame.extend([192, 168, 0, 1, 192, 168, 0, 199]);
    frame.resize(129, 7);
    frame
}

/// 0xb861 for 64; each step down adds 0x100 to the checksum, with an end-around carry past 0xffff.
#[test]
fn one_is_taken_off_and_the_checksum_stays_right() {
    let (out, dropped) = through(&[packet(64, [0xb8, 0x61]), packet(255, [0xf9, 0x60])]);
    assert_eq!(out, [packet(63, [0xb9, 0x61]), packet(254, [0xfa, 0x60])]);
    assert_eq!(dropped, 0);
    assert_eq!(updated(0xff61, 0x4011, 0x3f11), 0x0062);
}

#[test]
fn whose_time_has_come_is_dropped_and_the_rest_keeps_its_order() {
    let alive = |mark: u8| {
        let mut frame = packet(64, [0xb8, 0x61]);
        frame[0] = mark;
        frame
    };
    let frames = [packet(1, [0; 2]), alive(1), packet(0, [0; 2]), alive(2), alive(3), packet(1, [0; 2])];
    let (out, dropped) = through(&frames);
    assert_eq!((out.iter().map(|frame| frame[0]).collect::<Vec<_>>(), dropped), (vec![1, 2, 3], 3));
}

/// A time to live is nothing where there is no IPv4 header.
#[test]
fn what_is_no_ipv4_packet_passes_as_it_is() {
    let mut arp = packet(1, [0; 2]);
    arp[13] = 6;
    let mut version_6 = packet(1, [0; 2]);
    version_6[14] = 0x65;
    let mut cut = packet(1, [0; 2]);
    cut.truncate(33);
    let mut tagged = packet(1, [0; 2]);
    tagged[12..14].copy_from_slice(&[0x81, 0]);
    let frames = [arp, version_6, cut, tagged];
    assert_eq!(through(&frames), (frames.to_vec(), 0));
}

/// A header in the first buffer of several.
#[test]
fn long_packets_age_too() {
    let mut frame = packet(64, [0xb8, 0x61]);
    frame.resize(9000, 9);
    let mut want = frame.clone();
    want[22] = 63;
    want[24] = 0xb9;
    assert_eq!(through(&[frame]), (vec![want], 0));
}
