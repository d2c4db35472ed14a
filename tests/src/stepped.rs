//! A machine whose clock goes on by being looked at and waited for: a wait of a second takes no time, and takes as many
//! looks each time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hal::hosted::{FakeBar, HostedMachine};
use hal::{Clock, DmaError, DmaMemory, Machine};

/// Nanoseconds that a look takes.
const LOOK: u64 = 100;

/// Its clock, a tick a nanosecond.
#[derive(Clone, Default)]
pub struct SteppedClock(Arc<AtomicU64>);

impl Clock for SteppedClock {
    fn ticks(&self) -> u64 {
        self.0.fetch_add(LOOK, Ordering::Relaxed)
    }
    fn ticks_per_second(&self) -> u64 {
        1_000_000_000
    }
    fn delay(&self, duration: Duration) {
        self.0.fetch_add(duration.as_nanos() as u64, Ordering::Relaxed);
    }
}

/// The machine, with the memory of another.
#[derive(Clone)]
pub struct SteppedMachine {
    memory: HostedMachine<FakeBar>,
    clock: SteppedClock,
}

impl SteppedMachine {
    /// A machine whose memory is `memory`'s.
    pub fn new(memory: HostedMachine<FakeBar>) -> Self {
        Self { memory, clock: SteppedClock::default() }
    }
}

impl Machine for SteppedMachine {
    type Bar = FakeBar;
    type Clock = SteppedClock;

    fn clock(&self) -> &SteppedClock {
        &self.clock
    }

    fn dma_alloc(&self, len: usize, align: usize) -> Result<DmaMemory, DmaError> {
        self.memory.dma_alloc(len, align)
    }
}
