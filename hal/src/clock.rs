//! Time: for bounded waits, for rates, never for the data path's decisions.

use core::fmt;
use core::time::Duration;

/// A clock that only goes forward.
pub trait Clock {
    /// Ticks since some fixed moment; cheap enough to read once a poll (the TSC on x86).
    fn ticks(&self) -> u64;

    /// Ticks a second; never 0.
    fn ticks_per_second(&self) -> u64;

    /// Lets a sibling thread or a hypervisor have the core for a moment.
    fn relax(&self) {
        core::hint::spin_loop();
    }

    /// `duration` in ticks, at least 1.
    fn to_ticks(&self, duration: Duration) -> u64 {
        let ticks = duration.as_nanos() * u128::from(self.ticks_per_second()) / 1_000_000_000;
        u64::try_from(ticks).unwrap_or(u64::MAX).max(1)
    }

    /// `ticks` as a duration.
    fn to_duration(&self, ticks: u64) -> Duration {
        let hz = self.ticks_per_second();
        let nanos = u128::from(ticks % hz) * 1_000_000_000 / u128::from(hz);
        Duration::new(ticks / hz, nanos as u32)
    }

    /// Waits for `duration`, and no shorter.
    fn delay(&self, duration: Duration) {
        let start = self.ticks();
        let wait = self.to_ticks(duration);
        while self.ticks().wrapping_sub(start) < wait {
            self.relax();
        }
    }

    /// Calls `ready` until it gives a value, at most for `limit`, with `pause` between two calls.
    ///
    /// `ready` is called once more after the limit has passed, so that a caller that was not run for a
    /// while does not report a timeout for something that happened long ago.
    ///
    /// # Errors
    /// [`Timeout`] with the limit.
    fn poll<T>(
        &self,
        limit: Duration,
        pause: Duration,
        mut ready: impl FnMut() -> Option<T>,
    ) -> Result<T, Timeout> {
        let start = self.ticks();
        let limit_ticks = self.to_ticks(limit);
        loop {
            let late = self.ticks().wrapping_sub(start) >= limit_ticks;
            if let Some(value) = ready() {
                return Ok(value);
            }
            if late {
                return Err(Timeout { limit });
            }
            self.delay(pause);
        }
    }
}

/// The time stamp counter of this core: the ticks of a bare machine's clock.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn time_stamp_counter() -> u64 {
    // SAFETY: every x86-64 CPU has the instruction; in ring 0 nothing forbids it, and hosts leave it to their programs.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Something did not happen within its bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeout {
    /// How long was waited.
    pub limit: Duration,
}

impl fmt::Display for Timeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not within {} ms", self.limit.as_millis())
    }
}

impl core::error::Error for Timeout {}
