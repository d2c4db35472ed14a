//! Transmit in vector registers against the scalar loop: two rings with the same card, compared after each call.

use std::vec::Vec;

use hal::hosted::FakeBar;
use hal::simd::Isa;
use kernel::request::{Checksums, IpHeader, L4Checksum, Segmentation};
use kernel::{BLOCK, Buffers, Burst, Meta, Packet, TxQueue, TxRequest};

use super::super::Tx;
use super::tx::queue;
use super::{Bench, Random, vector_isas};

const RS: u64 = 1 << 5;

struct Side {
    bench: Bench,
    tx: Tx<FakeBar>,
    burst: Burst,
}

struct Twins {
    sides: [Side; 2],
    count: usize,
    /// The card's head.
    head: usize,
    what: std::string::String,
}

impl Twins {
    fn new(descriptors: u16, isa: Isa, seed: u64) -> Self {
        let count = usize::from(descriptors);
        let sides = [Isa::Scalar, isa].map(|isa| {
            let bench = Bench::with_isa(descriptors, 16, count + 600, isa);
            let tx = queue(&bench);
            assert_eq!(tx.path().level, isa.level());
            Side { bench, tx, burst: Burst::new() }
        });
        Self { sides, count, head: 0, what: std::format!("{isa} ring {descriptors} seed {seed}") }
    }

    /// Adds a frame of `metas` to both bursts, in buffers of the pools; `outside` in one that is not in the memory.
    fn add(&mut self, metas: &[Meta], outside: bool) {
        for Side { bench, burst, .. } in &mut self.sides {
            if bench.pool.available() < metas.len() || burst.room() < metas.len() {
                continue;
            }
            for meta in metas {
                let buffer = bench.pool.take().unwrap();
                let buffer = if outside { u32::MAX - 4000 } else { buffer };
                burst.push(Packet { buffer, meta: *meta }).unwrap();
            }
        }
    }

    /// Adds frames that are told to be plain.
    fn add_plain(&mut self, random: &mut Random, count: usize) {
        let lens: Vec<u32> = (0..count).map(|_| 17 + random.below(2000) as u32).collect();
        for Side { bench, burst, .. } in &mut self.sides {
            let (buffers, metas) = burst.spare();
            let (mut entries, mut bytes) = (0, 0);
            for ((buffer, meta), len) in buffers.iter_mut().zip(metas).zip(&lens) {
                let Some(taken) = bench.pool.take() else { break };
                *buffer = taken;
                *meta = Meta { lo: 0xdead_beef_0000_0000, hi: Meta::frame(*len).hi | 0x5_0000_0001 };
                entries += 1;
                bytes += u64::from(*len);
            }
            burst.commit(entries, Some(bytes));
        }
    }

    fn send(&mut self) {
        let [frames, others] =
            self.sides.each_mut().map(|side| side.tx.tx_burst(&mut side.bench.pool, &mut side.burst));
        assert_eq!(frames, others, "{}: frames", self.what);
        let [scalar, vector] = &self.sides;
        let what = &self.what;
        assert_eq!(scalar.burst.buffers(), vector.burst.buffers(), "{what}: what stays");
        assert_eq!(scalar.tx.counters(), vector.tx.counters(), "{what}: counters");
        assert_eq!(scalar.tx.drops(), vector.tx.drops(), "{what}: drops");
        assert_eq!(scalar.bench.pool.available(), vector.bench.pool.available(), "{what}: pool");
        assert_eq!(scalar.bench.tails.count(), vector.bench.tails.count(), "{what}: doorbells");
    }

    /// The card sends up to `most` descriptors and marks those that ask for it.
    fn work(&mut self, most: usize) {
        if self.sides[0].bench.tails.count() == 0 {
            return;
        }
        let tail = self.sides[0].bench.tails.last() as usize;
        assert_eq!(self.sides[1].bench.tails.last() as usize, tail, "{}: tail", self.what);
        for _ in 0..most {
            if self.head == tail {
                break;
            }
            let [a, b] =
                self.sides.each_ref().map(|side| [0, 1].map(|word| side.bench.word(self.head, word)));
            assert_eq!(a, b, "{}: descriptor {}", self.what, self.head);
            if a[1] & RS != 0 && a[1] & 0xf == 0 {
                self.sides.iter().for_each(|side| side.bench.set_word(self.head, 1, a[1] | 0xf));
            }
            self.head = (self.head + 1) % self.count;
        }
    }

    fn take_sent(&mut self) {
        let [a, b] = self.sides.each_mut().map(|side| {
            let mut block = [0; BLOCK];
            let taken = side.tx.take_sent(&mut block);
            if taken {
                side.bench.pool.give(&block);
            }
            (taken, block)
        });
        assert_eq!(a, b, "{}: sent block", self.what);
    }

    fn end(self) {
        let head = self.head;
        let ends = self.sides.map(|Side { mut bench, tx, mut burst }| {
            burst.give_back(&mut bench.pool);
            let unsent = tx.release(head, &mut bench.pool);
            let order: Vec<u32> = core::iter::from_fn(|| bench.pool.take()).collect();
            (unsent, order)
        });
        assert!(ends[0] == ends[1], "{}: what is left", self.what);
    }
}

