//! Receive: a frame is one descriptor, since buffers are longer than the longest frame that the card lets in.

use boot::port::ImageQueue;
use hal::ring::acquire;
use hal::simd::Isa;
use hal::{Bar, BufferRing, DescRing, Doorbell};
use kernel::port::{Path, QueueCounters, QueueSetup};
use kernel::{BLOCK, Buffers, Burst, DropReason, Drops, Meta, Packet, RxQueue};

use crate::regs::rx;
use crate::scalar;

/// Longest frame without FCS, with one tag.
const LONGEST: u32 = 1518;

/// The receive queue.
pub struct Rx<B> {
    slots: BufferRing<2>,
    tail: Doorbell<B>,
    /// Device address of byte 0 of the packet memory.
    base: u64,
    /// The oldest descriptor that the card has.
    next: usize,
    /// Descriptors that it has from there on.
    armed: usize,
    isa: Isa,
    counters: QueueCounters,
    drops: Drops,
}

impl<B: Bar> Rx<B> {
    /// A queue on this ring of a multiple of 32 descriptors.
    pub fn new(descriptors: DescRing<2>, tail: Doorbell<B>, setup: &QueueSetup) -> Self {
        Self {
            slots: BufferRing::new(descriptors),
            tail,
            base: setup.memory.addr().as_u64(),
            next: 0,
            armed: 0,
            isa: setup.isa,
            counters: QueueCounters::default(),
            drops: Drops::default(),
        }
    }

    fn wrap(&self, index: usize) -> usize {
        index % self.slots.descriptors().count()
    }

    /// Gives the card as many buffers as there is room for, whole blocks. It never has all descriptors: head and tail
    /// together say that it has none.
    pub(crate) fn arm(&mut self, buffers: &mut impl Buffers) {
        let before = self.armed;
        let mut block = [0; BLOCK];
        while self.armed + BLOCK < self.slots.descriptors().count() && buffers.take_block(&mut block) {
            for buffer in block {
                let index = self.wrap(self.next + self.armed);
                self.slots.set_buffer(index, buffer);
                self.slots.descriptors().write_all(index, [self.base + u64::from(buffer), 0]);
                self.armed += 1;
            }
        }
        if self.armed > before {
            self.tail.ring(self.wrap(self.next + self.armed) as u32);
        }
    }

    /// The next buffer that the card is done with, and its descriptor's second word.
    fn take(&mut self) -> Option<(u32, u64)> {
        if self.armed == 0 {
            return None;
        }
        let word = self.slots.descriptors().read(self.next, 1);
        if word & rx::DD == 0 {
            return None;
        }
        acquire();
        let buffer = self.slots.buffer(self.next);
        self.next = self.wrap(self.next + 1);
        self.armed -= 1;
        Some((buffer, word))
    }

    /// Gives every buffer back. The card does not write any more. Returns what had arrived.
    pub(crate) fn release(mut self, buffers: &mut impl Buffers) -> QueueCounters {
        let mut left = QueueCounters::default();
        while let Some((buffer, word)) = self.take() {
            left.frames += 1;
            left.bytes += word & 0xffff;
            buffers.give(&[buffer]);
        }
        for at in 0..self.armed {
            buffers.give(&[self.slots.buffer(self.wrap(self.next + at))]);
        }
        left
    }
}

/// Bytes of the frame, or why it is none.
fn judge(word: u64) -> Result<u32, DropReason> {
    let len = word as u32 & 0xffff;
    match () {
        () if word & rx::EOP == 0 => Err(DropReason::RxSegments),
        () if word & rx::ERRORS != 0 || !(1..=LONGEST).contains(&len) => Err(DropReason::RxError),
        () => Ok(len),
    }
}

impl<B: Bar> RxQueue for Rx<B> {
    fn rx_burst(&mut self, buffers: &mut impl Buffers, burst: &mut Burst, limit: usize) -> usize {
        let mut frames = 0;
        while frames < limit && burst.room() > 0 {
            let Some((buffer, word)) = self.take() else { break };
            self.counters.frames += 1;
            self.counters.bytes += word & 0xffff;
            match judge(word) {
                Ok(len) => {
                    // There is room.
                    let _ = burst.push(Packet { buffer, meta: Meta::frame(len) });
                    frames += 1;
                }
                Err(reason) => {
                    self.drops.add(reason, 1);
                    buffers.give(&[buffer]);
                }
            }
        }
        self.arm(buffers);
        frames
    }

    fn counters(&self) -> QueueCounters {
        self.counters
    }

    fn drops(&self) -> &Drops {
        &self.drops
    }
}

impl<B: Bar> ImageQueue for Rx<B> {
    fn index(&self) -> usize {
        0
    }

    fn path(&self) -> Path {
        scalar(self.isa)
    }
}
