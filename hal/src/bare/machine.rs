//! The bare machine as drivers see it.

use spin::mutex::SpinMutex;

use super::{Arena, MmioBar, TscClock};
use crate::{DmaError, DmaMemory, Machine};

/// x86-64 without an operating system.
#[derive(Clone)]
pub struct BareMachine {
    clock: TscClock,
    arena: &'static SpinMutex<Arena>,
}

impl BareMachine {
    /// A machine with this clock and this memory.
    pub fn new(clock: TscClock, arena: &'static SpinMutex<Arena>) -> Self {
        Self { clock, arena }
    }
}

impl Machine for BareMachine {
    type Bar = MmioBar;
    type Clock = TscClock;

    fn clock(&self) -> &TscClock {
        &self.clock
    }

    fn dma_alloc(&self, len: usize, align: usize) -> Result<DmaMemory, DmaError> {
        self.arena.lock().alloc(len, align)
    }
}
