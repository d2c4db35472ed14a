//! What `csum` makes of a frame: packets within packets, as slices within slices.

/// RFC 1071, over parts of which all but the last have an even length.
pub fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0_u32;
    for pair in parts.iter().flat_map(|part| part.chunks(2)) {
        sum += u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
        if sum > 0xffff {
            sum -= 0xffff;
        }
    }
    !(sum as u16)
}

/// `frame` with the checksums of its IP and what it carries, with `tunnels` also of what a tunnel carries.
pub fn corrected(frame: &[u8], tunnels: bool) -> Vec<u8> {
    let mut frame = frame.to_vec();
    correct_ethernet(&mut frame, tunnels);
    frame
}

fn correct_ethernet(frame: &mut [u8], tunnels: bool) {
    let mut at = 12;
    while matches!(frame.get(at..at + 2), Some([0x81, 0x00] | [0x88, 0xa8])) {
        at += 4;
    }
    let kind = frame.get(at..at + 2).map(<[u8]>::to_vec);
    if let (Some(kind), Some(packet)) = (kind, frame.get_mut(at + 2..)) {
        correct_packet(&kind, packet, tunnels);
    }
}

/// Kind of what follows: an Ethernet type.
fn correct_packet(kind: &[u8], packet: &mut [u8], tunnels: bool) {
    match kind {
        [0x08, 0x00] => correct_ipv4(packet, tunnels),
        [0x86, 0xdd] => correct_ipv6(packet, tunnels),
        [0x65, 0x58] => correct_ethernet(packet, tunnels),
        _ => {}
    }
}

fn correct_ipv4(packet: &mut [u8], tunnels: bool) {
    if packet.len() < 20 || packet[0] >> 4 != 4 {
        return;
    }
    let header_len = usize::from(packet[0] & 0xf) * 4;
    let total = usize::from(packet[2]) << 8 | usize::from(packet[3]);
    if header_len < 20 || total < header_len || total > packet.len() {
        return;
    }
    let (header, rest) = packet.split_at_mut(header_len);
    if header[6] & 0x3f == 0 && header[7] == 0 && !is_routed(&header[20..]) {
        let addresses = header[12..20].to_vec();
        correct_payload(header[9], &addresses, &mut rest[..total - header_len], tunnels);
    }
    header[10..12].fill(0);
    let sum = checksum(&[header]);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// There is a loose or strict source route that has not been gone to its end, or something that is no option.
fn is_routed(mut options: &[u8]) -> bool {
    loop {
        options = match options {
            [] | [0, ..] => return false,
            [1, rest @ ..] => rest,
            [kind, len, rest @ ..] if *len >= 2 && usize::from(*len) - 2 <= rest.len() => {
                let under_way = rest.first().is_none_or(|pointer| pointer <= len);
                if matches!(kind, 131 | 137) && under_way {
                    return true;
                }
                &rest[usize::from(*len) - 2..]
            }
            _ => return true,
        }
    }
}

/// There is a home address among destination options, or something that is no option.
fn has_home(mut options: &[u8]) -> bool {
    loop {
        options = match options {
            [] => return false,
            [0, rest @ ..] => rest,
            [0xc9, ..] => return true,
            [_, len, rest @ ..] if usize::from(*len) <= rest.len() => &rest[usize::from(*len)..],
            _ => return true,
        }
    }
}

fn correct_ipv6(packet: &mut [u8], tunnels: bool) {
    if packet.len() < 40 || packet[0] >> 4 != 6 {
        return;
    }
    let (mut next, mut at) = (packet[6], 40);
    let end = 40 + (usize::from(packet[4]) << 8 | usize::from(packet[5]));
    if end > packet.len() {
        return;
    }
    while matches!(next, 0 | 43 | 44 | 60) {
        let len =
            if next == 44 { 8 } else { packet.get(at + 1).map_or(0, |units| usize::from(*units) * 8 + 8) };
        if len == 0 || at + len > end {
            return;
        }
        let header = &packet[at..at + len];
        if next == 60 && has_home(&header[2..]) {
            return;
        }
        if next == 43 && header[3] != 0 || next == 44 && (header[2] != 0 || header[3] & 0xf9 != 0) {
            return;
        }
        (next, at) = (header[0], at + len);
    }
    let addresses = packet[8..40].to_vec();
    correct_payload(next, &addresses, &mut packet[at..end], tunnels);
}

fn correct_payload(protocol: u8, addresses: &[u8], payload: &mut [u8], tunnels: bool) {
    if tunnels {
        correct_tunnel(protocol, payload);
    }
    match protocol {
        6 if payload.len() >= 20 => {
            let header_len = usize::from(payload[12] >> 4) * 4;
            if (20..=payload.len()).contains(&header_len) {
                correct_sum(protocol, addresses, payload, 16);
            }
        }
        17 if payload.len() >= 8 => {
            let len = usize::from(payload[4]) << 8 | usize::from(payload[5]);
            let none = payload[6..8] == [0, 0] && (addresses.len() == 8 || tunnels && is_tunnel(payload));
            if let (false, Some(datagram)) = (none || len < 8, payload.get_mut(..len)) {
                correct_sum(protocol, addresses, datagram, 6);
                if datagram[6..8] == [0, 0] {
                    datagram[6..8].fill(0xff);
                }
            }
        }
        132 if payload.len() >= 12 => {
            payload[8..12].fill(0);
            let crc = crc32c(payload);
            payload[8..12].copy_from_slice(&crc.to_le_bytes());
        }
        _ => {}
    }
}

fn correct_sum(protocol: u8, addresses: &[u8], payload: &mut [u8], at: usize) {
    payload[at..at + 2].fill(0);
    let len = (payload.len() as u16).to_be_bytes();
    let sum = checksum(&[addresses, &[0, protocol], &len, payload]);
    payload[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

/// Bit by bit, polynomial 0x1edc6f41 reflected (RFC 9260, appendix A).
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 })
    })
}

