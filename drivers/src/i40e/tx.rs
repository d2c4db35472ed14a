//! Transmit: the driver writes descriptors and the tail, the card marks those done that asked for it.
//!
//! `next` is the first free descriptor, `used` counts those behind it that still own a buffer, so the oldest is
//! `next - used`. Completion is asked for (RS) at the end of the frame that fills or crosses the end of each
//! aligned block of 32, and read there: then the whole block is done, since the card works in order. A frame may go
//! over several blocks; then its end reports for all that end within it.

use alloc::boxed::Box;
use alloc::vec;

use hal::simd::Isa;
use hal::{Bar, BufferRing, DescRing, Doorbell};
use kernel::port::{Path, QueueCounters, QueueSetup};
use kernel::{BLOCK, Buffers, Burst, DropReason, Drops, Meta, TxQueue};

use super::desc::tx;
use super::descriptor::{Descriptor, State};
use super::tx_request::{self, Encoded};
use super::vector::{Loops, avx2, avx512, sse};
use super::{MAX_FRAME, MAX_TX_BUFFERS, MIN_FRAME};

/// In the place of a buffer: buffers start behind their headroom, and this is no such place.
const NO_BUFFER: u32 = u32::MAX;

/// A transmit queue.
pub struct Tx<B> {
    index: usize,
    /// The buffer of a context descriptor is [`NO_BUFFER`].
    pub(super) slots: BufferRing<2>,
    pub(super) tail: Doorbell<B>,
    /// Device address of byte 0 of the packet memory, and its bytes.
    pub(super) base: u64,
    pub(super) memory_len: u64,
    /// Sent buffers that are no whole block.
    pub(super) loose: heapless::Vec<u32, { 2 * BLOCK }>,
    blocks: Box<[Block]>,
    pub(super) count: usize,
    pub(super) next: usize,
    pub(super) used: usize,
    pub(super) counters: QueueCounters,
    pub(super) drops: Drops,
    loops: Loops,
}

/// What is known of an aligned block of descriptors.
#[derive(Debug, Clone, Copy, Default)]
struct Block {
    /// The descriptor whose completion completes it.
    report_at: u16,
    /// There is a context descriptor in it.
    mixed: bool,
}

/// What became of a frame at the front of a burst.
enum Taken {
    /// It is in the ring: entries, bytes.
    Sent(usize, u64),
    /// It was dropped under a name: entries.
    Dropped(usize),
    /// It stays: there is no room, or its end is missing.
    Not,
}

impl<B: Bar> Tx<B> {
    /// Queue `index` on a ring whose device's tail register is `tail`. A port makes it with
    /// [`start_tx`](kernel::port::PortControl::start_tx); on its own it serves whoever plays the card himself.
    pub fn new(index: usize, descriptors: DescRing<2>, tail: Doorbell<B>, setup: &QueueSetup) -> Self {
        let count = descriptors.count();
        Self {
            index,
            slots: BufferRing::new(descriptors),
            tail,
            base: setup.memory.addr().as_u64(),
            memory_len: setup.memory.len() as u64,
            loose: heapless::Vec::new(),
            blocks: vec![Block::default(); count / BLOCK].into_boxed_slice(),
            count,
            next: 0,
            used: 0,
            counters: QueueCounters::default(),
            drops: Drops::default(),
            loops: Loops::choose(setup),
        }
    }

    /// Its number within the port.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The descriptor at `index`; `None` behind the end of the ring. Only one that asked for it is ever reported: those
    /// before it are done with it.
    pub fn descriptor(&self, index: usize) -> Option<Descriptor> {
        if index >= self.count {
            return None;
        }
        let words = [self.slots.descriptors().read(index, 0), self.slots.descriptors().read(index, 1), 0, 0];
        let ahead = self.wrap(self.next + self.count - 1 - index) + 1;
        let state = match () {
            () if ahead > self.used => State::Free,
            () if words[1] & tx::TYPE_MASK == tx::DONE => State::Done,
            () => State::Card,
        };
        let buffer = self.slots.buffers().get(index).copied();
        let buffer = buffer.filter(|buffer| state != State::Free && *buffer != NO_BUFFER);
        Some(Descriptor { index, state, buffer, words })
    }

