//! The console: a 16550 at 0x3F8. Every wait has a bound, and a machine without one loses text, not time.

use core::fmt;

use hal::bare::ports::{inb, outb};
use spin::mutex::SpinMutex;

const BASE: u16 = 0x3f8;
const DATA: u16 = BASE;
const INTERRUPTS: u16 = BASE + 1;
const FIFO: u16 = BASE + 2;
const LINE: u16 = BASE + 3;
const MODEM: u16 = BASE + 4;
const STATUS: u16 = BASE + 5;
const SCRATCH: u16 = BASE + 7;

const DATA_READY: u8 = 1 << 0;
const TRANSMIT_EMPTY: u8 = 1 << 5;

/// Reads of the status register for one byte: a byte takes 87 microseconds at 115200 baud, a read about one.
const PATIENCE: u32 = 2_000;

static SERIAL: SpinMutex<Serial> = SpinMutex::new(Serial { present: false, stuck: false });

/// The UART, if there is one.
pub struct Serial {
    present: bool,
    /// Nobody takes what is written: no more waiting until a byte passes.
    stuck: bool,
}

/// Looks for the UART and sets it to 115200 baud, 8 data bits, no parity.
pub fn init() {
    SERIAL.lock().start();
}

/// Runs `with` on the console. From an exception it may be taken in the middle of a line.
pub fn with<T>(with: impl FnOnce(&mut Serial) -> T) -> T {
    with(&mut SERIAL.lock())
}

/// As [`with`], from a place that must not wait for ever: another core finishes its line, and whoever does not, within a
/// bound, does not run any more.
pub fn with_forced<T>(with: impl FnOnce(&mut Serial) -> T) -> T {
    /// Looks at the lock: longer than a line takes.
    const LOOKS: u32 = 1_000_000;
    for _ in 0..LOOKS {
        if let Some(mut serial) = SERIAL.try_lock() {
            return with(&mut serial);
        }
        core::hint::spin_loop();
    }
    with(&mut Serial { present: true, stuck: false })
}

impl Serial {
    fn start(&mut self) {
        // SAFETY: the standard ports of a PC's first UART; writing them where none is does nothing.
        unsafe {
            outb(SCRATCH, 0x5a);
            self.present = inb(SCRATCH) == 0x5a && inb(STATUS) != 0xff;
            if !self.present {
                return;
            }
            outb(INTERRUPTS, 0);
            outb(LINE, 0x80); // divisor latch
            outb(DATA, 1);
            outb(INTERRUPTS, 0);
            outb(LINE, 0x03);
            outb(FIFO, 0x07);
            outb(MODEM, 0x03);
        }
    }

    fn put(&mut self, byte: u8) {
        if !self.present {
            return;
        }
        let patience = if self.stuck { 1 } else { PATIENCE };
        // SAFETY: only reads the status of the UART that `start` found.
        let ready = (0..patience).any(|_| unsafe { inb(STATUS) } & TRANSMIT_EMPTY != 0);
        self.stuck = !ready;
        if ready {
            // SAFETY: the UART's own data register.
            unsafe { outb(DATA, byte) };
        }
    }

    /// A byte that came in.
    pub fn get(&mut self) -> Option<u8> {
        if !self.present {
            return None;
        }
        // SAFETY: reads status and data of the UART that `start` found.
        unsafe {
            let status = inb(STATUS);
            (status != 0xff && status & DATA_READY != 0).then(|| inb(DATA))
        }
    }
}

impl fmt::Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if byte == b'\n' {
                self.put(b'\r');
            }
            self.put(byte);
        }
        Ok(())
    }
}
