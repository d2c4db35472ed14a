//! AVX-512: four frames in a register.

use core::arch::x86_64::*;

use hal::Bar;
use hal::ring::{DescBlock, acquire};
use hal::simd::{Avx512, Headers, avx2, avx512};
use kernel::forward::vector::avx2::exchange;
use kernel::port::{Recycle, Relayed, Touch};
use kernel::{BLOCK, Buffers, Burst, Meta, Pool};

use super::loops::{GROUP, vector_loops};
use crate::i40e::desc::{rx, tx};
use crate::i40e::rx_ring::{Ring, Taken};
use crate::i40e::tx::Tx;
use crate::i40e::{MAX_FRAME, MIN_FRAME};

/// Lower halves of the second quadwords of eight frames in two registers.
const MARKS: [u32; 16] = [2, 6, 10, 14, 18, 22, 26, 30, 0, 0, 0, 0, 0, 0, 0, 0];
/// Upper halves.
const UPPER: [u32; 16] = [3, 7, 11, 15, 19, 23, 27, 31, 0, 0, 0, 0, 0, 0, 0, 0];

vector_loops!("avx512f,avx512bw,avx512dq,avx512vl", Avx512);

/// `lo` and `hi` for each of the four frames in a register.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn each(lo: u64, hi: u64) -> __m512i {
    let (lo, hi) = (lo.cast_signed(), hi.cast_signed());
    _mm512_set_epi64(hi, lo, hi, lo, hi, lo, hi, lo)
}

/// Each of four offsets in a first quadword.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn spread(offsets: &[u32; 4]) -> __m512i {
    const FIRST_OF_FOUR: __mmask16 = 0x1111;
    let lanes = _mm512_setr_epi32(0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0);
    _mm512_maskz_permutexvar_epi32(FIRST_OF_FOUR, lanes, avx512::load_four_times(offsets))
}

/// Eight lanes of 32 bits.
type Lens = __m256i;

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn no_lens() -> Lens {
    _mm256_setzero_si256()
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn add(some: Lens, more: Lens) -> Lens {
    _mm256_add_epi32(some, more)
}

/// The sum of all lanes, which fits into 32 bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn total(lens: Lens) -> u64 {
    let four = _mm_add_epi32(_mm256_castsi256_si128(lens), _mm256_extracti128_si256::<1>(lens));
    let two = _mm_add_epi32(four, _mm_shuffle_epi32::<0b11_10>(four));
    let one = _mm_add_epi32(two, _mm_shuffle_epi32::<0b01>(two));
    u64::from(_mm_cvtsi128_si32(one).cast_unsigned())
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn arm<const WORDS: usize>(descriptors: &DescBlock<'_, WORDS, BLOCK>, base: u64, block: &[u32; BLOCK]) {
    let base = each(base, 0);
    let (fours, _) = block.as_chunks::<4>();
    macro_rules! arm_four {
        ($($four:literal)*) => {$(
            let words = _mm512_add_epi64(base, spread(&fours[$four]));
            avx512::store_heads::<{ 4 * $four }, WORDS, BLOCK>(descriptors, words);
        )*};
    }
    arm_four!(0 1 2 3 4 5 6 7);
}

/// The shortest, and the longest beyond that.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn range(first: u32, last: u32) -> [__m256i; 2] {
    [_mm256_set1_epi32(first.cast_signed()), _mm256_set1_epi32(last.wrapping_sub(first).cast_signed())]
}

