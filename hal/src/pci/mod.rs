//! PCI functions: finding them, their BARs, turning them on. PCI Local Bus 3.0, PCI Express Base 3.0.

pub mod access;
pub mod bars;
pub mod bus;
pub mod capabilities;

use core::fmt;

pub use bars::{BarError, BarInfo};
pub use bus::{Function, Tree};

/// Bus, device and function number, in segment 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// 0 to 255.
    pub bus: u8,
    /// 0 to 31.
    pub device: u8,
    /// 0 to 7.
    pub function: u8,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x}:{:02x}.{}", self.bus, self.device, self.function)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Access to configuration space, 32 bits at a time at multiples of 4. A function that does not exist reads as all
/// ones.
pub trait ConfigSpace {
    /// Reads the register at `offset`.
    fn read(&self, at: Address, offset: u16) -> u32;
    /// Writes the register at `offset`.
    fn write(&mut self, at: Address, offset: u16, value: u32);
}

/// Offsets in the header.
pub(crate) mod header {
    pub const ID: u16 = 0x00;
    /// Command in the low half. The status in the high half clears bits that are written as 1, so zeros are
    /// written there.
    pub const COMMAND: u16 = 0x04;
    pub const CLASS: u16 = 0x08;
    pub const TYPE: u16 = 0x0c;
    pub const BAR0: u16 = 0x10;
    /// Primary, secondary and subordinate bus of a bridge.
    pub const BUSES: u16 = 0x18;

    pub const IO: u32 = 1 << 0;
    pub const MEMORY: u32 = 1 << 1;
    pub const BUS_MASTER: u32 = 1 << 2;
}

#[cfg(test)]
pub(crate) mod fake;
