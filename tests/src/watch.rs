//! Somebody who stands beside a cable and counts.

use std::sync::{Arc, Mutex, PoisonError};

use model::Wire;

/// Frames of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flow {
    /// All of them.
    pub frames: u64,
    /// Their bytes on the wire, without FCS.
    pub bytes: u64,
    /// Frames with a VLAN tag (0x8100).
    pub tagged: u64,
    /// Their bytes as Linux counts them on receipt once the card has taken the tags out: a frame that falls short of 60
    /// bytes by that is padded again (`eth_skb_pad`).
    pub stripped_bytes: u64,
    /// Their bytes without tags and without what a MAC pads short frames with.
    pub net_bytes: u64,
}

impl Flow {
    fn count(&mut self, frame: &[u8]) {
        let tag = if frame.get(12..14) == Some(&[0x81, 0]) { 4 } else { 0 };
        let untagged = frame.len() - tag;
        let packet = frame.get(12 + tag..).unwrap_or_default();
        let filled = match packet {
            // ARP for IPv4 has 28 bytes (RFC 826); IPv4 says how long it is.
            [8, 6, ..] => 14 + 28,
            [8, 0, _, _, high, low, ..] => 14 + usize::from(u16::from_be_bytes([*high, *low])),
            _ => untagged,
        };
        self.frames += 1;
        self.bytes += frame.len() as u64;
        self.tagged += u64::from(tag != 0);
        self.stripped_bytes += untagged.max(60) as u64;
        self.net_bytes += filled.min(untagged) as u64;
    }
}

/// What was seen so far, of both directions.
#[derive(Clone, Default)]
pub struct Watch(Arc<Mutex<(Flow, Flow)>>);

impl Watch {
    /// The same wire, watched.
    pub fn over(wire: Box<dyn Wire>) -> (Box<dyn Wire>, Self) {
        let watch = Self::default();
        (Box::new(Watched { wire, watch: watch.clone() }), watch)
    }

    /// What the card sent.
    pub fn from_card(&self) -> Flow {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    /// What the card was given.
    pub fn to_card(&self) -> Flow {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1
    }
}

struct Watched {
    wire: Box<dyn Wire>,
    watch: Watch,
}

impl Wire for Watched {
    fn transmit(&mut self, frame: &[u8]) {
        self.watch.0.lock().unwrap_or_else(PoisonError::into_inner).0.count(frame);
        self.wire.transmit(frame);
    }

    fn receive(&mut self) -> Option<&[u8]> {
        let frame = self.wire.receive()?;
        self.watch.0.lock().unwrap_or_else(PoisonError::into_inner).1.count(frame);
        Some(frame)
    }

    fn waits(&self) -> bool {
        self.wire.waits()
    }

    fn rx_descriptors(&mut self, free: usize) {
        self.wire.rx_descriptors(free);
    }
}
