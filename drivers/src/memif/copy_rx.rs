//! Receive by copy: each packet moves from the region into buffers of the core, and its descriptors go back at once.
//!
//! A frame in one descriptor that fits one buffer goes the fast way ([`super::fast`]); whatever else goes the general one.
//! Each word of a descriptor is read once a try, and what it says is compared with the region in 64 bits. Descriptors that
//! say something impossible cost the frame that they are part of, and nothing else.

use hal::DmaMemory;
use hal::simd::lines::copy_exact;
use kernel::burst::PLAIN;
use kernel::{Buffers, Burst, DropReason, Meta};

use super::MAX_FRAME;
use super::fast::{self, Run};
use super::plug::{Fault, Plug, Side, Slots};
use super::ring::{Descriptor, Ring};
use super::rx::Ground;

/// The taking end of a ring.
pub struct CopyRx {
    ring: Ring,
    side: Side,
    /// The next descriptor to be taken, running freely.
    next: u16,
}

/// What became of the frame at the front.
enum Front {
    /// It is in so many entries, and took so many descriptors.
    Taken { slots: u16, entries: usize, bytes: u32 },
    /// So many descriptors are no frame.
    Bad { slots: u16, reason: DropReason },
    /// There is no room for it now.
    Stays,
}

impl CopyRx {
    /// At a ring that is empty; a client offers all its buffers.
    pub(super) fn new(ring: Ring, side: Side) -> Self {
        let this = Self { ring, side, next: 0 };
        if let Side::Client(Slots::Own { first, stride, len, .. }) = &this.side {
            for slot in 0..usize::from(this.ring.size()) {
                let offset = u64::from(*first) + slot as u64 * u64::from(*stride);
                this.ring.descriptors().write_all(slot, [u64::from(*len) << 32, offset]);
            }
            this.ring.head().store(this.ring.size());
        }
        this
    }

    pub(super) const fn ring(&self) -> &Ring {
        &self.ring
    }

    fn is_client(&self) -> bool {
        matches!(self.side, Side::Client(_))
    }

    /// Descriptors that the peer has filled; more than the ring has are a fault.
    #[inline]
    fn filled(&self) -> Result<u16, Fault> {
        let published = if self.is_client() { self.ring.tail().load() } else { self.ring.head().load() };
        let filled = published.wrapping_sub(self.next);
        if filled > self.ring.size() { Err(Fault::Index) } else { Ok(filled) }
    }

    /// Frames that lie in the ring.
    pub(super) fn waiting(&self) -> u64 {
        let filled = self.filled().unwrap_or(0);
        let ends = |i: &u16| !self.ring.descriptor(self.next.wrapping_add(*i)).goes_on();
        (0..filled).filter(ends).count() as u64
    }

    #[inline]
    pub(super) fn receive(
        &mut self,
        plug: &Plug,
        ground: &mut Ground,
        buffers: &mut impl Buffers,
        burst: &mut Burst,
        limit: usize,
    ) -> usize {
        let filled = match self.filled() {
            Ok(0) => return 0,
            Ok(filled) => filled,
            Err(fault) => {
                plug.report(fault);
                return 0;
            }
        };
        let (before, mut frames) = (self.next, 0);
        loop {
            let left = filled - self.next.wrapping_sub(before);
            if left == 0 || frames == limit {
                break;
            }
            let most = usize::from(left).min(limit - frames);
            let fast = if ground.fast { self.receive_fast(ground, buffers, burst, most) } else { 0 };
            frames += fast;
            if fast == most {
                break;
            }
            let left = filled - self.next.wrapping_sub(before);
            match self.receive_one(ground, buffers, burst, left) {
                Some(handed_out) => frames += handed_out,
                None => break,
            }
        }
        if self.next != before {
            self.give_back_slots();
        }
        frames
    }

    /// The peer may use all descriptors in front of `next` again.
    #[inline]
    fn give_back_slots(&self) {
        if self.is_client() {
            self.ring.head().store(self.next.wrapping_add(self.ring.size()));
        } else {
            self.ring.tail().store(self.next);
        }
    }

    /// Takes up to `most` frames as long as each is in one descriptor and fits.
    #[inline]
    fn receive_fast(
        &mut self,
        ground: &mut Ground,
        buffers: &mut impl Buffers,
        burst: &mut Burst,
        most: usize,
    ) -> usize {
        let (offsets, metas) = burst.spare();
        let most = most.min(offsets.len()).min(metas.len());
        let (Some(offsets), Some(metas)) = (offsets.get_mut(..most), metas.get_mut(..most)) else { return 0 };
        let got = buffers.take_many(offsets);
        let mut done = fast::Done::default();
        // At most two runs: up to the end of the ring, and from its start on.
        while done.frames < got {
            let from = self.ring.slot(self.next.wrapping_add(done.frames as u16));
            let count = (got - done.frames).min(usize::from(self.ring.size()) - from);
            let run = Run { ring: &self.ring, from, count, packets: &ground.memory };
            let entries = (&offsets[done.frames..], &mut metas[done.frames..]);
            let more = match &self.side {
                Side::Client(Slots::Own { region, first, stride, len }) => {
                    let own = fast::Own { region, first: *first, stride: *stride, len: *len };
                    fast::take_own(ground.isa, &run, &own, (*len).min(ground.room), entries)
                }
                Side::Client(Slots::Pool { .. }) => break,
                Side::Server(regions) => {
                    let Some(region) = regions.first() else { break };
                    fast::take_theirs(ground.isa, &run, region, ground.room, entries)
                }
            };
            done.add(&more);
            if more.frames < count {
                break;
            }
        }
        buffers.give(&offsets[done.frames..got]);
        burst.commit(done.frames, done.plain_bytes());
        ground.counters.frames += done.frames as u64;
        ground.counters.bytes += done.bytes;
        self.next = self.next.wrapping_add(done.frames as u16);
        done.frames
    }

