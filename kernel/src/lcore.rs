//! The loop of one core: receive, forward, transmit, run to completion.
//!
//! A core owns all that it touches on the way of a packet. Drops between receive and transmit are counted by
//! the stream in which they happened, so that for each stream, always:
//! frames received + frames made = frames sent + frames dropped + frames that the mode keeps.

use core::time::Duration;

use hal::clock::time_stamp_counter;
use hal::{Clock, DmaMemory};

use crate::burst::Burst;
use crate::drops::{DropReason, Drops};
use crate::forward::{ForwardMode, Input, ModeOptions, Route, TxOnly, Verdict, Work};
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
    /// Frames that the mode made.
    pub made: u64,
}

impl<R: RxQueue, T: TxQueue> Stream<R, T> {
    /// A stream that has counted nothing, from the first port to the second.
    pub fn new((rx_port, tx_port): (usize, usize), rx: R, tx: T, route: Route) -> Self {
        Self { rx_port, tx_port, rx, tx, route, drops: Drops::default(), made: 0 }
    }

    /// Everything that was dropped in this stream, by its queues too.
    pub fn all_drops(&self) -> Drops {
        let mut drops = self.drops.clone();
        drops.merge(self.rx.drops());
        drops.merge(self.tx.drops());
        drops
    }
}

/// What is done when a transmit ring is full, before frames are dropped: testpmd's `set fwd MODE retry`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// Further tries.
    pub times: u32,
    /// Time stamps between two of them.
    pub delay: u64,
}

/// At the end, when nothing new is received: whatever is on its way gets room.
const LAST_TRIES: Retry = Retry { times: 1000, delay: 20_000 };

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
    retry: Option<Retry>,
    burst: Burst,
}

impl<R: RxQueue, T: TxQueue + 'static, F: ForwardMode> Lcore<R, T, F> {
    /// A core without streams, that handles at most `burst_limit` frames a poll and stream.
    pub fn new(pool: Pool, mode: F, burst_limit: usize) -> Self {
        let memory = pool.memory().clone();
        Self { streams: Streams::new(), pool, memory, mode, burst_limit, retry: None, burst: Burst::new() }
    }

    /// Frames that find no room are tried again before they are dropped.
    pub fn set_retry(&mut self, retry: Option<Retry>) {
        self.retry = retry;
    }

    /// The mode.
    pub const fn mode_mut(&mut self) -> &mut F {
        &mut self.mode
    }

    /// Polls every stream once; returns the frames received or generated.
    pub fn poll(&mut self) -> usize {
        let Self { streams, pool, memory, mode, burst_limit, retry, burst } = self;
        let mut frames = 0;
        for (index, stream) in streams.iter_mut().enumerate() {
            let turn = Turn { index, memory, limit: *burst_limit, retry: *retry };
            frames += turn.poll(stream, pool, mode, burst);
        }
        frames
    }

    /// Takes what has arrived before the queues are stopped, and what the mode kept: polls until nothing comes any more, at
    /// most `polls` times; then nothing is received any more, and the mode hands out the rest. Nothing is made.
    pub fn drain(&mut self, polls: usize) {
        self.mode.finish();
        self.retry = Some(LAST_TRIES);
        (0..polls).take_while(|_| self.poll() > 0).for_each(drop);
        if self.mode.input() != Input::Polls {
            return;
        }
        let Self { streams, pool, memory, mode, burst_limit, retry, burst } = self;
        // Each turn hands out a frame at least, and every frame has a buffer of the pool.
        let turns = pool.capacity();
        for (index, stream) in streams.iter_mut().enumerate() {
            let turn = Turn { index, memory, limit: *burst_limit, retry: *retry };
            (0..turns).take_while(|_| turn.work(stream, pool, mode, burst, 0) > 0).for_each(drop);
        }
    }

    /// Sends `bursts` bursts of `txonly`'s frames on each stream, as testpmd's `--tx-first` does; returns how many frames.
    pub fn send_first(&mut self, bursts: usize, options: &ModeOptions) -> usize {
        let Self { streams, pool, memory, burst_limit, burst, .. } = self;
        let mut made = 0;
        for (index, stream) in streams.iter_mut().enumerate() {
            let turn = Turn { index, memory, limit: *burst_limit, retry: Some(LAST_TRIES) };
            let mut first = First(TxOnly::new(options, 0));
            made += (0..bursts).map(|_| turn.work(stream, pool, &mut first, burst, 0)).sum::<usize>();
        }
        made
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

/// `txonly` for a moment.
struct First(TxOnly);

impl ForwardMode for First {
    fn name(&self) -> &'static str {
        "txonly"
    }
    fn forward(&mut self, work: &mut Work<'_>, burst: &mut Burst) -> Verdict {
        self.0.make(work, burst)
    }
}

/// A poll of one stream.
struct Turn<'a> {
    index: usize,
    memory: &'a DmaMemory,
    limit: usize,
    retry: Option<Retry>,
}

