//! Which frames the function receives: addresses, tags, and the modes that let everything in. Datasheet: "MAC and VLAN
//! Filters", "VSI Promiscuous Modes".
//!
//! The card knows pairs of an address and a tag. Without a tag filter each address is one pair that matches any tag;
//! with it each address makes a pair with each tag that is let in, 0 for frames without one.

use alloc::vec::Vec;

use hal::Machine;
use kernel::MacAddr;

use super::adminq::{AdminQueue, Command, Data};
use super::error::{AdminFault, Error};
use super::switch::Vsi;

/// Addresses of a function, its own and the broadcast address among them.
pub const MAX_ADDRESSES: usize = 128;
/// Pairs that this driver asks for; a card has 1536 for all of its functions.
const MAX_PAIRS: usize = 1024;
const STEP: &str = "receive filter";
const ELEMENT: usize = 16;
/// Elements of one command: what fits a buffer.
const BATCH: usize = super::adminq::BUFFER / ELEMENT;
const BROADCAST: MacAddr = MacAddr([0xff; 6]);
/// An address list belongs to the VSI whose SEID goes with this bit.
const SEID_VALID: u16 = 0x8000;

/// An address and the tag that goes with it; `None`: any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pair {
    mac: MacAddr,
    vlan: Option<u16>,
}

/// What is received.
#[derive(Debug, Clone)]
pub struct Filters {
    addresses: Vec<MacAddr>,
    /// Sorted.
    vlans: Vec<u16>,
    vlan_filter: bool,
    promiscuous: bool,
    all_multicast: bool,
}

impl Filters {
    /// The port's own address and broadcasts, whatever their tag.
    pub fn new(own: MacAddr) -> Self {
        Self {
            addresses: [own, BROADCAST].into(),
            vlans: Vec::new(),
            vlan_filter: false,
            promiscuous: false,
            all_multicast: false,
        }
    }

    /// Everything is received.
    pub fn promiscuous(&self) -> bool {
        self.promiscuous
    }

    /// Every multicast frame is received.
    pub fn all_multicast(&self) -> bool {
        self.all_multicast
    }

    /// Only frames without a tag or with one of [`Filters::vlans`] are received.
    pub fn vlan_filter(&self) -> bool {
        self.vlan_filter
    }

    /// The tags that are let in.
    pub fn vlans(&self) -> &[u16] {
        &self.vlans
    }

    /// The addresses, the port's own one first.
    pub fn addresses(&self) -> &[MacAddr] {
        &self.addresses
    }

    fn pairs(&self) -> Vec<Pair> {
        let mut pairs = Vec::new();
        for mac in self.addresses.iter().copied() {
            if self.vlan_filter {
                pairs.extend([0].iter().chain(&self.vlans).map(|vlan| Pair { mac, vlan: Some(*vlan) }));
            } else {
                pairs.push(Pair { mac, vlan: None });
            }
        }
        pairs
    }

    /// Adds an address.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn add_address(&mut self, mac: MacAddr) -> Result<(), Error> {
        if self.addresses.contains(&mac) {
            return Ok(());
        }
        if self.addresses.len() >= MAX_ADDRESSES {
            let value = MAX_ADDRESSES as u64 + 1;
            return Err(Error::Request { step: STEP, what: "the number of addresses", value });
        }
        self.addresses.push(mac);
        Ok(())
    }

    /// Removes an address; the port's own one and broadcasts stay.
    ///
    /// # Errors
    /// It is not there, or has to stay.
    pub fn remove_address(&mut self, mac: MacAddr) -> Result<(), Error> {
        let at = self.addresses.iter().skip(2).position(|other| *other == mac);
        let value = mac.0.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
        let at = at.ok_or(Error::Request { step: STEP, what: "an address to remove", value })?;
        self.addresses.remove(at + 2);
        Ok(())
    }

    /// Turns the tag filter on or off.
    pub fn set_vlan_filter(&mut self, on: bool) {
        self.vlan_filter = on;
    }

    /// Lets a tag in, or no more.
    ///
    /// # Errors
    /// It is no tag of 1 to 4094.
    pub fn set_vlan(&mut self, vlan: u16, on: bool) -> Result<(), Error> {
        if !(1..4095).contains(&vlan) {
            return Err(Error::Request { step: STEP, what: "a tag", value: u64::from(vlan) });
        }
        match (self.vlans.binary_search(&vlan), on) {
            (Err(at), true) => self.vlans.insert(at, vlan),
            (Ok(at), false) => {
                self.vlans.remove(at);
            }
            _ => {}
        }
        Ok(())
    }

    /// Receives everything, or not.
    pub fn set_promiscuous(&mut self, on: bool) {
        self.promiscuous = on;
    }

    /// Receives every multicast frame, or not.
    pub fn set_all_multicast(&mut self, on: bool) {
        self.all_multicast = on;
    }
}

