//! Causes, vectors and MSI-X. Datasheet: "Interrupts".

use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::pci::VECTORS;
use crate::regs::{self, Registers};

const INTENA: u32 = 1 << 0;
const SWINT_TRIG: u32 = 1 << 2;
const INTENA_MSK: u32 = 1 << 31;
const CAUSE_ENA: u32 = 1 << 30;
const DIS_AUTOMASK_PF0: u32 = 1 << 0;
const DIS_AUTOMASK_N: u32 = 1 << 2;
const ICR0_INTEVENT: u32 = 1 << 0;
/// An event of the firmware waits in the admin receive queue.
pub const ICR0_ADMINQ: u32 = 1 << 30;
/// The time of a sent frame is there.
pub const ICR0_TIMESYNC: u32 = 1 << 23;
const ICR0_SWINT: u32 = 1 << 31;
/// Causes that PFINT_ICR0_ENA lets through.
const ICR0_CAUSES: u32 = 0x7fff_0000;
/// Events of queues that are bound to vector 0.
const ICR0_QUEUES: u32 = 0x1fe;

/// Vectors and what waits for them.
pub struct Interrupts {
    events: Vec<Option<OwnedFd>>,
    pending: Vec<bool>,
    /// Interrupts that were sent.
    pub sent: u64,
}

impl Interrupts {
    pub fn new() -> Self {
        let vectors = VECTORS as usize;
        Self { events: (0..vectors).map(|_| None).collect(), pending: vec![false; vectors], sent: 0 }
    }

    pub fn connect(&mut self, vector: u32, event: Option<OwnedFd>) {
        if let Some(slot) = self.events.get_mut(vector as usize) {
            *slot = event;
        }
    }

    pub fn reset(&mut self) {
        self.pending.fill(false);
    }

    fn send(&mut self, vector: usize) {
        if let Some(Some(event)) = self.events.get(vector) {
            // The file is the client's choice: one that would block, such as a full counter, is not waited for.
            let mut ready = [PollFd::new(event, PollFlags::OUT)];
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            if poll(&mut ready, Some(&at_once)).is_ok_and(|count| count > 0) {
                let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
            }
            self.sent += 1;
        }
    }

    /// A queue's event; `control` is the offset of its QINT_RQCTL or QINT_TQCTL.
    pub fn queue_event(&mut self, registers: &mut Registers, control: u32) {
        let control = registers.get(control);
        if control & CAUSE_ENA == 0 {
            return;
        }
        match control & 0xff {
            0 => {
                let bit = 1 << (1 + (control >> 13 & 7));
                self.cause0(registers, bit);
            }
            vector => {
                if let Some(pending) = self.pending.get_mut(vector as usize) {
                    *pending = true;
                    self.deliver(registers, vector);
                }
            }
        }
    }

    /// A cause of vector 0.
    pub fn cause0(&mut self, registers: &mut Registers, bit: u32) {
        registers.set(regs::PFINT_ICR0, registers.get(regs::PFINT_ICR0) | bit | ICR0_INTEVENT);
        self.deliver0(registers);
    }

    /// Sends vector 0 if a cause that is enabled waits. Queues and software have no bit to enable.
    pub fn deliver0(&mut self, registers: &mut Registers) {
        let causes = registers.get(regs::PFINT_ICR0);
        let enabled = registers.get(regs::PFINT_ICR0_ENA) & ICR0_CAUSES | ICR0_QUEUES | ICR0_SWINT;
        let control = registers.get(regs::PFINT_DYN_CTL0);
        if causes & enabled != 0 && control & INTENA != 0 {
            if registers.get(regs::GLINT_CTL) & DIS_AUTOMASK_PF0 == 0 {
                registers.set(regs::PFINT_DYN_CTL0, control & !INTENA);
            }
            self.send(0);
        }
    }

    fn deliver(&mut self, registers: &mut Registers, vector: u32) {
        let offset = regs::PFINT_DYN_CTLN + 4 * (vector - 1);
        let control = registers.get(offset);
        let waiting = self.pending.get(vector as usize).copied().unwrap_or(false);
        if waiting && control & INTENA != 0 {
            if let Some(pending) = self.pending.get_mut(vector as usize) {
                *pending = false;
            }
            if registers.get(regs::GLINT_CTL) & DIS_AUTOMASK_N == 0 {
                registers.set(offset, control & !INTENA);
            }
            self.send(vector as usize);
        }
    }

