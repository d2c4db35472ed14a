//! The rings against a card that is played by hand: raw descriptor words, as the datasheet lays them out.

mod equal_relay;
mod equal_rx;
mod equal_tx;
mod rx;
mod tx;

use std::sync::{Arc, Mutex};
use std::vec::Vec;

use hal::hosted::{FakeBar, HostedMachine, Registers};
use hal::simd::{Isa, Level};
use hal::{BarAccess, DmaMemory, Doorbell, Machine, Reg, Wo};
use kernel::port::QueueSetup;
use kernel::{BufferLayout, Pool};

/// Tails that were written, in order.
#[derive(Clone, Default)]
struct Tails(Arc<Mutex<Vec<u32>>>);

impl Registers for Tails {
    fn read(&mut self, _offset: u32, data: &mut [u8]) {
        data.fill(0);
    }
    fn write(&mut self, offset: u32, value: u32) {
        assert_eq!(offset, 0x40);
        self.0.lock().unwrap().push(value);
    }
}

impl Tails {
    fn last(&self) -> u32 {
        *self.0.lock().unwrap().last().unwrap()
    }
    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

/// A ring's memory, a pool, and a tail register.
struct Bench {
    tails: Tails,
    bar: FakeBar,
    ring: DmaMemory,
    setup: QueueSetup,
    pool: Pool,
    stride: usize,
}

impl Bench {
    fn new(descriptors: u16, stride: usize, buffers: usize) -> Self {
        Self::with_isa(descriptors, stride, buffers, Isa::Scalar)
    }

    fn with_isa(descriptors: u16, stride: usize, buffers: usize, isa: Isa) -> Self {
        let machine = HostedMachine::<FakeBar>::new(64 << 20).unwrap();
        let layout = BufferLayout::DEFAULT;
        let ring = machine.dma_alloc(usize::from(descriptors) * stride, 4096).unwrap();
        let memory = machine.dma_alloc(layout.bytes(buffers), 4096).unwrap();
        let tails = Tails::default();
        let bar = FakeBar::new(0x100, tails.clone());
        let setup = QueueSetup { descriptors, memory: memory.clone(), layout, isa };
        Self { tails, bar, ring, setup, pool: Pool::new(memory, layout), stride }
    }

    fn doorbell(&self) -> Doorbell<FakeBar> {
        self.bar.doorbell(Reg::<u32, Wo>::at(0x40))
    }

    fn word(&self, index: usize, word: usize) -> u64 {
        self.ring.load(index * self.stride + word * 8).unwrap()
    }

    fn set_word(&self, index: usize, word: usize, value: u64) {
        self.ring.store(index * self.stride + word * 8, value).unwrap();
    }
}

/// A small generator: xorshift.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) % limit.max(1) as u64) as usize
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}

/// The vector loops that this machine has.
fn vector_isas() -> impl Iterator<Item = Isa> {
    Level::ALL.into_iter().filter(|level| *level > Level::Scalar).filter_map(Isa::exactly)
}
