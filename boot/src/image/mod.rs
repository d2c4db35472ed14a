//! The program: entry, page tables, cores, exceptions, console, and the life of an [`App`] on the bare machine.

mod account;
mod app;
mod channel;
mod console;
mod cores;
mod driver;
mod entry;
mod exceptions;
mod exit;
mod forward;
mod gdt;
mod heap;
mod i40e;
mod links;
mod machine;
mod mem;
mod paging;
mod panic;
mod physical;
mod ports;
mod self_test;
mod self_test_devices;
mod serial;
mod streams;
mod trampoline;

use kernel::config::{Config, ConfigError};

pub use app::{App, Stock, StockDriver, StockError, StockPort, StockRx, StockTrouble, StockTx, StockWatch};
pub use channel::{CHANNEL_NAME, Channel};
pub use driver::{BringUpError, Driver, Found, PciDevice, PciDriver};
pub use i40e::I40eDriver;
pub use machine::{BootMachine, Window};

use crate::modes::Modes;
use console::println;

/// Rust begins here, with interrupts off, on the boot stack, in 64-bit mode, the first 4 GiB mapped one to one.
///
/// `start_info` is what the loader gave, `entered` the time stamp counter at the image's first instruction.
///
/// # Safety
/// Called by [`image!`](crate::image!) only: once, on the boot core of a bare machine, in that state.
pub unsafe fn main<A: App>(start_info: u64, entered: u64) -> ! {
    exceptions::init();
    // Before anything else is written: the loader's data may lie anywhere.
    let boot_info = crate::pvh::read(&physical::LowMemory, start_info);
    serial::init();
    let boot_info = boot_info.unwrap_or_else(|error| exit::fatal(format_args!("{error}")));
    exit::configure(Config::exit_option(&boot_info.command_line));
    let added = |name: &str| A::Modes::names().any(|known| known == name);
    let config = Config::parse_with(&boot_info.command_line, added).unwrap_or_else(|error| {
        exit::fatal(format_args!("{}", Refused::<A>(error, core::marker::PhantomData)))
    });
    exit::configure(config.exit);
    println!("barewire {}", env!("CARGO_PKG_VERSION"));
    let mut machine = machine::start(&boot_info);
    if let Some(wanted) = config.isa.filter(|wanted| *wanted > machine.level) {
        exit::fatal(format_args!("option --isa={wanted}: the best of this machine is {}", machine.level));
    }
    if let Some(name) = &config.self_test {
        self_test::run(name, &mut machine);
    }
    let ports = ports::bring_up::<A>(&mut machine, &config);
    forward::run::<A>(machine, ports, &config, entered)
}

/// Why the command line can't be taken; of a mode, with the names that this image adds.
struct Refused<A>(ConfigError, core::marker::PhantomData<A>);

impl<A: App> core::fmt::Display for Refused<A> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}", self.0)?;
        if self.0.option() == "--forward-mode" {
            A::Modes::names().try_for_each(|name| write!(f, ", or {name}"))?;
        }
        Ok(())
    }
}
