//! The time stamp counter and its frequency.

use core::fmt;

use raw_cpuid::CpuId;

use super::ports;
use crate::Clock;
use crate::clock::time_stamp_counter as now;

/// Where the frequency comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// CPUID leaf 0x15: crystal and ratio.
    Crystal,
    /// CPUID leaf 0x40000010: the hypervisor says.
    Hypervisor,
    /// Measured against the programmable interval timer.
    Pit,
    /// CPUID leaf 0x16: nominal frequency of the core.
    Nominal,
    /// Nothing on this machine says. Waits are longer than asked for.
    Unknown,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Crystal => "cpuid-15",
            Self::Hypervisor => "cpuid-hypervisor",
            Self::Pit => "pit",
            Self::Nominal => "cpuid-16",
            Self::Unknown => "unknown",
        })
    }
}

/// A frequency above that of any CPU, so that a wait is never too short.
const TOO_FAST: u64 = 6_000_000_000;
const PLAUSIBLE: core::ops::RangeInclusive<u64> = 100_000_000..=TOO_FAST;

/// The time stamp counter as a clock.
#[derive(Debug, Clone, Copy)]
pub struct TscClock {
    hz: u64,
    source: Source,
}

impl TscClock {
    /// Finds the frequency: from CPUID, else by measuring for some milliseconds, else a bound from above.
    ///
    /// # Safety
    /// Nothing else uses the programmable interval timer's channel 2 (ports 0x42, 0x43, 0x61).
    pub unsafe fn calibrate() -> Self {
        let known = crystal().map(|hz| (hz, Source::Crystal));
        let known = known.or_else(|| hypervisor().map(|hz| (hz, Source::Hypervisor)));
        // SAFETY: the caller's promise.
        let known = known.or_else(|| unsafe { measure() }.map(|hz| (hz, Source::Pit)));
        let known = known.or_else(|| nominal().map(|hz| (hz, Source::Nominal)));
        let (hz, source) = known.unwrap_or((TOO_FAST, Source::Unknown));
        Self { hz, source }
    }

    /// Where the frequency comes from.
    pub fn source(&self) -> Source {
        self.source
    }
}

impl Clock for TscClock {
    #[inline]
    fn ticks(&self) -> u64 {
        now()
    }

    fn ticks_per_second(&self) -> u64 {
        self.hz
    }
}

fn crystal() -> Option<u64> {
    let hz = CpuId::new().get_tsc_info()?.tsc_frequency()?;
    PLAUSIBLE.contains(&hz).then_some(hz)
}

fn nominal() -> Option<u64> {
    let hz = u64::from(CpuId::new().get_processor_frequency_info()?.processor_base_frequency()) * 1_000_000;
    PLAUSIBLE.contains(&hz).then_some(hz)
}

fn hypervisor() -> Option<u64> {
    let hz = u64::from(CpuId::new().get_hypervisor_info()?.tsc_frequency()?) * 1000;
    PLAUSIBLE.contains(&hz).then_some(hz)
}

/// The smaller of two measurements: whatever disturbs one makes it larger.
///
/// # Safety
/// As for [`TscClock::calibrate`].
unsafe fn measure() -> Option<u64> {
    // SAFETY: the caller's promise.
    let (first, second) = unsafe { (measure_once(), measure_once()) };
    let hz = first?.min(second?);
    PLAUSIBLE.contains(&hz).then_some(hz)
}

/// # Safety
/// As for [`TscClock::calibrate`].
unsafe fn measure_once() -> Option<u64> {
    const PIT_HZ: u64 = 1_193_182;
    const COUNT: u16 = 5_966; // 5 ms
    const CHANNEL_2: u16 = 0x42;
    const COMMAND: u16 = 0x43;
    const GATE: u16 = 0x61;
    const OUT2: u8 = 1 << 5;
    /// A port access takes about a microsecond; a machine without the timer must not hold us.
    const MOST_READS: u32 = 200_000;
    // SAFETY: programs channel 2, which nobody else uses, for one countdown, with the speaker off.
    unsafe {
        let gate = ports::inb(GATE) & !0x02;
        ports::outb(GATE, gate & !0x01);
        // Channel 2, low then high byte, mode 0: OUT goes high when the count has run down.
        ports::outb(COMMAND, 0b1011_0000);
        ports::outb(CHANNEL_2, COUNT as u8);
        ports::outb(CHANNEL_2, (COUNT >> 8) as u8);
        ports::outb(GATE, gate | 0x01);
    }
    let start = now();
    // SAFETY: only reads.
    let ended = (0..MOST_READS).any(|_| unsafe { ports::inb(GATE) } & OUT2 != 0);
    let ticks = now().wrapping_sub(start);
    ended.then(|| (u128::from(ticks) * u128::from(PIT_HZ) / u128::from(COUNT)) as u64)
}
