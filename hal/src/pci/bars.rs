//! Base address registers: where they lie, how large they are, and giving one a place.

use core::fmt;

use super::header::{self, BAR0, COMMAND};
use super::{Address, ConfigSpace};
use crate::PhysAddr;

/// A memory BAR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BarInfo {
    /// Where it lies; 0 when the firmware gave it no place.
    pub base: PhysAddr,
    /// Bytes, a power of two.
    pub size: u64,
    /// It may lie above 4 GiB.
    pub wide: bool,
}

/// Why a BAR can't be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BarError {
    /// Whose.
    pub at: Address,
    /// Its index.
    pub index: u8,
    /// Its register.
    pub value: u64,
    /// What is wrong.
    pub what: &'static str,
}

impl fmt::Display for BarError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BAR{} of {}: {} ({:#x})", self.index, self.at, self.what, self.value)
    }
}

impl core::error::Error for BarError {}

const FLAGS: u32 = 0xf;
const IO: u32 = 1;
const TYPE: u32 = 0b110;
const TYPE_64: u32 = 0b100;

/// Finds place and size of memory BAR `index`. Decoding is off while the size is probed, and everything is as
/// before afterwards.
///
/// # Errors
/// It is no memory BAR, or not implemented.
pub fn probe(config: &mut impl ConfigSpace, at: Address, index: u8) -> Result<BarInfo, BarError> {
    let offset = BAR0 + 4 * u16::from(index);
    let low = config.read(at, offset);
    let error = |what| BarError { at, index, value: u64::from(low), what };
    let wide = low & TYPE == TYPE_64;
    if low & IO != 0 {
        return Err(error("is an I/O BAR"));
    }
    if index > 5 || (wide && index > 4) {
        return Err(error("has no such register"));
    }
    let command = config.read(at, COMMAND) & 0xffff;
    config.write(at, COMMAND, command & !(header::IO | header::MEMORY));
    let high = if wide { config.read(at, offset + 4) } else { 0 };
    let mask = probe_mask(config, at, offset, wide);
    config.write(at, offset, low);
    if wide {
        config.write(at, offset + 4, high);
    }
    config.write(at, COMMAND, command);
    // The lowest bit that can be set is the size.
    let size = mask & mask.wrapping_neg();
    if size == 0 {
        return Err(error("is not implemented"));
    }
    let base = u64::from(high) << 32 | u64::from(low & !FLAGS);
    Ok(BarInfo { base: PhysAddr::new(base), size, wide })
}

fn probe_mask(config: &mut impl ConfigSpace, at: Address, offset: u16, wide: bool) -> u64 {
    config.write(at, offset, u32::MAX);
    let low = u64::from(config.read(at, offset) & !FLAGS);
    if !wide {
        return low;
    }
    config.write(at, offset + 4, u32::MAX);
    u64::from(config.read(at, offset + 4)) << 32 | low
}

/// Gives memory BAR `index` the place `base`, a multiple of its size, with decoding off meanwhile.
///
/// # Errors
/// The place does not suit the BAR.
pub fn place(
    config: &mut impl ConfigSpace,
    at: Address,
    index: u8,
    info: &BarInfo,
    base: u64,
) -> Result<BarInfo, BarError> {
    let fits = base.is_multiple_of(info.size) && (info.wide || base + info.size <= 1 << 32);
    if !fits {
        return Err(BarError { at, index, value: base, what: "can't be placed there" });
    }
    let offset = BAR0 + 4 * u16::from(index);
    let command = config.read(at, COMMAND) & 0xffff;
    config.write(at, COMMAND, command & !(header::IO | header::MEMORY));
    config.write(at, offset, base as u32);
    if info.wide {
        config.write(at, offset + 4, (base >> 32) as u32);
    }
    config.write(at, COMMAND, command);
    Ok(BarInfo { base: PhysAddr::new(base), ..*info })
}

