//! What a PVH loader hands over: `struct hvm_start_info` (Xen's `public/arch-x86/hvm/start_info.h`).
//!
//! Everything in it is physical addresses of memory that may be reused as soon as this has been copied, so it is
//! copied first of all. Nothing in it is trusted beyond being readable.

use heapless::{String, Vec};

use crate::memory::{MAX_RANGES, Range, Ranges};

/// Value of the magic word.
pub const MAGIC: u32 = 0x336e_c578;
/// Longest command line.
pub const COMMAND_LINE: usize = 4096;
/// Modules that are kept out of the way.
const MAX_MODULES: usize = 16;
/// `E820_RAM`.
const RAM: u32 = 1;

/// Reads bytes at a physical address; says whether that is possible.
pub trait Physical {
    /// Fills `to` from `at` on.
    fn read(&self, at: u64, to: &mut [u8]) -> bool;

    /// A little-endian number of 4 bytes.
    fn u32(&self, at: u64) -> Option<u32> {
        let mut bytes = [0; 4];
        self.read(at, &mut bytes).then(|| u32::from_le_bytes(bytes))
    }

    /// A little-endian number of 8 bytes.
    fn u64(&self, at: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(at, &mut bytes).then(|| u64::from_le_bytes(bytes))
    }
}

/// What the loader said.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct BootInfo {
    /// Memory.
    pub ram: Ranges,
    /// Modules, which lie in memory.
    pub modules: Vec<Range, MAX_MODULES>,
    /// The command line; what is not ASCII became `?`.
    pub command_line: String<COMMAND_LINE>,
    /// Address of ACPI's root pointer; 0 when the loader gave none.
    pub rsdp: u64,
}

/// What is wrong with the start info.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartInfoError {
    /// The magic word is another one, or can't be read.
    Magic,
    /// It has no memory map (version 0), or one that can't be read.
    MemoryMap,
    /// The command line is longer than 4096 bytes, or can't be read.
    CommandLine,
}

impl core::fmt::Display for StartInfoError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Magic => "PVH start info: wrong magic",
            Self::MemoryMap => "PVH start info: no memory map",
            Self::CommandLine => "PVH start info: the command line is longer than 4096 bytes",
        })
    }
}

/// Copies everything out of the start info at `at`.
///
/// # Errors
/// The first part that is unusable.
pub fn read(memory: &impl Physical, at: u64) -> Result<BootInfo, StartInfoError> {
    if memory.u32(at) != Some(MAGIC) {
        return Err(StartInfoError::Magic);
    }
    let mut info = BootInfo { rsdp: memory.u64(at + 32).unwrap_or(0), ..Default::default() };
    read_memory_map(memory, at, &mut info).ok_or(StartInfoError::MemoryMap)?;
    read_modules(memory, at, &mut info);
    let command_line = memory.u64(at + 24).unwrap_or(0);
    if command_line != 0 {
        read_command_line(memory, command_line, &mut info.command_line).ok_or(StartInfoError::CommandLine)?;
    }
    Ok(info)
}

fn read_memory_map(memory: &impl Physical, at: u64, info: &mut BootInfo) -> Option<()> {
    const ENTRY: u64 = 24;
    let version = memory.u32(at + 4)?;
    let (map, entries) = (memory.u64(at + 40)?, memory.u32(at + 48)?);
    if version == 0 || map == 0 {
        return None;
    }
    for i in 0..u64::from(entries.min(4 * MAX_RANGES as u32)) {
        let entry = map.checked_add(i * ENTRY).filter(|entry| *entry < u64::MAX - ENTRY)?;
        let (start, size, kind) = (memory.u64(entry)?, memory.u64(entry + 8)?, memory.u32(entry + 16)?);
        if kind == RAM {
            let end = start.saturating_add(size);
            // A map with more ranges of memory than there is room for: the rest is not used.
            let _ = info.ram.push(Range { start, end });
        }
    }
    (!info.ram.is_empty()).then_some(())
}

fn read_modules(memory: &impl Physical, at: u64, info: &mut BootInfo) {
    const ENTRY: u64 = 32;
    let (Some(count), Some(list)) = (memory.u32(at + 12), memory.u64(at + 16)) else { return };
    for i in 0..u64::from(count.min(MAX_MODULES as u32)) {
        let Some(entry) = list.checked_add(i * ENTRY).filter(|entry| *entry < u64::MAX - ENTRY) else {
            return;
        };
        let (Some(start), Some(size)) = (memory.u64(entry), memory.u64(entry + 8)) else { return };
        let _ = info.modules.push(Range { start, end: start.saturating_add(size) });
    }
}

