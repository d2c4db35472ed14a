//! How made or split frames lie in buffers: `--txpkts` and `--txsplit`.

use heapless::Vec;

use super::random::Random;

/// Buffers that a frame can be cut into: what an XL710 takes without segmentation.
pub const MAX_SEGMENTS: usize = 8;
/// Bytes of a segment: what a buffer holds.
pub const SEGMENT_MAX: u16 = 2048;
/// testpmd's TXONLY_DEF_PACKET_LEN.
pub const DEFAULT_LEN: u16 = 64;
/// Ethernet, IPv4 and UDP headers: no frame is shorter.
pub const HEADERS: usize = 14 + 20 + 8;
/// The longest frame of a port.
pub const FRAME_MAX: u16 = 9728;

/// testpmd's `set txsplit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Split {
    /// `csum` leaves frames in their buffers; `txonly` makes each of all segments.
    #[default]
    Off,
    /// `csum` copies frames into segments, too.
    On,
    /// As `On`, and each frame has some of the segments, at random.
    Random,
}

impl Split {
    /// From testpmd's names.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "off" => Some(Self::Off),
            "on" => Some(Self::On),
            "rand" => Some(Self::Random),
            _ => None,
        }
    }
}

/// The lengths of a frame's segments, and how many a frame has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segments {
    lens: Vec<u16, MAX_SEGMENTS>,
    /// Whether frames have all of them.
    pub split: Split,
}

impl Default for Segments {
    fn default() -> Self {
        Self::of(DEFAULT_LEN)
    }
}

impl Segments {
    /// One segment of `len` bytes.
    pub fn of(len: u16) -> Self {
        Self { lens: core::iter::once(len.clamp(HEADERS as u16, SEGMENT_MAX)).collect(), split: Split::Off }
    }

    /// `LEN[,LEN]...`: 1 to 8 numbers from 1 to 2048 that make 42 to 9728 together.
    pub fn parse(value: &str) -> Option<Self> {
        let mut lens = Vec::new();
        for word in value.split(',') {
            let digits = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
            let len = word.parse().ok().filter(|len| digits && (1..=SEGMENT_MAX).contains(len))?;
            lens.push(len).ok()?;
        }
        let total: usize = lens.iter().map(|len| usize::from(*len)).sum();
        (HEADERS..=usize::from(FRAME_MAX)).contains(&total).then_some(Self { lens, split: Split::Off })
    }

    /// Their lengths.
    pub fn lens(&self) -> &[u16] {
        &self.lens
    }

    /// Bytes of a frame that has all.
    pub fn total(&self) -> u16 {
        self.lens.iter().sum()
    }

    /// The lengths that the next frame has.
    pub fn next(&self, random: &mut Random) -> &[u16] {
        let all = self.lens.len();
        let count = if self.split == Split::Random { random.below(all as u64) as usize + 1 } else { all };
        self.lens.get(..count).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_and_bounded() {
        for (value, total) in
            [("64", 64), ("42", 42), ("20,470", 490), ("1,1,1,1,60", 64), ("2048,2048,2048,2048", 8192)]
        {
            assert_eq!(Segments::parse(value).map(|segments| segments.total()), Some(total), "{value}");
        }
        for value in [
            "",
            "41",
            "20,21",
            "2049",
            "0,64",
            "64,",
            ",64",
            "+64",
            "1,2,3,4,5,6,7,8,9",
            "2048,2048,2048,2048,2048",
        ] {
            assert_eq!(Segments::parse(value), None, "{value}");
        }
    }

    #[test]
    fn a_random_frame_has_the_first_segments() {
        let mut segments = Segments::parse("100,10,1").unwrap();
        let mut random = Random::new(1);
        assert_eq!(segments.next(&mut random), [100, 10, 1]);
        segments.split = Split::Random;
        let mut seen = [0; 4];
        for _ in 0..300 {
            seen[segments.next(&mut random).len()] += 1;
        }
        assert!(seen[0] == 0 && seen[1..].iter().all(|count| *count > 50), "{seen:?}");
    }
}
