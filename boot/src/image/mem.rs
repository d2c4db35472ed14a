//! The memory functions that the compiler calls by name; for the host's target the standard library leaves them to
//! the C library, which is not here. String instructions, so that the compiler can't turn a loop into a call of
//! itself.

use core::arch::asm;

/// # Safety
/// As C's `memcpy`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    // SAFETY: the caller's promise: `len` bytes at both, which don't overlap. The direction flag is clear in Rust.
    unsafe {
        asm!("rep movsb", inout("rcx") len => _, inout("rdi") to => _, inout("rsi") from => _,
            options(nostack, preserves_flags));
    }
    to
}

/// # Safety
/// As C's `memmove`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    if to.addr().wrapping_sub(from.addr()) >= len {
        // SAFETY: the destination does not begin inside of the source, so that copying upward reads each byte before
        // it is overwritten.
        return unsafe { memcpy(to, from, len) };
    }
    // SAFETY: the caller's promise; downward, from the last byte on, with the direction flag set meanwhile.
    unsafe {
        asm!("std", "rep movsb", "cld", inout("rcx") len => _, inout("rdi") to.wrapping_add(len).wrapping_sub(1) => _,
            inout("rsi") from.wrapping_add(len).wrapping_sub(1) => _, options(nostack));
    }
    to
}

/// # Safety
/// As C's `memset`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, value: i32, len: usize) -> *mut u8 {
    let word = u64::from(value as u8) * 0x0101_0101_0101_0101;
    // SAFETY: the caller's promise: `len` bytes at `to`. By eights first: where strings are emulated, a step costs the
    // same whatever its width.
    unsafe {
        asm!("rep stosq", "mov rcx, {rest}", "rep stosb", rest = in(reg) len % 8,
            inout("rcx") len / 8 => _, inout("rdi") to => _, in("rax") word, options(nostack, preserves_flags));
    }
    to
}

/// # Safety
/// As C's `memcmp`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(left: *const u8, right: *const u8, len: usize) -> i32 {
    for i in 0..len {
        // SAFETY: the caller's promise: `len` bytes at both. Volatile, so that the loop stays a loop.
        let (a, b) = unsafe { (left.add(i).read_volatile(), right.add(i).read_volatile()) };
        if a != b {
            return i32::from(a) - i32::from(b);
        }
    }
    0
}

/// # Safety
/// As C's `bcmp`.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(left: *const u8, right: *const u8, len: usize) -> i32 {
    // SAFETY: the caller's promise is the same.
    unsafe { memcmp(left, right, len) }
}
