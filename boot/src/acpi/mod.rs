//! The ACPI tables that are needed: MCFG, which says where PCI configuration space lies in memory, and MADT, which lists
//! the cores.
//!
//! ACPI 6.5, 5.2.5 (RSDP), 5.2.7 and 5.2.8 (RSDT, XSDT). Lengths and addresses in tables are checked and every walk is
//! bounded; a table with a wrong checksum is passed over.

pub mod madt;
pub mod mcfg;

use crate::pvh::Physical;

const HEADER: u64 = 36;
const MAX_TABLES: u64 = 256;
const MAX_TABLE: u64 = 1 << 20;

/// A table: its address and its length, with its header.
#[derive(Debug, Clone, Copy)]
struct Table {
    at: u64,
    len: u64,
}

/// The tables with this signature, in the order of the root table that the root pointer at `rsdp` names.
fn tables<M: Physical>(memory: &M, rsdp: u64, signature: &'static [u8; 4]) -> impl Iterator<Item = Table> {
    let root = root_table(memory, rsdp).and_then(|(root, entry_size)| {
        let table = table(memory, root, if entry_size == 8 { b"XSDT" } else { b"RSDT" })?;
        Some((table, entry_size))
    });
    let count = root.map_or(0, |(root, entry_size)| ((root.len - HEADER) / entry_size).min(MAX_TABLES));
    (0..count).filter_map(move |i| {
        let (root, entry_size) = root?;
        let entry = root.at + HEADER + i * entry_size;
        let at = if entry_size == 8 { memory.u64(entry)? } else { u64::from(memory.u32(entry)?) };
        table(memory, at, signature)
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

/// The table at `at`, if it has this signature and a right checksum.
fn table(memory: &impl Physical, at: u64, signature: &[u8; 4]) -> Option<Table> {
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
    (sum == 0).then_some(Table { at, len })
}

#[cfg(test)]
mod tests {
    use std::vec;

    use crate::pvh::tests::Bytes;

    pub fn put_table(memory: &mut Bytes, at: usize, signature: &[u8; 4], body: &[u8]) {
        memory.put(at, signature);
        memory.put(at + 4, &(36 + body.len() as u32).to_le_bytes());
        memory.put(at + 36, body);
        seal(memory, at, at + 9, 36 + body.len());
    }

    pub fn seal(memory: &mut Bytes, start: usize, at: usize, len: usize) {
        memory.0[at] = 0;
        let sum = memory.0[start..start + len].iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
        memory.0[at] = sum.wrapping_neg();
    }

    /// RSDP at 0x40, root table at 0x100 that names 0x200 and 0x300, where nothing is yet.
    pub fn root(revision: u8) -> Bytes {
        let mut memory = Bytes(vec![0; 0x1000]);
        memory.put(0x40, b"RSD PTR ");
        memory.put(0x40 + 15, &[revision]);
        memory.put(0x40 + 16, &0x100_u32.to_le_bytes());
        memory.put(0x40 + 24, &0x100_u64.to_le_bytes());
        seal(&mut memory, 0x40, 0x40 + 8, 20);
        if revision >= 2 {
            put_table(&mut memory, 0x100, b"XSDT", &[0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0]);
        } else {
            put_table(&mut memory, 0x100, b"RSDT", &[0, 2, 0, 0, 0, 3, 0, 0]);
        }
        memory
    }
}