    /// Which loop the queue runs, and why no faster one.
    pub fn path(&self) -> Path {
        self.loops.path("")
    }

    /// The first free descriptor: where the tail stands between two bursts.
    pub(super) fn next(&self) -> usize {
        self.next
    }

    /// Descriptors that can be written: one stays free, since a full ring would look like an empty one.
    pub(super) fn free(&self) -> usize {
        self.count - 1 - self.used
    }

    pub(super) fn wrap(&self, index: usize) -> usize {
        if index >= self.count { index - self.count } else { index }
    }

    /// Where the oldest block starts, if all of it has been sent.
    #[inline]
    fn sent_block(&self) -> Option<usize> {
        if self.used < BLOCK {
            return None;
        }
        let start = self.wrap(self.next + self.count - self.used);
        let report_at = self.blocks.get(start / BLOCK)?.report_at;
        let done = self.slots.descriptors().read(usize::from(report_at), 1) & tx::TYPE_MASK == tx::DONE;
        done.then_some(start)
    }

    /// Takes the block at `start` back: whole into `whole`, or, if there are context descriptors in it, its buffers among
    /// the loose ones. Says which.
    #[inline]
    fn retire(&mut self, start: usize, whole: &mut [u32; BLOCK]) -> bool {
        self.used -= BLOCK;
        let block = self.slots.buffers().get(start..start + BLOCK).unwrap_or_default();
        let state = self.blocks.get_mut(start / BLOCK);
        let mixed = state.is_some_and(|state| core::mem::take(&mut state.mixed));
        if let (Some(block), false) = (block.first_chunk(), mixed) {
            *whole = *block;
            return true;
        }
        self.loosen(start);
        false
    }

    /// Puts the buffers of the block at `start`, between which there are context descriptors, among the loose ones.
    #[cold]
    fn loosen(&mut self, start: usize) {
        let block = self.slots.buffers().get(start..start + BLOCK).unwrap_or_default();
        for buffer in block.iter().filter(|buffer| **buffer != NO_BUFFER) {
            // There is room: a block is only looked at while fewer than a block are loose.
            let _ = self.loose.push(*buffer);
        }
    }