impl Turn<'_> {
    /// Receives and forwards; returns the frames received, made, or handed out.
    #[inline]
    fn poll<R: RxQueue, T: TxQueue + 'static>(
        &self,
        stream: &mut Stream<R, T>,
        pool: &mut Pool,
        mode: &mut impl ForwardMode,
        burst: &mut Burst,
    ) -> usize {
        let mut relayed = Relayed::NOTHING;
        if let Some(touch) = mode.touch(&stream.route) {
            let fast = stream.rx.relay(&mut stream.tx, pool, touch, self.limit);
            relayed = fast.unwrap_or(relayed);
        }
        if relayed.more { self.poll_apart(stream, pool, mode, burst, relayed.frames) } else { relayed.frames }
    }

    /// Receives beyond the `frames` that were relayed, forwards, and sends, each for itself.
    #[inline(never)]
    fn poll_apart<R: RxQueue, T: TxQueue>(
        &self,
        stream: &mut Stream<R, T>,
        pool: &mut Pool,
        mode: &mut impl ForwardMode,
        burst: &mut Burst,
        mut frames: usize,
    ) -> usize {
        let input = mode.input();
        if input != Input::Nothing {
            let mut buffers = Recycle { sent: &mut stream.tx, pool };
            frames += stream.rx.rx_burst(&mut buffers, burst, self.limit.saturating_sub(frames));
            if burst.is_empty() && input == Input::Frames {
                return frames;
            }
        }
        self.work(stream, pool, mode, burst, frames)
    }

    /// Lets the mode work, and does what it says.
    #[inline]
    fn work<R: RxQueue, T: TxQueue>(
        &self,
        stream: &mut Stream<R, T>,
        pool: &mut Pool,
        mode: &mut impl ForwardMode,
        burst: &mut Burst,
        received: usize,
    ) -> usize {
        let Stream { tx, route, drops, made, .. } = stream;
        let verdict = {
            let buffers = &mut Recycle { sent: tx, pool };
            let (memory, route, stream, limit) = (self.memory, &*route, self.index, self.limit);
            mode.forward(&mut Work { memory, route, stream, limit, buffers, drops }, burst)
        };
        match verdict {
            Verdict::Send => {
                let sent = self.send(tx, pool, burst);
                received.max(sent + drop_rest(burst, pool, drops, DropReason::TxFull))
            }
            Verdict::SendMade => {
                let all = burst.frames();
                self.send(tx, pool, burst);
                let unsent = burst.give_back(pool);
                mode.unsent(unsent);
                *made += (all - unsent) as u64;
                received + all - unsent
            }
            Verdict::Drop(reason) => {
                drop_rest(burst, pool, drops, reason);
                received
            }
        }
    }

    /// Sends the burst as far as there is room, and perhaps waits for some.
    #[inline]
    fn send(&self, tx: &mut impl TxQueue, pool: &mut Pool, burst: &mut Burst) -> usize {
        let sent = tx.tx_burst(pool, burst);
        match self.retry {
            Some(retry) if !burst.is_empty() => sent + send_again(retry, tx, pool, burst),
            _ => sent,
        }
    }
}

#[cold]
#[inline(never)]
fn send_again(retry: Retry, tx: &mut impl TxQueue, pool: &mut Pool, burst: &mut Burst) -> usize {
    let mut sent = 0;
    for _ in 0..retry.times {
        let start = time_stamp_counter();
        while time_stamp_counter().wrapping_sub(start) < retry.delay {
            core::hint::spin_loop();
        }
        sent += tx.tx_burst(pool, burst);
        if burst.is_empty() {
            break;
        }
    }
    sent
}

/// Says how many frames that were.
fn drop_rest(burst: &mut Burst, pool: &mut Pool, drops: &mut Drops, reason: DropReason) -> usize {
    if burst.is_empty() {
        return 0;
    }
    let frames = burst.give_back(pool);
    drops.add(reason, frames as u64);
    frames
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
        let mut core = Lcore::new(Pool::new(memory.clone(), layout), Forwarder::plain(mode, Isa::best()), 32);
        let stream = Stream::new(
            (0, 1),
            FakeRx::new(memory.clone(), 2048),
            FakeTx::new(memory, tx_capacity),
            Route::default(),
        );
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

    /// What `noisy` keeps is sent at the end, however much it is, whoever goes on sending, and however full the ring.
    #[test]
    fn nothing_that_a_mode_kept_is_left_at_the_end() {
        use crate::forward::noisy;
        for (tx_capacity, polls, sender_goes_on) in
            [(10_000, 1000, false), (10_000, 2, true), (50, 1000, false), (0, 3, true)]
        {
            let machine = HostedMachine::<FakeBar>::new(1 << 20).unwrap();
            let noisy = noisy::Options { fifo: 200, ..noisy::Options::default() };
            let options = ModeOptions { noisy, ..ModeOptions::default() };
            let fifos = std::vec![machine.dma_alloc(options.noisy.fifo_bytes(), 64).unwrap()];
            let share = crate::forward::CoreShare { fifos, ..Default::default() };
            let layout = BufferLayout::DEFAULT;
            let memory: DmaMemory = machine.dma_alloc(layout.bytes(BUFFERS), 64).unwrap();
            let mode = Forwarder::new(Mode::Noisy, &options, Isa::best(), share);
            let mut core = Lcore::new(Pool::new(memory.clone(), layout), mode, 4);
            let rx = FakeRx::new(memory.clone(), 2048);
            let tx = FakeTx::new(memory, tx_capacity);
            assert!(core.streams.push(Stream::new((0, 1), rx, tx, Route::default())).is_ok());
            for i in 0..150 {
                core.streams[0].rx.arrive(&[i; 60]);
            }
            while core.streams[0].rx.waiting() > if sender_goes_on { 50 } else { 0 } {
                core.poll();
            }
            core.drain(polls);
            let stream = &core.streams[0];
            let sent = stream.tx.counters().frames;
            let received = stream.rx.counters().frames;
            assert_eq!(received, sent + stream.all_drops().get(DropReason::TxFull));
            assert_eq!(sent, received.min(tx_capacity as u64));
            check_buffers(&core);
        }
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
