//! Flow director: frames of a flow go to the queue that a filter names. Datasheet: "Flow Director"; layouts and what
//! a driver may expect of them by drivers (`i40e_fdir.c` of DPDK, `i40e_txrx.c` of Linux).
//!
//! A filter is programmed by a descriptor on a transmit queue, together with the frame behind it, whose fields are what
//! received frames are compared with. Programming that fails is told on the function's receive queue 0.

use std::collections::HashMap;

use crate::filter::{fields, rss};
use crate::regs::Registers;

/// Filters that the function has for itself.
pub const GUARANTEED: u32 = 512;
/// Filters that it may have beyond these.
pub const BEST_EFFORT: u32 = 7168;

const PFQF_CTL_0: u32 = 0x1c_0ac0;
const PFQF_CTL_0_FD_ENA: u32 = 1 << 17;
/// Bit 0 clears the table.
pub const PFQF_CTL_1: u32 = 0x24_5d80;
const PFQF_FDSTAT: u32 = 0x24_6380;
const GLQF_FDCNT_0: u32 = 0x26_9bac;
/// Matches by counter index.
const GLQF_PCNT: u32 = 0x26_6800;

/// Match counters: 512 registers; a write that is not 0 clears one.
pub const COUNTERS: std::ops::Range<u32> = GLQF_PCNT..GLQF_PCNT + 4 * 512;

/// A filter program descriptor.
#[derive(Debug, Clone, Copy)]
pub struct Program(pub u64, pub u64);

impl Program {
    fn class(self) -> u8 {
        (self.0 >> 17 & 0x3f) as u8
    }

    fn filter(self) -> Filter {
        const COUNT: u64 = 1 << 11;
        Filter {
            queue: (self.0 & 0x7ff) as u32,
            vsi: (self.0 >> 23 & 0x1ff) as u16,
            destination: match self.1 >> 7 & 3 {
                0 => Destination::Drop,
                1 => Destination::Queue,
                _ => Destination::Other,
            },
            report: self.1 >> 13 & 3 != 0,
            counter: (self.1 & COUNT != 0).then_some((self.1 >> 20 & 0x1ff) as u32),
            id: self.id(),
        }
    }

    fn id(self) -> u32 {
        (self.1 >> 32) as u32
    }
}

/// What a filter does with its frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    Drop,
    Queue,
    /// As without the filter.
    Other,
}

/// What a descriptor said of a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filter {
    /// Queue of the VSI.
    pub queue: u32,
    /// Number of the VSI.
    pub vsi: u16,
    pub destination: Destination,
    /// The identifier goes into the receive descriptor.
    pub report: bool,
    counter: Option<u32>,
    pub id: u32,
}

/// The filters.
#[derive(Debug, Default)]
pub struct FlowDirector {
    table: HashMap<(u8, Vec<u16>), Filter>,
}

impl FlowDirector {
    /// Carries out a program descriptor with its frame. A failure is a programming status for receive queue 0: both
    /// quadwords of its descriptor.
    ///
    /// # Errors
    /// The table is full, or the filter to remove is not there.
    pub fn program(
        &mut self,
        registers: &mut Registers,
        program: Program,
        frame: &[u8],
    ) -> Result<(), (u64, u64)> {
        const TABLE_FULL: u64 = 1 << 0;
        const NO_ENTRY: u64 = 1 << 1;
        let class = program.class();
        // The frame is as seen from the transmitter: a received one has its sides exchanged.
        let key = (class, fields::of(frame, true).chosen(registers, &fields::FLOW_DIRECTOR, class));
        let done = match program.1 >> 4 & 7 {
            1 if self.table.contains_key(&key) || self.table.len() < (GUARANTEED + BEST_EFFORT) as usize => {
                self.table.insert(key, program.filter());
                Ok(())
            }
            1 => Err(TABLE_FULL),
            2 => self.table.remove(&key).map(|_| ()).ok_or(NO_ENTRY),
            _ => Ok(()),
        };
        self.count(registers);
        done.map_err(|error| Self::status(program.id(), error))
    }

    fn status(id: u32, error: u64) -> (u64, u64) {
        const PROGRAMMING_STATUS: u64 = 1 << 63;
        const FLOW_DIRECTOR: u64 = 1 << 2;
        const DD: u64 = 1;
        (u64::from(id) << 32, PROGRAMMING_STATUS | error << 19 | FLOW_DIRECTOR | DD)
    }

