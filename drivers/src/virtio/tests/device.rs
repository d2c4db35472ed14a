//! The device: registers of the common configuration, and its side of the rings.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::vec::Vec;

use hal::DmaMemory;
use hal::hosted::Registers;

/// A queue as the driver told it.
#[derive(Default, Clone, Copy)]
pub struct Ring {
    pub size: u16,
    pub enable: u16,
    pub vector: u16,
    /// Descriptor table, available ring, used ring.
    pub areas: [u64; 3],
    /// Next of the available and of the used ring.
    pub seen: u16,
    pub used: u16,
}

/// A descriptor chain: the pieces that may be read or written, by address and length.
#[derive(Debug, PartialEq, Eq)]
pub struct Chain {
    pub id: u16,
    pub reads: Vec<(u64, u32)>,
    pub writes: Vec<(u64, u32)>,
}

pub struct Card {
    memory: DmaMemory,
    pub offered: u64,
    pub chosen: u64,
    pub status: u8,
    /// Every status that was written.
    pub statuses: Vec<u8>,
    /// Bits of the status that don't stick.
    pub refused: u8,
    /// Reads of the status after a reset that still show the old one.
    pub slow_reset: u32,
    pub config: [u8; 16],
    /// Added to at each look.
    pub generation_step: u8,
    generation: u8,
    selects: [u32; 2],
    queue: u16,
    pub queues: BTreeMap<u16, Ring>,
    pub most: u16,
    pub notify_off: u16,
    /// Offsets and values, in order.
    pub notified: VecDeque<(u32, u16)>,
    /// Accesses with a width that the standard does not give the register.
    pub wrong: Vec<(u32, usize)>,
}

#[derive(Clone)]
pub struct Play(Arc<Mutex<Card>>);

impl Play {
    pub fn new(memory: DmaMemory) -> Self {
        Self(Arc::new(Mutex::new(Card {
            memory,
            offered: 1 << 32,
            chosen: 0,
            status: 0,
            statuses: Vec::new(),
            refused: 0,
            slow_reset: 0,
            config: [0; 16],
            generation_step: 0,
            generation: 0,
            selects: [0; 2],
            queue: 0,
            queues: BTreeMap::new(),
            most: 256,
            notify_off: 0,
            notified: VecDeque::new(),
            wrong: Vec::new(),
        })))
    }

    pub fn card(&self) -> MutexGuard<'_, Card> {
        self.0.lock().unwrap()
    }
}

impl Card {
    fn offset(&self, addr: u64) -> usize {
        (addr - self.memory.addr().as_u64()) as usize
    }

    pub fn read<const N: usize>(&self, addr: u64) -> [u8; N] {
        self.memory.load(self.offset(addr)).unwrap()
    }

    pub fn write(&self, addr: u64, bytes: &[u8]) {
        self.memory.copy_in(self.offset(addr), bytes).unwrap();
    }

    fn word(&self, addr: u64) -> u16 {
        u16::from_le_bytes(self.read(addr))
    }

    /// The next chain of queue `index`.
    pub fn next_chain(&mut self, index: u16) -> Option<Chain> {
        let ring = *self.queues.get(&index)?;
        if ring.enable == 0 || self.word(ring.areas[1] + 2) == ring.seen {
            return None;
        }
        let id = self.word(ring.areas[1] + 4 + 2 * u64::from(ring.seen % ring.size));
        self.queues.get_mut(&index)?.seen = ring.seen.wrapping_add(1);
        let (mut reads, mut writes, mut at) = (Vec::new(), Vec::new(), id);
        loop {
            let descriptor = ring.areas[0] + 16 * u64::from(at);
            let addr = u64::from_le_bytes(self.read(descriptor));
            let len = u32::from_le_bytes(self.read(descriptor + 8));
            let flags = self.word(descriptor + 12);
            if flags & 2 == 0 {
                assert!(writes.is_empty(), "what is read comes first");
                reads.push((addr, len));
            } else {
                writes.push((addr, len));
            }
            if flags & 1 == 0 {
                return Some(Chain { id, reads, writes });
            }
            at = self.word(descriptor + 14);
        }
    }

