//! The list of capabilities in a function's configuration space.

use super::{Address, ConfigSpace};

const STATUS: u16 = 0x04;
const HAS_LIST: u32 = 1 << 20;
const FIRST: u16 = 0x34;
/// The list lies behind the header.
const START: u16 = 0x40;
/// As many as fit, of four bytes each: a list that runs in a circle ends here.
const MOST: u32 = 48;

/// A capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capability {
    /// What it is: 0x09 is a vendor's own.
    pub id: u8,
    /// Where it begins.
    pub offset: u16,
}

/// The capabilities of a function, in the order of the list.
pub fn list<C: ConfigSpace>(config: &C, at: Address) -> Capabilities<'_, C> {
    let next =
        if config.read(at, STATUS) & HAS_LIST == 0 { 0 } else { (config.read(at, FIRST) & 0xfc) as u16 };
    Capabilities { config, at, next, left: MOST }
}

/// See [`list`].
pub struct Capabilities<'a, C> {
    config: &'a C,
    at: Address,
    next: u16,
    left: u32,
}

impl<C: ConfigSpace> Iterator for Capabilities<'_, C> {
    type Item = Capability;

    fn next(&mut self) -> Option<Capability> {
        self.left = self.left.checked_sub(1)?;
        let offset = Some(self.next).filter(|offset| *offset >= START)?;
        let head = self.config.read(self.at, offset);
        self.next = (head >> 8 & 0xfc) as u16;
        Some(Capability { id: head as u8, offset })
    }
}

/// Byte `offset` of configuration space.
pub fn byte(config: &impl ConfigSpace, at: Address, offset: u16) -> u8 {
    (config.read(at, offset & !3) >> (8 * (offset & 3))) as u8
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::super::fake::FakeConfig;
    use super::*;

    const AT: Address = Address { bus: 0, device: 3, function: 0 };

    fn listed(words: &[(u16, u32)]) -> Vec<(u8, u16)> {
        let mut config = FakeConfig::default();
        config.add(AT, 0x1af4, 0x1043);
        words.iter().for_each(|(offset, value)| config.set(AT, *offset, *value));
        list(&config, AT).map(|capability| (capability.id, capability.offset)).collect()
    }

    #[test]
    fn lists_end_whatever_they_say() {
        let good = [(4, 1 << 20), (0x34, 0x98), (0x98, 0x0014_8409), (0x84, 0x0010_0011)];
        assert_eq!(listed(&good), [(0x09, 0x98), (0x11, 0x84)]);
        assert_eq!(listed(&[(4, 0), (0x34, 0x98), (0x98, 9)]), []);
        assert_eq!(listed(&[(4, 1 << 20), (0x34, 0x10)]), []);
        assert_eq!(listed(&[(4, 1 << 20), (0x34, 0x40), (0x40, 0x4009)]).len(), 48);
    }
}
