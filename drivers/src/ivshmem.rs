//! ivshmem: memory of the host behind a BAR (QEMU's `docs/specs/ivshmem-spec.rst`).
//!
//! BAR2 is the memory. BAR0 holds registers for interrupts between guests, and `ivshmem-doorbell` has MSI-X besides; neither
//! is needed to share memory, so neither is looked at.

use alloc::vec::Vec;
use core::fmt;

use hal::PhysAddr;
use hal::pci::{Address, BarError, ConfigSpace, Function, Tree, bars};

/// Red Hat, as of all of QEMU's own devices.
const VENDOR: u16 = 0x1af4;
const DEVICE: u16 = 0x1110;
const MEMORY_BAR: u8 = 2;
/// Less is no page.
const LEAST: u64 = 4096;

/// Where the memory of a device lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The device.
    pub at: Address,
    /// Physical address; other devices know the memory by it, too.
    pub base: PhysAddr,
    /// Bytes, a power of two, at least 4096; 4 GiB and more are in order.
    pub size: u64,
}

/// Why the memory of a device can't be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// Its BAR.
    Bar(BarError),
    /// It has so few bytes.
    Size(Address, u64),
    /// The device does not turn memory decoding and bus mastering on.
    Decode(Address),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bar(error) => write!(f, "shared memory: {error}"),
            Self::Size(at, size) => {
                write!(f, "shared memory: BAR2 of {at} has {size} bytes, less than a page")
            }
            Self::Decode(at) => write!(f, "shared memory: {at} does not turn memory decoding on"),
        }
    }
}

impl core::error::Error for Error {}

/// It is an ivshmem device, of either kind.
pub fn is_ivshmem(function: &Function) -> bool {
    (function.vendor, function.device) == (VENDOR, DEVICE)
}

/// Finds every ivshmem device, in the order of their addresses. A BAR without a place gets the one that `free` gives for its
/// size, and the way to each is opened.
///
/// # Errors
/// Of the first one that can't be used: to leave it out would give the others wrong numbers.
pub fn find(
    tree: &Tree,
    config: &mut impl ConfigSpace,
    mut free: impl FnMut(u64) -> u64,
) -> Result<Vec<Place>, Error> {
    let mut places = Vec::new();
    for function in tree.functions.iter().filter(|function| is_ivshmem(function)) {
        let at = function.at;
        let bar = bars::probe_or_place(config, at, MEMORY_BAR, &mut free).map_err(Error::Bar)?;
        if bar.size < LEAST {
            return Err(Error::Size(at, bar.size));
        }
        if !tree.enable(config, at) {
            return Err(Error::Decode(at));
        }
        places.push(Place { at, base: bar.base, size: bar.size });
    }
    Ok(places)
}
