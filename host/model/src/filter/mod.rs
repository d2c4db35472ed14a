//! Which frames the function receives. Datasheet: "MAC and VLAN Filters", "VSI Promiscuous Modes".

pub mod fields;
pub mod rss;

use std::collections::BTreeSet;

/// A perfect match of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MacVlan {
    /// Destination address.
    pub mac: [u8; 6],
    /// Tag that the frame must have, 0 for none; `None` for any.
    pub vlan: Option<u16>,
}

/// Filters of the VSI.
#[derive(Debug, Clone, Default)]
pub struct Filters {
    list: Vec<MacVlan>,
    /// Every unicast, multicast, broadcast frame.
    pub promiscuous: [bool; 3],
    /// The same for frames of one VLAN, 0 for those without tag.
    pub promiscuous_vlans: [BTreeSet<u16>; 3],
    /// The VSI is the default one: it gets what nothing else is for. Linux's way to be promiscuous with a VEB.
    pub default: bool,
}

/// Filters of a card, of which the function may use them all.
pub const CAPACITY: usize = 1536;

impl Filters {
    /// As after a reset: the permanent address, whatever the tag.
    pub fn new(mac: [u8; 6]) -> Self {
        Self { list: vec![MacVlan { mac, vlan: None }], ..Self::default() }
    }

    /// Adds a filter; says whether there was room.
    pub fn add(&mut self, filter: MacVlan) -> bool {
        if self.list.contains(&filter) {
            return true;
        }
        let room = self.list.len() < CAPACITY;
        if room {
            self.list.push(filter);
        }
        room
    }

    /// Removes a filter; says whether it was there.
    pub fn remove(&mut self, filter: MacVlan) -> bool {
        let before = self.list.len();
        self.list.retain(|other| *other != filter);
        self.list.len() != before
    }

    /// Filters that can be added.
    pub fn free(&self) -> usize {
        CAPACITY - self.list.len()
    }

    /// Whether a frame is received.
    pub fn pass(&self, frame: &[u8]) -> bool {
        let kind = crate::stats::kind(frame);
        if self.promiscuous[kind] || self.default {
            return true;
        }
        let Some(mac) = frame.get(..6) else { return false };
        let tag = match frame.get(12..16) {
            Some([0x81, 0x00, high, low]) => u16::from_be_bytes([*high, *low]) & 0xfff,
            _ => 0,
        };
        if self.promiscuous_vlans[kind].contains(&tag) {
            return true;
        }
        self.list.iter().any(|filter| filter.mac == mac && filter.vlan.is_none_or(|vlan| vlan == tag))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(mac: [u8; 6], tag: Option<u16>) -> Vec<u8> {
        let mut frame = mac.to_vec();
        frame.extend([2, 0, 0, 0, 0, 9]);
        if let Some(tag) = tag {
            frame.extend([0x81, 0, (tag >> 8) as u8, tag as u8]);
        }
        frame.resize(60, 0);
        frame
    }

    #[test]
    fn address_and_tag_decide() {
        let (own, other) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        let mut filters = Filters::new(own);
        assert!(filters.pass(&frame(own, None)) && filters.pass(&frame(own, Some(5))));
        assert!(!filters.pass(&frame(other, None)));
        assert!(filters.add(MacVlan { mac: other, vlan: Some(5) }));
        assert!(filters.pass(&frame(other, Some(0x2005))) && !filters.pass(&frame(other, Some(6))));
        assert!(filters.add(MacVlan { mac: other, vlan: Some(0) }));
        assert!(filters.pass(&frame(other, None)));
        assert!(filters.remove(MacVlan { mac: other, vlan: Some(0) }));
        assert!(!filters.remove(MacVlan { mac: other, vlan: Some(0) }));
        assert!(!filters.pass(&frame([0xff; 6], None)));
        filters.promiscuous[2] = true;
        assert!(filters.pass(&frame([0xff; 6], None)) && !filters.pass(&frame([1, 0, 0, 0, 0, 0], None)));
        filters.promiscuous_vlans[1].insert(5);
        assert!(filters.pass(&frame([1, 0, 0, 0, 0, 0], Some(5))));
        assert!(!filters.pass(&frame([1, 0, 0, 0, 0, 0], None)) && !filters.pass(&frame(other, None)));
    }
}
