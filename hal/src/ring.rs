//! A ring of descriptors in memory that a device reads and writes.
//!
//! Words are 64 bits wide, aligned, and read and written whole. Which word the device writes, and in what
//! order, is the driver's business; [`acquire`] and [`DescRing::read`] give it the order it needs.

use alloc::boxed::Box;
use alloc::vec;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{Ordering, fence};

use volatile::VolatilePtr;

use crate::{DmaAddr, DmaMemory};

/// Reads after this see what the device wrote before the word that was read last.
#[inline]
pub fn acquire() {
    fence(Ordering::Acquire);
}

/// `count` descriptors of `WORDS` quadwords each (2 is 16 bytes, 4 is 32 bytes).
pub struct DescRing<const WORDS: usize> {
    memory: DmaMemory,
    count: usize,
}

impl<const WORDS: usize> DescRing<WORDS> {
    /// Bytes of one descriptor.
    pub const STRIDE: usize = WORDS * 8;

    /// The ring at the start of `memory`, with as many descriptors as fit, at most `count`.
    ///
    /// `None` when `memory` isn't aligned to 16 bytes, so that two quadwords can be read in one piece.
    pub fn new(memory: DmaMemory, count: usize) -> Option<Self> {
        if !memory.base().as_ptr().cast::<u128>().is_aligned() {
            return None;
        }
        let count = count.min(memory.len() / Self::STRIDE);
        Some(Self { memory, count })
    }

    /// Descriptors in the ring.
    pub fn count(&self) -> usize {
        self.count
    }

    /// What the device calls the first descriptor.
    pub fn addr(&self) -> DmaAddr {
        self.memory.addr()
    }

    /// Word `word` of descriptor `index`; 0 outside of the ring.
    #[inline]
    pub fn read(&self, index: usize, word: usize) -> u64 {
        match self.word(index, word) {
            Some(word) => word.read(),
            None => 0,
        }
    }

    /// Writes word `word` of descriptor `index`; outside of the ring, nothing.
    #[inline]
    pub fn write(&self, index: usize, word: usize, value: u64) {
        if let Some(word) = self.word(index, word) {
            word.write(value);
        }
    }

    /// Writes a whole descriptor, the first word first.
    #[inline]
    pub fn write_all(&self, index: usize, words: [u64; WORDS]) {
        for (word, value) in words.into_iter().enumerate() {
            self.write(index, word, value);
        }
    }

    /// Sets every word to `value`.
    pub fn fill(&self, value: u64) {
        for index in 0..self.count {
            self.write_all(index, [value; WORDS]);
        }
    }

    /// `N` descriptors from `start` on; `None` when they don't all lie in the ring.
    #[inline]
    pub fn block<const N: usize>(&self, start: usize) -> Option<DescBlock<'_, WORDS, N>> {
        if N > self.count || start > self.count - N {
            return None;
        }
        // SAFETY: `start + N <= count`, so the offset lies inside of the memory.
        let first = unsafe { self.memory.base().add(start * Self::STRIDE) };
        Some(DescBlock { first: first.cast(), ring: PhantomData })
    }

    /// `count` blocks of `N` descriptors from `start` on; `None` when they don't all lie in the ring.
    #[inline]
    pub fn blocks<const N: usize>(&self, start: usize, count: usize) -> Option<DescBlocks<'_, WORDS, N>> {
        const { assert!(N > 0) };
        if start > self.count || count > (self.count - start) / N {
            return None;
        }
        // SAFETY: `start <= count`, so the offset lies inside or at the end of the memory.
        let first = unsafe { self.memory.base().add(start * Self::STRIDE) };
        Some(DescBlocks { first: first.cast(), count, ring: PhantomData })
    }

    #[inline]
    fn word(&self, index: usize, word: usize) -> Option<VolatilePtr<'_, u64>> {
        if index >= self.count || word >= WORDS {
            debug_assert!(false, "descriptor {index} word {word} of a ring of {}", self.count);
            return None;
        }
        // SAFETY: `index < count` and `word < WORDS`, so the offset lies inside of the memory.
        let at = unsafe { self.memory.base().add(index * Self::STRIDE + word * 8) };
        // SAFETY: mapped as long as `self.memory` lives, which outlives the pointer's lifetime; aligned (checked
        // in `new`, the stride is a multiple of 16); nobody makes references to this memory.
        Some(unsafe { VolatilePtr::new(at.cast::<u64>()) })
    }
}

