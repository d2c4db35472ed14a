//! What the card's parser makes of a frame: packet type, header positions, checksums. Datasheet: "Packet Types".
//!
//! Every length in a packet is checked against the frame; a packet that ends early has the type of its last whole
//! header.

use crate::checksum;

/// Types of frames that are not IP.
const PTYPE_L2: u8 = 1;
const PTYPE_TIMESYNC: u8 = 2;
const PTYPE_LLDP: u8 = 6;
const PTYPE_ARP: u8 = 11;
/// First types of IPv4 and IPv6; fragment, other, UDP, (reserved), TCP, SCTP, ICMP follow.
const PTYPE_IPV4: u8 = 22;
const PTYPE_IPV6: u8 = 88;

/// Layer 4 of an IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum L4 {
    /// A fragment: its ports are not looked at.
    Fragment,
    /// A protocol that is not looked into.
    Other,
    Udp,
    Tcp,
    Sctp,
    Icmp,
}

impl L4 {
    const fn step(self) -> u8 {
        match self {
            Self::Fragment => 0,
            Self::Other => 1,
            Self::Udp => 2,
            Self::Tcp => 4,
            Self::Sctp => 5,
            Self::Icmp => 6,
        }
    }
}

/// An IP packet in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ip {
    /// Version 6.
    pub v6: bool,
    /// Offset of the header.
    pub at: usize,
    /// Offset of what follows the header and its extensions.
    pub l4_at: usize,
    /// Offset behind the packet, which may be padded to a frame.
    pub end: usize,
    /// Protocol number of layer 4.
    pub protocol: u8,
    /// What it is.
    pub l4: L4,
}

impl Ip {
    /// Source and destination address, one behind the other.
    pub fn addresses<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        let range = if self.v6 { self.at + 8..self.at + 40 } else { self.at + 12..self.at + 20 };
        frame.get(range).unwrap_or_default()
    }
}

/// A frame as the parser sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parsed {
    /// The packet type.
    pub ptype: u8,
    /// Its IP packet.
    pub ip: Option<Ip>,
}

fn u16_at(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]))
}

/// Parses a frame.
pub fn parse(frame: &[u8]) -> Parsed {
    let l2 = |ptype| Parsed { ptype, ip: None };
    let mut at = 12;
    // At most two tags are looked past.
    for _ in 0..2 {
        if matches!(u16_at(frame, at), Some(0x8100 | 0x88a8)) {
            at += 4;
        }
    }
    let ip = match u16_at(frame, at) {
        Some(0x0800) => ipv4(frame, at + 2),
        Some(0x86dd) => ipv6(frame, at + 2),
        Some(0x0806) => return l2(PTYPE_ARP),
        Some(0x88cc) => return l2(PTYPE_LLDP),
        Some(0x88f7) => return l2(PTYPE_TIMESYNC),
        _ => None,
    };
    match ip {
        Some(ip) => {
            let first = if ip.v6 { PTYPE_IPV6 } else { PTYPE_IPV4 };
            Parsed { ptype: first + ip.l4.step(), ip: Some(ip) }
        }
        None => l2(PTYPE_L2),
    }
}

fn ipv4(frame: &[u8], at: usize) -> Option<Ip> {
    let header = usize::from(frame.get(at)? & 0xf) * 4;
    let len = usize::from(u16_at(frame, at + 2)?);
    let good = frame[at] >> 4 == 4 && header >= 20 && len >= header && at + len <= frame.len();
    if !good {
        return None;
    }
    let fragment = u16_at(frame, at + 6)? & 0x3fff != 0;
    let protocol = *frame.get(at + 9)?;
    let l4_at = at + header;
    let l4 = if fragment { L4::Fragment } else { layer4(protocol, 1, at + len - l4_at) };
    Some(Ip { v6: false, at, l4_at, end: at + len, protocol, l4 })
}

fn ipv6(frame: &[u8], at: usize) -> Option<Ip> {
    let len = 40 + usize::from(u16_at(frame, at + 4)?);
    let end = at + len;
    if frame.get(at)? >> 4 != 6 || end > frame.len() {
        return None;
    }
    let (mut next, mut l4_at, mut fragment) = (*frame.get(at + 6)?, at + 40, false);
    // Hop-by-hop, routing, fragment and destination options, a bounded number of them.
    for _ in 0..8 {
        let extension = matches!(next, 0 | 43 | 44 | 60) && l4_at + 8 <= end;
        if !extension {
            break;
        }
        let size = if next == 44 { 8 } else { 8 + 8 * usize::from(frame[l4_at + 1]) };
        if l4_at + size > end {
            break;
        }
        fragment |= next == 44;
        next = frame[l4_at];
        l4_at += size;
    }
    let l4 = if fragment { L4::Fragment } else { layer4(next, 58, end - l4_at) };
    Some(Ip { v6: true, at, l4_at, end, protocol: next, l4 })
}

