//! Loads and stores of 64 bytes.

use core::arch::x86_64::{
    __m512i, _mm_loadu_si128, _mm_storeu_si128, _mm256_castsi128_si256, _mm256_inserti128_si256,
    _mm512_broadcast_i32x4, _mm512_castsi256_si512, _mm512_castsi512_si128, _mm512_extracti32x4_epi32,
    _mm512_inserti64x4, _mm512_loadu_si512, _mm512_storeu_si512,
};

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::ring::DescBlock;

/// The 64 bytes of an array.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub fn load<T: IntoBytes + Immutable, const N: usize>(from: &[T; N]) -> __m512i {
    const { assert!(size_of::<[T; N]>() == 64) };
    // SAFETY: exactly 64 readable, initialised bytes.
    unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
}

/// Writes the 64 bytes of an array.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub fn store<T: FromBytes, const N: usize>(to: &mut [T; N], value: __m512i) {
    const { assert!(size_of::<[T; N]>() == 64) };
    // SAFETY: exactly 64 writable bytes, of a type that any bytes will do for.
    unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), value) };
}

/// The 16 bytes of an array, four times.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub fn load_four_times<T: IntoBytes + Immutable, const N: usize>(from: &[T; N]) -> __m512i {
    const { assert!(size_of::<[T; N]>() == 16) };
    // SAFETY: exactly 16 readable, initialised bytes.
    _mm512_broadcast_i32x4(unsafe { _mm_loadu_si128(from.as_ptr().cast()) })
}

/// The first two quadwords of four descriptors from `AT` on. Those of one descriptor are read in one piece: x86
/// processors with AVX do so with 16 aligned bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub fn load_heads<const AT: usize, const WORDS: usize, const N: usize>(
    block: &DescBlock<'_, WORDS, N>,
) -> __m512i {
    const { assert!(AT + 4 <= N && WORDS >= 2) };
    let at = block.at::<AT>();
    if WORDS == 2 {
        // SAFETY: the four descriptors lie inside of the block, one behind the other.
        return unsafe { _mm512_loadu_si512(at.cast()) };
    }
    // SAFETY: the four descriptors lie inside of the block.
    let [a, b, c, d] = [0, 1, 2, 3].map(|i| unsafe { _mm_loadu_si128(at.add(i * WORDS).cast()) });
    let low = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(a), b);
    let high = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(c), d);
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
}

/// Writes the first two quadwords of four descriptors from `AT` on.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub fn store_heads<const AT: usize, const WORDS: usize, const N: usize>(
    block: &DescBlock<'_, WORDS, N>,
    value: __m512i,
) {
    const { assert!(AT + 4 <= N && WORDS >= 2) };
    let at = block.at::<AT>();
    if WORDS == 2 {
        // SAFETY: the four descriptors lie inside of the block; nobody holds a reference to the memory of a ring.
        unsafe { _mm512_storeu_si512(at.cast(), value) };
        return;
    }
    let parts = [
        _mm512_castsi512_si128(value),
        _mm512_extracti32x4_epi32::<1>(value),
        _mm512_extracti32x4_epi32::<2>(value),
        _mm512_extracti32x4_epi32::<3>(value),
    ];
    for (i, part) in parts.into_iter().enumerate() {
        // SAFETY: as above, one descriptor of the four.
        unsafe { _mm_storeu_si128(at.add(i * WORDS).cast(), part) };
    }
}
