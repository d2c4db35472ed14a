//! What the card does to a frame on its way out: tag insertion, checksums, segmentation.
//!
//! Datasheet: "Transmit Descriptor", "Transmit Segmentation". Software leaves the sum of the pseudo-header in the
//! layer 4 checksum field: with the length for a single frame, without it for one that is to be segmented.

use crate::checksum;

/// Requests of a data descriptor, as it encodes them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Offloads {
    /// CMD field: IIPT in bits 6:5, L4T in bits 9:8.
    pub command: u32,
    /// OFFSET field: MACLEN/2, IPLEN/4, L4LEN/4.
    pub offset: u32,
    /// Tag to insert.
    pub vlan: Option<u16>,
    /// Tag to insert in front of it, an S-tag. That it is one is an assumption: the type may be set elsewhere.
    pub outer_vlan: Option<u16>,
    /// Payload bytes of a segment.
    pub mss: Option<u16>,
}

const IIPT_IPV6: u32 = 1;
const IIPT_IPV4_CHECKSUM: u32 = 3;
const L4T_TCP: u32 = 1;
const L4T_SCTP: u32 = 2;
const L4T_UDP: u32 = 3;

/// Most segments of one frame.
const MAX_SEGMENTS: usize = 4096;
const MAX_FRAME: usize = 9728;

/// Header positions that a descriptor claims, checked against the frame.
#[derive(Debug, Clone, Copy)]
struct Headers {
    ip: usize,
    l4: usize,
    payload: usize,
    ip_kind: u32,
    l4_kind: u32,
}

impl Headers {
    fn of(offloads: &Offloads, frame: &[u8]) -> Option<Self> {
        let (ip_kind, l4_kind) = (offloads.command >> 5 & 3, offloads.command >> 8 & 3);
        let ip = (offloads.offset & 0x7f) as usize * 2;
        let l4 = ip + (offloads.offset >> 7 & 0x7f) as usize * 4;
        let payload = l4 + (offloads.offset >> 14 & 0xf) as usize * 4;
        let ip_fits = ip_kind == 0 || l4 - ip >= if ip_kind == IIPT_IPV6 { 40 } else { 20 };
        let l4_room = match l4_kind {
            L4T_TCP => 20,
            L4T_SCTP => 12,
            L4T_UDP => 8,
            _ => 0,
        };
        let good = ip_fits && payload <= frame.len() && l4 + l4_room <= frame.len();
        good.then_some(Self { ip, l4, payload, ip_kind, l4_kind })
    }

    /// Offset of the layer 4 checksum.
    const fn checksum_at(&self) -> Option<usize> {
        match self.l4_kind {
            L4T_TCP => Some(self.l4 + 16),
            L4T_UDP => Some(self.l4 + 6),
            _ => None,
        }
    }
}

/// Carries out the requests and gives each frame that goes on the wire to `out`.
///
/// # Errors
/// What about the requests a card would not take.
pub fn apply(
    frame: &mut Vec<u8>,
    offloads: &Offloads,
    out: &mut dyn FnMut(&[u8]),
) -> Result<(), &'static str> {
    let wants_headers = offloads.command >> 5 & 0x1b != 0 || offloads.mss.is_some();
    if !wants_headers {
        insert_tags(frame, offloads);
        out(frame);
        return Ok(());
    }
    let headers = Headers::of(offloads, frame).ok_or("header lengths outside of the frame")?;
    match offloads.mss {
        Some(mss) => segment(frame, &headers, usize::from(mss), offloads, out),
        None => {
            fill_checksums(frame, &headers);
            insert_tags(frame, offloads);
            out(frame);
            Ok(())
        }
    }
}

fn insert_tags(frame: &mut Vec<u8>, offloads: &Offloads) {
    for (tag, kind) in [(offloads.vlan, 0x8100_u16), (offloads.outer_vlan, 0x88a8)] {
        if let Some(tag) = tag
            && frame.len() >= 12
        {
            let ([kind_high, kind_low], [high, low]) = (kind.to_be_bytes(), tag.to_be_bytes());
            frame.splice(12..12, [kind_high, kind_low, high, low]);
        }
    }
}

fn put16(frame: &mut [u8], at: usize, value: u16) {
    if let Some(bytes) = frame.get_mut(at..at + 2) {
        bytes.copy_from_slice(&value.to_be_bytes());
    }
}

