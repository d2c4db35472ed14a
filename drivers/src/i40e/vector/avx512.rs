//! AVX-512: four frames in a register, or eight words.

use core::arch::x86_64::*;

use hal::Bar;
use hal::ring::{DescBlock, acquire};
use hal::simd::{Avx512, Headers, avx2, avx512};
use kernel::forward::vector::avx2::{exchange, overwrite};
use kernel::port::{Recycle, Relayed, Touch};
use kernel::{BLOCK, Buffers, Burst, Meta, Pool};

use super::asked::write_asked;
use super::loops::{GROUP, LENGTH, Range, SIZE_RIGHT, WORD, vector_loops};
use crate::i40e::desc::{rx, tx};
use crate::i40e::rx_ring::{Ring, Taken};
use crate::i40e::tx::Tx;
use crate::i40e::{MAX_FRAME, MIN_FRAME};

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

/// Eight sums of words.
type Sum = __m512i;

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn nothing() -> Sum {
    _mm512_setzero_si512()
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn add(sum: Sum, words: Words) -> Sum {
    _mm512_add_epi64(sum, words)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn bytes(sum: Sum) -> u64 {
    _mm512_reduce_add_epi64(sum).cast_unsigned() >> Meta::LEN_SHIFT
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

/// Marks and lengths, in the order in which unpacking leaves the frames: 0, 4, 1, 5, 2, 6, 3, 7.
type Words = __m512i;

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn words([front, back]: Heads, used: u64) -> Words {
    _mm512_and_si512(_mm512_unpackhi_epi64(front, back), _mm512_set1_epi64(used.cast_signed()))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn all_plain(words: Words, range: Range) -> bool {
    // 0 but for the bytes above the shortest length; with another mark, or with fewer bytes, some other bit is set.
    let words = _mm512_sub_epi64(words, _mm512_set1_epi64(range.shortest.cast_signed()));
    let other = _mm512_test_epi64_mask(words, _mm512_set1_epi64(!LENGTH.cast_signed()));
    let long = _mm512_cmpgt_epi64_mask(words, _mm512_set1_epi64(range.longer.cast_signed()));
    other | long == 0
}

/// Words in the order of the frames.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn in_order(words: Words) -> [u64; GROUP] {
    let mut out = [0; GROUP];
    avx512::store(&mut out, _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), words));
    out
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn may_be_sent(offsets: &[u32; GROUP], heads: Heads, limit: u64) -> bool {
    let [front, back] = heads;
    let asked = each(Meta::REQUEST, u64::MAX << Meta::START_SHIFT);
    let asked = _mm512_test_epi64_mask(_mm512_or_si512(front, back), asked);
    let words = _mm512_unpackhi_epi64(front, back);
    let lens = _mm512_srli_epi64::<{ Meta::LEN_SHIFT }>(words);
    let whole = _mm512_test_epi64_mask(words, _mm512_set1_epi64(Meta::EOP.cast_signed()));
    let beyond = _mm512_sub_epi64(lens, _mm512_set1_epi64(MIN_FRAME.into()));
    let most = _mm512_set1_epi64((MAX_FRAME - MIN_FRAME).into());
    let right = _mm512_mask_cmple_epu64_mask(whole, beyond, most);
    let ends = _mm512_add_epi64(as_words(offsets), lens);
    let inside = _mm512_mask_cmple_epu64_mask(right, ends, _mm512_set1_epi64(limit.cast_signed()));
    asked == 0 && inside == 0xff
}

/// Offsets in lanes of 64 bits, in the order of [`Words`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn as_words(offsets: &[u32; GROUP]) -> __m512i {
    let order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
    _mm512_permutexvar_epi64(order, _mm512_cvtepu32_epi64(avx2::load(offsets)))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn write(block: &DescBlock<'_, 2, GROUP>, base: u64, offsets: &[u32; GROUP], words: Words) {
    let address = _mm512_add_epi64(as_words(offsets), _mm512_set1_epi64(base.cast_signed()));
    let command = _mm512_set1_epi64((tx::ICRC | tx::EOP).cast_signed());
    let word = _mm512_or_si512(_mm512_srli_epi64::<SIZE_RIGHT>(words), command);
    avx512::store_heads::<0, 2, GROUP>(block, _mm512_unpacklo_epi64(address, word));
    avx512::store_heads::<4, 2, GROUP>(block, _mm512_unpackhi_epi64(address, word));
}
