//! The internal switch: the main VSI, its filters, its bandwidth.

use super::{Firmware, Reply, Request, code};
use crate::filter::MacVlan;
use crate::stats::VSI_INDEX;

pub const VSI_SEID: u16 = 0x186;
pub const VSI_NUMBER: u16 = 3;
pub const MAC_SEID: u16 = 2;
const PF_SEID: u16 = 0x10;
const QUEUE_SET: u16 = 0x15;
const SEID_MASK: u16 = 0x3ff;
const VSI_BYTES: usize = 128;
const ELEMENT: usize = 16;

/// Data of the VSI, in the layout of the commands.
#[derive(Clone)]
pub struct Vsi {
    data: [u8; VSI_BYTES],
}

impl Default for Vsi {
    fn default() -> Self {
        let mut data = [0; VSI_BYTES];
        // Tagged and untagged frames, tags left in them; one queue from the function's first on.
        data[0x0c] = 0x1b;
        data[0x60..0x70].fill(0xff);
        data[0x60..0x62].copy_from_slice(&QUEUE_SET.to_le_bytes());
        data[0x70..0x72].copy_from_slice(&(VSI_INDEX as u16).to_le_bytes());
        Self { data }
    }
}

/// Sections of the data that an update may name: bit, first byte, bytes.
const SECTIONS: [(u16, usize, usize); 9] = [
    (1 << 0, 0x02, 4),
    (1 << 1, 0x06, 2),
    (1 << 2, 0x08, 8),
    (1 << 3, 0x18, 4),
    (1 << 4, 0x10, 4),
    (1 << 5, 0x14, 4),
    (1 << 6, 0x1c, 0x32),
    (1 << 7, 0x4e, 4),
    (1 << 8, 0x54, 4),
];

impl Vsi {
    /// The `nth` VSI beside the main one, with a driver's data.
    pub fn added(nth: u16, data: &[u8]) -> Self {
        let mut vsi = Self::default();
        vsi.update(data);
        vsi.data[0x70..0x72].copy_from_slice(&(VSI_INDEX as u16 + nth).to_le_bytes());
        vsi
    }

    fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.data[at], self.data[at + 1]])
    }

    fn update(&mut self, data: &[u8]) {
        let Some([low, high]) = data.get(..2) else { return };
        let sections = u16::from_le_bytes([*low, *high]);
        for (bit, start, len) in SECTIONS {
            if sections & bit != 0
                && let Some(from) = data.get(start..start + len)
            {
                self.data[start..start + len].copy_from_slice(from);
            }
        }
    }

    /// Tags are taken out of received frames.
    pub fn strips_tags(&self) -> bool {
        matches!(self.data[0x0c] >> 3 & 3, 0 | 2)
    }

    /// Frames that bear one of the port's own addresses as source are received.
    pub fn receives_own(&self) -> bool {
        const LOCAL_LB: u16 = 0x4000;
        self.u16(2) & LOCAL_LB != 0
    }

    /// The queue that queue indexes within the VSI count from.
    pub fn first_queue(&self) -> u32 {
        u32::from(self.u16(0x1e))
    }

    /// First queue of traffic class 0, and how many.
    pub fn queues(&self) -> (u32, u32) {
        let map = self.u16(0x3e);
        (self.first_queue() + u32::from(map & 0x1ff), 1 << (map >> 9 & 7))
    }
}

impl Firmware {
    pub(super) fn switch_command(&mut self, request: Request) -> Reply {
        match request.opcode {
            0x0200 => Self::switch_config(&request),
            0x0211 | 0x0212 => self.vsi_command(request),
            0x0250 | 0x0251 if request.u16(2) & SEID_MASK != VSI_SEID => Reply::error(code::ENOENT),
            0x0250 => self.add_addresses(request),
            0x0251 => self.remove_addresses(request),
            0x0254 => self.set_promiscuous(&request),
            0x0407 => {
                let mut buffer = request.buffer;
                if let Some(handle) = buffer.get_mut(16..18) {
                    handle.copy_from_slice(&QUEUE_SET.to_le_bytes());
                }
                Reply::ok().with_buffer(buffer)
            }
            0x0408 => Self::bandwidth(&request, 16, &QUEUE_SET.to_le_bytes()),
            0x040a => Self::bandwidth(&request, 4, &[100]),
            _ => self.element_command(&request),
        }
    }

    fn switch_config(request: &Request) -> Reply {
        const TYPE_VSI: u8 = 19;
        let mut buffer = [0; 2 * ELEMENT];
        (buffer[0], buffer[2]) = (1, 1);
        (buffer[16], buffer[17], buffer[27]) = (TYPE_VSI, 1, 1);
        for (at, seid) in [(18, VSI_SEID), (20, MAC_SEID), (22, PF_SEID)] {
            buffer[at..at + 2].copy_from_slice(&seid.to_le_bytes());
        }
        Reply::params(request, &[(0, &[0, 0])]).with_buffer(buffer.to_vec())
    }

    /// Get and Update VSI Parameters.
    fn vsi_command(&mut self, request: Request) -> Reply {
        let seid = request.u16(0) & SEID_MASK;
        let vsi = if seid == VSI_SEID { Some(&mut self.vsi) } else { self.elements.vsi(seid) };
        let Some(vsi) = vsi else { return Reply::error(code::ENOENT) };
        if request.opcode == 0x0212 {
            let data = vsi.data.to_vec();
            return Reply { buffer: data, ..self.vsi_reply(&request, seid) };
        }
        vsi.update(&request.buffer);
        Reply { buffer: request.buffer.clone(), ..self.vsi_reply(&request, seid) }
    }

