//! A trial on a machine that runs: frames at one rate for a while, and a wait for what is still under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use super::source::{Counts, Order, Source};
use crate::run::{Event, Next, Rig};

/// How often the source is woken. What became due in between leaves at once.
const PERIOD: Duration = Duration::from_micros(50);
/// A source that is late may take this much longer.
const GRACE: Duration = Duration::from_secs(1);
/// Without a frame for this long, the rest counts as lost.
const QUIET: Duration = Duration::from_millis(500);
/// Frames may come back for this long.
const DRAIN: Duration = Duration::from_secs(5);
/// A look at what has come so far.
const TICK: Duration = Duration::from_millis(5);

/// Why there are no more trials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Broken {
    /// Somebody wants it to end.
    Stop,
    /// A link is down, as told.
    Down(String),
    /// Something died.
    Failed(String),
}

/// A machine that forwards, and the source on its wires.
pub struct Bench<'a> {
    /// The machine.
    pub rig: Rig,
    /// The source.
    pub source: Arc<Source>,
    /// What happens.
    pub inbox: &'a Receiver<Event>,
}

impl Bench<'_> {
    /// Carries out a trial. What was counted is told even if it was broken off.
    pub fn trial(&mut self, order: Order) -> (Counts, Result<(), Broken>) {
        self.source.begin(order);
        let result = self.send(order);
        self.source.stop();
        let result = result.and_then(|()| self.drain());
        (self.source.counts(), result)
    }

    /// Wakes the source until all that was due has left.
    fn send(&mut self, order: Order) -> Result<(), Broken> {
        let (server, done) = (self.rig.server.clone(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    server.kick();
                    std::thread::sleep(PERIOD);
                }
            });
            let result = self.wait(order.duration + GRACE, Source::is_over);
            done.store(true, Ordering::Relaxed);
            result
        })
    }

    fn drain(&mut self) -> Result<(), Broken> {
        self.wait(DRAIN, |source| source.is_quiet(QUIET))
    }

    /// Until the source says `done`, at most for `limit`.
    fn wait(&mut self, limit: Duration, done: impl Fn(&Source) -> bool) -> Result<(), Broken> {
        let end = Instant::now() + limit;
        while !done(&self.source) && Instant::now() < end {
            match self.rig.next(self.inbox, Instant::now() + TICK) {
                Next::Line | Next::Late => {}
                Next::Stop => return Err(Broken::Stop),
                Next::Failed(what) => return Err(Broken::Failed(what)),
            }
        }
        Ok(())
    }
}
