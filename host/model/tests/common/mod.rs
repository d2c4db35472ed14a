//! A guest by hand: its memory, its registers, a wire; and steps that a random one takes.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};

use model::{PortConfig, TraceLog, Wire, Xl710};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

/// Where the guest's memory begins, for the card.
pub const LOW: u64 = 0x1_0000_0000;
/// Its bytes.
pub const SIZE: u64 = 4 << 20;
/// Where contexts lie.
const CONTEXTS: u64 = LOW + 0x20_0000;

/// A file of that size.
pub fn file(size: u64) -> OwnedFd {
    let file = memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, size).unwrap();
    file
}

/// The guest's end of the wire.
#[derive(Clone, Default)]
pub struct TestWire(Arc<Mutex<(Vec<Vec<u8>>, usize)>>);

impl TestWire {
    pub fn offer(&self, frame: &[u8]) {
        self.0.lock().unwrap().0.push(frame.to_vec());
    }
    pub fn sent(&self) -> usize {
        self.0.lock().unwrap().1
    }
}

struct End(TestWire, Vec<u8>);

impl Wire for End {
    fn transmit(&mut self, frame: &[u8]) {
        assert!((60..=9728 + 4).contains(&frame.len()), "{} bytes on the wire", frame.len());
        self.0.0.lock().unwrap().1 += 1;
    }
    fn receive(&mut self) -> Option<&[u8]> {
        self.1 = self.0.0.lock().unwrap().0.pop()?;
        Some(&self.1)
    }
    fn waits(&self) -> bool {
        false
    }
}

/// A guest and its card.
pub struct Guest {
    pub card: Xl710,
    pub wire: TestWire,
    memory: OwnedFd,
}

impl Guest {
    pub fn new() -> Self {
        let (wire, memory) = (TestWire::default(), file(SIZE));
        let config = PortConfig { device_id: 0x1572, mac: [0x68, 5, 0xca, 0, 0, 1], name: "guest".into() };
        let mut card = Xl710::new(config, Box::new(End(wire.clone(), Vec::new())));
        card.map_dma(LOW, SIZE, Some((memory.as_fd(), 0)), true, true).unwrap();
        card.config_write(4, &[6, 0]);
        card.trace(&TraceLog::new(std::io::sink()), "guest");
        let mut this = Self { card, wire, memory };
        // Every frame is received.
        this.admin_with(0x0254, &[0x17, 0, 0x17, 0, 0x86, 1]);
        this
    }

    pub fn put(&self, addr: u64, bytes: &[u8]) {
        if let Some(at) = addr.checked_sub(LOW).filter(|at| at + bytes.len() as u64 <= SIZE) {
            rustix::io::pwrite(&self.memory, bytes, at).unwrap();
        }
    }

    pub fn get(&self, addr: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        rustix::io::pread(&self.memory, &mut bytes[..], addr - LOW).unwrap();
        bytes
    }

    pub fn writes(&mut self, writes: &[(u64, u32)]) {
        for (offset, value) in writes {
            self.card.bar_write(0, *offset, &value.to_le_bytes());
        }
    }

    /// One admin command without a buffer.
    pub fn admin(&mut self, opcode: u16, first: u8) {
        self.admin_with(opcode, &[first]);
    }

    fn admin_with(&mut self, opcode: u16, params: &[u8]) {
        let at = LOW + 0x30_0000;
        let mut words = [0; 32];
        words[2..4].copy_from_slice(&opcode.to_le_bytes());
        words[16..16 + params.len()].copy_from_slice(params);
        self.put(at, &words);
        let (low, high) = (at as u32, (at >> 32) as u32);
        self.writes(&[
            (0x08_0300, 0),
            (0x08_0200, 1 << 31 | 32),
            (0x08_0000, low),
            (0x08_0100, high),
            (0x08_0400, 1),
        ]);
    }

