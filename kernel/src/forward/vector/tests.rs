use std::vec::Vec;

use hal::hosted::{FakeBar, HostedMachine};
use hal::simd::Level;
use hal::{DmaMemory, Machine};

use super::*;
use crate::packet::Packet;
use crate::port::MacAddr;

const STRIDE: u32 = 192;
const BYTES: usize = 600 * STRIDE as usize;

/// A small generator: xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }
}

fn memory() -> DmaMemory {
    let memory = HostedMachine::<FakeBar>::new(1 << 18).unwrap().dma_alloc(BYTES, 4096).unwrap();
    let bytes: Vec<u8> = (0..BYTES).map(|i| (i * 7 + i / 251) as u8).collect();
    memory.copy_in(0, &bytes).unwrap();
    memory
}

fn contents(memory: &DmaMemory) -> Vec<u8> {
    let mut bytes = std::vec![0; BYTES];
    memory.copy_out(0, &mut bytes).unwrap();
    bytes
}

/// Frames at distinct places, among them some in several buffers, short ones, some that start inside of their buffer, and
/// some outside of the memory.
fn odd_burst(count: usize, random: &mut Random) -> Burst {
    let mut burst = Burst::new();
    for n in 0..count as u32 {
        let buffer = if random.below(20) == 0 { u32::MAX - random.below(100) as u32 } else { n * STRIDE };
        let len = [60, 60, 60, 12, 11, 1, 64][random.below(7) as usize];
        let start = if random.below(6) == 0 { random.below(64) } else { 0 };
        let mut meta = if random.below(5) == 0 { Meta::segment(len) } else { Meta::frame(len) };
        meta.hi |= start << Meta::START_SHIFT;
        burst.push(Packet { buffer, meta }).unwrap();
    }
    burst
}

/// Plain frames, of which the last lies at the very end of the memory.
fn plain_burst(count: usize) -> Burst {
    let mut burst = Burst::new();
    let (buffers, metas) = burst.spare();
    for n in 0..count {
        buffers[n] = n as u32 * STRIDE;
        metas[n] = Meta::frame(60);
    }
    buffers[count - 1] = BYTES as u32 - 17;
    burst.commit(count, Some(60 * count as u64));
    burst
}

fn check(count: usize, burst: &Burst, what: &str) {
    let route = Route { mac: MacAddr([0x68, 5, 0xca, 1, 2, 3]), peer: MacAddr([2, 0, 0, 0, 0, 1]) };
    let (swapped, written) = (memory(), memory());
    scalar::macswap(&swapped, burst);
    scalar::mac(&written, &route, burst);
    let (swapped, written) = (contents(&swapped), contents(&written));
    assert!(what != "plain" || swapped != written);
    for isa in Level::ALL.into_iter().filter_map(Isa::exactly) {
        let memory_of_isa = memory();
        macswap(isa, &memory_of_isa, burst);
        assert!(contents(&memory_of_isa) == swapped, "macswap {isa}: {what} of {count}");
        let memory_of_isa = memory();
        mac(isa, &memory_of_isa, &route, burst);
        assert!(contents(&memory_of_isa) == written, "mac {isa}: {what} of {count}");
    }
}

/// B39: every burst length, so that each number of leftover frames is there.
#[test]
fn every_length_of_a_burst_does_what_the_scalar_form_does() {
    for count in 1..=64 {
        check(count, &plain_burst(count), "plain");
    }
    check(512, &plain_burst(512), "plain");
}

#[test]
fn odd_frames_are_treated_as_the_scalar_form_treats_them() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for round in 0..4 {
        for count in 2..=64 {
            check(count, &odd_burst(count, &mut random), if round == 0 { "odd" } else { "odd again" });
        }
    }
}

/// A burst that claims to be plain with a buffer outside of the memory touches nothing there.
#[test]
fn offsets_outside_of_the_memory_are_left_alone() {
    let mut burst = Burst::new();
    let (buffers, metas) = burst.spare();
    for n in 0..16 {
        buffers[n] = if n % 5 == 4 { BYTES as u32 - 11 } else { n as u32 * STRIDE };
        metas[n] = Meta::frame(60);
    }
    burst.commit(16, Some(16 * 60));
    check(16, &burst, "claimed");
}
