//! The fast path: frames in one descriptor and one buffer each, copied in whole lines, one after the other, in one loop for
//! each instruction set.
//!
//! What a peer wrote is bounded by one comparison of its length and one of its place. A frame for which that is not enough
//! ends the loop, and goes the general way.

// The functions are safe; what they need of the CPU is in their attributes.
#![allow(clippy::missing_safety_doc)]

use hal::DmaMemory;
use hal::simd::lines::{copy_avx2, copy_avx512, copy_exact, copy_sse, whole_lines};
use hal::simd::{Avx2, Avx512, Isa, Ssse3};
use kernel::Meta;
use kernel::burst::PLAIN;

use super::ring::Ring;

/// Descriptors that lie one behind the other.
pub struct Run<'a> {
    /// In this ring.
    pub(super) ring: &'a Ring,
    /// The first one's place.
    pub(super) from: usize,
    /// How many.
    pub(super) count: usize,
    /// The core's packet memory.
    pub(super) packets: &'a DmaMemory,
}

/// A client's own buffers.
pub struct Own<'a> {
    pub(super) region: &'a DmaMemory,
    pub(super) first: u32,
    pub(super) stride: u32,
    pub(super) len: u32,
}

impl Own<'_> {
    #[inline(always)]
    fn place(&self, slot: usize) -> usize {
        self.first as usize + slot * self.stride as usize
    }
}

/// What a loop has done.
#[derive(Default)]
pub struct Done {
    pub(super) frames: usize,
    pub(super) bytes: u64,
    /// A frame is shorter than what a burst calls plain.
    short: bool,
}

impl Done {
    pub(super) fn add(&mut self, more: &Self) {
        self.frames += more.frames;
        self.bytes += more.bytes;
        self.short |= more.short;
    }

    /// The bytes, if all frames are plain.
    pub(super) fn plain_bytes(&self) -> Option<u64> {
        (!self.short).then_some(self.bytes)
    }

    #[inline(always)]
    fn count(&mut self, len: u32) {
        self.frames += 1;
        self.bytes += u64::from(len);
        self.short |= len < *PLAIN.start();
    }
}

/// The longest frame of the fast path, whatever fits: beyond it none is plain.
const LONGEST: u32 = *PLAIN.end();

