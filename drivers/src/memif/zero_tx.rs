//! Transmit with zero-copy, which only a client can: descriptors point at the core's buffers, which come back when the
//! server is done with them.

use alloc::boxed::Box;
use alloc::vec;

use kernel::{BLOCK, Buffers, Burst, DropReason, Meta};

use super::plug::{Fault, Plug};
use super::ring::{Descriptor, NEXT, Ring};
use super::rx::Ground;

/// The filling end of a ring.
pub struct ZeroTx {
    ring: Ring,
    /// Offset of the packet memory in the region.
    base: u32,
    /// The buffer of each descriptor that is filled.
    buffers: Box<[u32]>,
    /// The next descriptor to be filled, running freely.
    next: u16,
    /// The oldest one whose buffer has not been taken back.
    oldest: u16,
}

impl ZeroTx {
    pub(super) fn new(ring: Ring, base: u32) -> Self {
        let buffers = vec![0; usize::from(ring.size())].into_boxed_slice();
        Self { ring, base, buffers, next: 0, oldest: 0 }
    }

    pub(super) const fn ring(&self) -> &Ring {
        &self.ring
    }

    fn buffer(&self, index: u16) -> u32 {
        self.buffers.get(self.ring.slot(index)).copied().unwrap_or(0)
    }

    /// Descriptors that the server is done with and whose buffers are still here.
    #[inline]
    fn done(&self) -> Result<u16, Fault> {
        let done = self.ring.tail().load().wrapping_sub(self.oldest);
        if done > self.next.wrapping_sub(self.oldest) { Err(Fault::Index) } else { Ok(done) }
    }

    pub(super) fn on_their_way(&self) -> u16 {
        self.next.wrapping_sub(self.ring.tail().load()).min(self.next.wrapping_sub(self.oldest))
    }

    /// Gives back all buffers. The server does not use the ring any more.
    pub(super) fn leave(&mut self, buffers: &mut impl Buffers) {
        self.give_back(buffers, self.next.wrapping_sub(self.oldest));
    }

    fn give_back(&mut self, buffers: &mut impl Buffers, count: u16) {
        let mut left = usize::from(count);
        while left > 0 {
            let slot = self.ring.slot(self.oldest);
            let some = left.min(self.buffers.len() - slot);
            buffers.give(self.buffers.get(slot..slot + some).unwrap_or_default());
            self.oldest = self.oldest.wrapping_add(some as u16);
            left -= some;
        }
    }

    /// A block of buffers that the server is done with, if there is one.
    #[inline]
    pub(super) fn take_sent(&mut self, plug: &Plug, block: &mut [u32; BLOCK]) -> bool {
        match self.done() {
            Ok(done) if usize::from(done) >= BLOCK => {
                for to in block.iter_mut() {
                    *to = self.buffer(self.oldest);
                    self.oldest = self.oldest.wrapping_add(1);
                }
                true
            }
            Ok(_) => false,
            Err(fault) => {
                plug.report(fault);
                false
            }
        }
    }

    pub(super) fn send(
        &mut self,
        plug: &Plug,
        ground: &mut Ground,
        buffers: &mut impl Buffers,
        burst: &mut Burst,
    ) -> usize {
        match self.done() {
            Ok(done) => self.give_back(buffers, done),
            Err(fault) => {
                plug.report(fault);
                return 0;
            }
        }
        let before = self.next;
        let mut frames = 0;
        while !burst.is_empty() {
            let (offsets, metas) = (burst.buffers(), burst.metas());
            let entries = metas.iter().position(|meta| meta.is_last()).map_or(metas.len(), |last| last + 1);
            let (offsets, metas) = (&offsets[..entries], &metas[..entries]);
            if let Some(reason) = self.refused(ground, offsets, metas) {
                buffers.give(offsets);
                ground.drops.add(reason, 1);
            } else if entries > usize::from(self.ring.size() - self.next.wrapping_sub(self.oldest)) {
                break;
            } else {
                ground.counters.bytes += self.put(offsets, metas);
                ground.counters.frames += 1;
                frames += 1;
            }
            burst.release(entries);
        }
        if self.next != before {
            self.ring.head().store(self.next);
        }
        frames
    }

    /// Why a frame can't be sent at all.
    fn refused(&self, ground: &Ground, offsets: &[u32], metas: &[Meta]) -> Option<DropReason> {
        let inside = |(offset, meta): (&u32, &Meta)| {
            let end = *offset as usize + meta.start() as usize + meta.len() as usize;
            !meta.is_empty() && end <= ground.memory.len()
        };
        if metas.first().is_some_and(|meta| meta.has_request()) {
            Some(DropReason::TxRequest)
        } else if !metas.last().is_some_and(|meta| meta.is_last()) || !offsets.iter().zip(metas).all(inside) {
            Some(DropReason::TxBuffer)
        } else if metas.len() > usize::from(self.ring.size()) {
            Some(DropReason::TxSegments)
        } else {
            None
        }
    }

    /// Fills descriptors; returns the frame's bytes.
    #[inline]
    fn put(&mut self, offsets: &[u32], metas: &[Meta]) -> u64 {
        let mut bytes = 0;
        for (buffer, meta) in offsets.iter().zip(metas) {
            let slot = self.ring.slot(self.next);
            let flags = if meta.is_last() { 0 } else { NEXT };
            let first = Descriptor { flags, region: 0, len: meta.len(), offset: 0 }.first_word();
            let offset = u64::from(self.base) + u64::from(*buffer) + u64::from(meta.start());
            self.ring.descriptors().write_all(slot, [first, offset]);
            if let Some(place) = self.buffers.get_mut(slot) {
                *place = *buffer;
            }
            bytes += u64::from(meta.len());
            self.next = self.next.wrapping_add(1);
        }
        bytes
    }
}
