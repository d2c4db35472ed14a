//! Transmit: `next` is the first free descriptor, `used` counts those behind it that the card still has, so the oldest is
//! `next - used`.

use boot::port::ImageQueue;
use hal::ring::acquire;
use hal::simd::Isa;
use hal::{Bar, BufferRing, DescRing, Doorbell};
use kernel::port::{Path, QueueCounters, QueueSetup};
use kernel::{BLOCK, Buffers, Burst, DropReason, Drops, Meta, TxQueue};

use crate::regs::tx;
use crate::scalar;

/// Shortest frame without FCS. The card could pad, and some of its family damage the frame then (by Linux's driver).
const SHORTEST: u32 = 60;
/// Longest, with one tag.
const LONGEST: u32 = 1518;
/// Most buffers of a frame, to bound what a frame takes of the ring.
const SEGMENTS: usize = 8;

/// The transmit queue.
pub struct Tx<B> {
    slots: BufferRing<2>,
    tail: Doorbell<B>,
    /// Device address of byte 0 of the packet memory, and its bytes.
    base: u64,
    memory_len: u64,
    next: usize,
    used: usize,
    isa: Isa,
    counters: QueueCounters,
    drops: Drops,
}

impl<B: Bar> Tx<B> {
    /// A queue on this ring of a multiple of 32 descriptors.
    pub fn new(descriptors: DescRing<2>, tail: Doorbell<B>, setup: &QueueSetup) -> Self {
        Self {
            slots: BufferRing::new(descriptors),
            tail,
            base: setup.memory.addr().as_u64(),
            memory_len: setup.memory.len() as u64,
            next: 0,
            used: 0,
            isa: setup.isa,
            counters: QueueCounters::default(),
            drops: Drops::default(),
        }
    }

    fn count(&self) -> usize {
        self.slots.descriptors().count()
    }

    /// The descriptor `at` places behind the oldest that the card has.
    fn behind_oldest(&self, at: usize) -> usize {
        (self.next + self.count() - self.used + at) % self.count()
    }

    /// The card is done with the oldest `entries`: it works in order.
    fn is_done(&self, entries: usize) -> bool {
        let done = entries > 0
            && entries <= self.used
            && self.slots.descriptors().read(self.behind_oldest(entries - 1), 1) & tx::DD != 0;
        if done {
            acquire();
        }
        done
    }

    /// One stays free, since a full ring would look like an empty one.
    fn free(&self) -> usize {
        self.count() - 1 - self.used
    }

    /// Gives sent buffers back until so many descriptors are free; says whether they are.
    fn make_room(&mut self, entries: usize, buffers: &mut impl Buffers) -> bool {
        while self.free() < entries && self.is_done(1) {
            buffers.give(&[self.slots.buffer(self.behind_oldest(0))]);
            self.used -= 1;
        }
        self.free() >= entries
    }

    /// Bytes of the frame, or why the card is not given it.
    fn judge(&self, offsets: &[u32], metas: &[Meta]) -> Result<u32, DropReason> {
        if offsets.len() > SEGMENTS {
            return Err(DropReason::TxSegments);
        }
        let end = |(offset, meta): (&u32, &Meta)| {
            u64::from(*offset) + u64::from(meta.start()) + u64::from(meta.len())
        };
        let outside = offsets.iter().zip(metas).map(end).any(|end| end > self.memory_len);
        if outside || metas.iter().any(|meta| meta.is_empty()) {
            return Err(DropReason::TxBuffer);
        }
        match metas.iter().map(|meta| meta.len()).sum() {
            ..SHORTEST => Err(DropReason::TxTooShort),
            len if len > LONGEST => Err(DropReason::TxTooLong),
            _ if metas.iter().any(|meta| meta.has_request()) => Err(DropReason::TxRequest),
            len => Ok(len),
        }
    }

    /// Writes the descriptors of a frame; there is room.
    fn write(&mut self, offsets: &[u32], metas: &[Meta]) {
        for (offset, meta) in offsets.iter().zip(metas) {
            let end = if meta.is_last() { tx::EOP } else { 0 };
            let address = self.base + u64::from(*offset) + u64::from(meta.start());
            let word = u64::from(meta.len()) | tx::IFCS | tx::RS | end;
            self.slots.descriptors().write_all(self.next, [address, word]);
            self.slots.set_buffer(self.next, *offset);
            self.next = (self.next + 1) % self.count();
            self.used += 1;
        }
    }

    /// The card has sent everything.
    pub(crate) fn is_idle(&self) -> bool {
        self.used == 0 || self.is_done(self.used)
    }

    /// Gives every buffer back. The card does not read any more. Returns what it has not sent.
    pub(crate) fn release(self, buffers: &mut impl Buffers) -> QueueCounters {
        let mut unsent = QueueCounters::default();
        for index in (0..self.used).map(|at| self.behind_oldest(at)) {
            let word = self.slots.descriptors().read(index, 1);
            if word & tx::DD == 0 {
                unsent.bytes += word & 0xffff;
                unsent.frames += u64::from(word & tx::EOP != 0);
            }
            buffers.give(&[self.slots.buffer(index)]);
        }
        unsent
    }
}

impl<B: Bar> TxQueue for Tx<B> {
    fn tx_burst(&mut self, buffers: &mut impl Buffers, burst: &mut Burst) -> usize {
        let mut frames = 0;
        while let Some(last) = burst.metas().iter().position(|meta| meta.is_last()) {
            let entries = last + 1;
            let (offsets, metas) = (burst.buffers(), burst.metas());
            let (Some(offsets), Some(metas)) = (offsets.get(..entries), metas.get(..entries)) else { break };
            match self.judge(offsets, metas) {
                Ok(len) if self.make_room(entries, buffers) => {
                    self.write(offsets, metas);
                    frames += 1;
                    self.counters.frames += 1;
                    self.counters.bytes += u64::from(len);
                }
                Ok(_) => break,
                Err(reason) => {
                    self.drops.add(reason, 1);
                    buffers.give(offsets);
                }
            }
            burst.release(entries);
        }
        if frames > 0 {
            self.tail.ring(self.next as u32);
        }
        frames
    }

    fn take_sent(&mut self, block: &mut [u32; BLOCK]) -> bool {
        if !self.is_done(BLOCK) {
            return false;
        }
        for (at, buffer) in block.iter_mut().enumerate() {
            *buffer = self.slots.buffer(self.behind_oldest(at));
        }
        self.used -= BLOCK;
        true
    }

    fn counters(&self) -> QueueCounters {
        self.counters
    }

    fn drops(&self) -> &Drops {
        &self.drops
    }
}

impl<B: Bar> ImageQueue for Tx<B> {
    fn index(&self) -> usize {
        0
    }

    fn path(&self) -> Path {
        scalar(self.isa)
    }
}
