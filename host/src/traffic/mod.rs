//! Traffic: frames that are put on the wires of a machine's ports, and the check of what comes back.
//!
//! The source is a closed loop: at most so many frames of a direction are under way at a time, so that the machine sets
//! the pace and nothing is lost for want of room.

mod check;
mod checksums;
mod direction;
mod echo;
mod forward;
mod frames;
mod made;
mod rules;
mod wire;

use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use check::Macs;
pub use direction::{Direction, Totals};
pub use forward::Forward;
pub use frames::{FrameSet, imix, requests, sized, syncs};
pub use rules::Rules;
pub use wire::TrafficWire;

use crate::Failure;
use crate::capture::CaptureWriter;

/// How long nobody listens while waiting.
const HEARING: Duration = Duration::from_millis(50);
/// Frames of a direction that may be under way, unless said otherwise.
pub const IN_FLIGHT: usize = 256;

/// Everything about the run's traffic; the wires of all ports share it.
pub struct Traffic {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    rules: Rules,
    /// By the port that receives.
    directions: Vec<Direction>,
    out: Vec<Option<CaptureWriter>>,
    in_flight: usize,
    running: bool,
    times: Times,
}

/// Numbers for all directions.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Frames of a direction that may be under way.
    pub in_flight: usize,
    /// Sets begin again when they end.
    pub repeat: bool,
    /// Frames come back in the order in which they were sent; where several cores have a part of them, they need not.
    pub in_order: bool,
}

/// When what happened.
#[derive(Debug, Clone, Copy, Default)]
pub struct Times {
    /// The source began.
    pub started: Option<Instant>,
    /// The first frame came back.
    pub first: Option<Instant>,
    /// The last frame came back, or was generated.
    pub last: Option<Instant>,
}

impl Traffic {
    /// Traffic for these ports, each with its frames or none, not started. Frames that port `p` receives come back
    /// at the port of [`tx_port`].
    pub fn new(rules: Rules, ports: Vec<Option<FrameSet>>, limits: Limits) -> Arc<Self> {
        let Limits { in_flight, repeat, in_order } = limits;
        let out = ports.iter().map(|_| None).collect();
        let directions = ports.into_iter().map(|frames| Direction::new(frames, repeat, in_order)).collect();
        let state = State { rules, directions, out, in_flight, running: false, times: Times::default() };
        Arc::new(Self { state: Mutex::new(state), changed: Condvar::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a capture of what each port sends, where there is a path for one. All of them, or none.
    ///
    /// # Errors
    /// The file that can't be written.
    pub fn record(&self, paths: &[Option<PathBuf>]) -> Result<(), Failure> {
        let mut made = Vec::new();
        for path in paths {
            match path.as_deref().map(CaptureWriter::create).transpose() {
                Ok(writer) => made.push(writer),
                Err(failure) => {
                    let begun = paths.iter().zip(&made).filter(|(_, writer)| writer.is_some());
                    begun.filter_map(|(path, _)| path.as_ref()).for_each(|path| drop(fs::remove_file(path)));
                    return Err(failure);
                }
            }
        }
        self.state().out = made;
        Ok(())
    }

    /// Lets the source begin. The server has to be woken afterwards.
    pub fn start(&self) {
        let mut state = self.state();
        state.running = true;
        state.times.started = Some(Instant::now());
    }

    /// Gives up what is under way if nothing has come back for `quiet`: where nobody knows which frames come back, it may
    /// have been dropped. Says whether there was something; then the server has to be woken.
    pub fn give_up(&self, quiet: Duration) -> bool {
        let mut state = self.state();
        let last = state.times.last.max(state.times.started);
        if last.is_none_or(|last| last.elapsed() < quiet) {
            return false;
        }
        let given_up: usize = state.directions.iter_mut().map(Direction::give_up).sum();
        given_up > 0
    }

    /// Ends the source; what is under way may still come back.
    pub fn stop(&self) {
        self.state().running = false;
    }

    /// Waits until every frame there is has been sent and has come back, at most until `until`. Says whether it has;
    /// where there are no frames to send, it never has.
    pub fn wait_finished(&self, until: Instant) -> bool {
        self.wait(until, |state| {
            let sends = state.directions.iter().any(|direction| direction.frames().is_some());
            sends && state.directions.iter().all(|direction| direction.finished())
        })
    }

    /// Waits until nothing is under way any more, or nothing has come back for `quiet`, or `hurry` says so. Says whether
    /// nothing is.
    pub fn drain(&self, quiet: Duration, hurry: impl Fn() -> bool) -> bool {
        let under_way =
            |state: &State| state.directions.iter().map(|direction| direction.under_way()).sum::<usize>();
        let mut before = under_way(&self.state());
        while before > 0 {
            let until = Instant::now() + quiet;
            // In short pieces, so that somebody who can't wait is heard.
            while Instant::now() < until && !hurry() {
                if self.wait(until.min(Instant::now() + HEARING), |state| under_way(state) == 0) {
                    return true;
                }
            }
            let now = under_way(&self.state());
            if now == before {
                return false;
            }
            before = now;
        }
        true
    }

    fn wait(&self, until: Instant, done: impl Fn(&State) -> bool) -> bool {
        let mut state = self.state();
        loop {
            if done(&state) {
                return true;
            }
            let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
            else {
                return false;
            };
            state = match self.changed.wait_timeout(state, left) {
                Ok((state, _)) => state,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    /// Counts of all directions.
    pub fn totals(&self) -> Totals {
        self.state().directions.iter().fold(Totals::default(), |sum, direction| sum.plus(&direction.totals()))
    }

    /// Frames given to each port, and frames that each port sent.
    pub fn per_port(&self) -> Vec<(u64, u64)> {
        let state = self.state();
        state
            .directions
            .iter()
            .map(|direction| (direction.totals().offered, direction.sent_by_port))
            .collect()
    }

    /// Frames of sets that are sent once and have not been.
    pub fn unsent(&self) -> u64 {
        self.state().directions.iter().map(Direction::unsent).sum()
    }

    /// When what happened.
    pub fn times(&self) -> Times {
        self.state().times
    }

    /// Ends the captures; says whether all of them are whole.
    pub fn finish_captures(&self) -> bool {
        let mut state = self.state();
        // Every one is ended, whether or not one before it failed.
        let ended = state.out.iter_mut().filter_map(Option::take).map(CaptureWriter::finish);
        ended.filter(|whole| !whole).count() == 0
    }
}

/// Which of `ports` ports sends what `port` received: neighbours in pairs, a last one without partner to itself.
pub fn tx_port(port: usize, ports: usize) -> usize {
    if port ^ 1 < ports { port ^ 1 } else { port }
}

/// Frames that are under way, by their index in the set, oldest first.
type UnderWay = VecDeque<u32>;