    /// Takes the frame at the front, whatever it is; says how many were handed out, or `None` when it stays.
    #[cold]
    #[inline(never)]
    fn receive_one(
        &mut self,
        ground: &mut Ground,
        buffers: &mut impl Buffers,
        burst: &mut Burst,
        filled: u16,
    ) -> Option<usize> {
        let entries = burst.spare();
        match self.take(ground, buffers, entries, filled) {
            Front::Taken { slots, entries, bytes } => {
                let plain = entries == 1 && PLAIN.contains(&bytes);
                burst.commit(entries, plain.then_some(bytes.into()));
                ground.counters.frames += 1;
                ground.counters.bytes += u64::from(bytes);
                self.advance(slots);
                Some(1)
            }
            Front::Bad { slots, reason } => {
                ground.counters.frames += 1;
                ground.drops.add(reason, 1);
                self.advance(slots);
                Some(0)
            }
            Front::Stays => None,
        }
    }

    /// The next `slots` descriptors are done with; a client's have the size of their buffers again.
    fn advance(&mut self, slots: u16) {
        if let Side::Client(Slots::Own { len, .. }) = &self.side {
            for i in 0..slots {
                let slot = self.ring.slot(self.next.wrapping_add(i));
                self.ring.descriptors().write(slot, 0, u64::from(*len) << 32);
            }
        }
        self.next = self.next.wrapping_add(slots);
    }

    /// Copies the frame at the front into buffers, as many as it needs.
    fn take(
        &self,
        ground: &Ground,
        buffers: &mut impl Buffers,
        (offsets, metas): (&mut [u32], &mut [Meta]),
        filled: u16,
    ) -> Front {
        let mut into = Into { ground, offsets, metas, entries: 0, used: ground.room };
        let (mut slots, mut total) = (0, 0_u32);
        let problem = loop {
            if slots == filled {
                break Some(DropReason::RxDescriptor);
            }
            let at = self.next.wrapping_add(slots);
            let descriptor = self.ring.descriptor(at);
            slots += 1;
            let Some((region, from)) = self.source(at, descriptor) else {
                break Some(DropReason::RxDescriptor);
            };
            total = total.saturating_add(descriptor.len);
            if total > MAX_FRAME {
                break Some(DropReason::RxTooLong);
            }
            if !into.append(buffers, region, from, descriptor.len) {
                buffers.give(into.taken());
                return Front::Stays;
            }
            if !descriptor.goes_on() {
                break None;
            }
        };
        if let Some(reason) = problem {
            buffers.give(into.taken());
            return Front::Bad { slots: self.end_of_chain(slots, filled), reason };
        }
        Front::Taken { slots, entries: into.finish(), bytes: total }
    }

    /// Descriptors up to the end of the chain that descriptor `slots - 1` is part of.
    fn end_of_chain(&self, mut slots: u16, filled: u16) -> u16 {
        while slots < filled && self.ring.descriptor(self.next.wrapping_add(slots - 1)).goes_on() {
            slots += 1;
        }
        slots
    }

    /// Where the bytes of a descriptor lie, if they all lie there.
    fn source(&self, at: u16, descriptor: Descriptor) -> Option<(&DmaMemory, usize)> {
        let len = descriptor.len as usize;
        match &self.side {
            // What a server writes into region and offset of our descriptors is not looked at.
            Side::Client(Slots::Own { region, first, stride, len: most }) => {
                let from = *first as usize + self.ring.slot(at) * *stride as usize;
                (1..=*most).contains(&descriptor.len).then_some((region, from))
            }
            Side::Client(Slots::Pool { .. }) => None,
            Side::Server(regions) => {
                let region = regions.get(usize::from(descriptor.region))?;
                let end = (descriptor.offset as usize).checked_add(len)?;
                (len > 0 && end <= region.len()).then_some((region, descriptor.offset as usize))
            }
        }
    }
}

/// The buffers that a frame is copied into.
struct Into<'a> {
    ground: &'a Ground,
    offsets: &'a mut [u32],
    metas: &'a mut [Meta],
    entries: usize,
    /// Bytes in the last one.
    used: u32,
}

impl Into<'_> {
    /// Copies a piece; `false` when there is no buffer or no entry for all of it.
    fn append(&mut self, buffers: &mut impl Buffers, region: &DmaMemory, from: usize, len: u32) -> bool {
        let mut done = 0;
        while done < len {
            if self.used == self.ground.room {
                let Some(offset) = self.offsets.get_mut(self.entries) else { return false };
                let Some(buffer) = buffers.take() else { return false };
                *offset = buffer;
                self.entries += 1;
                self.used = 0;
            }
            let last = self.entries - 1;
            let bytes = (len - done).min(self.ground.room - self.used);
            let to = self.offsets[last] as usize + self.used as usize;
            let copied =
                copy_exact((&self.ground.memory, to), (region, from + done as usize), bytes as usize);
            debug_assert!(copied.is_ok());
            self.used += bytes;
            done += bytes;
            if let Some(meta) = self.metas.get_mut(last) {
                *meta = Meta::segment(self.used);
            }
        }
        true
    }

    fn taken(&self) -> &[u32] {
        self.offsets.get(..self.entries).unwrap_or_default()
    }

    /// Marks the end of the frame; returns its entries.
    fn finish(self) -> usize {
        if let Some(last) = self.entries.checked_sub(1).and_then(|last| self.metas.get_mut(last)) {
            *last = Meta::frame(self.used);
        }
        self.entries
    }
}
