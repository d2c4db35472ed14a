//! MCFG: where PCI configuration space lies in memory. PCI Firmware 3.2, 4.1.2.

use super::{HEADER, Table, tables};
use crate::pvh::Physical;

/// Configuration space of segment 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ecam {
    /// Address of the first bus's first function.
    pub base: u64,
    /// First bus.
    pub first_bus: u8,
    /// Last bus.
    pub last_bus: u8,
}

impl Ecam {
    /// Bytes: 1 MiB a bus.
    pub const fn bytes(self) -> u64 {
        (self.last_bus as u64 - self.first_bus as u64 + 1) << 20
    }
}

/// Finds configuration space of segment 0, from the root pointer at `rsdp`.
pub fn ecam(memory: &impl Physical, rsdp: u64) -> Option<Ecam> {
    tables(memory, rsdp, b"MCFG").find_map(|table| parse(memory, table))
}

fn parse(memory: &impl Physical, table: Table) -> Option<Ecam> {
    const FIRST: u64 = HEADER + 8;
    const ENTRY: u64 = 16;
    let count = table.len.saturating_sub(FIRST) / ENTRY;
    (0..count).find_map(|i| {
        let entry = table.at + FIRST + i * ENTRY;
        let base = memory.u64(entry)?;
        let [segment_low, segment_high, first_bus, last_bus] = memory.u32(entry + 8)?.to_le_bytes();
        let good = (segment_low, segment_high) == (0, 0)
            && base != 0
            && base.is_multiple_of(1 << 20)
            && first_bus <= last_bus;
        good.then_some(Ecam { base, first_bus, last_bus })
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{put_table, root};
    use super::*;
    use crate::pvh::tests::Bytes;

    /// Another table at 0x200, MCFG at 0x300, as QEMU's q35 lays them out.
    fn with_mcfg(revision: u8) -> Bytes {
        let mut memory = root(revision);
        put_table(&mut memory, 0x200, b"APIC", &[1, 2, 3]);
        let mut body = [0; 24];
        body[8..16].copy_from_slice(&0xb000_0000_u64.to_le_bytes());
        body[19] = 0xff;
        put_table(&mut memory, 0x300, b"MCFG", &body);
        memory
    }

    #[test]
    fn found_through_either_root_table() {
        let want = Ecam { base: 0xb000_0000, first_bus: 0, last_bus: 255 };
        for revision in [0, 2] {
            assert_eq!(ecam(&with_mcfg(revision), 0x40), Some(want));
        }
        assert_eq!(want.bytes(), 256 << 20);
    }

    #[test]
    fn broken_tables_are_passed_over() {
        for (at, value) in
            [(0x40, b'X'), (0x40 + 8, 1), (0x304, 0xff), (0x301, b'x'), (0x330, 1), (0x105, 0xff)]
        {
            let mut memory = with_mcfg(2);
            memory.0[at] ^= value;
            assert_eq!(ecam(&memory, 0x40), None, "{at:#x}");
        }
        assert_eq!(ecam(&with_mcfg(2), 0), None);
        assert_eq!(ecam(&with_mcfg(2), u64::MAX), None);
    }
}
