//! Bytes in order, to and from somebody outside of the machine.

/// A channel of bytes that never waits.
///
/// The other side may not be there, or go and come back, at any time; bytes on their way are lost then, and what is written
/// while nobody is there may be lost, too. So whoever speaks over it needs records that can be found again.
pub trait ByteChannel {
    /// Takes what has arrived, at most `to.len()` bytes; returns how many.
    fn try_read(&mut self, to: &mut [u8]) -> usize;

    /// Hands over the beginning of `from`; returns how many bytes were taken. 0 when there is no room now.
    fn try_write(&mut self, from: &[u8]) -> usize;

    /// How often the other side has come, as far as the channel knows. One that can't know stays at 1.
    fn openings(&mut self) -> u32 {
        1
    }

    /// The other side is there, as far as the channel knows.
    fn is_open(&mut self) -> bool {
        true
    }
}