/// Brings the card from `old` (`None`: as after a reset) to `new`. What comes is added before what goes is removed, so
/// that an address that stays is received all the time. What was done before a command failed is undone, as far as the
/// firmware takes that.
pub fn program<M: Machine>(
    queue: &mut AdminQueue<M>,
    vsi: Vsi,
    old: Option<&Filters>,
    new: &Filters,
) -> Result<(), Error> {
    // A reset brings the firmware's own pair back: the permanent address, any tag (by drivers).
    let after_reset =
        || new.addresses.first().map(|mac| Pair { mac: *mac, vlan: None }).into_iter().collect();
    let (before, after) = (old.map_or_else(after_reset, Filters::pairs), new.pairs());
    if after.len() > MAX_PAIRS {
        let value = after.len() as u64;
        return Err(Error::Request { step: STEP, what: "the number of addresses times tags", value });
    }
    // After a reset the pair is added all the same: not every firmware has it.
    let comes = |pair: &&Pair| old.is_none() || !before.contains(pair);
    let added: Vec<Pair> = after.iter().filter(comes).copied().collect();
    let removed: Vec<Pair> = before.iter().filter(|pair| !after.contains(pair)).copied().collect();
    let done = add(queue, vsi, &added)
        .and_then(|()| remove(queue, vsi, &removed))
        .and_then(|()| set_modes(queue, vsi, new));
    if let (Err(_), Some(old)) = (&done, old) {
        let _ = set_modes(queue, vsi, old);
        let _ = add(queue, vsi, &removed);
        let _ = remove(queue, vsi, &added);
    }
    done
}

fn element(pair: &Pair, flags: u16) -> [u8; ELEMENT] {
    let mut element = [0; ELEMENT];
    element[..6].copy_from_slice(&pair.mac.0);
    element[6..8].copy_from_slice(&pair.vlan.unwrap_or(0).to_le_bytes());
    element[8..10].copy_from_slice(&flags.to_le_bytes());
    // The firmware overwrites it.
    element[12] = NO_MATCH;
    element
}

const PERFECT: u16 = 1;
const NO_MATCH: u8 = 0xff;

/// 0x0250
fn add<M: Machine>(queue: &mut AdminQueue<M>, vsi: Vsi, pairs: &[Pair]) -> Result<(), Error> {
    const IGNORE_VLAN: u16 = 4;
    for batch in pairs.chunks(BATCH) {
        let flags = |pair: &Pair| PERFECT | if pair.vlan.is_none() { IGNORE_VLAN } else { 0 };
        let mut data: Vec<u8> = batch.iter().flat_map(|pair| element(pair, flags(pair))).collect();
        let command = Command::new("Add MAC-VLAN Pair", 0x0250)
            .u16(0, batch.len() as u16)
            .u16(2, vsi.seid | SEID_VALID);
        queue.send(&command, Data::Write(&mut data))?;
        if data.chunks_exact(ELEMENT).any(|element| element[12] == NO_MATCH) {
            let value = u64::from(NO_MATCH);
            return Err(Error::Card { step: "Add MAC-VLAN Pair (0x0250)", what: "the match", value });
        }
    }
    Ok(())
}

