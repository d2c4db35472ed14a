//! Sums of 16-bit words, as the Internet's checksum needs them (RFC 1071).
//!
//! Words are summed as this machine reads them, low byte first: the sum in ones' complement has its bytes exchanged then, and
//! is the same otherwise.

use core::arch::x86_64::*;

use super::lines::MASK;
use crate::{DmaMemory, OutOfBounds};

/// Longest range whose words fit the sums' 32 bits, whatever they are.
const LONGEST: usize = 1 << 18;

/// Bytes that a vector load may read behind a range: then they are masked.
fn behind(memory: &DmaMemory, at: usize, len: usize, step: usize) -> Result<*const u8, OutOfBounds> {
    if len > LONGEST {
        return Err(OutOfBounds { offset: at, len });
    }
    Ok(memory.bytes_at(at, len.next_multiple_of(step))?.cast_const())
}

/// The sum of the words from `at` on, `len` bytes, an odd one with a zero behind it. At most 256 KiB.
///
/// # Errors
/// [`OutOfBounds`] when the bytes up to the next multiple of 16 do not lie inside.
#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
pub fn sum_sse(memory: &DmaMemory, at: usize, len: usize) -> Result<u64, OutOfBounds> {
    const STEP: usize = 16;
    let from = behind(memory, at, len, STEP)?;
    let low = _mm_set1_epi32(0xffff);
    let mut sum = _mm_setzero_si128();
    let whole = len / STEP * STEP;
    for offset in (0..whole).step_by(STEP) {
        // SAFETY: `offset + 16 <= whole <= len`, inside of the mapping.
        let words = unsafe { _mm_loadu_si128(from.add(offset).cast()) };
        sum = _mm_add_epi32(sum, _mm_add_epi32(_mm_and_si128(words, low), _mm_srli_epi32::<16>(words)));
    }
    if whole < len {
        // SAFETY: `whole + 16` is the next multiple of 16 behind `len`, inside of the mapping; the mask has 128 bytes, and
        // `64 - (len - whole) + 16` is at most 79.
        let words = unsafe {
            let mask = _mm_loadu_si128(MASK.as_ptr().add(64 - (len - whole)).cast());
            _mm_and_si128(_mm_loadu_si128(from.add(whole).cast()), mask)
        };
        sum = _mm_add_epi32(sum, _mm_add_epi32(_mm_and_si128(words, low), _mm_srli_epi32::<16>(words)));
    }
    Ok(total(sum))
}

/// As [`sum_sse`], 32 bytes at a time.
///
/// # Errors
/// [`OutOfBounds`] when the bytes up to the next multiple of 32 do not lie inside.
#[inline]
#[target_feature(enable = "avx2")]
pub fn sum_avx2(memory: &DmaMemory, at: usize, len: usize) -> Result<u64, OutOfBounds> {
    const STEP: usize = 32;
    let from = behind(memory, at, len, STEP)?;
    let low = _mm256_set1_epi32(0xffff);
    let mut sum = _mm256_setzero_si256();
    let whole = len / STEP * STEP;
    for offset in (0..whole).step_by(STEP) {
        // SAFETY: as in `sum_sse`.
        let words = unsafe { _mm256_loadu_si256(from.add(offset).cast()) };
        let halves = _mm256_add_epi32(_mm256_and_si256(words, low), _mm256_srli_epi32::<16>(words));
        sum = _mm256_add_epi32(sum, halves);
    }
    if whole < len {
        // SAFETY: as in `sum_sse`; the mask is read up to byte 95 at most.
        let words = unsafe {
            let mask = _mm256_loadu_si256(MASK.as_ptr().add(64 - (len - whole)).cast());
            _mm256_and_si256(_mm256_loadu_si256(from.add(whole).cast()), mask)
        };
        let halves = _mm256_add_epi32(_mm256_and_si256(words, low), _mm256_srli_epi32::<16>(words));
        sum = _mm256_add_epi32(sum, halves);
    }
    let (front, back) = (_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum));
    Ok(total(front) + total(back))
}

/// The sum of four numbers of 32 bits.
#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
fn total(sum: __m128i) -> u64 {
    let zero = _mm_setzero_si128();
    let pairs = _mm_add_epi64(_mm_unpacklo_epi32(sum, zero), _mm_unpackhi_epi32(sum, zero));
    let both = _mm_add_epi64(pairs, _mm_unpackhi_epi64(pairs, pairs));
    _mm_cvtsi128_si64(both).cast_unsigned()
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::Machine;
    use crate::hosted::{FakeBar, HostedMachine};
    use crate::simd::{Isa, Level};

    #[test]
    fn every_length_and_place_is_summed_as_by_hand() {
        let memory = HostedMachine::<FakeBar>::new(1 << 15).unwrap().dma_alloc(1 << 14, 64).unwrap();
        let bytes: Vec<u8> = (0..1 << 14).map(|at: u32| ((at * 97) >> 3) as u8 | 0x80).collect();
        memory.copy_in(0, &bytes).unwrap();
        for len in (0..200).chain([1480, 1481, 9000]) {
            for at in [0, 1, 31, 34, 64] {
                let words = bytes[at..at + len].chunks(2);
                let wanted: u64 = words
                    .map(|word| u64::from(word[0]) | u64::from(word.get(1).copied().unwrap_or(0)) << 8)
                    .sum();
                if Isa::best().level() >= Level::Ssse3 {
                    // SAFETY: the CPU has it.
                    assert_eq!(unsafe { sum_sse(&memory, at, len) }, Ok(wanted), "{at} {len}");
                }
                if Isa::best().level() >= Level::Avx2 {
                    // SAFETY: as above.
                    assert_eq!(unsafe { sum_avx2(&memory, at, len) }, Ok(wanted), "{at} {len}");
                }
            }
        }
        if Isa::best().level() >= Level::Avx2 {
            let end = 1 << 14;
            // SAFETY: as above.
            let sum =
                |at, len| unsafe { (sum_sse(&memory, at, len).is_ok(), sum_avx2(&memory, at, len).is_ok()) };
            assert_eq!(sum(end - 16, 1), (true, false));
            assert_eq!(
                (sum(end - 15, 1), sum(end, 0), sum(0, usize::MAX)),
                ((false, false), (true, true), (false, false))
            );
        }
    }
}
