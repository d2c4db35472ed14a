//! Timing: the cases of an instruction set take turns, again and again, so that what disturbs for seconds disturbs all.

use std::hint::black_box;
use std::time::{Duration, Instant};

use hal::hosted::time_stamp;
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};

use crate::case::Case;
use crate::ground::Ground;

/// Samples of a turn, and those before them that only warm caches.
const SAMPLES: usize = 100;
const WARM: usize = 40;

/// Medians of a case's turns, in order.
pub struct Ticks(Vec<f64>);

impl Ticks {
    /// The median of the medians.
    pub fn median(&self) -> f64 {
        self.0[self.0.len() / 2]
    }

    /// The least.
    pub fn min(&self) -> f64 {
        self.0[0]
    }

    /// The largest.
    pub fn max(&self) -> f64 {
        self.0[self.0.len() - 1]
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

/// Times each case in `rounds` turns; cases of the same instruction set take turns. `None` for a case that can't run here.
pub fn time(cases: &[Case], rounds: usize, mut done: impl FnMut(&Case, Option<Ticks>)) {
    // Few enough that their grounds together are some hundred MiB.
    const TOGETHER: usize = 48;
    for group in cases.chunk_by(|a, b| a.isa == b.isa).flat_map(|group| group.chunks(TOGETHER)) {
        let mut grounds: Vec<Option<Ground>> = group.iter().map(Ground::new).collect();
        let mut ticks = vec![Vec::new(); group.len()];
        for _ in 0..rounds.max(1) {
            for (ground, ticks) in grounds.iter_mut().zip(&mut ticks) {
                ticks.extend(ground.as_mut().map(turn));
            }
        }
        for (case, mut ticks) in group.iter().zip(ticks) {
            ticks.sort_by(f64::total_cmp);
            done(case, (!ticks.is_empty()).then_some(Ticks(ticks)));
        }
    }
}

/// A turn: the median of its samples, in ticks a frame.
fn turn(ground: &mut Ground) -> f64 {
    let mut ticks = Vec::with_capacity(SAMPLES);
    for sample in 0..WARM + SAMPLES {
        ground.prepare();
        let before = time_stamp();
        let frames = black_box(ground.work());
        let spent = time_stamp() - before;
        if sample >= WARM {
            ticks.push(spent as f64 / frames.max(1) as f64);
        }
    }
    ticks.sort_by(f64::total_cmp);
    ticks[ticks.len() / 2]
}

/// Stays on the core on which it runs: another one has other caches. Says whether it could.
pub fn pin() -> bool {
    let mut set = CpuSet::new();
    set.set(sched_getcpu());
    sched_setaffinity(None, &set).is_ok()
}

/// Ticks of the time stamp counter a second, measured against the host's clock: the median of five tries.
pub fn tsc_hz() -> u64 {
    let mut tries: Vec<u64> = (0..5)
        .map(|_| {
            let (start, before) = (Instant::now(), time_stamp());
            while start.elapsed() < Duration::from_millis(10) {}
            let (spent, after) = (start.elapsed(), time_stamp());
            ((after - before) as f64 / spent.as_secs_f64()) as u64
        })
        .collect();
    tries.sort_unstable();
    tries[2]
}