/// First and second quadwords of eight frames, four frames in a register.
type Heads = [__m512i; 2];

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn heads<const WORDS: usize>(block: &DescBlock<'_, WORDS, GROUP>) -> Heads {
    [avx512::load_heads::<0, WORDS, GROUP>(block), avx512::load_heads::<4, WORDS, GROUP>(block)]
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn heads_of(metas: &[Meta; GROUP]) -> Heads {
    let (fours, _) = metas.as_chunks::<4>();
    [avx512::load(&fours[0]), avx512::load(&fours[1])]
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn put(metas: &mut [Meta; GROUP], [front, back]: Heads) {
    let used = each(rx::META_LO, !rx::HEADER);
    let (fours, _) = metas.as_chunks_mut::<4>();
    avx512::store(&mut fours[0], _mm512_and_si512(front, used));
    avx512::store(&mut fours[1], _mm512_and_si512(back, used));
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn judge([front, back]: Heads, [first, beyond]: [__m256i; 2]) -> (__mmask8, Lens) {
    const LOOKED_AT: u64 = rx::DD | Meta::EOP | rx::RXE | rx::OVERSIZE;
    let marks = _mm512_castsi512_si256(_mm512_permutex2var_epi32(front, avx512::load(&MARKS), back));
    let upper = _mm512_castsi512_si256(_mm512_permutex2var_epi32(front, avx512::load(&UPPER), back));
    let lens = _mm256_srli_epi32::<{ Meta::LEN_SHIFT as i32 - 32 }>(upper);
    let lens = _mm256_and_si256(lens, _mm256_set1_epi32(Meta::LEN_MAX.cast_signed()));
    let marks = _mm256_and_si256(marks, _mm256_set1_epi32(LOOKED_AT as i32));
    let whole = _mm256_cmpeq_epi32_mask(marks, _mm256_set1_epi32((rx::DD | Meta::EOP) as i32));
    (_mm256_mask_cmple_epu32_mask(whole, _mm256_sub_epi32(lens, first), beyond), lens)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn all(good: __mmask8) -> bool {
    good == 0xff
}

#[cold]
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn leading(good: __mmask8, lens: Lens) -> (usize, Lens) {
    let count = good.trailing_ones();
    let taken = !(u32::MAX << count) as __mmask8;
    (count as usize, _mm256_maskz_mov_epi32(taken, lens))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn good(offsets: &[u32; GROUP], metas: &[Meta; GROUP], limit: u64) -> Option<Lens> {
    let [front, back] = heads_of(metas);
    let asked = each(Meta::REQUEST, u64::MAX << Meta::START_SHIFT);
    if _mm512_test_epi64_mask(_mm512_or_si512(front, back), asked) != 0 {
        return None;
    }
    let marks = _mm512_castsi512_si256(_mm512_permutex2var_epi32(front, avx512::load(&MARKS), back));
    let upper = _mm512_castsi512_si256(_mm512_permutex2var_epi32(front, avx512::load(&UPPER), back));
    let lens = _mm256_srli_epi32::<{ Meta::LEN_SHIFT as i32 - 32 }>(upper);
    let whole = _mm256_test_epi32_mask(marks, _mm256_set1_epi32(Meta::EOP as i32));
    let beyond = _mm256_sub_epi32(lens, _mm256_set1_epi32(MIN_FRAME.cast_signed()));
    let most = _mm256_set1_epi32((MAX_FRAME - MIN_FRAME).cast_signed());
    let right = _mm256_mask_cmple_epu32_mask(whole, beyond, most);
    let ends = _mm512_add_epi64(_mm512_cvtepu32_epi64(avx2::load(offsets)), _mm512_cvtepu32_epi64(lens));
    let good = _mm512_mask_cmple_epu64_mask(right, ends, _mm512_set1_epi64(limit.cast_signed()));
    (good == 0xff).then_some(lens)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn fixed(base: u64) -> __m512i {
    each(base, tx::ICRC | tx::EOP)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn write(block: &DescBlock<'_, 2, GROUP>, fixed: __m512i, offsets: &[u32; GROUP], heads: Heads) {
    let (fours, _) = offsets.as_chunks::<4>();
    let size = each(0, u64::from(tx::SIZE_MAX) << tx::SIZE_SHIFT);
    macro_rules! write_four {
        ($four:literal) => {
            let len = _mm512_srli_epi64::<{ Meta::LEN_SHIFT - tx::SIZE_SHIFT }>(heads[$four]);
            // fixed | (len & size): the three share no bits that are not 0 in one of them.
            let word = _mm512_ternarylogic_epi64::<0xf8>(fixed, len, size);
            avx512::store_heads::<{ 4 * $four }, 2, GROUP>(
                block,
                _mm512_add_epi64(word, spread(&fours[$four])),
            );
        };
    }
    write_four!(0);
    write_four!(1);
}