    /// Says that `id` is used, with `len` bytes written.
    pub fn put_used(&mut self, index: u16, id: u32, len: u32) {
        let ring = self.queues[&index];
        let slot = ring.areas[2] + 4 + 8 * u64::from(ring.used % ring.size);
        self.write(slot, &id.to_le_bytes());
        self.write(slot + 4, &len.to_le_bytes());
        self.set_used_index(index, ring.used.wrapping_add(1));
    }

    pub fn set_used_index(&mut self, index: u16, value: u16) {
        let ring = self.queues.get_mut(&index).unwrap();
        ring.used = value;
        let at = ring.areas[2] + 2;
        self.write(at, &value.to_le_bytes());
    }

    fn ring(&mut self) -> &mut Ring {
        let most = self.most;
        self.queues.entry(self.queue).or_insert(Ring { size: most, ..Ring::default() })
    }

    fn register(&mut self, offset: u32) -> (usize, u64) {
        match offset {
            0x00 => (4, self.selects[0].into()),
            0x04 => (4, self.offered >> (32 * self.selects[0]) & 0xffff_ffff),
            0x12 => (2, 64),
            0x14 => {
                if self.slow_reset > 0 {
                    self.slow_reset -= 1;
                    return (1, 0xf);
                }
                (1, self.status.into())
            }
            0x15 => {
                self.generation = self.generation.wrapping_add(self.generation_step);
                (1, self.generation.into())
            }
            0x18 => (2, self.ring().size.into()),
            0x1c => (2, self.ring().enable.into()),
            0x1e => (2, (self.notify_off + self.queue).into()),
            _ => (0, 0),
        }
    }

    fn set(&mut self, offset: u32, value: u64) -> usize {
        match offset {
            0x00 => self.selects[0] = value as u32,
            0x08 => self.selects[1] = value as u32,
            0x0c => self.chosen |= value << (32 * self.selects[1]),
            0x14 => {
                self.statuses.push(value as u8);
                self.status = value as u8 & !self.refused;
                if value == 0 {
                    self.queues.clear();
                }
                return 1;
            }
            0x20..0x38 => {
                let (area, shift) = ((offset - 0x20) as usize / 8, 8 * (offset % 8));
                let ring = self.ring();
                ring.areas[area] = ring.areas[area] & !(0xffff_ffff << shift) | value << shift;
            }
            0x10 => return 2,
            0x16 => self.queue = value as u16,
            0x18 => self.ring().size = value as u16,
            0x1a => self.ring().vector = value as u16,
            0x1c => self.ring().enable = value as u16,
            0x3000.. => self.notified.push_back((offset - 0x3000, value as u16)),
            _ => return 0,
        }
        if matches!(offset, 0x16..0x20 | 0x3000..) { 2 } else { 4 }
    }
}

impl Registers for Play {
    fn read(&mut self, offset: u32, data: &mut [u8]) {
        let mut card = self.card();
        if (0x2000..0x2010).contains(&offset) {
            let start = offset as usize - 0x2000;
            data.copy_from_slice(&card.config[start..start + data.len()]);
            return;
        }
        let (width, value) = card.register(offset);
        if width != data.len() {
            card.wrong.push((offset, data.len()));
        }
        data.copy_from_slice(&value.to_le_bytes()[..data.len()]);
    }

    fn write(&mut self, offset: u32, value: u32) {
        let mut card = self.card();
        if card.set(offset, value.into()) != 4 {
            card.wrong.push((offset, 4));
        }
    }

    fn write_narrow(&mut self, offset: u32, data: &[u8]) {
        let value = data.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
        let mut card = self.card();
        if card.set(offset, value) != data.len() {
            card.wrong.push((offset, data.len()));
        }
    }
}
