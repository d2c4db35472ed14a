//! The admin queues: commands in, answers and events out. Datasheet: "Admin Queue".

use crate::dma::GuestMemory;
use crate::faults::{AdminFault, Faults};
use crate::firmware::{Firmware, Reply, Request};
use crate::interrupt::{ICR0_ADMINQ, Interrupts};
use crate::regs::{self, Registers};
use crate::trace::Trace;

const DESC: u64 = 32;
const MAX_BUFFER: usize = 4096;
const FLAG_DD: u16 = 1 << 0;
const FLAG_CMP: u16 = 1 << 1;
const FLAG_ERR: u16 = 1 << 2;
const FLAG_RD: u16 = 1 << 10;
/// The command has a buffer.
pub const FLAG_BUF: u16 = 1 << 12;
const EFAULT: u16 = 11;

/// An event for the driver.
#[derive(Debug, Clone, Copy)]
pub struct Event {
    pub opcode: u16,
    pub params: [u8; 16],
    /// Bytes that its buffer is said to hold.
    pub length: u16,
}

struct Ring {
    base: u64,
    len: u32,
}

fn ring(registers: &Registers, low: u32, high: u32, len: u32) -> Option<Ring> {
    let length = registers.get(len);
    let base = u64::from(registers.get(high)) << 32 | u64::from(registers.get(low));
    let len = length & 0x3ff;
    (length & regs::AQLEN_ENABLE != 0 && len != 0).then_some(Ring { base, len })
}

/// Carries out every command up to PF_ATQT.
pub fn run(
    registers: &mut Registers,
    memory: &GuestMemory,
    firmware: &mut Firmware,
    faults: &mut Faults,
    mut trace: Option<&mut Trace>,
) {
    let Some(ring) = ring(registers, regs::PF_ATQBAL, regs::PF_ATQBAH, regs::PF_ATQLEN) else { return };
    let tail = registers.get(regs::PF_ATQT) & 0x3ff;
    let mut head = registers.get(regs::PF_ATQH) & 0x3ff;
    if tail >= ring.len || head >= ring.len {
        return;
    }
    while head != tail {
        let at = ring.base.wrapping_add(u64::from(head) * DESC);
        let mut desc = [0; 32];
        if memory.read(at, &mut desc).is_err() {
            return;
        }
        let opcode = u16::from_le_bytes([desc[2], desc[3]]);
        let (asked, fault) = (desc, faults.admin_fault(opcode));
        head = (head + 1) % ring.len;
        if let (Some(AdminFault::Never | AdminFault::Head(_)), Some(trace)) = (fault, &mut trace) {
            trace.command(&asked, None);
        }
        match fault {
            Some(AdminFault::Never) => return,
            Some(AdminFault::Late(events)) => {
                (faults.admin_late, faults.busy) = (events, true);
                return;
            }
            Some(AdminFault::Critical) => {
                let len = registers.get(regs::PF_ATQLEN);
                return registers.set(regs::PF_ATQLEN, len | regs::AQLEN_CRITICAL);
            }
            Some(AdminFault::Head(value)) => return registers.set(regs::PF_ATQH, value),
            Some(AdminFault::NotDone) => {}
            Some(AdminFault::Code(code)) => {
                let reply = Reply { code, ..Reply::default() };
                complete(memory, at, &mut desc, &reply);
            }
            None => {
                let reply = execute(registers, memory, firmware, faults, &desc);
                complete(memory, at, &mut desc, &reply);
            }
        }
        if let Some(trace) = &mut trace {
            trace.command(&asked, Some(&desc).filter(|desc| **desc != asked));
        }
        registers.set(regs::PF_ATQH, head);
    }
}

fn execute(
    registers: &mut Registers,
    memory: &GuestMemory,
    firmware: &mut Firmware,
    faults: &Faults,
    desc: &[u8; 32],
) -> Reply {
    let u16_at = |at: usize| u16::from_le_bytes([desc[at], desc[at + 1]]);
    let u32_at = |at: usize| u32::from(u16_at(at)) | u32::from(u16_at(at + 2)) << 16;
    let flags = u16_at(0);
    let mut params = [0; 16];
    params.copy_from_slice(&desc[16..]);
    let addr = u64::from(u32_at(24)) << 32 | u64::from(u32_at(28));
    let len = if flags & FLAG_BUF != 0 { usize::from(u16_at(4)).min(MAX_BUFFER) } else { 0 };
    let mut buffer = vec![0; len];
    if flags & FLAG_RD != 0 && memory.read(addr, &mut buffer).is_err() {
        return Reply { code: EFAULT, ..Reply::default() };
    }
    let request = Request { opcode: u16_at(2), params, buffer };
    let mut reply = firmware.command(request, registers, faults);
    if reply.buffer.len() > len {
        reply.buffer.truncate(len);
    }
    if len != 0 && memory.write(addr, &reply.buffer).is_err() {
        reply = Reply { code: EFAULT, ..Reply::default() };
    }
    if len != 0 {
        // A buffer's address stays where the driver put it.
        if let Some(params) = &mut reply.params {
            params[8..].copy_from_slice(&desc[24..]);
        }
    }
    reply
}

fn complete(memory: &GuestMemory, at: u64, desc: &mut [u8; 32], reply: &Reply) {
    if let Some(params) = reply.params {
        desc[16..].copy_from_slice(&params);
    }
    if let Some(len) = reply.data_len {
        desc[4..6].copy_from_slice(&len.to_le_bytes());
    }
    let mut flags = u16::from_le_bytes([desc[0], desc[1]]) | FLAG_DD | FLAG_CMP;
    if reply.code != 0 {
        flags |= FLAG_ERR;
    }
    desc[..2].copy_from_slice(&flags.to_le_bytes());
    desc[6..8].copy_from_slice(&reply.code.to_le_bytes());
    let first = u64::from_le_bytes(desc[..8].try_into().unwrap_or_default());
    let _ = memory.write(at.wrapping_add(8), &desc[8..]);
    let _ = memory.publish_u64(at, first);
}

/// Puts an event into the receive queue; says whether there was room.
pub fn post_event(
    registers: &mut Registers,
    memory: &GuestMemory,
    interrupts: &mut Interrupts,
    event: &Event,
) -> bool {
    let Some(ring) = ring(registers, regs::PF_ARQBAL, regs::PF_ARQBAH, regs::PF_ARQLEN) else { return false };
    let (head, tail) = (registers.get(regs::PF_ARQH) & 0x3ff, registers.get(regs::PF_ARQT) & 0x3ff);
    if head == tail || head >= ring.len || tail >= ring.len {
        return false;
    }
    let at = ring.base.wrapping_add(u64::from(head) * DESC);
    let mut desc = [0; 32];
    desc[2..4].copy_from_slice(&event.opcode.to_le_bytes());
    desc[4..6].copy_from_slice(&event.length.to_le_bytes());
    desc[..2].copy_from_slice(&(FLAG_DD | FLAG_CMP).to_le_bytes());
    desc[16..].copy_from_slice(&event.params);
    let first = u64::from_le_bytes(desc[..8].try_into().unwrap_or_default());
    if memory.write(at.wrapping_add(8), &desc[8..]).is_err() || memory.publish_u64(at, first).is_err() {
        return false;
    }
    registers.set(regs::PF_ARQH, (head + 1) % ring.len);
    interrupts.cause0(registers, ICR0_ADMINQ);
    true
}
