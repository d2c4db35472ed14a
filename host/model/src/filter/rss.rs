//! Receive side scaling: a hash over a flow's addresses and ports chooses an entry of a table. Datasheet: "Receive Side
//! Scaling"; the hash is Toeplitz's, as in the RSS specification of Microsoft.

use crate::parse::{self, Ip, L4};
use crate::regs::{self, Registers};

/// Bytes of the key.
const KEY: usize = 52;
/// Entries of the table.
const TABLE: u32 = 512;

/// Packet class of an IP packet, a bit in PFQF_HENA (by drivers: `i40e_filter_pctype`).
fn packet_class(ip: &Ip) -> u32 {
    let base = if ip.v6 { 41 } else { 31 };
    match ip.l4 {
        L4::Udp => base,
        L4::Tcp => base + 2,
        L4::Sctp => base + 3,
        L4::Fragment => base + 5,
        L4::Other | L4::Icmp => base + 4,
    }
}

/// Fields of GLQF_HASH_INSET (by drivers: `I40E_L3_SRC_MASK` and its like).
const IPV4_SOURCE: u64 = 3 << 47;
const IPV4_DESTINATION: u64 = 3 << 35;
const IPV6_SOURCE: u64 = 0xff << 43;
const IPV6_DESTINATION: u64 = 0xff << 35;
const L4_SOURCE: u64 = 1 << 34;
const L4_DESTINATION: u64 = 1 << 33;
const SCTP_TAG: u64 = 3 << 31;

const IPV4: u64 = IPV4_SOURCE | IPV4_DESTINATION;
const IPV6: u64 = IPV6_SOURCE | IPV6_DESTINATION;
const PORTS: u64 = L4_SOURCE | L4_DESTINATION;

/// Fields of each packet class after a reset: addresses and, where there are any, ports.
pub const DEFAULT_FIELDS: [(u32, u64); 10] = [
    (31, IPV4 | PORTS),
    (33, IPV4 | PORTS),
    (34, IPV4 | PORTS),
    (35, IPV4),
    (36, IPV4),
    (41, IPV6 | PORTS),
    (43, IPV6 | PORTS),
    (44, IPV6 | PORTS),
    (45, IPV6),
    (46, IPV6),
];

/// What is hashed of a packet, one field behind the other; a field is there with all of its words or not at all.
fn input(frame: &[u8], ip: &Ip, fields: u64) -> Option<Vec<u8>> {
    let addresses = ip.addresses(frame);
    let (source, destination) = addresses.split_at(addresses.len() / 2);
    let (source_bits, destination_bits) =
        if ip.v6 { (IPV6_SOURCE, IPV6_DESTINATION) } else { (IPV4_SOURCE, IPV4_DESTINATION) };
    let has_ports = matches!(ip.l4, L4::Udp | L4::Tcp | L4::Sctp);
    let l4 = if has_ports { frame.get(ip.l4_at..ip.l4_at + 8)? } else { &[0; 8] };
    let ports = if has_ports { PORTS } else { 0 };
    let tag = if ip.l4 == L4::Sctp { SCTP_TAG } else { 0 };
    let mut input = Vec::with_capacity(44);
    for (bits, bytes) in [
        (source_bits, source),
        (destination_bits, destination),
        (ports & L4_SOURCE, &l4[..2]),
        (ports & L4_DESTINATION, &l4[2..4]),
        (tag, &l4[4..]),
    ] {
        if bits != 0 && fields & bits == bits {
            input.extend_from_slice(bytes);
        }
    }
    Some(input)
}

/// The hash of a frame, if one is made for its class.
pub fn hash(registers: &Registers, frame: &[u8]) -> Option<u32> {
    let ip = parse::parse(frame).ip?;
    let class = packet_class(&ip);
    let enabled = registers.get(regs::PFQF_HENA + 128 * (class / 32));
    if enabled >> (class % 32) & 1 == 0 {
        return None;
    }
    let inset = regs::GLQF_HASH_INSET + 8 * class;
    let fields = u64::from(registers.get(inset + 4)) << 32 | u64::from(registers.get(inset));
    let input = input(frame, &ip, fields)?;
    let mut key = [0; KEY];
    for (index, word) in (0..).zip(key.chunks_exact_mut(4)) {
        word.copy_from_slice(&registers.get(regs::PFQF_HKEY + 128 * index).to_le_bytes());
    }
    Some(toeplitz(&key, &input))
}

/// The queue that the table has for a hash.
pub fn table_entry(registers: &Registers, hash: u32) -> u32 {
    let index = hash % TABLE;
    registers.get(regs::PFQF_HLUT + 128 * (index / 4)) >> (8 * (index % 4)) & 0x3f
}

fn toeplitz(key: &[u8; KEY], input: &[u8]) -> u32 {
    let mut hash = 0;
    let mut window = u32::from_be_bytes([key[0], key[1], key[2], key[3]]);
    for (index, byte) in input.iter().enumerate() {
        let next = key.get(index + 4).copied().unwrap_or(0);
        for bit in (0..8).rev() {
            if byte >> bit & 1 != 0 {
                hash ^= window;
            }
            window = window << 1 | u32::from(next >> bit & 1);
        }
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key and the examples of Microsoft's "Verifying the RSS Hash Calculation".
    #[test]
    fn examples_of_the_specification() {
        let mut key = [0; KEY];
        key[..40].copy_from_slice(&[
            0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
            0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
            0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
        ]);
        let addresses = [66, 9, 149, 187, 161, 142, 100, 80];
        assert_eq!(toeplitz(&key, &addresses), 0x323e_8fc2);
        let flow = [66, 9, 149, 187, 161, 142, 100, 80, 0x0a, 0xea, 0x06, 0xe6];
        assert_eq!(toeplitz(&key, &flow), 0x51cc_c178);
    }

    /// Values as DPDK writes them for "source address and port" and as a card has them after a reset.
    #[test]
    fn the_input_set_chooses_fields() {
        let mut frame = vec![0; 12];
        frame.extend([8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
        frame.extend([9, 10, 11, 12, 0, 8, 0, 0]);
        let ip = parse::parse(&frame).ip.unwrap();
        let all = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
        assert_eq!(input(&frame, &ip, 0x0001_801e_0000_0000).unwrap(), all);
        assert_eq!(input(&frame, &ip, 0x0001_8004_0000_0000).unwrap(), [1, 2, 3, 4, 9, 10]);
        assert_eq!(input(&frame, &ip, 0).unwrap(), []);
        assert_eq!(DEFAULT_FIELDS[0], (31, 0x0001_801e_0000_0000));
    }
}