/// An IP packet lies in this datagram, as far as its own header says.
fn is_tunnel(datagram: &[u8]) -> bool {
    let len = datagram.get(4..6).map_or(0, |len| usize::from(len[0]) << 8 | usize::from(len[1]));
    let mut inside = datagram.get(..len).unwrap_or_default().to_vec();
    inside_udp(&mut inside).is_some_and(|(kind, packet)| holds_ip(&kind, packet))
}

/// There is an IP packet behind this type whose lengths are borne out.
fn holds_ip(kind: &[u8], packet: &[u8]) -> bool {
    match kind {
        [0x08, 0x00] if packet.len() >= 20 => {
            let (words, total) = (packet[0] & 0xf, usize::from(packet[2]) << 8 | usize::from(packet[3]));
            let header_len = usize::from(words) * 4;
            packet[0] >> 4 == 4 && words >= 5 && total >= header_len && total <= packet.len()
        }
        [0x86, 0xdd] if packet.len() >= 40 => {
            packet[0] >> 4 == 6 && 40 + (usize::from(packet[4]) << 8 | usize::from(packet[5])) <= packet.len()
        }
        [0x65, 0x58] => {
            let mut at = 12;
            while matches!(packet.get(at..at + 2), Some([0x81, 0x00] | [0x88, 0xa8])) {
                at += 4;
            }
            packet
                .get(at..at + 2)
                .is_some_and(|kind| kind != [0x65, 0x58] && holds_ip(kind, &packet[at + 2..]))
        }
        _ => false,
    }
}

fn correct_tunnel(protocol: u8, payload: &mut [u8]) {
    match protocol {
        4 => correct_ipv4(payload, false),
        41 => correct_ipv6(payload, false),
        47 => correct_gre(payload),
        17 if payload.len() >= 8 => {
            let len = usize::from(payload[4]) << 8 | usize::from(payload[5]);
            if let Some((kind, packet)) = payload.get_mut(..len).and_then(inside_udp) {
                correct_packet(&kind, packet, false);
            }
        }
        _ => {}
    }
}

