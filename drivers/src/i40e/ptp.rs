//! The port's clock for IEEE 1588 and the times that it keeps. Datasheet: "Time Sync"; the order of steps is that of
//! DPDK's `i40e_timesync_enable`.
//!
//! The clock grows by PRTTSYN_INC, 6 bits of nanoseconds and 32 of a fraction, at each tick, which depends on the speed of
//! the link: 1.6 ns at 25 and 40 Gbit/s. A time stays in its register until the high half was read. Reading
//! PRTTSYN_STAT_0 clears it.

use hal::{Bar, BarAccess, Machine, Reg, RegArray, Ro, Rw};
use kernel::port::time_stamp::{RECEIVE_STAMPS, TimeStamper};

use super::error::Error;
use super::port::I40e;

/// Bits 11:8: the function that owns the clock; bit 31: it runs.
const PRTTSYN_CTL0: Reg<u32, Rw> = Reg::at(0x1e_4200);
/// What is stamped when it is received; bit 31: anything is.
const PRTTSYN_CTL1: Reg<u32, Rw> = Reg::at(0x08_5020);
const PRTTSYN_INC_L: Reg<u32, Rw> = Reg::at(0x1e_4040);
/// Written last: then both halves count.
const PRTTSYN_INC_H: Reg<u32, Rw> = Reg::at(0x1e_4060);
/// Read first: that keeps the high half.
const PRTTSYN_TIME_L: Reg<u32, Rw> = Reg::at(0x1e_4100);
const PRTTSYN_TIME_H: Reg<u32, Rw> = Reg::at(0x1e_4120);
const PRTTSYN_TXTIME_L: Reg<u32, Ro> = Reg::at(0x1e_41c0);
const PRTTSYN_TXTIME_H: Reg<u32, Ro> = Reg::at(0x1e_41e0);
/// Bit 4: the time of a sent frame is there.
const PRTTSYN_STAT_0: Reg<u32, Ro> = Reg::at(0x1e_4220);
/// Bits 3:0: which times of received frames are there.
const PRTTSYN_STAT_1: Reg<u32, Ro> = Reg::at(0x08_5140);
const PRTTSYN_RXTIME_L: RegArray<u32, Ro, 4> = RegArray::at(0x08_50c0, 32);
const PRTTSYN_RXTIME_H: RegArray<u32, Ro, 4> = RegArray::at(0x08_5040, 32);

const TSYNENA: u32 = 1 << 31;
const PF_ID_SHIFT: u32 = 8;
const STAT_0_TXTIME: u32 = 1 << 4;
/// What CTL1 holds beside TSYNENA: PTP version 2 over Ethernet and over UDP to ports 319 and 320, Sync messages.
const CTL1_V2_SYNC: u32 = 2 << 24 | 3 << 26;

/// Increment of a tick of 1.6 ns (by drivers: `I40E_PTP_40GB_INCVAL`).
const INCREMENT_40G: u64 = 0x01_9999_9999;

/// The increment that makes nanoseconds at `speed` Mbit a second (by drivers); 40 Gbit/s when it is not known.
const fn increment(speed: u32) -> u64 {
    match speed {
        5000 | 10_000 => 2 * INCREMENT_40G,
        1000 => 20 * INCREMENT_40G,
        _ => INCREMENT_40G,
    }
}

/// The clock of a port, and the times of its frames.
pub struct TimeSync<B> {
    bar: B,
    increment: u64,
}

impl<B: Bar> TimeSync<B> {
    /// The clock behind `bar`, of a port whose link has `speed` Mbit a second. A port makes it with
    /// [`I40e::time_sync`]; on its own it serves whoever plays the card himself.
    pub fn new(bar: B, speed: u32) -> Self {
        Self { bar, increment: increment(speed) }
    }

    fn set_increment(&self, increment: u64) {
        self.bar.write(PRTTSYN_INC_L, increment as u32);
        self.bar.write(PRTTSYN_INC_H, (increment >> 32) as u32);
    }

    fn received(&self, index: u8) -> Option<u64> {
        let (low, high) =
            (PRTTSYN_RXTIME_L.get(usize::from(index))?, PRTTSYN_RXTIME_H.get(usize::from(index))?);
        let low = u64::from(self.bar.read(low));
        Some(u64::from(self.bar.read(high)) << 32 | low)
    }
}

impl<B: Bar> TimeStamper for TimeSync<B> {
    fn enable(&mut self) {
        self.set_increment(0);
        self.bar.write(PRTTSYN_TIME_L, 0);
        self.bar.write(PRTTSYN_TIME_H, 0);
        self.set_increment(self.increment);
        self.bar.read(PRTTSYN_STAT_0);
        self.bar.read(PRTTSYN_TXTIME_H);
        self.release();
        self.bar.update(PRTTSYN_CTL0, |control| control | TSYNENA);
        self.bar.write(PRTTSYN_CTL1, TSYNENA | CTL1_V2_SYNC);
    }

    fn disable(&mut self) {
        self.bar.update(PRTTSYN_CTL0, |control| control & !TSYNENA);
        self.bar.update(PRTTSYN_CTL1, |control| control & !TSYNENA);
        self.set_increment(0);
    }

    fn time(&mut self) -> u64 {
        let low = u64::from(self.bar.read(PRTTSYN_TIME_L));
        u64::from(self.bar.read(PRTTSYN_TIME_H)) << 32 | low
    }

    fn receive_stamp(&mut self, index: u8) -> Option<u64> {
        let kept = index < RECEIVE_STAMPS && self.bar.read(PRTTSYN_STAT_1) >> index & 1 != 0;
        if kept { self.received(index) } else { None }
    }

    fn transmit_stamp(&mut self) -> Option<u64> {
        if self.bar.read(PRTTSYN_STAT_0) & STAT_0_TXTIME == 0 {
            return None;
        }
        let low = u64::from(self.bar.read(PRTTSYN_TXTIME_L));
        Some(u64::from(self.bar.read(PRTTSYN_TXTIME_H)) << 32 | low)
    }

    fn release(&mut self) {
        for index in 0..RECEIVE_STAMPS {
            let _ = self.received(index);
        }
    }
}

impl<M: Machine> I40e<M> {
    /// The clock of the port, set for the link as it is now; a reset of the function leaves it alone.
    ///
    /// # Errors
    /// Another function owns the clock (PRTTSYN_CTL0.PF_ID, set by the NVM).
    pub fn time_sync(&self) -> Result<TimeSync<M::Bar>, Error> {
        if !self.owns_clock() {
            let value = u64::from(self.bar.read(PRTTSYN_CTL0) >> PF_ID_SHIFT & 0xf);
            return Err(Error::Request { step: "time sync", what: "a clock of function", value });
        }
        Ok(TimeSync::new(self.bar.clone(), self.link.speed))
    }

    /// The clock is this function's: then its transmit queues may have frames stamped.
    pub(super) fn owns_clock(&self) -> bool {
        self.bar.read(PRTTSYN_CTL0) >> PF_ID_SHIFT & 0xf == self.pf
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux: 1.6 ns at 40 Gbit/s or without link, times 2 at 10 and 5, times 20 at 1.
    #[test]
    fn increments_are_those_of_linux() {
        let nanoseconds = |speed| increment(speed) as f64 / (1_u64 << 32) as f64;
        for (speed, period) in
            [(40_000, 1.6), (25_000, 1.6), (0, 1.6), (10_000, 3.2), (5000, 3.2), (1000, 32.0)]
        {
            assert!((nanoseconds(speed) - period).abs() < 1e-7, "{speed}");
        }
    }
}
