//! What was measured, for people and for programs.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::Plan;
use super::histogram::{Bin, Histogram};
use super::notes::notes;
use super::search::{Bound, Point};
use super::source::{Books, Counts, Order};
use crate::qemu::Accel;
use crate::run::{ImageReport, RunOptions};

/// Everything that was measured. Keys of the JSON object are never renamed.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Accelerator.
    pub accel: &'static str,
    /// Forwarding mode.
    pub forward: &'static str,
    /// Instruction set of the image's loops.
    pub isa: String,
    /// Cores of the machine.
    pub cpus: u32,
    /// Cores that forward.
    pub lcores: u32,
    /// Cores of the host, which source and cards share with the machine where there is no KVM, and with it, too.
    pub host_cpus: usize,
    /// The ports that were measured.
    pub pair: [usize; 2],
    /// Ways at the same time; rates are those of one.
    pub ways: usize,
    /// How long a trial sends.
    pub seconds: f64,
    /// How near a search comes, in per cent of the rate.
    pub resolution_percent: f64,
    /// Loss that is allowed at the PDR.
    pub pdr_percent: f64,
    /// From the image's entry to ready.
    pub boot_ms: f64,
    /// Bytes of the image's file.
    pub image_bytes: u64,
    /// By frame size.
    pub frames: Vec<Frame>,
    /// Frames put on wires toward the image, in all trials.
    pub sent: u64,
    /// Frames that came out of wires, whatever they were.
    pub out: u64,
    /// Frames that the image dropped, by reason.
    pub drops: BTreeMap<String, u64>,
    /// Sent, and neither came out nor dropped under a name.
    pub unaccounted: i64,
    /// What the image told that is nothing wrong.
    pub events: Vec<String>,
    /// What to know of the figures.
    pub notes: Vec<String>,
    /// What went wrong.
    pub problems: Vec<String>,
}

/// What was measured of a frame size.
#[derive(Debug, Clone, Serialize)]
pub struct Frame {
    /// Bytes with FCS.
    pub size: usize,
    /// Frames a second that a wire carries.
    pub line_fps: f64,
    /// The rate without loss; none if the lowest rate has loss, or if the search did not end.
    pub ndr: Option<Figures>,
    /// That search came to its end.
    pub ndr_searched: bool,
    /// The rate with the loss that is allowed.
    pub pdr: Option<Figures>,
    /// That search came to its end.
    pub pdr_searched: bool,
    /// How the trials at the rate differ.
    pub repeats: Option<Spread>,
    /// Of all frames of these trials.
    pub latency_us: Option<Latency>,
    /// The same.
    #[serde(serialize_with = "bins")]
    pub histogram: Histogram,
    /// All of them in their order.
    pub trials: Vec<Trial>,
}

/// A rate that was found.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figures {
    /// Frames a second and way, as the source sent them.
    pub fps: f64,
    /// Millions of bits a second and way, frames with FCS.
    pub mbps: f64,
    /// Part of what the wire carries.
    pub line_percent: f64,
    /// What keeps it from being higher: `loss`, `source`, `highest` or `trials`.
    pub bound: &'static str,
}

/// Times from a frame's leave to its return, in us: the smallest and the largest, and percentiles to three digits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Latency {
    /// Of so many frames.
    pub frames: u64,
    /// The shortest.
    pub min: f64,
    /// Half of them took no longer.
    pub median: f64,
    /// 99 % of them took no longer.
    pub p99: f64,
    /// 99.9 % of them took no longer.
    pub p99_9: f64,
    /// The longest.
    pub max: f64,
}

/// The smallest and the largest figure of trials that should be alike.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// At which rate: `ndr`, or `pdr` where there is none.
    pub at: &'static str,
    /// How many trials.
    pub trials: usize,
    /// How many of them lost frames.
    pub with_loss: usize,
    /// Loss.
    pub loss_percent: [f64; 2],
    /// Medians of the latency.
    pub median_us: [f64; 2],
    /// 99th percentiles of the latency.
    pub p99_us: [f64; 2],
}

