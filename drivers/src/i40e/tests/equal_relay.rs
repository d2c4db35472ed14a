//! `io` and `macswap` from ring to ring against receive, change and transmit one after the other: the same card on both
//! sides of two cores, what leaves compared frame by frame.

use std::boxed::Box;
use std::vec::Vec;

use hal::DescRing;
use hal::hosted::FakeBar;
use hal::simd::Isa;
use kernel::forward::{Forwarder, Mode, Route};
use kernel::lcore::{Lcore, Stream};
use kernel::{DropReason, MacAddr, Pool, RxQueue, TxQueue};

use super::super::{Rx, Tx};
use super::{Bench, Random, vector_isas};

const DD: u64 = 1;
const EOP: u64 = 2;
const RS: u64 = 1 << 5;

struct Side {
    /// The receive ring, its tails and the packet memory; its pool is not used.
    receive: Bench,
    /// The transmit ring and its tails.
    send: Bench,
    core: Box<Lcore<Rx<FakeBar>, Tx<FakeBar>, Forwarder>>,
    rx_head: usize,
    tx_head: usize,
    next: u64,
}

impl Side {
    fn new((rxd, txd): (u16, u16), stride: usize, mode: Mode, isa: Isa) -> Self {
        let buffers = usize::from(rxd) + usize::from(txd) + 64;
        let receive = Bench::with_isa(rxd, stride, buffers, isa);
        let mut send = Bench::with_isa(txd, 16, 1, isa);
        send.setup.memory = receive.setup.memory.clone();
        let mut pool = Pool::new(receive.setup.memory.clone(), receive.setup.layout);
        let mut rx = super::rx::queue(&receive);
        rx.arm(&mut pool);
        let ring = DescRing::new(send.ring.clone(), usize::from(txd)).unwrap();
        let tx = Tx::new(0, ring, send.doorbell(), &send.setup);
        let mut core = Box::new(Lcore::new(pool, Forwarder::plain(mode, isa), 32));
        let route = Route { mac: MacAddr([0x68, 5, 0xca, 1, 2, 3]), peer: MacAddr([2, 9, 8, 7, 6, 5]) };
        let stream = Stream::new((0, 0), rx, tx, route);
        assert!(core.streams.push(stream).is_ok());
        Self { receive, send, core, rx_head: 0, tx_head: 0, next: 0 }
    }

    /// The card receives up to `most` frames, each numbered in its first 16 bytes.
    fn arrive(&mut self, most: usize) {
        let count = usize::from(self.receive.setup.descriptors);
        let base = self.receive.setup.memory.addr().as_u64();
        for _ in 0..most {
            if self.rx_head == self.receive.tails.last() as usize {
                break;
            }
            let buffer = (self.receive.word(self.rx_head, 0) - base) as usize;
            self.receive.setup.memory.store(buffer, u128::from(self.next) << 40 | 0x0102_0304).unwrap();
            // What a frame is depends on its number alone.
            let (len, marks) = match Random::new(self.next).below(50) {
                0 => (10, EOP),
                1 => (2048, 0),
                2 => (64, EOP | 1 << 19),
                _ => (60 + self.next % 1400, EOP),
            };
            self.receive.set_word(self.rx_head, 0, self.next << 32);
            self.receive.set_word(self.rx_head, 1, len << 38 | marks | DD);
            self.rx_head = (self.rx_head + 1) % count;
            self.next += 1;
        }
    }

    /// The card sends up to `most` descriptors: length, end mark and the first 16 bytes of each.
    fn leave(&mut self, most: usize) -> Vec<(u64, bool, u128)> {
        let mut left = Vec::new();
        let base = self.receive.setup.memory.addr().as_u64();
        while left.len() < most
            && self.send.tails.count() > 0
            && self.tx_head != self.send.tails.last() as usize
        {
            let word = self.send.word(self.tx_head, 1);
            let buffer = (self.send.word(self.tx_head, 0) - base) as usize;
            let bytes = self.receive.setup.memory.load::<u128>(buffer).unwrap();
            left.push((word >> 34 & 0x3fff, word & 1 << 4 != 0, bytes));
            if word & RS != 0 {
                self.send.set_word(self.tx_head, 1, word | 0xf);
            }
            self.tx_head = (self.tx_head + 1) % usize::from(self.send.setup.descriptors);
        }
        left
    }

    fn end(mut self) {
        let stream = self.core.streams.pop().unwrap();
        let (received, sent) = (stream.rx.counters().frames, stream.tx.counters().frames);
        assert_eq!(received, sent + stream.all_drops().total());
        stream.rx.release(&mut self.core.pool);
        stream.tx.release(self.tx_head, &mut self.core.pool);
        assert_eq!((self.core.pool.available(), self.core.pool.excess()), (self.core.pool.capacity(), 0));
    }
}

/// Both forward the first `frames` frames; how many at a time depends on the seed.
fn run(rings: (u16, u16), stride: usize, mode: Mode, isa: Isa, frames: u64, seed: u64) {
    let what = std::format!("{isa} {stride}B {} rings {rings:?} seed {seed}", mode.name());
    let [scalar, vector] = [Isa::Scalar, isa].map(|isa| {
        let mut side = Side::new(rings, stride, mode, isa);
        let mut random = Random::new(seed);
        let mut left = Vec::new();
        while side.next < frames {
            let arriving = random.below(100).min((frames - side.next) as usize);
            side.arrive(arriving);
            for _ in 0..=random.below(5) {
                side.core.poll();
                left.extend(side.leave(usize::MAX));
            }
        }
        while side.core.poll() > 0 {}
        left.extend(side.leave(usize::MAX));
        let drops = side.core.streams[0].all_drops();
        side.end();
        (left, drops)
    });
    assert!(scalar.0 == vector.0, "{what}: what left");
    assert_eq!(scalar.1, vector.1, "{what}: drops");
}

#[test]
fn ring_to_ring_does_what_three_steps_do() {
    const RINGS: [(u16, u16); 5] = [(64, 128), (96, 160), (160, 128), (512, 512), (1024, 512)];
    for isa in vector_isas() {
        for mode in [Mode::Io, Mode::MacSwap, Mode::Mac] {
            for (seed, rings) in RINGS.into_iter().enumerate() {
                for stride in [16, 32] {
                    run(rings, stride, mode, isa, 6000, seed as u64);
                }
            }
        }
    }
}

/// A card that sends late: the ring is full time and again, and every frame is counted.
#[test]
fn a_full_transmit_ring_loses_nothing_without_a_name() {
    for isa in vector_isas() {
        for (seed, mode) in [Mode::Io, Mode::MacSwap, Mode::Mac].into_iter().enumerate() {
            let mut side = Side::new((128, 64), 32, mode, isa);
            let mut random = Random::new(seed as u64);
            for _ in 0..2000 {
                side.arrive(random.below(100));
                side.core.poll();
                side.leave(random.below(30));
            }
            assert!(side.core.streams[0].drops.get(DropReason::TxFull) > 100);
            side.end();
        }
    }
}
