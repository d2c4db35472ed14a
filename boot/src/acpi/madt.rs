//! MADT: the cores of the machine. ACPI 6.5, 5.2.12, with 5.2.12.2 (local APIC) and 5.2.12.12 (local x2APIC).

use heapless::Vec;

use super::{HEADER, Table, tables};
use crate::pvh::Physical;

/// Cores that are kept of a table; more are only counted.
pub const MAX_LISTED: usize = 256;

/// Entry types.
const LOCAL_APIC: u8 = 0;
const LOCAL_X2APIC: u8 = 9;
/// Flag: the core can be started. The other one, "online capable", marks a place where a core may be plugged in later.
const ENABLED: u32 = 1 << 0;

/// The cores that can be started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cores {
    /// Their local APICs' identifiers, each once, in the order of the table. The boot core's is one of them.
    pub ids: Vec<u32, MAX_LISTED>,
    /// Cores beyond those that are kept.
    pub more: usize,
}

/// The cores of the machine, from the root pointer at `rsdp`; none where no table says any.
pub fn cores(memory: &impl Physical, rsdp: u64) -> Cores {
    let mut cores = Cores::default();
    tables(memory, rsdp, b"APIC").for_each(|table| parse(memory, table, &mut cores));
    cores
}

/// Walks the entries: a type, a length of both and the rest, and the rest. An entry that does not fit into the table, or
/// is too short for its own head, ends the walk.
fn parse(memory: &impl Physical, table: Table, cores: &mut Cores) {
    let (mut at, end) = (table.at + HEADER + 8, table.at + table.len);
    while at + 2 <= end {
        let mut head = [0; 2];
        if !memory.read(at, &mut head) {
            return;
        }
        let [kind, len] = head;
        if len < 2 || at + u64::from(len) > end {
            return;
        }
        if let Some((id, flags)) = entry(memory, at, kind, len)
            && flags & ENABLED != 0
            && !cores.ids.contains(&id)
            && cores.ids.push(id).is_err()
        {
            cores.more += 1;
        }
        at += u64::from(len);
    }
}