/// Why a trial was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// So that none is the first of its kind.
    WarmUp,
    /// Of a search.
    Search,
    /// At the rate that was found.
    Repeat,
}

/// A trial.
#[derive(Debug, Clone, Serialize)]
pub struct Trial {
    /// Why it was made.
    pub purpose: Purpose,
    /// Frames a second and way that were asked of the source.
    pub asked_fps: f64,
    /// Frames a second and way that it sent.
    pub offered_fps: f64,
    /// How long it sent.
    pub seconds: f64,
    /// Frames sent.
    pub sent: u64,
    /// Frames that were due and not sent, since the source was late.
    pub skipped: u64,
    /// Frames that were due when no card asked for any more: its link was down, or it came too late.
    pub unasked: u64,
    /// Frames that came back as they should.
    pub back: u64,
    /// Sent and not back.
    pub lost: u64,
    /// Frames that came out and should not have, or changed.
    pub wrong: u64,
    /// Frames of an earlier trial that came out in this one, or that left too long ago.
    pub late: u64,
    /// Most frames of a way that were due at once: what the source's pace is worth.
    pub most_due: u64,
    /// It was ended before its time, with frames under way: its loss says nothing.
    pub broken_off: bool,
    /// Of the frames that came back.
    pub latency_us: Option<Latency>,
}

/// What a report is made of.
pub struct Parts<'a> {
    pub options: &'a RunOptions,
    pub plan: &'a Plan,
    pub accel: Accel,
    pub image_bytes: u64,
    pub image: &'a ImageReport,
    pub books: Books,
    pub frames: Vec<Frame>,
    pub problems: Vec<String>,
}

impl Report {
    /// The report, with the image's books compared with the wires'.
    pub fn new(parts: Parts<'_>) -> Self {
        let Parts { options, plan, image, books, frames, mut problems, .. } = parts;
        let mut drops = BTreeMap::<String, u64>::new();
        let stats = image.ports.values().filter_map(|port| port.stats.as_ref());
        for (reason, count) in stats.flat_map(|stats| &stats.drops) {
            let sum = drops.entry(reason.clone()).or_default();
            *sum = sum.saturating_add(*count);
        }
        let dropped: i128 = drops.values().map(|count| i128::from(*count)).sum();
        let unaccounted = i128::from(books.sent) - i128::from(books.out) - dropped;
        let wrong: u64 = frames.iter().flat_map(|frame| &frame.trials).map(|trial| trial.wrong).sum();
        if wrong > 0 {
            problems.push(format!("{wrong} frames came out that should not have, or changed"));
        }
        if image.ended_well && unaccounted != 0 {
            problems.push(format!(
                "{} frames were sent, {} came out and {dropped} were dropped: {unaccounted} are missing",
                books.sent, books.out
            ));
        }
        let host_cpus = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            accel: parts.accel.name(),
            forward: options.forward.name(),
            isa: image.isa.clone(),
            cpus: image.cores,
            lcores: image.lcores,
            host_cpus,
            pair: [plan.pair.0, plan.pair.1],
            ways: plan.ways().len(),
            seconds: plan.trial.as_secs_f64(),
            resolution_percent: round(plan.resolution * 100.0),
            pdr_percent: plan.pdr * 100.0,
            boot_ms: image.boot_ms,
            image_bytes: parts.image_bytes,
            notes: notes(parts.accel, plan, &frames, host_cpus, options.rxd),
            frames,
            sent: books.sent,
            out: books.out,
            drops,
            unaccounted: unaccounted.clamp(i64::MIN.into(), i64::MAX.into()) as i64,
            events: image.events.clone(),
            problems,
        }
    }

    /// Everything was measured, and every frame is accounted for. No rate is no failure.
    pub fn good(&self) -> bool {
        self.problems.is_empty()
    }
}

