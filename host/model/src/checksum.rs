//! The Internet checksum (RFC 1071).

/// One's complement sum of `bytes` as big-endian words, an odd last byte padded with zero, added to `sum`.
pub fn add(sum: u32, bytes: &[u8]) -> u32 {
    let mut sum = u64::from(sum);
    let mut words = bytes.chunks_exact(2);
    for word in &mut words {
        sum += u64::from(u16::from_be_bytes([word[0], word[1]]));
    }
    if let [last] = words.remainder() {
        sum += u64::from(*last) << 8;
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u32
}

/// The checksum of a finished sum.
pub fn finish(sum: u32) -> u16 {
    !(sum as u16)
}

/// Sum of the pseudo-header of an IPv4 (8 bytes of addresses) or IPv6 (32 bytes) packet.
pub fn pseudo_header(addresses: &[u8], protocol: u8, len: u32) -> u32 {
    let sum = add(0, addresses);
    add(sum, &[0, protocol, (len >> 24) as u8, (len >> 16) as u8, (len >> 8) as u8, len as u8])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 1071, section 3: 0001 f203 f4f5 f6f7 sums to ddf2.
    #[test]
    fn example_of_the_rfc() {
        assert_eq!(add(0, &[0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
        assert_eq!(add(add(0, &[0, 1, 0xf2, 3]), &[0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
        assert_eq!(add(0, &[0xab]), 0xab00);
    }
}
