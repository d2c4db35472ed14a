//! What of a frame is hashed or compared: 64 words of its headers, of which registers choose some for each packet class.
//! Places of the words by drivers (`I40E_REG_INSET_*` in DPDK). Flexible payload and tunnels are not looked into: their
//! words are 0 in every frame.

use crate::regs::Registers;

/// Registers that choose words.
pub struct Choice {
    /// Chosen words of class 0, bit 63 for word 0, the low half first; from a class to the next; from half to half.
    inset: [u32; 3],
    /// Bits of a word that are left out: two masks a class, each with the word's number in bits 21:16.
    masks: u32,
}

/// PRTQF_FD_INSET and GLQF_FD_MSK.
pub const FLOW_DIRECTOR: Choice = Choice { inset: [0x25_0000, 64, 32], masks: 0x26_7200 };
/// GLQF_HASH_INSET and GLQF_HASH_MSK.
pub const HASH: Choice = Choice { inset: [0x26_7600, 8, 4], masks: 0x26_7a00 };

impl Choice {
    /// Register of half `half` of a class.
    const fn half(&self, class: u32, half: u32) -> u32 {
        let [first, classes, halves] = self.inset;
        first + classes * class + halves * half
    }
}

const DESTINATION_MAC: usize = 0;
const SOURCE_MAC: usize = 3;
const INNER_TAG: usize = 8;
/// First word of the IP header, up to the addresses.
const IP: usize = 9;
const IPV4_SOURCE: usize = 15;
const IPV4_DESTINATION: usize = 27;
const IPV6_SOURCE: usize = 13;
const IPV6_DESTINATION: usize = 21;
const SOURCE_PORT: usize = 29;
const DESTINATION_PORT: usize = 30;
const SCTP_TAG: usize = 31;
const OUTER_TAG: usize = 37;
const ETHER_TYPE: usize = 49;

/// Words of a frame.
pub struct Fields([u16; 64]);

impl Fields {
    /// The words that the class's registers choose, without the bits that they mask.
    pub fn chosen(&self, registers: &Registers, by: &Choice, class: u8) -> Vec<u16> {
        let class = u32::from(class & 0x3f);
        let half = |half: u32| u64::from(registers.get(by.half(class, half)));
        let masks = [0, 4].map(|i| registers.get(by.masks + 8 * class + i));
        let chosen = half(1) << 32 | half(0);
        let compared = |(index, word): (usize, &u16)| {
            let masked = masks.iter().filter(|mask| (**mask >> 16 & 0x3f) as usize == index);
            masked.fold(*word, |word, mask| word & !(*mask as u16))
        };
        let words = self.0.iter().enumerate().filter(|(index, _)| chosen >> (63 - index) & 1 != 0);
        words.map(compared).collect()
    }

    fn put(&mut self, first: usize, bytes: &[u8]) {
        for (word, pair) in self.0.iter_mut().skip(first).zip(bytes.chunks_exact(2)) {
            *word = u16::from_be_bytes([pair[0], pair[1]]);
        }
    }

    fn ip(&mut self, header: &[u8], sides: [usize; 4]) -> Option<()> {
        let [first, second, ports, other] = sides;
        let (addresses, len) = match header.first()? >> 4 {
            4 => (12, 4),
            _ => (8, 16),
        };
        self.put(first, header.get(addresses..addresses + len)?);
        self.put(second, header.get(addresses + len..addresses + 2 * len)?);
        self.put(IP, header.get(..2)?);
        let (protocol, behind) = if len == 4 {
            self.put(IP + 4, header.get(8..10)?);
            (header[9], usize::from(header[0] & 0xf) * 4)
        } else {
            self.put(IP + 3, header.get(6..8)?);
            extensions(header)?
        };
        if matches!(protocol, 6 | 17 | 132) {
            self.put(ports, header.get(behind..behind + 2)?);
            self.put(other, header.get(behind + 2..behind + 4)?);
        }
        if protocol == 132 {
            self.put(SCTP_TAG, header.get(behind + 4..behind + 8)?);
        }
        Some(())
    }
}

/// Protocol behind an IPv6 header and its extensions, and its place.
fn extensions(header: &[u8]) -> Option<(u8, usize)> {
    let (mut next, mut at) = (*header.get(6)?, 40);
    for _ in 0..8 {
        if !matches!(next, 0 | 43 | 60) {
            break;
        }
        let len = 8 + 8 * usize::from(*header.get(at + 1)?);
        next = *header.get(at)?;
        at += len;
    }
    Some((next, at))
}

