//! Bursts in memory, and what a mode does to their headers.

use hal::hosted::{HostedMachine, MemoryBar, flush_line};
use hal::simd::Isa;
use hal::{DmaMemory, Machine};
use kernel::forward::{ForwardMode, Forwarder, Mode, Route, Work};
use kernel::{BufferLayout, Burst, Drops, Meta, Pool};

use crate::case::{Bench, Case, Set};

/// Frames of a sample.
const FRAMES: usize = 256;

/// Bursts whose frames are all there.
pub struct Headers {
    mode: Forwarder,
    memory: DmaMemory,
    pool: Pool,
    bursts: Vec<Burst>,
    next: usize,
    count: usize,
    size: usize,
    flushes: bool,
    drops: Drops,
}

impl Headers {
    /// Bursts of a case.
    pub fn new(case: &Case, isa: Isa) -> Self {
        let layout = BufferLayout::DEFAULT;
        let buffers = case.set.buffers();
        let machine = HostedMachine::<MemoryBar>::new(8 << 20).expect("memory");
        let memory = machine.dma_alloc(layout.bytes(buffers), 4096).expect("memory");
        let (burst_len, size) = (usize::from(case.burst), usize::from(case.size));
        let offsets: Vec<u32> =
            (0..buffers as u32).map(|slot| slot * layout.stride + layout.headroom).collect();
        offsets.iter().for_each(|at| memory.copy_in(*at as usize, &frame(size)).expect("in the memory"));
        let bursts = offsets.chunks_exact(burst_len).map(|offsets| burst(offsets, size as u32)).collect();
        let mode = match case.bench {
            Bench::MacAlone => Mode::Mac,
            Bench::MacSwapAlone => Mode::MacSwap,
            Bench::FiveTupleAlone => Mode::FiveTupleSwap,
            Bench::CsumAlone => Mode::Csum,
            _ => Mode::Io,
        };
        let pool = Pool::new(memory.part(0, 0).expect("nothing"), layout);
        let count = FRAMES / burst_len;
        let (mode, flushes) = (Forwarder::plain(mode, isa), case.set == Set::Mem);
        Self { mode, memory, pool, bursts, next: 0, count, size, flushes, drops: Drops::default() }
    }

    /// Takes what comes next out of all caches, if that is asked for.
    pub fn prepare(&mut self) {
        for step in 0..if self.flushes { self.count } else { 0 } {
            let burst = &self.bursts[(self.next + step) % self.bursts.len()];
            for at in burst.buffers() {
                (0..self.size).step_by(64).for_each(|line| flush_line(&self.memory, *at as usize + line));
            }
        }
    }

    /// Some bursts; returns frames.
    #[inline]
    pub fn work(&mut self) -> usize {
        self.counted_headers()
    }

    #[inline(never)]
    fn counted_headers(&mut self) -> usize {
        let Self { mode, memory, pool, bursts, next, count, drops, .. } = self;
        let route = Route::default();
        let mut frames = 0;
        for _ in 0..*count {
            let turn = *next;
            *next = if turn + 1 == bursts.len() { 0 } else { turn + 1 };
            let burst = &mut bursts[turn];
            let mut work = Work { memory, route: &route, stream: 0, limit: 64, buffers: pool, drops };
            mode.forward(&mut work, burst);
            frames += burst.len();
        }
        frames
    }
}

/// A burst of plain frames.
fn burst(offsets: &[u32], size: u32) -> Burst {
    let mut burst = Burst::new();
    let (buffers, metas) = burst.spare();
    buffers[..offsets.len()].copy_from_slice(offsets);
    metas[..offsets.len()].fill(Meta::frame(size));
    burst.commit(offsets.len(), Some(u64::from(size) * offsets.len() as u64));
    burst
}

/// A UDP frame over IPv4.
fn frame(size: usize) -> Vec<u8> {
    let mut frame = vec![0x5a; size];
    let (ip_len, udp_len) = ((size as u16 - 14).to_be_bytes(), (size as u16 - 34).to_be_bytes());
    frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, ip_len[0], ip_len[1], 0, 0, 0, 0, 64, 17]);
    frame[38..42].copy_from_slice(&[udp_len[0], udp_len[1], 1, 1]);
    frame
}