macro_rules! loops {
    ($name:ident, $token:ty, $copy:ident $(, $features:literal)?) => {
        mod $name {
            use super::*;

            $(#[target_feature(enable = $features)])?
            pub fn take_own(
                _: $token,
                run: &Run<'_>,
                own: &Own<'_>,
                limit: u32,
                (offsets, metas): (&[u32], &mut [Meta]),
            ) -> Done {
                let mut done = Done::default();
                let Some(slots) = run.ring.descriptors().blocks::<1>(run.from, run.count) else { return done };
                let limit = limit.min(LONGEST);
                for ((i, offset), meta) in (0..run.count).zip(offsets).zip(metas) {
                    let Some(slot) = slots.get(i) else { break };
                    let word = slot.read::<0>(0);
                    let len = (word >> 32) as u32;
                    if word as u16 != 0 || len.wrapping_sub(1) >= limit {
                        break;
                    }
                    let from = (own.region, own.place(run.from + i));
                    if $copy((run.packets, *offset as usize), from, len as usize).is_err() {
                        break;
                    }
                    slot.write::<0>(0, u64::from(own.len) << 32);
                    *meta = Meta::frame(len);
                    done.count(len);
                }
                done
            }

            $(#[target_feature(enable = $features)])?
            pub fn take_theirs(
                _: $token,
                run: &Run<'_>,
                region: &DmaMemory,
                limit: u32,
                (offsets, metas): (&[u32], &mut [Meta]),
            ) -> Done {
                let mut done = Done::default();
                let Some(slots) = run.ring.descriptors().blocks::<1>(run.from, run.count) else { return done };
                let limit = limit.min(LONGEST);
                for ((i, offset), meta) in (0..run.count).zip(offsets).zip(metas) {
                    let Some(slot) = slots.get(i) else { break };
                    let (word, place) = (slot.read::<0>(0), slot.read::<1>(0));
                    let len = (word >> 32) as u32;
                    // Flags and region are 0.
                    if word as u32 != 0 || len.wrapping_sub(1) >= limit {
                        break;
                    }
                    let from = (region, place as u32 as usize);
                    if $copy((run.packets, *offset as usize), from, len as usize).is_err() {
                        break;
                    }
                    *meta = Meta::frame(len);
                    done.count(len);
                }
                done
            }

            $(#[target_feature(enable = $features)])?
            pub fn fill_own(
                _: $token,
                run: &Run<'_>,
                own: &Own<'_>,
                (offsets, metas): (&[u32], &[Meta]),
            ) -> Done {
                let mut done = Done::default();
                let Some(slots) = run.ring.descriptors().blocks::<1>(run.from, run.count) else { return done };
                let limit = own.len.min(LONGEST);
                for ((i, offset), meta) in (0..run.count).zip(offsets).zip(metas) {
                    let Some(slot) = slots.get(i) else { break };
                    let len = meta.len();
                    if !is_simple(*meta) || len.wrapping_sub(1) >= limit {
                        break;
                    }
                    let from = (run.packets, *offset as usize + meta.start() as usize);
                    let to = (own.region, own.place(run.from + i));
                    if $copy(to, from, len as usize).is_err() {
                        break;
                    }
                    slot.write::<0>(0, u64::from(len) << 32);
                    done.count(len);
                }
                done
            }

            $(#[target_feature(enable = $features)])?
            pub fn fill_theirs(
                _: $token,
                run: &Run<'_>,
                region: &DmaMemory,
                (offsets, metas): (&[u32], &[Meta]),
            ) -> Done {
                let mut done = Done::default();
                let Some(slots) = run.ring.descriptors().blocks::<1>(run.from, run.count) else { return done };
                for ((i, offset), meta) in (0..run.count).zip(offsets).zip(metas) {
                    let Some(slot) = slots.get(i) else { break };
                    let (word, place) = (slot.read::<0>(0), slot.read::<1>(0));
                    let (room, len) = ((word >> 32) as usize, meta.len());
                    // Region 0, and room for the whole last line: what lies behind a peer's buffer may be another one's.
                    let inside = place as u32 as usize + room <= region.len();
                    let fits = inside && (word >> 16) as u16 == 0 && whole_lines(len as usize) <= room;
                    if !fits || !is_simple(*meta) || len.wrapping_sub(1) >= LONGEST {
                        break;
                    }
                    let from = (run.packets, *offset as usize + meta.start() as usize);
                    if $copy((region, place as u32 as usize), from, len as usize).is_err() {
                        break;
                    }
                    slot.write::<0>(0, u64::from(len) << 32);
                    done.count(len);
                }
                done
            }
        }
    };
}

/// Whole in one buffer, and nothing is asked for.
#[inline(always)]
fn is_simple(meta: Meta) -> bool {
    meta.is_last() && !meta.has_request()
}

loops!(scalar, (), copy_exact);
loops!(sse, Ssse3, copy_sse, "ssse3,sse4.1");
loops!(avx2, Avx2, copy_avx2, "avx2");
loops!(avx512, Avx512, copy_avx512, "avx512f,avx512bw,avx512dq,avx512vl");

/// Calls the loop of an instruction set.
macro_rules! by_isa {
    ($isa:expr, $loop:ident($($argument:expr),*)) => {
        match $isa {
            Isa::Scalar => scalar::$loop((), $($argument),*),
            // SAFETY: the token proves that the CPU has the instructions of the loop.
            Isa::Ssse3(token) => unsafe { sse::$loop(token, $($argument),*) },
            // SAFETY: as above.
            Isa::Avx2(token) => unsafe { avx2::$loop(token, $($argument),*) },
            // SAFETY: as above.
            Isa::Avx512(token) => unsafe { avx512::$loop(token, $($argument),*) },
        }
    };
}

/// Takes packets of at most `limit` bytes out of a client's own buffers, whose descriptors are offered again.
#[inline]
#[allow(unsafe_code)]
pub fn take_own(isa: Isa, run: &Run<'_>, own: &Own<'_>, limit: u32, entries: (&[u32], &mut [Meta])) -> Done {
    by_isa!(isa, take_own(run, own, limit, entries))
}

/// Takes packets of at most `limit` bytes out of a peer's region 0.
#[inline]
#[allow(unsafe_code)]
pub fn take_theirs(
    isa: Isa,
    run: &Run<'_>,
    region: &DmaMemory,
    limit: u32,
    entries: (&[u32], &mut [Meta]),
) -> Done {
    by_isa!(isa, take_theirs(run, region, limit, entries))
}

/// Puts packets into a client's own buffers.
#[inline]
#[allow(unsafe_code)]
pub fn fill_own(isa: Isa, run: &Run<'_>, own: &Own<'_>, entries: (&[u32], &[Meta])) -> Done {
    by_isa!(isa, fill_own(run, own, entries))
}

/// Puts packets into buffers that a peer offers in its region 0.
#[inline]
#[allow(unsafe_code)]
pub fn fill_theirs(isa: Isa, run: &Run<'_>, region: &DmaMemory, entries: (&[u32], &[Meta])) -> Done {
    by_isa!(isa, fill_theirs(run, region, entries))
}
