//! What the card's firmware answers to admin commands. Datasheet: "Admin Commands"; layouts by drivers
//! (`i40e_adminq_cmd.h`).

mod capability;
mod elements;
mod link;
mod lldp;
mod module;
mod switch;

use crate::faults::Faults;
use crate::filter::Filters;
use crate::nvm::ShadowRam;
use crate::regs::Registers;

pub use link::Link;
pub use lldp::Lldp;
pub use switch::{VSI_NUMBER, Vsi};

/// Return codes.
pub mod code {
    pub const EPERM: u16 = 1;
    pub const ENOENT: u16 = 2;
    pub const ESRCH: u16 = 3;
    pub const ENXIO: u16 = 6;
    pub const ENOMEM: u16 = 9;
    pub const EBUSY: u16 = 12;
    pub const EINVAL: u16 = 14;
    pub const ENOSPC: u16 = 16;
}

/// A command as it arrived.
#[derive(Debug)]
pub struct Request {
    pub opcode: u16,
    pub params: [u8; 16],
    /// The driver's buffer; its length is what the driver gave, zeros where the firmware does not read it.
    pub buffer: Vec<u8>,
}

impl Request {
    pub fn u8(&self, at: usize) -> u8 {
        self.params.get(at).copied().unwrap_or(0)
    }

    pub fn u16(&self, at: usize) -> u16 {
        u16::from(self.u8(at)) | u16::from(self.u8(at + 1)) << 8
    }

    pub fn u32(&self, at: usize) -> u32 {
        u32::from(self.u16(at)) | u32::from(self.u16(at + 2)) << 16
    }
}

/// An answer.
#[derive(Debug, Default)]
pub struct Reply {
    /// 0 or one of [`code`].
    pub code: u16,
    /// Parameters, if they change.
    pub params: Option<[u8; 16]>,
    /// What is written to the driver's buffer.
    pub buffer: Vec<u8>,
    /// The descriptor's length, if it changes.
    pub data_len: Option<u16>,
}

impl Reply {
    pub fn ok() -> Self {
        Self::default()
    }

    pub fn error(code: u16) -> Self {
        Self { code, ..Self::default() }
    }

    /// The request's parameters with little-endian values at byte offsets.
    pub fn params(request: &Request, values: &[(usize, &[u8])]) -> Self {
        let mut params = request.params;
        for (at, bytes) in values {
            if let Some(place) = params.get_mut(*at..*at + bytes.len()) {
                place.copy_from_slice(bytes);
            }
        }
        Self { params: Some(params), ..Self::default() }
    }

    pub fn with_buffer(mut self, buffer: Vec<u8>) -> Self {
        self.buffer = buffer;
        self
    }
}

/// State of the firmware for one function.
pub struct Firmware {
    pub mac: [u8; 6],
    pub link: Link,
    pub vsi: Vsi,
    pub filters: Filters,
    elements: elements::Elements,
    pub nvm: ShadowRam,
    /// Frames may have two tags that count (Set Port Parameters).
    pub double_vlan: bool,
    pub lldp: Lldp,
    pub unknown: Vec<u16>,
    /// Queue pairs of the function.
    pub queues: u32,
    /// Versions of the firmware and of its interface.
    version: ((u16, u16), (u16, u16)),
}

/// Versions: firmware 6.1 with interface 1.7, the first that is not slow with small frames.
const FIRMWARE: (u16, u16) = (6, 1);
const BUILD: u32 = 48442;
const API: (u16, u16) = (1, 7);

impl Firmware {
    pub fn new(mac: [u8; 6], device_id: u16) -> Self {
        Self {
            mac,
            link: Link::new(device_id),
            vsi: Vsi::default(),
            filters: Filters::new(mac),
            elements: Default::default(),
            nvm: ShadowRam::new(),
            double_vlan: false,
            lldp: Lldp::new(mac),
            unknown: Vec::new(),
            queues: 128,
            version: (FIRMWARE, API),
        }
    }

    /// Another version, with its interface if that is another one, too.
    pub fn set_version(&mut self, firmware: (u16, u16), api: Option<(u16, u16)>) {
        self.version = (firmware, api.unwrap_or(self.version.1));
    }

    /// Receive control registers by command: by drivers, from interface 1.5 on.
    fn has_rx_control(&self) -> bool {
        self.version.1 >= (1, 5)
    }

