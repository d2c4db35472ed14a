//! A port driver from outside: Intel's 82540EM, which QEMU has as `e1000`. One queue pair, frames of up to 1518 bytes,
//! polled, in safe Rust over `hal`'s registers and rings.
//!
//! Who writes what: the driver writes descriptors and then the tail; the card owns everything from its head up to the tail,
//! not including it, and sets DD in a descriptor when it is done with it. Here every descriptor is reported.
//!
//! Names and layouts are those of the PCI/PCI-X Family of Gigabit Ethernet Controllers Software Developer's Manual (317453),
//! whose sections are named where something is taken from them.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod error;
mod port;
mod regs;
mod rx;
#[cfg(test)]
mod tests;
mod tx;

pub use error::{Error, Trouble};
pub use port::E1000;
pub use rx::Rx;
pub use tx::Tx;

use hal::simd::{Isa, Level};
use kernel::port::Path;

/// The path of a queue that was allowed to run the loops of `isa`.
fn scalar(isa: Isa) -> Path {
    let reason = (isa.level() > Level::Scalar).then_some("this driver has no others");
    Path { level: Level::Scalar, kind: "", reason }
}
