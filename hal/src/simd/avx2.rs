//! Loads and stores of 32 bytes.

use core::arch::x86_64::{
    __m256i, _mm_loadu_si128, _mm_storeu_si128, _mm256_castsi128_si256, _mm256_castsi256_si128,
    _mm256_extracti128_si256, _mm256_inserti128_si256, _mm256_loadu_si256, _mm256_storeu_si256,
};

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::ring::DescBlock;

/// The 32 bytes of an array.
#[inline]
#[target_feature(enable = "avx2")]
pub fn load<T: IntoBytes + Immutable, const N: usize>(from: &[T; N]) -> __m256i {
    const { assert!(size_of::<[T; N]>() == 32) };
    // SAFETY: exactly 32 readable, initialised bytes.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}

/// Writes the 32 bytes of an array.
#[inline]
#[target_feature(enable = "avx2")]
pub fn store<T: FromBytes, const N: usize>(to: &mut [T; N], value: __m256i) {
    const { assert!(size_of::<[T; N]>() == 32) };
    // SAFETY: exactly 32 writable bytes, of a type that any bytes will do for.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), value) };
}

/// The 16 bytes of an array, in both halves.
#[inline]
#[target_feature(enable = "avx2")]
pub fn load_twice<T: IntoBytes + Immutable, const N: usize>(from: &[T; N]) -> __m256i {
    use core::arch::x86_64::_mm256_broadcastsi128_si256;
    const { assert!(size_of::<[T; N]>() == 16) };
    // SAFETY: exactly 16 readable, initialised bytes.
    _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(from.as_ptr().cast()) })
}

/// The first two quadwords of descriptors `AT` and `AT + 1`. Those of one descriptor are read in one piece: x86
/// processors with AVX do so with 16 aligned bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub fn load_heads<const AT: usize, const WORDS: usize, const N: usize>(
    block: &DescBlock<'_, WORDS, N>,
) -> __m256i {
    const { assert!(AT + 2 <= N && WORDS >= 2) };
    let at = block.at::<AT>();
    if WORDS == 2 {
        // SAFETY: both descriptors lie inside of the block, one behind the other.
        return unsafe { _mm256_loadu_si256(at.cast()) };
    }
    // SAFETY: descriptor `AT` lies inside of the block.
    let first = unsafe { _mm_loadu_si128(at.cast()) };
    // SAFETY: so does the one behind it.
    let second = unsafe { _mm_loadu_si128(at.add(WORDS).cast()) };
    _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(first), second)
}

/// Writes the first two quadwords of descriptors `AT` and `AT + 1`.
#[inline]
#[target_feature(enable = "avx2")]
pub fn store_heads<const AT: usize, const WORDS: usize, const N: usize>(
    block: &DescBlock<'_, WORDS, N>,
    value: __m256i,
) {
    const { assert!(AT + 2 <= N && WORDS >= 2) };
    let at = block.at::<AT>();
    if WORDS == 2 {
        // SAFETY: both descriptors lie inside of the block; nobody holds a reference to the memory of a ring.
        unsafe { _mm256_storeu_si256(at.cast(), value) };
        return;
    }
    // SAFETY: as above, one descriptor.
    unsafe { _mm_storeu_si128(at.cast(), _mm256_castsi256_si128(value)) };
    // SAFETY: as above, the other one.
    unsafe { _mm_storeu_si128(at.add(WORDS).cast(), _mm256_extracti128_si256::<1>(value)) };
}