    /// SEID and number of a VSI, counts of VSIs, and the data of an added one.
    pub(super) fn vsi_reply(&mut self, request: &Request, seid: u16) -> Reply {
        let (used, free) = self.elements.counts();
        let words = [seid, VSI_NUMBER + seid - VSI_SEID, used, free].map(u16::to_le_bytes);
        let data = self.elements.vsi(seid).map_or(Vec::new(), |vsi| vsi.data.to_vec());
        Reply::params(request, &[(0, words.as_flattened())]).with_buffer(data)
    }

    /// `tc_valid` for traffic class 0, and a value in its place.
    pub(super) fn bandwidth(request: &Request, at: usize, value: &[u8]) -> Reply {
        let mut buffer = vec![0; request.buffer.len()];
        if let Some(first) = buffer.first_mut() {
            *first = 1;
        }
        if let Some(place) = buffer.get_mut(at..at + value.len()) {
            place.copy_from_slice(value);
        }
        Reply::ok().with_buffer(buffer)
    }

    fn element(bytes: &[u8], ignore_vlan: u16) -> (MacVlan, bool) {
        const PERFECT: u16 = 1;
        let mut mac = [0; 6];
        mac.copy_from_slice(&bytes[..6]);
        let flags = u16::from_le_bytes([bytes[8], bytes[9]]);
        let vlan = u16::from_le_bytes([bytes[6], bytes[7]]) & 0xfff;
        let filter = MacVlan { mac, vlan: (flags & ignore_vlan == 0).then_some(vlan) };
        (filter, flags & PERFECT != 0)
    }

    fn add_addresses(&mut self, request: Request) -> Reply {
        const IGNORE_VLAN: u16 = 4;
        const NO_MATCH: u8 = 0xff;
        let count = usize::from(request.u16(0));
        let mut code = 0;
        let mut buffer = request.buffer.clone();
        for element in buffer.chunks_exact_mut(ELEMENT).take(count) {
            let (filter, perfect) = Self::element(element, IGNORE_VLAN);
            let added = self.filters.add(filter);
            element[12] = if added { if perfect { 1 } else { 2 } } else { NO_MATCH };
            if !added {
                code = code::ENOSPC;
            }
        }
        let (used, free) = (1536 - self.filters.free() as u16, self.filters.free() as u16);
        let reply = Reply::params(&request, &[(0, &used.to_le_bytes()), (2, &free.to_le_bytes())]);
        Reply { code, ..reply }.with_buffer(buffer)
    }

    fn remove_addresses(&mut self, request: Request) -> Reply {
        const IGNORE_VLAN: u16 = 8;
        let count = usize::from(request.u16(0));
        let mut code = 0;
        let mut buffer = request.buffer.clone();
        for element in buffer.chunks_exact_mut(ELEMENT).take(count) {
            // Only the low byte holds flags here.
            element[9] = 0;
            let (filter, _) = Self::element(element, IGNORE_VLAN);
            let removed = self.filters.remove(filter);
            element[12] = if removed { 0 } else { 0xff };
            if !removed {
                code = code::ENOENT;
            }
        }
        Reply { code, ..Reply::default() }.with_buffer(buffer)
    }

    fn set_promiscuous(&mut self, request: &Request) -> Reply {
        const VLAN_VALID: u16 = 1 << 15;
        const DEFAULT: u16 = 1 << 3;
        let (flags, valid) = (request.u16(0), request.u16(2));
        if request.u16(4) & SEID_MASK != VSI_SEID {
            return Reply::error(code::ENOENT);
        }
        if valid & DEFAULT != 0 {
            self.filters.default = flags & DEFAULT != 0;
        }
        let vlan = Some(request.u16(6)).filter(|vlan| vlan & VLAN_VALID != 0).map(|vlan| vlan & 0xfff);
        for (bit, kind) in [(1 << 0, 0), (1 << 1, 1), (1 << 2, 2)] {
            if valid & bit == 0 {
                continue;
            }
            let on = flags & bit != 0;
            match vlan {
                None => self.filters.promiscuous[kind] = on,
                Some(vlan) if on => _ = self.filters.promiscuous_vlans[kind].insert(vlan),
                Some(vlan) => _ = self.filters.promiscuous_vlans[kind].remove(&vlan),
            }
        }
        Reply::ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An update changes the sections that it names, and firmware's own fields stay.
    #[test]
    fn an_update_changes_only_what_it_names() {
        let mut vsi = Vsi::default();
        let mut data = [0xee; VSI_BYTES];
        data[..2].copy_from_slice(&(1_u16 << 2).to_le_bytes());
        data[0x0c] = 0x03;
        vsi.update(&data);
        assert!(vsi.strips_tags());
        assert_eq!((vsi.u16(0x60), vsi.u16(2), vsi.queues()), (QUEUE_SET, 0, (0, 1)));
        data[..2].copy_from_slice(&(1_u16 << 6 | 1).to_le_bytes());
        data[0x1c..0x50].fill(0);
        data[0x3f] = 6 << 1;
        vsi.update(&data);
        assert_eq!((vsi.queues(), vsi.receives_own()), ((0, 64), true));
        vsi.update(&[1]);
    }
}
