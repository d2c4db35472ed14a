//! Queues in memory, for tests: frames go in and come out as byte vectors, buffers are counted.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use hal::DmaMemory;

use super::{QueueCounters, RxQueue, TxQueue};
use crate::burst::Burst;
use crate::drops::Drops;
use crate::packet::Meta;
use crate::pool::{BLOCK, Buffers};

/// A receive queue that is fed by hand.
pub struct FakeRx {
    memory: DmaMemory,
    room: usize,
    incoming: VecDeque<Vec<u8>>,
    counters: QueueCounters,
    drops: Drops,
}

impl FakeRx {
    /// A queue that writes at most `room` bytes into a buffer of `memory`.
    pub fn new(memory: DmaMemory, room: usize) -> Self {
        let (counters, drops) = Default::default();
        Self { memory, room, incoming: VecDeque::new(), counters, drops }
    }

    /// Lets a frame arrive.
    pub fn arrive(&mut self, frame: &[u8]) {
        self.incoming.push_back(frame.to_vec());
    }

    /// Frames that have not been received yet.
    pub fn waiting(&self) -> usize {
        self.incoming.len()
    }

    fn receive(&mut self, buffers: &mut impl Buffers, burst: &mut Burst) -> bool {
        let Some(frame) = self.incoming.front() else { return false };
        let pieces: Vec<&[u8]> = frame.chunks(self.room).collect();
        if pieces.len() > burst.room() {
            return false;
        }
        let mut taken: Vec<u32> = Vec::new();
        for _ in &pieces {
            match buffers.take() {
                Some(buffer) => taken.push(buffer),
                None => {
                    buffers.give(&taken);
                    return false;
                }
            }
        }
        burst.append(|offsets, metas| {
            for (i, piece) in pieces.iter().enumerate() {
                let _ = self.memory.copy_in(taken[i] as usize, piece);
                offsets[i] = taken[i];
                let last = i + 1 == pieces.len();
                metas[i] =
                    if last { Meta::frame(piece.len() as u32) } else { Meta::segment(piece.len() as u32) };
            }
            pieces.len()
        });
        self.counters.frames += 1;
        self.counters.bytes += frame.len() as u64;
        self.incoming.pop_front();
        true
    }
}

impl RxQueue for FakeRx {
    fn rx_burst(&mut self, buffers: &mut impl Buffers, burst: &mut Burst, limit: usize) -> usize {
        (0..limit).take_while(|_| self.receive(buffers, burst)).count()
    }
    fn counters(&self) -> QueueCounters {
        self.counters
    }
    fn drops(&self) -> &Drops {
        &self.drops
    }
}

/// A transmit queue that keeps what was sent.
pub struct FakeTx {
    memory: DmaMemory,
    /// Buffers that the ring holds before it is full.
    pub capacity: usize,
    /// Frames sent.
    pub sent: Vec<Vec<u8>>,
    ring: VecDeque<u32>,
    counters: QueueCounters,
    drops: Drops,
}

impl FakeTx {
    /// A queue of `capacity` buffers of `memory`.
    pub fn new(memory: DmaMemory, capacity: usize) -> Self {
        let (counters, drops) = Default::default();
        Self { memory, capacity, sent: Vec::new(), ring: VecDeque::new(), counters, drops }
    }

    /// Buffers in the ring.
    pub fn held(&self) -> usize {
        self.ring.len()
    }
}

impl TxQueue for FakeTx {
    fn tx_burst(&mut self, _buffers: &mut impl Buffers, burst: &mut Burst) -> usize {
        let mut frames = 0;
        while let Some(last) = burst.metas().iter().position(|meta| meta.is_last()) {
            let entries = last + 1;
            if self.ring.len() + entries > self.capacity {
                break;
            }
            let mut frame = Vec::new();
            for (buffer, meta) in burst.buffers().iter().zip(burst.metas()).take(entries) {
                let mut piece = vec![0; meta.len() as usize];
                let _ = self.memory.copy_out((buffer + meta.start()) as usize, &mut piece);
                frame.extend(piece);
            }
            self.ring.extend(&burst.buffers()[..entries]);
            burst.release(entries);
            self.counters.frames += 1;
            self.counters.bytes += frame.len() as u64;
            self.sent.push(frame);
            frames += 1;
        }
        frames
    }
    fn take_sent(&mut self, block: &mut [u32; BLOCK]) -> bool {
        if self.ring.len() < BLOCK {
            return false;
        }
        for (to, from) in block.iter_mut().zip(self.ring.drain(..BLOCK)) {
            *to = from;
        }
        true
    }
    fn counters(&self) -> QueueCounters {
        self.counters
    }
    fn drops(&self) -> &Drops {
        &self.drops
    }
}
