//! Receive in vector registers against the scalar loop: two rings with the same card, compared after each call.

use std::vec::Vec;

use hal::hosted::FakeBar;
use hal::simd::Isa;
use kernel::{Buffers, Burst, RxQueue};

use super::super::Rx;
use super::rx::queue;
use super::{Bench, Random, vector_isas};

const DD: u64 = 1;
const EOP: u64 = 2;

/// One of the two.
struct Side {
    bench: Bench,
    rx: Rx<FakeBar>,
    burst: Burst,
    /// Buffers that somebody else holds.
    held: Vec<u32>,
}

impl Side {
    fn new(descriptors: u16, stride: usize, buffers: usize, isa: Isa) -> Self {
        let mut bench = Bench::with_isa(descriptors, stride, buffers, isa);
        let mut rx = queue(&bench);
        assert_eq!(rx.path().level, isa.level());
        rx.arm(&mut bench.pool);
        Self { bench, rx, burst: Burst::new(), held: Vec::new() }
    }
}

/// Both, and the card: how far it has come, and descriptors whose marks are late.
struct Twins {
    sides: [Side; 2],
    count: usize,
    head: usize,
    late: Vec<(usize, [u64; 2])>,
    what: std::string::String,
}

impl Twins {
    fn new(descriptors: u16, stride: usize, isa: Isa, seed: u64) -> Self {
        let count = usize::from(descriptors);
        let sides = [Isa::Scalar, isa].map(|isa| Side::new(descriptors, stride, count + 200, isa));
        let what = std::format!("{isa} {stride}B ring {descriptors} seed {seed}");
        Self { sides, count, head: 0, late: Vec::new(), what }
    }

    /// Descriptors that the card may finish.
    fn owned(&self) -> usize {
        (self.sides[0].bench.tails.last() as usize + self.count - self.head) % self.count
    }

    fn finish(&mut self, words: [u64; 2], late: bool) {
        let index = self.head;
        self.head = (self.head + 1) % self.count;
        if late {
            self.late.push((index, words));
        } else {
            self.write(index, words);
        }
    }

    fn write(&self, index: usize, words: [u64; 2]) {
        for side in &self.sides {
            side.bench.set_word(index, 0, words[0]);
            side.bench.set_word(index, 1, words[1]);
        }
    }

    /// Late marks are written, from the back to the front.
    fn catch_up(&mut self) {
        while let Some((index, words)) = self.late.pop() {
            self.write(index, words);
        }
    }

    fn receive(&mut self, limit: usize) -> usize {
        let [frames, others] = self.sides.each_mut().map(|side| {
            let limit = limit.min(side.burst.room());
            side.rx.rx_burst(&mut side.bench.pool, &mut side.burst, limit)
        });
        assert_eq!(frames, others, "{}: frames", self.what);
        self.compare();
        frames
    }

    fn compare(&self) {
        let [scalar, vector] = &self.sides;
        let what = &self.what;
        assert_eq!(scalar.burst.buffers(), vector.burst.buffers(), "{what}: buffers");
        assert_eq!(scalar.burst.metas(), vector.burst.metas(), "{what}: metadata");
        assert_eq!(scalar.burst.plain(), vector.burst.plain(), "{what}: plain");
        assert_eq!(scalar.rx.counters(), vector.rx.counters(), "{what}: counters");
        assert_eq!(scalar.rx.drops(), vector.rx.drops(), "{what}: drops");
        assert_eq!(scalar.bench.pool.available(), vector.bench.pool.available(), "{what}: pool");
        assert_eq!(scalar.bench.tails.last(), vector.bench.tails.last(), "{what}: tail");
    }

    fn give_back(&mut self, keep: usize) {
        for Side { bench, burst, .. } in &mut self.sides {
            while burst.len() > keep {
                let packet = burst.pop().unwrap();
                bench.pool.give(&[packet.buffer]);
            }
        }
    }

    /// Every buffer is back, each once, and all words of the rings are the same.
    fn end(mut self) {
        self.give_back(0);
        let [scalar, vector] = &self.sides;
        let words = scalar.bench.stride / 8;
        for index in 0..self.count {
            for word in 0..words {
                let (a, b) = (scalar.bench.word(index, word), vector.bench.word(index, word));
                assert_eq!(a, b, "{}: descriptor {index} word {word}", self.what);
            }
        }
        assert_eq!(scalar.bench.tails.count(), vector.bench.tails.count(), "{}: doorbells", self.what);
        let drained = self.sides.map(|Side { mut bench, rx, held, .. }| {
            let rest = rx.release(&mut bench.pool);
            bench.pool.give(&held);
            assert_eq!(bench.pool.available(), bench.pool.capacity());
            let order: Vec<u32> = core::iter::from_fn(|| bench.pool.take()).collect();
            (rest, order)
        });
        assert!(drained[0] == drained[1], "{}: what is left", self.what);
    }
}

