//! Frames for tests, and a core's memory for them to lie in.

use std::vec::Vec;

use hal::hosted::{FakeBar, HostedMachine};
use hal::{DmaMemory, Machine};

use super::{Route, Work};
use crate::burst::Burst;
use crate::drops::Drops;
use crate::packet::{Meta, Packet};
use crate::pool::{BufferLayout, Buffers, Pool};
use crate::port::MacAddr;

/// Address of the port that sends.
pub const OWN: [u8; 6] = [0x68, 5, 0xca, 0, 0, 1];
/// Address of its peer.
pub const PEER: [u8; 6] = [2, 0xaa, 0, 0, 0, 9];
const BUFFERS: usize = 600;

/// Packet memory, pool, burst and counts.
pub struct Ground {
    pub memory: DmaMemory,
    pub pool: Pool,
    pub burst: Burst,
    pub drops: Drops,
    /// Most frames of a poll.
    pub limit: usize,
}

impl Ground {
    pub fn new() -> Self {
        let machine = HostedMachine::<FakeBar>::new(2 << 20).unwrap();
        let layout = BufferLayout::DEFAULT;
        let memory = machine.dma_alloc(layout.bytes(BUFFERS), 64).unwrap();
        let pool = Pool::new(memory.clone(), layout);
        Self { memory, pool, burst: Burst::new(), drops: Drops::default(), limit: 32 }
    }

    /// Puts a frame into the burst, in buffers of 2048 bytes.
    pub fn arrive(&mut self, frame: &[u8]) {
        self.arrive_in(frame, 2048);
    }

    /// Puts a frame into the burst, with so many bytes in each buffer.
    pub fn arrive_in(&mut self, frame: &[u8], room: usize) {
        let pieces = frame.chunks(room).count();
        for (index, piece) in frame.chunks(room).enumerate() {
            let buffer = self.pool.take().unwrap();
            self.memory.copy_in(buffer as usize, piece).unwrap();
            let len = piece.len() as u32;
            let meta = if index + 1 == pieces { Meta::frame(len) } else { Meta::segment(len) };
            self.burst.push(Packet { buffer, meta }).unwrap();
        }
    }

    /// Lets a mode work on the burst.
    pub fn work<T>(&mut self, mode: impl FnOnce(&mut Work<'_>, &mut Burst) -> T) -> T {
        let route = Route { mac: MacAddr(OWN), peer: MacAddr(PEER) };
        let mut work = Work {
            memory: &self.memory,
            route: &route,
            stream: 0,
            limit: self.limit,
            buffers: &mut self.pool,
            drops: &mut self.drops,
        };
        mode(&mut work, &mut self.burst)
    }

    /// The frames of the burst.
    pub fn frames(&self) -> Vec<Vec<u8>> {
        let (mut frames, mut frame) = (Vec::new(), Vec::new());
        for (buffer, meta) in self.burst.buffers().iter().zip(self.burst.metas()) {
            let at = frame.len();
            frame.resize(at + meta.len() as usize, 0);
            self.memory.copy_out((buffer + meta.start()) as usize, &mut frame[at..]).unwrap();
            if meta.is_last() {
                frames.push(std::mem::take(&mut frame));
            }
        }
        assert!(frame.is_empty());
        frames
    }

    /// Each buffer is in the pool or in the burst.
    pub fn has_all_buffers(&self) -> bool {
        self.pool.available() + self.burst.len() == BUFFERS && self.pool.excess() == 0
    }
}

/// The parts in a row.
pub fn with(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// RFC 1071 by the book: whether all words, the checksum among them, sum to all ones.
pub fn sums_to_ones(bytes: &[u8]) -> bool {
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) * 256 + u32::from(*pair.get(1).unwrap_or(&0));
        if sum > 0xffff {
            sum -= 0xffff;
        }
    }
    sum == 0xffff
}

/// An IPv4 header from 10.0.0.9 for `len` bytes, with the checksum that makes it sum to ones.
pub fn ipv4(protocol: u8, to: [u8; 4], len: usize) -> Vec<u8> {
    let [high, low] = ((20 + len) as u16).to_be_bytes();
    let start = [0x45, 0, high, low, 0x12, 0x34, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 9];
    let mut header = with(&[&start, &to]);
    let fits = (0..=0xffff_u16).find(|guess| {
        header[10..12].copy_from_slice(&guess.to_be_bytes());
        sums_to_ones(&header)
    });
    assert!(fits.is_some());
    header
}
