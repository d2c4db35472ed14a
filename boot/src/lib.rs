//! What the image needs to find out before it can forward, as far as it can be tested on a host: boot information,
//! ACPI tables, the memory map, the plan of page tables.
//!
//! The program itself is `src/image`.
#![no_std]

#[cfg(test)]
extern crate std;

pub mod acpi;
pub mod memory;
pub mod pvh;
