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

/// `frame` with its addresses, those of its first IP header, and its UDP or TCP ports exchanged, as far as they are there:
/// RFC 791, 8200, 768, 9293. Fragments but the first have no ports.
pub fn five_tuple_swapped(frame: &[u8]) -> Vec<u8> {
    let be16 = |at: usize| Some(u16::from_be_bytes(frame.get(at..at + 2)?.try_into().ok()?));
    let mut places = vec![(0, 6)];
    let mut ip = 14;
    while be16(ip - 2).is_some_and(|kind| kind == 0x8100 || kind == 0x88a8) {
        ip += 4;
    }
    let mut next = None;
    if be16(ip - 2) == Some(0x0800) && frame.len() >= ip + 20 {
        let words = usize::from(frame[ip] % 16);
        if words > 4 {
            places.push((ip + 12, 4));
            let offset = be16(ip + 6).unwrap_or(0) % 0x2000;
            next = (offset == 0).then_some((frame[ip + 9], ip + 4 * words));
        }
    } else if be16(ip - 2) == Some(0x86dd) && frame.len() >= ip + 40 {
        places.push((ip + 8, 16));
        next = Some((frame[ip + 6], ip + 40));
    }
    if let Some((6 | 17, ports)) = next
        && frame.len() >= ports + 4
    {
        places.push((ports, 2));
    }
    let mut swapped = frame.to_vec();
    for (at, len) in places {
        let (source, destination) = (&frame[at + len..at + 2 * len], &frame[at..at + len]);
        swapped[at..at + 2 * len].copy_from_slice(&[source, destination].concat());
    }
    swapped
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
