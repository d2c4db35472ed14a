//! Physical memory that is given out once and never comes back: rings, packet buffers, page tables.

use core::ptr::{self, NonNull};

use crate::{DmaError, DmaMemory};

/// Pieces of memory that an arena can be made of.
const MAX_RANGES: usize = 32;

#[derive(Clone, Copy, Default)]
struct Range {
    next: u64,
    end: u64,
}

/// Free memory, mapped one to one.
pub struct Arena {
    ranges: [Range; MAX_RANGES],
    count: usize,
}

impl Arena {
    /// An arena without memory.
    pub const fn new() -> Self {
        Self { ranges: [Range { next: 0, end: 0 }; MAX_RANGES], count: 0 }
    }

    /// Adds the memory from `start` to `end`; ranges beyond the thirty-second are left unused.
    ///
    /// # Safety
    /// The range is memory, mapped one to one and writable for as long as the program runs, and nothing else uses
    /// it. It does not start at 0.
    pub unsafe fn add(&mut self, start: u64, end: u64) {
        if start == 0 || start >= end {
            return;
        }
        if let Some(range) = self.ranges.get_mut(self.count) {
            *range = Range { next: start, end };
            self.count += 1;
        }
    }

    /// Bytes that are left.
    pub fn free(&self) -> u64 {
        self.ranges.iter().map(|range| range.end - range.next).sum()
    }

    /// `len` zeroed bytes at a multiple of `align`, a power of two.
    ///
    /// # Errors
    /// No range has as much left.
    pub fn alloc(&mut self, len: usize, align: usize) -> Result<DmaMemory, DmaError> {
        let error = DmaError { len };
        for range in &mut self.ranges {
            let Some(start) = range.next.checked_next_multiple_of(align.max(1) as u64) else { continue };
            let Some(end) = start.checked_add(len as u64) else { continue };
            if start == 0 || end > range.end {
                continue;
            }
            range.next = end;
            let at = ptr::with_exposed_provenance_mut::<u8>(start as usize);
            let base = NonNull::new(at).ok_or(error)?;
            // SAFETY: the range is mapped memory that nobody else uses (contract of `add`), and `next` has moved
            // past it, so it is given out once.
            unsafe { ptr::write_bytes(at, 0, len) };
            // SAFETY: as above; it stays mapped for ever, and devices see physical addresses.
            return Ok(unsafe { DmaMemory::new(base, len, start, None) });
        }
        Err(error)
    }
}

impl Default for Arena {
    fn default() -> Self {
        Self::new()
    }
}
