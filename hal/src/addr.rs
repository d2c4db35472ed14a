//! Addresses: of memory as the CPU's page tables name it, and as a device names it.

use core::fmt;

/// A physical address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhysAddr(u64);

impl PhysAddr {
    /// The physical address `addr`.
    pub const fn new(addr: u64) -> Self {
        Self(addr)
    }

    /// The address as a number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// This address plus `bytes`, or `None` past the end of the address space.
    pub fn checked_add(self, bytes: u64) -> Option<Self> {
        self.0.checked_add(bytes).map(Self)
    }
}

/// An address that may be given to a device.
///
/// Only this crate makes one, from memory that the device is allowed to use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DmaAddr(u64);

impl DmaAddr {
    pub(crate) const fn new(addr: u64) -> Self {
        Self(addr)
    }

    /// The number that goes into a register or a descriptor.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// Bits 63:32, for registers that take an address in halves.
    pub const fn high(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Bits 31:0.
    pub const fn low(self) -> u32 {
        self.0 as u32
    }
}

impl fmt::Debug for PhysAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "phys {:#x}", self.0)
    }
}

impl fmt::Debug for DmaAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dma {:#x}", self.0)
    }
}
