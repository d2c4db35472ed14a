//! A burst: up to 512 packets between a receive and a transmit, as a structure of arrays that stays in L1.

use crate::drops::{DropReason, Drops};
use crate::packet::{Meta, Packet};
use crate::pool::Buffers;

/// Entries that a burst holds.
pub const BURST_MAX: usize = 512;

/// Bytes of a frame that any port can be given in one piece.
pub const PLAIN: core::ops::RangeInclusive<u32> = 17..=9728;

/// Packets in order, each owned by the burst until it is taken.
#[repr(C, align(64))]
pub struct Burst {
    buffers: [u32; BURST_MAX],
    metas: [Meta; BURST_MAX],
    head: usize,
    tail: usize,
    /// All entries are plain frames.
    plain: bool,
    /// Their bytes, if they are.
    bytes: u64,
}

impl Default for Burst {
    fn default() -> Self {
        Self::new()
    }
}

impl Burst {
    /// An empty burst.
    pub const fn new() -> Self {
        Self {
            buffers: [0; BURST_MAX],
            metas: [Meta { lo: 0, hi: 0 }; BURST_MAX],
            head: 0,
            tail: 0,
            plain: true,
            bytes: 0,
        }
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

    /// The bytes of all frames, if each is plain: whole in one buffer, which is one of the core's packet memory, at the
    /// start of it, of [`PLAIN`] bytes, and nothing is asked for. Whoever looks at frames one by one need not then.
    #[inline]
    pub const fn plain(&self) -> Option<u64> {
        if self.plain { Some(self.bytes) } else { None }
    }

    /// Buffers, and metadata that may be changed. The frames are not known to be plain any more.
    pub fn entries_mut(&mut self) -> (&[u32], &mut [Meta]) {
        self.plain = false;
        let range = self.head..self.tail;
        (self.buffers.get(range.clone()).unwrap_or_default(), self.metas.get_mut(range).unwrap_or_default())
    }

    /// Lets `fill` write entries behind the last one; it returns how many it wrote, from the first on.
    ///
    /// Both slices have [`Burst::room`] entries. Ownership of the buffers written passes to the burst.
    pub fn append(&mut self, fill: impl FnOnce(&mut [u32], &mut [Meta]) -> usize) -> usize {
        let (buffers, metas) = self.spare();
        let added = fill(buffers, metas);
        self.commit(added, None)
    }

    /// Space for [`Burst::room`] entries behind the last one. What is written there belongs to nobody before
    /// [`Burst::commit`].
    #[inline]
    pub fn spare(&mut self) -> (&mut [u32], &mut [Meta]) {
        if self.tail == BURST_MAX && self.head > 0 {
            self.move_to_front();
        }
        (self.buffers.split_at_mut(self.tail).1, self.metas.split_at_mut(self.tail).1)
    }

    /// As [`Burst::spare`], the first `count` groups of `N` entries; `None` when there is no room for them.
    #[inline]
    #[allow(clippy::type_complexity)]
    pub fn spare_groups<const N: usize>(
        &mut self,
        from: usize,
        count: usize,
    ) -> Option<(&mut [[u32; N]], &mut [[Meta; N]])> {
        let start = self.tail.checked_add(from)?;
        if start > BURST_MAX || count > (BURST_MAX - start) / N {
            return None;
        }
        let range = start..start + count * N;
        let (buffers, metas) = (self.buffers.get_mut(range.clone())?, self.metas.get_mut(range)?);
        Some((buffers.as_chunks_mut().0, metas.as_chunks_mut().0))
    }

    /// Takes the first `entries` entries of [`Burst::spare`], whose buffers pass to the burst; no more than there is room
    /// for. `plain` is their bytes if all of them are plain. Returns how many they are.
    #[inline]
    pub fn commit(&mut self, entries: usize, plain: Option<u64>) -> usize {
        let added = entries.min(BURST_MAX - self.tail);
        self.tail += added;
        self.plain &= plain.is_some() || added == 0;
        self.bytes += plain.unwrap_or(0);
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
        if entries >= self.len() {
            (self.head, self.tail) = (0, 0);
            (self.plain, self.bytes) = (true, 0);
        } else if entries > 0 {
            self.head += entries;
            self.plain = false;
        }
    }

    /// Takes frames out: each whose `reason` is something is counted under it, and its buffers are given back. The others
    /// close up, in their order. `reason` is called once a frame, with its buffers and their metadata.
    pub fn sift(
        &mut self,
        buffers: &mut (impl Buffers + ?Sized),
        drops: &mut Drops,
        mut reason: impl FnMut(&[u32], &[Meta]) -> Option<DropReason>,
    ) {
        let (mut from, mut to) = (self.head, self.head);
        while from < self.tail {
            let rest = self.metas.get(from..self.tail).unwrap_or_default();
            let last = rest.iter().position(|meta| meta.is_last()).unwrap_or(rest.len().saturating_sub(1));
            let range = from..from + last + 1;
            let (Some(offsets), Some(metas)) =
                (self.buffers.get(range.clone()), self.metas.get(range.clone()))
            else {
                break;
            };
            if let Some(reason) = reason(offsets, metas) {
                drops.add(reason, 1);
                self.bytes = self.bytes.saturating_sub(metas.iter().map(|meta| u64::from(meta.len())).sum());
                buffers.give(offsets);
            } else {
                self.buffers.copy_within(range.clone(), to);
                self.metas.copy_within(range.clone(), to);
                to += range.len();
            }
            from = range.end;
        }
        self.tail = to;
        if self.is_empty() {
            self.release(0);
        }
    }

    /// Gives every buffer back; returns how many whole frames that were.
    pub fn give_back(&mut self, buffers: &mut (impl Buffers + ?Sized)) -> usize {
        let frames = if self.plain { self.len() } else { self.frames() };
        buffers.give(self.buffers());
        self.release(self.len());
        frames
    }

    /// Makes room behind the entries.
    #[cold]
    #[inline(never)]
    fn move_to_front(&mut self) {
        if self.head <= self.tail {
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

    /// Gives back into a list.
    struct Given(std::vec::Vec<u32>);

    impl Buffers for Given {
        fn take(&mut self) -> Option<u32> {
            None
        }
        fn take_block(&mut self, _: &mut [u32; crate::BLOCK]) -> bool {
            false
        }
        fn give(&mut self, buffers: &[u32]) {
            self.0.extend(buffers);
        }
    }

    #[test]
    fn what_is_sifted_out_is_counted_and_given_back() {
        for plain in [true, false] {
            let mut burst = Burst::new();
            let (buffers, metas) = burst.spare();
            buffers[..4].copy_from_slice(&[1, 2, 3, 4]);
            metas[..4].copy_from_slice(&[60, 61, 62, 63].map(Meta::frame));
            burst.commit(4, plain.then_some(60 + 61 + 62 + 63));
            let (mut given, mut drops) = (Given(std::vec::Vec::new()), Drops::default());
            burst.sift(&mut given, &mut drops, |buffers, _| {
                (buffers[0] % 2 == 0).then_some(DropReason::RxOnly)
            });
            assert_eq!((burst.buffers(), burst.plain()), (&[1, 3][..], plain.then_some(60 + 62)));
            assert_eq!((&given.0[..], drops.get(DropReason::RxOnly)), (&[2, 4][..], 2));
            burst.sift(&mut given, &mut drops, |_, _| Some(DropReason::RxOnly));
            assert_eq!((burst.len(), burst.plain(), drops.total()), (0, Some(0), 4));
        }
    }

    #[test]
    fn a_frame_is_sifted_with_all_its_buffers() {
        let mut burst = Burst::new();
        for (buffer, meta) in
            [(1, Meta::segment(9)), (2, Meta::frame(9)), (3, Meta::frame(9)), (4, Meta::segment(9))]
        {
            burst.push(Packet { buffer, meta }).unwrap();
        }
        let (mut given, mut drops) = (Given(std::vec::Vec::new()), Drops::default());
        burst.sift(&mut given, &mut drops, |buffers, metas| {
            (buffers.len() == 2 && metas[1].is_last()).then_some(DropReason::RxOnly)
        });
        // The rest of the last one has not come.
        assert_eq!((burst.buffers(), &given.0[..], drops.total()), (&[3, 4][..], &[1, 2][..], 1));
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
