//! The functions of a machine, and the bridges on the way to them.

use alloc::vec::Vec;

use super::header::{self, BUSES, CLASS, COMMAND, ID, TYPE};
use super::{Address, ConfigSpace};

/// A function that answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Function {
    /// Where.
    pub at: Address,
    /// Vendor id.
    pub vendor: u16,
    /// Device id.
    pub device: u16,
    /// Class, sub-class and programming interface, 24 bits.
    pub class: u32,
}

/// All functions that can be reached from bus 0.
pub struct Tree {
    /// Them, by bus, device and function.
    pub functions: Vec<Function>,
    /// The bridge in front of each bus.
    bridges: [Option<Address>; 256],
}

impl Tree {
    /// Looks at every bus once. Buses that bridges name twice, or that no firmware numbered, are passed over.
    pub fn scan(config: &impl ConfigSpace) -> Self {
        let mut tree = Self { functions: Vec::new(), bridges: [None; 256] };
        let mut seen = [false; 256];
        let mut waiting = Vec::from([0_u8]);
        while let Some(bus) = waiting.pop() {
            if core::mem::replace(&mut seen[usize::from(bus)], true) {
                continue;
            }
            for device in 0..32 {
                tree.scan_device(config, bus, device, &seen, &mut waiting);
            }
        }
        tree.functions.sort_unstable_by_key(|function| function.at);
        tree
    }

    fn scan_device(
        &mut self,
        config: &impl ConfigSpace,
        bus: u8,
        device: u8,
        seen: &[bool; 256],
        waiting: &mut Vec<u8>,
    ) {
        const SEVERAL_FUNCTIONS: u32 = 1 << 23;
        const BRIDGE: u32 = 1;
        for function in 0..8 {
            let at = Address { bus, device, function };
            let id = config.read(at, ID);
            if id & 0xffff == 0xffff {
                if function == 0 {
                    return;
                }
                continue;
            }
            let class = config.read(at, CLASS) >> 8;
            self.functions.push(Function { at, vendor: id as u16, device: (id >> 16) as u16, class });
            let kind = config.read(at, TYPE);
            if kind >> 16 & 0x7f == BRIDGE {
                let secondary = (config.read(at, BUSES) >> 8) as u8;
                if !seen[usize::from(secondary)] {
                    self.bridges[usize::from(secondary)] = Some(at);
                    waiting.push(secondary);
                }
            }
            if function == 0 && kind & SEVERAL_FUNCTIONS == 0 {
                return;
            }
        }
    }

    /// Turns memory decoding and bus mastering on, for the function and for every bridge on the way to it. Says
    /// whether the function took it.
    pub fn enable(&self, config: &mut impl ConfigSpace, at: Address) -> bool {
        let wanted = header::MEMORY | header::BUS_MASTER;
        let mut next = Some(at);
        // At most one bridge a bus.
        for _ in 0..=256 {
            let Some(at) = next else { break };
            let command = config.read(at, COMMAND) & 0xffff;
            config.write(at, COMMAND, command | wanted);
            next = self.bridges[usize::from(at.bus)].filter(|bridge| bridge.bus != at.bus);
        }
        config.read(at, COMMAND) & wanted == wanted
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::FakeConfig;
    use super::*;

    fn at(bus: u8, device: u8, function: u8) -> Address {
        Address { bus, device, function }
    }

    #[test]
    fn functions_behind_bridges_are_found_and_turned_on_along_the_way() {
        let mut config = FakeConfig::default();
        config.add(at(0, 0, 0), 0x8086, 0x29c0);
        config.add_bridge(at(0, 2, 0), 1);
        config.add_bridge(at(1, 0, 0), 2);
        config.add(at(2, 0, 0), 0x8086, 0x1583);
        config.add(at(2, 0, 3), 0x8086, 0x1583);
        config.set(at(2, 0, 0), TYPE, 1 << 23);
        let tree = Tree::scan(&config);
        let found: Vec<Address> = tree.functions.iter().map(|function| function.at).collect();
        assert_eq!(found, [at(0, 0, 0), at(0, 2, 0), at(1, 0, 0), at(2, 0, 0), at(2, 0, 3)]);
        assert!(tree.enable(&mut config, at(2, 0, 3)));
        for (function, command) in [(at(2, 0, 3), 6), (at(1, 0, 0), 6), (at(0, 2, 0), 6), (at(2, 0, 0), 0)] {
            assert_eq!(config.read(function, COMMAND) & 0xffff, command, "{function}");
        }
    }

    #[test]
    fn bridges_that_lie_end_the_scan_all_the_same() {
        let mut config = FakeConfig::default();
        config.add_bridge(at(0, 1, 0), 0);
        config.add_bridge(at(0, 2, 0), 5);
        config.add_bridge(at(5, 0, 0), 5);
        config.add_bridge(at(5, 1, 0), 0);
        let tree = Tree::scan(&config);
        assert_eq!(tree.functions.len(), 4);
        assert!(tree.enable(&mut config, at(5, 1, 0)));
    }
}
