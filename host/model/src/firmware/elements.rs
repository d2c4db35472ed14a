//! Elements of the switch that a driver adds: a VEB above the main VSI, and VSIs beside it for queues that receive
//! nothing by a filter of their own, as those that program the flow director.

use super::switch::{MAC_SEID, VSI_SEID, Vsi};
use super::{Firmware, Reply, Request, code};

const VEB_SEID: u16 = 0x1a0;
/// SEIDs and numbers of added VSIs go up from the main VSI's.
const MOST_VSIS: usize = 16;
const VSIS: u16 = 64;

/// What was added since the last reset.
#[derive(Default)]
pub struct Elements {
    /// Flags of the VEB, as the driver gave them.
    veb: Option<u16>,
    vsis: Vec<Option<Vsi>>,
}

impl Elements {
    /// The added VSI of that SEID.
    pub fn vsi(&mut self, seid: u16) -> Option<&mut Vsi> {
        self.vsis.get_mut(usize::from(seid.checked_sub(VSI_SEID + 1)?))?.as_mut()
    }

    /// VSIs in use, the main one among them, and VSIs that are free.
    pub fn counts(&self) -> (u16, u16) {
        let used = 1 + self.vsis.iter().flatten().count() as u16;
        (used, VSIS - used)
    }

    /// Adds a VSI with this data; its SEID, unless there is no room.
    fn add(&mut self, data: &[u8]) -> Option<u16> {
        let place = self.vsis.iter().position(Option::is_none).unwrap_or(self.vsis.len());
        if place >= MOST_VSIS {
            return None;
        }
        if place == self.vsis.len() {
            self.vsis.push(None);
        }
        self.vsis[place] = Some(Vsi::added(1 + place as u16, data));
        Some(VSI_SEID + 1 + place as u16)
    }

    /// Removes the VSI of that SEID; says whether it was there.
    fn remove(&mut self, seid: u16) -> bool {
        let index = seid.checked_sub(VSI_SEID + 1).map(usize::from);
        index.and_then(|index| self.vsis.get_mut(index)?.take()).is_some()
    }
}

impl Firmware {
    pub(super) fn element_command(&mut self, request: &Request) -> Reply {
        match request.opcode {
            0x0210 => self.add_vsi(request),
            0x0230 => self.add_veb(request),
            0x0232 => self.veb(request),
            0x0243 => self.delete_element(request),
            // Bandwidth of the VEB.
            _ if self.elements.veb.is_none() || request.u16(0) != VEB_SEID => Reply::error(code::ENOENT),
            0x041a => Self::bandwidth(request, 4, &[100]),
            _ => Self::bandwidth(request, 0, &[1]),
        }
    }

    /// VSIs of the function itself, beside the main one. Those of virtual functions and queue groups are not there.
    fn add_vsi(&mut self, request: &Request) -> Reply {
        const KIND: u16 = 3;
        const KIND_PF: u16 = 2;
        let uplink = request.u16(0);
        let known = uplink == MAC_SEID || uplink == VEB_SEID && self.elements.veb.is_some();
        if !known {
            return Reply::error(code::ENOENT);
        }
        if request.u16(6) & KIND != KIND_PF {
            return Reply::error(code::ENOSPC);
        }
        match self.elements.add(&request.buffer) {
            Some(seid) => self.vsi_reply(request, seid),
            None => Reply::error(code::ENOSPC),
        }
    }

    fn add_veb(&mut self, request: &Request) -> Reply {
        if (request.u16(0), request.u16(2)) != (MAC_SEID, VSI_SEID) {
            return Reply::error(code::ENOENT);
        }
        if self.elements.veb.is_some() {
            return Reply::error(code::ENOSPC);
        }
        self.elements.veb = Some(request.u16(4));
        let words = [MAC_SEID, VEB_SEID, 0, 1, 0].map(u16::to_le_bytes);
        Reply::params(request, &[(6, words.as_flattened())])
    }

    fn veb(&self, request: &Request) -> Reply {
        match self.elements.veb {
            Some(flags) if request.u16(0) == VEB_SEID => {
                let words = [VEB_SEID, 1, flags, 0, 1, 0].map(u16::to_le_bytes);
                Reply::params(request, &[(0, words.as_flattened())])
            }
            _ => Reply::error(code::ENOENT),
        }
    }

    /// A VEB goes after the VSIs below it; the main VSI stays.
    fn delete_element(&mut self, request: &Request) -> Reply {
        match request.u16(0) {
            VSI_SEID => Reply::error(code::EPERM),
            VEB_SEID if self.elements.veb.is_some() => {
                if self.elements.counts().0 > 1 {
                    return Reply::error(code::EBUSY);
                }
                self.elements.veb = None;
                Reply::ok()
            }
            seid if self.elements.remove(seid) => Reply::ok(),
            _ => Reply::error(code::ENOENT),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(opcode: u16, words: [u16; 4]) -> Request {
        let mut params = [0; 16];
        params[..8].copy_from_slice(words.map(u16::to_le_bytes).as_flattened());
        Request { opcode, params, buffer: vec![0; 128] }
    }

    /// As DPDK and Linux do it for the flow director: VEB, VSI, and both away again.
    #[test]
    fn a_veb_and_a_vsi_come_and_go() {
        let mut firmware = Firmware::new([2, 0, 0, 0, 0, 1], 0x1572);
        let code_of = |firmware: &mut Firmware, opcode, words| {
            let reply = firmware.switch_command(request(opcode, words));
            (reply.code, reply.params.unwrap_or_default())
        };
        assert_eq!(code_of(&mut firmware, 0x0210, [VEB_SEID, 1, 0, 2]).0, code::ENOENT);
        assert_eq!(code_of(&mut firmware, 0x0230, [MAC_SEID, VSI_SEID, 4, 1]).0, 0);
        assert_eq!(code_of(&mut firmware, 0x0230, [MAC_SEID, VSI_SEID, 4, 1]).0, code::ENOSPC);
        assert_eq!(code_of(&mut firmware, 0x0232, [VEB_SEID, 0, 0, 0]).1[4], 4);
        assert_eq!(code_of(&mut firmware, 0x0210, [VEB_SEID, 1, 0, 1]).0, code::ENOSPC);
        let (failure, params) = code_of(&mut firmware, 0x0210, [VEB_SEID, 1, 0, 2]);
        let seid = u16::from_le_bytes([params[0], params[1]]);
        assert_eq!((failure, seid, params[4], params[6]), (0, VSI_SEID + 1, 2, 62));
        assert_eq!(code_of(&mut firmware, 0x0212, [seid, 0, 0, 0]).0, 0);
        assert_eq!(code_of(&mut firmware, 0x0243, [VEB_SEID, 0, 0, 0]).0, code::EBUSY);
        assert_eq!(code_of(&mut firmware, 0x0243, [VSI_SEID, 0, 0, 0]).0, code::EPERM);
        for seid in [seid, VEB_SEID] {
            assert_eq!(code_of(&mut firmware, 0x0243, [seid, 0, 0, 0]).0, 0);
            assert_eq!(code_of(&mut firmware, 0x0243, [seid, 0, 0, 0]).0, code::ENOENT);
        }
        for _ in 0..MOST_VSIS {
            assert_eq!(code_of(&mut firmware, 0x0210, [MAC_SEID, 1, 0, 2]).0, 0);
        }
        assert_eq!(code_of(&mut firmware, 0x0210, [MAC_SEID, 1, 0, 2]).0, code::ENOSPC);
    }
}
