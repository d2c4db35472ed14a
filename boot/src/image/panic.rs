//! A panic is a defect: it is told and ends the machine.

use core::panic::PanicInfo;

use crate::{exceptions, exit};

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    use core::fmt::Write as _;
    exit::tell_the_end(|serial| {
        match info.location() {
            Some(at) => writeln!(serial, "\nbarewire: error: panic at {at}: {}", info.message())?,
            None => writeln!(serial, "\nbarewire: error: panic: {}", info.message())?,
        }
        exceptions::backtrace(serial, exceptions::frame_pointer(), None);
        Ok(())
    })
}

/// The prebuilt standard library names it where it could unwind. Nothing ever does.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
