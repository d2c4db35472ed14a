//! One direction: frames that a port receives, and which of them have come back.

use super::UnderWay;
use super::frames::FrameSet;

/// Counts of a direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Frames put on the wire toward the machine.
    pub offered: u64,
    /// Frames back on the right port.
    pub returned: u64,
    /// Frames that should not be there, or have a byte that they should not have.
    pub wrong: u64,
    /// Frames that the machine made.
    pub generated: u64,
    /// Bytes of the frames that came back or were made.
    pub bytes: u64,
}

impl Totals {
    /// The sum with another's.
    pub fn plus(self, other: &Self) -> Self {
        Self {
            offered: self.offered + other.offered,
            returned: self.returned + other.returned,
            wrong: self.wrong + other.wrong,
            generated: self.generated + other.generated,
            bytes: self.bytes + other.bytes,
        }
    }
}

/// A source, and the frames of it that are under way.
pub struct Direction {
    frames: Option<FrameSet>,
    next: u32,
    repeat: bool,
    in_order: bool,
    under_way: UnderWay,
    totals: Totals,
    /// Frames that the port itself sent, whatever they were.
    pub(super) sent_by_port: u64,
}

/// What a frame that came back is.
#[derive(Debug, PartialEq, Eq)]
pub enum Back {
    /// The oldest frame under way, or one behind it: where they come in order, those in between are not expected any
    /// more.
    Right,
    /// Not as it should be.
    Wrong,
}

impl Direction {
    /// A direction with these frames, sent once or again and again; they come back in order or in any.
    pub fn new(frames: Option<FrameSet>, repeat: bool, in_order: bool) -> Self {
        let frames = frames.filter(|frames| !frames.is_empty());
        let (next, under_way, totals) = Default::default();
        Self { frames, next, repeat, in_order, under_way, totals, sent_by_port: 0 }
    }

    /// The frames.
    pub fn frames(&self) -> Option<&FrameSet> {
        self.frames.as_ref()
    }

    /// Counts.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Frames under way.
    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// Nothing is under way any more; returns how many frames were.
    pub fn give_up(&mut self) -> usize {
        let given_up = self.under_way.len();
        self.under_way.clear();
        given_up
    }

    /// Frames of a set that is sent once and has not been, so far.
    pub fn unsent(&self) -> u64 {
        let len = self.frames.as_ref().filter(|_| !self.repeat).map_or(0, FrameSet::len);
        (len as u64).saturating_sub(u64::from(self.next))
    }

    /// Everything was sent, and nothing is under way.
    pub fn finished(&self) -> bool {
        let sent =
            self.frames.as_ref().is_none_or(|frames| !self.repeat && self.next as usize >= frames.len());
        sent && self.under_way.is_empty()
    }

    /// The index of the next frame, if it may be sent; it is under way from now on, unless it will not come back.
    pub fn send(&mut self, in_flight: usize, returns: impl Fn(&[u8]) -> bool) -> Option<u32> {
        let len = self.frames.as_ref()?.len();
        if self.under_way.len() >= in_flight {
            return None;
        }
        if self.next as usize >= len {
            if !self.repeat {
                return None;
            }
            self.next = 0;
        }
        let index = self.next;
        self.next += 1;
        self.totals.offered += 1;
        if self.frames.as_ref().and_then(|frames| frames.get(index)).is_some_and(returns) {
            self.under_way.push_back(index);
        }
        Some(index)
    }

    /// A frame came back; `is_right` compares it with one that was sent.
    pub fn back(&mut self, len: usize, is_right: impl Fn(&[u8]) -> bool) -> Back {
        let right =
            |index: &u32| self.frames.as_ref().and_then(|frames| frames.get(*index)).is_some_and(&is_right);
        self.totals.bytes += len as u64;
        match self.under_way.iter().position(right) {
            Some(place) => {
                if self.in_order {
                    self.under_way.drain(..=place);
                } else {
                    self.under_way.remove(place);
                }
                self.totals.returned += 1;
                Back::Right
            }
            None => {
                // It takes nobody's place: what it may once have been is lost.
                self.totals.wrong += 1;
                Back::Wrong
            }
        }
    }

    /// The machine made a frame.
    pub fn generated(&mut self, len: usize, right: bool) {
        self.totals.generated += 1;
        self.totals.bytes += len as u64;
        self.totals.wrong += u64::from(!right);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn direction(count: u8, repeat: bool) -> Direction {
        let frames = (0..count).map(|n| vec![n; 60].into_boxed_slice()).collect();
        Direction::new(Some(FrameSet::new(frames)), repeat, true)
    }

    fn back(direction: &mut Direction, n: u8) -> Back {
        direction.back(60, |sent| sent == [n; 60])
    }

    #[test]
    fn no_more_than_may_be_under_way() {
        let mut direction = direction(10, false);
        assert_eq!(
            (0..5).map(|_| direction.send(3, |_| true)).collect::<Vec<_>>(),
            [Some(0), Some(1), Some(2), None, None]
        );
        assert_eq!(back(&mut direction, 0), Back::Right);
        assert_eq!(direction.send(3, |_| true), Some(3));
        assert_eq!((direction.under_way(), direction.finished()), (3, false));
    }

    #[test]
    fn a_set_ends_or_begins_again() {
        let mut once = direction(2, false);
        assert_eq!((0..3).map(|_| once.send(9, |_| true)).collect::<Vec<_>>(), [Some(0), Some(1), None]);
        assert!(!once.finished());
        back(&mut once, 0);
        back(&mut once, 1);
        assert!(once.finished());
        let mut again = direction(2, true);
        assert_eq!((0..3).map(|_| again.send(9, |_| true)).collect::<Vec<_>>(), [Some(0), Some(1), Some(0)]);
        assert!(Direction::new(None, true, true).finished());
    }

    #[test]
    fn lost_wrong_and_surplus_frames_are_told_apart() {
        let mut direction = direction(10, false);
        (0..6).for_each(|_| assert!(direction.send(9, |_| true).is_some()));
        assert_eq!(back(&mut direction, 0), Back::Right);
        // 1 and 2 are lost on the way.
        assert_eq!(back(&mut direction, 3), Back::Right);
        // 4 comes back changed.
        assert_eq!(back(&mut direction, 99), Back::Wrong);
        assert_eq!(back(&mut direction, 5), Back::Right);
        // Nothing is under way, and yet something comes.
        assert_eq!(back(&mut direction, 5), Back::Wrong);
        let totals = direction.totals();
        assert_eq!((totals.offered, totals.returned, totals.wrong), (6, 3, 2));
    }

    #[test]
    fn out_of_order_nothing_is_given_up() {
        let mut direction = direction(4, false);
        direction.in_order = false;
        (0..4).for_each(|_| assert!(direction.send(9, |_| true).is_some()));
        for n in [3, 0, 2] {
            assert_eq!(back(&mut direction, n), Back::Right);
        }
        assert_eq!(back(&mut direction, 3), Back::Wrong);
        assert_eq!((direction.under_way(), direction.finished()), (1, false));
    }

    #[test]
    fn what_is_given_up_makes_room() {
        let mut direction = direction(3, false);
        assert_eq!((0..3).filter_map(|_| direction.send(2, |_| true)).count(), 2);
        assert_eq!((direction.give_up(), direction.give_up()), (2, 0));
        assert_eq!((direction.send(2, |_| true), direction.under_way()), (Some(2), 1));
    }

    #[test]
    fn what_does_not_come_back_is_not_waited_for() {
        let mut direction = direction(3, false);
        (0..3).for_each(|_| assert!(direction.send(1, |_| false).is_some()));
        assert!(direction.finished());
    }
}
