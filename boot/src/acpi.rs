//! The one ACPI table that is needed: MCFG, which says where PCI configuration space lies in memory.
//!
//! ACPI 6.5, 5.2.5 (RSDP), 5.2.7 and 5.2.8 (RSDT, XSDT); PCI Firmware 3.2, 4.1.2 (MCFG). Lengths and addresses in
//! tables are checked and every walk is bounded; a table with a wrong checksum is passed over.

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

const HEADER: u64 = 36;
const MAX_TABLES: u64 = 256;
const MAX_TABLE: u64 = 1 << 20;

/// Finds configuration space of segment 0, from the root pointer at `rsdp`.
pub fn ecam(memory: &impl Physical, rsdp: u64) -> Option<Ecam> {
    let (root, entry_size) = root_table(memory, rsdp)?;
    let len = table_len(memory, root, if entry_size == 8 { b"XSDT" } else { b"RSDT" })?;
    let count = ((len - HEADER) / entry_size).min(MAX_TABLES);
    (0..count).find_map(|i| {
        let entry = root + HEADER + i * entry_size;
        let table = if entry_size == 8 { memory.u64(entry)? } else { u64::from(memory.u32(entry)?) };
        parse_mcfg(memory, table)
    })
}

/// The root table and the size of its entries: XSDT where there is one, else RSDT.
fn root_table(memory: &impl Physical, rsdp: u64) -> Option<(u64, u64)> {
    let mut bytes = [0; 20];
    let read = rsdp != 0 && memory.read(rsdp, &mut bytes);
    let sum = bytes.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    if !read || !bytes.starts_with(b"RSD PTR ") || sum != 0 {
        return None;
    }
    let xsdt = if bytes[15] >= 2 { memory.u64(rsdp.checked_add(24)?)? } else { 0 };
    if xsdt != 0 { Some((xsdt, 8)) } else { Some((u64::from(memory.u32(rsdp + 16)?), 4)) }
}

/// Length of the table at `at`, if it has this signature and a right checksum.
fn table_len(memory: &impl Physical, at: u64, signature: &[u8; 4]) -> Option<u64> {
    let mut found = [0; 4];
    if !memory.read(at, &mut found) || found != *signature {
        return None;
    }
    let len = u64::from(memory.u32(at.checked_add(4)?)?);
    if !(HEADER..=MAX_TABLE).contains(&len) {
        return None;
    }
    let mut sum = 0_u8;
    for offset in 0..len {
        let mut byte = [0];
        if !memory.read(at.checked_add(offset)?, &mut byte) {
            return None;
        }
        sum = sum.wrapping_add(byte[0]);
    }
    (sum == 0).then_some(len)
}

fn parse_mcfg(memory: &impl Physical, at: u64) -> Option<Ecam> {
    const FIRST: u64 = HEADER + 8;
    const ENTRY: u64 = 16;
    let len = table_len(memory, at, b"MCFG")?;
    let count = len.saturating_sub(FIRST) / ENTRY;
    (0..count).find_map(|i| {
        let entry = at + FIRST + i * ENTRY;
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
    use std::vec;

    use super::*;
    use crate::pvh::tests::Bytes;

    fn table(memory: &mut Bytes, at: usize, signature: &[u8; 4], body: &[u8]) {
        memory.put(at, signature);
        memory.put(at + 4, &(36 + body.len() as u32).to_le_bytes());
        memory.put(at + 36, body);
        seal(memory, at, at + 9, 36 + body.len());
    }

    fn seal(memory: &mut Bytes, start: usize, at: usize, len: usize) {
        memory.0[at] = 0;
        let sum = memory.0[start..start + len].iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
        memory.0[at] = sum.wrapping_neg();
    }

    /// RSDP at 0x40, root table at 0x100, another table at 0x200, MCFG at 0x300, as QEMU's q35 lays them out.
    fn tables(revision: u8) -> Bytes {
        let mut memory = Bytes(vec![0; 0x1000]);
        memory.put(0x40, b"RSD PTR ");
        memory.put(0x40 + 15, &[revision]);
        memory.put(0x40 + 16, &0x100_u32.to_le_bytes());
        memory.put(0x40 + 24, &0x100_u64.to_le_bytes());
        seal(&mut memory, 0x40, 0x40 + 8, 20);
        if revision >= 2 {
            table(&mut memory, 0x100, b"XSDT", &[0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0]);
        } else {
            table(&mut memory, 0x100, b"RSDT", &[0, 2, 0, 0, 0, 3, 0, 0]);
        }
        table(&mut memory, 0x200, b"APIC", &[1, 2, 3]);
        let mut body = [0; 24];
        body[8..16].copy_from_slice(&0xb000_0000_u64.to_le_bytes());
        body[19] = 0xff;
        table(&mut memory, 0x300, b"MCFG", &body);
        memory
    }

    #[test]
    fn found_through_either_root_table() {
        let want = Ecam { base: 0xb000_0000, first_bus: 0, last_bus: 255 };
        for revision in [0, 2] {
            assert_eq!(ecam(&tables(revision), 0x40), Some(want));
        }
        assert_eq!(want.bytes(), 256 << 20);
    }

    #[test]
    fn broken_tables_are_passed_over() {
        for (at, value) in
            [(0x40, b'X'), (0x40 + 8, 1), (0x304, 0xff), (0x301, b'x'), (0x330, 1), (0x105, 0xff)]
        {
            let mut memory = tables(2);
            memory.0[at] ^= value;
            assert_eq!(ecam(&memory, 0x40), None, "{at:#x}");
        }
        assert_eq!(ecam(&tables(2), 0), None);
        assert_eq!(ecam(&tables(2), u64::MAX), None);
    }
}
