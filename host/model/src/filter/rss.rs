//! Receive side scaling: a hash over a flow's addresses and ports, or what registers choose else, chooses an entry of a
//! table. Datasheet: "Receive Side Scaling"; the hash is Toeplitz's, as in the RSS specification of Microsoft, and never
//! the simple or the symmetric one that registers can ask for.

use super::fields;
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

/// Packet class of a frame.
pub fn class_of(frame: &[u8]) -> u8 {
    const L2_PAYLOAD: u32 = 63;
    parse::parse(frame).ip.map_or(L2_PAYLOAD, |ip| packet_class(&ip)) as u8
}

/// The hash of a frame, if one is made for its class.
pub fn hash(registers: &Registers, frame: &[u8]) -> Option<u32> {
    let class = class_of(frame);
    let enabled = registers.get(regs::PFQF_HENA + 128 * u32::from(class / 32));
    if enabled >> (class % 32) & 1 == 0 {
        return None;
    }
    let words = fields::of(frame, false).chosen(registers, &fields::HASH, class);
    let input: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
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
        const INSET_31: u32 = 0x26_7600 + 8 * 31;
        let mut registers = Registers::new();
        assert_eq!([4, 0].map(|at| registers.get(INSET_31 + at)), [0x0001_801e, 0]);
        let mut hashed = |high: u32| {
            registers.set(INSET_31 + 4, high);
            let words = fields::of(&frame, false).chosen(&registers, &fields::HASH, 31);
            words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>()
        };
        assert_eq!(hashed(0x0001_801e), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        assert_eq!(hashed(0x0001_8004), [1, 2, 3, 4, 9, 10]);
        assert_eq!(hashed(0), [0_u8; 0]);
    }
}
