//! Receive: the card writes frames into the buffers of armed descriptors and marks them done, in ring order.
//!
//! `next` is the oldest descriptor that has not been handed out, `held` counts those armed from there on. The
//! ring is armed in aligned blocks of 32, at most `count - 32` descriptors at a time: the tail that the card is
//! given does not include the descriptor at it, and a ring whose tail equals its head is empty. A descriptor
//! that was handed out and not armed again still says that it is done, so nothing beyond `held` is looked at.

use alloc::boxed::Box;
use alloc::vec;

use hal::{Bar, DescRing, Doorbell};
use kernel::port::{QueueCounters, QueueSetup};
use kernel::{BLOCK, Buffers, Burst, DropReason, Drops, Meta, RxQueue};

use super::MAX_RX_BUFFERS;
use super::desc::rx;
use super::descriptor::{Descriptor, State};

/// Polls for which a descriptor may say that it is done without saying how long its frame is: the card's write has
/// been seen in part, and the rest follows. Some milliseconds of idle polls; then the frame is bad.
const PATIENCE: u32 = 1 << 16;

/// The receive ring with descriptors of `WORDS` quadwords.
struct Ring<B, const WORDS: usize> {
    descriptors: DescRing<WORDS>,
    tail: Doorbell<B>,
    /// Device address of byte 0 of the packet memory.
    base: u64,
    /// Bytes that the card may have written into a buffer.
    room: u32,
    /// The buffer of each descriptor.
    shadow: Box<[u32]>,
    count: usize,
    next: usize,
    held: usize,
    /// Buffers of a frame in too many buffers were dropped and its end has not come yet.
    skipping: bool,
    /// The card may strip two tags.
    second_tag: bool,
    /// Polls that found the frame at the front done in part.
    torn: u32,
    counters: QueueCounters,
    drops: Drops,
}

/// What lies at the front of the ring.
enum Front {
    /// No whole frame yet.
    Incomplete,
    /// A whole frame in this many buffers.
    Frame(usize),
    /// This many buffers, which are no frame that can be handed out.
    Bad(usize, DropReason),
    /// This many buffers of a frame that has been counted already.
    Rest(usize),
}

impl<B: Bar, const WORDS: usize> Ring<B, WORDS> {
    fn new(descriptors: DescRing<WORDS>, tail: Doorbell<B>, setup: &QueueSetup) -> Self {
        let count = descriptors.count();
        descriptors.fill(0);
        Self {
            descriptors,
            tail,
            base: setup.memory.addr().as_u64(),
            room: setup.layout.room,
            shadow: vec![0; count].into_boxed_slice(),
            count,
            next: 0,
            held: 0,
            skipping: false,
            second_tag: false,
            torn: 0,
            counters: QueueCounters::default(),
            drops: Drops::default(),
        }
    }

    /// Arms every block that is free, as far as there are buffers, with one doorbell.
    #[inline]
    fn arm(&mut self, buffers: &mut impl Buffers) {
        let mut armed = false;
        let mut block = [0; BLOCK];
        while self.count - self.held > BLOCK && buffers.take_block(&mut block) {
            let start = self.wrap(self.next + self.held);
            for (i, buffer) in block.into_iter().enumerate() {
                self.descriptors.write(start + i, 0, self.base + u64::from(buffer));
                self.descriptors.write(start + i, 1, 0);
            }
            if let Some(shadow) = self.shadow.get_mut(start..start + BLOCK) {
                shadow.copy_from_slice(&block);
            }
            self.held += BLOCK;
            armed = true;
        }
        if armed {
            self.tail.ring(self.wrap(self.next + self.held) as u32);
        }
    }

    fn receive(&mut self, buffers: &mut impl Buffers, burst: &mut Burst, limit: usize) -> usize {
        self.arm(buffers);
        let mut frames = 0;
        burst.append(|offsets, metas| {
            let mut entries = 0;
            while frames < limit {
                let (Some(offsets), Some(metas)) = (offsets.get_mut(entries..), metas.get_mut(entries..))
                else {
                    break;
                };
                let plain = self.plain_frames(offsets, metas, limit - frames);
                if plain > 0 {
                    entries += plain;
                    frames += plain;
                    continue;
                }
                match self.front(offsets, metas) {
                    Front::Incomplete => break,
                    Front::Frame(count) => {
                        self.count_frame(metas.get(..count).unwrap_or_default());
                        entries += count;
                        frames += 1;
                        self.advance(count);
                    }
                    Front::Bad(count, reason) => {
                        self.count_frame(metas.get(..count).unwrap_or_default());
                        self.drops.add(reason, 1);
                        buffers.give(offsets.get(..count).unwrap_or_default());
                        self.advance(count);
                    }
                    Front::Rest(count) => {
                        buffers.give(offsets.get(..count).unwrap_or_default());
                        self.advance(count);
                    }
                }
            }
            entries
        });
        frames
    }

