//! AVX2: two frames in a register.
//!
//! Of eight second quadwords the lower halves (marks, errors) and the upper halves (length, and what is ours) are brought
//! together into a register each, and all conditions end in one mask. Unpacking leaves the frames in the order of
//! [`ORDER`] there.

use core::arch::x86_64::*;

use hal::Bar;
use hal::ring::{DescBlock, acquire};
use hal::simd::{Avx2, Headers, avx2};
use kernel::forward::vector::avx2::exchange;
use kernel::port::{Recycle, Relayed, Touch};
use kernel::{BLOCK, Buffers, Burst, Meta, Pool};

use super::loops::{GROUP, vector_loops};
use crate::i40e::desc::{rx, tx};
use crate::i40e::rx_ring::{Ring, Taken};
use crate::i40e::tx::Tx;
use crate::i40e::{MAX_FRAME, MIN_FRAME};

/// Which frame lies in which 32-bit lane after unpacking.
const ORDER: [u32; GROUP] = [0, 2, 4, 6, 1, 3, 5, 7];
/// The lane of each frame.
const LANE: [u32; GROUP] = [0, 4, 1, 5, 2, 6, 3, 7];

vector_loops!("avx2", Avx2);

/// `lo` and `hi` for each of the two frames in a register.
#[inline]
#[target_feature(enable = "avx2")]
fn both(lo: u64, hi: u64) -> __m256i {
    let (lo, hi) = (lo.cast_signed(), hi.cast_signed());
    _mm256_set_epi64x(hi, lo, hi, lo)
}

/// Each offset in a first quadword: frames 0 and 1 of four, then 2 and 3.
#[inline]
#[target_feature(enable = "avx2")]
fn spread(offsets: &[u32; 4]) -> [__m256i; 2] {
    let four = avx2::load_twice(offsets);
    let first = _mm256_setr_epi8(
        0, 1, 2, 3, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, //
        4, 5, 6, 7, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
    );
    let second = _mm256_setr_epi8(
        8, 9, 10, 11, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, //
        12, 13, 14, 15, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
    );
    [_mm256_shuffle_epi8(four, first), _mm256_shuffle_epi8(four, second)]
}

/// Eight lanes of 32 bits.
type Lens = __m256i;

#[inline]
#[target_feature(enable = "avx2")]
fn no_lens() -> Lens {
    _mm256_setzero_si256()
}

#[inline]
#[target_feature(enable = "avx2")]
fn add(some: Lens, more: Lens) -> Lens {
    _mm256_add_epi32(some, more)
}

/// The sum of all lanes, which fits into 32 bits.
#[inline]
#[target_feature(enable = "avx2")]
fn total(lens: Lens) -> u64 {
    let four = _mm_add_epi32(_mm256_castsi256_si128(lens), _mm256_extracti128_si256::<1>(lens));
    let two = _mm_add_epi32(four, _mm_shuffle_epi32::<0b11_10>(four));
    let one = _mm_add_epi32(two, _mm_shuffle_epi32::<0b01>(two));
    u64::from(_mm_cvtsi128_si32(one).cast_unsigned())
}

#[inline]
#[target_feature(enable = "avx2")]
fn arm<const WORDS: usize>(descriptors: &DescBlock<'_, WORDS, BLOCK>, base: u64, block: &[u32; BLOCK]) {
    let base = both(base, 0);
    let (fours, _) = block.as_chunks::<4>();
    macro_rules! arm_four {
        ($($four:literal)*) => {$(
            let [first, second] = spread(&fours[$four]);
            avx2::store_heads::<{ 4 * $four }, WORDS, BLOCK>(descriptors, _mm256_add_epi64(base, first));
            avx2::store_heads::<{ 4 * $four + 2 }, WORDS, BLOCK>(descriptors, _mm256_add_epi64(base, second));
        )*};
    }
    arm_four!(0 1 2 3 4 5 6 7);
}

/// What is just too short, and the longest.
#[inline]
#[target_feature(enable = "avx2")]
fn range(first: u32, last: u32) -> [__m256i; 2] {
    [_mm256_set1_epi32(first.cast_signed() - 1), _mm256_set1_epi32(last.cast_signed())]
}

/// First and second quadwords of eight frames, two frames in a register.
type Heads = [__m256i; 4];

#[inline]
#[target_feature(enable = "avx2")]
fn heads<const WORDS: usize>(block: &DescBlock<'_, WORDS, GROUP>) -> Heads {
    [
        avx2::load_heads::<0, WORDS, GROUP>(block),
        avx2::load_heads::<2, WORDS, GROUP>(block),
        avx2::load_heads::<4, WORDS, GROUP>(block),
        avx2::load_heads::<6, WORDS, GROUP>(block),
    ]
}

#[inline]
#[target_feature(enable = "avx2")]
fn heads_of(metas: &[Meta; GROUP]) -> Heads {
    let (pairs, _) = metas.as_chunks::<2>();
    [avx2::load(&pairs[0]), avx2::load(&pairs[1]), avx2::load(&pairs[2]), avx2::load(&pairs[3])]
}