/// As [`probe`]; a BAR without a place gets the one that `free` gives for its size.
///
/// # Errors
/// As for [`probe`] and [`place`]; or it has no place and sits behind a bridge, whose window nobody configured.
pub fn probe_or_place(
    config: &mut impl ConfigSpace,
    at: Address,
    index: u8,
    free: impl FnOnce(u64) -> u64,
) -> Result<BarInfo, BarError> {
    let info = probe(config, at, index)?;
    if info.base.as_u64() != 0 {
        return Ok(info);
    }
    if at.bus != 0 {
        let what = "has no address, and the bridges in front of it are not configured";
        return Err(BarError { at, index, value: info.size, what });
    }
    place(config, at, index, &info, free(info.size))
}

#[cfg(test)]
mod tests {
    use super::super::fake::FakeConfig;
    use super::*;

    const AT: Address = Address { bus: 0, device: 3, function: 0 };

    #[test]
    fn a_wide_bar_far_above_4_gib_is_found_and_left_as_it_was() {
        let mut config = FakeConfig::default();
        config.add(AT, 0x8086, 0x1572);
        config.add_bar(AT, 0, 0xc0_0080_0000, 8 << 20, true);
        config.set(AT, COMMAND, 0x0006);
        let info = probe(&mut config, AT, 0).unwrap();
        assert_eq!((info.base.as_u64(), info.size, info.wide), (0xc0_0080_0000, 8 << 20, true));
        assert_eq!((config.read(AT, 0x10), config.read(AT, 0x14)), (0x0080_000c, 0xc0));
        assert_eq!(config.read(AT, COMMAND) & 0xffff, 6);
        assert!(!config.sized_while_decoding);
    }

    #[test]
    fn what_can_not_be_used_is_named() {
        let mut config = FakeConfig::default();
        config.add(AT, 0x8086, 0x1572);
        config.add_bar(AT, 0, 0x8000_0000, 4096, false);
        assert_eq!(probe(&mut config, AT, 0).unwrap().size, 4096);
        assert_eq!(probe(&mut config, AT, 1).unwrap_err().what, "is not implemented");
        config.set(AT, 0x18, 0x6001);
        let error = probe(&mut config, AT, 2).unwrap_err();
        assert_eq!(std::format!("{error}"), "BAR2 of 00:03.0: is an I/O BAR (0x6001)");
    }

    #[test]
    fn a_bar_without_a_place_gets_one() {
        let mut config = FakeConfig::default();
        config.add(AT, 0x8086, 0x1572);
        config.add_bar(AT, 0, 0, 8 << 20, true);
        let info = probe(&mut config, AT, 0).unwrap();
        assert_eq!(info.base.as_u64(), 0);
        assert!(place(&mut config, AT, 0, &info, 0x1_0000_1000).is_err());
        place(&mut config, AT, 0, &info, 0x8_0000_0000).unwrap();
        assert_eq!(probe(&mut config, AT, 0).unwrap().base.as_u64(), 0x8_0000_0000);
    }

    /// 8 GiB, so that neither size nor place fit into 32 bits.
    #[test]
    fn only_a_bar_without_a_place_is_given_one_and_not_behind_a_bridge() {
        let mut config = FakeConfig::default();
        config.add(AT, 0x1af4, 0x1110);
        config.add_bar(AT, 2, 0, 8 << 30, true);
        let mut asked = None;
        let info = probe_or_place(&mut config, AT, 2, |size| *asked.insert(size) << 3).unwrap();
        assert_eq!((info.base.as_u64(), info.size, asked), (64 << 30, 8 << 30, Some(8 << 30)));
        let again = probe_or_place(&mut config, AT, 2, |_| panic!("it has a place")).unwrap();
        assert_eq!(again, info);
        let behind = Address { bus: 1, ..AT };
        config.add(behind, 0x1af4, 0x1110);
        config.add_bar(behind, 2, 0, 1 << 20, true);
        let error = probe_or_place(&mut config, behind, 2, |_| panic!("no place helps")).unwrap_err();
        assert!(error.what.contains("bridges"), "{error}");
    }
}