    /// Takes the frames at the front as long as each is whole in one buffer and has nothing wrong with it, at most `limit`.
    #[inline]
    fn plain_frames(&mut self, offsets: &mut [u32], metas: &mut [Meta], limit: usize) -> usize {
        const LOOKED_AT: u64 = rx::DD | Meta::EOP | rx::RXE | rx::OVERSIZE;
        if self.skipping || self.second_tag {
            return 0;
        }
        let (mut index, mut count, mut bytes) = (self.next, 0, 0);
        for (offset, meta) in offsets.iter_mut().zip(metas).take(limit.min(self.held)) {
            // DD and everything that is used of this quadword come from one read; the other one is read after it.
            let hi = self.descriptors.read(index, 1);
            let len = Meta { lo: 0, hi }.len();
            if hi & LOOKED_AT != rx::DD | Meta::EOP || len == 0 || len > self.room {
                break;
            }
            hal::ring::acquire();
            let lo = self.descriptors.read(index, 0);
            *offset = self.shadow.get(index).copied().unwrap_or(0);
            *meta = Meta { lo: lo & rx::META_LO, hi: hi & !rx::HEADER };
            bytes += u64::from(len);
            count += 1;
            index = self.wrap(index + 1);
        }
        if count > 0 {
            self.counters.frames += count as u64;
            self.counters.bytes += bytes;
            self.next = index;
            self.held -= count;
            self.torn = 0;
        }
        count
    }

    /// Copies the entries of the frame at the front, without taking them.
    #[inline]
    fn front(&mut self, offsets: &mut [u32], metas: &mut [Meta]) -> Front {
        let most = self.held.min(MAX_RX_BUFFERS);
        let mut bad = false;
        for count in 0..most {
            let (Some(offset), Some(meta)) = (offsets.get_mut(count), metas.get_mut(count)) else {
                return Front::Incomplete;
            };
            let index = self.wrap(self.next + count);
            // DD and everything that is used of this quadword come from one read; the other one is read after it.
            let hi = self.descriptors.read(index, 1);
            if hi & rx::DD == 0 {
                return Front::Incomplete;
            }
            hal::ring::acquire();
            let lo = self.descriptors.read(index, 0);
            *offset = self.shadow.get(index).copied().unwrap_or(0);
            *meta = Meta { lo: lo & rx::META_LO, hi: hi & !rx::HEADER };
            if WORDS > 2 && self.second_tag {
                let more = self.descriptors.read(index, 2);
                if more & rx::L2TAG2P != 0 {
                    *meta = meta.with_inner_stripped((more >> rx::L2TAG2_SHIFT) as u16);
                }
            }
            if meta.is_empty() && self.torn < PATIENCE {
                self.torn += 1;
                return Front::Incomplete;
            }
            bad |= hi & (rx::RXE | rx::OVERSIZE) != 0 || meta.is_empty() || meta.len() > self.room;
            if meta.is_last() {
                return self.judge(count + 1, bad);
            }
        }
        if most < MAX_RX_BUFFERS {
            return Front::Incomplete;
        }
        // No frame needs as many: its end is somewhere behind.
        let first = !core::mem::replace(&mut self.skipping, true);
        if first { Front::Bad(most, DropReason::RxSegments) } else { Front::Rest(most) }
    }

    #[inline]
    fn judge(&mut self, count: usize, bad: bool) -> Front {
        if core::mem::replace(&mut self.skipping, false) {
            Front::Rest(count)
        } else if bad {
            Front::Bad(count, DropReason::RxError)
        } else {
            Front::Frame(count)
        }
    }

    #[inline]
    fn count_frame(&mut self, metas: &[Meta]) {
        self.counters.frames += 1;
        self.counters.bytes += metas.iter().map(|meta| u64::from(meta.len())).sum::<u64>();
    }

    #[inline]
    fn advance(&mut self, count: usize) {
        self.next = self.wrap(self.next + count);
        self.held -= count;
        self.torn = 0;
    }

    /// `index`, less than twice the ring, within the ring.
    #[inline]
    fn wrap(&self, index: usize) -> usize {
        if index >= self.count { index - self.count } else { index }
    }

    /// The descriptor at `index`, which is in the ring.
    fn descriptor(&self, index: usize) -> Descriptor {
        let mut words = [0; 4];
        for (word, value) in words.iter_mut().take(WORDS).enumerate() {
            *value = self.descriptors.read(index, word);
        }
        let behind = self.wrap(index + self.count - self.next);
        let state = match () {
            () if behind >= self.held => State::Free,
            () if words[1] & rx::DD != 0 => State::Done,
            () => State::Card,
        };
        let buffer = self.shadow.get(index).copied().filter(|_| state != State::Free);
        Descriptor { index, state, buffer, words }
    }

