//! A core with its rings, and the card that is played between the samples.

use std::hint::black_box;

use drivers::i40e::{Rx, Tx};
use hal::hosted::{HostedMachine, MemoryBar, flush_line};
use hal::simd::Isa;
use hal::{Bar, BarAccess, DescRing, DmaMemory, Machine, Reg, Wo};
use kernel::forward::{Forwarder, Mode, Route};
use kernel::lcore::{Lcore, Stream};
use kernel::port::{QueueSetup, Recycle};
use kernel::{BLOCK, BufferLayout, Buffers, Burst, Meta, Pool, RxQueue, TxQueue};

use crate::case::{Bench, Case, Set};
use crate::headers::Headers;

const RX_TAIL: u32 = 0;
const TX_TAIL: u32 = 256;

/// The loop of a core as the image has it.
pub type Core = Lcore<Rx<MemoryBar>, Tx<MemoryBar>, Forwarder>;

/// What a case runs on.
pub enum Ground {
    /// Rings, and a card.
    Rings(Box<Rings>),
    /// Bursts in memory.
    Headers(Box<Headers>),
}

impl Ground {
    /// The ground of a case; `None` where this machine lacks its instructions.
    pub fn new(case: &Case) -> Option<Self> {
        let isa = case.isa.isa()?;
        Some(if case.bench.has_rings() {
            Self::Rings(Box::new(Rings::new(case, isa)))
        } else {
            Self::Headers(Box::new(Headers::new(case, isa)))
        })
    }

    /// What comes before a sample and is not timed.
    pub fn prepare(&mut self) {
        match self {
            Self::Rings(rings) => {
                rings.card();
                if rings.bench == Bench::Tx {
                    rings.fill_lengths();
                }
            }
            Self::Headers(headers) => headers.prepare(),
        }
    }

    /// What is timed; returns frames.
    #[inline]
    pub fn work(&mut self) -> usize {
        match self {
            Self::Rings(rings) => rings.work(),
            Self::Headers(headers) => headers.work(),
        }
    }
}

/// A core with its rings, and the card.
pub struct Rings {
    bench: Bench,
    core: Core,
    burst: Burst,
    burst_len: usize,
    /// Buffers of a block that bursts shorter than one have not taken yet.
    stash: Vec<u32>,
    size: u32,
    ring: usize,
    stride: usize,
    flushes: bool,
    bar: MemoryBar,
    rx: DmaMemory,
    tx: DmaMemory,
    memory: DmaMemory,
    rx_head: usize,
    tx_head: usize,
}

impl Rings {
    fn new(case: &Case, isa: Isa) -> Self {
        let ring = usize::from(case.ring);
        let machine = HostedMachine::<MemoryBar>::new(8 << 20).expect("memory");
        let allocate = |len, align| machine.dma_alloc(len, align).expect("memory");
        let bar = MemoryBar::new(allocate(4096, 4096));
        let rx = allocate(ring * 32, 4096);
        // Rings at the same place in their pages would share sets of the first cache.
        let _ = allocate(3072, 64);
        let tx = allocate(ring * 16, 64);
        let layout = BufferLayout::DEFAULT;
        let memory = allocate(layout.bytes(Set::L2.buffers()), 4096);
        memory.fill(0x5a);
        let setup = QueueSetup { descriptors: case.ring, memory: memory.clone(), layout, isa };
        let mut pool = Pool::new(memory.clone(), layout);
        if case.set == Set::L1 {
            few_buffers(&mut pool, case.set.buffers());
        }
        let rx_ring = || DescRing::new(rx.clone(), ring).expect("aligned");
        let rx_tail = bar.doorbell(Reg::<u32, Wo>::at(RX_TAIL));
        let mut queue = match case.desc {
            32 => Rx::wide(0, rx_ring(), rx_tail, &setup),
            _ => Rx::narrow(0, DescRing::new(rx.clone(), ring).expect("aligned"), rx_tail, &setup),
        };
        queue.arm(&mut pool);
        let tx_tail = bar.doorbell(Reg::<u32, Wo>::at(TX_TAIL));
        let sender = Tx::new(0, DescRing::new(tx.clone(), ring).expect("aligned"), tx_tail, &setup);
        let mode = match case.bench {
            Bench::Mac => Mode::Mac,
            Bench::MacSwap => Mode::MacSwap,
            _ => Mode::Io,
        };
        let mut core = Lcore::new(pool, Forwarder::plain(mode, isa), usize::from(case.burst));
        let stream = Stream::new((0, 0), queue, sender, Route::default());
        assert!(core.streams.push(stream).is_ok());
        Self {
            bench: case.bench,
            core,
            burst: Burst::new(),
            burst_len: usize::from(case.burst),
            stash: Vec::with_capacity(2 * BLOCK),
            size: case.size.into(),
            ring,
            stride: case.desc.into(),
            flushes: case.set == Set::Mem,
            bar,
            rx,
            tx,
            memory,
            rx_head: 0,
            tx_head: 0,
        }
    }

