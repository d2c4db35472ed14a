//! SSSE3 and SSE4.1: one frame in a register.

use core::arch::x86_64::*;

use hal::Bar;
use hal::ring::{DescBlock, acquire};
use hal::simd::{Headers, Ssse3, sse};
use kernel::forward::vector::sse::exchange;
use kernel::port::{Recycle, Relayed, Touch};
use kernel::{BLOCK, Buffers, Burst, Meta, Pool};

use super::loops::{GROUP, vector_loops};
use crate::i40e::desc::{rx, tx};
use crate::i40e::rx_ring::{Ring, Taken};
use crate::i40e::tx::Tx;
use crate::i40e::{MAX_FRAME, MIN_FRAME};

vector_loops!("ssse3,sse4.1", Ssse3);

#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
fn words(lo: u64, hi: u64) -> __m128i {
    _mm_set_epi64x(hi.cast_signed(), lo.cast_signed())
}

/// Each of four offsets in a first quadword.
#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
fn spread(offsets: &[u32; 4]) -> [__m128i; 4] {
    let four = sse::load(offsets);
    let low = _mm_set_epi32(0, 0, 0, -1);
    [
        _mm_and_si128(four, low),
        _mm_and_si128(_mm_srli_si128::<4>(four), low),
        _mm_and_si128(_mm_srli_si128::<8>(four), low),
        _mm_srli_si128::<12>(four),
    ]
}

/// Four lanes of 32 bits.
type Lens = __m128i;

#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
fn no_lens() -> Lens {
    _mm_setzero_si128()
}

#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
fn add(some: Lens, more: Lens) -> Lens {
    _mm_add_epi32(some, more)
}

/// The sum of all lanes, which fits into 32 bits.
#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
fn total(lens: Lens) -> u64 {
    let two = _mm_add_epi32(lens, _mm_shuffle_epi32::<0b11_10>(lens));
    let one = _mm_add_epi32(two, _mm_shuffle_epi32::<0b01>(two));
    u64::from(_mm_cvtsi128_si32(one).cast_unsigned())
}

#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
fn arm<const WORDS: usize>(descriptors: &DescBlock<'_, WORDS, BLOCK>, base: u64, block: &[u32; BLOCK]) {
    let base = words(base, 0);
    let (fours, _) = block.as_chunks::<4>();
    macro_rules! arm_four {
        ($($four:literal)*) => {$(
            let [a, b, c, d] = spread(&fours[$four]);
            sse::store_head::<{ 4 * $four }, WORDS, BLOCK>(descriptors, _mm_add_epi64(base, a));
            sse::store_head::<{ 4 * $four + 1 }, WORDS, BLOCK>(descriptors, _mm_add_epi64(base, b));
            sse::store_head::<{ 4 * $four + 2 }, WORDS, BLOCK>(descriptors, _mm_add_epi64(base, c));
            sse::store_head::<{ 4 * $four + 3 }, WORDS, BLOCK>(descriptors, _mm_add_epi64(base, d));
        )*};
    }
    arm_four!(0 1 2 3 4 5 6 7);
}

/// What is just too short, and the longest.
#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
fn range(first: u32, last: u32) -> [__m128i; 2] {
    [_mm_set1_epi32(first.cast_signed() - 1), _mm_set1_epi32(last.cast_signed())]
}

/// First and second quadwords of eight frames.
type Heads = [__m128i; 8];

#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
fn heads<const WORDS: usize>(block: &DescBlock<'_, WORDS, GROUP>) -> Heads {
    [
        sse::load_head::<0, WORDS, GROUP>(block),
        sse::load_head::<1, WORDS, GROUP>(block),
        sse::load_head::<2, WORDS, GROUP>(block),
        sse::load_head::<3, WORDS, GROUP>(block),
        sse::load_head::<4, WORDS, GROUP>(block),
        sse::load_head::<5, WORDS, GROUP>(block),
        sse::load_head::<6, WORDS, GROUP>(block),
        sse::load_head::<7, WORDS, GROUP>(block),
    ]
}

#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
fn heads_of(metas: &[Meta; GROUP]) -> Heads {
    let (single, _) = metas.as_chunks::<1>();
    core::array::from_fn(|i| sse::load(&single[i]))
}

#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
fn put(metas: &mut [Meta; GROUP], heads: Heads) {
    let used = words(rx::META_LO, !rx::HEADER);
    for (meta, head) in metas.as_chunks_mut::<1>().0.iter_mut().zip(heads) {
        sse::store(meta, _mm_and_si128(head, used));
    }
}

/// Which of four frames are good, all ones in their lanes, and their lengths.
#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
fn judge_four([a, b, c, d]: [__m128i; 4], [below, last]: [__m128i; 2]) -> (__m128i, Lens) {
    const LOOKED_AT: u64 = rx::DD | Meta::EOP | rx::RXE | rx::OVERSIZE;
    // Unpacked twice, so that the frames are in order: 0, 2 and 1, 3 first.
    let (ac, bd) = (_mm_unpackhi_epi32(a, c), _mm_unpackhi_epi32(b, d));
    let (marks, upper) = (_mm_unpacklo_epi32(ac, bd), _mm_unpackhi_epi32(ac, bd));
    let lens = _mm_srli_epi32::<{ Meta::LEN_SHIFT as i32 - 32 }>(upper);
    let lens = _mm_and_si128(lens, _mm_set1_epi32(Meta::LEN_MAX.cast_signed()));
    let marks = _mm_and_si128(marks, _mm_set1_epi32(LOOKED_AT as i32));
    let whole = _mm_cmpeq_epi32(marks, _mm_set1_epi32((rx::DD | Meta::EOP) as i32));
    let (long, enough) = (_mm_cmpgt_epi32(lens, last), _mm_cmpgt_epi32(lens, below));
    (_mm_and_si128(whole, _mm_andnot_si128(long, enough)), lens)
}

