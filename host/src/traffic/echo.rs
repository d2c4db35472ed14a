//! What `icmpecho` makes of a frame.

use super::check::Macs;
use super::checksums::checksum;

/// The reply that port `port` sends to `frame`; `None` where there is none to give.
pub fn reply(macs: &Macs, port: usize, frame: &[u8]) -> Option<Vec<u8>> {
    let tag = if frame.get(12..14)? == [0x81, 0x00] { 4 } else { 0 };
    match frame.get(12 + tag..14 + tag)? {
        [0x08, 0x06] => arp(macs.own(port), frame, 14 + tag),
        [0x08, 0x00] => echo(frame, 14 + tag),
        _ => None,
    }
}

fn arp(own: [u8; 6], frame: &[u8], at: usize) -> Option<Vec<u8>> {
    let packet = frame.get(at..at + 28)?;
    if packet[..8] != [0, 1, 8, 0, 6, 4, 0, 1] {
        return None;
    }
    let mut reply = frame.to_vec();
    reply[..6].copy_from_slice(&frame[6..12]);
    reply[6..12].copy_from_slice(&own);
    let parts: [&[u8]; 5] = [&[0, 2], &own, &packet[24..28], &packet[8..14], &packet[14..18]];
    reply[at + 6..at + 28].copy_from_slice(&parts.concat());
    Some(reply)
}

fn echo(frame: &[u8], at: usize) -> Option<Vec<u8>> {
    let (ip, icmp) = (frame.get(at..at + 20)?, frame.get(at + 20..at + 24)?);
    let later_fragment = ip[6] & 0x1f != 0 || ip[7] != 0;
    if ip[0] != 0x45 || ip[9] != 1 || later_fragment || icmp[..2] != [8, 0] {
        return None;
    }
    let mut reply = frame.to_vec();
    reply[..12].rotate_left(6);
    let header = &mut reply[at..at + 20];
    header[12..].rotate_left(4);
    if header[12] & 0xf0 == 0xe0 {
        // A group does not answer; a neighbour of the asker does.
        let asker: [u8; 4] = [header[16], header[17], header[18], header[19]];
        header[12..16].copy_from_slice(&asker);
        header[15] = asker[3] & !3 | if asker[3] & 3 == 1 { 2 } else { 1 };
        header[10..12].fill(0);
        let sum = checksum(&[header]);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    // The type was 8, which the sum lacks now.
    let old = u32::from(icmp[2]) << 8 | u32::from(icmp[3]);
    let new = if old + 0x0800 > 0xffff { old + 0x0800 - 0xffff } else { old + 0x0800 };
    reply[at + 20] = 0;
    reply[at + 22..at + 24].copy_from_slice(&(new as u16).to_be_bytes());
    Some(reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request and its reply as they were seen: `ping -c 1` of a Linux machine, 8 bytes of payload.
    #[test]
    fn a_request_as_it_was_seen() {
        let ethernet = |a: u8, b: u8| [[2, 0, 0, 0, 0, a], [2, 0, 0, 0, 0, b]].concat();
        let ip = |a: u8, b: u8| [0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, 1, 0x26, 0xdf, 10, 0, 0, a, 10, 0, 0, b];
        let request = [&ethernet(2, 1)[..], &[8, 0], &ip(1, 2), &[8, 0, 0xf7, 0xfd, 0, 1, 0, 1]].concat();
        let answer = [&ethernet(1, 2)[..], &[8, 0], &ip(2, 1), &[0, 0, 0xff, 0xfd, 0, 1, 0, 1]].concat();
        let macs = Macs(vec![[9; 6]]);
        assert_eq!(reply(&macs, 0, &request), Some(answer.clone()));
        assert_eq!(reply(&macs, 0, &answer), None);
        assert_eq!(reply(&macs, 0, &request[..37]), None);
    }

    #[test]
    fn who_has() {
        let macs = Macs(vec![[9; 6]]);
        let ask =
            [8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 1, 1, 1, 1, 1, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2];
        let say =
            [8, 6, 0, 1, 8, 0, 6, 4, 0, 2, 9, 9, 9, 9, 9, 9, 10, 0, 0, 2, 1, 1, 1, 1, 1, 1, 10, 0, 0, 1];
        let request = [&[0xff; 6][..], &[1; 6], &ask].concat();
        assert_eq!(reply(&macs, 0, &request), Some([&[1; 6][..], &[9; 6], &say].concat()));
        assert_eq!(reply(&macs, 0, &request[..41]), None);
    }
}
