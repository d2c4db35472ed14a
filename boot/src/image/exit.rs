//! The end of the machine.

use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};

use hal::bare::ports::{inb, outb, outl};
use kernel::config::Exit;

use super::serial::Serial;
use super::{cores, gdt, serial};

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

/// The core that tells why the machine ends.
static TELLER: AtomicU32 = AtomicU32::new(NOBODY);
const NOBODY: u32 = u32::MAX;

/// Another core is telling why the machine ends, and this one is to stand still.
pub fn another_core_ends() -> bool {
    let teller = TELLER.load(Ordering::Relaxed);
    teller != NOBODY && teller != gdt::core() as u32
}

/// Stops all other cores, lets `tell` say why the machine ends, and leaves with a failing status. Of several cores one
/// tells; one that fails while it tells leaves at once.
pub fn tell_the_end(tell: impl FnOnce(&mut Serial) -> fmt::Result) -> ! {
    let own = gdt::core() as u32;
    match TELLER.compare_exchange(NOBODY, own, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => {}
        Err(teller) if teller == own => leave(false),
        Err(_) => cores::rest(),
    }
    serial::with_forced(|serial| {
        cores::stop_others();
        // The console has no errors.
        let _ = tell(serial);
    });
    leave(false)
}

/// Prints `barewire: error: ...` and leaves with a failing status.
pub fn fatal(what: fmt::Arguments<'_>) -> ! {
    use core::fmt::Write as _;
    tell_the_end(|serial| writeln!(serial, "barewire: error: {what}"))
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
    cores::rest()
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
