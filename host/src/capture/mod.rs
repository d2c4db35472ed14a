//! Captures: pcap and pcapng in, pcap out, and what of a capture a card can carry.

mod read;
mod write;

pub use read::read;
pub use write::CaptureWriter;

/// Shortest frame that a card takes from a driver, without FCS.
pub const MIN_FRAME: usize = 17;
/// Shortest frame on a wire, without FCS: a card pads to it.
pub const MIN_WIRE: usize = 60;
/// Longest frame that an XL710 carries, without FCS.
pub const MAX_FRAME: usize = 9728;

/// Records that no card carries, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unfit {
    /// Shorter than 17 bytes.
    pub too_short: u64,
    /// Longer than 9728 bytes.
    pub too_long: u64,
    /// The capture holds less of it than was on the wire.
    pub truncated: u64,
}

impl Unfit {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.too_short + self.too_long + self.truncated
    }

    /// Adds the counts of another.
    pub fn add(&mut self, other: &Self) {
        self.too_short += other.too_short;
        self.too_long += other.too_long;
        self.truncated += other.truncated;
    }
}

/// The frames of a capture that a card carries, padded as it would, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capture {
    /// Frames of 60 to 9728 bytes.
    pub frames: Vec<Box<[u8]>>,
    /// What was left out.
    pub unfit: Unfit,
}

impl Capture {
    /// Takes in a record of `len` bytes on the wire.
    fn record(&mut self, data: &[u8], len: u32) {
        match data.len() {
            _ if (data.len() as u64) < u64::from(len) => self.unfit.truncated += 1,
            0..MIN_FRAME => self.unfit.too_short += 1,
            MIN_FRAME..=MAX_FRAME => {
                let mut frame = data.to_vec();
                frame.resize(frame.len().max(MIN_WIRE), 0);
                self.frames.push(frame.into_boxed_slice());
            }
            _ => self.unfit.too_long += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_card_carries_is_kept() {
        let mut capture = Capture::default();
        for len in [0, 16, 17, 59, 60, 61, 9728, 9729, 65_589] {
            capture.record(&vec![7; len], len as u32);
        }
        capture.record(&[7; 60], 61);
        let lengths: Vec<usize> = capture.frames.iter().map(|frame| frame.len()).collect();
        assert_eq!(lengths, [60, 60, 60, 61, 9728]);
        assert_eq!(capture.frames[0][16..18], [7, 0]);
        assert_eq!(capture.unfit, Unfit { too_short: 2, too_long: 2, truncated: 1 });
    }
}
