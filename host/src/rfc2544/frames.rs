//! Test frames: UDP over IPv4 with a stamp that tells trial, lane and number, which no forwarding mode touches.

use crate::traffic::sized;

/// The shortest frame, without FCS, has 18 bytes behind its UDP header.
const STAMP_AT: usize = 42;
/// `BW`, lane and trial in 2 bytes each, and the number in 8.
const STAMP: usize = 14;
const MAGIC: [u8; 2] = *b"BW";

/// What a frame says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The lane that it was sent on.
    pub lane: u16,
    /// The trial that it belongs to.
    pub trial: u16,
    /// Its number in the trial, from 0.
    pub number: u64,
}

impl Stamp {
    /// The stamp of a frame, if it has one.
    pub fn of(frame: &[u8]) -> Option<Self> {
        let stamp: &[u8; STAMP] = frame.get(STAMP_AT..STAMP_AT + STAMP)?.try_into().ok()?;
        let [m0, m1, l0, l1, t0, t1, number @ ..] = *stamp;
        ([m0, m1] == MAGIC).then(|| Self {
            lane: u16::from_be_bytes([l0, l1]),
            trial: u16::from_be_bytes([t0, t1]),
            number: u64::from_be_bytes(number),
        })
    }

    /// Writes it into a frame.
    fn write(self, frame: &mut [u8]) {
        let Some(place) = frame.get_mut(STAMP_AT..STAMP_AT + STAMP) else { return };
        let (magic, rest) = place.split_at_mut(2);
        let (lane, rest) = rest.split_at_mut(2);
        let (trial, number) = rest.split_at_mut(2);
        magic.copy_from_slice(&MAGIC);
        lane.copy_from_slice(&self.lane.to_be_bytes());
        trial.copy_from_slice(&self.trial.to_be_bytes());
        number.copy_from_slice(&self.number.to_be_bytes());
    }
}

/// Frames of one size for a port: as many flows as a set has, one after the other.
pub struct Stream {
    flows: Vec<Box<[u8]>>,
}

impl Stream {
    /// Frames of `len` bytes without FCS, from 60 on, for port `port`.
    pub fn new(port: usize, len: usize) -> Self {
        let set = sized(port, len);
        let flows = (0..set.len() as u32).filter_map(|index| set.get(index));
        // No sum over what is written anew into each frame: RFC 768 has 0 for none.
        let without_sum = flows.map(|frame| {
            let mut frame: Box<[u8]> = frame.into();
            if let Some(sum) = frame.get_mut(40..42) {
                sum.fill(0);
            }
            frame
        });
        Self { flows: without_sum.collect() }
    }

    /// The frame with that stamp.
    pub fn frame(&mut self, stamp: Stamp) -> &[u8] {
        let flow = (stamp.number % self.flows.len().max(1) as u64) as usize;
        match self.flows.get_mut(flow) {
            Some(frame) => {
                stamp.write(frame);
                frame
            }
            None => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_tells_its_stamp_and_nothing_else_does() {
        let mut stream = Stream::new(0, 60);
        for stamp in [
            Stamp { lane: 0, trial: 1, number: 0 },
            Stamp { lane: 0x1234, trial: 0xfedc, number: 0x0102_0304_0506_0708 },
        ] {
            let frame = stream.frame(stamp).to_vec();
            assert_eq!((frame.len(), Stamp::of(&frame)), (60, Some(stamp)));
        }
        assert_eq!(
            stream.frame(Stamp { lane: 1, trial: 2, number: 3 })[42..56],
            *b"BW\0\x01\0\x02\0\0\0\0\0\0\0\x03"
        );
        assert_eq!(Stamp::of(&[0; 60]), None);
        assert_eq!(Stamp::of(&stream.frame(Stamp { lane: 0, trial: 0, number: 0 })[..55]), None);
    }

    #[test]
    fn neighbours_are_other_flows_without_a_udp_checksum() {
        let mut stream = Stream::new(1, 124);
        let mut frame = |number| stream.frame(Stamp { lane: 0, trial: 0, number }).to_vec();
        let (a, b) = (frame(0), frame(1));
        assert_ne!(a[26..36], b[26..36]);
        assert_eq!((a.len(), &a[40..42], a[23]), (124, &[0, 0][..], 17));
    }
}
