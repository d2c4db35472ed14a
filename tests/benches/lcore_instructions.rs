//! Instructions that a core executes for a frame, on its own and beside others: receive, `macswap`, transmit, with the
//! driver's rings and a card that works between the polls only. Counted by valgrind's callgrind, frame by frame the same
//! load for each core.
//!
//! `cargo bench -p barewire-tests --bench lcore_instructions`

use std::hint::black_box;
use std::path::Path;
use std::process::{Command, ExitCode};

use kernel::TxQueue;
use kernel::forward::Mode;
use rig::cores::{Core, Cores, Shape};
use rig::frames;

/// In the environment of a run under valgrind: cores, and the one that is counted.
const CORES: &str = "BAREWIRE_BENCH_CORES";
const COUNTED: &str = "BAREWIRE_BENCH_COUNTED";

const ROUNDS: u32 = 100;
const FRAMES: u32 = 64;

fn main() -> ExitCode {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<usize>().ok());
    if let (Some(count), Some(counted)) = (number(CORES), number(COUNTED)) {
        forward(count, counted);
        return ExitCode::SUCCESS;
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: there is no valgrind");
        return ExitCode::SUCCESS;
    }
    println!("cores  core  frames  instructions  a frame");
    let mut alone = None;
    for (count, counted) in [(1, 0), (2, 0), (2, 1), (4, 0), (4, 3)] {
        match count_instructions(count, counted) {
            Ok(instructions) => {
                let frames = ROUNDS * FRAMES;
                let each = instructions as f64 / f64::from(frames);
                println!("{count:>5} {counted:>5} {frames:>7} {instructions:>13} {each:>8.2}");
                if *alone.get_or_insert(instructions) != instructions {
                    eprintln!("{count} cores, core {counted}: not what a core executes on its own");
                    return ExitCode::FAILURE;
                }
            }
            Err(error) => {
                eprintln!("{count} cores, core {counted}: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// Runs this program under callgrind, which counts while the polls of one core run.
fn count_instructions(count: usize, counted: usize) -> Result<u64, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let out = folder.path().join("callgrind.out");
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no", "--toggle-collect=*counted_poll*"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(program)
        .env(CORES, count.to_string())
        .env(COUNTED, counted.to_string())
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    total(&out).ok_or_else(|| "callgrind wrote no total".into())
}

/// The line `totals: N` (or `summary: N`) of what callgrind writes.
fn total(out: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(out).ok()?;
    let line = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    line("totals:").or_else(|| line("summary:"))?.split(' ').next()?.parse().ok()
}

/// Every core gets the same frames, and polls until it has forwarded them.
fn forward(count: usize, counted: usize) {
    let mut rig = Cores::new(count, Shape::PortEach, Mode::MacSwap, 512);
    for round in 0..ROUNDS {
        for n in 0..FRAMES {
            (0..count).for_each(|port| rig.offer(port, frames::flow(round * FRAMES + n, 60 + n as usize)));
        }
        rig.work();
        for (number, core) in rig.cores.iter_mut().enumerate() {
            for _ in 0..FRAMES / 32 {
                black_box(if number == counted { counted_poll(core) } else { core.poll() });
            }
        }
    }
    rig.work();
    for core in &rig.cores {
        assert_eq!(core.streams[0].tx.counters().frames, u64::from(ROUNDS * FRAMES));
    }
}

#[inline(never)]
fn counted_poll(core: &mut Core) -> usize {
    core.poll()
}
