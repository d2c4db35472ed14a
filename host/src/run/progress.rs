//! How far a run has come: a bar on a terminal, plain lines elsewhere, always on standard error.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::traffic::{Forward, Traffic};

/// A plain line this often.
const LINE_PERIOD: Duration = Duration::from_secs(1);

/// The bar or the lines.
pub struct Progress {
    bar: Option<ProgressBar>,
    last_line: Instant,
    last_back: u64,
}

impl Progress {
    /// A bar if standard error is a terminal.
    pub fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(1000);
            let style = ProgressStyle::with_template("{bar:30} {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Self { bar, last_line: Instant::now(), last_back: 0 }
    }

    /// What is being done now, for a moment: only shown on a terminal.
    pub fn step(&mut self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(what.to_owned());
        }
    }

    /// What is being done now and may take long.
    pub fn long_step(&mut self, what: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(what.to_owned()),
            None => eprintln!("barewire: {what}"),
        }
    }

    /// Traffic begins.
    pub fn begin(&mut self) {
        self.last_line = Instant::now();
    }

    /// A line that stays.
    pub fn say(&mut self, what: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("barewire: {what}")),
            None => eprintln!("barewire: {what}"),
        }
    }

    /// Frames and rates while traffic runs.
    pub fn show(&mut self, traffic: &Traffic, forward: Forward, elapsed: Duration, whole: Duration) {
        let totals = traffic.totals();
        // Where nothing comes back, what went in is all there is to show.
        let only_takes = forward.takes() && !forward.makes();
        let back = if only_takes { totals.offered } else { totals.returned + totals.generated };
        let since = self.last_line.elapsed();
        if self.bar.is_none() && since < LINE_PERIOD {
            return;
        }
        let rate = (back - self.last_back) as f64 / since.as_secs_f64().max(1e-3) / 1e6;
        let counts = match forward {
            _ if only_takes => format!("taken {back}"),
            _ if forward.makes() => format!("made {back}"),
            _ => format!("offered {}  back {back}", totals.offered),
        };
        let seconds = elapsed.as_secs_f64();
        let text = format!("{seconds:.1} s  {counts}  wrong {}  {rate:.3} Mpps", totals.wrong);
        if since >= LINE_PERIOD {
            (self.last_line, self.last_back) = (Instant::now(), back);
        }
        match &self.bar {
            Some(bar) => {
                bar.set_position((elapsed.as_secs_f64() / whole.as_secs_f64() * 1000.0) as u64);
                bar.set_message(text);
            }
            None => eprintln!("barewire: {text}"),
        }
    }

    /// Takes the bar away.
    pub fn clear(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
