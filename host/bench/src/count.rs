//! Instructions, counted one by one: the case runs in a process of its own, which this one lets go on by single steps.
//!
//! Works with every instruction set that the machine has, unlike a simulator, and needs no counters of the hardware.

use std::process::{Command, Stdio};

use nix::sys::ptrace;
use nix::sys::signal::{Signal, raise};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::case::Case;
use crate::ground::Ground;
use crate::row::Request;

/// Rounds of a quarter of a ring that are counted: once around it. Bursts in memory are counted in one round.
const QUARTERS: usize = 4;
/// Rounds before those.
const WARM: usize = 12;
/// A case whose count does not end is given up.
const MOST_STEPS: u64 = 20_000_000;

/// Instructions a frame; `None` where this machine lacks them or lets nobody trace.
pub fn instructions(case: &Case) -> Option<f64> {
    case.isa.isa()?;
    let rounds = if case.bench.has_rings() { QUARTERS } else { 1 };
    let (with, frames) = steps_of(case, rounds)?;
    // What the marks themselves take.
    let (marks, _) = steps_of(case, 0)?;
    let each_mark = marks as f64;
    Some((with as f64 - each_mark * rounds as f64) / frames as f64)
}

/// Steps between the marks of all rounds, and frames; with no rounds, those of a pair of marks with nothing in between.
fn steps_of(case: &Case, rounds: usize) -> Option<(u64, usize)> {
    let request = Request::Traced { case: case.to_string(), rounds };
    let mut command = Command::new(std::env::current_exe().ok()?);
    let counted = steps(command.arg(serde_json::to_string(&request).ok()?), rounds.max(1));
    let frames = if rounds == 0 { 1 } else { rounds * frames_of_round(case) };
    Some((counted?, frames))
}

/// Steps of a program between its marks: it lets its parent trace it, and stops itself (`SIGSTOP`) in front of and behind
/// each of `pairs` stretches. `None` when it does not, or can't be run.
pub fn steps(command: &mut Command, pairs: usize) -> Option<u64> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
    let pid = Pid::from_raw(i32::try_from(child.id()).ok()?);
    let counted = count(pid, pairs);
    let _ = child.kill();
    let _ = child.wait();
    counted
}

fn frames_of_round(case: &Case) -> usize {
    if case.bench.has_rings() { usize::from(case.ring) / 4 } else { 256 }
}

/// Lets the child run from mark to mark, and steps through every other stretch.
fn count(pid: Pid, pairs: usize) -> Option<u64> {
    let mut steps = 0;
    let at_mark = |status| matches!(status, Ok(WaitStatus::Stopped(_, Signal::SIGSTOP)));
    for _ in 0..pairs {
        if !at_mark(waitpid(pid, None)) {
            return None;
        }
        loop {
            ptrace::step(pid, None).ok()?;
            match waitpid(pid, None) {
                Ok(WaitStatus::Stopped(_, Signal::SIGTRAP)) => steps += 1,
                Ok(WaitStatus::Stopped(_, Signal::SIGSTOP)) => break,
                _ => return None,
            }
            if steps > MOST_STEPS {
                return None;
            }
        }
        ptrace::cont(pid, None).ok()?;
    }
    Some(steps)
}

/// The traced side: runs a case and marks what is counted. Says whether it could.
pub fn run_traced(case: &Case, rounds: usize) -> bool {
    let Some(mut ground) = Ground::new(case) else { return false };
    for _ in 0..WARM {
        ground.prepare();
        ground.work();
    }
    if ptrace::traceme().is_err() {
        return false;
    }
    if rounds == 0 {
        return raise(Signal::SIGSTOP).and_then(|()| raise(Signal::SIGSTOP)).is_ok();
    }
    (0..rounds).all(|_| {
        ground.prepare();
        let begun = raise(Signal::SIGSTOP);
        let frames = ground.work();
        begun.is_ok() && raise(Signal::SIGSTOP).is_ok() && frames == frames_of_round(case)
    })
}