fn correct_gre(payload: &mut [u8]) {
    let Some([flags, version, kind @ ..]) = payload.first_chunk::<4>().copied() else { return };
    // One with a checksum over all of it is left as it is.
    if flags & 0xc0 == 0 && version & 7 == 0 {
        let at = 4 + 4 * (flags & 0x30).count_ones() as usize;
        if let Some(packet) = payload.get_mut(at..) {
            correct_packet(&kind, packet, false);
        }
    }
}

/// What a datagram of a known port carries: an Ethernet type and the bytes.
fn inside_udp(datagram: &mut [u8]) -> Option<(Vec<u8>, &mut [u8])> {
    let port = u16::from_be_bytes([*datagram.get(2)?, *datagram.get(3)?]);
    let head = datagram.get(8..16)?.to_vec();
    let (kind, at) = match port {
        4789 => (vec![0x65, 0x58], 16),
        4790 => {
            let kinds: [&[u8]; 4] = [&[], &[8, 0], &[0x86, 0xdd], &[0x65, 0x58]];
            (kinds.get(usize::from(head[3]))?.to_vec(), 16)
        }
        6081 if head[0] >> 6 == 0 => (head[2..4].to_vec(), 16 + 4 * usize::from(head[0] & 0x3f)),
        2152 if head[0] >> 5 == 1 && head[1] == 0xff => {
            let at = gtp_header(datagram.get(8..)?)? + 8;
            match datagram.get(at)? >> 4 {
                4 => (vec![8, 0], at),
                6 => (vec![0x86, 0xdd], at),
                _ => return None,
            }
        }
        _ => return None,
    };
    Some((kind, datagram.get_mut(at..)?))
}

/// Bytes of a GTP-U header with its extension headers.
fn gtp_header(bytes: &[u8]) -> Option<usize> {
    if bytes[0] & 7 == 0 {
        return Some(8);
    }
    let mut at = 12;
    let mut next = if bytes[0] & 4 == 0 { 0 } else { *bytes.get(11)? };
    while next != 0 {
        let len = 4 * usize::from(*bytes.get(at)?);
        if len == 0 {
            return None;
        }
        at += len;
        next = *bytes.get(at - 1)?;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 1071, section 3: the words 0001 f203 f4f5 f6f7 sum to ddf2. RFC 3720, appendix B.4: 32 bytes of zeroes.
    #[test]
    fn sums_of_the_rfcs_examples() {
        assert_eq!(checksum(&[&[0, 1, 0xf2, 3], &[0xf4, 0xf5, 0xf6, 0xf7]]), !0xddf2);
        assert_eq!(crc32c(&[0; 32]).to_le_bytes(), [0xaa, 0x36, 0x91, 0x8a]);
    }

    /// A DNS query whose checksums are known to be right: made wrong, they come back.
    #[test]
    fn what_was_right_is_found_again() {
        let frame: Vec<u8> = [
            &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0][..],
            &[0x45, 0, 0, 0x30, 0, 0, 0x40, 0, 0x40, 0x11, 0xb6, 0x75, 0xc0, 0xa8, 1, 0x62, 0xc0, 0xa8, 1, 1],
            &[0xc0, 0x01, 0, 0x35, 0, 0x1c, 0, 0],
            &[1; 20],
        ]
        .concat();
        // By hand: c0a8+0162+c0a8+0101+0011+001c + c001+0035+001c + ten times 0101.
        let sum = 0xc0a8 + 0x0162 + 0xc0a8 + 0x0101 + 0x11 + 0x1c + 0xc001 + 0x35 + 0x1c + 10 * 0x0101_u32;
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        let mut wrong = frame.clone();
        wrong[40..42].copy_from_slice(&[0xab, 0xcd]);
        let right = corrected(&wrong, false);
        assert_eq!(right[40..42], sum.to_be_bytes());
        assert_eq!(corrected(&frame, false)[40..42], [0, 0]);
        assert_eq!(checksum(&[&right[14..34]]), 0);
    }
}
