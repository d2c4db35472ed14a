//! A card that fetches late: what a doorbell handed over is read some events later, and must not have changed.
//!
//! Meanwhile the types of descriptors that ask for a mark are 1 and 8 in turn, neither of which says that they are done.

use crate::dma::GuestMemory;

/// A piece of memory as it was when the doorbell rang.
struct Seen {
    addr: u64,
    len: usize,
    crc: u32,
}

/// Pieces that are remembered at most; a guest may ring as often as it likes.
const MOST: usize = 1 << 16;

/// Doorbells that have not been looked at, and what they handed over.
#[derive(Default)]
pub struct Fetch {
    /// Events for which doorbells are not looked at; 0 when nothing is wrong.
    pub(crate) left: u32,
    seen: Vec<(u32, Seen)>,
    /// Second quadwords that were changed: queue, address, before, after.
    planted: Vec<(u32, u64, u64, u64)>,
    /// Where the next doorbell of a queue begins.
    tails: Vec<(u32, u32)>,
}

fn checksum(memory: &GuestMemory, addr: u64, len: usize) -> Option<u32> {
    let mut bytes = vec![0; len];
    memory.read(addr, &mut bytes).ok()?;
    Some(crc32fast::hash(&bytes))
}

impl Fetch {
    /// Where the descriptors of `queue` begin that no doorbell has handed over yet; its head is `head`.
    pub(crate) fn from(&self, queue: u32, head: u32) -> u32 {
        self.tails.iter().find(|(other, _)| *other == queue).map_or(head, |(_, tail)| *tail)
    }

    /// Doorbells wait.
    pub(crate) fn holds(&self) -> bool {
        !self.tails.is_empty()
    }

    /// A doorbell of `queue` hands over everything up to `tail`: these pieces.
    pub(crate) fn hold(
        &mut self,
        memory: &GuestMemory,
        queue: u32,
        tail: u32,
        pieces: impl IntoIterator<Item = (u64, usize)>,
    ) {
        self.tails.retain(|(other, _)| *other != queue);
        self.tails.push((queue, tail));
        let room = MOST.saturating_sub(self.seen.len());
        for (addr, len) in pieces.into_iter().take(room) {
            if let Some(crc) = checksum(memory, addr, len) {
                self.seen.push((queue, Seen { addr, len, crc }));
            }
        }
    }

    /// Changes the types of descriptors, whose second quadwords these are, to ones that are not done.
    pub(crate) fn plant(
        &mut self,
        memory: &GuestMemory,
        queue: u32,
        words: impl IntoIterator<Item = (u64, u64)>,
    ) {
        const TYPE: u64 = 0xf;
        let room = MOST.saturating_sub(self.planted.len());
        for (addr, word) in words.into_iter().take(room) {
            let planted = word & !TYPE | if self.planted.len().is_multiple_of(2) { 1 } else { 8 };
            if memory.publish_u64(addr, planted).is_ok() {
                self.planted.push((queue, addr, word, planted));
            }
        }
    }

    /// Undoes [`Fetch::plant`] where nobody else has changed it since.
    fn uproot(&mut self, memory: &GuestMemory) {
        for (_, addr, word, planted) in std::mem::take(&mut self.planted) {
            let mut now = [0; 8];
            if memory.read(addr, &mut now).is_ok() && u64::from_le_bytes(now) == planted {
                let _ = memory.publish_u64(addr, word);
            }
        }
    }

    /// The time is up: the queues to look at, and the first piece of each that has changed meanwhile.
    pub(crate) fn release(&mut self, memory: &GuestMemory) -> Vec<(u32, Option<String>)> {
        self.uproot(memory);
        let (tails, seen) = (std::mem::take(&mut self.tails), std::mem::take(&mut self.seen));
        let changed = |queue: u32| {
            let mut own = seen.iter().filter(|(other, _)| *other == queue).map(|(_, piece)| piece);
            let piece = own.find(|piece| checksum(memory, piece.addr, piece.len) != Some(piece.crc))?;
            Some(format!(
                "transmit queue {queue}: {} bytes at {:#x} changed after the doorbell",
                piece.len, piece.addr
            ))
        };
        tails.into_iter().map(|(queue, _)| (queue, changed(queue))).collect()
    }

    /// Queue `queue` went off, or all of them did.
    pub(crate) fn forget(&mut self, queue: Option<u32>) {
        self.tails.retain(|(other, _)| queue.is_some_and(|queue| queue != *other));
        self.planted.retain(|(other, ..)| queue.is_some_and(|queue| queue != *other));
        self.seen.retain(|(other, _)| queue.is_some_and(|queue| queue != *other));
    }
}
