//! A queue of packets: first in, first out.

use hal::DmaMemory;

use crate::burst::{BURST_MAX, Burst};
use crate::packet::{Meta, Packet};
use crate::pool::Buffers;

/// A place of the queue: the buffer, and the two words of its metadata.
type Place = [u64; 3];

/// A queue for so many buffers, and a burst more for a moment.
pub struct Fifo {
    /// A buffer and its metadata in each place; those in the queue are its own.
    memory: DmaMemory,
    capacity: usize,
    places: usize,
    first: usize,
    len: usize,
}

impl Fifo {
    /// Bytes of memory that a queue for `capacity` buffers lies in.
    pub const fn bytes(capacity: usize) -> usize {
        (capacity + BURST_MAX) * size_of::<Place>()
    }

    /// An empty queue in `memory`, of [`Fifo::bytes`]; in less it has room for less.
    pub fn new(memory: DmaMemory) -> Self {
        let places = memory.len() / size_of::<Place>();
        Self { memory, capacity: places.saturating_sub(BURST_MAX), places, first: 0, len: 0 }
    }

    /// Buffers in it.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Nothing is in it.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Buffers that it has room for.
    pub const fn room(&self) -> usize {
        self.capacity.saturating_sub(self.len)
    }

    /// More is in it than it has room for.
    pub const fn is_over_full(&self) -> bool {
        self.len > self.capacity
    }

    /// Takes over the whole burst. There is room while the queue is not over-full before.
    pub fn put(&mut self, burst: &mut Burst) {
        while self.len < self.places {
            let Some(Packet { buffer, meta }) = burst.pop() else { return };
            let at = (self.first + self.len) % self.places * size_of::<Place>();
            // Inside, as all places are.
            let _ = self.memory.store(at, [buffer.into(), meta.lo, meta.hi]);
            self.len += 1;
        }
    }

    /// Moves up to `frames` whole frames to the burst; returns how many.
    pub fn take(&mut self, frames: usize, burst: &mut Burst) -> usize {
        let mut taken = 0;
        while taken < frames {
            let Some(buffers) = self.first_frame().filter(|buffers| *buffers <= burst.room()) else { break };
            for _ in 0..buffers {
                if let Some(packet) = self.place(0)
                    && burst.push(packet).is_ok()
                {
                    self.first = (self.first + 1) % self.places;
                    self.len -= 1;
                }
            }
            taken += 1;
        }
        taken
    }

    /// Gives the buffers of the last frame back; `false` when there is none.
    pub fn give_back_last(&mut self, buffers: &mut (impl Buffers + ?Sized)) -> bool {
        let before = self.len;
        while let Some(packet) = self.len.checked_sub(1).and_then(|last| self.place(last)) {
            // The end of the frame before this one.
            if packet.meta.is_last() && self.len < before {
                break;
            }
            buffers.give(&[packet.buffer]);
            self.len -= 1;
        }
        self.len < before
    }

    fn place(&self, index: usize) -> Option<Packet> {
        let at = (self.first + index) % self.places * size_of::<Place>();
        let [buffer, lo, hi]: Place = self.memory.load(at).ok()?;
        Some(Packet { buffer: buffer as u32, meta: Meta { lo, hi } })
    }

    /// Buffers of the first frame; `None` when no whole one is here.
    fn first_frame(&self) -> Option<usize> {
        let is_last = |index: &usize| self.place(*index).is_some_and(|packet| packet.meta.is_last());
        (0..self.len).find(is_last).map(|last| last + 1)
    }
}
