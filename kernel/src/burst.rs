//! A burst: up to 512 packets between a receive and a transmit, as a structure of arrays that stays in L1.

use crate::packet::{Meta, Packet};
use crate::pool::Buffers;

/// Entries that a burst holds.
pub const BURST_MAX: usize = 512;

/// Packets in order, each owned by the burst until it is taken.
#[repr(C, align(64))]
pub struct Burst {
    buffers: [u32; BURST_MAX],
    metas: [Meta; BURST_MAX],
    head: usize,
    tail: usize,
}

impl Default for Burst {
    fn default() -> Self {
        Self::new()
    }
}

impl Burst {
    /// An empty burst.
    pub const fn new() -> Self {
        Self { buffers: [0; BURST_MAX], metas: [Meta { lo: 0, hi: 0 }; BURST_MAX], head: 0, tail: 0 }
    }

    /// Entries: buffers, not frames.
    pub const fn len(&self) -> usize {
        self.tail - self.head
    }

    /// No entries.
    pub const fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// Entries that can be added.
    pub const fn room(&self) -> usize {
        BURST_MAX - self.len()
    }

    /// Whole frames.
    pub fn frames(&self) -> usize {
        self.metas().iter().filter(|meta| meta.is_last()).count()
    }

    /// Buffers of the entries: byte offsets in the core's packet memory.
    pub fn buffers(&self) -> &[u32] {
        self.buffers.get(self.head..self.tail).unwrap_or_default()
    }

    /// Metadata of the entries.
    pub fn metas(&self) -> &[Meta] {
        self.metas.get(self.head..self.tail).unwrap_or_default()
    }

    /// Buffers, and metadata that may be changed.
    pub fn entries_mut(&mut self) -> (&[u32], &mut [Meta]) {
        let range = self.head..self.tail;
        (self.buffers.get(range.clone()).unwrap_or_default(), self.metas.get_mut(range).unwrap_or_default())
    }

    /// Lets `fill` write entries behind the last one; it returns how many it wrote, from the first on.
    ///
    /// Both slices have [`Burst::room`] entries. Ownership of the buffers written passes to the burst.
    pub fn append(&mut self, fill: impl FnOnce(&mut [u32], &mut [Meta]) -> usize) -> usize {
        self.close_up();
        let (buffers, metas) = (&mut self.buffers[self.tail..], &mut self.metas[self.tail..]);
        let room = buffers.len();
        let added = fill(buffers, metas).min(room);
        self.tail += added;
        added
    }

    /// Adds a packet, or hands it back when the burst is full.
    ///
    /// # Errors
    /// The packet.
    pub fn push(&mut self, packet: Packet) -> Result<(), Packet> {
        if self.room() == 0 {
            return Err(packet);
        }
        self.append(|buffers, metas| {
            buffers[0] = packet.buffer;
            metas[0] = packet.meta;
            1
        });
        Ok(())
    }

    /// Takes the first entry.
    pub fn pop(&mut self) -> Option<Packet> {
        let packet = Packet { buffer: *self.buffers().first()?, meta: *self.metas().first()? };
        self.release(1);
        Some(packet)
    }

    /// The first `entries` entries have a new owner, who has read them from [`Burst::buffers`].
    pub fn release(&mut self, entries: usize) {
        self.head += entries.min(self.len());
        if self.is_empty() {
            (self.head, self.tail) = (0, 0);
        }
    }

    /// Gives every buffer back; returns how many whole frames that were.
    pub fn give_back(&mut self, buffers: &mut impl Buffers) -> usize {
        let frames = self.frames();
        buffers.give(self.buffers());
        self.release(self.len());
        frames
    }

    /// Moves the entries to the front when there is no room behind them.
    fn close_up(&mut self) {
        if self.tail == BURST_MAX && self.head > 0 {
            self.buffers.copy_within(self.head..self.tail, 0);
            self.metas.copy_within(self.head..self.tail, 0);
            (self.head, self.tail) = (0, self.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(buffer: u32) -> Packet {
        Packet { buffer, meta: Meta::frame(60) }
    }

    #[test]
    fn full_burst_hands_the_packet_back() {
        let mut burst = Burst::new();
        for i in 0..BURST_MAX as u32 {
            assert_eq!(burst.push(packet(i)), Ok(()));
        }
        assert_eq!(burst.push(packet(999)), Err(packet(999)));
        assert_eq!((burst.len(), burst.frames(), burst.room()), (512, 512, 0));
    }

    #[test]
    fn order_is_kept_over_release_and_close_up() {
        let mut burst = Burst::new();
        for i in 0..BURST_MAX as u32 {
            burst.push(packet(i)).unwrap();
        }
        burst.release(500);
        for i in 512..1012 {
            assert_eq!(burst.push(packet(i)), Ok(()), "{i}");
        }
        for i in 500..1012 {
            assert_eq!(burst.pop(), Some(packet(i)));
        }
        assert_eq!(burst.pop(), None);
    }

    #[test]
    fn append_counts_no_more_than_there_is_room_for() {
        let mut burst = Burst::new();
        burst.push(packet(7)).unwrap();
        assert_eq!(burst.append(|buffers, metas| buffers.len() + metas.len()), 511);
    }

    #[test]
    fn frames_are_counted_by_their_last_buffer() {
        let mut burst = Burst::new();
        for meta in [Meta::segment(2048), Meta::segment(2048), Meta::frame(4), Meta::frame(60)] {
            burst.push(Packet { buffer: 0, meta }).unwrap();
        }
        assert_eq!((burst.len(), burst.frames()), (4, 2));
    }
}