    fn point_to_contexts(&mut self) {
        let (low, high) = (CONTEXTS as u32 | 3, (CONTEXTS >> 32) as u32);
        self.writes(&[
            (0x0c_0100, low),
            (0x0c_0200, high),
            (0x0c_0000, 1 << 31),
            (0x0c_6200, 0),
            (0x0c_6400, 384),
        ]);
    }

    /// Starts transmit queue 0 on a ring of `len` at `ring`, its head at `head`; it may program the flow director.
    pub fn start_tx(&mut self, ring: u64, len: u64, head: u64) {
        let mut context = [0; 128];
        bits(&mut context, &[(0, 13, head), (32, 57, ring >> 7), (91, 1, 1), (161, 13, len)]);
        self.put(CONTEXTS, &context);
        self.point_to_contexts();
        self.writes(&[(0x10_0000, 0), (0x10_0000, 1)]);
    }

    /// Starts receive queue 0, 16-byte descriptors, buffers of 2048 bytes.
    pub fn start_rx(&mut self, ring: u64, len: u64, head: u64) {
        let mut context = [0; 32];
        bits(
            &mut context,
            &[(0, 13, head), (32, 57, ring >> 7), (89, 13, len), (102, 7, 16), (117, 1, 1), (174, 14, 9728)],
        );
        self.put(CONTEXTS + 384 * 512, &context);
        self.point_to_contexts();
        self.writes(&[(0x12_0000, 0), (0x12_0000, 1)]);
    }

    /// A descriptor of a ring at the start of memory.
    pub fn descriptor(&self, index: u64, first: u64, second: u64) {
        self.put(LOW + 16 * index, &[first.to_le_bytes(), second.to_le_bytes()].concat());
    }
}

fn bits(context: &mut [u8], fields: &[(usize, usize, u64)]) {
    for (lsb, width, value) in fields {
        for bit in 0..*width {
            let (at, mask) = ((lsb + bit) / 8, 1 << ((lsb + bit) % 8));
            context[at] = context[at] & !mask | if value >> bit & 1 != 0 { mask } else { 0 };
        }
    }
}

/// Numbers that are the same for the same seed.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    fn below(&mut self, most: u64) -> u64 {
        self.next() % most
    }
    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }
    /// Edges more often than anything else.
    fn value(&mut self) -> u64 {
        match self.below(6) {
            0 => 0,
            1 => u64::MAX,
            2 => 1 << self.below(64),
            3 => (1_u64 << self.below(64)).wrapping_sub(1),
            4 => self.below(256),
            _ => self.next(),
        }
    }
    fn addr(&mut self) -> u64 {
        match self.below(8) {
            0..=4 => LOW + (self.below(SIZE) & !0x7f),
            5 => u64::MAX - self.below(0x3000),
            6 => LOW + SIZE - self.below(64),
            _ => self.next(),
        }
    }
}

const REGISTERS: [u64; 34] = [
    0x09_2400, 0x0b_8190, 0x0b_6110, 0x08_0000, 0x08_0100, 0x08_0200, 0x08_0300, 0x08_0400, 0x08_0080,
    0x08_0180, 0x08_0280, 0x08_0380, 0x08_0480, 0x0c_6200, 0x0c_6400, 0x0c_0000, 0x0c_0100, 0x0c_0200,
    0x10_0000, 0x12_0000, 0x10_8000, 0x12_8000, 0x03_a000, 0x03_c000, 0x03_8780, 0x03_8800, 0x03_8480,
    0x03_4800, 0x24_5900, 0x24_0000, 0x1c_0ac0, 0x24_5d80, 0x25_0000, 0x26_7200,
];
const OPCODES: [u16; 30] = [
    0x0001, 0x000a, 0x0107, 0x0200, 0x0206, 0x0207, 0x0211, 0x0212, 0x0250, 0x0251, 0x0254, 0x0407, 0x0408,
    0x040a, 0x0600, 0x0601, 0x0603, 0x0605, 0x0607, 0x0701, 0x0a00, 0xff03, 0xff04, 0x9999, 0x0210, 0x0230,
    0x0232, 0x0243, 0x0418, 0x041a,
];