/// Words of a frame; with the sides exchanged, those of the frame that answers it. Lengths in the headers are not
/// looked at: frames that only program a filter may leave them 0.
pub fn of(frame: &[u8], exchanged: bool) -> Fields {
    let mut fields = Fields([0; 64]);
    fields.put(DESTINATION_MAC, frame.get(..6).unwrap_or_default());
    fields.put(SOURCE_MAC, frame.get(6..12).unwrap_or_default());
    let mut at = 12;
    let mut tags = Vec::new();
    while let Some([0x81, 0x00, tag @ ..] | [0x88, 0xa8, tag @ ..]) = frame.get(at..at + 4)
        && tags.len() < 2
    {
        tags.push(tag);
        at += 4;
    }
    if let Some(tag) = tags.pop() {
        fields.put(INNER_TAG, tag);
    }
    if let Some(tag) = tags.pop() {
        fields.put(OUTER_TAG, tag);
    }
    let kind = frame.get(at..at + 2).unwrap_or_default();
    fields.put(ETHER_TYPE, kind);
    let (source, destination) = match kind {
        [0x08, 0x00] => (IPV4_SOURCE, IPV4_DESTINATION),
        [0x86, 0xdd] => (IPV6_SOURCE, IPV6_DESTINATION),
        _ => return fields,
    };
    let sides = if exchanged {
        [destination, source, DESTINATION_PORT, SOURCE_PORT]
    } else {
        [source, destination, SOURCE_PORT, DESTINATION_PORT]
    };
    // A header that ends early leaves the rest 0.
    let _ = fields.ip(frame.get(at + 2..).unwrap_or_default(), sides);
    fields
}

/// What the card hashes and compares before a driver says otherwise: addresses and ports, or the type of what is not
/// IP.
pub fn set_defaults(registers: &mut Registers) {
    const IPV4: u64 = 0x0001_8018_0000_0000;
    const IPV6: u64 = 0x0007_fff8_0000_0000;
    const PORTS: u64 = 0x0000_0006_0000_0000;
    const TAG: u64 = 0x0000_0001_8000_0000;
    const TYPE: u64 = 0x4000;
    let v4 = [(31, PORTS), (33, PORTS), (34, PORTS | TAG), (35, 0), (36, 0)].map(|(n, l4)| (n, IPV4 | l4));
    let v6 = [(41, PORTS), (43, PORTS), (44, PORTS | TAG), (45, 0), (46, 0)].map(|(n, l4)| (n, IPV6 | l4));
    for (class, words) in v4.into_iter().chain(v6).chain([(63, TYPE)]) {
        for by in [HASH, FLOW_DIRECTOR] {
            registers.set(by.half(class, 0), words as u32);
            registers.set(by.half(class, 1), (words >> 32) as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words of a class by the bits that DPDK sets for a field.
    fn words(frame: &[u8], chosen: u64) -> Vec<u16> {
        let mut registers = Registers::new();
        registers.set(0x26_7600 + 8 * 31, chosen as u32);
        registers.set(0x26_7600 + 8 * 31 + 4, (chosen >> 32) as u32);
        of(frame, false).chosen(&registers, &HASH, 31)
    }

    #[test]
    fn fields_are_where_dpdk_chooses_them() {
        let mut frame: Vec<u8> = (1..13).collect();
        frame.extend([0x81, 0x00, 0x20, 0x05, 0x08, 0x00]);
        frame.extend([
            0x45, 0xb8, 0, 0, 0, 0, 0, 0, 63, 17, 0, 0, 10, 1, 2, 3, 10, 4, 5, 6, 0, 7, 0, 8, 0, 0, 0, 0,
        ]);
        assert_eq!(words(&frame, 0xe000_0000_0000_0000), [0x0102, 0x0304, 0x0506]);
        assert_eq!(words(&frame, 0x1c00_0000_0000_0000), [0x0708, 0x090a, 0x0b0c]);
        assert_eq!(words(&frame, 0x0080_0000_0000_0000), [0x2005]);
        assert_eq!(words(&frame, 0x0001_8000_0000_0000), [0x0a01, 0x0203]);
        assert_eq!(words(&frame, 0x0000_0018_0000_0000), [0x0a04, 0x0506]);
        assert_eq!(words(&frame, 0x0040_0000_0000_0000), [0x45b8]);
        assert_eq!(words(&frame, 0x0004_0000_0000_0000), [63 << 8 | 17]);
        assert_eq!(words(&frame, 0x0000_0006_0000_0000), [7, 8]);
        assert_eq!(words(&frame, 0x4000), [0x0800]);
        for len in 0..frame.len() {
            let _ = of(&frame[..len], true);
        }
    }

    /// `I40E_INSET_IPV4_PROTO_MASK` of DPDK: all but the protocol of word 13 is left out.
    #[test]
    fn masked_bits_are_left_out() {
        let mut frame = vec![0; 12];
        frame.extend([0x08, 0x00, 0x45, 0, 0, 0, 0, 0, 0, 0, 63, 17, 0, 0, 10, 1, 2, 3, 10, 4, 5, 6]);
        let mut registers = Registers::new();
        registers.set(0x25_0000 + 64 * 35 + 32, 0x0004_0000);
        registers.set(0x26_7200 + 8 * 35, 0x000d_ff00);
        assert_eq!(of(&frame, false).chosen(&registers, &FLOW_DIRECTOR, 35), [17]);
    }

    #[test]
    fn ports_behind_ipv6_extensions_are_found() {
        let mut frame = vec![0; 12];
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 0, 64]);
        frame.extend([1; 16]);
        frame.extend([2; 16]);
        frame.extend([17, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 8, 0, 0, 0, 0]);
        assert_eq!(words(&frame, 0x0000_0006_0000_0000), [7, 8]);
        assert_eq!(words(&frame, 0x0007_f800_0000_0000), [0x0101; 8]);
        assert_eq!(words(&frame, 0x0000_07f8_0000_0000), [0x0202; 8]);
    }
}