fn get16(frame: &[u8], at: usize) -> u16 {
    frame.get(at..at + 2).map_or(0, |bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
}

fn fill_checksums(frame: &mut [u8], headers: &Headers) {
    if headers.ip_kind == IIPT_IPV4_CHECKSUM {
        put16(frame, headers.ip + 10, 0);
        let sum = checksum::finish(checksum::add(0, &frame[headers.ip..headers.l4]));
        put16(frame, headers.ip + 10, sum);
    }
    if headers.l4_kind == L4T_SCTP {
        let at = headers.l4 + 8;
        frame[at..at + 4].fill(0);
        let crc = crc32c(&frame[headers.l4..]);
        frame[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    } else if let Some(at) = headers.checksum_at() {
        // The field holds the pseudo-header's sum and is part of what is summed.
        let sum = checksum::finish(checksum::add(0, &frame[headers.l4..]));
        put16(frame, at, if sum == 0 && headers.l4_kind == L4T_UDP { 0xffff } else { sum });
    }
}

/// CRC-32C (Castagnoli), reflected, as SCTP has it (RFC 9260, appendix A).
fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 != 0 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    !crc
}

fn segment(
    frame: &[u8],
    headers: &Headers,
    mss: usize,
    offloads: &Offloads,
    out: &mut dyn FnMut(&[u8]),
) -> Result<(), &'static str> {
    if headers.payload + mss > MAX_FRAME {
        return Err("segments longer than 9728 bytes");
    }
    if mss < 64 || headers.ip_kind == 0 || !matches!(headers.l4_kind, L4T_TCP | L4T_UDP) {
        return Err("segmentation with an MSS below 64, or of something that is not TCP or UDP over IP");
    }
    if headers.l4_kind == L4T_TCP && headers.payload < headers.l4 + 20 {
        return Err("segmentation with a TCP header of less than 20 bytes");
    }
    let (head, payload) = frame.split_at(headers.payload);
    let count = payload.len().div_ceil(mss).max(1);
    if count > MAX_SEGMENTS {
        return Err("segmentation into more than 4096 frames");
    }
    for index in 0..count {
        let piece = &payload[index * mss..payload.len().min((index + 1) * mss)];
        let mut segment = [head, piece].concat();
        fix_ip(&mut segment, headers, index);
        fix_l4(&mut segment, headers, index * mss, index == 0, index + 1 == count);
        add_length_to_pseudo_header(&mut segment, headers);
        fill_checksums(&mut segment, headers);
        insert_tags(&mut segment, offloads);
        out(&segment);
    }
    Ok(())
}

fn fix_ip(segment: &mut [u8], headers: &Headers, index: usize) {
    let len = segment.len() - headers.ip;
    if headers.ip_kind == IIPT_IPV6 {
        put16(segment, headers.ip + 4, (len - 40) as u16);
    } else {
        put16(segment, headers.ip + 2, len as u16);
        let id = get16(segment, headers.ip + 4).wrapping_add(index as u16);
        put16(segment, headers.ip + 4, id);
    }
}

fn fix_l4(segment: &mut [u8], headers: &Headers, skipped: usize, first: bool, last: bool) {
    const FIN_PSH: u8 = 0x09;
    const CWR: u8 = 0x80;
    if headers.l4_kind == L4T_UDP {
        let len = (segment.len() - headers.l4) as u16;
        put16(segment, headers.l4 + 4, len);
        return;
    }
    let sequence =
        u32::from(get16(segment, headers.l4 + 4)) << 16 | u32::from(get16(segment, headers.l4 + 6));
    let sequence = sequence.wrapping_add(skipped as u32);
    put16(segment, headers.l4 + 4, (sequence >> 16) as u16);
    put16(segment, headers.l4 + 6, sequence as u16);
    if let Some(flags) = segment.get_mut(headers.l4 + 13) {
        if !first {
            *flags &= !CWR;
        }
        if !last {
            *flags &= !FIN_PSH;
        }
    }
}

