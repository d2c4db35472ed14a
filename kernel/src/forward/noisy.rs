//! `noisy`: as `io`, `mac`, `macswap` or `5tswap`, with what disturbs on the way, as a virtual network function does: a
//! queue that frames wait in, and accesses to a memory that the caches don't hold.
//!
//! As testpmd does it: a burst that finds room in the queue goes in and nothing comes out; one that doesn't pushes as many
//! frames out as it has. Where nothing was sent for the flush time, the queue is emptied. What differs: a queue has room
//! for buffers, so that a frame in several takes several places; each stream has one, not each port; accesses go to any
//! line of the memory, while testpmd's stay in its first 64th; at the end what is queued is sent, not lost; and frames in
//! many buffers that a burst has no room to push out are dropped whole, as `tx-full`.

use alloc::vec::Vec;

use hal::DmaMemory;
use hal::clock::time_stamp_counter;
use hal::simd::Isa;

use super::forwarder::{CoreShare, change_headers};
use super::random::Random;
use super::{Mode, Verdict, Work, options::number};
use crate::burst::Burst;
use crate::drops::DropReason;

mod fifo;
pub use fifo::Fifo;

/// Bytes of a cache line.
const LINE: u64 = 64;
/// Most buffers of a queue.
const FIFO_MAX: u32 = 65_535;

/// What is done on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// `--noisy-forward-mode=io|mac|macswap|5tswap`
    pub mode: Mode,
    /// `--noisy-tx-sw-buffer-size`: buffers of a stream's queue, 0 to 65535; 0 is no queue.
    pub fifo: u16,
    /// `--noisy-tx-sw-buffer-flushtime`: milliseconds after which a queue is emptied, 0 to 65535; 0 is never.
    pub flush_ms: u16,
    /// `--noisy-lkup-memory`: MiB of a core's memory that is accessed, 0 to 4096.
    pub memory_mib: u16,
    /// `--noisy-lkup-num-writes`: writes a frame, 0 to 65535.
    pub writes: u16,
    /// `--noisy-lkup-num-reads`: reads a frame, likewise.
    pub reads: u16,
    /// `--noisy-lkup-num-reads-writes`: pairs of a read and a write a frame, likewise.
    pub reads_writes: u16,
}

impl Default for Options {
    fn default() -> Self {
        Self { mode: Mode::Io, fifo: 0, flush_ms: 0, memory_mib: 0, writes: 0, reads: 0, reads_writes: 0 }
    }
}

impl Options {
    /// Sets an option that begins with `--noisy-`.
    ///
    /// # Errors
    /// What was expected.
    pub fn set(&mut self, option: &str, value: &str) -> Result<(), &'static str> {
        let word =
            || number(value, 0, FIFO_MAX).map(|number| number as u16).ok_or("a number from 0 to 65535");
        match option {
            "--noisy-forward-mode" => {
                let allowed = [Mode::Io, Mode::Mac, Mode::MacSwap, Mode::FiveTupleSwap];
                let mode = allowed.into_iter().find(|mode| mode.name() == value);
                self.mode = mode.ok_or("io, mac, macswap or 5tswap")?;
            }
            "--noisy-tx-sw-buffer-size" => self.fifo = word()?,
            "--noisy-tx-sw-buffer-flushtime" => self.flush_ms = word()?,
            "--noisy-lkup-memory" => {
                self.memory_mib = number(value, 0, 4096).ok_or("a number of MiB from 0 to 4096")? as u16;
            }
            "--noisy-lkup-num-writes" => self.writes = word()?,
            "--noisy-lkup-num-reads" => self.reads = word()?,
            "--noisy-lkup-num-reads-writes" => self.reads_writes = word()?,
            _ => return Err("is not known"),
        }
        Ok(())
    }

    /// Accesses need a memory: the option, its value and what was expected.
    ///
    /// # Errors
    /// There is none.
    pub fn check(&self) -> Result<(), (&'static str, u32, &'static str)> {
        let accesses = [self.writes, self.reads, self.reads_writes].iter().any(|count| *count > 0);
        if accesses && self.memory_mib == 0 {
            return Err(("--noisy-lkup-memory", 0, "accesses need 1 or more"));
        }
        Ok(())
    }

    /// Bytes of the memory that a core accesses.
    pub const fn memory_bytes(&self) -> usize {
        (self.memory_mib as usize) << 20
    }

    /// Bytes of the memory that a stream's queue lies in.
    pub const fn fifo_bytes(&self) -> usize {
        if self.fifo == 0 { 0 } else { Fifo::bytes(self.fifo as usize) }
    }
}

