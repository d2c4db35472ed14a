//! A panic is a defect: it is told and ends the machine.

use core::panic::PanicInfo;

use super::{exceptions, exit, gdt};

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    use core::fmt::Write as _;
    exit::tell_the_end(|serial| {
        write!(serial, "\nbarewire: error: panic on core {}", gdt::core())?;
        if let Some(at) = info.location() {
            write!(serial, " at {at}")?;
        }
        writeln!(serial, ": {}", info.message())?;
        exceptions::backtrace(serial, exceptions::frame_pointer(), None);
        Ok(())
    })
}

/// The prebuilt standard library names it where it could unwind. Nothing ever does.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

/// The prebuilt libraries call it where one of their values would be dropped in passing.
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume() -> ! {
    exit::fatal(format_args!("unwinding, which nothing here does"))
}
