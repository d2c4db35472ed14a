//! Model-specific registers.

use core::arch::asm;

/// Reads register `msr`.
///
/// # Safety
/// Ring 0, on a CPU that has the register: another one is a general protection fault.
pub unsafe fn read(msr: u32) -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: the caller's promise; the instruction touches no memory.
    unsafe {
        asm!("rdmsr", in("ecx") msr, out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags));
    }
    u64::from(high) << 32 | u64::from(low)
}

/// Writes register `msr`.
///
/// # Safety
/// As for [`read`]; the CPU takes the value, and what it then does breaks no rule of the language.
pub unsafe fn write(msr: u32, value: u64) {
    let (low, high) = (value as u32, (value >> 32) as u32);
    // SAFETY: the caller's promise. Not `nomem`: the write may send another core on its way, which reads memory.
    unsafe {
        asm!("wrmsr", in("ecx") msr, in("eax") low, in("edx") high, options(nostack, preserves_flags));
    }
}