/// 0x0251. Pairs that are not there are no error.
fn remove<M: Machine>(queue: &mut AdminQueue<M>, vsi: Vsi, pairs: &[Pair]) -> Result<(), Error> {
    const IGNORE_VLAN: u16 = 8;
    const ENOENT: u16 = 2;
    for batch in pairs.chunks(BATCH) {
        let flags = |pair: &Pair| PERFECT | if pair.vlan.is_none() { IGNORE_VLAN } else { 0 };
        let mut data: Vec<u8> = batch.iter().flat_map(|pair| element(pair, flags(pair))).collect();
        let command = Command::new("Remove MAC-VLAN Pair", 0x0251)
            .u16(0, batch.len() as u16)
            .u16(2, vsi.seid | SEID_VALID);
        match queue.send(&command, Data::Write(&mut data)) {
            Err(Error::Admin { fault: AdminFault::Code(ENOENT), .. }) => {}
            other => drop(other?),
        }
    }
    Ok(())
}

/// 0x0254. Broadcasts are an address of the list, so that the tag filter holds for them, too.
fn set_modes<M: Machine>(queue: &mut AdminQueue<M>, vsi: Vsi, filters: &Filters) -> Result<(), Error> {
    const UNICAST: u16 = 1 << 0;
    const MULTICAST: u16 = 1 << 1;
    const BROADCAST: u16 = 1 << 2;
    const VLAN: u16 = 1 << 4;
    let everything = UNICAST | MULTICAST | BROADCAST | VLAN;
    let flags = match (filters.promiscuous, filters.all_multicast) {
        (true, _) => everything,
        (false, true) => MULTICAST,
        (false, false) => 0,
    };
    let command =
        Command::new("Set VSI Promiscuous Modes", 0x0254).u16(0, flags).u16(2, everything).u16(4, vsi.seid);
    queue.send(&command, Data::None).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

    #[test]
    fn a_tag_filter_multiplies_addresses_and_tags() {
        let mut filters = Filters::new(OWN);
        let any = |mac| Pair { mac, vlan: None };
        assert_eq!(filters.pairs(), [any(OWN), any(BROADCAST)]);
        filters.set_vlan(100, true).unwrap();
        filters.set_vlan(5, true).unwrap();
        filters.set_vlan(5, true).unwrap();
        assert_eq!(filters.pairs().len(), 2);
        filters.set_vlan_filter(true);
        let with = |mac, vlan| Pair { mac, vlan: Some(vlan) };
        let want = [0, 5, 100].map(|vlan| with(OWN, vlan)).into_iter();
        let want: Vec<Pair> = want.chain([0, 5, 100].map(|vlan| with(BROADCAST, vlan))).collect();
        assert_eq!(filters.pairs(), want);
        filters.set_vlan(100, false).unwrap();
        assert_eq!(filters.vlans(), [5]);
        for wrong in [0, 4095, 5000] {
            assert!(filters.set_vlan(wrong, true).is_err());
        }
    }

    #[test]
    fn the_own_address_stays_and_the_list_has_an_end() {
        let mut filters = Filters::new(OWN);
        assert!(filters.remove_address(OWN).is_err() && filters.remove_address(BROADCAST).is_err());
        for n in 0..MAX_ADDRESSES as u8 - 2 {
            filters.add_address(MacAddr([1, 0, 0x5e, 0, 0, n])).unwrap();
        }
        filters.add_address(OWN).unwrap();
        assert!(filters.add_address(MacAddr([1, 0, 0x5e, 0, 1, 0])).is_err());
        filters.remove_address(MacAddr([1, 0, 0x5e, 0, 0, 7])).unwrap();
        filters.add_address(MacAddr([1, 0, 0x5e, 0, 1, 0])).unwrap();
    }

    /// `i40e_aqc_add_macvlan_element_data`: address, tag at 6, flags at 8, match at 12.
    #[test]
    fn an_element_as_other_drivers_write_it() {
        let pair = Pair { mac: OWN, vlan: Some(0x123) };
        assert_eq!(element(&pair, 1), [2, 0, 0, 0, 0, 1, 0x23, 1, 1, 0, 0, 0, 0xff, 0, 0, 0]);
    }
}