    /// A write of PFINT_DYN_CTL0 (vector 0) or PFINT_DYN_CTLN.
    pub fn write_control(&mut self, registers: &mut Registers, vector: u32, value: u32) {
        if vector >= VECTORS {
            return;
        }
        let offset = match vector {
            0 => regs::PFINT_DYN_CTL0,
            _ => regs::PFINT_DYN_CTLN + 4 * (vector - 1),
        };
        let enabled = if value & INTENA_MSK != 0 { registers.get(offset) & INTENA } else { value & INTENA };
        registers.set(offset, value & !(SWINT_TRIG | INTENA_MSK | INTENA) | enabled);
        let by_software = value & SWINT_TRIG != 0;
        match vector {
            0 if by_software => self.cause0(registers, ICR0_SWINT),
            0 => self.deliver0(registers),
            _ => {
                if let (true, Some(pending)) = (by_software, self.pending.get_mut(vector as usize)) {
                    *pending = true;
                }
                self.deliver(registers, vector);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

    fn taken(event: &OwnedFd) -> u64 {
        let mut count = [0; 8];
        match rustix::io::read(event.as_fd(), &mut count) {
            Ok(_) => u64::from_ne_bytes(count),
            Err(_) => 0,
        }
    }

    fn with_event(vector: u32) -> (Interrupts, Registers, OwnedFd) {
        let event = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        let mut interrupts = Interrupts::new();
        interrupts.connect(vector, Some(event.try_clone().unwrap()));
        (interrupts, Registers::new(), event)
    }

    /// An event while the vector is masked is kept, sent once it is enabled, and masks the vector again.
    #[test]
    fn a_masked_event_is_sent_when_the_vector_is_enabled() {
        let (mut interrupts, mut registers, event) = with_event(5);
        registers.set(regs::QINT_RQCTL, 5 | CAUSE_ENA);
        interrupts.queue_event(&mut registers, regs::QINT_RQCTL);
        interrupts.queue_event(&mut registers, regs::QINT_RQCTL);
        assert_eq!(taken(&event), 0);
        interrupts.write_control(&mut registers, 5, INTENA);
        assert_eq!((taken(&event), registers.get(regs::PFINT_DYN_CTLN + 16) & INTENA), (1, 0));
        interrupts.write_control(&mut registers, 5, INTENA);
        assert_eq!(taken(&event), 0);
        interrupts.queue_event(&mut registers, regs::QINT_RQCTL);
        assert_eq!(taken(&event), 1);
    }

    #[test]
    fn a_cause_that_is_not_enabled_waits_in_icr0() {
        let (mut interrupts, mut registers, event) = with_event(0);
        interrupts.write_control(&mut registers, 0, INTENA);
        interrupts.cause0(&mut registers, ICR0_ADMINQ);
        assert_eq!(taken(&event), 0);
        registers.set(regs::PFINT_ICR0_ENA, ICR0_ADMINQ);
        interrupts.deliver0(&mut registers);
        assert_eq!((taken(&event), registers.get(regs::PFINT_ICR0)), (1, ICR0_ADMINQ | ICR0_INTEVENT));
    }

    #[test]
    fn software_can_trigger_and_leave_the_mask_alone() {
        let (mut interrupts, mut registers, event) = with_event(1);
        interrupts.write_control(&mut registers, 1, INTENA);
        interrupts.write_control(&mut registers, 1, SWINT_TRIG | INTENA_MSK);
        assert_eq!(taken(&event), 1);
        interrupts.write_control(&mut registers, 400, INTENA);
        // Vector 0 as Linux's self-test has it: no cause is enabled for it.
        let (mut interrupts, mut registers, event) = with_event(0);
        interrupts.write_control(&mut registers, 0, INTENA | SWINT_TRIG | 3 << 3);
        assert_eq!((taken(&event), registers.get(regs::PFINT_ICR0)), (1, ICR0_SWINT | ICR0_INTEVENT));
    }
}
