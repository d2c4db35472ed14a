//! The console: a 16550 at 0x3F8. Every wait has a bound, and a machine without one loses text, not time. A second one at
//! 0x2F8 is for whoever wants it.

use core::fmt;

use hal::bare::ports::{inb, outb};
use spin::mutex::SpinMutex;

const FIRST: u16 = 0x3f8;
const SECOND: u16 = 0x2f8;

/// Registers, from the base on.
const DATA: u16 = 0;
const INTERRUPTS: u16 = 1;
const FIFO: u16 = 2;
const LINE: u16 = 3;
const MODEM: u16 = 4;
const STATUS: u16 = 5;
const SCRATCH: u16 = 7;

const DATA_READY: u8 = 1 << 0;
const TRANSMIT_EMPTY: u8 = 1 << 5;

/// Reads of the status register for one byte: a byte takes 87 microseconds at 115200 baud, a read about one.
const PATIENCE: u32 = 2_000;

static SERIAL: SpinMutex<Serial> = SpinMutex::new(Serial::at(FIRST));

/// The UART, if there is one.
pub struct Serial {
    base: u16,
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
    with(&mut Serial { present: true, ..Serial::at(FIRST) })
}

/// The second UART, if there is one. Asked for once.
pub fn second() -> Option<Serial> {
    let mut serial = Serial::at(SECOND);
    serial.start();
    serial.present.then_some(serial)
}

impl Serial {
    /// Bytes that a 16550 takes at once when it has sent what it had.
    const FIFO_BYTES: usize = 16;

    const fn at(base: u16) -> Self {
        Self { base, present: false, stuck: false }
    }

    fn start(&mut self) {
        // SAFETY: the standard ports of a PC's UARTs; writing them where none is does nothing.
        unsafe {
            outb(self.base + SCRATCH, 0x5a);
            self.present = inb(self.base + SCRATCH) == 0x5a && inb(self.base + STATUS) != 0xff;
            if !self.present {
                return;
            }
            outb(self.base + INTERRUPTS, 0);
            outb(self.base + LINE, 0x80); // divisor latch
            outb(self.base + DATA, 1);
            outb(self.base + INTERRUPTS, 0);
            outb(self.base + LINE, 0x03);
            outb(self.base + FIFO, 0x07);
            outb(self.base + MODEM, 0x03);
        }
    }

    fn put(&mut self, byte: u8) {
        if !self.present {
            return;
        }
        let patience = if self.stuck { 1 } else { PATIENCE };
        // SAFETY: only reads the status of the UART that `start` found.
        let ready = (0..patience).any(|_| unsafe { inb(self.base + STATUS) } & TRANSMIT_EMPTY != 0);
        self.stuck = !ready;
        if ready {
            // SAFETY: the UART's own data register.
            unsafe { outb(self.base + DATA, byte) };
        }
    }

    /// Writes as much of the beginning of `from` as it takes at once; returns how many bytes.
    pub fn put_some(&mut self, from: &[u8]) -> usize {
        // SAFETY: only reads the status of the UART that `start` found.
        let status = if self.present { unsafe { inb(self.base + STATUS) } } else { 0xff };
        if status == 0xff || status & TRANSMIT_EMPTY == 0 {
            return 0;
        }
        let taken = &from[..from.len().min(Self::FIFO_BYTES)];
        for byte in taken {
            // SAFETY: the UART's own data register; its FIFO is empty.
            unsafe { outb(self.base + DATA, *byte) };
        }
        taken.len()
    }

    /// A byte that came in.
    pub fn get(&mut self) -> Option<u8> {
        if !self.present {
            return None;
        }
        // SAFETY: reads status and data of the UART that `start` found.
        unsafe {
            let status = inb(self.base + STATUS);
            (status != 0xff && status & DATA_READY != 0).then(|| inb(self.base + DATA))
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
