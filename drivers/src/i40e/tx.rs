//! Transmit: the driver writes descriptors and the tail, the card marks those done that asked for it.
//!
//! `next` is the first free descriptor, `used` counts those behind it that still own a buffer, so the oldest is
//! `next - used`. Completion is asked for (RS) at the end of the frame that fills or crosses the end of each
//! aligned block of 32, and read there: then the whole block is done, since the card works in order.

use alloc::boxed::Box;
use alloc::vec;

use hal::{Bar, DescRing, Doorbell};
use kernel::port::{QueueCounters, QueueSetup};
use kernel::{BLOCK, Buffers, Burst, DropReason, Drops, Meta, TxQueue};

use super::desc::tx;
use super::{MAX_FRAME, MAX_TX_BUFFERS, MIN_FRAME};

/// A transmit queue.
pub struct Tx<B> {
    index: usize,
    descriptors: DescRing<2>,
    tail: Doorbell<B>,
    /// Device address of byte 0 of the packet memory, and its bytes.
    base: u64,
    memory_len: u64,
    /// The buffer of each descriptor.
    shadow: Box<[u32]>,
    /// For each block the descriptor whose completion completes it.
    report_at: Box<[u16]>,
    count: usize,
    next: usize,
    used: usize,
    counters: QueueCounters,
    drops: Drops,
}

impl<B: Bar> Tx<B> {
    pub(super) fn new(index: usize, descriptors: DescRing<2>, tail: Doorbell<B>, setup: &QueueSetup) -> Self {
        let count = descriptors.count();
        descriptors.fill(0);
        Self {
            index,
            descriptors,
            tail,
            base: setup.memory.addr().as_u64(),
            memory_len: setup.memory.len() as u64,
            shadow: vec![0; count].into_boxed_slice(),
            report_at: vec![0; count / BLOCK].into_boxed_slice(),
            count,
            next: 0,
            used: 0,
            counters: QueueCounters::default(),
            drops: Drops::default(),
        }
    }

    /// Its number within the port.
    pub(super) fn index(&self) -> usize {
        self.index
    }

