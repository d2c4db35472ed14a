//! What can go wrong.

use core::fmt;

use hal::{DmaError, Timeout};

/// A step that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// The reset did not end.
    Reset(Timeout),
    /// RAH 0 holds no valid address.
    NoAddress(u32),
    /// The port has no such queue: there is only 0.
    Queue(u16),
    /// A ring of so many descriptors can't be had: a multiple of 32, at most 4096.
    RingSize(u16),
    /// A buffer takes so many bytes, not 2048.
    BufferRoom(u32),
    /// No memory for a ring.
    Memory(DmaError),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reset(timeout) => write!(f, "reset: CTRL.RST is still set after {:?}", timeout.limit),
            Self::NoAddress(rah) => write!(f, "RAH 0 {rah:#x}: no valid address"),
            Self::Queue(queue) => write!(f, "queue {queue}: the card has queue 0 alone"),
            Self::RingSize(count) => {
                write!(f, "ring of {count} descriptors: a multiple of 32 to 4096 is needed")
            }
            Self::BufferRoom(room) => write!(f, "buffers of {room} bytes: the card needs 2048"),
            Self::Memory(error) => write!(f, "ring: {error}"),
        }
    }
}

impl core::error::Error for Error {}

/// What is wrong with a port that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// STATUS reads as all ones.
    Gone,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("STATUS 0xffffffff: the card is gone"),
        }
    }
}