    const fn quarter(&self) -> usize {
        self.ring / 4
    }

    /// The card receives a quarter of a ring and sends everything. Words as the datasheet has them.
    fn card(&mut self) {
        let armed = (self.bar.read32(RX_TAIL) as usize + self.ring - self.rx_head) % self.ring;
        let (done, eop, l3l4, hash) = (1_u128, 1 << 1, 1 << 3, 3 << 12);
        let word = done | eop | l3l4 | hash | 24 << 30 | u128::from(self.size) << 38;
        for _ in 0..armed.min(self.quarter()) {
            let at = self.rx_head * self.stride;
            if self.flushes {
                let buffer: u64 = self.rx.load(at).expect("in the ring");
                let header = buffer.wrapping_sub(self.memory.addr().as_u64()) as usize;
                flush_line(&self.memory, header);
            }
            self.rx.store(at, word << 64 | 0x1234_5678 << 32).expect("in the ring");
            if self.stride == 32 {
                self.rx.store(at + 16, 0_u128).expect("in the ring");
            }
            if self.flushes {
                flush_line(&self.rx, at);
            }
            self.rx_head = (self.rx_head + 1) % self.ring;
        }
        let tail = self.bar.read32(TX_TAIL) as usize;
        while self.tx_head != tail {
            let at = self.tx_head * 16 + 8;
            let word: u64 = self.tx.load(at).expect("in the ring");
            if word & 1 << 5 != 0 {
                self.tx.store(at, 0xf_u64).expect("in the ring");
                if self.flushes {
                    flush_line(&self.tx, at);
                }
            }
            self.tx_head = (self.tx_head + 1) % self.ring;
        }
    }

    /// Whoever has frames sent has written their lengths, which is no part of sending.
    fn fill_lengths(&mut self) {
        let (_, metas) = self.burst.spare();
        metas[..self.burst_len].fill(Meta::frame(self.size));
    }

    /// A quarter of a ring, in bursts; returns frames.
    #[inline]
    fn work(&mut self) -> usize {
        match self.bench {
            Bench::Rx => self.counted_receive(),
            Bench::Tx => self.counted_transmit(),
            _ => self.counted_forward(),
        }
    }

    /// Buffers go back to the pool, and from there into the ring.
    #[inline(never)]
    fn counted_receive(&mut self) -> usize {
        let mut frames = 0;
        for _ in 0..self.quarter() / self.burst_len {
            frames += self.core.streams[0].rx.rx_burst(&mut self.core.pool, &mut self.burst, self.burst_len);
            self.burst.give_back(&mut self.core.pool);
        }
        frames
    }

    /// Buffers come back from the ring that they were sent through, a block at a time.
    #[inline(never)]
    fn counted_transmit(&mut self) -> usize {
        let quarter = self.quarter();
        let Self { core, burst, burst_len, stash, size, .. } = self;
        let len = *burst_len;
        let mut frames = 0;
        for _ in 0..quarter / len {
            let stream = &mut core.streams[0];
            // Their lengths stand there already, see `fill_lengths`.
            let (buffers, _) = burst.spare();
            let mut recycle = Recycle { sent: &mut stream.tx, pool: &mut core.pool };
            if len >= BLOCK {
                let (blocks, _) = buffers[..len].as_chunks_mut::<BLOCK>();
                if !blocks.iter_mut().all(|block| recycle.take_block(block)) {
                    break;
                }
            } else {
                let mut block = [0; BLOCK];
                if stash.len() < len {
                    if !recycle.take_block(&mut block) {
                        break;
                    }
                    stash.extend_from_slice(&block);
                }
                let rest = stash.len() - len;
                buffers[..len].copy_from_slice(&stash[rest..]);
                stash.truncate(rest);
            }
            burst.commit(len, Some(u64::from(*size) * len as u64));
            frames += stream.tx.tx_burst(&mut core.pool, burst);
        }
        frames
    }

    #[inline(never)]
    fn counted_forward(&mut self) -> usize {
        (0..self.quarter() / self.burst_len).map(|_| black_box(&mut self.core).poll()).sum()
    }
}

/// Puts `count` buffers into the pool again and again, in place of those that were there.
fn few_buffers(pool: &mut Pool, count: usize) {
    let mut all = Vec::new();
    while let Some(buffer) = pool.take() {
        all.push(buffer);
    }
    let few: Vec<u32> = all.iter().cycle().take(count).copied().collect();
    (0..all.len()).for_each(|index| pool.give(&[few[index % count]]));
}
