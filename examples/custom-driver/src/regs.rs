//! Registers (section 13.4) and descriptors (sections 3.2.3 and 3.3.3).

use hal::{Reg, RegArray, Ro, Rw, Wo};

/// Device control.
pub const CTRL: Reg<u32, Rw> = Reg::at(0x0000);
/// Device status.
pub const STATUS: Reg<u32, Ro> = Reg::at(0x0008);
/// Causes of interrupts; cleared when read.
pub const ICR: Reg<u32, Ro> = Reg::at(0x00c0);
/// Interrupts that are turned off.
pub const IMC: Reg<u32, Wo> = Reg::at(0x00d8);
/// Receive control.
pub const RCTL: Reg<u32, Rw> = Reg::at(0x0100);
/// Transmit control.
pub const TCTL: Reg<u32, Rw> = Reg::at(0x0400);
/// Gaps between frames.
pub const TIPG: Reg<u32, Rw> = Reg::at(0x0410);
/// Table of multicast addresses.
pub const MTA: RegArray<u32, Rw, 128> = RegArray::at(0x5200, 4);
/// The port's own address, its first four bytes and its last two.
pub const RAL: Reg<u32, Rw> = Reg::at(0x5400);
/// As above.
pub const RAH: Reg<u32, Rw> = Reg::at(0x5404);

/// A ring's registers.
pub struct RingRegs {
    /// Its address, low and high.
    pub base: [Reg<u32, Rw>; 2],
    /// Its bytes.
    pub len: Reg<u32, Rw>,
    /// The card's end.
    pub head: Reg<u32, Rw>,
    /// The driver's end.
    pub tail: Reg<u32, Rw>,
}

impl RingRegs {
    const fn at(offset: u32) -> Self {
        Self {
            base: [Reg::at(offset), Reg::at(offset + 0x04)],
            len: Reg::at(offset + 0x08),
            head: Reg::at(offset + 0x10),
            tail: Reg::at(offset + 0x18),
        }
    }
}

/// RDBAL and those behind it.
pub const RX: RingRegs = RingRegs::at(0x2800);
/// TDBAL and those behind it.
pub const TX: RingRegs = RingRegs::at(0x3800);

/// Counters, all cleared when read: CRC errors.
pub const CRCERRS: Reg<u32, Ro> = Reg::at(0x4000);
/// Errors of the line.
pub const RXERRC: Reg<u32, Ro> = Reg::at(0x400c);
/// Frames for which there was no room.
pub const MPC: Reg<u32, Ro> = Reg::at(0x4010);
/// Good frames received.
pub const GPRC: Reg<u32, Ro> = Reg::at(0x4074);
/// Good frames sent.
pub const GPTC: Reg<u32, Ro> = Reg::at(0x4080);
/// Their bytes with FCS, received, low and high; the high one clears both.
pub const GORC: [Reg<u32, Ro>; 2] = [Reg::at(0x4088), Reg::at(0x408c)];
/// Sent.
pub const GOTC: [Reg<u32, Ro>; 2] = [Reg::at(0x4090), Reg::at(0x4094)];

/// CTRL: speed is what the PHY has found.
pub const CTRL_ASDE: u32 = 1 << 5;
/// CTRL: the link is to be up.
pub const CTRL_SLU: u32 = 1 << 6;
/// CTRL: reset; clears itself.
pub const CTRL_RST: u32 = 1 << 26;

/// STATUS: link up.
pub const STATUS_LU: u32 = 1 << 1;
/// STATUS: 0 is 10 Mbit/s, 1 is 100, others are 1000.
pub const STATUS_SPEED_SHIFT: u32 = 6;

/// RCTL: on. The size of buffers that is 0 in it, 17:16, is 2048 bytes; without LPE, bit 5, frames end at 1522 bytes with
/// FCS.
pub const RCTL_EN: u32 = 1 << 1;
/// RCTL: all unicast and all multicast frames.
pub const RCTL_PROMISCUOUS: u32 = 1 << 3 | 1 << 4;
/// RCTL: broadcasts.
pub const RCTL_BAM: u32 = 1 << 15;
/// RCTL: without FCS.
pub const RCTL_SECRC: u32 = 1 << 26;

/// TCTL: on.
pub const TCTL_EN: u32 = 1 << 1;
/// TCTL: threshold and distance of collisions as section 14.5 has them for full duplex.
pub const TCTL_COLLISIONS: u32 = 0x10 << 4 | 0x40 << 12;
/// Section 14.5, for copper.
pub const TIPG_COPPER: u32 = 10 | 8 << 10 | 6 << 20;

/// RAH: the address is one.
pub const RAH_AV: u32 = 1 << 31;

/// Second quadword of a receive descriptor: bytes in 15:0, status from 32 on, errors from 40 on.
pub mod rx {
    /// The card is done.
    pub const DD: u64 = 1 << 32;
    /// The end of a frame.
    pub const EOP: u64 = 1 << 33;
    /// CRC or alignment, symbol, sequence, carrier extension, data. Not those of checksums, 46:45.
    pub const ERRORS: u64 = 0x97 << 40;
}

/// Second quadword of a transmit descriptor: bytes in 15:0, commands from 24 on, status from 32 on.
pub mod tx {
    /// The end of a frame.
    pub const EOP: u64 = 1 << 24;
    /// The card adds the FCS.
    pub const IFCS: u64 = 1 << 25;
    /// The card is to tell when it is done.
    pub const RS: u64 = 1 << 27;
    /// It is.
    pub const DD: u64 = 1 << 32;
}