    /// Reset of the function: one VSI and its permanent address; link and settings are not touched.
    pub fn reset(&mut self) {
        self.vsi = Vsi::default();
        self.filters = Filters::new(self.mac);
        self.elements = Default::default();
        self.link.report_changes = false;
        self.double_vlan = false;
    }

    /// Carries out a command.
    pub fn command(&mut self, request: Request, registers: &mut Registers, faults: &Faults) -> Reply {
        match request.opcode {
            0x0001 => self.get_version(&request),
            0x0008 => Self::request_resource(&request),
            0x0203 => {
                const DOUBLE_VLAN: u16 = 1 << 2;
                self.double_vlan = request.u16(0) & DOUBLE_VLAN != 0;
                Reply::ok()
            }
            0x000a | 0x000b => capability::list(&request, self.queues),
            0x0107 => self.mac_address(&request),
            0x0206 | 0x0207 if !self.has_rx_control() => Reply::error(code::ESRCH),
            0x0206 => {
                let value = registers.get(request.u32(4));
                Reply::params(&request, &[(12, &value.to_le_bytes())])
            }
            0x0207 => {
                registers.set(request.u32(4), request.u32(12));
                Reply::ok()
            }
            0x0200 | 0x0210..=0x0212 | 0x0230 | 0x0232 | 0x0243 | 0x0250 | 0x0251 | 0x0254 => {
                self.switch_command(request)
            }
            0x0407 | 0x0408 | 0x040a | 0x0418 | 0x041a => self.switch_command(request),
            0x0600 | 0x0601 | 0x0603 | 0x0605 | 0x0607 | 0x0613 => self.link.command(&request, faults),
            0x0629 => self.link.module.command(&request),
            0x0701 => self.read_nvm(&request),
            // There is no LLDP agent to ask.
            0x0a00 => Reply::error(code::ENOENT),
            0x0a05 => self.lldp.stop(request.u8(0) & 1 != 0),
            0x0a06 => {
                self.lldp.set(true);
                Reply::ok()
            }
            0xff03 => {
                let value = registers.get(request.u32(4));
                Reply::params(&request, &[(8, &[0; 4]), (12, &value.to_le_bytes())])
            }
            0xff04 => {
                registers.set(request.u32(4), request.u32(12));
                Reply::ok()
            }
            // Driver version, shutdown, release, address write, PXE, switch config, control filters,
            // DCB, bandwidth, resume of transmit, loopback, LLDP stop and start, tunnels: nothing to answer and nothing to model.
            0x0002 | 0x0003 | 0x0009 | 0x0108 | 0x0110 | 0x0205 | 0x025a | 0x025b | 0x0303 | 0x0400
            | 0x041c | 0x0618 | 0x0a01 | 0x0a07 | 0x0a08 | 0x0b00 | 0x0b01 => Reply::ok(),
            opcode => {
                if self.unknown.len() < 64 {
                    self.unknown.push(opcode);
                }
                Reply::error(code::ESRCH)
            }
        }
    }

    fn get_version(&self, request: &Request) -> Reply {
        let (firmware, api) = self.version;
        Reply::params(
            request,
            &[
                (0, &1_u32.to_le_bytes()),
                (4, &BUILD.to_le_bytes()),
                (8, &firmware.0.to_le_bytes()),
                (10, &firmware.1.to_le_bytes()),
                (12, &api.0.to_le_bytes()),
                (14, &api.1.to_le_bytes()),
            ],
        )
    }

    /// The only other owner of the settings would be another function.
    fn request_resource(request: &Request) -> Reply {
        let timeout: u32 = if request.u16(2) == 1 { 3_000 } else { 180_000 };
        Reply::params(request, &[(4, &timeout.to_le_bytes())])
    }

    fn mac_address(&self, request: &Request) -> Reply {
        const LAN_AND_PORT: u16 = 0x10 | 0x40;
        let mut buffer = [0; 24];
        buffer[..6].copy_from_slice(&self.mac);
        buffer[12..18].copy_from_slice(&self.mac);
        Reply::params(request, &[(0, &LAN_AND_PORT.to_le_bytes())]).with_buffer(buffer.to_vec())
    }

    /// Reads bytes of the flat image, which begins with the shadow RAM.
    fn read_nvm(&self, request: &Request) -> Reply {
        let (len, offset) = (usize::from(request.u16(2)).min(request.buffer.len()), request.u32(4) as usize);
        let byte = |at: usize| self.nvm.word(at / 2).to_le_bytes()[at % 2];
        Reply::ok().with_buffer((offset..offset.saturating_add(len)).map(byte).collect())
    }
}
