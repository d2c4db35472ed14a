//! The first bytes of frames in a packet memory, 16 at a time.

use core::arch::x86_64::{
    __m128i, _mm_cmpeq_epi32, _mm_loadu_si128, _mm_max_epu32, _mm_movemask_epi8, _mm_set1_epi32,
    _mm_storeu_si128, _mm256_cmpeq_epi32, _mm256_max_epu32, _mm256_movemask_epi8, _mm256_set1_epi32,
};
use core::marker::PhantomData;

use super::{avx2, sse};
use crate::DmaMemory;

/// Bytes that are read and written at the start of a frame.
pub const HEADER: usize = 16;

/// A packet memory as a place of headers. What lies there may change under our eyes; a value that was loaded does not.
#[derive(Clone, Copy)]
pub struct Headers<'a> {
    base: *mut u8,
    /// The last offset with [`HEADER`] bytes behind it.
    last: u32,
    memory: PhantomData<&'a DmaMemory>,
}

impl<'a> Headers<'a> {
    /// Those in `memory`; `None` when it has no room for one.
    #[inline]
    pub fn new(memory: &'a DmaMemory) -> Option<Self> {
        let last = memory.len().checked_sub(HEADER)?;
        let last = u32::try_from(last).unwrap_or(u32::MAX);
        Some(Self { base: memory.base().as_ptr(), last, memory: PhantomData })
    }

    /// The headers at eight offsets, if all of them lie in the memory.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub fn eight<'b>(&self, offsets: &'b [u32; 8]) -> Option<Starts<'b, 8>>
    where
        'a: 'b,
    {
        let last = _mm256_set1_epi32(self.last.cast_signed());
        let inside = _mm256_cmpeq_epi32(_mm256_max_epu32(avx2::load(offsets), last), last);
        (_mm256_movemask_epi8(inside) == -1).then_some(Starts { base: self.base, offsets })
    }

    /// The headers at four offsets, if all of them lie in the memory.
    #[inline]
    #[target_feature(enable = "ssse3,sse4.1")]
    pub fn four<'b>(&self, offsets: &'b [u32; 4]) -> Option<Starts<'b, 4>>
    where
        'a: 'b,
    {
        let last = _mm_set1_epi32(self.last.cast_signed());
        let inside = _mm_cmpeq_epi32(_mm_max_epu32(sse::load(offsets), last), last);
        (_mm_movemask_epi8(inside) == 0xffff).then_some(Starts { base: self.base, offsets })
    }

    /// Asks for the line at `offset`, wherever that is.
    #[inline]
    pub fn prefetch(&self, offset: u32) {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let at = self.base.wrapping_add(offset as usize).cast::<i8>().cast_const();
        // SAFETY: a prefetch of any address has no effect that a program could see.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at) };
    }
}

/// Headers at offsets that have been checked.
pub struct Starts<'a, const N: usize> {
    base: *mut u8,
    offsets: &'a [u32; N],
}

impl<const N: usize> Starts<'_, N> {
    #[inline]
    fn at<const I: usize>(&self) -> *mut __m128i {
        const { assert!(I < N) };
        // SAFETY: each of the offsets has `HEADER` bytes of the memory behind it, and they can't change while they
        // are borrowed.
        unsafe { self.base.add(self.offsets[I] as usize).cast() }
    }

    /// Header `I`.
    #[inline]
    #[target_feature(enable = "ssse3,sse4.1")]
    pub fn load<const I: usize>(&self) -> __m128i {
        // SAFETY: 16 mapped bytes.
        unsafe { _mm_loadu_si128(self.at::<I>()) }
    }

    /// Writes header `I`.
    #[inline]
    #[target_feature(enable = "ssse3,sse4.1")]
    pub fn store<const I: usize>(&self, value: __m128i) {
        // SAFETY: 16 mapped bytes, to which nobody holds a reference.
        unsafe { _mm_storeu_si128(self.at::<I>(), value) };
    }
}
