//! A core's local APIC: who it is, and messages from core to core. Intel SDM volume 3A, chapter "Advanced Programmable
//! Interrupt Controller".
//!
//! Registers are reached by memory (xAPIC, identifiers of 8 bits) or as MSRs (x2APIC, 32 bits). All cores of a machine
//! use the same way.

use core::arch::x86_64::{_mm_lfence, _mm_mfence};
use core::fmt;
use core::hint::spin_loop;

use raw_cpuid::CpuId;

use super::{MmioBar, msr};
use crate::{Bar, PhysAddr};

const IA32_APIC_BASE: u32 = 0x1b;
const ENABLE: u64 = 1 << 11;
const X2APIC: u64 = 1 << 10;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;
/// MSR of the x2APIC register whose offset in memory is 0; one MSR for each 16 bytes.
const X2APIC_MSRS: u32 = 0x800;

/// Offsets of registers.
mod register {
    pub const ID: u32 = 0x20;
    pub const EOI: u32 = 0xb0;
    pub const SPURIOUS: u32 = 0xf0;
    pub const COMMAND_LOW: u32 = 0x300;
    pub const COMMAND_HIGH: u32 = 0x310;
}

/// Software enable, in the spurious interrupt vector register.
const SOFTWARE_ENABLE: u32 = 1 << 8;
/// A message was not accepted yet; xAPIC only.
const PENDING: u32 = 1 << 12;
/// Level "assert": every message but the obsolete INIT deassert has it.
const ASSERT: u32 = 1 << 14;
/// Reads of the command register for one message: it is accepted within microseconds.
const PATIENCE: u32 = 100_000;

/// What a core can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// Reset, and wait for a start.
    Init,
    /// Start in real mode at this page (0x01 to 0x9f), if the core waits for that.
    Start(u8),
    /// A non-maskable interrupt.
    Nmi,
    /// The interrupt with this vector.
    Interrupt(u8),
}

impl Message {
    const fn command(self) -> u32 {
        ASSERT
            | match self {
                Self::Interrupt(vector) => vector as u32,
                Self::Nmi => 0b100 << 8,
                Self::Init => 0b101 << 8,
                Self::Start(page) => 0b110 << 8 | page as u32,
            }
    }
}

/// Why there is no local APIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApicError {
    /// The CPU has none.
    Missing,
    /// Its registers, at this address, can't be reached.
    Window(PhysAddr),
    /// A message stayed in the command register, whose value this is.
    Stuck(u32),
    /// An xAPIC can't name this core: its identifier has more than 8 bits, or means all cores.
    Identifier(u32),
}

impl fmt::Display for ApicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("the CPU has no local APIC"),
            Self::Window(at) => write!(f, "local APIC: its registers at {at:?} can't be reached"),
            Self::Stuck(value) => {
                write!(f, "local APIC: a message was not accepted, command register {value:#x}")
            }
            Self::Identifier(id) => write!(f, "local APIC: an xAPIC can't name core {id:#x}"),
        }
    }
}

/// The way to the local APIC of whichever core asks.
#[derive(Clone, Copy)]
pub enum LocalApic {
    /// Model-specific registers.
    X2apic,
    /// Memory, at the same address on each core.
    Xapic(MmioBar),
}

impl LocalApic {
    /// Bytes of the registers in memory.
    pub const WINDOW: u64 = 4096;

    /// Turns the boot core's local APIC on: as x2APIC where the CPU has that. Else `window` maps the registers, at the
    /// address that the CPU names.
    ///
    /// # Errors
    /// The CPU has no local APIC, or its registers can't be mapped.
    ///
    /// # Safety
    /// Ring 0, on the boot core; nothing else uses the local APIC.
    pub unsafe fn enable(window: impl FnOnce(PhysAddr) -> Option<MmioBar>) -> Result<Self, ApicError> {
        let features = CpuId::new().get_feature_info().ok_or(ApicError::Missing)?;
        if !features.has_apic() {
            return Err(ApicError::Missing);
        }
        // SAFETY: every CPU with a local APIC that runs 64-bit code has the register.
        let base = unsafe { msr::read(IA32_APIC_BASE) };
        let apic = if base & X2APIC != 0 || features.has_x2apic() {
            Self::X2apic
        } else {
            let at = PhysAddr::new(base & ADDRESS);
            Self::Xapic(window(at).ok_or(ApicError::Window(at))?)
        };
        // SAFETY: the caller's promise; the way was chosen by what the CPU has.
        unsafe { apic.join() };
        Ok(apic)
    }

