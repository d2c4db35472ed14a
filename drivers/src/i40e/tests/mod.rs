//! The rings against a card that is played by hand: raw descriptor words, as the datasheet lays them out.

mod rx;
mod tx;

use std::sync::{Arc, Mutex};
use std::vec::Vec;

use hal::hosted::{FakeBar, HostedMachine, Registers};
use hal::simd::Isa;
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
        let machine = HostedMachine::<FakeBar>::new(64 << 20).unwrap();
        let layout = BufferLayout::DEFAULT;
        let ring = machine.dma_alloc(usize::from(descriptors) * stride, 4096).unwrap();
        let memory = machine.dma_alloc(layout.bytes(buffers), 4096).unwrap();
        let tails = Tails::default();
        let bar = FakeBar::new(0x100, tails.clone());
        let setup = QueueSetup { descriptors, memory: memory.clone(), layout, isa: Isa::Scalar };
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