/// Identifier and flags of an entry that is a core's. The identifier that means all cores is nobody's.
fn entry(memory: &impl Physical, at: u64, kind: u8, len: u8) -> Option<(u32, u32)> {
    match (kind, len) {
        (LOCAL_APIC, 8..) => {
            let [_, _, _, id] = memory.u32(at)?.to_le_bytes();
            Some((u32::from(id), memory.u32(at + 4)?)).filter(|_| id != u8::MAX)
        }
        (LOCAL_X2APIC, 16..) => {
            Some((memory.u32(at + 4)?, memory.u32(at + 8)?)).filter(|(id, _)| *id != u32::MAX)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec as StdVec;

    use super::super::tests::{put_table, root, seal};
    use super::*;
    use crate::pvh::tests::Bytes;

    /// A table whose bytes are given in hexadecimal, at 0x300.
    fn dumped(dump: &str) -> Bytes {
        let mut memory = root(2);
        let bytes: StdVec<u8> =
            (0..dump.len() / 2).map(|i| u8::from_str_radix(&dump[2 * i..2 * i + 2], 16).unwrap()).collect();
        memory.put(0x300, &bytes);
        memory
    }

    /// What QEMU 11.1 makes of `-M q35 -smp 2,maxcpus=4`: two cores that are there, two that could be plugged in.
    const MAXCPUS_4: &str = "4150494390000000034b424f43485320425850432020202001000000425850430100000\
        00000e0fe010000000008000001000000000801010100000000080202000000000008030300000000010c00000000c0fe0000\
        0000020a0000020000000000020a0005050000000d00020a0009090000000d00020a000a0a0000000d00020a000b0b0000000\
        d000406ff000001";

    /// `-M q35 -smp 6,sockets=2,cores=3`: identifiers have a gap, since a socket's cores are counted by two bits.
    const TWO_SOCKETS: &str = "41504943a00000000312424f434853204258504320202020010000004258504301000000000\
        0e0fe01000000000800000100000000080101010000000008020201000000000803040100000000080405010000000008050601\
        000000010c00000000c0fe00000000020a0000020000000000020a0005050000000d00020a0009090000000d00020a000a0a000\
        0000d00020a000b0b0000000d000406ff000001";

    /// `-M microvm -smp 2`.
    const MICROVM: &str = "415049435a000000036e424f43485320425850432020202001000000425850430100000000\
        00e0fe0100000000080000010000000008010101000000010c00000000c0fe00000000010c01000000c1fe180000000406ff000\
        001";

    #[test]
    fn tables_that_qemu_makes() {
        assert_eq!(cores(&dumped(MAXCPUS_4), 0x40).ids[..], [0, 1]);
        assert_eq!(cores(&dumped(TWO_SOCKETS), 0x40).ids[..], [0, 1, 2, 4, 5, 6]);
        assert_eq!(cores(&dumped(MICROVM), 0x40).ids[..], [0, 1]);
        assert_eq!(cores(&root(2), 0x40), Cores::default());
        assert_eq!(cores(&dumped(MICROVM), 0), Cores::default());
    }

    fn with_entries(entries: &[&[u8]]) -> Bytes {
        let mut body = [&0xfee0_0000_u32.to_le_bytes()[..], &[1, 0, 0, 0]].concat();
        entries.iter().for_each(|entry| body.extend(*entry));
        let mut memory = root(2);
        put_table(&mut memory, 0x300, b"APIC", &body);
        memory
    }

    const APIC_7: &[u8] = &[0, 8, 1, 7, 1, 0, 0, 0];
    /// As QEMU writes those from 255 on: length 16, two reserved bytes, identifier, flags, number.
    const X2APIC_0X1FF: &[u8] = &[9, 16, 0, 0, 0xff, 1, 0, 0, 1, 0, 0, 0, 0xff, 1, 0, 0];

    #[test]
    fn both_kinds_of_core_are_listed_once() {
        let x2apic_7 = [9, 16, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0];
        let online_capable = [0, 8, 2, 9, 2, 0, 0, 0];
        let everybody = [9, 16, 0, 0, 0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0, 1, 0, 0, 0];
        let nobody = [0, 8, 2, 0xff, 1, 0, 0, 0];
        let memory =
            with_entries(&[APIC_7, &online_capable, X2APIC_0X1FF, &x2apic_7, &everybody, &nobody, APIC_7]);
        assert_eq!(cores(&memory, 0x40).ids[..], [7, 0x1ff]);
    }

    /// What is behind an entry with a length that can't be is not looked at; an entry that is too short for its type is
    /// passed over.
    #[test]
    fn lengths_that_lie_end_the_walk() {
        for (lie, want) in [
            (&[0_u8, 0][..], &[7_u32][..]),
            (&[0, 1], &[7]),
            (&[0, 255, 1, 9, 1, 0, 0, 0], &[7]),
            (&[0, 4, 1, 9], &[7, 0x1ff]),
            (&[9, 8, 0, 0, 9, 0, 0, 0], &[7, 0x1ff]),
            (&[200, 2], &[7, 0x1ff]),
        ] {
            let memory = with_entries(&[APIC_7, lie, X2APIC_0X1FF]);
            assert_eq!(cores(&memory, 0x40).ids[..], *want, "{lie:?}");
        }
    }

    #[test]
    fn a_table_that_lies_has_no_cores() {
        let mut memory = with_entries(&[APIC_7]);
        memory.0[0x300 + 44 + 3] = 8;
        assert_eq!(cores(&memory, 0x40), Cores::default(), "checksum");
        for len in [0_u32, 35, 43, 0x2000, u32::MAX] {
            let mut memory = with_entries(&[APIC_7]);
            memory.put(0x304, &len.to_le_bytes());
            if (36..0x400).contains(&len) {
                seal(&mut memory, 0x300, 0x309, len as usize);
            }
            assert_eq!(cores(&memory, 0x40), Cores::default(), "length {len}");
        }
    }

    #[test]
    fn more_cores_than_are_kept_are_counted() {
        let entries: StdVec<[u8; 16]> = (0..300_u16)
            .map(|id| [9, 16, 0, 0, id as u8, (id >> 8) as u8, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0])
            .collect();
        let mut memory = root(2);
        memory.0.resize(0x4000, 0);
        let body = [&[0; 8][..], entries.as_flattened()].concat();
        put_table(&mut memory, 0x300, b"APIC", &body);
        let cores = cores(&memory, 0x40);
        assert_eq!((cores.ids.len(), cores.more), (256, 44));
    }
}
