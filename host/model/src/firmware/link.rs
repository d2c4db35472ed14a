//! PHY and link commands.

use super::module::Module;
use super::{Reply, Request, code};
use crate::faults::Faults;

/// Link of the port, as the firmware knows it.
#[derive(Debug, Clone)]
pub struct Link {
    /// What is plugged in.
    pub module: Module,
    /// Somebody is at the other end of the cable.
    pub plugged: bool,
    /// The driver has switched the PHY off by a configuration without types.
    off: bool,
    /// Pause, link and negotiation bits of the driver's configuration. The other end of the cable agrees to pause frames
    /// either way; the frames themselves are not modelled.
    abilities: u8,
    /// The next change is reported as an event.
    pub report_changes: bool,
    /// No frame of more than 1522 bytes is received until Set MAC Config says otherwise.
    pub short_frames: bool,
    mask: u16,
    phy_type: u8,
    speed: u8,
    max_frame: u16,
}

/// In the abilities: pause frames are sent (bit 0), are heeded (bit 1).
const PAUSE: u8 = 3;

const GET_LINK_STATUS: u16 = 0x0607;
const MASK_LINK: u16 = 2;
const LINK_ENABLED_AND_AN: u8 = 0x18;

impl Link {
    pub fn new(device_id: u16) -> Self {
        // 40GBASE-SR4 on a card for QSFP+, else 10GBASE-SR.
        let (module, phy_type, speed) = match device_id {
            0x1583..=0x1584 => (Module::Qsfp, 0x19, 0x10),
            _ => (Module::Sfp, 0x14, 0x08),
        };
        Self {
            module,
            plugged: true,
            off: false,
            abilities: LINK_ENABLED_AND_AN,
            report_changes: false,
            short_frames: false,
            mask: 0,
            phy_type,
            speed,
            max_frame: 9728,
        }
    }

    /// A port of 10 Gbit/s.
    pub fn is_slow(&self) -> bool {
        self.speed == 0x08
    }

    /// Frames cross.
    pub fn up(&self) -> bool {
        self.plugged && !self.off
    }

    /// PRTMAC_LINKSTA for this state.
    pub fn register(&self) -> u32 {
        let speed = if self.speed == 0x08 { 2 } else { 3 };
        if self.up() { 1 << 30 | 1 << 7 | speed << 27 } else { 0 }
    }

    /// An event for a change, if one is wanted: wanted once, until the driver asks again.
    pub fn event(&mut self) -> Option<crate::adminq::Event> {
        let wanted = std::mem::replace(&mut self.report_changes, false) && self.mask & MASK_LINK == 0;
        wanted.then(|| crate::adminq::Event { opcode: GET_LINK_STATUS, params: self.status(), length: 0 })
    }

    pub fn command(&mut self, request: &Request, faults: &Faults) -> Reply {
        match request.opcode {
            0x0600 => self.abilities(request),
            0x0601 => {
                const AT_ONCE: u8 = 0x20;
                self.off = request.u32(0) == 0 || request.u8(4) == 0;
                self.abilities = request.u8(5) & !AT_ONCE;
                Reply::ok()
            }
            0x0603 => {
                if faults.mac_config_needs_link && !self.up() {
                    return Reply::error(code::EINVAL);
                }
                self.max_frame = request.u16(0);
                self.short_frames = false;
                Reply::ok()
            }
            0x0605 => {
                const ENABLE: u8 = 4;
                if request.u8(0) & ENABLE != 0 {
                    self.off = false;
                }
                Reply::ok()
            }
            0x0613 => {
                self.mask = request.u16(8);
                Reply::ok()
            }
            _ => {
                match request.u16(0) & 3 {
                    3 => self.report_changes = true,
                    2 => self.report_changes = false,
                    _ => {}
                }
                Reply { params: Some(self.status()), ..Reply::default() }
            }
        }
    }

    /// Parameters of the answer to Get Link Status.
    fn status(&self) -> [u8; 16] {
        let [frame_low, frame_high] = self.max_frame.to_le_bytes();
        let types = (1_u64 << self.phy_type).to_le_bytes();
        let up = self.up();
        let (speed, info) = if up { (self.speed, 0xe1) } else { (0, 0x40 | 0x20) };
        let negotiated = if up { 0x81 | (self.abilities & PAUSE) << 5 } else { 0x80 };
        [
            u8::from(self.report_changes),
            0,
            self.phy_type,
            speed,
            info,
            negotiated,
            0,
            0,
            frame_low,
            frame_high,
            0x04,
            types[0],
            types[1],
            types[2],
            types[3],
            types[4],
        ]
    }

    fn abilities(&self, request: &Request) -> Reply {
        let mut buffer = vec![0; request.buffer.len()];
        let types = (1_u64 << self.phy_type).to_le_bytes();
        let mut put = |at: usize, bytes: &[u8]| {
            if let Some(place) = buffer.get_mut(at..at + bytes.len()) {
                place.copy_from_slice(bytes);
            }
        };
        let initial = request.u8(0) & 2 != 0;
        if initial || !self.off {
            put(0, &types[..4]);
            put(4, &[self.speed]);
            put(13, &types[4..5]);
        }
        put(5, &[if initial { LINK_ENABLED_AND_AN } else { self.abilities }]);
        put(20, &self.module.kind());
        Reply::ok().with_buffer(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(opcode: u16, params: &[u8]) -> Request {
        let mut request = Request { opcode, params: [0; 16], buffer: vec![0; 536] };
        request.params[..params.len()].copy_from_slice(params);
        request
    }

    /// What was set is there, and what the card began with is there still.
    #[test]
    fn abilities_are_what_was_set() {
        let mut link = Link::new(0x1572);
        let faults = Faults::default();
        // Set PHY Config: 10GBASE-SR, 10G, pause both ways, link, at once.
        link.command(&request(0x0601, &[0, 0, 0x10, 0, 8, 0x2b]), &faults);
        let current = link.command(&request(0x0600, &[0]), &faults).buffer;
        let initial = link.command(&request(0x0600, &[2]), &faults).buffer;
        assert_eq!((&current[..6], initial[5]), (&[0, 0, 0x10, 0, 8, 0x0b][..], 0x18));
        // Without types the PHY is off, and has none.
        link.command(&request(0x0601, &[0; 6]), &faults);
        let current = link.command(&request(0x0600, &[0]), &faults).buffer;
        assert_eq!((&current[..6], link.up()), (&[0; 6][..], false));
    }
}
