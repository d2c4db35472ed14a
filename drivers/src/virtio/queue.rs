//! A split virtqueue (2.7) for control: plain, one notification a publication, no interrupts.
//!
//! Who writes what: the driver writes descriptor table and available ring, the device the used ring and the buffers that it
//! was given to write. Nothing that lies in the device's reach is read back as if it were ours: which descriptors are out,
//! and how long they are, is kept here.

use alloc::vec::Vec;

use hal::{DmaMemory, NarrowBar};

use super::transport::Notifier;
use super::{Error, error};

/// What a queue's memory is aligned to; the descriptor table wants 16.
pub(super) const ALIGN: usize = 4096;
/// Between the rings, so that they share no line.
const LINE: usize = 64;
/// Most that one queue may have here: what goes beyond needs another kind of queue.
const LARGEST: u16 = 1024;

const DESCRIPTOR: usize = 16;
const NEXT: u64 = 1;
const WRITE: u64 = 2;
/// VIRTQ_AVAIL_F_NO_INTERRUPT.
const NO_INTERRUPT: u16 = 1;

/// Offsets of available and used ring.
pub(super) fn areas(size: u16) -> (usize, usize) {
    let size = usize::from(size);
    let driver = size * DESCRIPTOR;
    let device = (driver + 6 + 2 * size).next_multiple_of(LINE);
    (driver, device)
}

/// Bytes of a queue.
pub(super) fn bytes(size: u16) -> usize {
    areas(size).1 + 6 + 8 * usize::from(size)
}

/// The largest size up to `most`: a power of two.
pub(super) fn size_within(most: u16) -> Option<u16> {
    Some(1 << most.min(LARGEST).checked_ilog2()?)
}

/// A buffer of a chain.
pub struct Piece<'a> {
    /// Where it lies.
    pub memory: &'a DmaMemory,
    /// The device writes it, rather than reads. Those come last in a chain.
    pub device_writes: bool,
}

/// A chain that the device is done with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Used {
    /// What [`Queue::offer`] called it.
    pub chain: u16,
    /// Bytes that the device wrote to it, at most as many as there was room for.
    pub len: u32,
}

/// A descriptor, as we know it.
#[derive(Clone, Copy)]
struct Known {
    /// The next one of the chain, or of the free ones; [`NONE`] at the end.
    next: u16,
    /// Of the first of a chain that is out: the bytes that the device may write.
    room: Option<u32>,
}

/// No descriptor.
const NONE: u16 = u16::MAX;

/// A virtqueue that the device serves.
pub struct Queue<B> {
    memory: DmaMemory,
    notifier: Notifier<B>,
    known: Vec<Known>,
    free: u16,
    free_count: u16,
    /// Chains that the device has.
    out: u16,
    /// Next index of the available ring; the device has seen those before `published`.
    next: u16,
    published: u16,
    /// Next index of the used ring.
    used: u16,
    /// The device said something that makes no sense, and nothing is believed any more.
    fault: Option<Error>,
}

impl<B: NarrowBar> Queue<B> {
    pub(super) fn new(memory: DmaMemory, size: u16, notifier: Notifier<B>) -> Result<Self, Error> {
        let known = (1..=size).map(|next| Known { next: if next == size { NONE } else { next }, room: None });
        let known = known.collect();
        let (driver, _) = areas(size);
        memory.write_word(driver, NO_INTERRUPT).map_err(error::layout("making a queue"))?;
        Ok(Self {
            memory,
            notifier,
            known,
            free: 0,
            free_count: size,
            out: 0,
            next: 0,
            published: 0,
            used: 0,
            fault: None,
        })
    }

    /// Descriptors.
    pub fn size(&self) -> u16 {
        self.known.len() as u16
    }

    /// Descriptors that are free.
    pub fn room(&self) -> u16 {
        self.free_count
    }

    /// Chains that the device has.
    pub fn out(&self) -> u16 {
        self.out
    }