    /// The filter of a received frame, counted.
    pub fn find(&self, registers: &mut Registers, frame: &[u8]) -> Option<Filter> {
        if self.table.is_empty() || registers.get(PFQF_CTL_0) & PFQF_CTL_0_FD_ENA == 0 {
            return None;
        }
        let class = rss::class_of(frame);
        let words = fields::of(frame, false).chosen(registers, &fields::FLOW_DIRECTOR, class);
        let filter = *self.table.get(&(class, words))?;
        if let Some(counter) = filter.counter {
            registers.count32(GLQF_PCNT + 4 * counter, 1);
        }
        Some(filter)
    }

    /// Takes all filters away.
    pub fn clear(&mut self, registers: &mut Registers) {
        self.table.clear();
        self.count(registers);
    }

    /// Reset of the function: its registers are cleared already.
    pub fn reset(&mut self) {
        self.table.clear();
    }

    fn count(&self, registers: &mut Registers) {
        let guaranteed = (self.table.len() as u32).min(GUARANTEED);
        let best_effort = self.table.len() as u32 - guaranteed;
        registers.set(PFQF_FDSTAT, guaranteed | best_effort << 16);
        registers.set(GLQF_FDCNT_0, guaranteed | best_effort << 13);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UDP: u64 = 31;
    const TO_QUEUE: u64 = 1 << 7;
    const ADD: u64 = 1 << 4;
    const REMOVE: u64 = 2 << 4;

    fn frame(from: u8, to: u8, port: u8) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        frame.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, from, 10, 0, 0, to]);
        frame.extend([0, port, 0, port, 0, 8, 0, 0]);
        frame.resize(60, 0);
        frame
    }

    fn fixture() -> (FlowDirector, Registers) {
        let (director, mut registers) = (FlowDirector::default(), Registers::new());
        registers.set(PFQF_CTL_0, PFQF_CTL_0_FD_ENA);
        (director, registers)
    }

    fn program(command: u64, id: u64) -> Program {
        Program(5 | UDP << 17 | 3 << 23, 8 | command | TO_QUEUE | 1 << 11 | 1 << 13 | 2 << 20 | id << 32)
    }

    /// A filter that was programmed with one direction of a flow finds the other, and counts it.
    #[test]
    fn a_filter_finds_the_way_back() {
        let (mut director, mut registers) = fixture();
        director.program(&mut registers, program(ADD, 77), &frame(1, 2, 9)).unwrap();
        assert_eq!(director.find(&mut registers, &frame(1, 2, 9)), None);
        let found = director.find(&mut registers, &frame(2, 1, 9)).unwrap();
        assert_eq!((found.queue, found.vsi, found.id, found.report), (5, 3, 77, true));
        assert_eq!(found.destination, Destination::Queue);
        assert_eq!(director.find(&mut registers, &frame(2, 1, 8)), None);
        assert_eq!((registers.get(GLQF_PCNT + 8), registers.get(PFQF_FDSTAT)), (1, 1));
        registers.set(PFQF_CTL_0, 0);
        assert_eq!(director.find(&mut registers, &frame(2, 1, 9)), None);
    }

    /// Quadwords as `i40e_check_fdir_programming_status` of DPDK reads them.
    #[test]
    fn what_fails_is_told() {
        let (mut director, mut registers) = fixture();
        let status = director.program(&mut registers, program(REMOVE, 9), &frame(1, 2, 9)).unwrap_err();
        assert_eq!(status, (9 << 32, 0x2000000 << 38 | 2 << 19 | 1 << 2 | 1));
        for n in 0..GUARANTEED + BEST_EFFORT {
            let frame = frame((n >> 8) as u8, n as u8, 9);
            director.program(&mut registers, program(ADD, 0), &frame).unwrap();
        }
        assert_eq!(registers.get(PFQF_FDSTAT), GUARANTEED | BEST_EFFORT << 16);
        let status = director.program(&mut registers, program(ADD, 1), &frame(77, 0, 9)).unwrap_err();
        assert_eq!(status, (1 << 32, 0x2000000 << 38 | 1 << 19 | 1 << 2 | 1));
        director.program(&mut registers, program(ADD, 1), &frame(0, 0, 9)).unwrap();
        director.clear(&mut registers);
        assert_eq!(registers.get(PFQF_FDSTAT), 0);
    }
}