    /// Turns this core's local APIC on, in the same way as the boot core's.
    ///
    /// # Safety
    /// Ring 0, on a core like the one that [`LocalApic::enable`] ran on.
    pub unsafe fn join(self) {
        let wanted = match self {
            Self::X2apic => ENABLE | X2APIC,
            Self::Xapic(_) => ENABLE,
        };
        // SAFETY: the register is there; from off to xAPIC to x2APIC are legal changes, one at a time.
        unsafe {
            let base = msr::read(IA32_APIC_BASE);
            if base & ENABLE == 0 {
                msr::write(IA32_APIC_BASE, base | ENABLE);
            }
            if base & wanted != wanted {
                msr::write(IA32_APIC_BASE, base | wanted);
            }
        }
    }

    /// Its way's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::X2apic => "x2apic",
            Self::Xapic(_) => "xapic",
        }
    }

    /// Identifier of the core that asks.
    pub fn id(self) -> u32 {
        match self {
            Self::X2apic => self.read(register::ID),
            Self::Xapic(_) => self.read(register::ID) >> 24,
        }
    }

    /// Lets interrupts in; those that vanish before they are looked at come as `spurious`.
    pub fn accept_interrupts(self, spurious: u8) {
        self.write(register::SPURIOUS, SOFTWARE_ENABLE | u32::from(spurious));
    }

    /// The interrupt that was delivered last has been seen.
    pub fn end_of_interrupt(self) {
        self.write(register::EOI, 0);
    }

    /// Sends `message` to the core with identifier `id`.
    ///
    /// # Errors
    /// It could not be addressed, or was not accepted within a bound.
    ///
    /// # Safety
    /// What the other core then does breaks no rule of the language: the code that it starts or interrupts is there.
    pub unsafe fn send(self, id: u32, message: Message) -> Result<(), ApicError> {
        let command = message.command();
        match self {
            Self::X2apic => {
                // A write of this MSR waits for no store: what the other core is to see must be out before.
                fence();
                let value = u64::from(id) << 32 | u64::from(command);
                // SAFETY: x2APIC is on, so the register is there; the rest is the caller's promise.
                unsafe { msr::write(X2APIC_MSRS + register::COMMAND_LOW / 16, value) };
                Ok(())
            }
            Self::Xapic(_) if id >= 0xff => Err(ApicError::Identifier(id)),
            Self::Xapic(_) => {
                self.wait_accepted()?;
                self.write(register::COMMAND_HIGH, id << 24);
                self.write(register::COMMAND_LOW, command);
                self.wait_accepted()
            }
        }
    }

    fn wait_accepted(self) -> Result<(), ApicError> {
        for _ in 0..PATIENCE {
            if self.read(register::COMMAND_LOW) & PENDING == 0 {
                return Ok(());
            }
            spin_loop();
        }
        Err(ApicError::Stuck(self.read(register::COMMAND_LOW)))
    }

    fn read(self, register: u32) -> u32 {
        match self {
            // SAFETY: x2APIC is on, and each register named above can be read.
            Self::X2apic => unsafe { msr::read(X2APIC_MSRS + register / 16) as u32 },
            Self::Xapic(window) => window.read32(register),
        }
    }

    fn write(self, register: u32, value: u32) {
        match self {
            // SAFETY: x2APIC is on; the values are those that the registers take, and none of them starts a core.
            Self::X2apic => unsafe { msr::write(X2APIC_MSRS + register / 16, value.into()) },
            Self::Xapic(window) => window.write32(register, value),
        }
    }
}

/// All stores before this are visible before anything behind it is done.
fn fence() {
    // SAFETY: SSE2, which every x86-64 CPU has.
    unsafe {
        _mm_mfence();
        _mm_lfence();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SDM volume 3A, figure "Interrupt Command Register": delivery mode in bits 10:8, level in bit 14; the values are
    /// those of the multiprocessor start-up example in the same volume, 0xC4500 and 0xC46xx without their shorthand.
    #[test]
    fn commands() {
        assert_eq!(Message::Init.command(), 0x4500);
        assert_eq!(Message::Start(0x9e).command(), 0x469e);
        assert_eq!(Message::Nmi.command(), 0x4400);
        assert_eq!(Message::Interrupt(0xf0).command(), 0x40f0);
    }
}