    /// Gives the device a chain of buffers, which stay as they are until it comes back from [`Queue::take`]. The device
    /// looks at it after [`Queue::publish`]. `None` when there is no room, the chain is empty, or the queue is broken.
    pub fn offer(&mut self, pieces: &[Piece<'_>]) -> Option<u16> {
        let count = u16::try_from(pieces.len()).ok().filter(|count| (1..=self.free_count).contains(count))?;
        if self.fault.is_some() {
            return None;
        }
        let mut room = 0_u32;
        for piece in pieces.iter().filter(|piece| piece.device_writes) {
            room = room.checked_add(u32::try_from(piece.memory.len()).ok()?)?;
        }
        let head = self.free;
        let mut at = head;
        for (index, piece) in pieces.iter().enumerate() {
            let next = self.known.get(usize::from(at))?.next;
            let last = index + 1 == pieces.len();
            self.write_descriptor(at, piece, if last { None } else { Some(next) })?;
            if last {
                self.free = next;
                self.known.get_mut(usize::from(at))?.next = NONE;
            }
            at = next;
        }
        self.known.get_mut(usize::from(head))?.room = Some(room);
        self.free_count -= count;
        self.out += 1;
        let (driver, _) = areas(self.size());
        let slot = usize::from(self.next % self.size());
        self.memory.write_word(driver + 4 + 2 * slot, head).ok()?;
        self.next = self.next.wrapping_add(1);
        Some(head)
    }

    fn write_descriptor(&self, at: u16, piece: &Piece<'_>, next: Option<u16>) -> Option<()> {
        let len = u64::from(u32::try_from(piece.memory.len()).ok()?);
        let flags = if piece.device_writes { WRITE } else { 0 } | if next.is_some() { NEXT } else { 0 };
        let word = len | flags << 32 | u64::from(next.unwrap_or(0)) << 48;
        let offset = usize::from(at) * DESCRIPTOR;
        self.memory.write_word(offset, piece.memory.addr().as_u64()).ok()?;
        self.memory.write_word(offset + 8, word).ok()
    }

    /// Lets the device see the chains that were offered since the last time, if there are any.
    pub fn publish(&mut self) {
        if self.published == self.next {
            return;
        }
        let (driver, _) = areas(self.size());
        // Inside, since the queue's memory is as long as its size needs.
        let _ = self.memory.write_word(driver + 2, self.next);
        self.published = self.next;
        self.notifier.notify();
    }

    /// A chain that the device is done with; its descriptors are free again.
    ///
    /// # Errors
    /// The device's index, chain or length makes no sense. Then nothing is taken from this queue any more, and each call
    /// says the same.
    pub fn take(&mut self) -> Result<Option<Used>, Error> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let taken = self.look();
        self.fault = taken.err();
        taken
    }

    fn look(&mut self) -> Result<Option<Used>, Error> {
        const STEP: &str = "taking used buffers";
        let error = |what, value| Error::Device { step: STEP, what, value };
        let (_, device) = areas(self.size());
        let layout = error::layout(STEP);
        let index: u16 = self.memory.read_word(device + 2).map_err(&layout)?;
        let done = index.wrapping_sub(self.used);
        if done == 0 {
            return Ok(None);
        }
        // The device can't be done with chains that it has not seen.
        let unseen = self.next.wrapping_sub(self.published);
        if done > self.out.saturating_sub(unseen) {
            return Err(error("used idx", index.into()));
        }
        let slot = device + 4 + 8 * usize::from(self.used % self.size());
        let id: u32 = self.memory.read_word(slot).map_err(&layout)?;
        let len: u32 = self.memory.read_word(slot + 4).map_err(&layout)?;
        let known = u16::try_from(id).ok().and_then(|id| self.known.get_mut(usize::from(id)));
        let room = known.and_then(|known| known.room.take()).ok_or(error("used id", id.into()))?;
        if len > room {
            return Err(error("used len", len.into()));
        }
        self.used = self.used.wrapping_add(1);
        self.out -= 1;
        let chain = id as u16;
        self.release(chain);
        Ok(Some(Used { chain, len }))
    }

    /// Makes the descriptors of a chain free.
    fn release(&mut self, head: u16) {
        let mut at = head;
        // At most as many as there are.
        for _ in 0..self.known.len() {
            let Some(known) = self.known.get_mut(usize::from(at)) else { return };
            self.free_count += 1;
            let next = known.next;
            if next == NONE {
                known.next = self.free;
                self.free = head;
                return;
            }
            at = next;
        }
    }
}
