//! AVX2: two frames in a register, or four words.

use core::arch::x86_64::*;

use hal::Bar;
use hal::ring::{DescBlock, acquire};
use hal::simd::{Avx2, Headers, avx2};
use kernel::forward::vector::avx2::{exchange, overwrite};
use kernel::port::{Recycle, Relayed, Touch};
use kernel::{BLOCK, Buffers, Burst, Meta, Pool};

use super::asked::write_asked;
use super::loops::{GROUP, LENGTH, Range, SIZE_RIGHT, WORD, vector_loops};
use crate::i40e::desc::{rx, tx};
use crate::i40e::rx_ring::{Ring, Taken};
use crate::i40e::tx::Tx;
use crate::i40e::{MAX_FRAME, MIN_FRAME};

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

/// Four sums of words.
type Sum = __m256i;

#[inline]
#[target_feature(enable = "avx2")]
fn nothing() -> Sum {
    _mm256_setzero_si256()
}

#[inline]
#[target_feature(enable = "avx2")]
fn add(sum: Sum, [front, back]: Words) -> Sum {
    _mm256_add_epi64(sum, _mm256_add_epi64(front, back))
}

#[inline]
#[target_feature(enable = "avx2")]
fn bytes(sum: Sum) -> u64 {
    let two = _mm_add_epi64(_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum));
    (_mm_cvtsi128_si64(two).cast_unsigned() + _mm_extract_epi64::<1>(two).cast_unsigned()) >> Meta::LEN_SHIFT
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

/// Marks and lengths of four and four frames, in the order in which unpacking leaves them: 0, 2, 1, 3.
type Words = [__m256i; 2];

#[inline]
#[target_feature(enable = "avx2")]
fn words([a, b, c, d]: Heads, used: u64) -> Words {
    let used = _mm256_set1_epi64x(used.cast_signed());
    [_mm256_and_si256(_mm256_unpackhi_epi64(a, b), used), _mm256_and_si256(_mm256_unpackhi_epi64(c, d), used)]
}

#[inline]
#[target_feature(enable = "avx2")]
fn all_plain([front, back]: Words, range: Range) -> bool {
    let shortest = _mm256_set1_epi64x(range.shortest.cast_signed());
    let longer = _mm256_set1_epi64x(range.longer.cast_signed());
    // 0 but for the bytes above the shortest length; with another mark, or with fewer bytes, some other bit is set.
    let (front, back) = (_mm256_sub_epi64(front, shortest), _mm256_sub_epi64(back, shortest));
    let over = _mm256_or_si256(_mm256_sub_epi64(longer, front), _mm256_sub_epi64(longer, back));
    let wrong = _mm256_or_si256(_mm256_or_si256(front, back), _mm256_srli_epi64::<63>(over));
    _mm256_testz_si256(wrong, _mm256_set1_epi64x(!LENGTH.cast_signed())) != 0
}

/// Words in the order of the frames.
#[inline]
#[target_feature(enable = "avx2")]
fn in_order([front, back]: Words) -> [u64; GROUP] {
    const ODD_ONES_BETWEEN: i32 = 0b11_01_10_00;
    let mut words = [0; GROUP];
    let (halves, _) = words.as_chunks_mut::<4>();
    avx2::store(&mut halves[0], _mm256_permute4x64_epi64::<ODD_ONES_BETWEEN>(front));
    avx2::store(&mut halves[1], _mm256_permute4x64_epi64::<ODD_ONES_BETWEEN>(back));
    words
}

#[inline]
#[target_feature(enable = "avx2")]
fn may_be_sent(offsets: &[u32; GROUP], heads: Heads, limit: u64) -> bool {
    let [a, b, c, d] = heads;
    let any = _mm256_or_si256(_mm256_or_si256(a, b), _mm256_or_si256(c, d));
    let asked = _mm256_testz_si256(any, both(Meta::REQUEST, u64::MAX << Meta::START_SHIFT)) == 0;
    let (fours, _) = offsets.as_chunks::<4>();
    let limit = _mm256_set1_epi64x(limit.cast_signed());
    let good = _mm256_and_si256(good_four(&fours[0], a, b, limit), good_four(&fours[1], c, d, limit));
    !asked && _mm256_movemask_pd(_mm256_castsi256_pd(good)) == 0xf
}

/// Lanes that are negative where a frame is good, if nothing else is in the words.
#[inline]
#[target_feature(enable = "avx2")]
fn good_four(offsets: &[u32; 4], first: __m256i, second: __m256i, limit: __m256i) -> __m256i {
    let words = _mm256_unpackhi_epi64(first, second);
    let lens = _mm256_srli_epi64::<{ Meta::LEN_SHIFT as i32 }>(words);
    // Each of these is negative where something is wrong.
    let short = _mm256_sub_epi64(lens, _mm256_set1_epi64x(MIN_FRAME.into()));
    let long = _mm256_sub_epi64(_mm256_set1_epi64x(MAX_FRAME.into()), lens);
    let behind = _mm256_sub_epi64(_mm256_sub_epi64(limit, as_words(offsets)), lens);
    let wrong = _mm256_or_si256(_mm256_or_si256(short, long), behind);
    _mm256_andnot_si256(wrong, _mm256_slli_epi64::<62>(words))
}

/// Four offsets in lanes of 64 bits, in the order of [`Words`].
#[inline]
#[target_feature(enable = "avx2")]
fn as_words(offsets: &[u32; 4]) -> __m256i {
    let odd_ones_in_upper_half = _mm256_set_epi64x(32, 32, 0, 0);
    let lower = _mm256_set1_epi64x(u32::MAX.into());
    _mm256_and_si256(_mm256_srlv_epi64(avx2::load_twice(offsets), odd_ones_in_upper_half), lower)
}

#[inline]
#[target_feature(enable = "avx2")]
fn write(block: &DescBlock<'_, 2, GROUP>, base: u64, offsets: &[u32; GROUP], [front, back]: Words) {
    let (fours, _) = offsets.as_chunks::<4>();
    let base = _mm256_set1_epi64x(base.cast_signed());
    let command = _mm256_set1_epi64x((tx::ICRC | tx::EOP).cast_signed());
    macro_rules! write_four {
        ($at:literal, $words:ident) => {
            let address = _mm256_add_epi64(as_words(&fours[$at / 4]), base);
            let word = _mm256_or_si256(_mm256_srli_epi64::<{ SIZE_RIGHT as i32 }>($words), command);
            avx2::store_heads::<$at, 2, GROUP>(block, _mm256_unpacklo_epi64(address, word));
            avx2::store_heads::<{ $at + 2 }, 2, GROUP>(block, _mm256_unpackhi_epi64(address, word));
        };
    }
    write_four!(0, front);
    write_four!(4, back);
}