impl Frame {
    /// Nothing of it is measured yet.
    pub fn new(size: usize, line_fps: f64) -> Self {
        let (ndr, pdr, repeats, latency_us) = (None, None, None, None);
        let (histogram, trials) = (Histogram::default(), Vec::new());
        let (line_fps, ndr_searched, pdr_searched) = (round(line_fps), false, false);
        Self { size, line_fps, ndr, ndr_searched, pdr, pdr_searched, repeats, latency_us, histogram, trials }
    }
}

impl Figures {
    /// A rate of frames of `size` bytes with FCS, on a wire that carries `line_fps` of them.
    pub fn new(fps: f64, bound: Bound, size: usize, line_fps: f64) -> Self {
        let bound = match bound {
            Bound::Loss => "loss",
            Bound::Source => "source",
            Bound::Highest => "highest",
            Bound::Trials => "trials",
        };
        let line_percent = if line_fps > 0.0 { round(fps / line_fps * 100.0) } else { 0.0 };
        Self { fps: round(fps), mbps: round(fps * (size * 8) as f64 / 1e6), line_percent, bound }
    }
}

impl Latency {
    /// What a histogram tells, if there is anything in it.
    pub fn of(histogram: &Histogram) -> Option<Self> {
        let us = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e3);
        Some(Self {
            frames: histogram.total(),
            min: us(histogram.min())?,
            median: us(histogram.percentile(500))?,
            p99: us(histogram.percentile(990))?,
            p99_9: us(histogram.percentile(999))?,
            max: us(histogram.max())?,
        })
    }
}

impl Spread {
    /// Of trials at one rate: the part that each lost, and its latency.
    pub fn of(at: &'static str, trials: &[(f64, Option<Latency>)]) -> Self {
        let range = |values: &mut dyn Iterator<Item = f64>| {
            let [low, high] =
                values.fold([f64::MAX, f64::MIN], |[low, high], value| [low.min(value), high.max(value)]);
            if low > high { [0.0, 0.0] } else { [low, high] }
        };
        let latencies = || trials.iter().filter_map(|(_, latency)| *latency);
        Self {
            at,
            trials: trials.len(),
            with_loss: trials.iter().filter(|(loss, _)| *loss > 0.0).count(),
            loss_percent: range(&mut trials.iter().map(|(loss, _)| loss * 100.0)),
            median_us: range(&mut latencies().map(|latency| latency.median)),
            p99_us: range(&mut latencies().map(|latency| latency.p99)),
        }
    }
}

impl Trial {
    /// What was counted of it.
    pub fn new(purpose: Purpose, order: Order, counts: &Counts, point: &Point) -> Self {
        Self {
            purpose,
            asked_fps: round(point.asked),
            offered_fps: round(point.offered),
            seconds: round(order.duration.as_secs_f64()),
            sent: counts.sent,
            skipped: counts.skipped,
            unasked: counts.unasked,
            back: counts.back,
            lost: counts.sent.saturating_sub(counts.back),
            wrong: counts.wrong,
            late: counts.late,
            most_due: counts.most_due,
            broken_off: false,
            latency_us: Latency::of(&counts.latency),
        }
    }

    fn loss_percent(&self) -> f64 {
        if self.sent == 0 { 100.0 } else { self.lost as f64 / self.sent as f64 * 100.0 }
    }
}

fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// A histogram in JSON: bins from an edge up to the next one, in us.
fn bins<S: serde::Serializer>(histogram: &Histogram, to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Us {
        from_us: f64,
        to_us: f64,
        count: u64,
    }
    let us =
        |bin: &Bin| Us { from_us: bin.from_ns as f64 / 1e3, to_us: bin.to_ns as f64 / 1e3, count: bin.count };
    to.collect_seq(histogram.bins().iter().map(us))
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (offered, asked, loss) = (self.offered_fps, self.asked_fps, self.loss_percent());
        if self.broken_off {
            return write!(f, "{asked:.0} frames/s, broken off");
        }
        write!(f, "{offered:.0} of {asked:.0} frames/s, loss {loss:.3} %")?;
        match self.latency_us {
            Some(latency) => write!(f, ", median {:.1} us", latency.median),
            None => Ok(()),
        }
    }
}
