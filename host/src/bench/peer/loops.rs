//! DPDK's own i40e loops beside ours, over rings in memory as ours are timed: a small C program (`host/bench/peer`) that is
//! built where DPDK's development files are installed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bench::count;
use tempfile::TempDir;

use super::{PeerRow, has_huge_pages};
use crate::{child, image};

/// Loops, each under the name of the bench of ours that does the same.
const LOOPS: [&str; 4] = ["i40e-rx", "i40e-tx", "i40e-io", "i40e-macswap"];
const SETS: [&str; 3] = ["ssse3", "avx2", "avx512"];
/// Rounds of a quarter of a ring of 1024 that are counted, as ours are.
const ROUNDS: usize = 4;
const QUARTER: usize = 256;

/// The program, built, and what it has told so far.
pub struct DpdkLoops {
    folder: TempDir,
    core: usize,
    version: String,
    /// Ticks of each turn, by loop and instruction set.
    turns: Vec<Vec<f64>>,
}

impl DpdkLoops {
    /// Builds it, to be run on core `core`.
    ///
    /// # Errors
    /// What is not installed, or what the compiler said first.
    pub fn build(core: usize) -> Result<Self, String> {
        let config = |what| {
            let mut command = Command::new("pkg-config");
            let output = child::output(command.args([what, "libdpdk"])).ok();
            let text = output.filter(|output| output.status.success()).map(|output| output.stdout);
            text.map(|text| String::from_utf8_lossy(&text).split_whitespace().map(str::to_owned).collect())
        };
        let (flags, libraries): (Vec<String>, Vec<String>) = config("--cflags").zip(config("--libs")).ok_or(
            "DPDK's development files are not installed (Debian: libdpdk-dev), so its i40e loops don't stand beside",
        )?;
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let source = image::workspace().join("host/bench/peer/i40e_loops.c");
        let mut command = Command::new("cc");
        command.args(["-O3", "-march=native", "-w"]).args(flags).arg(&source).arg("-o");
        // The loops are not among what the shared library offers.
        command.arg(program(folder.path())).arg("-l:librte_net_i40e.a").args(libraries);
        let output = child::output(&mut command).map_err(|error| format!("cc: {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{}: {}", source.display(), said.lines().next().unwrap_or("cc failed")));
        }
        Ok(Self { folder, core, version: String::new(), turns: vec![Vec::new(); LOOPS.len() * SETS.len()] })
    }

    /// So many turns of each loop that this machine can run.
    ///
    /// # Errors
    /// The first line that the program said of its failure.
    pub fn time(&mut self, turns: usize) -> Result<(), String> {
        for (index, (name, set)) in cases().enumerate() {
            let mut command = self.command(name, set, "timed", turns);
            let output = child::output(&mut command).map_err(|error| error.to_string())?;
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                if said.contains("no such loop") {
                    continue;
                }
                return Err(format!("DPDK's {name} {set}: {}", said.lines().next().unwrap_or("failed")));
            }
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let mut lines = text.lines().filter(|line| !line.is_empty());
            self.version = lines.by_ref().find(|line| line.starts_with("DPDK")).unwrap_or("DPDK").to_owned();
            self.turns[index].extend(lines.filter_map(|line| line.parse::<f64>().ok()));
        }
        Ok(())
    }

    /// What all turns were, with the instructions of each loop.
    pub fn rows(mut self) -> Vec<PeerRow> {
        let mut rows = Vec::new();
        for (index, (name, set)) in cases().enumerate() {
            let mut ticks = std::mem::take(&mut self.turns[index]);
            if ticks.is_empty() {
                continue;
            }
            ticks.sort_by(f64::total_cmp);
            rows.push(PeerRow {
                peer: self.version.clone(),
                port: "i40e",
                mode: name.trim_start_matches("i40e-"),
                beside: name,
                isa: Some(set),
                burst: 32,
                tsc_cycles: ticks[ticks.len() / 2],
                min: ticks[0],
                max: ticks[ticks.len() - 1],
                samples: ticks.len(),
                instructions: self.instructions(name, set),
            });
        }
        rows
    }

    fn instructions(&self, name: &str, set: &str) -> Option<f64> {
        let steps =
            |rounds: usize| count::steps(&mut self.command(name, set, "traced", rounds), rounds.max(1));
        let (all, marks) = (steps(ROUNDS)? as f64, steps(0)? as f64);
        Some((all - marks * ROUNDS as f64) / (ROUNDS * QUARTER) as f64)
    }

    fn command(&self, name: &str, set: &str, what: &str, count: usize) -> Command {
        let mut command = Command::new(program(self.folder.path()));
        let pages = if has_huge_pages() { "huge" } else { "small" };
        command.args([pages, &self.core.to_string(), name, set, what, &count.to_string()]);
        command.stdin(Stdio::null());
        child::dies_with_us(&mut command);
        command
    }
}

fn program(folder: &Path) -> PathBuf {
    folder.join("i40e_loops")
}

fn cases() -> impl Iterator<Item = (&'static str, &'static str)> {
    LOOPS.into_iter().flat_map(|name| SETS.map(|set| (name, set)))
}
