//! Words in memory that another program writes at any time: each is read once, whole, and checked by whoever read it.

use core::sync::atomic::{AtomicU16, Ordering};

use crate::DmaMemory;

/// A 16-bit word, such as a ring's index.
pub struct SharedU16 {
    memory: DmaMemory,
    /// Even, and inside of the memory with the byte behind it.
    offset: usize,
}

impl SharedU16 {
    /// The word at `offset`; `None` outside of the memory, and where it is not aligned.
    pub fn new(memory: &DmaMemory, offset: usize) -> Option<Self> {
        let at = memory.bytes_at(offset, size_of::<u16>()).ok()?;
        at.cast::<u16>().is_aligned().then(|| Self { memory: memory.clone(), offset })
    }

    /// Its value; what the other side wrote before it is seen by reads after this one.
    #[inline]
    pub fn load(&self) -> u16 {
        self.word().load(Ordering::Acquire)
    }

    /// Sets it; whoever sees the value sees what was written before.
    #[inline]
    pub fn store(&self, value: u16) {
        self.word().store(value, Ordering::Release);
    }

    #[inline]
    fn word(&self) -> &AtomicU16 {
        // SAFETY: inside of the mapping, which lives as long as `self.memory`, and aligned: both were looked at in `new`.
        // An atomic may be written by others, here or in another program.
        unsafe { AtomicU16::from_ptr(self.memory.base().as_ptr().add(self.offset).cast()) }
    }
}

/// What was stored before this is seen by others before what is loaded behind it is read: for "publish, then look whether
/// the other side sleeps", which stores and loads alone don't keep in order.
#[inline]
pub fn full_fence() {
    core::sync::atomic::fence(Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Machine;
    use crate::hosted::{FakeBar, HostedMachine};

    #[test]
    fn a_word_lies_inside_and_aligned_or_is_none() {
        let memory = HostedMachine::<FakeBar>::new(4096).unwrap().dma_alloc(128, 64).unwrap();
        for (offset, good) in [(0, true), (64, true), (126, true), (127, false), (128, false), (63, false)] {
            assert_eq!(SharedU16::new(&memory, offset).is_some(), good, "{offset}");
        }
        SharedU16::new(&memory, 6).unwrap().store(0xa55a);
        assert_eq!(memory.load::<[u8; 4]>(5).unwrap(), [0, 0x5a, 0xa5, 0]);
    }
}
