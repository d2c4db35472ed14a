//! SSSE3 and SSE4.1: four headers in a group.

use core::arch::x86_64::*;

use hal::DmaMemory;
use hal::simd::headers::Starts;
use hal::simd::{Headers, Ssse3, sse};

use super::{by_groups, change_four, scalar};
use crate::burst::Burst;
use crate::forward::Route;

/// `macswap`.
#[target_feature(enable = "ssse3,sse4.1")]
pub fn macswap(_: Ssse3, headers: Headers<'_>, memory: &DmaMemory, burst: &Burst) {
    let group = |offsets: &[u32; 4]| headers.four(offsets).is_some_and(|starts| exchange_four(&starts));
    by_groups!(burst, 4, group, |offsets, metas, first| scalar::macswap_part(memory, offsets, metas, first));
}

/// Exchanges the addresses of eight frames; does nothing, and says so, if one of them is not in the memory.
#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
pub fn exchange(headers: Headers<'_>, offsets: &[u32; 8]) -> bool {
    let (fours, _) = offsets.as_chunks();
    let (Some(front), Some(back)) = (headers.four(&fours[0]), headers.four(&fours[1])) else { return false };
    exchange_four(&front) && exchange_four(&back)
}

#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
fn exchange_four(starts: &Starts<'_, 4>) -> bool {
    let exchange = _mm_setr_epi8(6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5, 12, 13, 14, 15);
    change_four!(starts, |header| _mm_shuffle_epi8(header, exchange), 0 1 2 3);
    true
}

/// `mac`.
#[target_feature(enable = "ssse3,sse4.1")]
pub fn mac(
    _: Ssse3,
    headers: Headers<'_>,
    (memory, route, addresses): (&DmaMemory, &Route, &[u8; 16]),
    burst: &Burst,
) {
    let group =
        |offsets: &[u32; 4]| headers.four(offsets).is_some_and(|starts| overwrite_four(&starts, addresses));
    by_groups!(burst, 4, group, |offsets, metas, first| scalar::mac_part(
        memory, route, offsets, metas, first
    ));
}

/// Writes the first twelve bytes of `addresses` over those of eight frames; does nothing, and says so, if one of them is
/// not in the memory.
#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
pub fn overwrite(headers: Headers<'_>, offsets: &[u32; 8], addresses: &[u8; 16]) -> bool {
    let (fours, _) = offsets.as_chunks();
    let (Some(front), Some(back)) = (headers.four(&fours[0]), headers.four(&fours[1])) else { return false };
    overwrite_four(&front, addresses) && overwrite_four(&back, addresses)
}

#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
fn overwrite_four(starts: &Starts<'_, 4>, addresses: &[u8; 16]) -> bool {
    const LAST_TWO_WORDS: i32 = 0b1100_0000;
    let addresses = sse::load(addresses);
    change_four!(starts, |header| _mm_blend_epi16::<LAST_TWO_WORDS>(addresses, header), 0 1 2 3);
    true
}
