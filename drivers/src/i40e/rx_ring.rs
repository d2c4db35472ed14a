//! Receive: the card writes frames into the buffers of armed descriptors and marks them done, in ring order.
//!
//! `next` is the oldest descriptor that has not been handed out, `held` counts those armed from there on. The
//! ring is armed in aligned blocks of 32, at most `count - 32` descriptors at a time: the tail that the card is
//! given does not include the descriptor at it, and a ring whose tail equals its head is empty. A descriptor
//! that was handed out and not armed again still says that it is done, so nothing beyond `held` is looked at.

use hal::ring::DescBlock;
use hal::{Bar, BufferRing, DescRing, Doorbell};
use kernel::burst::PLAIN;
use kernel::port::{QueueCounters, QueueSetup};
use kernel::{BLOCK, Buffers, Burst, DropReason, Drops, Meta};

use super::MAX_RX_BUFFERS;
use super::desc::rx;
use super::descriptor::{Descriptor, State};

/// Polls for which a descriptor may say that it is done without saying how long its frame is: the card's write has
/// been seen in part, and the rest follows. Some milliseconds of idle polls; then the frame is bad.
const PATIENCE: u32 = 1 << 16;

/// The receive ring with descriptors of `WORDS` quadwords.
pub struct Ring<B, const WORDS: usize> {
    pub(super) slots: BufferRing<WORDS>,
    pub(super) tail: Doorbell<B>,
    /// Device address of byte 0 of the packet memory.
    pub(super) base: u64,
    /// Bytes that the card may have written into a buffer.
    pub(super) room: u32,
    pub(super) count: usize,
    pub(super) next: usize,
    pub(super) held: usize,
    /// Buffers of a frame in too many buffers were dropped and its end has not come yet.
    pub(super) skipping: bool,
    /// The card may strip two tags.
    pub(super) second_tag: bool,
    /// Polls that found the frame at the front done in part.
    pub(super) torn: u32,
    pub(super) counters: QueueCounters,
    pub(super) drops: Drops,
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

/// What a receive has handed out.
pub struct Taken {
    /// Frames.
    pub(super) frames: usize,
    /// Their entries in the burst.
    pub(super) entries: usize,
    /// Their bytes, if all of them are plain.
    pub(super) bytes: Option<u64>,
}

impl Default for Taken {
    fn default() -> Self {
        Self { frames: 0, entries: 0, bytes: Some(0) }
    }
}

impl Taken {
    /// So many plain frames, too.
    #[inline]
    pub(super) fn add(&mut self, frames: usize, bytes: u64) {
        self.frames += frames;
        self.entries += frames;
        self.bytes = self.bytes.map(|before| before + bytes);
    }
}

/// What became of the frame at the front.
enum Next {
    /// There is none.
    None,
    /// It was dropped.
    Gone,
    /// It is in this many entries.
    Frame(usize),
}

impl<B: Bar, const WORDS: usize> Ring<B, WORDS> {
    pub(super) fn new(descriptors: DescRing<WORDS>, tail: Doorbell<B>, setup: &QueueSetup) -> Self {
        let count = descriptors.count();
        Self {
            slots: BufferRing::new(descriptors),
            tail,
            base: setup.memory.addr().as_u64(),
            room: setup.layout.room,
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
    pub(super) fn arm(&mut self, buffers: &mut impl Buffers) {
        self.arm_with(buffers, |descriptors, base, block| {
            for (i, buffer) in block.iter().enumerate() {
                descriptors.write::<0>(i, base + u64::from(*buffer));
                descriptors.write::<1>(i, 0);
            }
        });
    }

    /// As [`Ring::arm`]; `write` writes the first two words of a block's descriptors: address and 0.
    #[inline(always)]
    pub(super) fn arm_with(
        &mut self,
        buffers: &mut impl Buffers,
        write: impl Fn(&DescBlock<'_, WORDS, BLOCK>, u64, &[u32; BLOCK]),
    ) {
        let mut armed = false;
        while self.count - self.held > BLOCK {
            let start = self.wrap(self.next + self.held);
            let Some((descriptors, [block])) = self.slots.groups(start, 1) else { break };
            let Some(descriptors) = descriptors.get(0) else { break };
            if !buffers.take_block(block) {
                break;
            }
            write(&descriptors, self.base, block);
            self.held += BLOCK;
            armed = true;
        }
        if armed {
            self.tail.ring(self.wrap(self.next + self.held) as u32);
        }
    }

    pub(super) fn receive(&mut self, buffers: &mut impl Buffers, burst: &mut Burst, limit: usize) -> usize {
        self.arm(buffers);
        let mut taken = Taken::default();
        let (offsets, metas) = burst.spare();
        while self.take_next(&mut taken, (offsets, metas), (limit, limit), buffers) {}
        burst.commit(taken.entries, taken.bytes);
        taken.frames
    }

    /// Takes `some` plain frames at the front, or one that is not plain, if there are any and `taken` has not reached `limit`;
    /// says whether there may be more.
    #[inline(never)]
    pub(super) fn take_next(
        &mut self,
        taken: &mut Taken,
        (offsets, metas): (&mut [u32], &mut [Meta]),
        (limit, some): (usize, usize),
        buffers: &mut impl Buffers,
    ) -> bool {
        let rest = (offsets.get_mut(taken.entries..), metas.get_mut(taken.entries..));
        let (Some(offsets), Some(metas), true) = (rest.0, rest.1, taken.frames < limit) else { return false };
        if let (frames @ 1.., bytes) = self.plain_frames(offsets, metas, some.min(limit - taken.frames)) {
            self.took(frames, bytes);
            taken.add(frames, bytes);
            return true;
        }
        match self.next_frame(offsets, metas, buffers) {
            Next::None => return false,
            Next::Gone => {}
            Next::Frame(count) => {
                taken.frames += 1;
                taken.entries += count;
                taken.bytes = None;
            }
        }
        true
    }

    /// Takes the frame at the front, whatever it is.
    #[inline(never)]
    fn next_frame(&mut self, offsets: &mut [u32], metas: &mut [Meta], buffers: &mut impl Buffers) -> Next {
        match self.front(offsets, metas) {
            Front::Incomplete => Next::None,
            Front::Frame(count) => {
                self.count_frame(metas.get(..count).unwrap_or_default());
                self.advance(count);
                Next::Frame(count)
            }
            Front::Bad(count, reason) => {
                self.count_frame(metas.get(..count).unwrap_or_default());
                self.drops.add(reason, 1);
                buffers.give(offsets.get(..count).unwrap_or_default());
                self.advance(count);
                Next::Gone
            }
            Front::Rest(count) => {
                buffers.give(offsets.get(..count).unwrap_or_default());
                self.advance(count);
                Next::Gone
            }
        }
    }

    /// Copies the entries of the frames at the front as long as each is plain, as a burst understands it, and has nothing
    /// wrong with it; at most `limit`. Returns frames and bytes, which are not taken yet.
    #[inline]
    pub(super) fn plain_frames(
        &mut self,
        offsets: &mut [u32],
        metas: &mut [Meta],
        limit: usize,
    ) -> (usize, u64) {
        const LOOKED_AT: u64 = rx::DD | Meta::EOP | rx::RXE | rx::OVERSIZE;
        if self.skipping || self.second_tag {
            return (0, 0);
        }
        let (first, last) = self.plain_range();
        let most = limit.min(self.held).min(self.count - self.next).min(offsets.len()).min(metas.len());
        let Some((blocks, buffers)) = self.slots.groups::<1>(self.next, most) else { return (0, 0) };
        let entries = buffers.iter().zip(offsets).zip(metas);
        let (mut count, mut bytes) = (0, 0);
        for (([buffer], offset), meta) in entries {
            let Some(descriptor) = blocks.get(count) else { break };
            // DD and everything that is used of this quadword come from one read; the other one is read after it.
            let hi = descriptor.read::<1>(0);
            let len = Meta { lo: 0, hi }.len();
            if hi & LOOKED_AT != rx::DD | Meta::EOP || len < first || len > last {
                break;
            }
            hal::ring::acquire();
            *offset = *buffer;
            *meta = Meta { lo: descriptor.read::<0>(0) & rx::META_LO, hi: hi & !rx::HEADER };
            bytes += u64::from(len);
            count += 1;
        }
        (count, bytes)
    }

    /// Shortest and longest frame that is plain.
    #[inline]
    pub(super) fn plain_range(&self) -> (u32, u32) {
        (*PLAIN.start(), self.room.min(*PLAIN.end()))
    }

    /// So many frames at the front, each in one buffer, have been handed out.
    #[inline]
    pub(super) fn took(&mut self, frames: usize, bytes: u64) {
        self.counters.frames += frames as u64;
        self.counters.bytes += bytes;
        self.advance(frames);
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
            let hi = self.slots.descriptors().read(index, 1);
            if hi & rx::DD == 0 {
                return Front::Incomplete;
            }
            hal::ring::acquire();
            let lo = self.slots.descriptors().read(index, 0);
            *offset = self.slots.buffer(index);
            *meta = Meta { lo: lo & rx::META_LO, hi: hi & !rx::HEADER };
            if WORDS > 2 && self.second_tag {
                let more = self.slots.descriptors().read(index, 2);
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

    /// The frame at the front has arrived, as far as one look tells.
    #[inline]
    pub(super) fn may_have_more(&self) -> bool {
        self.held > 0 && self.slots.descriptors().read(self.next, 1) & rx::DD != 0
    }

    /// `index`, less than twice the ring, within the ring.
    #[inline]
    pub(super) fn wrap(&self, index: usize) -> usize {
        if index >= self.count { index - self.count } else { index }
    }

    /// The descriptor at `index`, which is in the ring.
    pub(super) fn descriptor(&self, index: usize) -> Descriptor {
        let mut words = [0; 4];
        for (word, value) in words.iter_mut().take(WORDS).enumerate() {
            *value = self.slots.descriptors().read(index, word);
        }
        let behind = self.wrap(index + self.count - self.next);
        let state = match () {
            () if behind >= self.held => State::Free,
            () if words[1] & rx::DD != 0 => State::Done,
            () => State::Card,
        };
        let buffer = self.slots.buffers().get(index).copied().filter(|_| state != State::Free);
        Descriptor { index, state, buffer, words }
    }

    /// The descriptor at the front, if it is not done and one behind it is: the card's mark is late, or never came.
    pub(super) fn hole(&self) -> Option<usize> {
        let done = |i: &usize| self.slots.descriptors().read(self.wrap(self.next + i), 1) & rx::DD != 0;
        let first = (0..self.held).find(|i| !done(i))?;
        (first + 1..self.held).any(|i| done(&i)).then(|| self.wrap(self.next + first))
    }

    /// Gives every buffer back. Returns whole frames that had arrived and were not handed out, those behind a
    /// descriptor whose mark never came among them.
    pub(super) fn release(mut self, buffers: &mut impl Buffers) -> QueueCounters {
        let before = self.counters;
        let (mut offsets, mut metas) = ([0; MAX_RX_BUFFERS], [Meta::default(); MAX_RX_BUFFERS]);
        while self.held > 0 {
            let count = match self.front(&mut offsets, &mut metas) {
                Front::Incomplete => {
                    offsets[0] = self.slots.buffer(self.next);
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