fn add_length_to_pseudo_header(segment: &mut [u8], headers: &Headers) {
    if let Some(at) = headers.checksum_at() {
        let len = (segment.len() - headers.l4) as u32;
        let sum = u32::from(get16(segment, at)) + len;
        put16(segment, at, ((sum & 0xffff) + (sum >> 16)) as u16);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    fn tcp_frame(payload: usize) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        frame.extend([0x45, 0, 0, 0, 0x12, 0x34, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0x10, 0, 0, 80, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0x50, 0x99, 0xff, 0xff, 0, 0, 0, 0]);
        frame.extend((0..payload).map(|i| i as u8));
        frame
    }

    const TCP_OFFSETS: u32 = 7 | 5 << 7 | 5 << 14;
    const TCP_COMMAND: u32 = IIPT_IPV4_CHECKSUM << 5 | L4T_TCP << 8;

    fn pseudo_header(frame: &[u8], len: u32) -> u16 {
        checksum::pseudo_header(&frame[26..34], 6, len) as u16
    }

    fn run(frame: &mut Vec<u8>, offloads: &Offloads) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        apply(frame, offloads, &mut |frame| out.push(frame.to_vec())).unwrap();
        out
    }

    #[test]
    fn checksums_of_a_single_frame_verify() {
        let mut frame = tcp_frame(101);
        put16(&mut frame, 16, 20 + 20 + 101);
        let pseudo = pseudo_header(&frame, 121);
        put16(&mut frame, 50, pseudo);
        let offloads = Offloads { command: TCP_COMMAND, offset: TCP_OFFSETS, ..Offloads::default() };
        let out = run(&mut frame, &offloads);
        let ip = parse::parse(&out[0]).ip.unwrap();
        assert_eq!(parse::checksum_errors(&out[0], &ip), (false, false));
    }

    /// Every segment stands for itself: lengths, identification, sequence, flags, checksums.
    #[test]
    fn segments_are_frames_of_their_own() {
        let mut frame = tcp_frame(2500);
        let pseudo = pseudo_header(&frame, 0);
        put16(&mut frame, 50, pseudo);
        let offloads = Offloads {
            command: TCP_COMMAND,
            offset: TCP_OFFSETS,
            vlan: Some(0x2005),
            outer_vlan: None,
            mss: Some(1000),
        };
        let out = run(&mut frame, &offloads);
        let mut payload = Vec::new();
        for (i, (segment, len)) in out.iter().zip([1000, 1000, 500]).enumerate() {
            assert_eq!(segment[12..16], [0x81, 0, 0x20, 5]);
            let ip = parse::parse(segment).ip.unwrap();
            assert_eq!(parse::checksum_errors(segment, &ip), (false, false), "{i}");
            assert_eq!(get16(segment, ip.at + 4), 0x1234 + i as u16);
            let sequence = u32::from_be_bytes(segment[ip.l4_at + 4..ip.l4_at + 8].try_into().unwrap());
            assert_eq!(sequence, 0xffff_ff00_u32.wrapping_add(1000 * i as u32));
            assert_eq!(segment[ip.l4_at + 13], [0x90, 0x10, 0x19][i]);
            assert_eq!(ip.end - ip.l4_at - 20, len);
            payload.extend_from_slice(&segment[ip.l4_at + 20..ip.end]);
        }
        assert_eq!((out.len(), payload), (3, frame[54..].to_vec()));
    }

    #[test]
    fn requests_that_no_card_takes_are_refused() {
        let wrong = |offloads: Offloads| apply(&mut tcp_frame(100), &offloads, &mut |_| ()).is_err();
        let good = Offloads {
            command: TCP_COMMAND,
            offset: TCP_OFFSETS,
            vlan: None,
            outer_vlan: None,
            mss: Some(64),
        };
        assert!(!wrong(good));
        assert!(wrong(Offloads { mss: Some(63), ..good }));
        assert!(wrong(Offloads { mss: Some(9728 - 53), ..good }));
        assert!(wrong(Offloads { offset: 0x7f | 5 << 7 | 5 << 14, ..good }));
        assert!(wrong(Offloads { offset: 7 | 1 << 7, ..good }));
        assert!(wrong(Offloads { command: L4T_SCTP << 8, ..good }));
        assert!(wrong(Offloads { offset: 7 | 5 << 7 | 4 << 14, ..good }));
    }

    /// RFC 3720, B.4: 32 bytes of zeros have the CRC-32C aa 36 91 8a.
    #[test]
    fn crc32c_of_a_known_string() {
        assert_eq!(crc32c(&[0; 32]).to_le_bytes(), [0xaa, 0x36, 0x91, 0x8a]);
    }
}
