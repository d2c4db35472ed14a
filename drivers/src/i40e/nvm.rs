//! Versions of what is in the card's flash, and what is known of them. Datasheet: "Shadow RAM Access", "NVM Map".

use core::fmt;
use core::time::Duration;

use hal::{BarAccess, Machine};

use super::command::FirmwareVersion;
use super::error::Error;
use super::{regs, reset};

/// The image in the card's flash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NvmVersion {
    /// Major and minor, as the card's vendor writes them in hexadecimal.
    pub version: (u8, u8),
    /// Number of the image (EETRACK).
    pub image: u32,
}

impl fmt::Display for NvmVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}.{:02x} {:#010x}", self.version.0, self.version.1, self.image)
    }
}

/// Reads the version from the shadow RAM.
///
/// # Errors
/// GLNVM_SRCTL did not report a word in time.
pub fn read_version<M: Machine>(machine: &M, bar: &M::Bar) -> Result<NvmVersion, Error> {
    const VERSION: u32 = 0x18;
    const IMAGE_LOW: u32 = 0x2d;
    const IMAGE_HIGH: u32 = 0x2e;
    let version = read_word(machine, bar, VERSION)?;
    let low = read_word(machine, bar, IMAGE_LOW)?;
    let high = read_word(machine, bar, IMAGE_HIGH)?;
    // By drivers: the digit in bits 11:8 does not count.
    let version = ((version >> 12) as u8, version as u8);
    Ok(NvmVersion { version, image: u32::from(high) << 16 | u32::from(low) })
}

fn read_word<M: Machine>(machine: &M, bar: &M::Bar, address: u32) -> Result<u16, Error> {
    const STEP: &str = "shadow RAM";
    const LIMIT: Duration = Duration::from_millis(500);
    const START: u32 = 1 << 30;
    const DONE: u32 = 1 << 31;
    let wait = || {
        reset::wait(machine, STEP, "GLNVM_SRCTL", LIMIT, || {
            let value = bar.read(regs::GLNVM_SRCTL);
            (value, value & DONE != 0 && value != u32::MAX)
        })
    };
    wait()?;
    bar.write(regs::GLNVM_SRCTL, address << 14 | START);
    wait()?;
    Ok((bar.read(regs::GLNVM_SRDATA) >> 16) as u16)
}

/// What a user of a card with this firmware should know, each in words; by drivers and the advice of their authors.
pub fn remarks(version: FirmwareVersion) -> impl Iterator<Item = &'static str> {
    /// Newest interface of the X710 family that Linux's driver knows.
    const NEWEST_API: (u16, u16) = (1, 15);
    let (firmware, api) = (version.firmware, version.api);
    [
        (firmware < (6, 1)).then_some(
            "firmware before 6.1 is known to be slow with small frames: DPDK sets its switch up differently \
             before 6.0, and its authors advise 6.01 or later",
        ),
        (api < (1, 5)).then_some(
            "interface before 1.5 has no commands for receive control registers: they are written directly",
        ),
        (api < (1, 7)).then_some("interface before 1.7 may not let its LLDP agent be stopped"),
        (api > NEWEST_API).then_some("interface is newer than this driver was written for"),
    ]
    .into_iter()
    .flatten()
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    fn count(firmware: (u16, u16), api: (u16, u16)) -> usize {
        remarks(FirmwareVersion { firmware, build: 0, api }).collect::<Vec<_>>().len()
    }

    #[test]
    fn old_and_new_firmware_is_named() {
        assert_eq!(count((9, 52), (1, 15)), 0);
        assert_eq!(count((8, 30), (1, 11)), 0);
        assert_eq!(count((5, 4), (1, 5)), 2);
        assert_eq!(count((4, 22), (1, 2)), 3);
        assert_eq!(count((10, 0), (1, 16)), 1);
        assert_eq!(count((10, 0), (2, 0)), 1);
    }
}
