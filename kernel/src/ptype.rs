//! The packet types that an XL710 writes with a received frame. Datasheet: "Packet Type"; the numbers are also in
//! Linux's `i40e_ptype_lookup`.

/// A version of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ip {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// What lies between an outer and an inner IP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tunnel {
    /// Nothing: IP in IP.
    Ip,
    /// GRE, or a UDP tunnel that the card was told of.
    Grenat,
    /// As [`Tunnel::Grenat`], with an Ethernet header inside.
    GrenatMac,
    /// As [`Tunnel::GrenatMac`], with a tag.
    GrenatMacVlan,
}

/// What follows the (innermost) IP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum L4 {
    /// A fragment.
    Fragment,
    /// Something that the card does not know.
    Other,
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
    /// SCTP.
    Sctp,
    /// ICMP or ICMPv6.
    Icmp,
}

/// A packet type taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketType {
    /// The outer IP header; `None` for what is not IP.
    pub ip: Option<Ip>,
    /// The tunnel behind it.
    pub tunnel: Option<Tunnel>,
    /// The inner IP header.
    pub inner: Option<Ip>,
    /// What comes then; `None` if the card saw no more than an outer header or a tunnel.
    pub l4: Option<L4>,
}

const V4: u8 = 22;
const V6: u8 = 88;
/// Types of one outer version.
const TYPES: u8 = V6 - V4;
/// Types for what follows an IP header.
const SLOTS: u8 = 7;

impl PacketType {
    /// The meaning of the card's number; all `None` for layer 2 frames and for numbers without meaning.
    pub const fn decode(number: u8) -> Self {
        const NOT_IP: PacketType = PacketType { ip: None, tunnel: None, inner: None, l4: None };
        let (ip, at) = match number {
            V4..V6 => (Ip::V4, number - V4),
            V6.. if number < V6 + TYPES => (Ip::V6, number - V6),
            _ => return NOT_IP,
        };
        let outer = PacketType { ip: Some(ip), ..NOT_IP };
        // First the plain types, then pairs of types in IP and, each with a type of its own, in three tunnels.
        let (tunnel, at) = match at {
            0..7 => return PacketType { l4: slot(at), ..outer },
            7..21 => (Tunnel::Ip, at - 7),
            21 => return PacketType { tunnel: Some(Tunnel::Grenat), ..outer },
            22..36 => (Tunnel::Grenat, at - 22),
            36 => return PacketType { tunnel: Some(Tunnel::GrenatMac), ..outer },
            37..51 => (Tunnel::GrenatMac, at - 37),
            51 => return PacketType { tunnel: Some(Tunnel::GrenatMacVlan), ..outer },
            _ => (Tunnel::GrenatMacVlan, at - 52),
        };
        let inner = Some(if at < SLOTS { Ip::V4 } else { Ip::V6 });
        PacketType { tunnel: Some(tunnel), inner, l4: slot(at % SLOTS), ..outer }
    }

    /// The card checks a checksum of layer 4 in frames of this type.
    pub const fn has_l4_checksum(self) -> bool {
        matches!(self.l4, Some(L4::Udp | L4::Tcp | L4::Sctp))
    }
}

const fn slot(at: u8) -> Option<L4> {
    match at {
        0 => Some(L4::Fragment),
        1 => Some(L4::Other),
        2 => Some(L4::Udp),
        4 => Some(L4::Tcp),
        5 => Some(L4::Sctp),
        6 => Some(L4::Icmp),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers from the table that Linux and DPDK share.
    #[test]
    fn numbers_that_drivers_know() {
        let plain = |ip, l4| PacketType { ip: Some(ip), l4: Some(l4), ..Default::default() };
        for (number, want) in [
            (22, plain(Ip::V4, L4::Fragment)),
            (23, plain(Ip::V4, L4::Other)),
            (24, plain(Ip::V4, L4::Udp)),
            (26, plain(Ip::V4, L4::Tcp)),
            (27, plain(Ip::V4, L4::Sctp)),
            (28, plain(Ip::V4, L4::Icmp)),
            (88, plain(Ip::V6, L4::Fragment)),
            (92, plain(Ip::V6, L4::Tcp)),
            (94, plain(Ip::V6, L4::Icmp)),
        ] {
            assert_eq!(PacketType::decode(number), want, "{number}");
        }
        let tunnelled = |ip, tunnel, inner, l4| PacketType {
            ip: Some(ip),
            tunnel: Some(tunnel),
            inner: Some(inner),
            l4: Some(l4),
        };
        for (number, want) in [
            (33, tunnelled(Ip::V4, Tunnel::Ip, Ip::V4, L4::Tcp)),
            (36, tunnelled(Ip::V4, Tunnel::Ip, Ip::V6, L4::Fragment)),
            (46, tunnelled(Ip::V4, Tunnel::Grenat, Ip::V4, L4::Udp)),
            (63, tunnelled(Ip::V4, Tunnel::GrenatMac, Ip::V4, L4::Tcp)),
            (87, tunnelled(Ip::V4, Tunnel::GrenatMacVlan, Ip::V6, L4::Icmp)),
            (153, tunnelled(Ip::V6, Tunnel::GrenatMacVlan, Ip::V6, L4::Icmp)),
        ] {
            assert_eq!(PacketType::decode(number), want, "{number}");
        }
        for number in [0, 1, 11, 21, 154, 255] {
            assert_eq!(PacketType::decode(number), PacketType::default(), "{number}");
        }
        assert_eq!(PacketType::decode(58).tunnel, Some(Tunnel::GrenatMac));
        assert_eq!(PacketType::decode(25).l4, None);
    }
}
