//! The loop of one core: receive, forward, transmit, run to completion.
//!
//! A core owns all that it touches on the way of a packet. Drops between receive and transmit are counted by
//! the stream in which they happened, so that for each stream, always:
//! frames received = frames sent + frames dropped.

use core::time::Duration;

use hal::{Clock, DmaMemory};

use crate::burst::Burst;
use crate::drops::{DropReason, Drops};
use crate::forward::{ForwardMode, Route, Verdict};
use crate::pool::Pool;
use crate::port::{Recycle, Relayed, RxQueue, TxQueue};

/// A receive queue and the transmit queue that sends what it received.
pub struct Stream<R, T> {
    /// Port that receives.
    pub rx_port: usize,
    /// Port that sends.
    pub tx_port: usize,
    /// Its receive queue.
    pub rx: R,
    /// Its transmit queue; no other stream uses it.
    pub tx: T,
    /// Addresses for the mode.
    pub route: Route,
    /// Frames dropped between the two queues.
    pub drops: Drops,
}

impl<R: RxQueue, T: TxQueue> Stream<R, T> {
    /// Everything that was dropped in this stream, by its queues too.
    pub fn all_drops(&self) -> Drops {
        let mut drops = self.drops.clone();
        drops.merge(self.rx.drops());
        drops.merge(self.tx.drops());
        drops
    }
}

/// Streams that one core can have.
pub const MAX_STREAMS: usize = 64;

/// Streams of one core.
pub type Streams<R, T> = heapless::Vec<Stream<R, T>, MAX_STREAMS>;

/// What the service function of a loop wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Go on.
    Continue,
    /// End after this poll.
    Stop,
}

/// One core's share of the work, on cache lines of its own: no other core writes near it.
#[repr(align(128))]
pub struct Lcore<R, T, F> {
    /// Its streams.
    pub streams: Streams<R, T>,
    /// Its buffers.
    pub pool: Pool,
    /// The pool's memory, by a handle of its own: the pool gives buffers away while they are written.
    memory: DmaMemory,
    mode: F,
    burst_limit: usize,
    burst: Burst,
}

impl<R: RxQueue, T: TxQueue + 'static, F: ForwardMode> Lcore<R, T, F> {
    /// A core without streams, that handles at most `burst_limit` frames a poll and stream.
    pub fn new(pool: Pool, mode: F, burst_limit: usize) -> Self {
        let memory = pool.memory().clone();
        Self { streams: Streams::new(), pool, memory, mode, burst_limit, burst: Burst::new() }
    }

    /// Polls every stream once; returns the frames received or generated.
    pub fn poll(&mut self) -> usize {
        let Self { streams, pool, memory, mode, burst_limit, burst } = self;
        let mut frames = 0;
        for stream in streams {
            frames += if mode.generates() {
                generate(stream, memory, pool, mode, burst, *burst_limit)
            } else {
                forward(stream, pool, mode, burst, *burst_limit)
            };
        }
        frames
    }

    /// Takes what has arrived before the queues are stopped: polls until nothing comes any more, at most `polls` times. A
    /// mode that makes frames makes none.
    pub fn drain(&mut self, polls: usize) {
        if !self.mode.generates() {
            (0..polls).take_while(|_| self.poll() > 0).for_each(drop);
        }
    }

    /// Polls until `service` says stop; it is called about every `period`, and the first time at once.
    pub fn run<C: Clock>(&mut self, clock: &C, period: Duration, mut service: impl FnMut(&mut Self) -> Flow) {
        let period = clock.to_ticks(period);
        let mut last = clock.ticks();
        while service(self) == Flow::Continue {
            loop {
                self.poll();
                let now = clock.ticks();
                if now.wrapping_sub(last) >= period {
                    last = now;
                    break;
                }
            }
        }
    }
}

fn forward<R: RxQueue, T: TxQueue + 'static>(
    stream: &mut Stream<R, T>,
    pool: &mut Pool,
    mode: &mut impl ForwardMode,
    burst: &mut Burst,
    limit: usize,
) -> usize {
    let mut relayed = Relayed::NOTHING;
    if let Some(touch) = mode.touch() {
        let fast = stream.rx.relay(&mut stream.tx, pool, touch, limit);
        relayed = fast.unwrap_or(relayed);
    }
    if !relayed.more {
        return relayed.frames;
    }
    let mut buffers = Recycle { sent: &mut stream.tx, pool };
    let frames = relayed.frames + stream.rx.rx_burst(&mut buffers, burst, limit - relayed.frames);
    if burst.is_empty() {
        return frames;
    }
    match mode.forward(pool.memory(), &stream.route, burst) {
        Verdict::Send => {
            stream.tx.tx_burst(pool, burst);
            drop_rest(burst, pool, &mut stream.drops, DropReason::TxFull);
        }
        Verdict::Drop(reason) => drop_rest(burst, pool, &mut stream.drops, reason),
    }
    frames
}

fn generate<R: RxQueue, T: TxQueue>(
    stream: &mut Stream<R, T>,
    memory: &DmaMemory,
    pool: &mut Pool,
    mode: &mut impl ForwardMode,
    burst: &mut Burst,
    limit: usize,
) -> usize {
    mode.generate(memory, &stream.route, &mut Recycle { sent: &mut stream.tx, pool }, burst, limit);
    let frames = stream.tx.tx_burst(pool, burst);
    // What did not fit never came in and was never sent: it is not a frame yet.
    burst.give_back(pool);
    frames
}

