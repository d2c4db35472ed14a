//! Copies of packets between memories that others write, in whole cache lines.
//!
//! What a packet's last line has behind its end is written as zeros, so that a copy neither tells what lay there before nor
//! writes a line in part, which would cost a second look at it. That takes room up to the end of the line at both sides.

use core::arch::x86_64::*;

use crate::{DmaMemory, OutOfBounds};

/// Bytes of a line.
pub const LINE: usize = 64;

/// Bytes of the lines that `len` bytes touch when they begin with one.
#[inline]
pub const fn whole_lines(len: usize) -> usize {
    len.saturating_add(LINE - 1) & !(LINE - 1)
}

/// Ones, and zeros behind them: from byte `64 - n` on, a mask of the first `n` bytes of a line.
pub(super) static MASK: [u8; 2 * LINE] = {
    let mut mask = [0; 2 * LINE];
    let mut at = 0;
    while at < LINE {
        mask[at] = 0xff;
        at += 1;
    }
    mask
};

/// Bytes of the last line, 1 to 64, of `len` bytes, which are not 0; and where it begins.
#[inline]
const fn last_line(len: usize) -> (usize, usize) {
    let before = (len - 1) & !(LINE - 1);
    (len - before, before)
}

/// `len` bytes from `from_at` of `from` to `to_at` of `to`, a byte after the other.
///
/// # Errors
/// [`OutOfBounds`] when either does not lie inside; then nothing is written.
#[inline]
pub fn copy_exact(
    (to, to_at): (&DmaMemory, usize),
    (from, from_at): (&DmaMemory, usize),
    len: usize,
) -> Result<(), OutOfBounds> {
    let (target, source) = (to.bytes_at(to_at, len)?, from.bytes_at(from_at, len)?);
    // SAFETY: both lie inside of their mappings, to which nobody holds references; they may be parts of one.
    unsafe { core::ptr::copy(source, target, len) };
    Ok(())
}

/// Where the lines of a copy of `len` bytes, not 0, lie.
#[inline]
fn places(
    (to, to_at): (&DmaMemory, usize),
    (from, from_at): (&DmaMemory, usize),
    len: usize,
) -> Result<(*mut u8, *const u8), OutOfBounds> {
    let bytes = whole_lines(len);
    Ok((to.bytes_at(to_at, bytes)?, from.bytes_at(from_at, bytes)?.cast_const()))
}

/// Copies `len` bytes in whole lines, with registers of 16 bytes.
///
/// # Errors
/// [`OutOfBounds`] when a line does not lie inside of either; then nothing is written.
#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
pub fn copy_sse(to: (&DmaMemory, usize), from: (&DmaMemory, usize), len: usize) -> Result<(), OutOfBounds> {
    if len == 0 {
        return Ok(());
    }
    let (target, source) = places(to, from, len)?;
    let (rest, last) = last_line(len);
    let mut at = 0;
    // SAFETY: all lines up to the last one lie inside of both mappings, to which nobody holds references; the mask has
    // 128 bytes, and `64 - rest + 64` is at most 127.
    unsafe {
        while at < last {
            let line = [0, 16, 32, 48].map(|i| _mm_loadu_si128(source.add(at + i).cast()));
            for (i, part) in line.into_iter().enumerate() {
                _mm_storeu_si128(target.add(at + 16 * i).cast(), part);
            }
            at += LINE;
        }
        let mask = MASK.as_ptr().add(LINE - rest);
        for i in [0, 16, 32, 48] {
            let part = _mm_loadu_si128(source.add(at + i).cast());
            let part = _mm_and_si128(part, _mm_loadu_si128(mask.add(i).cast()));
            _mm_storeu_si128(target.add(at + i).cast(), part);
        }
    }
    Ok(())
}

/// As [`copy_sse`], with registers of 32 bytes.
///
/// # Errors
/// As there.
#[inline]
#[target_feature(enable = "avx2")]
pub fn copy_avx2(to: (&DmaMemory, usize), from: (&DmaMemory, usize), len: usize) -> Result<(), OutOfBounds> {
    if len == 0 {
        return Ok(());
    }
    let (target, source) = places(to, from, len)?;
    let (rest, last) = last_line(len);
    let mut at = 0;
    // SAFETY: as in `copy_sse`.
    unsafe {
        while at < last {
            let low = _mm256_loadu_si256(source.add(at).cast());
            let high = _mm256_loadu_si256(source.add(at + 32).cast());
            _mm256_storeu_si256(target.add(at).cast(), low);
            _mm256_storeu_si256(target.add(at + 32).cast(), high);
            at += LINE;
        }
        let mask = MASK.as_ptr().add(LINE - rest);
        let low = _mm256_loadu_si256(source.add(at).cast());
        let high = _mm256_loadu_si256(source.add(at + 32).cast());
        let low = _mm256_and_si256(low, _mm256_loadu_si256(mask.cast()));
        let high = _mm256_and_si256(high, _mm256_loadu_si256(mask.add(32).cast()));
        _mm256_storeu_si256(target.add(at).cast(), low);
        _mm256_storeu_si256(target.add(at + 32).cast(), high);
    }
    Ok(())
}

