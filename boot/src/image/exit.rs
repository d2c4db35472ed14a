//! The end of the machine.

use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};

use hal::bare::ports::{inb, outb, outl};
use kernel::config::Exit;

use crate::serial;

/// Values for QEMU's isa-debug-exit, which ends QEMU with status `2 * value + 1`.
const SUCCESS: u32 = 0x10;
const FAILURE: u32 = 0x11;

const HALT: u32 = 0;
const REBOOT: u32 = 1;
/// With the port of isa-debug-exit above it.
const DEBUG_EXIT: u32 = 2;
const DEBUG_PORT_SHIFT: u32 = 8;

static HOW: AtomicU32 = AtomicU32::new(HALT);

/// Says how the machine is left.
pub fn configure(exit: Exit) {
    let how = match exit {
        Exit::Halt => HALT,
        Exit::Reboot => REBOOT,
        Exit::DebugExit(port) => u32::from(port) << DEBUG_PORT_SHIFT | DEBUG_EXIT,
    };
    HOW.store(how, Ordering::Relaxed);
}

/// Prints `barewire: error: ...` and leaves with a failing status.
pub fn fatal(what: fmt::Arguments<'_>) -> ! {
    serial::with_forced(|serial| {
        use core::fmt::Write as _;
        let _ = writeln!(serial, "barewire: error: {what}");
    });
    leave(false)
}

/// Leaves.
pub fn leave(good: bool) -> ! {
    match HOW.load(Ordering::Relaxed) {
        HALT => {}
        REBOOT => reboot(),
        port => {
            let value = if good { SUCCESS } else { FAILURE };
            // SAFETY: the port that the command line names for this; the write ends QEMU.
            unsafe { outl((port >> DEBUG_PORT_SHIFT) as u16, value) };
        }
    }
    loop {
        x86_64::instructions::interrupts::disable();
        x86_64::instructions::hlt();
    }
}

/// By the reset control register, else by the keyboard controller.
fn reboot() {
    const RESET_CONTROL: u16 = 0xcf9;
    const KEYBOARD_COMMAND: u16 = 0x64;
    const INPUT_FULL: u8 = 1 << 1;
    // SAFETY: the standard ways to reset a PC; the program has nothing left to lose.
    unsafe {
        outb(RESET_CONTROL, 0x02);
        outb(RESET_CONTROL, 0x06);
        for _ in 0..100_000 {
            if inb(KEYBOARD_COMMAND) & INPUT_FULL == 0 {
                break;
            }
        }
        outb(KEYBOARD_COMMAND, 0xfe);
    }
}
