//! Words in memory that another side reads and writes at the same time: a device, or a process.

use core::sync::atomic::{Ordering, fence};

use crate::dma::Plain;
use crate::{DmaMemory, OutOfBounds};

/// Words that are read and written in one piece: `u8`, `u16`, `u32` and `u64`.
pub trait Word: Plain {}
impl Word for u8 {}
impl Word for u16 {}
impl Word for u32 {}
impl Word for u64 {}

impl DmaMemory {
    /// Reads the word at `offset`, whole and anew at each call. Reads after it see what the other side wrote before the
    /// word.
    ///
    /// # Errors
    /// [`OutOfBounds`] when it does not lie inside, or is not aligned to its size.
    #[inline]
    pub fn read_word<T: Word>(&self, offset: usize) -> Result<T, OutOfBounds> {
        let at = self.word_at::<T>(offset)?;
        // SAFETY: inside of the mapping and aligned (checked above), and any bytes are a `T`.
        let value = unsafe { at.read_volatile() };
        fence(Ordering::Acquire);
        Ok(value)
    }

    /// Writes the word at `offset`, whole. The other side sees it after everything that was written before.
    ///
    /// # Errors
    /// [`OutOfBounds`] when it does not lie inside, or is not aligned to its size; then nothing is written.
    #[inline]
    pub fn write_word<T: Word>(&self, offset: usize, value: T) -> Result<(), OutOfBounds> {
        let at = self.word_at::<T>(offset)?;
        fence(Ordering::Release);
        // SAFETY: inside of the mapping and aligned (checked above), and nobody holds a reference to it.
        unsafe { at.write_volatile(value) };
        Ok(())
    }

    #[inline]
    fn word_at<T: Word>(&self, offset: usize) -> Result<*mut T, OutOfBounds> {
        let at = self.bytes_at(offset, size_of::<T>())?.cast::<T>();
        if at.is_aligned() { Ok(at) } else { Err(OutOfBounds { offset, len: size_of::<T>() }) }
    }
}

#[cfg(test)]
mod tests {
    use crate::hosted::{FakeBar, HostedMachine};
    use crate::{Machine, OutOfBounds};

    #[test]
    fn words_lie_inside_and_are_aligned() {
        let memory = HostedMachine::<FakeBar>::new(4096).unwrap().dma_alloc(16, 16).unwrap();
        memory.write_word(6, 0xabcd_u16).unwrap();
        assert_eq!(memory.read_word::<u16>(6), Ok(0xabcd));
        assert_eq!(memory.read_word::<u32>(4), Ok(0xabcd_0000));
        assert_eq!(memory.read_word::<u32>(6), Err(OutOfBounds { offset: 6, len: 4 }));
        assert_eq!(memory.write_word(15, 1_u16), Err(OutOfBounds { offset: 15, len: 2 }));
        assert_eq!(memory.read_word::<u64>(16), Err(OutOfBounds { offset: 16, len: 8 }));
    }
}