fn read_command_line(memory: &impl Physical, at: u64, line: &mut String<COMMAND_LINE>) -> Option<()> {
    for i in 0..=COMMAND_LINE as u64 {
        let mut byte = [0];
        if !memory.read(at.checked_add(i)?, &mut byte) {
            return None;
        }
        match byte[0] {
            0 => return Some(()),
            byte if byte.is_ascii() => line.push(char::from(byte)).ok()?,
            _ => line.push('?').ok()?,
        }
    }
    None
}

#[cfg(test)]
pub(crate) mod tests {
    use std::vec;
    use std::vec::Vec as StdVec;

    use super::*;

    /// Physical memory from 0 on.
    pub(crate) struct Bytes(pub StdVec<u8>);

    impl Physical for Bytes {
        fn read(&self, at: u64, to: &mut [u8]) -> bool {
            let Ok(at) = usize::try_from(at) else { return false };
            let Some(end) = at.checked_add(to.len()) else { return false };
            self.0.get(at..end).map(|from| to.copy_from_slice(from)).is_some()
        }
    }

    impl Bytes {
        pub fn put(&mut self, at: usize, bytes: &[u8]) {
            self.0[at..at + bytes.len()].copy_from_slice(bytes);
        }
    }

    /// Start info at 0x100 with two entries of memory at 0x200, one reserved, a module, and a command line.
    fn start_info(command_line: &[u8]) -> Bytes {
        let mut memory = Bytes(vec![0; 0x3000]);
        memory.put(0x100, &MAGIC.to_le_bytes());
        memory.put(0x104, &1_u32.to_le_bytes());
        memory.put(0x10c, &1_u32.to_le_bytes());
        memory.put(0x110, &0x300_u64.to_le_bytes());
        memory.put(0x118, &0x1000_u64.to_le_bytes());
        memory.put(0x120, &0xf_5a20_u64.to_le_bytes());
        memory.put(0x128, &0x200_u64.to_le_bytes());
        memory.put(0x130, &3_u32.to_le_bytes());
        for (i, (start, size, kind)) in
            [(0_u64, 0x9_fc00_u64, 1_u32), (0xf_0000, 0x1_0000, 2), (0x10_0000, 0x1ff0_0000, 1)]
                .into_iter()
                .enumerate()
        {
            memory.put(0x200 + 24 * i, &start.to_le_bytes());
            memory.put(0x208 + 24 * i, &size.to_le_bytes());
            memory.put(0x210 + 24 * i, &kind.to_le_bytes());
        }
        memory.put(0x300, &0x50_0000_u64.to_le_bytes());
        memory.put(0x308, &0x1000_u64.to_le_bytes());
        memory.put(0x1000, command_line);
        memory
    }

    #[test]
    fn everything_is_copied() {
        let info = read(&start_info(b"--forward-mode=io --burst=64"), 0x100).unwrap();
        assert_eq!(info.command_line, "--forward-mode=io --burst=64");
        assert_eq!(info.rsdp, 0xf_5a20);
        let ram = [Range { start: 0, end: 0x9_fc00 }, Range { start: 0x10_0000, end: 0x2000_0000 }];
        assert_eq!(info.ram[..], ram);
        assert_eq!(info.modules[..], [Range { start: 0x50_0000, end: 0x50_1000 }]);
    }

    #[test]
    fn a_command_line_that_has_no_end_is_an_error() {
        let longest = [b'x'; 4096];
        assert_eq!(read(&start_info(&longest), 0x100).unwrap().command_line.len(), 4096);
        let too_long = [b'x'; 4097];
        assert_eq!(read(&start_info(&too_long), 0x100), Err(StartInfoError::CommandLine));
    }

    #[test]
    fn what_can_not_be_read_is_named() {
        assert_eq!(read(&Bytes(vec![0; 64]), 0), Err(StartInfoError::Magic));
        let mut memory = start_info(b"");
        memory.put(0x104, &0_u32.to_le_bytes());
        assert_eq!(read(&memory, 0x100), Err(StartInfoError::MemoryMap));
        let mut memory = start_info(b"");
        memory.put(0x128, &u64::MAX.to_le_bytes());
        assert_eq!(read(&memory, 0x100), Err(StartInfoError::MemoryMap));
    }

    #[test]
    fn counts_that_lie_are_bounded() {
        let mut memory = start_info(b"");
        memory.put(0x10c, &u32::MAX.to_le_bytes());
        let info = read(&memory, 0x100).unwrap();
        assert_eq!(info.modules.len(), 16);
    }
}