/// The mode of one core.
pub struct Noisy {
    options: Options,
    /// None where there are no queues.
    streams: Vec<Queue>,
    memory: Option<DmaMemory>,
    random: Random,
    /// What a read found goes here, so that it is one.
    found: u8,
    /// Time stamps from one emptying of a queue to the next.
    flush_ticks: Option<u64>,
    finished: bool,
}

/// A stream's queue.
struct Queue {
    fifo: Fifo,
    /// When it was last empty.
    emptied: u64,
    /// It is being emptied.
    emptying: bool,
}

impl Noisy {
    /// The mode with a queue for each stream.
    pub fn new(options: &Options, share: CoreShare) -> Self {
        let now = time_stamp_counter();
        let queue = |fifo| Queue { fifo: Fifo::new(fifo), emptied: now, emptying: false };
        let ticks = u64::from(options.flush_ms) * (share.ticks_per_second / 1000);
        Self {
            options: options.clone(),
            streams: share.fifos.into_iter().map(queue).collect(),
            memory: share.noisy_memory,
            random: Random::new(share.core.into()),
            found: 0,
            flush_ticks: (ticks > 0).then_some(ticks),
            finished: false,
        }
    }

    /// Changes headers, disturbs, and exchanges the frames of `burst` with those whose turn it is.
    pub fn forward(&mut self, isa: Isa, work: &mut Work<'_>, burst: &mut Burst) -> Verdict {
        let received = burst.frames();
        if received > 0 {
            change_headers(self.options.mode, isa, work, burst);
            self.access_memory(received);
        }
        if let Some(queue) = self.streams.get_mut(work.stream) {
            queue.pass(received, burst, work, self.flush_ticks, self.finished);
        }
        Verdict::Send
    }

    /// From now on what is queued is handed out.
    pub fn finish(&mut self) {
        self.finished = true;
    }

    /// The accesses for so many frames.
    fn access_memory(&mut self, frames: usize) {
        let Some(memory) = &self.memory else { return };
        let lines = memory.len() as u64 / LINE;
        let Options { writes, reads, reads_writes, .. } = self.options;
        for _ in 0..frames {
            for _ in 0..u32::from(writes) + u32::from(reads_writes) {
                let at = self.random.below(lines) * LINE;
                let _ = memory.store(at as usize, self.random.next() as u8);
            }
            for _ in 0..u32::from(reads) + u32::from(reads_writes) {
                let at = self.random.below(lines) * LINE;
                self.found ^= memory.load::<u8>(at as usize).unwrap_or(0);
            }
        }
        core::hint::black_box(self.found);
    }
}

impl Queue {
    /// Puts the burst in and takes out whose turn it is. What finds no room in the queue, nor in the burst for those in front
    /// of it, is dropped, the latest first.
    fn pass(
        &mut self,
        received: usize,
        burst: &mut Burst,
        work: &mut Work<'_>,
        flush: Option<u64>,
        all: bool,
    ) {
        let fits = burst.len() <= self.fifo.room();
        self.fifo.put(burst);
        if !fits {
            self.fifo.take(received, burst);
            while self.fifo.is_over_full() && self.fifo.take(1, burst) > 0 {}
            while self.fifo.is_over_full() && self.fifo.give_back_last(work.buffers) {
                work.drops.add(DropReason::TxFull, 1);
            }
            return;
        }
        if let Some(ticks) = flush.filter(|_| !self.emptying) {
            self.emptying = time_stamp_counter().wrapping_sub(self.emptied) >= ticks;
        }
        if self.emptying || all {
            self.fifo.take(work.limit, burst);
            if self.fifo.is_empty() {
                (self.emptying, self.emptied) = (false, time_stamp_counter());
            }
        }
    }
}

#[cfg(test)]
mod tests;
