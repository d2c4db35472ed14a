//! A panic is a defect: it is told and ends the machine.

use core::panic::PanicInfo;

use crate::exceptions;
use crate::exit;
use crate::serial;

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    serial::with_forced(|serial| {
        use core::fmt::Write as _;
        let _ = match info.location() {
            Some(at) => writeln!(serial, "\nbarewire: error: panic at {at}: {}", info.message()),
            None => writeln!(serial, "\nbarewire: error: panic: {}", info.message()),
        };
        exceptions::backtrace(serial, exceptions::frame_pointer(), None);
    });
    exit::leave(false)
}

/// The prebuilt standard library names it where it could unwind. Nothing ever does.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