/// As [`copy_sse`], with registers of 64 bytes.
///
/// # Errors
/// As there.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub fn copy_avx512(
    to: (&DmaMemory, usize),
    from: (&DmaMemory, usize),
    len: usize,
) -> Result<(), OutOfBounds> {
    if len == 0 {
        return Ok(());
    }
    let (target, source) = places(to, from, len)?;
    let (rest, last) = last_line(len);
    let mut at = 0;
    // SAFETY: as in `copy_sse`, without the mask.
    unsafe {
        while at < last {
            let line = _mm512_loadu_si512(source.add(at).cast());
            _mm512_storeu_si512(target.add(at).cast(), line);
            at += LINE;
        }
        let line = _mm512_loadu_si512(source.add(at).cast());
        let line = _mm512_maskz_mov_epi8(u64::MAX >> (LINE - rest), line);
        _mm512_storeu_si512(target.add(at).cast(), line);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use super::*;
    use crate::Machine;
    use crate::hosted::{FakeBar, HostedMachine};
    use crate::simd::{Isa, Level};

    /// The copy of each level that this CPU has.
    #[allow(clippy::type_complexity)]
    fn copies() -> Vec<(&'static str, fn((&DmaMemory, usize), (&DmaMemory, usize), usize) -> bool)> {
        let mut copies: Vec<(_, fn((&DmaMemory, usize), (&DmaMemory, usize), usize) -> bool)> = Vec::new();
        let best = Isa::best().level();
        if best >= Level::Ssse3 {
            // SAFETY: the CPU has it.
            copies.push(("sse", |to, from, len| unsafe { copy_sse(to, from, len) }.is_ok()));
        }
        if best >= Level::Avx2 {
            // SAFETY: as above.
            copies.push(("avx2", |to, from, len| unsafe { copy_avx2(to, from, len) }.is_ok()));
        }
        if best >= Level::Avx512 {
            // SAFETY: as above.
            copies.push(("avx512", |to, from, len| unsafe { copy_avx512(to, from, len) }.is_ok()));
        }
        copies
    }

    fn memory(fill: impl Fn(usize) -> u8) -> DmaMemory {
        let memory = HostedMachine::<FakeBar>::new(1 << 13).unwrap().dma_alloc(4096, 4096).unwrap();
        let bytes: Vec<u8> = (0..4096).map(fill).collect();
        memory.copy_in(0, &bytes).unwrap();
        memory
    }

    #[test]
    fn packets_are_whole_and_end_in_zeros_up_to_the_line() {
        let from = memory(|at| (at % 251) as u8 | 1);
        for (name, copy) in copies() {
            for len in (0..=300).chain([1518, 2048]) {
                for (to_at, from_at) in [(0, 0), (64, 128), (7, 13)] {
                    let to = memory(|_| 0xee);
                    assert!(copy((&to, to_at), (&from, from_at), len), "{name} {len}");
                    let (mut got, mut wanted) = (vec![0; 4096], vec![0xee; 4096]);
                    to.copy_out(0, &mut got).unwrap();
                    wanted[to_at..to_at + len.next_multiple_of(64)].fill(0);
                    from.copy_out(from_at, &mut wanted[to_at..to_at + len]).unwrap();
                    assert!(got == wanted, "{name} {len} at {to_at} from {from_at}");
                }
            }
        }
    }

    #[test]
    fn a_line_that_is_not_inside_is_not_touched() {
        let (to, from) = (memory(|_| 0), memory(|_| 1));
        for (name, copy) in copies() {
            for (to_at, from_at, len) in [
                (4033, 0, 1),
                (0, 4033, 1),
                (0, 0, 4097),
                (4096, 0, 1),
                (usize::MAX, 0, 1),
                (0, 0, usize::MAX),
            ] {
                assert!(!copy((&to, to_at), (&from, from_at), len), "{name} {to_at} {from_at} {len}");
            }
        }
        let mut bytes = vec![1; 4096];
        to.copy_out(0, &mut bytes).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 0));
    }
}
