//! SSSE3 and SSE4.1: four headers in a group.

use core::arch::x86_64::*;

use hal::DmaMemory;
use hal::simd::{Headers, Ssse3, sse};

use super::{by_groups, scalar};
use crate::burst::Burst;
use crate::forward::Route;

/// `macswap`.
#[target_feature(enable = "ssse3,sse4.1")]
pub fn macswap(_: Ssse3, headers: Headers<'_>, memory: &DmaMemory, burst: &Burst) {
    let exchange = _mm_setr_epi8(6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5, 12, 13, 14, 15);
    let group = |offsets: &[u32; 4]| {
        let Some(starts) = headers.four(offsets) else { return false };
        macro_rules! exchange_four {
            ($($at:literal)*) => {
                let frames = [$(starts.load::<$at>()),*];
                let [a, b, c, d] = frames.map(|frame| _mm_shuffle_epi8(frame, exchange));
                exchange_four!(@store [a b c d] [$($at)*]);
            };
            (@store [$($frame:ident)*] [$($at:literal)*]) => {
                $(starts.store::<$at>($frame);)*
            };
        }
        exchange_four!(0 1 2 3);
        true
    };
    by_groups!(burst, 4, group, |offsets, metas, first| scalar::macswap_part(memory, offsets, metas, first));
}

/// `mac`.
#[target_feature(enable = "ssse3,sse4.1")]
pub fn mac(
    _: Ssse3,
    headers: Headers<'_>,
    (memory, route, addresses): (&DmaMemory, &Route, &[u8; 16]),
    burst: &Burst,
) {
    const LAST_TWO_WORDS: i32 = 0b1100_0000;
    let addresses = sse::load(addresses);
    let group = |offsets: &[u32; 4]| {
        let Some(starts) = headers.four(offsets) else { return false };
        macro_rules! write_four {
            ($($at:literal)*) => {
                let frames = [$(starts.load::<$at>()),*];
                let [a, b, c, d] = frames.map(|frame| _mm_blend_epi16::<LAST_TWO_WORDS>(addresses, frame));
                write_four!(@store [a b c d] [$($at)*]);
            };
            (@store [$($frame:ident)*] [$($at:literal)*]) => {
                $(starts.store::<$at>($frame);)*
            };
        }
        write_four!(0 1 2 3);
        true
    };
    by_groups!(burst, 4, group, |offsets, metas, first| scalar::mac_part(
        memory, route, offsets, metas, first
    ));
}
