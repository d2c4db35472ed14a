//! Admin commands that are one exchange: versions, PXE, address, register access. Datasheet: "Admin Commands".

use hal::Machine;
use kernel::MacAddr;

use super::adminq::{AdminQueue, Command, Data};
use super::error::{AdminFault, Error};

/// Versions that Get Version gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirmwareVersion {
    /// Firmware, major and minor.
    pub firmware: (u16, u16),
    /// Firmware build.
    pub build: u32,
    /// Admin queue interface, major and minor.
    pub api: (u16, u16),
}

/// 0x0001. An interface of another major version than 1 can't be spoken to.
pub fn get_version<M: Machine>(queue: &mut AdminQueue<M>) -> Result<FirmwareVersion, Error> {
    let reply = queue.send(&Command::new("Get Version", 0x0001), Data::None)?;
    let version = FirmwareVersion {
        firmware: (reply.u16(8), reply.u16(10)),
        build: reply.u32(4),
        api: (reply.u16(12), reply.u16(14)),
    };
    if version.api.0 != 1 {
        let value = u64::from(version.api.0);
        return Err(Error::Card {
            step: "Get Version (0x0001)",
            what: "the interface's major version",
            value,
        });
    }
    Ok(version)
}

/// 0x0003: the driver goes away.
pub fn queue_shutdown<M: Machine>(queue: &mut AdminQueue<M>) -> Result<(), Error> {
    queue.send(&Command::new("Queue Shutdown", 0x0003).u32(0, 1), Data::None).map(drop)
}

/// 0x0110: the card leaves the mode in which its boot ROM had it.
pub fn clear_pxe<M: Machine>(queue: &mut AdminQueue<M>) -> Result<(), Error> {
    const EEXIST: u16 = 13;
    match queue.send(&Command::new("Clear PXE Mode", 0x0110).u16(0, 2), Data::None) {
        // It had left it already.
        Err(Error::Admin { fault: AdminFault::Code(EEXIST), .. }) => Ok(()),
        other => other.map(drop),
    }
}

/// 0x0107: the port's address.
pub fn mac_address<M: Machine>(queue: &mut AdminQueue<M>) -> Result<MacAddr, Error> {
    const LAN_VALID: u16 = 0x10;
    let mut data = [0; 24];
    let reply = queue.send(&Command::new("Manage MAC Address Read", 0x0107), Data::Read(&mut data))?;
    let mut mac = [0; 6];
    mac.copy_from_slice(&data[..6]);
    let usable = reply.u16(0) & LAN_VALID != 0 && mac[0] & 1 == 0 && mac != [0; 6];
    if usable {
        return Ok(MacAddr(mac));
    }
    let value = mac.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
    Err(Error::Card { step: "Manage MAC Address Read (0x0107)", what: "its address", value })
}

/// 0x0206: a receive control register.
pub fn read_rx_control<M: Machine>(queue: &mut AdminQueue<M>, register: u32) -> Result<u32, Error> {
    let command = Command::new("Rx Control Register Read", 0x0206).u32(4, register);
    Ok(queue.send(&command, Data::None)?.u32(12))
}

/// 0x0207: a receive control register.
pub fn write_rx_control<M: Machine>(
    queue: &mut AdminQueue<M>,
    register: u32,
    value: u32,
) -> Result<(), Error> {
    let command = Command::new("Rx Control Register Write", 0x0207).u32(4, register).u32(12, value);
    queue.send(&command, Data::None).map(drop)
}