    /// The card's head as far as its marks tell it, for when its register does not: behind the last block that is
    /// done.
    pub(super) fn marked_head(&self) -> usize {
        let (mut head, mut left) = (self.wrap(self.next + self.count - self.used), self.used);
        while left >= BLOCK {
            let Some(block) = self.blocks.get(head / BLOCK) else { break };
            if self.slots.descriptors().read(usize::from(block.report_at), 1) & tx::TYPE_MASK != tx::DONE {
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
        let report_at = usize::from(self.blocks.get(oldest / BLOCK)?.report_at);
        let from_oldest = |index: usize| self.wrap(index + self.count - oldest);
        let passed = from_oldest(head) > from_oldest(report_at) && from_oldest(head) <= self.used;
        passed.then_some(report_at)
    }

    /// Gives sent buffers back until `wanted` descriptors are free.
    fn make_room(&mut self, wanted: usize, buffers: &mut impl Buffers) -> bool {
        while self.free() < wanted {
            let Some(start) = self.sent_block() else { return false };
            let mut whole = [0; BLOCK];
            if self.retire(start, &mut whole) {
                buffers.give(&whole);
            } else {
                buffers.give(&self.loose);
                self.loose.clear();
            }
        }
        true
    }

    /// The frame is whole in one buffer, asks for nothing, and the card may be given it.
    #[inline]
    fn is_plain(&self, offset: u32, meta: Meta) -> bool {
        let end = u64::from(offset) + u64::from(meta.start()) + u64::from(meta.len());
        let whole = meta.is_last() && !meta.has_request();
        whole && (MIN_FRAME..=MAX_FRAME).contains(&meta.len()) && end <= self.memory_len
    }

    /// Writes the descriptors of frames at the front as long as each is whole in one buffer, asks for nothing, may be
    /// given to the card, and there is room in front of the ring's end. Returns frames and bytes.
    #[inline]
    pub(super) fn plain_frames(&mut self, offsets: &[u32], metas: &[Meta]) -> (usize, u64) {
        let most = offsets.len().min(self.free()).min(self.count - self.next);
        let entries = offsets.iter().zip(metas).take(most);
        let plain = entries.take_while(|(offset, meta)| self.is_plain(**offset, **meta));
        let (frames, bytes) =
            plain.fold((0, 0), |(frames, bytes), (_, meta)| (frames + 1, bytes + u64::from(meta.len())));
        self.write_known(offsets.get(..frames).unwrap_or_default(), metas);
        (frames, bytes)
    }

    /// Writes the descriptors of frames that are known to be plain; there is room.
    #[inline]
    pub(super) fn write_known(&mut self, mut offsets: &[u32], mut metas: &[Meta]) {
        while !offsets.is_empty() {
            let written = self.write_front(offsets, metas);
            let rest = (offsets.get(written..), metas.get(written..));
            let (1.., Some(more), Some(of_more)) = (written, rest.0, rest.1) else { return };
            (offsets, metas) = (more, of_more);
        }
    }

    /// [`Tx::write_known`] up to the ring's end; returns how many frames that were.
    #[inline]
    fn write_front(&mut self, offsets: &[u32], metas: &[Meta]) -> usize {
        let (start, base) = (self.next, self.base);
        let count = offsets.len().min(metas.len()).min(self.count - start);
        let Some((blocks, buffers)) = self.slots.groups::<1>(start, count) else { return count };
        for (index, (([buffer], offset), meta)) in buffers.iter_mut().zip(offsets).zip(metas).enumerate() {
            let Some(descriptor) = blocks.get(index) else { break };
            let word = tx::ICRC | tx::EOP | u64::from(meta.len()) << tx::SIZE_SHIFT;
            descriptor.write::<0>(0, base + u64::from(*offset) + u64::from(meta.start()));
            descriptor.write::<1>(0, word);
            *buffer = *offset;
        }
        self.ask_for_reports(start, count);
        self.next = self.wrap(start + count);
        self.used += count;
        count
    }

    /// Sends a burst, and rings the doorbell once. `known` writes frames that are known to be plain as
    /// [`Tx::write_known`], `plain` is tried on others as [`Tx::plain_frames`].
    #[inline(always)]
    pub(super) fn take_burst(
        &mut self,
        buffers: &mut impl Buffers,
        burst: &mut Burst,
        known: impl Fn(&mut Self, &[u32], &[Meta]),
        plain: impl Fn(&mut Self, &[u32], &[Meta]) -> (usize, u64),
    ) -> usize {
        let entries = burst.len();
        let frames = match burst.plain() {
            Some(bytes) if entries <= self.free() => {
                known(self, burst.buffers(), burst.metas());
                self.counters.frames += entries as u64;
                self.counters.bytes += bytes;
                burst.release(entries);
                entries
            }
            _ => self.take_frames(buffers, burst, plain),
        };
        if frames > 0 {
            self.tail.ring(self.next as u32);
        }
        frames
    }

    /// Takes frames from the front of `burst` as far as there is room.
    #[inline(never)]
    fn take_frames(
        &mut self,
        buffers: &mut impl Buffers,
        burst: &mut Burst,
        plain: impl Fn(&mut Self, &[u32], &[Meta]) -> (usize, u64),
    ) -> usize {
        let (mut done, mut frames, mut total) = (0, 0, 0);
        if self.free() < burst.len() {
            self.make_room(burst.len().min(self.count - 1), buffers);
        }
        let (offsets, metas) = (burst.buffers(), burst.metas());
        while let (Some(offsets @ [_, ..]), Some(metas)) = (offsets.get(done..), metas.get(done..)) {
            let (plain, bytes) = plain(self, offsets, metas);
            (done, frames, total) = (done + plain, frames + plain, total + bytes);
            if plain > 0 {
                continue;
            }
            match self.take_frame(offsets, metas, buffers) {
                Taken::Sent(entries, bytes) => {
                    (done, frames, total) = (done + entries, frames + 1, total + bytes);
                }
                Taken::Dropped(entries) => done += entries,
                Taken::Not => break,
            }
        }
        self.counters.frames += frames as u64;
        self.counters.bytes += total;
        burst.release(done);
        frames
    }

    /// Asks for the completion of the last frame in each block that ends in the `count` descriptors from `start` on, which
    /// have been written and are a frame each.
    #[inline]
    pub(super) fn ask_for_reports(&mut self, start: usize, count: usize) {
        let mut end = start | (BLOCK - 1);
        while end < start + count {
            self.slots.descriptors().write(end, 1, self.slots.descriptors().read(end, 1) | tx::RS);
            if let Some(block) = self.blocks.get_mut(end / BLOCK) {
                block.report_at = end as u16;
            }
            end += BLOCK;
        }
    }

    /// So many frames, whose descriptors and buffers have been written behind the last one, go to the card.
    #[inline]
    pub(super) fn took(&mut self, frames: usize, bytes: u64) {
        self.ask_for_reports(self.next, frames);
        self.next = self.wrap(self.next + frames);
        self.used += frames;
        self.counters.frames += frames as u64;
        self.counters.bytes += bytes;
        self.tail.ring(self.next as u32);
    }

    /// Takes the frame at the front of the entries, whatever it is.
    #[inline(never)]
    fn take_frame(&mut self, offsets: &[u32], metas: &[Meta], buffers: &mut impl Buffers) -> Taken {
        let Some(last) = metas.iter().position(|meta| meta.is_last()) else { return Taken::Not };
        let (Some(offsets), Some(metas)) = (offsets.get(..=last), metas.get(..=last)) else {
            return Taken::Not;
        };
        match self.judge(offsets, metas) {
            Ok(request) => {
                let descriptors = offsets.len() + usize::from(request.context.is_some());
                if !self.make_room(descriptors, buffers) {
                    return Taken::Not;
                }
                self.write_frame(offsets, metas, request);
                Taken::Sent(offsets.len(), metas.iter().map(|meta| u64::from(meta.len())).sum())
            }
            Err(reason) => {
                self.drops.add(reason, 1);
                buffers.give(offsets);
                Taken::Dropped(offsets.len())
            }
        }
    }

    /// Writes the descriptors of one frame.
    fn write_frame(&mut self, offsets: &[u32], metas: &[Meta], request: Encoded) {
        let count = offsets.len() + usize::from(request.context.is_some());
        let end = self.next % BLOCK + count;
        let last = self.wrap(self.next + count - 1);
        for block in 0..end / BLOCK {
            let block = self.wrap(self.next + block * BLOCK) / BLOCK;
            if let Some(block) = self.blocks.get_mut(block) {
                block.report_at = last as u16;
            }
        }
        let mut index = self.next;
        if let Some(context) = request.context {
            self.write_context(context);
            index = self.wrap(index + 1);
        }
        let report = if end >= BLOCK { tx::RS } else { 0 };
        for (offset, meta) in offsets.iter().zip(metas) {
            let end = if index == last { tx::EOP | report } else { 0 };
            let word = tx::ICRC | request.data | end | u64::from(meta.len()) << tx::SIZE_SHIFT;
            self.slots.descriptors().write(
                index,
                0,
                self.base + u64::from(*offset) + u64::from(meta.start()),
            );
            self.slots.descriptors().write(index, 1, word);
            self.slots.set_buffer(index, *offset);
            index = self.wrap(index + 1);
        }
        self.next = index;
        self.used += count;
    }

    fn write_context(&mut self, [first, second]: [u64; 2]) {
        self.slots.descriptors().write(self.next, 0, first);
        self.slots.descriptors().write(self.next, 1, second);
        self.slots.set_buffer(self.next, NO_BUFFER);
        if let Some(block) = self.blocks.get_mut(self.next / BLOCK) {
            block.mixed = true;
        }
    }

    /// What goes with a frame, or why the card must not be given it: each of these stops a queue of a real card.
    fn judge(&self, offsets: &[u32], metas: &[Meta]) -> Result<Encoded, DropReason> {
        let mut len = 0;
        for (offset, meta) in offsets.iter().zip(metas) {
            let end = u64::from(*offset) + u64::from(meta.start()) + u64::from(meta.len());
            if meta.is_empty() || end > self.memory_len {
                return Err(DropReason::TxBuffer);
            }
            len += meta.len();
        }
        let last = metas.last().copied().unwrap_or_default();
        let segmented = last.has_request() && last.request_segmentation().is_some();
        // What a ring can always take in the end: blocks are reported whole.
        let most = if segmented { self.count - BLOCK - 1 } else { MAX_TX_BUFFERS };
        match len {
            _ if offsets.len() > most => Err(DropReason::TxSegments),
            0..MIN_FRAME => Err(DropReason::TxTooShort),
            _ if last.has_request() => tx_request::encode(metas, len),
            MIN_FRAME..=MAX_FRAME => Ok(Encoded { data: 0, context: None }),
            _ => Err(DropReason::TxTooLong),
        }
    }

    /// A block of the loose buffers; there are enough.
    #[cold]
    fn take_loose(&mut self, block: &mut [u32; BLOCK]) -> bool {
        let Some(kept) = self.loose.len().checked_sub(BLOCK) else { return false };
        let Some(last) = self.loose.get(kept..).and_then(<[u32]>::first_chunk) else { return false };
        *block = *last;
        self.loose.truncate(kept);
        true
    }

    /// Gives every buffer back, after the queue was stopped with the card's head at `head`. Returns the frames
    /// that the card had not sent.
    pub(super) fn release(mut self, head: usize, buffers: &mut impl Buffers) -> QueueCounters {
        let mut unsent = QueueCounters::default();
        let waiting = self.wrap(self.next + self.count - head.min(self.count - 1));
        for i in (1..=waiting.min(self.used)).rev() {
            let index = self.wrap(self.next + self.count - i);
            if self.slots.buffers().get(index).is_some_and(|buffer| *buffer != NO_BUFFER) {
                let word = self.slots.descriptors().read(index, 1);
                unsent.bytes += u64::from(tx::size(word));
                unsent.frames += u64::from(word & tx::EOP != 0);
            }
        }
        while self.used > 0 {
            let oldest = self.wrap(self.next + self.count - self.used);
            let buffer = self.slots.buffers().get(oldest..=oldest).unwrap_or_default();
            if buffer != [NO_BUFFER] {
                buffers.give(buffer);
            }
            self.used -= 1;
        }
        buffers.give(&self.loose);
        // The words lie in memory that the card writes, too: no more can be unsent than was taken.
        unsent.frames = unsent.frames.min(self.counters.frames);
        unsent.bytes = unsent.bytes.min(self.counters.bytes);
        unsent
    }
}

impl<B: Bar> TxQueue for Tx<B> {
    fn tx_burst(&mut self, buffers: &mut impl Buffers, burst: &mut Burst) -> usize {
        transmit(self.loops.isa, self, buffers, burst)
    }

    #[inline]
    fn take_sent(&mut self, block: &mut [u32; BLOCK]) -> bool {
        while self.loose.len() < BLOCK {
            let Some(start) = self.sent_block() else { return false };
            if self.retire(start, block) {
                return true;
            }
        }
        self.take_loose(block)
    }

    fn counters(&self) -> QueueCounters {
        self.counters
    }

    fn drops(&self) -> &Drops {
        &self.drops
    }
}

#[inline]
#[allow(unsafe_code)]
fn transmit<B: Bar>(isa: Isa, tx: &mut Tx<B>, buffers: &mut impl Buffers, burst: &mut Burst) -> usize {
    match isa {
        Isa::Scalar => tx.take_burst(buffers, burst, Tx::write_known, Tx::plain_frames),
        // SAFETY: the token proves that the CPU has the instructions of the loop.
        Isa::Ssse3(token) => unsafe { sse::transmit(token, tx, buffers, burst) },
        // SAFETY: as above.
        Isa::Avx2(token) => unsafe { avx2::transmit(token, tx, buffers, burst) },
        // SAFETY: as above.
        Isa::Avx512(token) => unsafe { avx512::transmit(token, tx, buffers, burst) },
    }
}
