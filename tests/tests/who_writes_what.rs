//! Who writes what on the way of a packet: all memory of the process is compared before and after each poll of each core,
//! line by line. No cache line is written by two cores.
//!
//! The heap is the image's: every allocation has lines of its own. Cards work between the polls, and the stack, which each
//! core has for itself, is not looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hal::hosted::HostClock;
use hal::{Line, LineHeap};
use kernel::forward::Mode;
use kernel::lcore::Flow;
use kernel::{RxQueue, TxQueue};
use libtest_mimic::{Arguments, Failed, Trial};
use rig::cores::{Cores, Part, Shape};
use rig::frames;
use rig::machine::ensure;

#[global_allocator]
static HEAP: LineHeap<std::alloc::System> = LineHeap(std::alloc::System);

/// What all cores read, as in the image.
static STOP: Line<AtomicBool> = Line(AtomicBool::new(false));

const LINE: usize = 64;
/// Bytes that are compared at once.
const CHUNK: usize = 1 << 16;
/// Most memory that is watched: mostly the registers of the cards.
const MOST: usize = 128 << 20;
const MOST_LINES: usize = 1 << 16;

/// A mapping of the process that can be written.
#[derive(Debug, Clone)]
struct Mapping {
    range: Range<usize>,
    /// Of device memory: which byte of it the mapping begins with.
    device: Option<u64>,
}

/// The thread's own memory behind its variables: the kernel writes there which CPU it runs on (rseq).
fn thread() -> Range<usize> {
    const BYTES: usize = 8192;
    thread_local!(static HERE: u8 = const { 0 });
    let here = HERE.with(|here| (&raw const *here).addr()) / LINE * LINE;
    here..here + BYTES
}

/// All memory of the process but the stacks, the thread's own and what the watch itself has, and a copy of it.
struct Watch {
    memory: File,
    mappings: Vec<Mapping>,
    copy: Vec<u8>,
    now: Vec<u8>,
    changed: Vec<usize>,
}

impl Watch {
    fn new() -> Self {
        let mut this = Self {
            memory: File::open("/proc/self/mem").expect("procfs"),
            mappings: Vec::new(),
            copy: vec![0; MOST],
            now: vec![0; CHUNK],
            changed: Vec::with_capacity(MOST_LINES),
        };
        let maps = std::fs::read_to_string("/proc/self/maps").expect("procfs");
        let mut mappings: Vec<Mapping> = maps.lines().filter_map(mapping).collect();
        // Each card maps the device memory, too: one view of it will do.
        let mut seen = false;
        mappings.retain(|mapping| mapping.device.is_none() || !std::mem::replace(&mut seen, true));
        let list = this.changed.as_ptr().addr();
        let list = list..list + this.changed.capacity() * size_of::<usize>();
        for own in [addresses(&this.copy), addresses(&this.now), list, thread()] {
            mappings = mappings.into_iter().flat_map(|mapping| mapping.without(&own)).collect();
        }
        this.mappings = mappings;
        this
    }

    /// Lines that `work` changes.
    fn changes(&mut self, work: impl FnOnce()) -> &[usize] {
        let Self { memory, mappings, copy, now, changed } = self;
        changed.clear();
        for Chunk { at, len, place } in chunks(mappings) {
            memory.read_exact_at(&mut copy[place..place + len], at as u64).expect("own memory");
        }
        work();
        for Chunk { at, len, place } in chunks(mappings) {
            let (now, before) = (&mut now[..len], &copy[place..place + len]);
            memory.read_exact_at(now, at as u64).expect("own memory");
            if *now == *before {
                continue;
            }
            let lines = now.chunks(LINE).zip(before.chunks(LINE)).enumerate();
            for (line, _) in lines.filter(|(_, (now, before))| now != before) {
                assert!(changed.len() < changed.capacity(), "more lines than are kept");
                changed.push(at + line * LINE);
            }
        }
        changed
    }

    /// The byte of device memory at an address.
    fn device(&self, at: usize) -> Option<u64> {
        let mapping = self.mappings.iter().find(|mapping| mapping.range.contains(&at))?;
        Some(mapping.device? + (at - mapping.range.start) as u64)
    }
}

impl Mapping {
    /// What is left of it without whole lines of `hole`.
    fn without(self, hole: &Range<usize>) -> impl Iterator<Item = Self> {
        let Self { range, device } = self;
        let (start, end) = (hole.start.next_multiple_of(LINE), hole.end / LINE * LINE);
        let parts = [range.start..range.end.min(start), range.start.max(end)..range.end];
        parts.into_iter().filter(|part| !part.is_empty()).map(move |part| {
            let device = device.map(|device| device + (part.start - range.start) as u64);
            Self { range: part, device }
        })
    }
}

fn addresses(bytes: &[u8]) -> Range<usize> {
    let start = bytes.as_ptr().addr();
    start..start + bytes.len()
}

/// A line of `/proc/self/maps`, if it is of memory that can be written and is no stack.
fn mapping(line: &str) -> Option<Mapping> {
    let mut words = line.split_whitespace();
    let (range, rights, offset) = (words.next()?, words.next()?, words.next()?);
    let name = words.nth(2).unwrap_or("");
    let (start, end) = range.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    let wanted = rights.starts_with("rw") && name != "[stack]";
    let device = name.starts_with("/memfd:barewire-dma").then(|| number(offset)).flatten();
    let range = number(start)?..number(end)?;
    wanted.then_some(Mapping { range, device: device.map(|offset| offset as u64) })
}

