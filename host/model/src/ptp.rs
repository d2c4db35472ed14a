//! IEEE 1588: the port's clock and the registers in which times of frames are kept. Datasheet: "Time Sync"; what only
//! the drivers of Linux and DPDK tell of it is marked "by drivers".
//!
//! A time is kept until the high half of its register was read: until then no other takes its place. A frame for which
//! there is no register free is not stamped.

use std::time::Duration;

use crate::ptp_clock::Clock;
use crate::ptp_message;

const CTL0: u32 = 0x1e_4200;
const CTL1: u32 = 0x08_5020;
const INC_L: u32 = 0x1e_4040;
const INC_H: u32 = 0x1e_4060;
const TIME_L: u32 = 0x1e_4100;
const TIME_H: u32 = 0x1e_4120;
const ADJ: u32 = 0x1e_4280;
const TXTIME_L: u32 = 0x1e_41c0;
const TXTIME_H: u32 = 0x1e_41e0;
const STAT_0: u32 = 0x1e_4220;
const STAT_1: u32 = 0x08_5140;
const RXTIME_H: u32 = 0x08_5040;
const RXTIME_L: u32 = 0x08_50c0;
/// Distance of the registers of a row.
const STRIDE: u32 = 32;

const TSYNENA: u32 = 1 << 31;
const CTL0_TXTIME_INT: u32 = 1 << 1;
/// Function that owns the clock, set by the NVM: the only one.
const CTL0_PF_ID: u32 = 0xf << 8;
const STAT_0_TXTIME: u32 = 1 << 4;
const ADJ_BACKWARD: u32 = 1 << 31;

/// The clock and the times of a port.
#[derive(Debug, Default)]
pub struct Ptp {
    clock: Clock,
    control: [u32; 2],
    increment_low: u32,
    increment_high: u32,
    /// Half of a time that is being written; its other half while it is being read.
    time_low: u32,
    time_high: u32,
    received: [Option<u64>; 4],
    sent: Option<u64>,
    /// Events since the last look.
    status: u32,
}

impl Ptp {
    /// Everything off, for a port of 10 Gbit/s (`slow`) or of 40.
    pub fn new(slow: bool) -> Self {
        Self { clock: Clock::new(slow), ..Self::default() }
    }

    /// `offset` is among the registers of this chapter.
    pub const fn holds(offset: u32) -> bool {
        matches!(offset, CTL1..=STAT_1 | INC_L..=ADJ)
    }

    /// Reads a register at the host's time `now`; `None` for one that only keeps what it is given.
    pub fn read(&mut self, offset: u32, now: Duration) -> Option<u32> {
        Some(match offset {
            CTL0 => self.control[0],
            CTL1 => self.control[1],
            INC_L => self.increment_low,
            INC_H => self.increment_high,
            TIME_L => {
                let time = self.clock.time(now);
                self.time_high = (time >> 32) as u32;
                time as u32
            }
            TIME_H => self.time_high,
            ADJ => 0,
            TXTIME_L => self.sent.unwrap_or(0) as u32,
            TXTIME_H => {
                self.status &= !STAT_0_TXTIME;
                (self.sent.take().unwrap_or(0) >> 32) as u32
            }
            // By drivers: reading clears it.
            STAT_0 => std::mem::take(&mut self.status),
            STAT_1 => (0..4).filter(|index| self.received[*index].is_some()).map(|index| 1 << index).sum(),
            _ => return self.read_received(offset),
        })
    }

    fn read_received(&mut self, offset: u32) -> Option<u32> {
        let index = |first: u32| {
            let distance = offset.checked_sub(first)?;
            distance.is_multiple_of(STRIDE).then_some((distance / STRIDE) as usize)
        };
        if let Some(time) = index(RXTIME_L).and_then(|index| self.received.get(index)) {
            return Some(time.unwrap_or(0) as u32);
        }
        let time = index(RXTIME_H).and_then(|index| self.received.get_mut(index))?;
        Some((time.take().unwrap_or(0) >> 32) as u32)
    }

    /// Writes a register; says whether it is one of these. Of two halves the high one, written last, counts.
    pub fn write(&mut self, offset: u32, value: u32, now: Duration) -> bool {
        match offset {
            CTL0 => self.control[0] = value & !CTL0_PF_ID,
            CTL1 => self.control[1] = value,
            INC_L => self.increment_low = value,
            INC_H => {
                self.increment_high = value;
                let increment = u64::from(value) << 32 | u64::from(self.increment_low);
                self.clock.set_increment(now, increment);
            }
            TIME_L => self.time_low = value,
            TIME_H => self.clock.set(now, u64::from(value) << 32 | u64::from(self.time_low)),
            ADJ => {
                let by = i64::from(value & !ADJ_BACKWARD);
                self.clock.adjust(now, if value & ADJ_BACKWARD != 0 { -by } else { by });
            }
            TXTIME_L | TXTIME_H | STAT_0 | STAT_1 | RXTIME_H..STAT_1 => {}
            _ => return false,
        }
        true
    }