/// Layer 4 of `protocol`, if `room` bytes hold its whole header.
fn layer4(protocol: u8, icmp: u8, room: usize) -> L4 {
    match protocol {
        17 if room >= 8 => L4::Udp,
        6 if room >= 20 => L4::Tcp,
        132 if room >= 12 => L4::Sctp,
        protocol if protocol == icmp && room >= 4 => L4::Icmp,
        _ => L4::Other,
    }
}

/// Which checksums are wrong: IP header, layer 4. SCTP's is not looked at.
pub fn checksum_errors(frame: &[u8], ip: &Ip) -> (bool, bool) {
    let header = frame.get(ip.at..ip.l4_at).unwrap_or_default();
    let ip_wrong = !ip.v6 && checksum::add(0, header) != 0xffff;
    let payload = frame.get(ip.l4_at..ip.end).unwrap_or_default();
    let unchecked = ip.l4 == L4::Udp && !ip.v6 && payload.get(6..8) == Some(&[0, 0]);
    let looked_at = matches!(ip.l4, L4::Udp | L4::Tcp) && !unchecked;
    let sum = checksum::pseudo_header(ip.addresses(frame), ip.protocol, payload.len() as u32);
    (ip_wrong, looked_at && checksum::add(sum, payload) != 0xffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ethernet(kind: u16, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        frame.extend(kind.to_be_bytes());
        frame.extend(payload);
        frame.resize(frame.len().max(60), 0);
        frame
    }

    /// IPv4, UDP from 192.168.0.1 to 192.168.0.199, the header of the well-known example with checksum b861.
    fn udp() -> Vec<u8> {
        let mut packet = vec![
            0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7,
        ];
        packet.extend([0, 53, 0, 53, 0, 95, 0, 0]);
        packet.resize(0x73, 0);
        packet
    }

    /// Numbers of `i40e_ptype_lookup` in Linux.
    #[test]
    fn packet_types_are_the_cards() {
        assert_eq!(parse(&ethernet(0x0806, &[])).ptype, 11);
        assert_eq!(parse(&ethernet(0x88cc, &[])).ptype, 6);
        assert_eq!(parse(&ethernet(0x88f7, &[])).ptype, 2);
        assert_eq!(parse(&ethernet(0x0042, &[])).ptype, 1);
        assert_eq!(parse(&ethernet(0x0800, &udp())).ptype, 24);
        for (protocol, ptype) in [(6, 26), (132, 27), (1, 28), (99, 23)] {
            let mut packet = udp();
            packet[9] = protocol;
            assert_eq!(parse(&ethernet(0x0800, &packet)).ptype, ptype, "{protocol}");
        }
        let mut fragment = udp();
        fragment[6] = 0x20;
        assert_eq!(parse(&ethernet(0x0800, &fragment)).ptype, 22);
        let mut six = vec![0x60, 0, 0, 0, 0, 16, 0, 64];
        six.resize(40, 0);
        six.extend([58, 0, 0, 0, 0, 0, 0, 0, 128, 0, 0, 0, 0, 0, 0, 0]);
        let parsed = parse(&ethernet(0x86dd, &six));
        assert_eq!((parsed.ptype, parsed.ip.unwrap().l4_at), (94, 14 + 48));
    }

    #[test]
    fn tags_are_looked_past_and_lengths_are_not_believed() {
        let mut tagged = vec![0x00, 0x05, 0x08, 0x00];
        tagged.extend(udp());
        assert_eq!(parse(&ethernet(0x8100, &tagged)).ptype, 24);
        for (at, value) in [(0, 0x44), (0, 0x65), (2, 0xff), (3, 0x10)] {
            let mut packet = udp();
            packet[at] = value;
            assert_eq!(parse(&ethernet(0x0800, &packet)).ptype, 1, "{at} {value:#x}");
        }
        for len in 0..60 {
            parse(&ethernet(0x0800, &udp())[..len]);
        }
    }

    #[test]
    fn wrong_checksums_are_found() {
        let frame = ethernet(0x0800, &udp());
        let ip = parse(&frame).ip.unwrap();
        assert_eq!(checksum_errors(&frame, &ip), (false, false));
        let mut wrong = frame.clone();
        wrong[24] ^= 1;
        wrong[41] = 1; // a UDP checksum that is not zero and not right
        assert_eq!(checksum_errors(&wrong, &ip), (true, true));
    }
}
