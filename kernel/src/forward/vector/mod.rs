//! The modes that touch headers, several headers at a time: to the byte what `scalar` does.
//!
//! Loads, shuffles and stores of four headers are interleaved, so that the stores of one don't wait for the loads of the
//! next. Wider registers do no better: a header is 16 bytes, and putting two of them into one register costs what it
//! saves. What AVX2 brings is the check of eight offsets at once and three operands.
//!
//! A burst that is plain ([`Burst::plain`]) is not looked at frame by frame. In another one each group is, and one with a
//! frame in several buffers, or shorter than its addresses, goes to the scalar code.

// The functions are safe; what they need of the CPU is in their attributes.
#![allow(clippy::missing_safety_doc)]

use hal::DmaMemory;
use hal::simd::{Headers, Isa};

use super::{Route, scalar};
use crate::burst::Burst;
use crate::packet::Meta;

pub mod avx2;
pub mod sse;

/// `macswap`: exchanges destination and source.
#[inline]
#[allow(unsafe_code)]
pub fn macswap(isa: Isa, memory: &DmaMemory, burst: &Burst) {
    let Some(headers) = Headers::new(memory) else { return };
    match isa {
        Isa::Scalar => scalar::macswap(memory, burst),
        // SAFETY: the token proves that the CPU has the instructions of the loop.
        Isa::Ssse3(token) => unsafe { sse::macswap(token, headers, memory, burst) },
        // SAFETY: as above.
        Isa::Avx2(token) => unsafe { avx2::macswap(token, headers, memory, burst) },
        // SAFETY: as above.
        Isa::Avx512(token) => unsafe { avx2::macswap(token.into(), headers, memory, burst) },
    }
}

/// `mac`: destination becomes the peer of the sending port, source its own address.
#[inline]
#[allow(unsafe_code)]
pub fn mac(isa: Isa, memory: &DmaMemory, route: &Route, burst: &Burst) {
    let Some(headers) = Headers::new(memory) else { return };
    let addresses = route.addresses();
    match isa {
        Isa::Scalar => scalar::mac(memory, route, burst),
        // SAFETY: the token proves that the CPU has the instructions of the loop.
        Isa::Ssse3(token) => unsafe { sse::mac(token, headers, (memory, route, &addresses), burst) },
        // SAFETY: as above.
        Isa::Avx2(token) => unsafe { avx2::mac(token, headers, (memory, route, &addresses), burst) },
        // SAFETY: as above.
        Isa::Avx512(token) => unsafe { avx2::mac(token.into(), headers, (memory, route, &addresses), burst) },
    }
}

/// Each of these is a frame of its own at the start of its buffer, and holds both addresses.
fn are_simple(metas: &[Meta]) -> bool {
    const PLACE: u64 = Meta::EOP | (Meta::START_MAX as u64) << Meta::START_SHIFT;
    metas.iter().all(|meta| meta.hi & PLACE == Meta::EOP && meta.len() as usize >= scalar::ADDRESSES)
}

/// Does to `len` entries from `from` on what `part` does to entries; `first` and the answer as for
/// [`scalar::frame_starts`].
#[inline(never)]
fn apart(
    burst: &Burst,
    from: usize,
    len: usize,
    first: bool,
    part: impl Fn(&[u32], &[Meta], bool) -> bool,
) -> bool {
    let range = from..from + len;
    let (offsets, metas) = (burst.buffers().get(range.clone()), burst.metas().get(range));
    part(offsets.unwrap_or_default(), metas.unwrap_or_default(), first)
}

/// Does to the groups of `N` frames of a burst what `group` does, where it can, and what `part` does to the others and to
/// the rest; `group` says whether it could.
macro_rules! by_groups {
    ($burst:ident, $n:literal, $group:expr, $part:expr) => {{
        let (groups, rest) = $burst.buffers().as_chunks::<$n>();
        if $burst.plain().is_some() {
            for (index, offsets) in groups.iter().enumerate() {
                if !$group(offsets) {
                    $crate::forward::vector::apart($burst, index * $n, $n, true, $part);
                }
            }
            if !rest.is_empty() {
                $crate::forward::vector::apart($burst, groups.len() * $n, rest.len(), true, $part);
            }
        } else {
            let mut first = true;
            for (index, offsets) in groups.iter().enumerate() {
                let metas = $burst.metas().get(index * $n..(index + 1) * $n).unwrap_or_default();
                if !(first && $crate::forward::vector::are_simple(metas) && $group(offsets)) {
                    first = $crate::forward::vector::apart($burst, index * $n, $n, first, $part);
                }
            }
            $crate::forward::vector::apart($burst, groups.len() * $n, rest.len(), first, $part);
        }
    }};
}
use by_groups;

/// Changes four headers: all loads first, then all changes, then all stores.
macro_rules! change_four {
    ($starts:expr, $change:expr, $a:literal $b:literal $c:literal $d:literal) => {{
        let headers =
            [$starts.load::<$a>(), $starts.load::<$b>(), $starts.load::<$c>(), $starts.load::<$d>()];
        let [a, b, c, d] = headers.map($change);
        $starts.store::<$a>(a);
        $starts.store::<$b>(b);
        $starts.store::<$c>(c);
        $starts.store::<$d>(d);
    }};
}
use change_four;

#[cfg(test)]
mod tests;
