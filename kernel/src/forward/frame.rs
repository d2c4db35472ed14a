//! A frame's bytes, by their place in it.

// The functions with vectors are safe; what they need of the CPU is in their attributes.
#![allow(clippy::missing_safety_doc)]

use core::arch::x86_64::__m128i;

use hal::DmaMemory;
use hal::dma::Plain;
use hal::simd::sse;

use crate::packet::Meta;

/// The first buffer of a frame, in which its headers lie or are not understood.
#[derive(Clone, Copy)]
pub struct Frame<'a> {
    memory: &'a DmaMemory,
    at: usize,
    len: usize,
}

impl<'a> Frame<'a> {
    /// A frame whose first buffer is `buffer`.
    pub fn new(memory: &'a DmaMemory, buffer: u32, meta: Meta) -> Self {
        Self { memory, at: buffer as usize + meta.start() as usize, len: meta.len() as usize }
    }

    /// Bytes in the first buffer.
    pub fn len(&self) -> usize {
        self.len
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of the frame, copied out; `None` behind its end.
    #[inline]
    pub fn load<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        if at.checked_add(N)? > self.len {
            return None;
        }
        self.memory.load(self.at + at).ok()
    }

    /// A number in network order.
    #[inline]
    pub fn load_word(&self, at: usize) -> Option<u16> {
        self.load(at).map(u16::from_be_bytes)
    }

    /// Writes bytes of the frame; `None`, and nothing is written, behind its end.
    #[inline]
    pub fn store<T: Plain>(&self, at: usize, bytes: T) -> Option<()> {
        if at.checked_add(size_of::<T>())? > self.len {
            return None;
        }
        self.memory.store(self.at + at, bytes).ok()
    }

    /// Sixteen bytes of the frame; `None` behind its end.
    #[inline]
    #[target_feature(enable = "ssse3,sse4.1")]
    pub fn load_vector(&self, at: usize) -> Option<__m128i> {
        if at.checked_add(16)? > self.len {
            return None;
        }
        sse::load_from(self.memory, self.at + at).ok()
    }

    /// Writes sixteen bytes of the frame; `None`, and nothing is written, behind its end.
    #[inline]
    #[target_feature(enable = "ssse3,sse4.1")]
    pub fn store_vector(&self, at: usize, value: __m128i) -> Option<()> {
        if at.checked_add(16)? > self.len {
            return None;
        }
        sse::store_to(self.memory, self.at + at, value).ok()
    }

    /// Exchanges `N` bytes with the `N` behind them.
    pub fn exchange<const N: usize>(&self, at: usize) -> Option<()> {
        let (one, other): ([u8; N], [u8; N]) = (self.load(at)?, self.load(at + N)?);
        self.store(at, other)?;
        self.store(at + N, one)
    }
}

/// The ranges of entries that are frames: each up to its last buffer. What has no last buffer is one, too.
pub fn ranges(metas: &[Meta]) -> impl Iterator<Item = core::ops::Range<usize>> + '_ {
    let mut from = 0;
    core::iter::from_fn(move || {
        let rest = metas.get(from..).filter(|rest| !rest.is_empty())?;
        let len = rest.iter().position(|meta| meta.is_last()).map_or(rest.len(), |last| last + 1);
        let range = from..from + len;
        from = range.end;
        Some(range)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_cut_into_frames() {
        let (part, last) = (Meta::segment(9), Meta::frame(9));
        let cut = |metas: &[Meta]| ranges(metas).collect::<std::vec::Vec<_>>();
        assert_eq!(cut(&[last, part, part, last, last]), [0..1, 1..4, 4..5]);
        assert_eq!(cut(&[last, part, part]), [0..1, 1..3]);
        assert_eq!(cut(&[]), []);
    }
}