/// A write-back: mostly of a good frame, with every thing that can be wrong with one among the others.
fn write_back(random: &mut Random) -> [u64; 2] {
    let lo = (random.below(1 << 32) as u64) << 32 | random.below(1 << 32) as u64;
    let len = match random.below(40) {
        0 => random.below(18),
        1 => 2048,
        2 => 2049 + random.below(14_000),
        _ => 60 + random.below(1459),
    };
    let marks = match random.below(60) {
        0 => 0,
        1 => EOP | 1 << 19,
        2 => EOP | 1 << 25,
        3 => 0,
        _ => EOP,
    };
    let header = if random.one_in(30) { random.below(1 << 12) as u64 } else { 0 };
    let other = random.below(1 << 12) as u64 & !3;
    [lo, header << 52 | (len as u64) << 38 | (random.below(256) as u64) << 30 | other | marks | DD]
}

fn run(twins: &mut Twins, random: &mut Random, rounds: usize) {
    for _ in 0..rounds {
        let finished = match random.below(4) {
            0 => random.below(twins.owned() + 1),
            1 => random.below(8).min(twins.owned()),
            _ => random.below(70).min(twins.owned()),
        };
        for _ in 0..finished {
            let words = write_back(random);
            twins.finish(words, random.one_in(25));
        }
        if random.one_in(6) {
            let taken = random.below(300);
            for side in &mut twins.sides {
                side.held.extend(core::iter::from_fn(|| side.bench.pool.take()).take(taken));
            }
        }
        for _ in 0..=random.below(3) {
            twins.receive(if random.one_in(20) { 512 } else { 1 + random.below(64) });
            twins.give_back(if random.one_in(4) { random.below(40) } else { 0 });
        }
        if random.one_in(3) {
            twins.catch_up();
        }
        if random.one_in(4) {
            for side in &mut twins.sides {
                side.bench.pool.give(&side.held);
                side.held.clear();
            }
        }
    }
}

/// Every size of a ring that can be asked for.
#[test]
fn every_ring_does_what_the_scalar_loop_does() {
    for isa in vector_isas() {
        for (seed, descriptors) in (64..=4096).step_by(32).chain([8160]).enumerate() {
            for stride in [16, 32] {
                let mut random = Random::new(seed as u64);
                let mut twins = Twins::new(descriptors, stride, isa, seed as u64);
                run(&mut twins, &mut random, if descriptors <= 512 { 60 } else { 12 });
                twins.end();
            }
        }
    }
}

/// Small rings, many laps.
#[test]
fn many_laps_do_what_the_scalar_loop_does() {
    for isa in vector_isas() {
        for (seed, descriptors) in [64, 96, 128, 160].into_iter().enumerate() {
            for stride in [16, 32] {
                let mut random = Random::new(1000 + seed as u64);
                let mut twins = Twins::new(descriptors, stride, isa, 1000 + seed as u64);
                run(&mut twins, &mut random, 1500);
                twins.end();
            }
        }
    }
}

/// Every place in a ring for every length of a burst, all frames plain, and one of them in several buffers.
#[test]
fn every_place_and_every_length() {
    for isa in vector_isas() {
        for stride in [16, 32] {
            let mut random = Random::new(7);
            let mut twins = Twins::new(96, stride, isa, 7);
            for len in 1..=64_usize {
                for _ in 0..96_usize {
                    let several = random.below(2 * len);
                    for frame in 0..len.min(twins.owned()) {
                        let marks = if frame == several { 0 } else { EOP };
                        twins.finish([0, 60 << 38 | marks | DD], false);
                    }
                    twins.receive(len);
                    // Ends what was begun, so that the next burst starts with a frame of its own.
                    if twins.owned() > 0 {
                        twins.finish([0, 60 << 38 | EOP | DD], false);
                    }
                    twins.receive(64);
                    twins.give_back(0);
                }
            }
            twins.end();
        }
    }
}
