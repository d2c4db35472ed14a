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
