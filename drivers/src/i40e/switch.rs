//! The card's internal switch, as far as one function without virtual ones sees it: its VSI.
//! Datasheet: "VEB/VSI Commands".

use hal::{BarAccess, Machine};

use super::adminq::{AdminQueue, Command, Data};
use super::command;
use super::error::Error;
use super::regs::{self, PfqfCtl0};

const VSI_BYTES: usize = 128;
const ELEMENT: usize = 16;
/// SEIDs have 10 bits.
const SEID_MASK: u16 = 0x3ff;
const SECTION_VLAN: u16 = 1 << 2;
/// Where the VSI's data say what happens to tags.
const PORT_VLAN: usize = 0x0c;
/// Tagged and untagged frames may be sent.
const VLAN_ALL: u8 = 3;
/// Tag and priority are stripped.
const EMOD_BOTH: u8 = 0;
/// Nothing is stripped.
const EMOD_NOTHING: u8 = 3 << 3;

/// The function's own virtual station interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vsi {
    /// Its number in the switch.
    pub seid: u16,
    /// Its queue set for traffic class 0: the transmit contexts' ready list.
    pub queue_set: u16,
    /// Its index in the GLV statistics.
    pub stat_index: u16,
}

/// Finds the function's VSI, gives it `queues` queues from its first one on, and lets it receive every frame
/// as it came: tags in place, own source addresses included.
pub fn set_up_vsi<M: Machine>(queue: &mut AdminQueue<M>, queues: u16) -> Result<Vsi, Error> {
    let seid = find_vsi(queue)?;
    let mut data = [0; VSI_BYTES];
    let get = Command::new("Get VSI Parameters", 0x0212).u16(0, seid);
    queue.send(&get, Data::Read(&mut data))?;
    let u16_at = |at: usize| u16::from_le_bytes([data[at], data[at + 1]]);
    let vsi = Vsi { seid, queue_set: u16_at(0x60) & SEID_MASK, stat_index: u16_at(0x70) };
    let switch_id = u16_at(2);
    let mut data = update_data(switch_id, queues);
    let update = Command::new("Update VSI Parameters", 0x0211).u16(0, seid);
    queue.send(&update, Data::Write(&mut data))?;
    Ok(vsi)
}

/// The sections of the VSI that change; all others are kept.
fn update_data(switch_id: u16, queues: u16) -> [u8; VSI_BYTES] {
    const SECTION_SWITCH: u16 = 1 << 0;
    const SECTION_QUEUES: u16 = 1 << 6;
    /// Without it the switch drops frames that bear the port's own address as source.
    const LOCAL_LB: u16 = 0x4000;
    let mut data = [0; VSI_BYTES];
    let mut put = |at: usize, value: u16| data[at..at + 2].copy_from_slice(&value.to_le_bytes());
    put(0, SECTION_SWITCH | SECTION_VLAN | SECTION_QUEUES);
    put(2, switch_id | LOCAL_LB);
    // Queues are consecutive, from the function's queue 0 on.
    put(0x1c, 0);
    put(0x1e, 0);
    let log2 = queues.max(1).ilog2() as u16;
    put(0x3e, log2 << 9);
    data[PORT_VLAN] = VLAN_ALL | EMOD_NOTHING;
    data
}

fn find_vsi<M: Machine>(queue: &mut AdminQueue<M>) -> Result<u16, Error> {
    const NAME: &str = "Get Switch Configuration";
    const STEP: &str = "Get Switch Configuration (0x0200)";
    const TYPE_VSI: u8 = 19;
    let mut data = [0; 512];
    queue.send(&Command::new(NAME, 0x0200), Data::Read(&mut data))?;
    let reported = usize::from(u16::from_le_bytes([data[0], data[1]]));
    let elements = data[ELEMENT..].chunks_exact(ELEMENT).take(reported);
    for element in elements {
        if element[0] == TYPE_VSI {
            return Ok(u16::from_le_bytes([element[2], element[3]]) & SEID_MASK);
        }
    }
    Err(Error::Card {
        step: STEP,
        what: "the number of elements, none of them a VSI,",
        value: reported as u64,
    })
}

/// Turns address filters on in the receive path: by command, or directly where the firmware has none.
pub fn enable_filters<M: Machine>(queue: &mut AdminQueue<M>, bar: &M::Bar) {
    let register = regs::PFQF_CTL_0;
    let wanted = PfqfCtl0::MACVLAN_ENA | PfqfCtl0::ETYPE_ENA | PfqfCtl0::HASHLUTSIZE_512;
    let by_command = command::read_rx_control(queue, register.offset())
        .and_then(|old| command::write_rx_control(queue, register.offset(), old | wanted.bits()));
    if by_command.is_err() {
        bar.update(register, |old| old | wanted);
    }
}

/// 0x0203: frames may have two tags that count, or one. By drivers (DPDK's `i40e_aq_set_port_parameters`).
pub fn set_double_vlan<M: Machine>(queue: &mut AdminQueue<M>, on: bool) -> Result<(), Error> {
    const PAD_SHORT: u16 = 1 << 1;
    const DOUBLE_VLAN: u16 = 1 << 2;
    let flags = PAD_SHORT | if on { DOUBLE_VLAN } else { 0 };
    queue.send(&Command::new("Set Port Parameters", 0x0203).u16(0, flags), Data::None).map(drop)
}

/// 0x0211: tags are taken out of received frames and handed over apart, or left where they are.
pub fn set_vlan_strip<M: Machine>(queue: &mut AdminQueue<M>, vsi: Vsi, strip: bool) -> Result<(), Error> {
    let mut data = [0; VSI_BYTES];
    data[..2].copy_from_slice(&SECTION_VLAN.to_le_bytes());
    data[PORT_VLAN] = VLAN_ALL | if strip { EMOD_BOTH } else { EMOD_NOTHING };
    let update = Command::new("Update VSI Parameters", 0x0211).u16(0, vsi.seid);
    queue.send(&update, Data::Write(&mut data)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offsets of the VSI's data from Linux `i40e_aqc_vsi_properties_data`.
    #[test]
    fn update_names_what_it_changes_and_nothing_else() {
        let data = update_data(0x0001, 64);
        assert_eq!(data[..4], [0x45, 0, 0x01, 0x40]);
        assert_eq!(data[0x0c], 0x1b);
        assert_eq!(data[0x3e..0x40], [0, 6 << 1]);
        assert_eq!(data.iter().filter(|byte| **byte != 0).count(), 5);
    }
}
