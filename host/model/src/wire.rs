//! What a port's PHY is plugged into. Frames are without FCS.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// The other end of a port's cable.
pub trait Wire: Send {
    /// A frame that the card sent, at least 60 bytes, as the MAC pads it.
    fn transmit(&mut self, frame: &[u8]);

    /// The next frame for the card, or `None` when there is none now. Asked again after every event of any port.
    fn receive(&mut self) -> Option<&[u8]>;

    /// `true`: a frame is only asked for while the card has descriptors for it, as on a lossless link. `false`: frames
    /// that find none are lost and counted.
    fn waits(&self) -> bool {
        true
    }

    /// Receive descriptors that the card holds now; told before frames are asked for.
    fn rx_descriptors(&mut self, free: usize) {
        let _ = free;
    }
}

/// Takes everything, gives nothing.
#[derive(Debug, Default)]
pub struct SinkWire;

impl Wire for SinkWire {
    fn transmit(&mut self, _frame: &[u8]) {}
    fn receive(&mut self) -> Option<&[u8]> {
        None
    }
}

/// Frames on their way through a cable.
type Cable = Arc<Mutex<VecDeque<Vec<u8>>>>;

/// One end of a cable between two ports. Frames are lost once 4096 wait in a direction.
pub struct PeerWire {
    out: Cable,
    back: Cable,
    current: Vec<u8>,
}

impl PeerWire {
    const MOST: usize = 4096;

    /// Both ends.
    pub fn pair() -> (Self, Self) {
        let (a, b) = (Cable::default(), Cable::default());
        let end =
            |out: &Cable, back: &Cable| Self { out: out.clone(), back: back.clone(), current: Vec::new() };
        (end(&a, &b), end(&b, &a))
    }
}

impl Wire for PeerWire {
    fn transmit(&mut self, frame: &[u8]) {
        if let Ok(mut out) = self.out.lock()
            && out.len() < Self::MOST
        {
            out.push_back(frame.to_vec());
        }
    }

    fn receive(&mut self) -> Option<&[u8]> {
        self.current = self.back.lock().ok()?.pop_front()?;
        Some(&self.current)
    }
}

/// A host that answers ARP requests and ICMP echo requests for every IPv4 address.
#[derive(Debug, Default)]
pub struct EchoWire {
    answers: VecDeque<Vec<u8>>,
    current: Vec<u8>,
}

impl EchoWire {
    /// The host's address.
    pub const MAC: [u8; 6] = [0x02, 0, 0, 0, 0xec, 0x40];
    const MOST: usize = 4096;

    fn answer(frame: &[u8]) -> Option<Vec<u8>> {
        match frame.get(12..14)? {
            [0x08, 0x06] => Self::answer_arp(frame),
            [0x08, 0x00] => Self::answer_echo(frame),
            _ => None,
        }
    }

    /// RFC 826: sender becomes target, with the address that was asked for as our own.
    fn answer_arp(frame: &[u8]) -> Option<Vec<u8>> {
        let request = frame.get(14..42)?;
        if request[..8] != [0, 1, 8, 0, 6, 4, 0, 1] {
            return None;
        }
        let mut out = Vec::with_capacity(60);
        out.extend_from_slice(&request[8..14]);
        out.extend_from_slice(&Self::MAC);
        out.extend_from_slice(&[0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 2]);
        out.extend_from_slice(&Self::MAC);
        out.extend_from_slice(&request[24..28]);
        out.extend_from_slice(&request[8..18]);
        out.resize(60, 0);
        Some(out)
    }

    /// RFC 792: type 8 becomes 0, addresses change places, the checksum follows (RFC 1624).
    fn answer_echo(frame: &[u8]) -> Option<Vec<u8>> {
        let ip = frame.get(14..)?;
        let header = usize::from(ip.first()? & 0xf) * 4;
        let fragment = u16::from_be_bytes([*ip.get(6)?, *ip.get(7)?]) & 0x3fff;
        if ip[0] >> 4 != 4
            || header < 20
            || *ip.get(9)? != 1
            || *ip.get(header)? != 8
            || fragment & 0x1fff != 0
        {
            return None;
        }
        let mut out = frame.to_vec();
        out[..6].copy_from_slice(&frame[6..12]);
        out[6..12].copy_from_slice(&Self::MAC);
        out[26..30].copy_from_slice(&frame[30..34]);
        out[30..34].copy_from_slice(&frame[26..30]);
        let icmp = 14 + header;
        let sum = u32::from(u16::from_be_bytes([*frame.get(icmp + 2)?, *frame.get(icmp + 3)?])) + 0x0800;
        let sum = (sum & 0xffff) + (sum >> 16);
        out[icmp] = 0;
        out[icmp + 2..icmp + 4].copy_from_slice(&(sum as u16).to_be_bytes());
        Some(out)
    }
}

impl Wire for EchoWire {
    fn transmit(&mut self, frame: &[u8]) {
        if self.answers.len() < Self::MOST
            && let Some(answer) = Self::answer(frame)
        {
            self.answers.push_back(answer);
        }
    }

    fn receive(&mut self) -> Option<&[u8]> {
        self.current = self.answers.pop_front()?;
        Some(&self.current)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arp_is_answered_for_any_address() {
        let mut request = vec![0xff; 6];
        request.extend([2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        request.extend([2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 77]);
        let mut wire = EchoWire::default();
        wire.transmit(&request);
        let answer = wire.receive().unwrap();
        let mut want = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0xec, 0x40, 8, 6, 0, 1, 8, 0, 6, 4, 0, 2];
        want.extend([2, 0, 0, 0, 0xec, 0x40, 10, 0, 0, 77, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1]);
        want.resize(60, 0);
        assert_eq!(answer, want);
        assert!(wire.receive().is_none());
    }

    #[test]
    fn frames_cross_a_cable_in_order() {
        let (mut a, mut b) = PeerWire::pair();
        a.transmit(&[1; 60]);
        a.transmit(&[2; 61]);
        b.transmit(&[3; 62]);
        assert_eq!(b.receive(), Some(&[1; 60][..]));
        assert_eq!(b.receive(), Some(&[2; 61][..]));
        assert_eq!(b.receive(), None);
        assert_eq!(a.receive(), Some(&[3; 62][..]));
    }
}
