//! Link and MAC: Get Link Status, Set MAC Config, Setup Link and Restart Autonegotiation. Datasheet: "Link
//! Configuration Admin Commands".

use hal::Machine;
use kernel::Link;

use super::MAX_FRAME;
use super::adminq::{AdminQueue, Command, Data, Reply};
use super::error::Error;

/// Get Link Status, and the opcode of the event that says that it changed.
pub const GET_LINK_STATUS: u16 = 0x0607;

/// 0x0607: the link now; from here on the firmware reports the next change, once.
pub fn status<M: Machine>(queue: &mut AdminQueue<M>) -> Result<Link, Error> {
    raw_status(queue).map(|reply| decode(&reply))
}

/// As [`status`], as the firmware says it.
pub fn raw_status<M: Machine>(queue: &mut AdminQueue<M>) -> Result<Reply, Error> {
    const REPORT_CHANGES: u16 = 3;
    let command = Command::new("Get Link Status", GET_LINK_STATUS).u16(0, REPORT_CHANGES);
    queue.send(&command, Data::None)
}

/// 0x0603: frames up to the card's maximum. Some firmware refuses it while the link is down.
///
/// By drivers: the card's 9728 is the largest value; whether it counts the FCS is not settled, so the last 4
/// lengths are unproven on silicon.
pub fn set_mac_config<M: Machine>(queue: &mut AdminQueue<M>) -> Result<(), Error> {
    const CRC_ENABLE: u8 = 0x04;
    let mut command = Command::new("Set MAC Config", 0x0603).u16(0, MAX_FRAME as u16);
    command.params[2] = CRC_ENABLE;
    queue.send(&command, Data::None).map(drop)
}

/// 0x0605: the link comes up if there is somebody at the other end.
pub fn restart<M: Machine>(queue: &mut AdminQueue<M>) -> Result<(), Error> {
    const RESTART: u8 = 2;
    const ENABLE: u8 = 4;
    let mut command = Command::new("Setup Link and Restart AN", 0x0605);
    command.params[0] = RESTART | ENABLE;
    queue.send(&command, Data::None).map(drop)
}

/// Takes all events from the queue; says whether one was a change of the link.
pub fn drain_events<M: Machine>(queue: &mut AdminQueue<M>) -> bool {
    let mut changed = false;
    let mut data = [0; 64];
    // Bounded: firmware that floods the queue is heard again next time.
    for _ in 0..64 {
        let Some((opcode, _)) = queue.event(&mut data) else { break };
        changed |= opcode == GET_LINK_STATUS;
    }
    changed
}

fn decode(reply: &Reply) -> Link {
    const UP: u8 = 1;
    let speed = match reply.u8(3) {
        0x01 => 2_500,
        0x02 => 100,
        0x04 => 1_000,
        0x08 => 10_000,
        0x10 => 40_000,
        0x20 => 20_000,
        0x40 => 25_000,
        0x80 => 5_000,
        _ => 0,
    };
    let up = reply.u8(4) & UP != 0;
    Link { up, speed: if up { speed } else { 0 } }
}

/// 0x0A05: the firmware neither answers nor sends LLDP, so that such frames are forwarded like any other.
pub fn stop_lldp<M: Machine>(queue: &mut AdminQueue<M>) -> Result<(), Error> {
    let mut command = Command::new("Stop LLDP Agent", 0x0a05);
    // Shutdown, so that peers forget what was announced.
    command.params[0] = 1;
    queue.send(&command, Data::None).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer of a card with a 10G SR module as drivers know it: type 0x14, speed 0x08, info 0xe1.
    #[test]
    fn answer_of_a_link_that_is_up_and_of_one_that_is_down() {
        let mut reply =
            Reply { params: [1, 0, 0x14, 0x08, 0xe1, 0x81, 0, 0, 0, 0x26, 4, 0, 0, 0, 0, 0], len: 0 };
        assert_eq!(decode(&reply), Link { up: true, speed: 10_000 });
        reply.params[3] = 0x10;
        assert_eq!(decode(&reply).speed, 40_000);
        reply.params[4] = 0xe0;
        assert_eq!(decode(&reply), Link { up: false, speed: 0 });
    }
}
