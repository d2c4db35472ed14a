//! Receive side scaling from its specification (Microsoft, "RSS Hashing Functions"), and flows to try it with.

/// Key and table, as ethtool tells them.
pub struct Table {
    key: Vec<u8>,
    entries: Vec<usize>,
}

impl Table {
    /// The last table and key of `text`, which is what `ethtool -x` printed.
    pub fn parse(text: &str) -> Option<Self> {
        let begin = text.rfind("RX flow hash indirection table")?;
        let (table, key) = text[begin..].split_once("RSS hash key:")?;
        // Lines such as `    8:      0     1     0     1     0     1     0     1`.
        let rows = table.lines().skip(1).filter_map(|line| line.split_once(':'));
        let entries = rows.flat_map(|(_, row)| row.split_whitespace().filter_map(|entry| entry.parse().ok()));
        let key = key.trim_start().lines().next()?.trim().split(':');
        let key = key.map(|byte| u8::from_str_radix(byte, 16)).collect::<Result<Vec<u8>, _>>().ok()?;
        Some(Self { key, entries: entries.collect() }).filter(|table| table.entries.len().is_power_of_two())
    }

    /// The queue of a flow.
    pub fn queue(&self, input: &[u8]) -> usize {
        self.entries[toeplitz(&self.key, input) as usize % self.entries.len()]
    }
}

/// For every bit of the input that is set, the 32 bits of the key that begin there.
fn toeplitz(key: &[u8], input: &[u8]) -> u32 {
    let bit = |bytes: &[u8], at: usize| bytes[at / 8] >> (7 - at % 8) & 1;
    let window = |at: usize| (0..32).fold(0, |word, i| word << 1 | u32::from(bit(key, at + i)));
    (0..input.len() * 8).filter(|at| bit(input, *at) == 1).fold(0, |hash, at| hash ^ window(at))
}

/// A flow of TCP or UDP over IPv4, to an address that nobody has.
#[derive(Debug, Clone, Copy)]
pub struct Flow {
    /// TCP, else UDP.
    pub tcp: bool,
    addresses: [u8; 8],
    ports: [u8; 4],
}

impl Flow {
    /// One of many, whose bits look as if drawn by lot: a key that sends a hundred of them to one of two queues is one in 2^24.
    pub const fn number(n: u32) -> Self {
        let [a, b, c, d] = n.wrapping_mul(0x9e37_79b1).to_be_bytes();
        Self { tcp: n % 2 == 1, addresses: [10, a, b, c, 10, 2, 0, 1], ports: [0x20, d, 0x12, 0x34] }
    }

    /// What is hashed of it: addresses, and ports if `ports` says so.
    pub fn input(&self, ports: bool) -> Vec<u8> {
        [&self.addresses[..], if ports { &self.ports[..] } else { &[] }].concat()
    }

    /// A frame of it, without payload and with an IP header whose checksum is right.
    pub fn frame(&self, to: [u8; 6]) -> Vec<u8> {
        let mut frame = [&to[..], &[2, 0, 0, 0, 0, 1, 8, 0]].concat();
        let (protocol, len) = if self.tcp { (6, 40) } else { (17, 28) };
        let mut header = vec![0x45, 0, 0, len, 0, 0, 0x40, 0, 64, protocol, 0, 0];
        header.extend(self.addresses);
        let sum: u32 = header.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        frame.extend(header);
        frame.extend(self.ports);
        // UDP: length 8, no checksum. TCP: numbers, 5 words of header, ACK.
        let rest: &[u8] =
            if self.tcp { &[0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0] } else { &[0, 8, 0, 0] };
        frame.extend(rest);
        frame.resize(60, 0);
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "Verifying the RSS Hash Calculation", IPv4 with TCP.
    #[test]
    fn the_hash_is_that_of_the_specification() {
        let key = [
            0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
            0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
            0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
        ];
        let flow = [66, 9, 149, 187, 161, 142, 100, 80, 0x0a, 0xea, 0x06, 0xe6];
        assert_eq!(toeplitz(&key, &flow), 0x51cc_c178);
    }

    #[test]
    fn a_table_is_read_as_ethtool_prints_it() {
        let text = "RX flow hash indirection table for eth0 with 2 RX ring(s):\n    0:      0     1\n    2:      1     0\n\
                    RSS hash key:\n01:02:ff\nRSS hash function:\n";
        let table = Table::parse(text).unwrap();
        assert_eq!((table.key, table.entries), (vec![1, 2, 255], vec![0, 1, 1, 0]));
    }
}
