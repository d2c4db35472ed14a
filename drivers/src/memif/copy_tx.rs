//! Transmit by copy: each packet moves into the region, and its buffers are free at once.

use hal::DmaMemory;
use hal::simd::lines::copy_exact;
use heapless::Vec;
use kernel::{Buffers, Burst, DropReason, Meta};

use super::fast::{self, Run};
use super::plug::{Fault, Plug, Side, Slots};
use super::ring::{Descriptor, NEXT, Ring};
use super::rx::Ground;

/// Descriptors that one frame may take; the largest frame needs fewer of any buffers that others use.
const MAX_SLOTS: usize = 256;

/// The filling end of a ring.
pub struct CopyTx {
    ring: Ring,
    side: Side,
    /// The next descriptor to be filled, running freely.
    next: u16,
    /// A client's: the oldest one that the server had not taken when it was looked at last.
    oldest: u16,
}

/// Where a piece of a frame goes.
#[derive(Clone, Copy)]
struct Place {
    region: u16,
    at: usize,
    room: u32,
}

/// Why a frame is not put into the ring.
enum Not {
    /// There are too few descriptors now.
    Now,
    /// Never: it is dropped, and so many descriptors with it.
    Ever(DropReason, u16),
}

impl CopyTx {
    /// At a ring that is empty. A client's descriptors each have their own buffer.
    pub(super) fn new(ring: Ring, side: Side) -> Self {
        if let Side::Client(Slots::Own { first, stride, .. }) = &side {
            for slot in 0..usize::from(ring.size()) {
                let offset = u64::from(*first) + slot as u64 * u64::from(*stride);
                ring.descriptors().write_all(slot, [0, offset]);
            }
        }
        Self { ring, side, next: 0, oldest: 0 }
    }

    pub(super) const fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Descriptors that can be filled.
    #[inline]
    fn free(&mut self) -> Result<u16, Fault> {
        let size = self.ring.size();
        let free = match self.side {
            Side::Client(_) => {
                let tail = self.ring.tail().load();
                if tail.wrapping_sub(self.oldest) > self.next.wrapping_sub(self.oldest) {
                    return Err(Fault::Index);
                }
                self.oldest = tail;
                size - self.next.wrapping_sub(tail)
            }
            Side::Server(_) => self.ring.head().load().wrapping_sub(self.next),
        };
        if free > size { Err(Fault::Index) } else { Ok(free) }
    }

    #[inline]
    pub(super) fn send(
        &mut self,
        plug: &Plug,
        ground: &mut Ground,
        buffers: &mut impl Buffers,
        burst: &mut Burst,
    ) -> usize {
        let free = self.free().unwrap_or_else(|fault| {
            plug.report(fault);
            0
        });
        let (before, mut frames) = (self.next, 0);
        loop {
            let left = free - self.next.wrapping_sub(before);
            if burst.is_empty() || left == 0 {
                break;
            }
            let most = burst.len().min(left.into());
            let fast = if ground.fast { self.send_fast(ground, buffers, burst, most) } else { 0 };
            frames += fast;
            if fast == most {
                continue;
            }
            let left = free - self.next.wrapping_sub(before);
            match self.send_one(ground, buffers, burst, left) {
                Some(sent) => frames += sent,
                None => break,
            }
        }
        if self.next != before {
            let index =
                if matches!(self.side, Side::Client(_)) { self.ring.head() } else { self.ring.tail() };
            index.store(self.next);
        }
        frames
    }

    /// Sends up to `most` frames as long as each is simple and fits one descriptor.
    #[inline]
    fn send_fast(
        &mut self,
        ground: &mut Ground,
        buffers: &mut impl Buffers,
        burst: &mut Burst,
        most: usize,
    ) -> usize {
        let (offsets, metas) = (burst.buffers(), burst.metas());
        let mut done = fast::Done::default();
        while done.frames < most {
            let from = self.ring.slot(self.next.wrapping_add(done.frames as u16));
            let count = (most - done.frames).min(usize::from(self.ring.size()) - from);
            let run = Run { ring: &self.ring, from, count, packets: &ground.memory };
            let entries = (&offsets[done.frames..], &metas[done.frames..]);
            let more = match &self.side {
                Side::Client(Slots::Own { region, first, stride, len }) => {
                    let own = fast::Own { region, first: *first, stride: *stride, len: *len };
                    fast::fill_own(ground.isa, &run, &own, entries)
                }
                Side::Client(Slots::Pool { .. }) => break,
                Side::Server(regions) => {
                    let Some(region) = regions.first() else { break };
                    fast::fill_theirs(ground.isa, &run, region, entries)
                }
            };
            done.add(&more);
            if more.frames < count {
                break;
            }
        }
        buffers.give(&offsets[..done.frames]);
        burst.release(done.frames);
        ground.counters.frames += done.frames as u64;
        ground.counters.bytes += done.bytes;
        self.next = self.next.wrapping_add(done.frames as u16);
        done.frames
    }

