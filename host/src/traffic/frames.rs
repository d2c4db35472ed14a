//! Sets of frames: from a capture, of one size, or the Internet mix.

use std::net::Ipv4Addr;
use std::sync::Arc;

use super::checksums::checksum;

/// Frames that a source sends in order, again from the start if it repeats.
#[derive(Debug, Clone)]
pub struct FrameSet {
    frames: Arc<[Box<[u8]>]>,
}

/// Frames of a synthetic set: more than can be under way, so that no two of those are alike.
const SET: usize = 1536;
/// 7 small, 4 medium and 1 large frame: the simple IMIX of 64, 594 and 1518 bytes with FCS.
const IMIX: [usize; 12] = [60, 590, 60, 60, 590, 60, 1514, 60, 590, 60, 590, 60];

impl FrameSet {
    /// The frames of a list.
    pub fn new(frames: Vec<Box<[u8]>>) -> Self {
        Self { frames: frames.into() }
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// None at all.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Bytes of the longest one.
    pub fn longest(&self) -> usize {
        self.frames.iter().map(|frame| frame.len()).max().unwrap_or(0)
    }

    /// The frame of that index.
    pub fn get(&self, index: u32) -> Option<&[u8]> {
        self.frames.get(index as usize).map(|frame| &frame[..])
    }
}

/// The Internet mix for port `port`.
pub fn imix(port: usize) -> FrameSet {
    let lengths = IMIX.into_iter().cycle().take(SET);
    FrameSet::new(lengths.enumerate().map(|(index, len)| udp(port, index, len)).collect())
}

/// Frames of `len` bytes for port `port`.
pub fn sized(port: usize, len: usize) -> FrameSet {
    FrameSet::new((0..SET).map(|index| udp(port, index, len)).collect())
}

/// What `icmpecho` answers, for port `port`: echo requests of `len` bytes, or of the mix's, and ARP requests among them.
pub fn requests(port: usize, len: Option<usize>) -> FrameSet {
    let lengths = IMIX.into_iter().cycle().take(SET).map(|mixed| len.unwrap_or(mixed));
    let request = |(index, len)| if index % 16 == 15 { who_has(port, index) } else { ping(port, index, len) };
    FrameSet::new(lengths.enumerate().map(request).collect())
}

/// Sync messages of PTP version 2 over Ethernet for port `port`, of 60 bytes (IEEE 1588-2008, section 13.3, annex F).
pub fn syncs(port: usize) -> FrameSet {
    let sync = |index: usize| {
        let mut frame = vec![0; 60];
        frame[..6].copy_from_slice(&[0x01, 0x1b, 0x19, 0, 0, 0]);
        frame[6..12].copy_from_slice(&[0x02, 0, 0, 0, 0x20, port as u8]);
        frame[12..18].copy_from_slice(&[0x88, 0xf7, 0, 2, 0, 44]);
        frame[44..46].copy_from_slice(&(index as u16).to_be_bytes());
        frame.into_boxed_slice()
    };
    FrameSet::new((0..SET).map(sync).collect())
}

/// An ICMP echo request whose payload and sequence number tell port and index.
fn ping(port: usize, index: usize, len: usize) -> Box<[u8]> {
    let mut frame = udp(port, index, len);
    frame[23] = 1;
    frame[24..26].fill(0);
    let ip_sum = checksum(&[&frame[14..34]]);
    frame[24..26].copy_from_slice(&ip_sum.to_be_bytes());
    frame[34..40].copy_from_slice(&[8, 0, 0, 0, 0xba, port as u8]);
    frame[40..42].copy_from_slice(&(index as u16).to_be_bytes());
    let sum = checksum(&[&frame[34..]]);
    frame[36..38].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// An ARP request for an address that tells the index.
fn who_has(port: usize, index: usize) -> Box<[u8]> {
    let mut frame = vec![0; 60];
    let asker = [0x02, 0, 0, 0, 0x20, port as u8];
    frame[..6].fill(0xff);
    frame[6..12].copy_from_slice(&asker);
    frame[12..22].copy_from_slice(&[0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame[22..28].copy_from_slice(&asker);
    frame[28..32].copy_from_slice(&[198, 18, port as u8, 1]);
    let [high, low] = (index as u16).to_be_bytes();
    frame[38..42].copy_from_slice(&[198, 19, high, low]);
    frame.into_boxed_slice()
}

/// A UDP frame whose flow and payload tell port and index. `len` is at least 60.
fn udp(port: usize, index: usize, len: usize) -> Box<[u8]> {
    let (port, number) = (port as u8, index as u32);
    let mut frame = vec![0; len.max(60)];
    frame[..6].copy_from_slice(&[0x02, 0, 0, 0, 0x10, port]);
    frame[6..12].copy_from_slice(&[0x02, 0, 0, 0, 0x20, port]);
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    let ip_len = (frame.len() - 14) as u16;
    let udp_len = ip_len - 20;
    frame[14..24].copy_from_slice(&[0x45, 0, (ip_len >> 8) as u8, ip_len as u8, 0, 0, 0x40, 0, 64, 17]);
    frame[26..30].copy_from_slice(&Ipv4Addr::new(198, 18, port, (number % 251) as u8).octets());
    frame[30..34].copy_from_slice(&Ipv4Addr::new(198, 19, port, (number % 241) as u8).octets());
    frame[34..36].copy_from_slice(&(1024 + (number % 4096) as u16).to_be_bytes());
    frame[36..38].copy_from_slice(&9_u16.to_be_bytes());
    frame[38..40].copy_from_slice(&udp_len.to_be_bytes());
    frame[42..46].copy_from_slice(&number.to_be_bytes());
    for (place, byte) in frame.iter_mut().enumerate().skip(46) {
        *byte = (place as u32).wrapping_mul(167).wrapping_add(number) as u8;
    }
    let ip_sum = checksum(&[&frame[14..34]]);
    frame[24..26].copy_from_slice(&ip_sum.to_be_bytes());
    let pseudo = [0, 17, frame[38], frame[39]];
    let udp_sum = match checksum(&[&frame[26..34], &pseudo, &frame[34..]]) {
        0 => 0xffff,
        sum => sum,
    };
    frame[40..42].copy_from_slice(&udp_sum.to_be_bytes());
    frame.into_boxed_slice()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn frames_are_distinct_and_their_checksums_verify() {
        for set in [imix(0), sized(1, 60), sized(2, 61), sized(3, 9728)] {
            let all: HashSet<&[u8]> = (0..set.len() as u32).map(|index| set.get(index).unwrap()).collect();
            assert_eq!(all.len(), SET);
            for frame in all {
                assert_eq!(checksum(&[&frame[14..34]]), 0);
                let pseudo = [0, 17, frame[38], frame[39]];
                assert_eq!(checksum(&[&frame[26..34], &pseudo, &frame[34..]]), 0);
                assert_eq!(usize::from(frame[16]) << 8 | usize::from(frame[17]), frame.len() - 14);
            }
        }
    }

    #[test]
    fn the_mix_is_seven_to_four_to_one() {
        let set = imix(0);
        let count = |len| (0..set.len() as u32).filter(|index| set.get(*index).unwrap().len() == len).count();
        assert_eq!([count(60), count(590), count(1514)], [SET / 12 * 7, SET / 12 * 4, SET / 12]);
    }
}
