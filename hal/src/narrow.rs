//! Register windows with registers narrower than 32 bits.

use crate::Bar;

/// A window that can be accessed 8 and 16 bits at a time, too. As for [`Bar`]: an access that does not lie inside or is not
/// aligned reads as all ones and is not written.
pub trait NarrowBar: Bar {
    /// The 8-bit register at `offset`.
    fn read8(&self, offset: u32) -> u8;
    /// The 16-bit register at `offset`.
    fn read16(&self, offset: u32) -> u16;
    /// Writes the 8-bit register at `offset`.
    fn write8(&self, offset: u32, value: u8);
    /// Writes the 16-bit register at `offset`.
    fn write16(&self, offset: u32, value: u16);
}