    /// Sends or drops the frame at the front; says how many were sent, or `None` when it stays.
    #[cold]
    #[inline(never)]
    fn send_one(
        &mut self,
        ground: &mut Ground,
        buffers: &mut impl Buffers,
        burst: &mut Burst,
        free: u16,
    ) -> Option<usize> {
        let metas = burst.metas();
        // A frame whose end is not here is none.
        let entries = metas.iter().position(|meta| meta.is_last()).map_or(metas.len(), |last| last + 1);
        let (offsets, metas) = (&burst.buffers()[..entries], &metas[..entries]);
        let put = self.put(ground, offsets, metas, free);
        if let Err(Not::Now) = put {
            return None;
        }
        buffers.give(offsets);
        let sent = match put {
            Ok((slots, bytes)) => {
                ground.counters.frames += 1;
                ground.counters.bytes += bytes;
                self.next = self.next.wrapping_add(slots);
                1
            }
            Err(Not::Ever(reason, slots)) => {
                ground.drops.add(reason, 1);
                self.skip(slots);
                0
            }
            Err(Not::Now) => 0,
        };
        burst.release(entries);
        Some(sent)
    }

    /// Hands on `slots` descriptors without anything in them.
    fn skip(&mut self, slots: u16) {
        for _ in 0..slots {
            self.ring.descriptors().write(self.ring.slot(self.next), 0, 0);
            self.next = self.next.wrapping_add(1);
        }
    }

    /// Puts a frame into the ring; returns descriptors and bytes.
    fn put(&self, ground: &Ground, offsets: &[u32], metas: &[Meta], free: u16) -> Result<(u16, u64), Not> {
        let never = |reason| Err(Not::Ever(reason, 0));
        if metas.first().is_some_and(|meta| meta.has_request()) {
            return never(DropReason::TxRequest);
        }
        let inside = |(offset, meta): (&u32, &Meta)| {
            let end = *offset as usize + meta.start() as usize + meta.len() as usize;
            !meta.is_empty() && end <= ground.memory.len()
        };
        if !offsets.iter().zip(metas).all(inside) || !metas.last().is_some_and(|meta| meta.is_last()) {
            return never(DropReason::TxBuffer);
        }
        let total: u64 = metas.iter().map(|meta| u64::from(meta.len())).sum();
        let places = self.places(total, free)?;
        let mut pieces = offsets
            .iter()
            .zip(metas)
            .map(|(offset, meta)| (*offset as usize + meta.start() as usize, meta.len()));
        let (mut from, mut left) = (0, 0);
        for (i, place) in (0..).zip(&places) {
            let mut filled = 0;
            while filled < place.room {
                if left == 0 {
                    let Some(piece) = pieces.next() else { break };
                    (from, left) = piece;
                }
                let bytes = left.min(place.room - filled);
                let to = (self.region(place.region), place.at + filled as usize);
                if let (Some(region), at) = to {
                    let copied = copy_exact((region, at), (&ground.memory, from), bytes as usize);
                    debug_assert!(copied.is_ok());
                }
                (from, left, filled) = (from + bytes as usize, left - bytes, filled + bytes);
            }
            let last = i as usize + 1 == places.len();
            let flags = if last { 0 } else { NEXT };
            let word = Descriptor { flags, region: place.region, len: filled, offset: 0 }.first_word();
            self.ring.descriptors().write(self.ring.slot(self.next.wrapping_add(i)), 0, word);
        }
        Ok((places.len() as u16, total))
    }

    /// Where `total` bytes go. Each descriptor is read once.
    fn places(&self, total: u64, free: u16) -> Result<Vec<Place, MAX_SLOTS>, Not> {
        let mut places = Vec::new();
        let mut room = 0;
        while room < total {
            let slots = places.len() as u16;
            if slots == free {
                // With all descriptors of a ring and still too little, waiting does not help.
                let all = free == self.ring.size();
                return Err(if all { Not::Ever(DropReason::TxDescriptor, 0) } else { Not::Now });
            }
            let Some(place) = self.place(self.next.wrapping_add(slots)) else {
                return Err(Not::Ever(DropReason::TxDescriptor, slots + 1));
            };
            room += u64::from(place.room);
            if places.push(place).is_err() {
                return Err(Not::Ever(DropReason::TxDescriptor, slots));
            }
        }
        Ok(places)
    }

    /// The buffer of a descriptor, if all of it lies in its region.
    fn place(&self, index: u16) -> Option<Place> {
        match &self.side {
            Side::Client(Slots::Own { first, stride, len, .. }) => {
                let at = *first as usize + self.ring.slot(index) * *stride as usize;
                Some(Place { region: 0, at, room: *len })
            }
            Side::Client(Slots::Pool { .. }) => None,
            Side::Server(regions) => {
                let Descriptor { region, len, offset, .. } = self.ring.descriptor(index);
                let end = (offset as usize).checked_add(len as usize)?;
                let inside = end <= regions.get(usize::from(region))?.len();
                (len > 0 && inside).then_some(Place { region, at: offset as usize, room: len })
            }
        }
    }

    fn region(&self, index: u16) -> Option<&DmaMemory> {
        match &self.side {
            Side::Client(Slots::Own { region, .. }) => Some(region),
            Side::Client(Slots::Pool { .. }) => None,
            Side::Server(regions) => regions.get(usize::from(index)),
        }
    }
}
