//! AVX2: eight headers in a group, in two rounds of four.

use core::arch::x86_64::*;

use hal::DmaMemory;
use hal::simd::{Avx2, Headers, sse};

use super::{by_groups, change_four, scalar};
use crate::burst::Burst;
use crate::forward::Route;

/// `macswap`.
#[target_feature(enable = "avx2")]
pub fn macswap(_: Avx2, headers: Headers<'_>, memory: &DmaMemory, burst: &Burst) {
    let group = |offsets: &[u32; 8]| exchange(headers, offsets);
    by_groups!(burst, 8, group, |offsets, metas, first| scalar::macswap_part(memory, offsets, metas, first));
}

/// Exchanges the addresses of eight frames; does nothing, and says so, if one of them is not in the memory.
#[inline]
#[target_feature(enable = "avx2")]
pub fn exchange(headers: Headers<'_>, offsets: &[u32; 8]) -> bool {
    let Some(starts) = headers.eight(offsets) else { return false };
    let exchange = _mm_setr_epi8(6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5, 12, 13, 14, 15);
    change_four!(starts, |header| _mm_shuffle_epi8(header, exchange), 0 1 2 3);
    change_four!(starts, |header| _mm_shuffle_epi8(header, exchange), 4 5 6 7);
    true
}

/// `mac`.
#[target_feature(enable = "avx2")]
pub fn mac(
    _: Avx2,
    headers: Headers<'_>,
    (memory, route, addresses): (&DmaMemory, &Route, &[u8; 16]),
    burst: &Burst,
) {
    let group = |offsets: &[u32; 8]| overwrite(headers, offsets, addresses);
    by_groups!(burst, 8, group, |offsets, metas, first| scalar::mac_part(
        memory, route, offsets, metas, first
    ));
}

/// Writes the first twelve bytes of `addresses` over those of eight frames; does nothing, and says so, if one of them is
/// not in the memory.
#[inline]
#[target_feature(enable = "avx2")]
pub fn overwrite(headers: Headers<'_>, offsets: &[u32; 8], addresses: &[u8; 16]) -> bool {
    const LAST_TWO_WORDS: i32 = 0b1100_0000;
    let addresses = sse::load(addresses);
    let Some(starts) = headers.eight(offsets) else { return false };
    change_four!(starts, |header| _mm_blend_epi16::<LAST_TWO_WORDS>(addresses, header), 0 1 2 3);
    change_four!(starts, |header| _mm_blend_epi16::<LAST_TWO_WORDS>(addresses, header), 4 5 6 7);
    true
}