fn drop_rest(burst: &mut Burst, pool: &mut Pool, drops: &mut Drops, reason: DropReason) {
    if !burst.is_empty() {
        drops.add(reason, burst.give_back(pool) as u64);
    }
}

#[cfg(test)]
mod tests {
    use hal::Machine;
    use hal::hosted::{FakeBar, HostedMachine};
    use hal::simd::Isa;

    use super::*;
    use crate::forward::{Forwarder, Mode};
    use crate::pool::{BufferLayout, Buffers};
    use crate::port::fake::{FakeRx, FakeTx};

    const BUFFERS: usize = 256;

    fn core(mode: Mode, tx_capacity: usize) -> Lcore<FakeRx, FakeTx, Forwarder> {
        let machine = HostedMachine::<FakeBar>::new(1 << 20).unwrap();
        let layout = BufferLayout::DEFAULT;
        let memory: DmaMemory = machine.dma_alloc(layout.bytes(BUFFERS), 64).unwrap();
        let mut core =
            Lcore::new(Pool::new(memory.clone(), layout), Forwarder::new(mode, 64, Isa::best()), 32);
        let stream = Stream {
            rx_port: 0,
            tx_port: 1,
            rx: FakeRx::new(memory.clone(), 2048),
            tx: FakeTx::new(memory, tx_capacity),
            route: Route::default(),
            drops: Drops::default(),
        };
        assert!(core.streams.push(stream).is_ok());
        core
    }

    fn check_buffers(core: &Lcore<FakeRx, FakeTx, Forwarder>) {
        assert_eq!(core.pool.available() + core.streams[0].tx.held(), BUFFERS);
        assert_eq!(core.pool.excess(), 0);
    }

    #[test]
    fn every_frame_is_sent_in_order_or_dropped_under_a_name() {
        let mut core = core(Mode::Io, 100);
        for i in 0..150_u8 {
            core.streams[0].rx.arrive(&[i; 60]);
        }
        while core.poll() > 0 {}
        let stream = &core.streams[0];
        let drops = stream.all_drops();
        assert_eq!(stream.rx.counters().frames, stream.tx.counters().frames + drops.total());
        assert_eq!((stream.tx.sent.len(), drops.get(DropReason::TxFull)), (100, 50));
        assert!(stream.tx.sent.iter().enumerate().all(|(i, frame)| frame[..] == [i as u8; 60]));
        check_buffers(&core);
    }

    #[test]
    fn rxonly_drops_everything_under_its_own_name() {
        let mut core = core(Mode::RxOnly, 100);
        for len in [60, 2048, 2049, 9728] {
            core.streams[0].rx.arrive(&std::vec![1; len]);
        }
        core.poll();
        let stream = &core.streams[0];
        assert_eq!((stream.drops.get(DropReason::RxOnly), stream.drops.total()), (4, 4));
        assert!(stream.tx.sent.is_empty());
        check_buffers(&core);
    }

    #[test]
    fn a_frame_in_several_buffers_comes_out_whole() {
        let mut core = core(Mode::Io, 100);
        let frame: std::vec::Vec<u8> = (0..9728).map(|i| (i % 251) as u8).collect();
        core.streams[0].rx.arrive(&frame);
        core.poll();
        assert_eq!(core.streams[0].tx.sent, [frame]);
        check_buffers(&core);
    }

    #[test]
    fn txonly_sends_until_the_ring_is_full_and_counts_no_drop() {
        let mut core = core(Mode::TxOnly, 100);
        core.streams[0].rx.arrive(&[0; 60]);
        for _ in 0..10 {
            core.poll();
        }
        let stream = &core.streams[0];
        assert_eq!(stream.rx.waiting(), 1);
        assert!(stream.tx.sent.len() >= 100 && stream.all_drops().total() == 0);
        check_buffers(&core);
    }

    /// A ring that was full, and a pool that was empty, go on by themselves.
    #[test]
    fn starvation_ends_when_buffers_come_back() {
        let mut core = core(Mode::Io, 10_000);
        for _ in 0..BUFFERS + 100 {
            core.streams[0].rx.arrive(&[7; 60]);
        }
        while core.poll() > 0 {}
        assert_eq!((core.streams[0].rx.waiting(), core.pool.available()), (100, 0));
        let mut block = [0; crate::pool::BLOCK];
        assert!(core.streams[0].tx.take_sent(&mut block));
        core.pool.give(&block);
        assert_eq!(core.poll(), 32);
    }

    #[test]
    fn the_loop_ends_when_the_service_says_so() {
        let mut core = core(Mode::Io, 100);
        let clock = hal::hosted::HostClock::default();
        let mut calls = 0;
        core.run(&clock, Duration::from_micros(10), |core| {
            calls += 1;
            core.streams[0].rx.arrive(&[1; 60]);
            if calls == 5 { Flow::Stop } else { Flow::Continue }
        });
        assert_eq!((calls, core.streams[0].tx.sent.len()), (5, 4));
    }
}