/// As 16-bit lanes: which of eight frames are good, and the lengths of four and four.
type Good = (__m128i, [Lens; 2]);

#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
fn judge([a, b, c, d, e, f, g, h]: Heads, range: [__m128i; 2]) -> (Good, Lens) {
    let (front, lens) = judge_four([a, b, c, d], range);
    let (back, lens_back) = judge_four([e, f, g, h], range);
    ((_mm_packs_epi32(front, back), [lens, lens_back]), _mm_add_epi32(lens, lens_back))
}

#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
fn all((good, _): Good) -> bool {
    _mm_movemask_epi8(good) == 0xffff
}

#[cold]
#[inline(never)]
#[target_feature(enable = "ssse3,sse4.1")]
fn leading((good, [front, back]): Good, _: Lens) -> (usize, Lens) {
    let count = (_mm_movemask_epi8(good) as u32).trailing_ones() / 2;
    let count = count.cast_signed();
    let in_front = _mm_cmpgt_epi32(_mm_set1_epi32(count), _mm_setr_epi32(0, 1, 2, 3));
    let in_back = _mm_cmpgt_epi32(_mm_set1_epi32(count), _mm_setr_epi32(4, 5, 6, 7));
    (count as usize, _mm_add_epi32(_mm_and_si128(front, in_front), _mm_and_si128(back, in_back)))
}

#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
fn good(offsets: &[u32; GROUP], metas: &[Meta; GROUP], limit: u64) -> Option<Lens> {
    let (fours, _) = offsets.as_chunks::<4>();
    let (four_metas, _) = metas.as_chunks::<4>();
    let (front, front_lens) = good_four(&fours[0], &four_metas[0], limit);
    let (back, back_lens) = good_four(&fours[1], &four_metas[1], limit);
    let good = _mm_castsi128_ps(_mm_and_si128(front, back));
    (_mm_movemask_ps(good) == 0xf).then_some(_mm_add_epi32(front_lens, back_lens))
}

/// Lanes that are negative where a frame is good, and lengths.
#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
fn good_four(offsets: &[u32; 4], metas: &[Meta; 4], limit: u64) -> (__m128i, Lens) {
    let (single, _) = metas.as_chunks::<1>();
    let [a, b, c, d] =
        [sse::load(&single[0]), sse::load(&single[1]), sse::load(&single[2]), sse::load(&single[3])];
    let (ac, bd) = (_mm_unpackhi_epi32(a, c), _mm_unpackhi_epi32(b, d));
    let (marks, upper) = (_mm_unpacklo_epi32(ac, bd), _mm_unpackhi_epi32(ac, bd));
    let any = _mm_or_si128(_mm_or_si128(a, b), _mm_or_si128(c, d));
    let asked = words(Meta::REQUEST, u64::MAX << Meta::START_SHIFT);
    let asked = if _mm_testz_si128(any, asked) == 0 { _mm_set1_epi32(-1) } else { _mm_setzero_si128() };
    let lens = _mm_srli_epi32::<{ Meta::LEN_SHIFT as i32 - 32 }>(upper);
    let offsets = sse::load(offsets);
    // The last place at which the longest frame may start: an offset is compared as an unsigned number.
    let last = limit.saturating_sub(MAX_FRAME.into()).min(u32::MAX.into()) as u32;
    let last = _mm_set1_epi32(last.cast_signed());
    let inside = _mm_cmpeq_epi32(_mm_max_epu32(offsets, last), last);
    let short = _mm_sub_epi32(lens, _mm_set1_epi32(MIN_FRAME.cast_signed()));
    let long = _mm_sub_epi32(_mm_set1_epi32(MAX_FRAME.cast_signed()), lens);
    let wrong = _mm_or_si128(_mm_or_si128(short, long), asked);
    (_mm_andnot_si128(wrong, _mm_and_si128(inside, _mm_slli_epi32::<30>(marks))), lens)
}

#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
fn fixed(base: u64) -> __m128i {
    words(base, tx::ICRC | tx::EOP)
}

#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
fn write(block: &DescBlock<'_, 2, GROUP>, fixed: __m128i, offsets: &[u32; GROUP], heads: Heads) {
    let (fours, _) = offsets.as_chunks::<4>();
    let size = words(0, u64::from(tx::SIZE_MAX) << tx::SIZE_SHIFT);
    macro_rules! write_four {
        ($four:literal) => {
            let addresses = spread(&fours[$four]);
            write_four!($four, addresses, 0 1 2 3);
        };
        ($four:literal, $addresses:ident, $($i:literal)*) => {$(
            let len = _mm_srli_epi64::<{ (Meta::LEN_SHIFT - tx::SIZE_SHIFT) as i32 }>(heads[4 * $four + $i]);
            let word = _mm_add_epi64(_mm_add_epi64($addresses[$i], fixed), _mm_and_si128(len, size));
            sse::store_head::<{ 4 * $four + $i }, 2, GROUP>(block, word);
        )*};
    }
    write_four!(0);
    write_four!(1);
}
