//! SSSE3 and SSE4.1: one frame in a register, or two words.

use core::arch::x86_64::*;

use hal::Bar;
use hal::ring::{DescBlock, acquire};
use hal::simd::{Headers, Ssse3, sse};
use kernel::forward::vector::sse::{exchange, overwrite};
use kernel::port::{Recycle, Relayed, Touch};
use kernel::{BLOCK, Buffers, Burst, Meta, Pool};

use super::asked::write_asked;
use super::loops::{GROUP, LENGTH, Range, SIZE_RIGHT, WORD, vector_loops};
use crate::i40e::desc::{rx, tx};
use crate::i40e::rx_ring::{Ring, Taken};
use crate::i40e::tx::Tx;
use crate::i40e::{MAX_FRAME, MIN_FRAME};

vector_loops!("ssse3,sse4.1", Ssse3);

#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
fn quads(lo: u64, hi: u64) -> __m128i {
    _mm_set_epi64x(hi.cast_signed(), lo.cast_signed())
}

/// Two sums of words.
type Sum = __m128i;

#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
fn nothing() -> Sum {
    _mm_setzero_si128()
}

#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
fn add(sum: Sum, [a, b, c, d]: Words) -> Sum {
    _mm_add_epi64(_mm_add_epi64(sum, _mm_add_epi64(a, b)), _mm_add_epi64(c, d))
}

#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
fn bytes(sum: Sum) -> u64 {
    (_mm_cvtsi128_si64(sum).cast_unsigned() + _mm_extract_epi64::<1>(sum).cast_unsigned()) >> Meta::LEN_SHIFT
}

/// Two offsets as quadwords.
#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
fn as_words(offsets: &[u32; 4]) -> [__m128i; 2] {
    let four = sse::load(offsets);
    [_mm_cvtepu32_epi64(four), _mm_unpackhi_epi32(four, _mm_setzero_si128())]
}

#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
fn arm<const WORDS: usize>(descriptors: &DescBlock<'_, WORDS, BLOCK>, base: u64, block: &[u32; BLOCK]) {
    let (base, zero) = (quads(base, base), _mm_setzero_si128());
    let (fours, _) = block.as_chunks::<4>();
    macro_rules! arm_four {
        ($($four:literal)*) => {$(
            let [front, back] = as_words(&fours[$four]).map(|offsets| _mm_add_epi64(offsets, base));
            sse::store_head::<{ 4 * $four }, WORDS, BLOCK>(descriptors, _mm_unpacklo_epi64(front, zero));
            sse::store_head::<{ 4 * $four + 1 }, WORDS, BLOCK>(descriptors, _mm_unpackhi_epi64(front, zero));
            sse::store_head::<{ 4 * $four + 2 }, WORDS, BLOCK>(descriptors, _mm_unpacklo_epi64(back, zero));
            sse::store_head::<{ 4 * $four + 3 }, WORDS, BLOCK>(descriptors, _mm_unpackhi_epi64(back, zero));
        )*};
    }
    arm_four!(0 1 2 3 4 5 6 7);
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
    let used = quads(rx::META_LO, !rx::HEADER);
    for (meta, head) in metas.as_chunks_mut::<1>().0.iter_mut().zip(heads) {
        sse::store(meta, _mm_and_si128(head, used));
    }
}

/// Marks and lengths of two frames each.
type Words = [__m128i; 4];

#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
fn words([a, b, c, d, e, f, g, h]: Heads, used: u64) -> Words {
    let used = quads(used, used);
    [(a, b), (c, d), (e, f), (g, h)]
        .map(|(first, second)| _mm_and_si128(_mm_unpackhi_epi64(first, second), used))
}

#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
fn all_plain(words: Words, range: Range) -> bool {
    let shortest = quads(range.shortest, range.shortest);
    let longer = quads(range.longer, range.longer);
    // 0 but for the bytes above the shortest length; with another mark, or with fewer bytes, some other bit is set.
    let words @ [a, b, c, d] = words.map(|words| _mm_sub_epi64(words, shortest));
    let [e, f, g, h] = words.map(|words| _mm_sub_epi64(longer, words));
    let over = _mm_or_si128(_mm_or_si128(e, f), _mm_or_si128(g, h));
    let any = _mm_or_si128(_mm_or_si128(a, b), _mm_or_si128(c, d));
    let wrong = _mm_or_si128(any, _mm_srli_epi64::<63>(over));
    _mm_testz_si128(wrong, quads(!LENGTH, !LENGTH)) != 0
}

/// Words in the order of the frames.
#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
fn in_order(words: Words) -> [u64; GROUP] {
    let mut out = [0; GROUP];
    for (pair, words) in out.as_chunks_mut::<2>().0.iter_mut().zip(words) {
        sse::store(pair, words);
    }
    out
}

#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
fn may_be_sent(offsets: &[u32; GROUP], heads: Heads, limit: u64) -> bool {
    let any = heads.into_iter().fold(_mm_setzero_si128(), |any, head| _mm_or_si128(any, head));
    let asked = _mm_testz_si128(any, quads(Meta::REQUEST, u64::MAX << Meta::START_SHIFT)) == 0;
    let (fours, _) = offsets.as_chunks::<4>();
    let ([a, b], [c, d]) = (as_words(&fours[0]), as_words(&fours[1]));
    let [e, f, g, h, i, j, k, l] = heads;
    let limit = quads(limit, limit);
    let front = _mm_and_si128(good_two(a, e, f, limit), good_two(b, g, h, limit));
    let back = _mm_and_si128(good_two(c, i, j, limit), good_two(d, k, l, limit));
    !asked && _mm_movemask_pd(_mm_castsi128_pd(_mm_and_si128(front, back))) == 0b11
}

/// Lanes that are negative where a frame is good, if nothing else is in the words.
#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
fn good_two(offsets: __m128i, first: __m128i, second: __m128i, limit: __m128i) -> __m128i {
    let words = _mm_unpackhi_epi64(first, second);
    let lens = _mm_srli_epi64::<{ Meta::LEN_SHIFT as i32 }>(words);
    // Each of these is negative where something is wrong.
    let short = _mm_sub_epi64(lens, _mm_set1_epi64x(MIN_FRAME.into()));
    let long = _mm_sub_epi64(_mm_set1_epi64x(MAX_FRAME.into()), lens);
    let behind = _mm_sub_epi64(_mm_sub_epi64(limit, offsets), lens);
    let wrong = _mm_or_si128(_mm_or_si128(short, long), behind);
    _mm_andnot_si128(wrong, _mm_slli_epi64::<62>(words))
}

#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
fn write(block: &DescBlock<'_, 2, GROUP>, base: u64, offsets: &[u32; GROUP], words: Words) {
    let (fours, _) = offsets.as_chunks::<4>();
    let ([a, b], [c, d]) = (as_words(&fours[0]), as_words(&fours[1]));
    let (base, command) = (quads(base, base), quads(tx::ICRC | tx::EOP, tx::ICRC | tx::EOP));
    macro_rules! write_two {
        ($at:literal, $offsets:ident) => {
            let address = _mm_add_epi64($offsets, base);
            let word = _mm_or_si128(_mm_srli_epi64::<{ SIZE_RIGHT as i32 }>(words[$at / 2]), command);
            sse::store_head::<$at, 2, GROUP>(block, _mm_unpacklo_epi64(address, word));
            sse::store_head::<{ $at + 1 }, 2, GROUP>(block, _mm_unpackhi_epi64(address, word));
        };
    }
    write_two!(0, a);
    write_two!(2, b);
    write_two!(4, c);
    write_two!(6, d);
}