    /// A frame has arrived: the register in which its time is kept, if it is one of those that are to be stamped.
    pub fn arrived(&mut self, frame: &[u8], now: impl FnOnce() -> Duration) -> Option<u8> {
        if self.control[1] & TSYNENA == 0 || !ptp_message::wanted(self.control[1], frame) {
            return None;
        }
        let index = self.received.iter().position(Option::is_none)?;
        self.received[index] = Some(self.clock.time(now()));
        Some(index as u8)
    }

    /// Frames are stamped when they are sent, those that ask for it.
    pub fn stamps_sent(&self) -> bool {
        self.control[0] & TSYNENA != 0
    }

    /// A frame that asked for it was sent at `now`; says whether that is to interrupt.
    pub fn left(&mut self, now: Duration) -> bool {
        if self.sent.is_some() {
            return false;
        }
        self.sent = Some(self.clock.time(now));
        self.status |= STAT_0_TXTIME;
        self.control[0] & CTL0_TXTIME_INT != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNC: [u8; 16] = [1, 0x1b, 0x19, 0, 0, 0, 2, 0, 0, 0, 0, 1, 0x88, 0xf7, 0x10, 2];
    const SECOND: Duration = Duration::from_secs(1);

    /// As Linux's driver sets it up, with the clock at `time` after a second.
    fn linux(time: u64) -> Ptp {
        let mut ptp = Ptp::default();
        for (offset, value) in [
            (0x1e_4200, 0x8000_0002),
            (0x08_5020, 0x8e0f_0000),
            (0x1e_4040, 0x9999_9999),
            (0x1e_4060, 1),
            (0x1e_4100, time as u32),
            (0x1e_4120, (time >> 32) as u32),
        ] {
            assert!(ptp.write(offset, value, SECOND));
        }
        ptp
    }

    #[test]
    fn a_time_stays_whole_while_its_halves_are_read() {
        let mut ptp = linux(0x1_ffff_fff0);
        assert_eq!(ptp.read(0x1e_4100, SECOND), Some(0xffff_fff0));
        assert_eq!(ptp.read(0x1e_4120, 2 * SECOND), Some(1));
        // Linux's adjtime: the sign is the highest bit.
        assert!(ptp.write(0x1e_4280, 0x8000_0010, SECOND));
        assert_eq!(ptp.read(0x1e_4100, SECOND), Some(0xffff_ffe0));
    }

    #[test]
    fn four_times_of_received_frames_are_kept_until_they_are_read() {
        let mut ptp = linux(7 << 32);
        for index in 0..4 {
            assert_eq!(ptp.arrived(&SYNC, || SECOND), Some(index));
        }
        assert_eq!((ptp.arrived(&SYNC, || SECOND), ptp.read(0x08_5140, SECOND)), (None, Some(0xf)));
        assert_eq!((ptp.read(0x08_5100, SECOND), ptp.read(0x08_5140, SECOND)), (Some(0), Some(0xf)));
        assert_eq!((ptp.read(0x08_5080, SECOND), ptp.read(0x08_5140, SECOND)), (Some(7), Some(0b1011)));
        assert_eq!(ptp.arrived(&SYNC, || SECOND), Some(2));
        assert_eq!(ptp.arrived(&SYNC[..14], || SECOND), None);
    }

    #[test]
    fn one_time_of_a_sent_frame_is_kept_and_interrupts_once() {
        let mut ptp = linux(7 << 32 | 9);
        assert!(ptp.stamps_sent() && ptp.left(SECOND) && !ptp.left(2 * SECOND));
        assert_eq!((ptp.read(0x1e_4220, SECOND), ptp.read(0x1e_4220, SECOND)), (Some(0x10), Some(0)));
        assert_eq!((ptp.read(0x1e_41c0, SECOND), ptp.read(0x1e_41e0, SECOND)), (Some(9), Some(7)));
        assert!(ptp.left(SECOND));
        assert!(Ptp::default().write(0x1e_4200, 0xf02, SECOND) && !Ptp::default().stamps_sent());
    }

    #[test]
    fn registers_of_others_are_left_alone() {
        let mut ptp = linux(0);
        assert!(!Ptp::holds(0x08_5000) && !Ptp::holds(0x1e_4320) && Ptp::holds(0x1e_4280));
        assert!(!ptp.write(0x1e_42a0, 1, SECOND) && ptp.read(0x1e_4140, SECOND).is_none());
    }
}
