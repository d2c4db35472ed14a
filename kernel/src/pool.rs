//! Packet buffers of one core: a stack of offsets, no lock, no atomic.

use alloc::boxed::Box;
use alloc::vec::Vec;

use hal::DmaMemory;

/// Buffers that move at once between a ring and a pool. Rings are armed and cleaned in aligned blocks of this
/// many, so a block never wraps and has no remainder.
pub const BLOCK: usize = 32;

/// Where buffers come from and go to.
pub trait Buffers {
    /// One buffer.
    fn take(&mut self) -> Option<u32>;
    /// A whole block, or nothing: then `block` is unchanged.
    fn take_block(&mut self, block: &mut [u32; BLOCK]) -> bool;
    /// Fills `to` from its front as far as there are buffers; returns how many.
    fn take_many(&mut self, to: &mut [u32]) -> usize {
        let mut taken = 0;
        for to in to {
            let Some(buffer) = self.take() else { break };
            *to = buffer;
            taken += 1;
        }
        taken
    }
    /// Takes buffers back.
    fn give(&mut self, buffers: &[u32]);
}

/// How a packet memory is cut into buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferLayout {
    /// Bytes from one buffer to the next.
    pub stride: u32,
    /// Bytes before a buffer's offset that belong to it, for headers to be put in front.
    pub headroom: u32,
    /// Bytes from the offset on that a device may fill.
    pub room: u32,
}

impl BufferLayout {
    /// 2048 bytes behind 128 bytes of headroom, as testpmd's `--mbuf-size=2176`.
    ///
    /// The distance is not a multiple of 4096 nor a divisor of it: buffers at a distance of 2048 put all
    /// packet headers in two sets of the L1 cache.
    pub const DEFAULT: Self = Self { stride: 2176, headroom: 128, room: 2048 };

    /// Bytes that `count` buffers need.
    pub const fn bytes(self, count: usize) -> usize {
        self.stride as usize * count
    }
}

/// The buffers of one core that are in nobody's hands.
pub struct Pool {
    memory: DmaMemory,
    layout: BufferLayout,
    free: Box<[u32]>,
    available: usize,
    excess: u64,
}

impl Pool {
    /// All buffers that fit into `memory`, of which at most 4 GiB are used.
    pub fn new(memory: DmaMemory, layout: BufferLayout) -> Self {
        let bytes = (memory.len() as u64).min(u64::from(u32::MAX));
        let count = bytes / u64::from(layout.stride.max(1));
        let free: Vec<u32> = (0..count as u32).map(|slot| slot * layout.stride + layout.headroom).collect();
        Self { memory, layout, available: free.len(), free: free.into_boxed_slice(), excess: 0 }
    }

    /// The memory that all offsets count from.
    pub fn memory(&self) -> &DmaMemory {
        &self.memory
    }

    /// How it is cut.
    pub fn layout(&self) -> BufferLayout {
        self.layout
    }

    /// Buffers in the pool now.
    pub fn available(&self) -> usize {
        self.available
    }

    /// Buffers that were made.
    pub fn capacity(&self) -> usize {
        self.free.len()
    }

    /// Buffers that came back when all were there already: 0 unless something gave a buffer back twice.
    pub fn excess(&self) -> u64 {
        self.excess
    }
}

impl Buffers for Pool {
    #[inline]
    fn take(&mut self) -> Option<u32> {
        let top = self.available.checked_sub(1)?;
        let buffer = *self.free.get(top)?;
        self.available = top;
        Some(buffer)
    }

    #[inline]
    fn take_block(&mut self, block: &mut [u32; BLOCK]) -> bool {
        let Some(bottom) = self.available.checked_sub(BLOCK) else { return false };
        let Some(top) = self.free.get(bottom..self.available) else { return false };
        block.copy_from_slice(top);
        self.available = bottom;
        true
    }

    #[inline]
    fn take_many(&mut self, to: &mut [u32]) -> usize {
        let taken = to.len().min(self.available);
        let bottom = self.available - taken;
        let (Some(top), Some(to)) = (self.free.get(bottom..self.available), to.get_mut(..taken)) else {
            return 0;
        };
        to.copy_from_slice(top);
        self.available = bottom;
        taken
    }

    #[inline]
    fn give(&mut self, buffers: &[u32]) {
        let fit = buffers.len().min(self.free.len() - self.available);
        self.excess += (buffers.len() - fit) as u64;
        let (Some(from), Some(to)) = (buffers.get(..fit), self.free.get_mut(self.available..)) else {
            return;
        };
        for (to, from) in to.iter_mut().zip(from) {
            *to = *from;
        }
        self.available += fit;
    }
}

#[cfg(test)]
mod tests {
    use hal::Machine;
    use hal::hosted::{FakeBar, HostedMachine};

    use super::*;

    fn pool(count: usize) -> Pool {
        let machine = HostedMachine::<FakeBar>::new(1 << 20).unwrap();
        let layout = BufferLayout::DEFAULT;
        Pool::new(machine.dma_alloc(layout.bytes(count), 4096).unwrap(), layout)
    }

    #[test]
    fn buffers_are_distinct_and_inside() {
        let mut pool = pool(100);
        let mut seen = std::collections::BTreeSet::new();
        while let Some(buffer) = pool.take() {
            assert!(seen.insert(buffer));
            assert!(buffer >= 128 && buffer as usize + 2048 <= pool.memory().len());
        }
        assert_eq!(seen.len(), 100);
        let gaps = seen.iter().zip(seen.iter().skip(1)).all(|(a, b)| b - a == 2176);
        assert!(gaps);
    }

    #[test]
    fn a_block_comes_whole_or_not_at_all() {
        let mut pool = pool(BLOCK + 1);
        let mut block = [7; BLOCK];
        assert!(pool.take_block(&mut block));
        assert_eq!(pool.available(), 1);
        let mut next = [7; BLOCK];
        assert!(!pool.take_block(&mut next));
        assert_eq!(next, [7; BLOCK]);
        pool.give(&block);
        assert_eq!(pool.available(), BLOCK + 1);
    }

    #[test]
    fn too_many_are_counted_and_not_taken() {
        let mut pool = pool(4);
        pool.give(&[1, 2, 3]);
        assert_eq!((pool.available(), pool.excess()), (4, 3));
    }

    #[test]
    fn an_empty_pool_says_so() {
        let mut pool = pool(0);
        assert_eq!(pool.take(), None);
        assert!(!pool.take_block(&mut [0; BLOCK]));
    }
}
