//! Configuration space in memory, with BARs that can be sized.

use std::collections::BTreeMap;

use super::header::{BAR0, BUSES, COMMAND, ID, TYPE};
use super::{Address, ConfigSpace};

#[derive(Default)]
pub(crate) struct FakeConfig {
    words: BTreeMap<(Address, u16), u32>,
    /// Bits of a BAR that can be written.
    masks: BTreeMap<(Address, u16), u32>,
    /// A BAR was written with all ones while the function decoded memory.
    pub sized_while_decoding: bool,
}

impl FakeConfig {
    pub fn add(&mut self, at: Address, vendor: u16, device: u16) {
        self.set(at, ID, u32::from(device) << 16 | u32::from(vendor));
        for offset in (4..0x40).step_by(4) {
            self.set(at, offset, 0);
        }
        for bar in 0..6 {
            self.masks.insert((at, BAR0 + 4 * bar), 0);
        }
    }

    pub fn add_bridge(&mut self, at: Address, secondary: u8) {
        self.add(at, 0x1b36, 0x000c);
        self.masks.remove(&(at, BUSES));
        self.set(at, TYPE, 1 << 16);
        self.set(at, BUSES, u32::from(secondary) << 8);
    }

    pub fn add_bar(&mut self, at: Address, index: u16, base: u64, size: u64, wide: bool) {
        let offset = BAR0 + 4 * index;
        let kind = if wide { 0xc } else { 0 };
        self.set(at, offset, base as u32 | kind);
        self.masks.insert((at, offset), (size as u32).wrapping_neg());
        if wide {
            self.set(at, offset + 4, (base >> 32) as u32);
            self.masks.insert((at, offset + 4), (size.wrapping_neg() >> 32) as u32);
        }
    }

    pub fn set(&mut self, at: Address, offset: u16, value: u32) {
        self.words.insert((at, offset), value);
    }
}

impl ConfigSpace for FakeConfig {
    fn read(&self, at: Address, offset: u16) -> u32 {
        self.words.get(&(at, offset)).copied().unwrap_or(u32::MAX)
    }

    fn write(&mut self, at: Address, offset: u16, value: u32) {
        let Some(old) = self.words.get(&(at, offset)).copied() else { return };
        let value = match self.masks.get(&(at, offset)) {
            Some(mask) => {
                self.sized_while_decoding |= value == u32::MAX && self.read(at, COMMAND) & 2 != 0;
                value & mask | old & !mask
            }
            None => value,
        };
        self.words.insert((at, offset), value);
    }
}
