//! What receive, transmit, `io` and `macswap` of the i40e driver cost a frame, by instruction set and by width of the receive
//! descriptors: ticks of the time stamp counter and, where valgrind is there and knows the instructions, instructions.
//!
//! Rings of 1024 descriptors in ordinary memory, bursts of 32, frames of 60 bytes, 1536 buffers. The card is played on the
//! same core, a quarter of a ring at a time, outside of what is timed; a doorbell is an ordinary store. Without bus and
//! card, so good for comparing loops and for nothing else.
//!
//! A line has the least, the median and the largest of the medians of 25 repetitions. Where the core shares its execution
//! units with a neighbour that is busy now and then, the least is what compares.
//!
//! `cargo bench -p barewire-tests --bench i40e_loops [-- PREFIX]`, for example `avx2-32-io`.

use std::hint::black_box;
use std::process::{Command, ExitCode};

use drivers::i40e::{Rx, Tx};
use hal::hosted::{HostedMachine, MemoryBar, time_stamp};
use hal::simd::{Isa, Level};
use hal::{Bar, BarAccess, DescRing, DmaMemory, Machine, Reg, Wo};
use kernel::forward::{Forwarder, Mode, Route};
use kernel::lcore::{Lcore, Stream};
use kernel::port::{QueueSetup, Recycle};
use kernel::{BLOCK, BufferLayout, Buffers, Burst, Meta, Pool, RxQueue, TxQueue};
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};

/// In the environment of a run under valgrind: the case that is counted.
const COUNTED: &str = "BAREWIRE_BENCH_CASE";

const RING: usize = 1024;
const QUARTER: usize = RING / 4;
const BURST: usize = 32;
const LEN: u32 = 60;
const BUFFERS: usize = 1536;
const RX_TAIL: u32 = 0;
const TX_TAIL: u32 = 256;

type Core = Lcore<Rx<MemoryBar>, Tx<MemoryBar>, Forwarder>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Receive,
    Transmit,
    Forward(Mode),
}

struct Case {
    name: String,
    isa: Isa,
    wide: bool,
    what: What,
}

fn cases() -> Vec<Case> {
    let whats = [
        ("rx", What::Receive),
        ("tx", What::Transmit),
        ("io", What::Forward(Mode::Io)),
        ("macswap", What::Forward(Mode::MacSwap)),
    ];
    let mut cases = Vec::new();
    for isa in Level::ALL.into_iter().filter_map(Isa::exactly) {
        for wide in [true, false] {
            for (name, what) in whats {
                let name = format!("{isa}-{}-{name}", if wide { 32 } else { 16 });
                cases.push(Case { name, isa, wide, what });
            }
        }
    }
    cases
}

/// The core with its rings, and the card.
struct Ground {
    core: Box<Core>,
    burst: Burst,
    bar: MemoryBar,
    rx: DmaMemory,
    tx: DmaMemory,
    stride: usize,
    rx_head: usize,
    tx_head: usize,
}

impl Ground {
    fn new(case: &Case) -> Self {
        let machine = HostedMachine::<MemoryBar>::new(64 << 20).expect("memory");
        let allocate = |len, align| machine.dma_alloc(len, align).expect("memory");
        let bar = MemoryBar::new(allocate(4096, 4096));
        let rx = allocate(RING * 32, 4096);
        // Rings at the same place in their pages would share sets of the first cache.
        let _ = allocate(3072, 64);
        let tx = allocate(RING * 16, 64);
        let layout = BufferLayout::DEFAULT;
        let memory = allocate(layout.bytes(BUFFERS), 2 << 20);
        memory.fill(0x5a);
        let setup = QueueSetup { descriptors: RING as u16, memory: memory.clone(), layout, isa: case.isa };
        let mut pool = Pool::new(memory, layout);
        let rx_tail = bar.doorbell(Reg::<u32, Wo>::at(RX_TAIL));
        let mut queue = if case.wide {
            Rx::wide(0, DescRing::new(rx.clone(), RING).expect("aligned"), rx_tail, &setup)
        } else {
            Rx::narrow(0, DescRing::new(rx.clone(), RING).expect("aligned"), rx_tail, &setup)
        };
        queue.arm(&mut pool);
        let tx_tail = bar.doorbell(Reg::<u32, Wo>::at(TX_TAIL));
        let sender = Tx::new(0, DescRing::new(tx.clone(), RING).expect("aligned"), tx_tail, &setup);
        let mode = if let What::Forward(mode) = case.what { mode } else { Mode::Io };
        let mut core = Box::new(Lcore::new(pool, Forwarder::plain(mode, case.isa), BURST));
        let stream = Stream::new((0, 0), queue, sender, Route::default());
        assert!(core.streams.push(stream).is_ok());
        let stride = if case.wide { 32 } else { 16 };
        Self { core, burst: Burst::new(), bar, rx, tx, stride, rx_head: 0, tx_head: 0 }
    }

    /// The card receives a quarter of a ring and sends everything. Words as the datasheet has them.
    fn card(&mut self) {
        let armed = (self.bar.read32(RX_TAIL) as usize + RING - self.rx_head) % RING;
        let (done, eop, l3l4, hash) = (1_u128, 1 << 1, 1 << 3, 3 << 12);
        let word = done | eop | l3l4 | hash | 24 << 30 | u128::from(LEN) << 38;
        for _ in 0..armed.min(QUARTER) {
            let at = self.rx_head * self.stride;
            self.rx.store(at, word << 64 | 0x1234_5678 << 32).expect("in the ring");
            if self.stride == 32 {
                self.rx.store(at + 16, 0_u128).expect("in the ring");
            }
            self.rx_head = (self.rx_head + 1) % RING;
        }
        let tail = self.bar.read32(TX_TAIL) as usize;
        while self.tx_head != tail {
            let at = self.tx_head * 16 + 8;
            let word: u64 = self.tx.load(at).expect("in the ring");
            if word & 1 << 5 != 0 {
                self.tx.store(at, 0xf_u64).expect("in the ring");
            }
            self.tx_head = (self.tx_head + 1) % RING;
        }
    }

