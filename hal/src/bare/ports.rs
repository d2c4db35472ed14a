//! I/O ports.

use core::arch::asm;

/// Reads a byte.
///
/// # Safety
/// Reading the port does nothing that breaks a rule of the language: no device writes to memory of this program
/// in answer.
pub unsafe fn inb(port: u16) -> u8 {
    let value;
    // SAFETY: the instruction touches no memory; the rest is the caller's promise.
    unsafe { asm!("in al, dx", out("al") value, in("dx") port, options(nomem, nostack, preserves_flags)) };
    value
}

/// Writes a byte.
///
/// # Safety
/// As for [`inb`], for writing.
pub unsafe fn outb(port: u16, value: u8) {
    // SAFETY: as in `inb`.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nomem, nostack, preserves_flags)) };
}

/// Reads four bytes.
///
/// # Safety
/// As for [`inb`].
pub unsafe fn inl(port: u16) -> u32 {
    let value;
    // SAFETY: as in `inb`.
    unsafe { asm!("in eax, dx", out("eax") value, in("dx") port, options(nomem, nostack, preserves_flags)) };
    value
}

/// Writes four bytes.
///
/// # Safety
/// As for [`outb`].
pub unsafe fn outl(port: u16, value: u32) {
    // SAFETY: as in `inb`.
    unsafe { asm!("out dx, eax", in("dx") port, in("eax") value, options(nomem, nostack, preserves_flags)) };
}
