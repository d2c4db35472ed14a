//! Frames to send.

/// A frame of `len` bytes, number `n`: addresses that can be exchanged, an IPv4-like type only by chance, and bytes that
/// tell their place.
pub fn numbered(n: u32, len: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5];
    frame.extend(n.to_be_bytes());
    let start = frame.len();
    frame.extend((start..len.max(start)).map(|i| (i as u32).wrapping_mul(31).wrapping_add(n) as u8));
    frame.truncate(len);
    frame
}

/// `frame` with its addresses exchanged, as another program would do it.
pub fn swapped(frame: &[u8]) -> Vec<u8> {
    [&frame[6..12], &frame[..6], &frame[12..]].concat()
}

/// A UDP frame of `len` bytes, at least 46, number `n`, in IPv4, of a flow of its own: addresses and ports depend on `n`.
/// RFC 791 and 768; without a UDP checksum, which may be left out.
pub fn flow(n: u32, len: usize) -> Vec<u8> {
    let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 0, 10, 1, 0, 0];
    ip[2..4].copy_from_slice(&(len as u16 - 14).to_be_bytes());
    ip[13..16].copy_from_slice(&n.to_be_bytes()[1..]);
    ip[17..20].copy_from_slice(&n.wrapping_mul(7919).to_be_bytes()[1..]);
    let sum: u32 = ip.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    ip[10..12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend(ip);
    for word in [1024 + (n % 40_000) as u16, 4789, len as u16 - 34, 0] {
        frame.extend(word.to_be_bytes());
    }
    frame.extend(n.to_be_bytes());
    let start = frame.len();
    frame.extend((start..len).map(|i| (i as u32).wrapping_mul(31).wrapping_add(n) as u8));
    frame
}