    /// The descriptor at the front, if it is not done and one behind it is: the card's mark is late, or never came.
    fn hole(&self) -> Option<usize> {
        let done = |i: &usize| self.descriptors.read(self.wrap(self.next + i), 1) & rx::DD != 0;
        let first = (0..self.held).find(|i| !done(i))?;
        (first + 1..self.held).any(|i| done(&i)).then(|| self.wrap(self.next + first))
    }

    /// Gives every buffer back. Returns whole frames that had arrived and were not handed out, those behind a
    /// descriptor whose mark never came among them.
    fn release(mut self, buffers: &mut impl Buffers) -> QueueCounters {
        let before = self.counters;
        let (mut offsets, mut metas) = ([0; MAX_RX_BUFFERS], [Meta::default(); MAX_RX_BUFFERS]);
        while self.held > 0 {
            let count = match self.front(&mut offsets, &mut metas) {
                Front::Incomplete => {
                    offsets[0] = self.shadow.get(self.next).copied().unwrap_or(0);
                    1
                }
                Front::Frame(count) | Front::Bad(count, _) => {
                    self.count_frame(metas.get(..count).unwrap_or_default());
                    count
                }
                Front::Rest(count) => count,
            };
            buffers.give(offsets.get(..count).unwrap_or_default());
            self.advance(count);
        }
        QueueCounters {
            frames: self.counters.frames - before.frames,
            bytes: self.counters.bytes - before.bytes,
        }
    }
}

/// A receive queue: the width of its descriptors was chosen when it was started.
pub struct Rx<B> {
    index: usize,
    ring: Width<B>,
}

enum Width<B> {
    Narrow(Ring<B, 2>),
    Wide(Ring<B, 4>),
}

impl<B: Bar> Rx<B> {
    pub(super) fn narrow(
        index: usize,
        descriptors: DescRing<2>,
        tail: Doorbell<B>,
        setup: &QueueSetup,
    ) -> Self {
        Self { index, ring: Width::Narrow(Ring::new(descriptors, tail, setup)) }
    }

    pub(super) fn wide(
        index: usize,
        descriptors: DescRing<4>,
        tail: Doorbell<B>,
        setup: &QueueSetup,
    ) -> Self {
        Self { index, ring: Width::Wide(Ring::new(descriptors, tail, setup)) }
    }

    /// The card may strip two tags from what arrives here; of no effect with descriptors of 16 bytes.
    pub(super) fn expect_second_tag(&mut self, second_tag: bool) {
        if let Width::Wide(ring) = &mut self.ring {
            ring.second_tag = second_tag;
        }
    }

    /// Its number within the port.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The descriptor that holds up those behind it, which are done.
    pub(super) fn hole(&self) -> Option<usize> {
        match &self.ring {
            Width::Narrow(ring) => ring.hole(),
            Width::Wide(ring) => ring.hole(),
        }
    }

    /// Arms the ring for the first time.
    pub(super) fn arm(&mut self, buffers: &mut impl Buffers) {
        match &mut self.ring {
            Width::Narrow(ring) => ring.arm(buffers),
            Width::Wide(ring) => ring.arm(buffers),
        }
    }

    pub(super) fn release(self, buffers: &mut impl Buffers) -> QueueCounters {
        match self.ring {
            Width::Narrow(ring) => ring.release(buffers),
            Width::Wide(ring) => ring.release(buffers),
        }
    }

    /// The descriptor at `index`; `None` behind the end of the ring.
    pub fn descriptor(&self, index: usize) -> Option<Descriptor> {
        match &self.ring {
            Width::Narrow(ring) => (index < ring.count).then(|| ring.descriptor(index)),
            Width::Wide(ring) => (index < ring.count).then(|| ring.descriptor(index)),
        }
    }

    /// Which loop the queue runs, as the image prints it.
    pub fn path(&self) -> &'static str {
        match self.ring {
            Width::Narrow(_) => "scalar 16B",
            Width::Wide(_) => "scalar 32B",
        }
    }
}

impl<B: Bar> RxQueue for Rx<B> {
    fn rx_burst(&mut self, buffers: &mut impl Buffers, burst: &mut Burst, limit: usize) -> usize {
        match &mut self.ring {
            Width::Narrow(ring) => ring.receive(buffers, burst, limit),
            Width::Wide(ring) => ring.receive(buffers, burst, limit),
        }
    }

    fn counters(&self) -> QueueCounters {
        match &self.ring {
            Width::Narrow(ring) => ring.counters,
            Width::Wide(ring) => ring.counters,
        }
    }

    fn drops(&self) -> &Drops {
        match &self.ring {
            Width::Narrow(ring) => &ring.drops,
            Width::Wide(ring) => &ring.drops,
        }
    }
}
