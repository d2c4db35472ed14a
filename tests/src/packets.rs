//! UDP and TCP packets with checksums of their own making (RFC 1071, 768, 9293, 8200).

/// A packet in an Ethernet frame.
#[derive(Debug, Clone, Copy)]
pub struct Packet {
    /// Addresses of version 6, else 4.
    pub v6: bool,
    /// TCP, else UDP.
    pub tcp: bool,
    /// Last bytes of source and destination address.
    pub addresses: [u8; 2],
    /// Source and destination port.
    pub ports: [u16; 2],
    /// Bytes of the frame without FCS.
    pub len: usize,
}

impl Packet {
    /// Bytes before the payload.
    pub fn headers(&self) -> usize {
        self.l4_at() + if self.tcp { 20 } else { 8 }
    }

    /// Offset of the layer 4 header.
    fn l4_at(&self) -> usize {
        14 + if self.v6 { 40 } else { 20 }
    }

    fn addresses(&self) -> Vec<u8> {
        let net: &[u8] =
            if self.v6 { &[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] } else { &[198, 18, 0] };
        self.addresses.iter().flat_map(|last| net.iter().copied().chain([*last])).collect()
    }

    /// Offsets of its checksums: IP's, if it has one, and layer 4's.
    pub fn checksums(&self) -> (Option<usize>, usize) {
        let l4 = self.l4_at() + if self.tcp { 16 } else { 6 };
        ((!self.v6).then_some(24), l4)
    }

    /// The frame, between these MAC addresses, with payload that tells number `n`.
    pub fn frame(&self, macs: [[u8; 6]; 2], n: u32) -> Vec<u8> {
        let mut frame: Vec<u8> = macs.as_flattened().to_vec();
        let (len, l4_len) = (self.len - 14, self.len - self.l4_at());
        let protocol = if self.tcp { 6 } else { 17 };
        if self.v6 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend((l4_len as u16).to_be_bytes());
            frame.extend([protocol, 64]);
        } else {
            frame.extend([0x08, 0, 0x45, 0]);
            frame.extend((len as u16).to_be_bytes());
            frame.extend([(n >> 8) as u8, n as u8, 0x40, 0, 64, protocol, 0, 0]);
        }
        frame.extend(self.addresses());
        frame.extend(self.ports.iter().flat_map(|port| port.to_be_bytes()));
        if self.tcp {
            frame.extend(n.to_be_bytes());
            frame.extend([0, 0, 0, 0, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
        } else {
            frame.extend((l4_len as u16).to_be_bytes());
            frame.extend([0, 0]);
        }
        frame.extend(n.to_be_bytes());
        let at = frame.len();
        frame.extend((at..self.len.max(at)).map(|i| (i as u32).wrapping_mul(167).wrapping_add(n) as u8));
        frame.truncate(self.len);
        self.fill(&mut frame, protocol, l4_len);
        frame
    }

    /// What a card that segments makes of its frame `frame`, a TCP packet: pieces of `mss` bytes of payload, each with
    /// headers of its own.
    pub fn segments(&self, frame: &[u8], mss: usize) -> Vec<Vec<u8>> {
        let (head, payload) = frame.split_at(self.headers());
        let number = |at: usize| u32::from_be_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
        let pieces = payload.chunks(mss).enumerate();
        let segment = |(index, piece): (usize, &[u8])| {
            let mut segment = [head, piece].concat();
            let (len, l4_len) = (segment.len() as u16 - 14, segment.len() - self.l4_at());
            if self.v6 {
                segment[18..20].copy_from_slice(&(l4_len as u16).to_be_bytes());
            } else {
                let id = (number(16) as u16).wrapping_add(index as u16);
                segment[16..18].copy_from_slice(&len.to_be_bytes());
                segment[18..20].copy_from_slice(&id.to_be_bytes());
            }
            let at = self.l4_at() + 4;
            let sequence = number(at).wrapping_add((index * mss) as u32);
            segment[at..at + 4].copy_from_slice(&sequence.to_be_bytes());
            self.fill(&mut segment, 6, l4_len);
            segment
        };
        pieces.map(segment).collect()
    }

    fn fill(&self, frame: &mut [u8], protocol: u8, l4_len: usize) {
        let (ip, l4) = self.checksums();
        ip.into_iter().chain([l4]).for_each(|at| frame[at..at + 2].fill(0));
        if let Some(at) = ip {
            let sum = checksum(&[&frame[14..34]]);
            frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        }
        let pseudo = [0, protocol, (l4_len >> 8) as u8, l4_len as u8];
        let sum = match checksum(&[&self.addresses(), &pseudo, &frame[self.l4_at()..]]) {
            0 if !self.tcp => 0xffff,
            sum => sum,
        };
        frame[l4..l4 + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

/// RFC 1071, over parts of which all but the last have an even length.
fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0_u32;
    for pair in parts.iter().flat_map(|part| part.chunks(2)) {
        sum += u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 1071, section 3, and a header whose checksum is known: 192.168.0.1 to 192.168.0.199, b861.
    #[test]
    fn checksums_of_known_words() {
        assert_eq!(checksum(&[&[0, 1, 0xf2, 3], &[0xf4, 0xf5, 0xf6, 0xf7]]), !0xddf2);
        let header =
            [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7];
        assert_eq!(checksum(&[&header]), 0xb861);
    }
}
