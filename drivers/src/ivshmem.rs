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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::string::ToString;
    use std::vec;

    use super::*;

    /// Functions with one wide BAR2 of a size, at a place.
    struct Fake {
        words: BTreeMap<(Address, u16), u32>,
        sizes: BTreeMap<Address, u64>,
    }

    impl Fake {
        fn new(devices: &[(u8, u8, u64, u64)]) -> (Self, Tree) {
            let mut fake = Self { words: BTreeMap::new(), sizes: BTreeMap::new() };
            for (bus, device, base, size) in devices {
                let at = Address { bus: *bus, device: *device, function: 0 };
                let (low, high) = (*base as u32 | 0xc, (*base >> 32) as u32);
                for (offset, value) in [(0, 0x1110_1af4), (4, 0), (8, 0), (12, 0), (0x18, low), (0x1c, high)]
                {
                    fake.words.insert((at, offset), value);
                }
                fake.sizes.insert(at, *size);
            }
            let bridge = Address { bus: 0, device: 31, function: 0 };
            for (offset, value) in [(0, 0x000c_1b36), (4, 0), (8, 0), (12, 1 << 16), (0x18, 1 << 8)] {
                fake.words.insert((bridge, offset), value);
            }
            let tree = Tree::scan(&fake);
            (fake, tree)
        }
    }

    impl ConfigSpace for Fake {
        fn read(&self, at: Address, offset: u16) -> u32 {
            self.words.get(&(at, offset)).copied().unwrap_or(u32::MAX)
        }
        fn write(&mut self, at: Address, offset: u16, value: u32) {
            let mask = self.sizes.get(&at).map_or(u64::MAX, |size| size.wrapping_neg());
            let value = match offset {
                0x18 if self.sizes.contains_key(&at) => value & mask as u32 | 0xc,
                0x1c => value & (mask >> 32) as u32,
                _ => value,
            };
            self.words.insert((at, offset), value);
        }
    }

    /// Places above 4 GiB, sizes that 32 bits don't hold, one without a place, one behind a bridge.
    #[test]
    fn memory_of_every_size_is_found_in_order() {
        let (mut fake, tree) =
            Fake::new(&[(1, 0, 0xfe_0000_0000, 4 << 30), (0, 3, 0, 8 << 30), (0, 2, 0xf000_0000, 1 << 20)]);
        let found = find(&tree, &mut fake, |size| 16 * size).unwrap();
        let found: vec::Vec<_> =
            found.iter().map(|place| (place.at.to_string(), place.base.as_u64(), place.size)).collect();
        let want = [
            ("00:02.0", 0xf000_0000, 1 << 20),
            ("00:03.0", 128 << 30, 8 << 30),
            ("01:00.0", 0xfe_0000_0000, 4_u64 << 30),
        ];
        assert!(found.iter().map(|(at, base, size)| (at.as_str(), *base, *size)).eq(want), "{found:x?}");
        for at in [(0, 2), (0, 3), (1, 0), (0, 31)] {
            let at = Address { bus: at.0, device: at.1, function: 0 };
            assert_eq!(fake.read(at, 4) & 6, 6, "{at}");
        }
    }

    #[test]
    fn what_can_not_be_used_is_named() {
        let (mut fake, tree) = Fake::new(&[(0, 2, 0xf000_0000, 1024)]);
        let error = find(&tree, &mut fake, |_| 0).unwrap_err();
        assert_eq!(error.to_string(), "shared memory: BAR2 of 00:02.0 has 1024 bytes, less than a page");
        let (mut fake, tree) = Fake::new(&[(1, 0, 0, 1 << 20)]);
        let error = find(&tree, &mut fake, |_| 1 << 40).unwrap_err().to_string();
        assert!(error.contains("BAR2 of 01:00.0") && error.contains("bridges"), "{error}");
        let (mut fake, tree) = Fake::new(&[]);
        assert_eq!(find(&tree, &mut fake, |_| 0), Ok(vec![]));
    }
}
