//! Receive with zero-copy, which only a client can: its descriptors offer buffers of the core, and the server writes frames
//! into them.
//!
//! Which buffer a descriptor offers is remembered beside the ring. Of what the server writes only lengths and flags are
//! read, once each.

use alloc::boxed::Box;
use alloc::vec;

use kernel::burst::PLAIN;
use kernel::{Buffers, Burst, DropReason, Meta};

use super::MAX_FRAME;
use super::plug::{Fault, Plug};
use super::ring::Ring;
use super::rx::Ground;

/// Buffers that are offered at once.
const SOME: usize = 32;

/// The taking end of a ring.
pub struct ZeroRx {
    ring: Ring,
    /// Offset of the packet memory in the region.
    base: u32,
    /// Bytes of a buffer.
    room: u32,
    /// The buffer of each descriptor that is offered.
    buffers: Box<[u32]>,
    /// The next descriptor to be taken, running freely.
    next: u16,
    /// The first one that is not offered.
    offered: u16,
}

/// What lies at the front.
enum Front {
    /// The end of the frame has not come, or there is no room for it.
    Stays,
    /// A frame in so many descriptors, and its bytes.
    Frame(u16, u32),
    /// So many descriptors, which are none.
    Bad(u16, DropReason),
}

impl ZeroRx {
    pub(super) fn new(ring: Ring, base: u32, room: u32) -> Self {
        let buffers = vec![0; usize::from(ring.size())].into_boxed_slice();
        Self { ring, base, room, buffers, next: 0, offered: 0 }
    }

    pub(super) const fn ring(&self) -> &Ring {
        &self.ring
    }

    fn filled(&self) -> Result<u16, Fault> {
        let filled = self.ring.tail().load().wrapping_sub(self.next);
        if filled > self.offered.wrapping_sub(self.next) { Err(Fault::Index) } else { Ok(filled) }
    }

    /// Frames that lie in the ring.
    pub(super) fn waiting(&self) -> u64 {
        let filled = self.filled().unwrap_or(0);
        let ends = |i: &u16| !self.ring.descriptor(self.next.wrapping_add(*i)).goes_on();
        (0..filled).filter(ends).count() as u64
    }

    /// Gives back all that is offered. The server does not use the ring any more.
    pub(super) fn leave(&mut self, buffers: &mut impl Buffers) {
        while self.next != self.offered {
            buffers.give(&[self.buffer(self.next)]);
            self.next = self.next.wrapping_add(1);
        }
    }

    fn buffer(&self, index: u16) -> u32 {
        self.buffers.get(self.ring.slot(index)).copied().unwrap_or(0)
    }

    pub(super) fn receive(
        &mut self,
        plug: &Plug,
        ground: &mut Ground,
        buffers: &mut impl Buffers,
        burst: &mut Burst,
        limit: usize,
    ) -> usize {
        self.offer(buffers);
        let filled = self.filled().unwrap_or_else(|fault| {
            plug.report(fault);
            0
        });
        let before = self.next;
        let mut frames = 0;
        while frames < limit {
            let left = filled - self.next.wrapping_sub(before);
            let (offsets, metas) = burst.spare();
            match self.front(left, offsets, metas) {
                Front::Stays => break,
                Front::Frame(slots, bytes) => {
                    let plain = slots == 1 && PLAIN.contains(&bytes);
                    burst.commit(slots.into(), plain.then_some(bytes.into()));
                    ground.counters.frames += 1;
                    ground.counters.bytes += u64::from(bytes);
                    self.next = self.next.wrapping_add(slots);
                    frames += 1;
                }
                Front::Bad(slots, reason) => {
                    ground.counters.frames += 1;
                    ground.drops.add(reason, 1);
                    (0..slots).for_each(|i| buffers.give(&[self.buffer(self.next.wrapping_add(i))]));
                    self.next = self.next.wrapping_add(slots);
                }
            }
        }
        frames
    }

    /// Offers buffers in all descriptors that have none, as far as there are any.
    fn offer(&mut self, buffers: &mut impl Buffers) {
        let before = self.offered;
        loop {
            let free = self.ring.size() - self.offered.wrapping_sub(self.next);
            let mut some = [0; SOME];
            let wanted = usize::from(free).min(SOME);
            let got = buffers.take_many(&mut some[..wanted]);
            for buffer in &some[..got] {
                let slot = self.ring.slot(self.offered);
                let offset = u64::from(self.base) + u64::from(*buffer);
                self.ring.descriptors().write_all(slot, [u64::from(self.room) << 32, offset]);
                if let Some(place) = self.buffers.get_mut(slot) {
                    *place = *buffer;
                }
                self.offered = self.offered.wrapping_add(1);
            }
            if got < SOME {
                break;
            }
        }
        if self.offered != before {
            self.ring.head().store(self.offered);
        }
    }

    /// Reads the frame at the front into entries.
    fn front(&self, filled: u16, offsets: &mut [u32], metas: &mut [Meta]) -> Front {
        let (mut slots, mut total) = (0, 0_u32);
        let mut reason = None;
        loop {
            if slots == filled {
                // Nothing at all, or a chain that does not end.
                return if slots == 0 { Front::Stays } else { Front::Bad(slots, DropReason::RxDescriptor) };
            }
            let at = self.next.wrapping_add(slots);
            let first = self.ring.descriptors().read(self.ring.slot(at), 0);
            let descriptor = super::ring::Descriptor::from_words(first, 0);
            let (entry, goes_on) = (usize::from(slots), descriptor.goes_on());
            slots += 1;
            if descriptor.len == 0 || descriptor.len > self.room {
                reason = Some(DropReason::RxDescriptor);
            }
            total = total.saturating_add(descriptor.len);
            if reason.is_none() && total > MAX_FRAME {
                reason = Some(DropReason::RxTooLong);
            }
            if reason.is_none() {
                let (Some(offset), Some(meta)) = (offsets.get_mut(entry), metas.get_mut(entry)) else {
                    return Front::Stays;
                };
                *offset = self.buffer(at);
                *meta = if goes_on { Meta::segment(descriptor.len) } else { Meta::frame(descriptor.len) };
            }
            if !goes_on {
                return reason.map_or(Front::Frame(slots, total), |reason| Front::Bad(slots, reason));
            }
        }
    }
}