    /// A quarter of a ring, in bursts; returns frames.
    fn work(&mut self, what: What) -> usize {
        match what {
            What::Receive => counted_receive(&mut self.core, &mut self.burst),
            What::Transmit => counted_transmit(&mut self.core, &mut self.burst),
            What::Forward(_) => counted_forward(&mut self.core),
        }
    }
}

/// Buffers go back to the pool, and from there into the ring.
#[inline(never)]
fn counted_receive(core: &mut Core, burst: &mut Burst) -> usize {
    let mut frames = 0;
    for _ in 0..QUARTER / BURST {
        frames += core.streams[0].rx.rx_burst(&mut core.pool, burst, BURST);
        burst.give_back(&mut core.pool);
    }
    frames
}

/// Buffers come back from the ring that they were sent through.
#[inline(never)]
fn counted_transmit(core: &mut Core, burst: &mut Burst) -> usize {
    let mut frames = 0;
    for _ in 0..QUARTER / BURST {
        let stream = &mut core.streams[0];
        let (buffers, metas) = burst.spare();
        let Some(block) = buffers.first_chunk_mut::<BLOCK>() else { break };
        if !(Recycle { sent: &mut stream.tx, pool: &mut core.pool }).take_block(block) {
            break;
        }
        metas.iter_mut().take(BURST).for_each(|meta| *meta = Meta::frame(LEN));
        burst.commit(BURST, Some(u64::from(LEN) * BURST as u64));
        frames += stream.tx.tx_burst(&mut core.pool, burst);
    }
    frames
}

#[inline(never)]
fn counted_forward(core: &mut Core) -> usize {
    (0..QUARTER / BURST).map(|_| core.poll()).sum()
}

/// Ticks a frame: the median of some samples.
fn sample(case: &Case, samples: usize) -> f64 {
    let mut ground = Ground::new(case);
    let mut ticks = Vec::new();
    for round in 0..samples + 200 {
        ground.card();
        let before = time_stamp();
        let frames = black_box(ground.work(case.what));
        let spent = time_stamp() - before;
        assert_eq!(frames, QUARTER, "{}", case.name);
        if round >= 200 {
            ticks.push(spent as f64 / frames as f64);
        }
    }
    median(&mut ticks)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Stays on the core on which it runs: another one has other caches.
fn pin() {
    let mut set = CpuSet::new();
    set.set(sched_getcpu());
    if sched_setaffinity(None, &set).is_err() {
        println!("not pinned to a core: more spread");
    }
}

const REPETITIONS: usize = 25;
const COUNTED_ROUNDS: usize = 40;

/// Instructions a frame, by callgrind; `None` where there is no valgrind, or it does not know the instructions.
fn instructions(case: &Case) -> Option<f64> {
    if case.isa.level() == Level::Avx512 {
        return None;
    }
    let folder = tempfile::tempdir().ok()?;
    let out = folder.path().join("callgrind.out");
    let status = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no", "--toggle-collect=*counted_*"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(std::env::current_exe().ok()?)
        .env(COUNTED, &case.name)
        .output()
        .ok()?
        .status;
    let text = status.success().then(|| std::fs::read_to_string(&out).ok())??;
    let line = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    let total: f64 = line("totals:").or_else(|| line("summary:"))?.split(' ').next()?.parse().ok()?;
    Some(total / (COUNTED_ROUNDS * QUARTER) as f64)
}

fn main() -> ExitCode {
    let cases = cases();
    if let Ok(name) = std::env::var(COUNTED) {
        let Some(case) = cases.iter().find(|case| case.name == name) else { return ExitCode::FAILURE };
        let mut ground = Ground::new(case);
        for _ in 0..COUNTED_ROUNDS {
            ground.card();
            black_box(ground.work(case.what));
        }
        return ExitCode::SUCCESS;
    }
    let prefix = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    let cases: Vec<&Case> = cases.iter().filter(|case| case.name.starts_with(&prefix)).collect();
    pin();
    println!("{:<18} {:>7} {:>7} {:>7} {:>13}", "case", "least", "median", "most", "instructions");
    // One instruction set at a time: a processor may run slower for a while after wide registers were used.
    for cases in cases.chunk_by(|a, b| a.isa == b.isa) {
        let mut ticks = vec![Vec::new(); cases.len()];
        // Its cases in turn, again and again: what disturbs for seconds disturbs all of them.
        for _ in 0..REPETITIONS {
            for (case, ticks) in cases.iter().zip(&mut ticks) {
                ticks.push(sample(case, 400));
            }
        }
        for (case, mut ticks) in cases.iter().zip(ticks) {
            let median = median(&mut ticks);
            let (least, most) = (ticks[0], ticks[ticks.len() - 1]);
            let count = instructions(case).map_or_else(|| "-".into(), |count| format!("{count:.2}"));
            println!("{:<18} {least:>7.2} {median:>7.2} {most:>7.2} {count:>13}", case.name);
        }
    }
    ExitCode::SUCCESS
}
