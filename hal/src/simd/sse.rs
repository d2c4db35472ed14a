//! Loads and stores of 16 bytes. SSSE3 and SSE4.1 are what the loops around them need.

use core::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_storeu_si128};

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::ring::DescBlock;
use crate::{DmaMemory, OutOfBounds};

/// The 16 bytes of an array.
#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
pub fn load<T: IntoBytes + Immutable, const N: usize>(from: &[T; N]) -> __m128i {
    const { assert!(size_of::<[T; N]>() == 16) };
    // SAFETY: exactly 16 readable, initialised bytes.
    unsafe { _mm_loadu_si128(from.as_ptr().cast()) }
}

/// Writes the 16 bytes of an array.
#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
pub fn store<T: FromBytes, const N: usize>(to: &mut [T; N], value: __m128i) {
    const { assert!(size_of::<[T; N]>() == 16) };
    // SAFETY: exactly 16 writable bytes, of a type that any bytes will do for.
    unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), value) };
}

/// The 16 bytes of `memory` from `offset` on.
///
/// # Errors
/// [`OutOfBounds`] when they do not lie inside.
#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
pub fn load_from(memory: &DmaMemory, offset: usize) -> Result<__m128i, OutOfBounds> {
    let from = memory.bytes_at(offset, 16)?;
    // SAFETY: 16 mapped bytes.
    Ok(unsafe { _mm_loadu_si128(from.cast_const().cast()) })
}

/// Writes the 16 bytes of `memory` from `offset` on.
///
/// # Errors
/// [`OutOfBounds`] when they do not lie inside; then nothing is written.
#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
pub fn store_to(memory: &DmaMemory, offset: usize, value: __m128i) -> Result<(), OutOfBounds> {
    let to = memory.bytes_at(offset, 16)?;
    // SAFETY: 16 mapped bytes, to which nobody holds a reference.
    unsafe { _mm_storeu_si128(to.cast(), value) };
    Ok(())
}

/// The first two quadwords of descriptor `AT`, in one read.
#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
pub fn load_head<const AT: usize, const WORDS: usize, const N: usize>(
    block: &DescBlock<'_, WORDS, N>,
) -> __m128i {
    const { assert!(AT < N && WORDS >= 2) };
    // SAFETY: descriptor `AT` lies inside of the block, which is mapped memory of a ring.
    unsafe { _mm_loadu_si128(block.at::<AT>().cast()) }
}

/// Writes the first two quadwords of descriptor `AT`.
#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
pub fn store_head<const AT: usize, const WORDS: usize, const N: usize>(
    block: &DescBlock<'_, WORDS, N>,
    value: __m128i,
) {
    const { assert!(AT < N && WORDS >= 2) };
    // SAFETY: as in `load_head`; nobody holds a reference to the memory of a ring.
    unsafe { _mm_storeu_si128(block.at::<AT>().cast(), value) };
}
