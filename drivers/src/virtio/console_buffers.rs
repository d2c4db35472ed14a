//! Buffers of a console's queues, each of one descriptor.

use alloc::vec;
use alloc::vec::Vec;

use hal::{DmaMemory, Machine, NarrowBar};

use super::queue::{Piece, Queue};
use super::{Error, error};

/// Bytes of a buffer.
const BUFFER: usize = 1024;
const NOBODY: u16 = u16::MAX;

/// Equal pieces of memory, as many as a queue has descriptors.
pub(super) struct Slots {
    memory: Vec<DmaMemory>,
    free: Vec<u16>,
    /// By chain: the slot that is out with it.
    out: Vec<u16>,
}

impl Slots {
    pub fn new<M: Machine>(machine: &M, count: u16, len: usize) -> Result<Self, Error> {
        const STEP: &str = "making buffers";
        let all = machine.dma_alloc(usize::from(count) * len, 4096);
        let all = all.map_err(|error| Error::Memory(STEP, error))?;
        let parts = (0..usize::from(count)).map(|slot| all.part(slot * len, len));
        let memory = parts.collect::<Result<_, _>>().map_err(error::layout(STEP))?;
        Ok(Self { memory, free: (0..count).rev().collect(), out: vec![NOBODY; usize::from(count)] })
    }

    /// A slot that is free.
    pub fn take(&mut self) -> Option<u16> {
        self.free.pop()
    }

    /// The memory of a slot.
    pub fn memory(&self, slot: u16) -> &DmaMemory {
        &self.memory[usize::from(slot)]
    }

    /// Gives the first `len` bytes of a slot to the device. A slot that the queue does not take is free again.
    pub fn lend<B: NarrowBar>(
        &mut self,
        queue: &mut Queue<B>,
        slot: u16,
        len: usize,
        device_writes: bool,
    ) -> Option<()> {
        let part = self.memory(slot).part(0, len).ok();
        let chain = part.and_then(|memory| queue.offer(&[Piece { memory: &memory, device_writes }]));
        let out = chain.and_then(|chain| self.out.get_mut(usize::from(chain)));
        match out {
            Some(out) => {
                *out = slot;
                Some(())
            }
            None => {
                self.free.push(slot);
                None
            }
        }
    }

    /// The slot that came back with a chain; it is not free yet.
    pub fn back(&mut self, chain: u16) -> Option<u16> {
        let out = self.out.get_mut(usize::from(chain))?;
        let slot = core::mem::replace(out, NOBODY);
        (slot != NOBODY).then_some(slot)
    }

    /// Makes the slot free that came back with a chain.
    pub fn free(&mut self, chain: u16) {
        let slot = self.back(chain);
        self.free.extend(slot);
    }
}

/// A port's receive queue.
pub(super) struct Receive<B> {
    queue: Queue<B>,
    slots: Slots,
    /// What is being read: slot, next byte, end.
    current: Option<(u16, usize, usize)>,
}

impl<B: NarrowBar> Receive<B> {
    /// Gives the device every buffer. It runs already.
    pub fn new<M: Machine<Bar = B>>(machine: &M, queue: Queue<B>) -> Result<Self, Error> {
        let slots = Slots::new(machine, queue.size(), BUFFER)?;
        let mut receive = Self { queue, slots, current: None };
        receive.arm();
        Ok(receive)
    }

    fn arm(&mut self) {
        while let Some(slot) = self.slots.take() {
            if self.slots.lend(&mut self.queue, slot, BUFFER, true).is_none() {
                break;
            }
        }
        self.queue.publish();
    }

    pub fn read(&mut self, to: &mut [u8]) -> Result<usize, Error> {
        let mut read = 0;
        while read < to.len() {
            let Some((slot, at, end)) = self.current else {
                let Some(used) = self.queue.take()? else { break };
                if let Some(slot) = self.slots.back(used.chain) {
                    self.current = Some((slot, 0, used.len as usize));
                }
                continue;
            };
            let count = (end - at).min(to.len() - read);
            let part = &mut to[read..read + count];
            self.slots.memory(slot).copy_out(at, part).map_err(error::layout("reading"))?;
            read += count;
            if at + count < end {
                self.current = Some((slot, at + count, end));
                continue;
            }
            self.current = None;
            self.slots.lend(&mut self.queue, slot, BUFFER, true);
        }
        self.queue.publish();
        Ok(read)
    }
}

/// A port's transmit queue.
pub(super) struct Send<B> {
    queue: Queue<B>,
    slots: Slots,
}

impl<B: NarrowBar> Send<B> {
    pub fn new<M: Machine<Bar = B>>(machine: &M, queue: Queue<B>) -> Result<Self, Error> {
        let slots = Slots::new(machine, queue.size(), BUFFER)?;
        Ok(Self { queue, slots })
    }

    pub fn write(&mut self, from: &[u8]) -> Result<usize, Error> {
        while let Some(used) = self.queue.take()? {
            self.slots.free(used.chain);
        }
        let mut written = 0;
        while written < from.len() {
            let Some(slot) = self.slots.take() else { break };
            let part = &from[written..from.len().min(written + BUFFER)];
            self.slots.memory(slot).copy_in(0, part).map_err(error::layout("writing"))?;
            if self.slots.lend(&mut self.queue, slot, part.len(), false).is_none() {
                break;
            }
            written += part.len();
        }
        self.queue.publish();
        Ok(written)
    }
}
