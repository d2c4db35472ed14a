//! Cache lines: what one core writes shares none with what another one reads or writes.

use core::alloc::{GlobalAlloc, Layout};

/// Bytes that are kept apart: two lines of 64, since processors fetch them in pairs.
pub const LINE: usize = 128;

/// A value on cache lines of its own.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct Line<T>(pub T);

/// A heap that gives every allocation cache lines of its own, so that two cores never write to one line because an
/// allocator put their values side by side.
#[derive(Debug, Default)]
pub struct LineHeap<A>(pub A);

fn padded(layout: Layout) -> Option<Layout> {
    Some(layout.align_to(LINE).ok()?.pad_to_align())
}

// SAFETY: each piece is one of the inner heap's, larger and more aligned than was asked for, and goes back to it with
// the layout that it was made with: `padded` depends on the layout alone.
unsafe impl<A: GlobalAlloc> GlobalAlloc for LineHeap<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise of a size above 0, which padding only raises.
        padded(layout).map_or(core::ptr::null_mut(), |layout| unsafe { self.0.alloc(layout) })
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if let Some(layout) = padded(layout) {
            // SAFETY: the caller's promise: `at` came from `alloc` with the layout before it was padded.
            unsafe { self.0.dealloc(at, layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::System;
    use std::vec::Vec;

    use super::*;

    #[test]
    fn no_two_pieces_share_a_line() {
        let heap = LineHeap(System);
        let layouts = [(1, 1), (7, 4), (128, 8), (129, 1), (4096, 4096), (3, 256)];
        let layouts = layouts.map(|(size, align)| Layout::from_size_align(size, align).unwrap());
        // SAFETY: no size is 0.
        let pieces: Vec<*mut u8> = layouts.iter().map(|layout| unsafe { heap.alloc(*layout) }).collect();
        let mut lines: Vec<usize> = pieces
            .iter()
            .zip(&layouts)
            .flat_map(|(at, layout)| at.addr() / 64..(at.addr() + layout.size()).div_ceil(64))
            .collect();
        let count = lines.len();
        lines.sort_unstable();
        lines.dedup();
        assert_eq!(lines.len(), count);
        for (at, layout) in pieces.into_iter().zip(layouts) {
            assert!(!at.is_null() && at.addr().is_multiple_of(layout.align()));
            // SAFETY: made above with this layout.
            unsafe { heap.dealloc(at, layout) };
        }
    }
}
