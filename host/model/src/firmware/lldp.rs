//! The firmware's LLDP agent (IEEE 802.1AB): off unless it is turned on, since a card as it comes up here has none to
//! ask. While it runs, no LLDP frame reaches the driver, and it announces the port.

use super::Reply;

const ETHERTYPE: [u8; 2] = [0x88, 0xcc];
/// The nearest bridge.
const GROUP: [u8; 6] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e];
/// Seconds that an announcement holds.
const TTL: u16 = 120;

/// Its state.
pub struct Lldp {
    mac: [u8; 6],
    on: bool,
    /// It runs after a reset of the card.
    by_default: bool,
    /// An announcement with this time to live waits to be sent.
    waiting: Option<u16>,
}

impl Lldp {
    pub fn new(mac: [u8; 6]) -> Self {
        Self { mac, on: false, by_default: false, waiting: None }
    }

    /// Turns it on or off without a word to the peer.
    pub fn set(&mut self, on: bool) {
        self.on = on;
        self.waiting = on.then_some(TTL);
    }

    /// As [`Lldp::set`], and so again after each reset of the card.
    pub fn configure(&mut self, on: bool) {
        self.by_default = on;
        self.set(on);
    }

    /// The card was reset.
    pub fn restart(&mut self) {
        self.set(self.by_default);
    }

    /// Stop LLDP Agent; at a shutdown the peer is told.
    pub fn stop(&mut self, shutdown: bool) -> Reply {
        self.waiting = (self.on && shutdown).then_some(0);
        self.on = false;
        Reply::ok()
    }

    pub fn link_changed(&mut self, up: bool) {
        if self.on && up {
            self.waiting = Some(TTL);
        }
    }

    /// A frame that the agent keeps for itself.
    #[inline]
    pub fn eats(&self, frame: &[u8]) -> bool {
        self.on && frame.get(12..14) == Some(&ETHERTYPE)
    }

    /// A frame that it wants to send.
    #[inline]
    pub fn frame(&mut self) -> Option<Vec<u8>> {
        let ttl = self.waiting?;
        self.waiting = None;
        let mut frame = [&GROUP[..], &self.mac, &ETHERTYPE].concat();
        // Chassis and port by address, time to live, end.
        for kind in [0x02, 0x04] {
            frame.extend([kind, 7, if kind == 2 { 4 } else { 3 }]);
            frame.extend(self.mac);
        }
        frame.extend([0x06, 2]);
        frame.extend(ttl.to_be_bytes());
        frame.extend([0, 0]);
        frame.resize(60, 0);
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TLVs by hand: chassis (type 1, subtype 4), port (type 2, subtype 3), time to live (type 3), end.
    #[test]
    fn it_announces_itself_and_its_end() {
        let mut agent = Lldp::new([2, 0, 0, 0, 0, 1]);
        assert_eq!(agent.stop(true).code, 0);
        assert!(agent.frame().is_none());
        agent.set(true);
        let frame = agent.frame().unwrap();
        assert!(agent.eats(&frame) && agent.frame().is_none());
        let want = [2, 7, 4, 2, 0, 0, 0, 0, 1, 4, 7, 3, 2, 0, 0, 0, 0, 1, 6, 2, 0, 120, 0, 0];
        assert_eq!((frame.len(), &frame[14..38]), (60, &want[..]));
        assert_eq!(agent.stop(true).code, 0);
        assert_eq!(agent.frame().unwrap()[34..36], [0, 0]);
        assert!(!agent.eats(&frame));
    }
}