/// A piece that is compared at once.
struct Chunk {
    at: usize,
    len: usize,
    /// Where it lies in the copy.
    place: usize,
}

fn chunks(mappings: &[Mapping]) -> impl Iterator<Item = Chunk> {
    let mut place = 0;
    let starts = |range: Range<usize>| range.clone().step_by(CHUNK).zip(std::iter::repeat(range.end));
    mappings.iter().flat_map(move |mapping| starts(mapping.range.clone())).map(move |(at, end)| {
        let chunk = Chunk { at, len: CHUNK.min(end - at), place };
        place += chunk.len;
        chunk
    })
}

fn main() -> ExitCode {
    let mut args = Arguments::from_args();
    // On the main thread, whose stack is a mapping of its own.
    args.test_threads = Some(1);
    let modes = [Mode::Io, Mode::MacSwap, Mode::RxOnly, Mode::TxOnly];
    let cases =
        modes.map(|mode| (Shape::PortEach, mode)).into_iter().chain([(Shape::OnePort, Mode::MacSwap)]);
    let trials = cases.map(|(shape, mode)| {
        let ports = if shape == Shape::OnePort { "of_one_port" } else { "of_two_ports" };
        let name = format!("no_line_is_written_by_two_cores_{ports}_{}", mode.name());
        Trial::test(name, move || watch(shape, mode))
    });
    libtest_mimic::run(&args, trials.collect()).exit_code()
}

/// Frames that each core has got, in rounds of many lengths, so that rings and pools are gone through several times.
const ROUNDS: u32 = 9;
const FRAMES: u32 = 60;
const DESCRIPTORS: u16 = 128;

fn watch(shape: Shape, mode: Mode) -> Result<(), Failed> {
    let count = 2;
    let mut rig = Cores::new(count, shape, mode, DESCRIPTORS);
    let mut written: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); count];
    let clock = HostClock::default();
    let mut watch = Watch::new();
    for round in 0..ROUNDS {
        for (port, n) in (0..count).flat_map(|port| (0..FRAMES).map(move |n| (port, round * FRAMES + n))) {
            rig.offer(port, frames::flow(n * 8 + port as u32, 60 + (n as usize * 37) % 4000));
        }
        rig.work();
        for (core, written) in rig.cores.iter_mut().zip(&mut written) {
            let changed = watch.changes(|| {
                let mut polls = 0;
                core.run(&clock, Duration::from_nanos(1), |_| {
                    polls += 1;
                    if polls > 4 || STOP.0.load(Ordering::Relaxed) { Flow::Stop } else { Flow::Continue }
                });
            });
            written.extend(changed);
        }
    }
    rig.work();
    println!("\n{}", table(&watch, &rig, &written));
    for (core, stream) in rig.cores.iter().map(|core| &core.streams[0]).enumerate() {
        let (received, sent) = (stream.rx.counters().frames, stream.tx.counters().frames);
        let busy = if mode == Mode::TxOnly { sent > 500 } else { received >= u64::from(DESCRIPTORS) * 3 };
        ensure(busy, || format!("core {core} received {received} frames and sent {sent}"))?;
        ensure(!written[core].is_empty(), || format!("core {core} wrote nothing"))?;
    }
    let shared: Vec<String> =
        written[0].intersection(&written[1]).map(|line| name(&watch, &rig, *line)).collect();
    ensure(shared.is_empty(), || format!("two cores write {shared:?}"))?;
    for part in &rig.parts {
        for (core, lines) in written.iter().enumerate().filter(|(core, _)| *core != part.core) {
            let foreign = lines.iter().filter(|line| inside(&watch, part, **line)).count();
            ensure(foreign == 0, || format!("core {core} writes {foreign} lines of {}", part.name))?;
        }
    }
    let stop = (&raw const STOP).addr();
    let flag = written.iter().filter(|lines| lines.contains(&stop)).count();
    ensure(flag == 0 && stop.is_multiple_of(128), || format!("{flag} cores write the line of the stop flag"))
}

fn inside(watch: &Watch, part: &Part, line: usize) -> bool {
    watch.device(line).is_some_and(|device| part.range.contains(&device))
}

/// What lies in a line.
fn name(watch: &Watch, rig: &Cores, line: usize) -> String {
    if let Some(part) = rig.parts.iter().find(|part| inside(watch, part, line)) {
        return part.name.clone();
    }
    let lcore = rig.cores.iter().position(|core| {
        let start = (&raw const **core).addr();
        (start..start + size_of_val(&**core)).contains(&line)
    });
    match lcore {
        Some(core) => format!("loop of core {core}"),
        None => "heap: software side of rings, free buffers, tails".into(),
    }
}

/// For each thing that is written, the number of its lines that each core writes.
fn table(watch: &Watch, rig: &Cores, written: &[BTreeSet<usize>]) -> String {
    let mut rows: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (core, lines) in written.iter().enumerate() {
        for line in lines {
            rows.entry(name(watch, rig, *line)).or_insert_with(|| vec![0; written.len()])[core] += 1;
        }
    }
    let mut text = format!("{:<50} lines written by each core", "");
    for (name, counts) in rows {
        text += &format!("\n{name:<50}");
        counts.iter().for_each(|count| text += &format!(" {count:>6}"));
    }
    text
}
