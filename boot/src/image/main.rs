//! The image: a program that is the whole software of a machine.
//!
//! Wires concrete types: the bare machine, its cores and PCI functions, i40e ports, the loop of each core, a serial
//! console.
#![no_std]
#![no_main]

extern crate alloc;

mod account;
mod console;
mod cores;
mod entry;
mod exceptions;
mod exit;
mod forward;
mod gdt;
mod heap;
mod links;
mod machine;
mod mem;
mod paging;
mod panic;
mod physical;
mod ports;
mod self_test;
mod serial;
mod streams;
mod trampoline;

use kernel::config::Config;

use crate::console::println;

/// Rust begins here, with interrupts off, on the boot stack, in 64-bit mode, the first 4 GiB mapped one to one.
///
/// `start_info` is what the loader gave, `entered` the time stamp counter at the image's first instruction.
extern "C" fn image_main(start_info: u64, entered: u64) -> ! {
    exceptions::init();
    // Before anything else is written: the loader's data may lie anywhere.
    let boot_info = boot::pvh::read(&physical::LowMemory, start_info);
    serial::init();
    let boot_info = boot_info.unwrap_or_else(|error| exit::fatal(format_args!("{error}")));
    exit::configure(Config::exit_option(&boot_info.command_line));
    let config = match Config::parse(&boot_info.command_line) {
        Ok(config) => config,
        Err(error) => exit::fatal(format_args!("{error}")),
    };
    exit::configure(config.exit);
    println!("barewire {}", env!("CARGO_PKG_VERSION"));
    let mut machine = machine::start(&boot_info);
    if let Some(wanted) = config.isa.filter(|wanted| *wanted > machine.level) {
        exit::fatal(format_args!("option --isa={wanted}: the best of this machine is {}", machine.level));
    }
    if let Some(name) = &config.self_test {
        self_test::run(name, &machine.cores);
    }
    let ports = ports::bring_up(&mut machine, &config);
    forward::run(machine, ports, &config, entered)
}
