//! DPDK's testpmd beside our loops: ports without a card, `io`, `mac` and `macswap`, cycles a packet as testpmd counts them.

use std::fmt;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::Serialize;

use crate::child;

mod loops;
mod output;

pub use loops::DpdkLoops;

/// Ports and the bench of ours that is beside them: a burst comes from a ring or from nowhere, and goes there.
const PORTS: [&str; 2] = ["net_ring0", "net_null0"];
const MODES: [(&str, &str); 3] = [("io", "i40e-io"), ("mac", "i40e-mac"), ("macswap", "i40e-macswap")];
/// Samples of each mode, how long each is, and how long testpmd may take to come up.
const SAMPLES: usize = 7;
const QUICK_SAMPLES: usize = 3;
const SAMPLE: Duration = Duration::from_millis(300);
const START: Duration = Duration::from_secs(2);
/// Between a run's end and what comes next.
const PAUSE: Duration = Duration::from_millis(100);

/// What testpmd took.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PeerRow {
    /// Program and version.
    pub peer: String,
    /// Its port.
    pub port: &'static str,
    /// Its forwarding mode.
    pub mode: &'static str,
    /// The bench of ours that does the same over rings of descriptors.
    pub beside: &'static str,
    /// Instruction set of its loop, where there are several.
    pub isa: Option<&'static str>,
    /// Frames of a burst.
    pub burst: u16,
    /// Ticks of the time stamp counter a packet: the median of the samples.
    pub tsc_cycles: f64,
    /// The least.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// How many.
    pub samples: usize,
    /// Instructions a packet, where they could be counted.
    pub instructions: Option<f64>,
}

impl fmt::Display for PeerRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = [&self.peer, self.port, self.isa.unwrap_or(""), self.mode];
        let name = name.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
        write!(f, "{name:<36} {:>8.2} {:>8.2} {:>8.2}", self.tsc_cycles, self.min, self.max)?;
        self.instructions.map_or(Ok(()), |count| write!(f, " {count:>12.2}"))
    }
}

/// Times testpmd, if it is installed. `tsc_hz` is ours: testpmd's own measure of it must be near.
///
/// # Errors
/// Why there is nothing beside, in words.
pub fn measure(quick: bool, tsc_hz: u64) -> Result<Vec<PeerRow>, String> {
    let program = find().ok_or("testpmd is not installed (Debian: dpdk-dev), so nothing stands beside")?;
    let samples = if quick { QUICK_SAMPLES } else { SAMPLES };
    let mut rows = Vec::new();
    for port in PORTS {
        let text = run(&program, port, samples).map_err(|error| format!("{}: {error}", program.display()))?;
        let results = output::cycles(&text);
        let version = output::version(&text).map_or("testpmd".into(), |version| format!("testpmd {version}"));
        let hz = output::megahertz(&text).ok_or_else(|| told_nothing(&program, port, &text))?;
        if (hz * 1e6 / tsc_hz as f64 - 1.0).abs() > 0.02 {
            return Err(format!("testpmd takes the counter for {hz} MHz, we for {} MHz", tsc_hz / 1_000_000));
        }
        // The first is testpmd's way up.
        if results.len() != 1 + samples * MODES.len() {
            return Err(told_nothing(&program, port, &text));
        }
        for (index, (mode, beside)) in MODES.into_iter().enumerate() {
            let mut of: Vec<f64> = results.iter().skip(1 + index).step_by(MODES.len()).copied().collect();
            of.sort_by(f64::total_cmp);
            rows.push(PeerRow {
                peer: version.clone(),
                port,
                mode,
                beside,
                isa: None,
                burst: 32,
                tsc_cycles: of[of.len() / 2],
                min: of[0],
                max: of[of.len() - 1],
                samples: of.len(),
                instructions: None,
            });
        }
    }
    Ok(rows)
}

fn told_nothing(program: &Path, port: &str, text: &str) -> String {
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing").trim();
    format!("{} with {port} told no cycles; its last line: {last}", program.display())
}

fn find() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let names = ["dpdk-testpmd", "testpmd"];
    std::env::split_paths(&folders)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|path| path.is_file())
}

/// Carries out a session by testpmd's console; returns all that it said.
fn run(program: &Path, port: &str, samples: usize) -> std::io::Result<String> {
    let (mut out, into) = std::io::pipe()?;
    let mut command = Command::new(program);
    command
        .args(["--lcores", "0@1,1@1", "--no-pci", "--no-telemetry", "-v", "-m", "256"])
        .args(["--file-prefix", &format!("barewire{}", std::process::id())])
        .arg(format!("--vdev={port}"))
        .args(if has_huge_pages() { ["--in-memory"] } else { ["--no-huge"] })
        .args(["--", "-i", "--nb-cores=1", "--total-num-mbufs=16384", "--rxd=1024", "--txd=1024"])
        .arg("--record-core-cycles")
        .stdin(Stdio::piped())
        .stdout(into.try_clone()?)
        .stderr(into);
    child::dies_with_us(&mut command);
    let mut process = command.spawn()?;
    // Its ends of the pipe are the only ones then.
    drop(command);
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = out.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let said = converse(&mut process, port, samples);
    // It ends when it has read everything; a session that broke off is ended.
    if said.is_err() {
        let _ = process.kill();
    }
    process.wait()?;
    let text = reader.join().unwrap_or_default();
    // Why it took no more is in what it said.
    Ok(text)
}

fn converse(process: &mut std::process::Child, port: &str, samples: usize) -> std::io::Result<()> {
    let mut console = process.stdin.take().ok_or(std::io::ErrorKind::BrokenPipe)?;
    // A ring has what was put into it, and forgets it with each start.
    let start = if port.starts_with("net_ring") { "start tx_first 8" } else { "start" };
    let mut sample = |mode: &str, time| {
        console.write_all(format!("set fwd {mode}\n{start}\n").as_bytes())?;
        std::thread::sleep(time);
        console.write_all(b"stop\n")?;
        // What the console echoes would come into the middle of what is said of the run.
        std::thread::sleep(PAUSE);
        Ok::<(), std::io::Error>(())
    };
    sample("io", START)?;
    for _ in 0..samples {
        for (mode, _) in MODES {
            sample(mode, SAMPLE)?;
        }
    }
    console.write_all(b"quit\n")
}

/// 256 MiB of huge pages are free.
fn has_huge_pages() -> bool {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let number = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_ascii_whitespace().next()?.parse::<u64>().ok()
    };
    let (free, kib) = (number("HugePages_Free:").unwrap_or(0), number("Hugepagesize:").unwrap_or(0));
    free * kib >= 256 << 10
}
