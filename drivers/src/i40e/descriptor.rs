//! A descriptor as somebody who looks for a fault wants to see it.

use core::fmt;

/// Whose a descriptor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The driver's: nothing is in it.
    Free,
    /// The card's, which has not reported it.
    Card,
    /// Reported by the card, not yet fetched by the driver.
    Done,
}

impl State {
    const fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Card => "card",
            Self::Done => "done",
        }
    }
}

/// One descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptor {
    /// Its place in the ring.
    pub index: usize,
    /// Whose it is.
    pub state: State,
    /// Its buffer's offset in the packet memory.
    pub buffer: Option<u32>,
    /// Its quadwords; the last two only with receive descriptors of 32 bytes, otherwise 0.
    pub words: [u64; 4],
}

impl fmt::Display for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d] = self.words;
        write!(f, "{}: {}", self.index, self.state.name())?;
        if let Some(buffer) = self.buffer {
            write!(f, " buffer {buffer:#x}")?;
        }
        write!(f, " {a:#018x} {b:#018x} {c:#018x} {d:#018x}")
    }
}