    /// Which loop the queue runs, as the image prints it.
    pub fn path(&self) -> &'static str {
        "scalar"
    }

    /// The first free descriptor: where the tail stands between two bursts.
    pub(super) fn next(&self) -> usize {
        self.next
    }

    /// Descriptors that can be written: one stays free, since a full ring would look like an empty one.
    fn free(&self) -> usize {
        self.count - 1 - self.used
    }

    fn wrap(&self, index: usize) -> usize {
        if index >= self.count { index - self.count } else { index }
    }

    /// The oldest block, if all of its buffers have been sent.
    #[inline]
    fn sent_block(&self) -> Option<&[u32; BLOCK]> {
        if self.used < BLOCK {
            return None;
        }
        let start = self.wrap(self.next + self.count - self.used);
        let report_at = usize::from(*self.report_at.get(start / BLOCK)?);
        let done = self.descriptors.read(report_at, 1) & tx::TYPE_MASK == tx::DONE;
        let block = self.shadow.get(start..start + BLOCK)?;
        if done { block.try_into().ok() } else { None }
    }

    /// The card's head as far as its marks tell it, for when its register does not: behind the last block that is
    /// done.
    pub(super) fn marked_head(&self) -> usize {
        let (mut head, mut left) = (self.wrap(self.next + self.count - self.used), self.used);
        while left >= BLOCK {
            let Some(report_at) = self.report_at.get(head / BLOCK) else { break };
            if self.descriptors.read(usize::from(*report_at), 1) & tx::TYPE_MASK != tx::DONE {
                break;
            }
            head = self.wrap(head + BLOCK);
            left -= BLOCK;
        }
        head
    }

    /// The descriptor whose completion the queue waits for, if the card, at `head`, has passed it without marking
    /// it.
    pub(super) fn unmarked(&self, head: usize) -> Option<usize> {
        if self.used < BLOCK || self.sent_block().is_some() || head >= self.count {
            return None;
        }
        let oldest = self.wrap(self.next + self.count - self.used);
        let report_at = usize::from(*self.report_at.get(oldest / BLOCK)?);
        let from_oldest = |index: usize| self.wrap(index + self.count - oldest);
        let passed = from_oldest(head) > from_oldest(report_at) && from_oldest(head) <= self.used;
        passed.then_some(report_at)
    }

    /// Gives sent buffers back until `wanted` descriptors are free.
    fn make_room(&mut self, wanted: usize, buffers: &mut impl Buffers) -> bool {
        while self.free() < wanted {
            let Some(block) = self.sent_block() else { return false };
            buffers.give(block);
            self.used -= BLOCK;
        }
        true
    }

    /// Writes the descriptors of one frame.
    #[inline]
    fn write_frame(&mut self, offsets: &[u32], metas: &[Meta]) {
        let last = offsets.len().wrapping_sub(1);
        let end = self.next % BLOCK + offsets.len();
        for (i, (offset, meta)) in offsets.iter().zip(metas).enumerate() {
            let index = self.wrap(self.next + i);
            let mut word = tx::ICRC | u64::from(meta.len()) << tx::SIZE_SHIFT;
            if i == last {
                word |= tx::EOP;
                if end >= BLOCK {
                    word |= tx::RS;
                    if let Some(report_at) = self.report_at.get_mut(self.next / BLOCK) {
                        *report_at = index as u16;
                    }
                }
            }
            self.descriptors.write(index, 0, self.base + u64::from(*offset) + u64::from(meta.start()));
            self.descriptors.write(index, 1, word);
            if let Some(shadow) = self.shadow.get_mut(index) {
                *shadow = *offset;
            }
        }
        self.next = self.wrap(self.next + offsets.len());
        self.used += offsets.len();
    }

    /// Why the card must not be given a frame: each of these stops a queue of a real card.
    #[inline]
    fn refusal(&self, offsets: &[u32], metas: &[Meta]) -> Option<DropReason> {
        if offsets.len() > MAX_TX_BUFFERS {
            return Some(DropReason::TxSegments);
        }
        let mut len = 0;
        for (offset, meta) in offsets.iter().zip(metas) {
            let end = u64::from(*offset) + u64::from(meta.start()) + u64::from(meta.len());
            if meta.is_empty() || end > self.memory_len {
                return Some(DropReason::TxBuffer);
            }
            len += meta.len();
        }
        match len {
            0..MIN_FRAME => Some(DropReason::TxTooShort),
            MIN_FRAME..=MAX_FRAME => None,
            _ => Some(DropReason::TxTooLong),
        }
    }

    /// Gives every buffer back, after the queue was stopped with the card's head at `head`. Returns the frames
    /// that the card had not sent.
    pub(super) fn release(mut self, head: usize, buffers: &mut impl Buffers) -> QueueCounters {
        let mut unsent = QueueCounters::default();
        let waiting = self.wrap(self.next + self.count - head.min(self.count - 1));
        for i in (1..=waiting.min(self.used)).rev() {
            let word = self.descriptors.read(self.wrap(self.next + self.count - i), 1);
            unsent.bytes += u64::from(tx::size(word));
            unsent.frames += u64::from(word & tx::EOP != 0);
        }
        while self.used > 0 {
            let oldest = self.wrap(self.next + self.count - self.used);
            buffers.give(self.shadow.get(oldest..=oldest).unwrap_or_default());
            self.used -= 1;
        }
        // The words lie in memory that the card writes, too: no more can be unsent than was taken.
        unsent.frames = unsent.frames.min(self.counters.frames);
        unsent.bytes = unsent.bytes.min(self.counters.bytes);
        unsent
    }
}

impl<B: Bar> TxQueue for Tx<B> {
    fn tx_burst(&mut self, buffers: &mut impl Buffers, burst: &mut Burst) -> usize {
        let (mut done, mut frames) = (0, 0);
        let (offsets, metas) = (burst.buffers(), burst.metas());
        while let (Some(offsets), Some(metas)) = (offsets.get(done..), metas.get(done..)) {
            let Some(last) = metas.iter().position(|meta| meta.is_last()) else { break };
            let (Some(offsets), Some(metas)) = (offsets.get(..=last), metas.get(..=last)) else { break };
            if let Some(reason) = self.refusal(offsets, metas) {
                self.drops.add(reason, 1);
                buffers.give(offsets);
            } else if self.make_room(offsets.len(), buffers) {
                self.write_frame(offsets, metas);
                self.counters.frames += 1;
                self.counters.bytes += metas.iter().map(|meta| u64::from(meta.len())).sum::<u64>();
                frames += 1;
            } else {
                break;
            }
            done += last + 1;
        }
        burst.release(done);
        if frames > 0 {
            self.tail.ring(self.next as u32);
        }
        frames
    }

    #[inline]
    fn take_sent(&mut self, block: &mut [u32; BLOCK]) -> bool {
        let Some(sent) = self.sent_block() else { return false };
        *block = *sent;
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
