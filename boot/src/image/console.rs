//! Lines out and in.

use heapless::String;

use super::serial;

/// Prints a line.
macro_rules! println {
    ($($arg:tt)*) => {
        $crate::image::serial::with(|serial| {
            use core::fmt::Write as _;
            // The console has no errors.
            let _ = writeln!(serial, $($arg)*);
        })
    };
}
pub(super) use println;

/// Longest line that is taken in; more is cut.
const LINE: usize = 80;

/// Collects a line from the console.
#[derive(Default)]
pub struct Input {
    line: String<LINE>,
}

impl Input {
    /// Takes in what has arrived; gives the line once its end has come. Bounded, whatever arrives.
    pub fn poll(&mut self) -> Option<String<LINE>> {
        for _ in 0..64 {
            match serial::with(|serial| serial.get())? {
                b'\r' | b'\n' if self.line.is_empty() => {}
                b'\r' | b'\n' => return Some(core::mem::take(&mut self.line)),
                byte => {
                    // A line that is too long is no command; its beginning is as good as all of it.
                    let _ = self.line.push(char::from(byte));
                }
            }
        }
        None
    }
}