/// A frame with something special about it.
fn odd_frame(random: &mut Random) -> (Vec<Meta>, bool) {
    let len = 60 + random.below(1400) as u32;
    let udp = Checksums { l2_len: 14, l3_len: 20, ip: IpHeader::V4Checksum, l4: Some(L4Checksum::Udp) };
    let checksums = match random.below(4) {
        0 => udp,
        1 => Checksums { l3_len: 40, ip: IpHeader::V6, l4: Some(L4Checksum::Tcp), ..udp },
        2 => Checksums { ip: IpHeader::V4, l4: Some(L4Checksum::Sctp), ..udp },
        _ => Checksums { l2_len: 18, l3_len: 60, l4: None, ..udp },
    };
    let request = |request: TxRequest, len| request.put(Meta::frame(len)).unwrap();
    let tag = Some(random.below(1 << 16) as u16);
    let mut outside = false;
    let metas = match random.below(14) {
        0 => std::vec![Meta::segment(2048), Meta::segment(300), Meta::frame(len)],
        1 => std::vec![Meta::segment(64); 9].into_iter().chain([Meta::frame(1)]).collect(),
        2 => std::vec![Meta::frame(random.below(18) as u32)],
        3 => std::vec![Meta::frame(9729 + random.below(6000) as u32)],
        4 => std::vec![Meta { lo: 0, hi: Meta::frame(len).hi | (1 + random.below(2047) as u64) << 52 }],
        5 => {
            outside = true;
            std::vec![Meta::frame(9000)]
        }
        6 => std::vec![request(TxRequest { vlan: tag, ..TxRequest::default() }, len)],
        7 => std::vec![request(TxRequest { checksums: Some(checksums), ..TxRequest::default() }, len)],
        8 => std::vec![request(
            TxRequest { vlan: tag, checksums: Some(checksums), ..TxRequest::default() },
            9726
        )],
        9 => std::vec![request(TxRequest { vlan: tag, outer_vlan: tag, ..TxRequest::default() }, len)],
        10 => {
            let segmentation = Some(Segmentation { mss: 536, l4_len: 20 });
            let checksums = Some(Checksums { l4: Some(L4Checksum::Tcp), ..udp });
            std::vec![request(TxRequest { checksums, segmentation, ..TxRequest::default() }, len)]
        }
        // Bits that can't be asked for, or that mean nothing.
        11 => std::vec![Meta { lo: random.below(1 << 60) as u64, hi: Meta::frame(len).hi }],
        12 => std::vec![Meta { lo: 1 << random.below(16), hi: Meta::frame(len).hi | 1 << 19 | 1 << 25 }],
        _ => std::vec![request(TxRequest { checksums: Some(checksums), ..TxRequest::default() }, 50)],
    };
    (metas, outside)
}

fn fill(twins: &mut Twins, random: &mut Random) {
    match random.below(3) {
        0 => {
            let count = 1 + random.below(64);
            twins.add_plain(random, count);
        }
        kind => {
            for _ in 0..=random.below(64) {
                if random.one_in(if kind == 1 { 12 } else { 2 }) {
                    let (metas, outside) = odd_frame(random);
                    // Requests come in rows, as a mode makes them.
                    for _ in 0..if metas.len() == 1 { 1 + random.below(20) } else { 1 } {
                        twins.add(&metas, outside);
                    }
                } else {
                    twins.add(&[Meta::frame(17 + random.below(1500) as u32)], false);
                }
            }
        }
    }
}

fn run(twins: &mut Twins, random: &mut Random, rounds: usize) {
    for _ in 0..rounds {
        fill(twins, random);
        twins.send();
        if random.one_in(2) {
            let most = random.below(200);
            twins.work(most);
        }
        for _ in 0..random.below(4) {
            twins.take_sent();
        }
    }
    twins.work(usize::MAX);
}

#[test]
fn every_ring_does_what_the_scalar_loop_does() {
    for isa in vector_isas() {
        for (seed, descriptors) in (64..=4096).step_by(32).chain([8160]).enumerate() {
            let mut random = Random::new(seed as u64);
            let mut twins = Twins::new(descriptors, isa, seed as u64);
            run(&mut twins, &mut random, if descriptors <= 512 { 80 } else { 30 });
            twins.end();
        }
    }
}

#[test]
fn many_laps_do_what_the_scalar_loop_does() {
    for isa in vector_isas() {
        for (seed, descriptors) in [64, 96, 256, 512].into_iter().enumerate() {
            let mut random = Random::new(2000 + seed as u64);
            let mut twins = Twins::new(descriptors, isa, 2000 + seed as u64);
            run(&mut twins, &mut random, 1500);
            twins.end();
        }
    }
}

/// Every place in a ring for every length of a burst, of frames that are known to be plain and of such that are not.
#[test]
fn every_place_and_every_length() {
    for isa in vector_isas() {
        let mut random = Random::new(9);
        let mut twins = Twins::new(96, isa, 9);
        for len in 1..=64_usize {
            for place in 0..96_usize {
                if place % 2 == 0 {
                    twins.add_plain(&mut random, len);
                } else {
                    (0..len).for_each(|_| twins.add(&[Meta::frame(60)], false));
                }
                twins.send();
                twins.work(usize::MAX);
                twins.take_sent();
                twins.take_sent();
            }
        }
        twins.end();
    }
}
