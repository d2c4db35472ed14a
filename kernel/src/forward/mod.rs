//! Forwarding modes: what happens to a burst between receive and transmit. Names and behaviour are testpmd's.

use hal::DmaMemory;

use crate::burst::Burst;
use crate::drops::{DropReason, Drops};
use crate::pool::Buffers;
use crate::port::{MacAddr, Touch};

pub mod checksum;
pub mod csum;
#[cfg(test)]
mod examples;
pub mod five_tuple;
pub mod flowgen;
mod forwarder;
pub mod frame;
pub mod icmp_echo;
pub mod ieee1588;
pub mod layers;
mod mode;
pub mod noisy;
pub mod options;
pub mod random;
pub mod scalar;
pub mod segments;
pub mod txonly;
pub mod vector;

pub use forwarder::{CoreShare, Forwarder};
pub use mode::Mode;
pub use options::ModeOptions;
pub use txonly::TxOnly;

/// When a mode is asked to do its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// When frames have been received.
    Frames,
    /// At each poll, with what has been received, which may be nothing.
    Polls,
    /// At each poll; nothing is received.
    Nothing,
}

/// What becomes of a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is sent. A frame that finds no room is dropped under [`DropReason::TxFull`].
    Send,
    /// It was made by the mode, and is sent. A frame that finds no room is none yet: its buffers go back, and
    /// [`ForwardMode::unsent`] tells the mode.
    SendMade,
    /// All of its frames are dropped for this reason.
    Drop(DropReason),
}

/// Addresses for the port that sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Route {
    /// The port's own.
    pub mac: MacAddr,
    /// Whoever is at the other end of its cable (`--eth-peer`).
    pub peer: MacAddr,
}

impl Route {
    /// The first twelve bytes of a frame that is sent by `mac`, and four of no meaning.
    #[inline]
    pub const fn addresses(&self) -> [u8; 16] {
        let ([a, b, c, d, e, f], [g, h, i, j, k, l]) = (self.peer.0, self.mac.0);
        [a, b, c, d, e, f, g, h, i, j, k, l, 0, 0, 0, 0]
    }
}

/// What a mode works with, beside the burst.
pub struct Work<'a> {
    /// Packet memory: buffers' offsets count in it.
    pub memory: &'a DmaMemory,
    /// Addresses for the port that sends.
    pub route: &'a Route,
    /// Which of the core's streams this is, from 0.
    pub stream: usize,
    /// Most frames of a poll (`--burst`).
    pub limit: usize,
    /// The core's buffers.
    pub buffers: &'a mut dyn Buffers,
    /// Counts of the stream's drops.
    pub drops: &'a mut Drops,
}

impl Work<'_> {
    /// Drops the whole burst.
    pub fn drop_all(&mut self, burst: &mut Burst, reason: DropReason) {
        if !burst.is_empty() {
            self.drops.add(reason, burst.give_back(&mut *self.buffers) as u64);
        }
    }

    /// Drops the frames for which `reason` has one; see [`Burst::sift`].
    pub fn sift(
        &mut self,
        burst: &mut Burst,
        reason: impl FnMut(&[u32], &[crate::Meta]) -> Option<DropReason>,
    ) {
        burst.sift(&mut *self.buffers, self.drops, reason);
    }
}

/// A forwarding mode; one core runs it.
///
/// Packet memory is reached through [`Work::memory`] by the offsets in the burst. Lengths in metadata are the device's;
/// lengths in packets are nobody's.
///
/// A frame that came in leaves through the burst, or is counted in [`Work::drops`] and its buffers given back. A mode may
/// keep frames for later polls of the same stream; after [`ForwardMode::finish`] it puts them into the bursts that follow.
pub trait ForwardMode {
    /// Its name.
    fn name(&self) -> &'static str;

    /// When it works.
    fn input(&self) -> Input {
        Input::Frames
    }

    /// What the mode does to a frame of a stream with this `route`, if it does the same to each and nothing else: then it
    /// may be done on the way from a receive to a transmit queue, without [`ForwardMode::forward`].
    fn touch(&self, route: &Route) -> Option<Touch> {
        let _ = route;
        None
    }

    /// Changes the frames of `burst` in place, takes some out, puts others in.
    fn forward(&mut self, work: &mut Work<'_>, burst: &mut Burst) -> Verdict;

    /// So many frames at the end of the last [`Verdict::SendMade`] were not sent.
    fn unsent(&mut self, frames: usize) {
        let _ = frames;
    }

    /// The end has come: from now on nothing is made, and what was kept is handed out.
    fn finish(&mut self) {}
}