/// One step of a random guest.
pub fn step(random: &mut Random, guest: &mut Guest) {
    match random.below(9) {
        0 => {
            let at = random.pick(&REGISTERS) + 4 * random.below(1600) * random.below(2);
            let value = random.value() as u32;
            guest.writes(&[(at, value)]);
        }
        1 => {
            let (bar, at, mut data) =
                (random.below(5) as u32, random.value(), vec![0; random.below(9) as usize]);
            guest.card.bar_read(bar, at, &mut data);
            guest.card.bar_write(bar, at, &data);
        }
        2 => admin_commands(random, guest),
        3 => transmit(random, guest),
        4 => receive(random, guest),
        5 => {
            let (at, len) = (random.value(), random.below(9) as usize);
            guest.card.config_write(at, &random.next().to_le_bytes()[..len.min(8)]);
            guest.card.config_write(4, &[6, 0]);
        }
        6 => {
            guest.card.set_link(random.below(2) == 0);
            guest.card.set_link(true);
        }
        7 => guest.writes(&[(0x10_8000, random.below(8192) as u32), (0x12_8000, random.below(8192) as u32)]),
        _ => guest.card.pump(),
    }
}

fn admin_commands(random: &mut Random, guest: &mut Guest) {
    let (base, len) = (random.addr(), random.pick(&[0_u32, 1, 2, 32, 1023]));
    let count = random.below(6);
    for index in 0..count {
        let mut words: [u8; 32] = std::array::from_fn(|_| random.value() as u8);
        words[2..4].copy_from_slice(&random.pick(&OPCODES).to_le_bytes());
        let buffer = random.addr();
        words[24..28].copy_from_slice(&((buffer >> 32) as u32).to_le_bytes());
        words[28..].copy_from_slice(&(buffer as u32).to_le_bytes());
        guest.put(base.wrapping_add(32 * index), &words);
    }
    let (low, high) = (base as u32, (base >> 32) as u32);
    guest.writes(&[
        (0x08_0300, 0),
        (0x08_0200, 1 << 31 | len),
        (0x08_0000, low),
        (0x08_0100, high),
        (0x08_0400, count as u32),
    ]);
}

fn transmit(random: &mut Random, guest: &mut Guest) {
    guest.start_tx(LOW, random.pick(&[7, 8, 64, 8160]), 0);
    let count = random.below(60);
    for index in 0..count {
        let size = random.pick(&[0_u64, 1, 16, 17, 60, 1514, 9728, 16383]);
        let word = match random.below(8) {
            0 => 1 | 1 << 4 | random.pick(&[0_u64, 63, 64, 1460, 16383]) << 50,
            1 => random.next(),
            2 => random.next() & !0x7f | 8 | 1 << (4 + random.below(2)),
            _ => {
                size << 34
                    | (random.next() & 0x3ff) << 4
                    | (random.next() & 0x3_ffff) << 16
                    | random.below(65536) << 48
            }
        };
        guest.descriptor(index, random.addr(), word);
    }
    guest.writes(&[(0x10_8000, count as u32)]);
}

fn receive(random: &mut Random, guest: &mut Guest) {
    guest.start_rx(LOW + 0x8_0000, random.pick(&[7, 8, 64, 8160]), 0);
    (0..64).for_each(|index| guest.put(LOW + 0x8_0000 + 16 * index, &random.addr().to_le_bytes()));
    guest.writes(&[(0x12_8000, random.below(64) as u32), (0x24_5900, u32::MAX), (0x24_5980, u32::MAX)]);
    guest.writes(&[(0x1c_0ac0, 1 << 17)]);
    for _ in 0..random.below(20) {
        let len = random.pick(&[0, 59, 60, 61, 1514, 9728, 9729]);
        let mut frame: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
        let kind = random.pick(&[[8, 0], [0x86, 0xdd], [0x81, 0], [8, 6]]);
        frame.splice(12.min(frame.len())..14.min(frame.len()), kind);
        guest.wire.offer(&frame);
    }
    guest.card.pump();
}
