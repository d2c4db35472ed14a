//! Packets of real protocols, made and judged by another program's code (smoltcp).

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    EthernetFrame, EthernetProtocol, IpAddress, IpProtocol, Ipv4Packet, Ipv4Repr, Ipv6Packet, Ipv6Repr,
    TcpControl, TcpPacket, TcpRepr, TcpSeqNumber, UdpPacket, UdpRepr,
};

/// Ends of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// Address and port of the sender.
    pub from: (IpAddress, u16),
    /// Address and port of the receiver.
    pub to: (IpAddress, u16),
}

impl Flow {
    /// The other direction.
    pub fn reversed(self) -> Self {
        Self { from: self.to, to: self.from }
    }

    /// IPv4 flow number `n`, each of its own ports and addresses.
    pub fn v4(n: u32) -> Self {
        let [_, a, b, c] = n.to_be_bytes();
        Self {
            from: (IpAddress::v4(10, a, b, c), 1024 + n as u16),
            to: (IpAddress::v4(192, 168, (n >> 3) as u8, 77), 80),
        }
    }

    /// IPv6 flow number `n`.
    pub fn v6(n: u16) -> Self {
        Self {
            from: (IpAddress::v6(0xfd00, 0, 0, 0, 0, 0, 0, n), 1024 + n),
            to: (IpAddress::v6(0xfd00, 0, 0, 0, 0, 0, 1, 1), 443),
        }
    }
}

/// What is carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// TCP with the flags ACK and PSH.
    Tcp,
    /// UDP.
    Udp,
}

/// A frame of a flow, with every checksum right.
pub fn frame(flow: Flow, kind: Kind, payload: &[u8]) -> Vec<u8> {
    let checksums = ChecksumCapabilities::default();
    let (from, to) = (flow.from.0, flow.to.0);
    let l4 = match kind {
        Kind::Udp => {
            let repr = UdpRepr { src_port: flow.from.1, dst_port: flow.to.1 };
            let mut bytes = vec![0; repr.header_len() + payload.len()];
            repr.emit(
                &mut UdpPacket::new_unchecked(&mut bytes),
                &from,
                &to,
                payload.len(),
                |data| data.copy_from_slice(payload),
                &checksums,
            );
            bytes
        }
        Kind::Tcp => {
            let repr = TcpRepr {
                src_port: flow.from.1,
                dst_port: flow.to.1,
                control: TcpControl::Psh,
                seq_number: TcpSeqNumber(0x7fff_ff00),
                ack_number: Some(TcpSeqNumber(1)),
                window_len: 512,
                window_scale: None,
                max_seg_size: None,
                sack_permitted: false,
                sack_ranges: [None; 3],
                timestamp: None,
                payload,
            };
            let mut bytes = vec![0; repr.buffer_len()];
            repr.emit(&mut TcpPacket::new_unchecked(&mut bytes), &from, &to, &checksums);
            bytes
        }
    };
    let next_header = if kind == Kind::Udp { IpProtocol::Udp } else { IpProtocol::Tcp };
    let (ethertype, ip) = match (from, to) {
        (IpAddress::Ipv4(src_addr), IpAddress::Ipv4(dst_addr)) => {
            let repr = Ipv4Repr { src_addr, dst_addr, next_header, payload_len: l4.len(), hop_limit: 64 };
            let mut bytes = vec![0; repr.buffer_len()];
            repr.emit(&mut Ipv4Packet::new_unchecked(&mut bytes), &checksums);
            (EthernetProtocol::Ipv4, bytes)
        }
        (IpAddress::Ipv6(src_addr), IpAddress::Ipv6(dst_addr)) => {
            let repr = Ipv6Repr { src_addr, dst_addr, next_header, payload_len: l4.len(), hop_limit: 64 };
            let mut bytes = vec![0; repr.buffer_len()];
            repr.emit(&mut Ipv6Packet::new_unchecked(&mut bytes));
            (EthernetProtocol::Ipv6, bytes)
        }
        _ => panic!("both ends speak the same version"),
    };
    let mut head = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    head.extend(u16::from(ethertype).to_be_bytes());
    [head, ip, l4].concat()
}

/// Offset of the layer 4 header in a frame of [`frame`].
pub fn l4_at(flow: Flow) -> usize {
    if matches!(flow.from.0, IpAddress::Ipv4(_)) { 14 + 20 } else { 14 + 40 }
}

/// `frame` with a tag behind its addresses.
pub fn tagged(frame: &[u8], tag: u16) -> Vec<u8> {
    [&frame[..12], &[0x81, 0], &tag.to_be_bytes(), &frame[12..]].concat()
}

/// What another program finds in a frame without tags: whether both checksums are right, the layer 4 payload, and the
/// number of TCP's first byte.
pub struct Judged {
    /// The IPv4 header's; true for IPv6.
    pub ip_good: bool,
    /// TCP's or UDP's.
    pub l4_good: bool,
    /// Payload of layer 4.
    pub payload: Vec<u8>,
    /// TCP's sequence number.
    pub sequence: Option<u32>,
    /// TCP's PSH.
    pub push: bool,
}

/// Takes a frame apart.
pub fn judge(frame: &[u8]) -> Judged {
    let ethernet = EthernetFrame::new_checked(frame).expect("an Ethernet frame");
    let (ip_good, from, to, protocol, l4) = match ethernet.ethertype() {
        EthernetProtocol::Ipv4 => {
            let ip = Ipv4Packet::new_checked(ethernet.payload()).expect("an IPv4 packet");
            let (from, to) = (IpAddress::Ipv4(ip.src_addr()), IpAddress::Ipv4(ip.dst_addr()));
            (ip.verify_checksum(), from, to, ip.next_header(), ip.payload().to_vec())
        }
        EthernetProtocol::Ipv6 => {
            let ip = Ipv6Packet::new_checked(ethernet.payload()).expect("an IPv6 packet");
            let (from, to) = (IpAddress::Ipv6(ip.src_addr()), IpAddress::Ipv6(ip.dst_addr()));
            (true, from, to, ip.next_header(), ip.payload().to_vec())
        }
        other => panic!("a frame of type {other}"),
    };
    match protocol {
        IpProtocol::Tcp => {
            let tcp = TcpPacket::new_checked(&l4[..]).expect("a TCP segment");
            Judged {
                ip_good,
                l4_good: tcp.verify_checksum(&from, &to),
                payload: tcp.payload().to_vec(),
                sequence: Some(tcp.seq_number().0 as u32),
                push: tcp.psh(),
            }
        }
        _ => {
            let udp = UdpPacket::new_checked(&l4[..]).expect("a UDP datagram");
            let l4_good = udp.verify_checksum(&from, &to);
            Judged { ip_good, l4_good, payload: udp.payload().to_vec(), sequence: None, push: false }
        }
    }
}
