//! Receive and transmit in vector registers: the loops of `rx_ring` and `tx`, eight or four frames at a time.
//!
//! Each does to the byte and to the counter what the scalar loop does. A group of frames is looked at as a whole; the
//! first frame that is not whole in one buffer, or that anything is wrong with, goes to the scalar code, and so do
//! the few frames in front of the end of a ring, of a burst or of a limit.

// The functions are safe; what they need of the CPU is in their attributes.
#![allow(clippy::missing_safety_doc)]

use hal::simd::Isa;
use kernel::port::{Path, QueueSetup};

mod asked;
pub mod avx2;
pub mod avx512;
mod loops;
pub mod sse;

/// The loops of a queue.
#[derive(Debug, Clone, Copy)]
pub struct Loops {
    /// What they are written for.
    pub isa: Isa,
    reason: Option<&'static str>,
}

impl Loops {
    /// The best that `setup` allows.
    pub fn choose(setup: &QueueSetup) -> Self {
        // Offsets are compared as signed numbers, and the largest frame is taken off the size.
        const SIZES: core::ops::RangeInclusive<usize> = 1 << 14..=1 << 31;
        if setup.isa != Isa::Scalar && !SIZES.contains(&setup.memory.len()) {
            let reason = "the packet memory is larger than 2 GiB or smaller than 16 KiB";
            return Self { isa: Isa::Scalar, reason: Some(reason) };
        }
        Self { isa: setup.isa, reason: None }
    }

    /// What is told of them.
    pub fn path(self, kind: &'static str) -> Path {
        Path { level: self.isa.level(), kind, reason: self.reason }
    }
}