/// Descriptors of a ring that lie one behind the other, for vector loads and stores ([`crate::simd`]).
pub struct DescBlock<'a, const WORDS: usize, const N: usize> {
    first: NonNull<u64>,
    ring: PhantomData<&'a DescRing<WORDS>>,
}

impl<const WORDS: usize, const N: usize> DescBlock<'_, WORDS, N> {
    /// Where descriptor `AT` lies.
    #[inline]
    pub(crate) fn at<const AT: usize>(&self) -> *mut u64 {
        const { assert!(AT < N) };
        // SAFETY: `AT < N`, and the block lies inside of the ring.
        unsafe { self.first.as_ptr().add(AT * WORDS) }
    }

    /// Word `WORD` of descriptor `at`; 0 outside of the block.
    #[inline]
    pub fn read<const WORD: usize>(&self, at: usize) -> u64 {
        const { assert!(WORD < WORDS) };
        if at >= N {
            return 0;
        }
        // SAFETY: inside of the block, aligned to 8 as the ring is.
        unsafe { self.first.as_ptr().add(at * WORDS + WORD).read_volatile() }
    }

    /// Writes word `WORD` of descriptor `at`; outside of the block, nothing.
    #[inline]
    pub fn write<const WORD: usize>(&self, at: usize, value: u64) {
        const { assert!(WORD < WORDS) };
        if at < N {
            // SAFETY: inside of the block, aligned to 8 as the ring is, and nobody holds a reference to it.
            unsafe { self.first.as_ptr().add(at * WORDS + WORD).write_volatile(value) };
        }
    }
}

/// Blocks of descriptors, one behind the other.
pub struct DescBlocks<'a, const WORDS: usize, const N: usize> {
    first: NonNull<u64>,
    count: usize,
    ring: PhantomData<&'a DescRing<WORDS>>,
}

impl<'a, const WORDS: usize, const N: usize> DescBlocks<'a, WORDS, N> {
    /// Block `index`.
    #[inline]
    pub fn get(&self, index: usize) -> Option<DescBlock<'a, WORDS, N>> {
        if index >= self.count {
            return None;
        }
        // SAFETY: all `count` blocks lie inside of the ring.
        let first = unsafe { self.first.add(index * N * WORDS) };
        Some(DescBlock { first, ring: PhantomData })
    }
}

/// A ring whose descriptors each have a buffer, which is remembered beside it: a word that the device may write is never
/// believed to say which buffer it was.
pub struct BufferRing<const WORDS: usize> {
    descriptors: DescRing<WORDS>,
    /// As many as there are descriptors.
    buffers: Box<[u32]>,
}

impl<const WORDS: usize> BufferRing<WORDS> {
    /// All buffers are 0 at first, and so is every word.
    pub fn new(descriptors: DescRing<WORDS>) -> Self {
        descriptors.fill(0);
        let buffers = vec![0; descriptors.count()].into_boxed_slice();
        Self { descriptors, buffers }
    }

    /// The descriptors.
    #[inline]
    pub fn descriptors(&self) -> &DescRing<WORDS> {
        &self.descriptors
    }

    /// The buffers, by index.
    #[inline]
    pub fn buffers(&self) -> &[u32] {
        &self.buffers
    }

    /// The buffer of descriptor `index`; 0 outside of the ring.
    #[inline]
    pub fn buffer(&self, index: usize) -> u32 {
        self.buffers.get(index).copied().unwrap_or(0)
    }

    /// Sets the buffer of descriptor `index`; outside of the ring, nothing.
    #[inline]
    pub fn set_buffer(&mut self, index: usize, buffer: u32) {
        if let Some(slot) = self.buffers.get_mut(index) {
            *slot = buffer;
        }
    }

    /// `count` groups of `N` descriptors from `start` on with their buffers; `None` when they don't all lie in the ring.
    #[inline]
    pub fn groups<const N: usize>(
        &mut self,
        start: usize,
        count: usize,
    ) -> Option<(DescBlocks<'_, WORDS, N>, &mut [[u32; N]])> {
        let blocks = self.descriptors.blocks(start, count)?;
        debug_assert_eq!(self.buffers.len(), self.descriptors.count());
        // SAFETY: `blocks` has checked that `start + count * N` is at most the number of descriptors, which is the number
        // of buffers; an array of `u32` is aligned as `u32` is; the borrow of `self` is exclusive.
        let buffers = unsafe {
            core::slice::from_raw_parts_mut(self.buffers.as_mut_ptr().add(start).cast::<[u32; N]>(), count)
        };
        Some((blocks, buffers))
    }
}