#[inline]
#[target_feature(enable = "avx2")]
fn put(metas: &mut [Meta; GROUP], heads: Heads) {
    let used = both(rx::META_LO, !rx::HEADER);
    for (pair, head) in metas.as_chunks_mut::<2>().0.iter_mut().zip(heads) {
        avx2::store(pair, _mm256_and_si256(head, used));
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn judge([a, b, c, d]: Heads, [below, last]: [__m256i; 2]) -> (__m256i, Lens) {
    const LOOKED_AT: u64 = rx::DD | Meta::EOP | rx::RXE | rx::OVERSIZE;
    let (ab, cd) = (_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d));
    let (marks, upper) = (_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd));
    let lens = _mm256_srli_epi32::<{ Meta::LEN_SHIFT as i32 - 32 }>(upper);
    let lens = _mm256_and_si256(lens, _mm256_set1_epi32(Meta::LEN_MAX.cast_signed()));
    let marks = _mm256_and_si256(marks, _mm256_set1_epi32(LOOKED_AT as i32));
    let whole = _mm256_cmpeq_epi32(marks, _mm256_set1_epi32((rx::DD | Meta::EOP) as i32));
    let (long, enough) = (_mm256_cmpgt_epi32(lens, last), _mm256_cmpgt_epi32(lens, below));
    (_mm256_and_si256(whole, _mm256_andnot_si256(long, enough)), lens)
}

#[inline]
#[target_feature(enable = "avx2")]
fn all(good: __m256i) -> bool {
    _mm256_movemask_epi8(good) == -1
}

#[cold]
#[inline(never)]
#[target_feature(enable = "avx2")]
fn leading(good: __m256i, lens: Lens) -> (usize, Lens) {
    let good = _mm256_permutevar8x32_epi32(good, avx2::load(&LANE));
    let count = (_mm256_movemask_ps(_mm256_castsi256_ps(good)) as u32).trailing_ones();
    let taken = _mm256_cmpgt_epi32(_mm256_set1_epi32(count.cast_signed()), avx2::load(&ORDER));
    (count as usize, _mm256_and_si256(lens, taken))
}

#[inline]
#[target_feature(enable = "avx2")]
fn good(offsets: &[u32; GROUP], metas: &[Meta; GROUP], limit: u64) -> Option<Lens> {
    let [a, b, c, d] = heads_of(metas);
    let any = _mm256_or_si256(_mm256_or_si256(a, b), _mm256_or_si256(c, d));
    if _mm256_testz_si256(any, both(Meta::REQUEST, u64::MAX << Meta::START_SHIFT)) == 0 {
        return None;
    }
    let (fours, _) = offsets.as_chunks::<4>();
    let limit = _mm256_set1_epi64x(limit.cast_signed());
    let (front, front_lens) = good_four(&fours[0], a, b, limit);
    let (back, back_lens) = good_four(&fours[1], c, d, limit);
    let good = _mm256_castsi256_pd(_mm256_and_si256(front, back));
    // Lengths are in lanes of 64 bits here, whose upper halves are 0.
    (_mm256_movemask_pd(good) == 0xf).then_some(_mm256_add_epi64(front_lens, back_lens))
}

/// Lanes of 64 bits that are negative where a frame is good, and lengths.
#[inline]
#[target_feature(enable = "avx2")]
fn good_four(offsets: &[u32; 4], first: __m256i, second: __m256i, limit: __m256i) -> (__m256i, __m256i) {
    // In the order in which unpacking leaves the second quadwords: 0, 2, 1, 3.
    let odd_in_upper_half = _mm256_set_epi64x(32, 32, 0, 0);
    let low_half = _mm256_set1_epi64x(u32::MAX.into());
    let offsets = _mm256_and_si256(_mm256_srlv_epi64(avx2::load_twice(offsets), odd_in_upper_half), low_half);
    let words = _mm256_unpackhi_epi64(first, second);
    let lens = _mm256_srli_epi64::<{ Meta::LEN_SHIFT as i32 }>(words);
    // Each of these is negative where something is wrong.
    let short = _mm256_sub_epi64(lens, _mm256_set1_epi64x(MIN_FRAME.into()));
    let long = _mm256_sub_epi64(_mm256_set1_epi64x(MAX_FRAME.into()), lens);
    let behind = _mm256_sub_epi64(_mm256_sub_epi64(limit, offsets), lens);
    let wrong = _mm256_or_si256(_mm256_or_si256(short, long), behind);
    (_mm256_andnot_si256(wrong, _mm256_slli_epi64::<62>(words)), lens)
}

#[inline]
#[target_feature(enable = "avx2")]
fn fixed(base: u64) -> __m256i {
    both(base, tx::ICRC | tx::EOP)
}

#[inline]
#[target_feature(enable = "avx2")]
fn write(block: &DescBlock<'_, 2, GROUP>, fixed: __m256i, offsets: &[u32; GROUP], heads: Heads) {
    let (fours, _) = offsets.as_chunks::<4>();
    let ([a, b], [c, d]) = (spread(&fours[0]), spread(&fours[1]));
    let size = both(0, u64::from(tx::SIZE_MAX) << tx::SIZE_SHIFT);
    macro_rules! write_two {
        ($at:literal, $address:ident) => {
            let len = _mm256_srli_epi64::<{ (Meta::LEN_SHIFT - tx::SIZE_SHIFT) as i32 }>(heads[$at / 2]);
            let word = _mm256_add_epi64(_mm256_add_epi64($address, fixed), _mm256_and_si256(len, size));
            avx2::store_heads::<$at, 2, GROUP>(block, word);
        };
    }
    write_two!(0, a);
    write_two!(2, b);
    write_two!(4, c);
    write_two!(6, d);
}
