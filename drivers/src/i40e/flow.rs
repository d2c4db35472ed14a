//! Flow control: pause frames that the port heeds and sends. Datasheet: "Get PHY Abilities", "Set PHY Config"; by drivers
//! (`i40e_set_fc`).

use hal::Machine;

use super::adminq::{AdminQueue, Command, Data, Reply};
use super::error::Error;

/// Which pause frames there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlowControl {
    /// The other end's pause frames stop this port's sending.
    pub rx: bool,
    /// This port sends pause frames when its receive buffer fills.
    pub tx: bool,
}

/// Bytes of the answer to Get PHY Abilities.
const ABILITIES: usize = 536;
const PAUSE_TX: u8 = 0x01;
const PAUSE_RX: u8 = 0x02;

/// 0x0600 and 0x0601: what is offered to the other end. The link goes down and comes up again when it changes.
pub fn set<M: Machine>(queue: &mut AdminQueue<M>, wanted: FlowControl) -> Result<(), Error> {
    let mut abilities = [0; ABILITIES];
    queue.send(&Command::new("Get PHY Abilities", 0x0600), Data::Read(&mut abilities))?;
    match config(&abilities, wanted) {
        Some(params) => {
            let command = Command { params, ..Command::new("Set PHY Config", 0x0601) };
            queue.send(&command, Data::None).map(drop)
        }
        None => Ok(()),
    }
}

/// Parameters of Set PHY Config: everything as it is, but for the pause frames; `None` if nothing changes.
fn config(abilities: &[u8; ABILITIES], wanted: FlowControl) -> Option<[u8; 16]> {
    /// The link restarts by itself.
    const ATOMIC_LINK: u8 = 0x20;
    const KEPT: u8 = !(PAUSE_TX | PAUSE_RX);
    /// Of the field with the forward error correction; the rest is about the module.
    const FEC: u8 = 0x1f;
    let old = abilities[5];
    let pause = if wanted.tx { PAUSE_TX } else { 0 } | if wanted.rx { PAUSE_RX } else { 0 };
    let new = old & KEPT | pause;
    if new == old {
        return None;
    }
    let mut params = [0; 16];
    params[..5].copy_from_slice(&abilities[..5]);
    params[5] = new | ATOMIC_LINK;
    params[6..14].copy_from_slice(&abilities[6..14]);
    params[14] = abilities[14] & FEC;
    Some(params)
}

/// What both ends have agreed on, from the answer to Get Link Status.
pub fn negotiated(status: &Reply) -> FlowControl {
    const AN_INFO: usize = 5;
    const PAUSE_TX: u8 = 0x20;
    const PAUSE_RX: u8 = 0x40;
    let info = status.u8(AN_INFO);
    FlowControl { rx: info & PAUSE_RX != 0, tx: info & PAUSE_TX != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `i40e_aq_get_phy_abilities_resp`: types 0, speed 4, abilities 5, EEE 6 and 8, D3 12, more types 13, FEC 14.
    #[test]
    fn only_the_pause_frames_change() {
        let mut abilities = [0; ABILITIES];
        abilities[..15].copy_from_slice(&[0, 0, 0x10, 0, 0x08, 0x18, 1, 2, 3, 4, 5, 6, 7, 8, 0xe9]);
        let params = config(&abilities, FlowControl { rx: true, tx: false }).unwrap();
        assert_eq!(params, [0, 0, 0x10, 0, 0x08, 0x3a, 1, 2, 3, 4, 5, 6, 7, 8, 0x09, 0]);
        assert_eq!(config(&abilities, FlowControl::default()), None);
        abilities[5] = 0x1b;
        assert_eq!(config(&abilities, FlowControl { rx: true, tx: true }), None);
        assert_eq!(config(&abilities, FlowControl::default()).unwrap()[5], 0x38);
    }
}
