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
    pub fn eight(&self, offsets: &[u32; 8]) -> Option<Starts<'a, 8>> {
        let last = _mm256_set1_epi32(self.last.cast_signed());
        let inside = _mm256_cmpeq_epi32(_mm256_max_epu32(avx2::load(offsets), last), last);
        (_mm256_movemask_epi8(inside) == -1).then(|| Starts {
            base: self.base,
            offsets: loaded_again(offsets),
            memory: PhantomData,
        })
    }

    /// The headers at four offsets, if all of them lie in the memory.
    #[inline]
    #[target_feature(enable = "ssse3,sse4.1")]
    pub fn four(&self, offsets: &[u32; 4]) -> Option<Starts<'a, 4>> {
        let last = _mm_set1_epi32(self.last.cast_signed());
        let inside = _mm_cmpeq_epi32(_mm_max_epu32(sse::load(offsets), last), last);
        (_mm_movemask_epi8(inside) == 0xffff).then(|| Starts {
            base: self.base,
            offsets: loaded_again(offsets),
            memory: PhantomData,
        })
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

/// The same numbers, of which the compiler knows no more where they come from.
///
/// Offsets are checked as a vector and used as numbers. A compiler that knows both to be the same bytes takes the numbers
/// out of the vector again, which costs twice as much as loading them.
#[inline]
#[allow(clippy::pointers_in_nomem_asm_block)]
fn loaded_again<const N: usize>(offsets: &[u32; N]) -> [u32; N] {
    let mut at: *const [u32; N] = offsets;
    // SAFETY: no instruction at all: the pointer comes back as it went in.
    unsafe {
        core::arch::asm!("/* {0} */", inout(reg) at, options(pure, nomem, nostack, preserves_flags));
        at.read()
    }
}

/// Headers at offsets that have been checked.
pub struct Starts<'a, const N: usize> {
    base: *mut u8,
    offsets: [u32; N],
    memory: PhantomData<&'a DmaMemory>,
}

impl<const N: usize> Starts<'_, N> {
    #[inline]
    fn at<const I: usize>(&self) -> *mut __m128i {
        const { assert!(I < N) };
        // SAFETY: each of the offsets has `HEADER` bytes of the memory behind it, and they are a copy.
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
