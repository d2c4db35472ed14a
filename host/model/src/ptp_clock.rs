//! The clock that frames are stamped with: 64 bits of nanoseconds and a fraction, which grow by PRTTSYN_INC at each tick.
//!
//! The tick is the MAC's: 1.6 ns at 40 Gbit/s, 3.2 ns at 10 (by drivers: `i40e_ptp.c`). Here it is that much of the
//! host's time.

use std::time::Duration;

/// Bits of the fraction of a nanosecond.
const FRACTION: u32 = 32;
/// Bits of an increment: 6 of nanoseconds and the fraction.
const INCREMENT: u64 = (1 << 38) - 1;

/// The clock of a port.
#[derive(Debug, Default)]
pub struct Clock {
    /// Nanoseconds with fraction at `since`.
    value: u128,
    /// The host's time then.
    since: Duration,
    increment: u64,
    /// The tick is 3.2 ns, not 1.6.
    slow: bool,
}

impl Clock {
    /// A clock that stands at 0, of a port of 10 Gbit/s (`slow`) or of 40.
    pub fn new(slow: bool) -> Self {
        Self { slow, ..Self::default() }
    }

    /// Nanoseconds at the host's time `now`.
    pub fn time(&self, now: Duration) -> u64 {
        (self.value(now) >> FRACTION) as u64
    }

    fn value(&self, now: Duration) -> u128 {
        let passed = now.saturating_sub(self.since).as_nanos();
        let sixteenths = if self.slow { 5 } else { 10 };
        // At most 2^64 of time by 2^42.
        let grown = (passed & u128::from(u64::MAX)) * u128::from(self.increment) * sixteenths / 16;
        self.value.wrapping_add(grown)
    }

    fn settle(&mut self, now: Duration) {
        (self.value, self.since) = (self.value(now), now.max(self.since));
    }

    /// Sets nanoseconds.
    pub fn set(&mut self, now: Duration, time: u64) {
        (self.value, self.since) = (u128::from(time) << FRACTION, now.max(self.since));
    }

    /// From now on so much a tick, in 2^-32 ns; 38 bits count.
    pub fn set_increment(&mut self, now: Duration, increment: u64) {
        self.settle(now);
        self.increment = increment & INCREMENT;
    }

    /// Nanoseconds forward, or backward.
    pub fn adjust(&mut self, now: Duration, by: i64) {
        let time = self.time(now).wrapping_add_signed(by);
        self.set(now, time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux's `I40E_PTP_40GB_INCVAL`, and twice as much at 10 Gbit/s: a second of the clock is one, to 1 in 10^9.
    #[test]
    fn increments_of_linux_make_nanoseconds() {
        for (slow, increment) in [(false, 0x01_9999_9999), (true, 0x03_3333_3332)] {
            let mut clock = Clock::new(slow);
            clock.set_increment(Duration::ZERO, increment);
            let time = clock.time(Duration::from_secs(1));
            assert!((999_999_998..=1_000_000_000).contains(&time), "{time}");
        }
    }

    #[test]
    fn a_clock_is_set_stopped_and_adjusted() {
        let (mut clock, second) = (Clock::default(), Duration::from_secs(1));
        clock.set_increment(Duration::ZERO, 16 << 32);
        assert_eq!(clock.time(Duration::from_nanos(16)), 160);
        clock.set(second, 5);
        clock.set_increment(second, 0);
        assert_eq!(clock.time(2 * second), 5);
        clock.adjust(2 * second, -7);
        assert_eq!(clock.time(2 * second), u64::MAX - 1);
        // More than 38 bits, and the largest time, are no trouble.
        clock.set_increment(second, u64::MAX);
        clock.time(Duration::MAX);
    }
}
