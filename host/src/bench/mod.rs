//! `barewire bench`: builds the program that measures, runs it, and shows what it tells beside what others take.

pub mod instructions;
pub mod peer;
pub mod plot;
mod table;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use bench::{Case, Request, Row, Told};
use serde::Serialize;

use crate::{Failure, child, image};
use peer::PeerRow;

/// Turns of each case, and with `--quick`.
const ROUNDS: usize = 25;
const QUICK_ROUNDS: usize = 5;

/// Everything that was measured.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The processor, as it names itself.
    pub cpu: String,
    /// The compiler.
    pub rustc: String,
    /// Ticks of the time stamp counter a second.
    pub tsc_hz: u64,
    /// Cases.
    pub cases: Vec<Row>,
    /// What others took in the same run.
    pub peers: Vec<PeerRow>,
    /// What is to be known beside.
    pub notes: Vec<String>,
}

impl Report {
    /// Measures cases, and others beside them.
    ///
    /// # Errors
    /// The program that measures can't be built or does not run.
    pub fn measure(cases: &[Case], quick: bool, peers: bool) -> Result<Self, Failure> {
        let rounds = if quick { QUICK_ROUNDS } else { ROUNDS };
        let names = cases.iter().map(Case::to_string).collect();
        let mut report = Self {
            cpu: cpu(),
            rustc: rustc(),
            tsc_hz: 0,
            cases: Vec::new(),
            peers: Vec::new(),
            notes: Vec::new(),
        };
        // Theirs before and after ours, since the speed of a machine changes.
        let mut theirs = peers.then(|| peer::DpdkLoops::build(rustix::thread::sched_getcpu()));
        let turns = rounds.div_ceil(2);
        time_theirs(&mut theirs, turns);
        ask(&Request::Measure { cases: names, rounds }, |told| match told {
            Told::Row(row) => {
                report.tsc_hz = row.tsc_hz;
                report.cases.push(row);
            }
            Told::Note(note) => report.notes.push(note),
            Told::Count { .. } => {}
        })?;
        if report.cases.is_empty() {
            return Err(Failure::usage("this machine has the instructions of none of these cases"));
        }
        time_theirs(&mut theirs, turns);
        match theirs {
            Some(Ok(loops)) => report.peers = loops.rows(),
            Some(Err(note)) => report.notes.push(note),
            None => {}
        }
        if peers {
            match peer::measure(quick, report.tsc_hz) {
                Ok(rows) => report.peers.extend(rows),
                Err(note) => report.notes.push(note),
            }
        }
        Ok(report)
    }
}

/// One more time; who fails once is not asked again.
fn time_theirs(theirs: &mut Option<Result<peer::DpdkLoops, String>>, turns: usize) {
    if let Some(Ok(loops)) = theirs
        && let Err(error) = loops.time(turns)
    {
        *theirs = Some(Err(error));
    }
}

/// The cases whose names begin with one of the prefixes; without any the usual ones, or all.
///
/// # Errors
/// A prefix with which no name begins.
pub fn select(prefixes: &[String], all: bool) -> Result<Vec<Case>, Failure> {
    let cases = Case::all();
    if prefixes.is_empty() {
        return Ok(cases.into_iter().filter(|case| all || case.is_usual()).collect());
    }
    let names: Vec<String> = cases.iter().map(Case::to_string).collect();
    if let Some(prefix) = prefixes.iter().find(|prefix| !names.iter().any(|name| begins(name, prefix))) {
        return Err(Failure::usage(format!("{prefix}: no case's name begins so; --list has all of them")));
    }
    let wanted = |name: &String| prefixes.iter().any(|prefix| begins(name, prefix));
    Ok(cases.into_iter().zip(names).filter(|(_, name)| wanted(name)).map(|(case, _)| case).collect())
}

/// The parts of `name` begin with those of `prefix`, each of them whole; `*` is any.
fn begins(name: &str, prefix: &str) -> bool {
    let mut parts = name.split('/');
    prefix.trim_end_matches('/').split('/').all(|wanted| {
        let part = parts.next();
        part == Some(wanted) || wanted == "*" && part.is_some()
    })
}

/// Builds the program that measures and asks it something.
///
/// # Errors
/// It can't be built, or does not end well.
pub fn ask(request: &Request, mut told: impl FnMut(Told)) -> Result<(), Failure> {
    eprintln!("barewire: building the program that measures, as the image is built");
    let program = image::build_bench()?;
    let text = serde_json::to_string(request).map_err(|error| Failure::run(error.to_string()))?;
    let failed = |what: String| Failure::run(format!("{}: {what}", program.display()));
    let mut command = Command::new(&program);
    command.arg(text).stdin(Stdio::null()).stdout(Stdio::piped());
    child::dies_with_us(&mut command);
    let mut process = command.spawn().map_err(|error| failed(error.to_string()))?;
    let lines = process.stdout.take().map(|out| BufReader::new(out).lines()).into_iter().flatten();
    for line in lines.map_while(Result::ok) {
        told(serde_json::from_str(&line).map_err(|error| failed(format!("{error} in {line:?}")))?);
    }
    let status = process.wait().map_err(|error| failed(error.to_string()))?;
    if status.success() { Ok(()) } else { Err(failed(format!("ended with {status}"))) }
}

/// The processor's own name.
fn cpu() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    name.map_or_else(|| "unknown".into(), |(_, name)| name.trim().to_owned())
}

/// The compiler that builds the program, as it names itself.
pub fn rustc() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").current_dir(image::workspace()).output();
    output
        .map_or_else(|_| "unknown".into(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_select_whole_parts_of_names() {
        let count = |prefixes: &[&str]| {
            let prefixes: Vec<String> = prefixes.iter().map(ToString::to_string).collect();
            select(&prefixes, false).map(|cases| cases.len())
        };
        assert_eq!(count(&[]).unwrap(), 4 * 15);
        assert_eq!(count(&["i40e-io/avx2/32/1024/32/60"]).unwrap(), 3);
        assert_eq!(count(&["i40e-mac/avx2/32/1024/32/60", "macswap/avx2/32/60/l1"]).unwrap(), 4);
        assert!(count(&["i40e-m"]).unwrap_err().to_string().starts_with("i40e-m: no case"));
        assert!(count(&["i40e-io/avx2/3"]).is_err());
        assert_eq!(count(&["i40e-io/*/32/1024/32/*/l2"]).unwrap(), 4 * 8);
        assert!(count(&["i40e-io/avx2/32/1024/32/60/l2/*"]).is_err() && count(&[""]).is_err());
        assert_eq!(select(&[], true).unwrap(), Case::all());
    }
}
