//! RFC 2544 on a machine with the image: the highest rate without loss (NDR) and with a given loss (PDR) by frame size, and
//! the latency at it.

mod frames;
pub mod histogram;
mod notes;
mod report;
pub mod search;
mod source;
mod table;
mod trial;

use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use crate::run::{Cards, Event, Ground, Next, Progress, Rig, RunOptions, macs, prepare};
use crate::traffic::{Rules, tx_port};
use crate::{Failure, signals};

pub use report::{Figures, Frame, Latency, Purpose, Report, Spread, Trial};

use histogram::Histogram;
use search::{Point, Search, Step};
use source::{Counts, Order, Setup, Source, SourceWire, Way};
use trial::{Bench, Broken};

/// RFC 2544, section 9.1: sizes for Ethernet, in bytes with FCS.
pub const SIZES: [usize; 7] = [64, 128, 256, 512, 1024, 1280, 1518];
/// Bytes of an FCS.
const FCS: usize = 4;
/// Bytes between two frames on a wire: preamble and gap.
const GAP: usize = 20;
/// The lowest rate that is tried, in frames a second.
const LOWEST: f64 = 1000.0;
/// Frames of a way that a trial has at least, so that it can lose a part of them.
const LEAST: f64 = 10.0;
/// A link that is down may come up for this long.
const LINK: Duration = Duration::from_secs(2);
/// Frames before the first trial of a size, so that none is the first of its kind: at a rate that any machine can do.
const WARM_UP: (f64, Duration) = (2000.0, Duration::from_millis(250));

/// What is measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Part of the frames that may be lost at the PDR, from 0 to 1.
    pub pdr: f64,
    /// Frame sizes in bytes with FCS, 64 to 9732.
    pub sizes: Vec<usize>,
    /// How near the searches come to the rates, as a part of the rate.
    pub resolution: f64,
    /// Two ports that the image joins, or one that it joins with itself.
    pub pair: (usize, usize),
    /// Frames are sent to the first port of the pair only.
    pub one_way: bool,
    /// The highest rate in frames a second and way; that of the wires where nothing is said.
    pub highest: Option<f64>,
    /// Trials at the rate that was found, at least 1.
    pub repeats: u32,
    /// How long a trial sends.
    pub trial: Duration,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            pdr: 0.005,
            sizes: SIZES.to_vec(),
            resolution: 0.01,
            pair: (0, 1),
            one_way: false,
            highest: None,
            repeats: 3,
            trial: Duration::from_secs(2),
        }
    }
}

impl Plan {
    /// # Errors
    /// The machine has no such pair, or a trial is too short for the rate.
    pub fn check(&self, ports: usize) -> Result<(), Failure> {
        let (a, b) = self.pair;
        if a.max(b) >= ports {
            return Err(Failure::usage(format!("--pair {a},{b}: there are {ports} ports, from 0 on")));
        }
        if tx_port(a, ports) != b {
            let other = tx_port(a, ports);
            return Err(Failure::usage(format!("--pair {a},{b}: the image joins port {a} and port {other}")));
        }
        let frames = self.lowest() * self.trial.as_secs_f64();
        if frames < LEAST {
            let (rate, seconds) = (self.lowest(), self.trial.as_secs_f64());
            return Err(Failure::usage(format!(
                "--max-rate {rate}: {frames} frames in the {seconds} s of a trial are fewer than {LEAST}"
            )));
        }
        Ok(())
    }

    /// The lowest rate that is tried.
    fn lowest(&self) -> f64 {
        self.highest.map_or(LOWEST, |highest| highest.min(LOWEST))
    }

    fn ways(&self) -> Vec<Way> {
        let (a, b) = self.pair;
        let there = Way { from: a, to: b };
        if self.one_way || a == b { vec![there] } else { vec![there, Way { from: b, to: a }] }
    }

    /// Frames a second that a wire of the pair carries.
    fn line_rate(&self, options: &RunOptions, size: usize) -> f64 {
        let bits = |port: usize| match options.ports.get(port).map(|port| port.device) {
            Some(0x1583) => 40e9,
            _ => 10e9,
        };
        let (a, b) = self.pair;
        f64::min(bits(a), bits(b)) / ((size + GAP) * 8) as f64
    }
}

/// Boots a machine and measures.
///
/// # Errors
/// What was asked for can't be done, or went wrong before there was anything to report.
pub fn run(options: &RunOptions, plan: &Plan) -> Result<Report, Failure> {
    plan.check(options.ports.len())?;
    let (events, inbox) = mpsc::channel();
    let stop_events = events.clone();
    signals::on_stop(move || drop(stop_events.send(Event::Stop)))?;
    let mut progress = Progress::new();
    let source = Source::new(Setup {
        rules: Rules::new(options.forward, macs(options.ports.len()), &options.image_config()),
        ways: plan.ways(),
        group: u64::from(options.rxd / 4),
    });
    let cards = Cards::bind(&options.ports, |port| Box::new(SourceWire::new(&source, port)))?;
    let ground = prepare(options, &mut progress);
    if signals::stop_asked() {
        return Err(Failure::run("stopped before anything was measured"));
    }
    let ground = ground?;
    let command = ground.machine(options, &cards).command(&ground.qemu);
    let rig = Rig::start(cards, command, &events)?;
    let mut measured = Measured { bench: Bench { rig, source, inbox: &inbox }, progress, frames: Vec::new() };
    let broken = measured.all(options, plan).err();
    // Another image may know better what its options mean.
    let image = &measured.bench.rig.image;
    if let (false, Some(error)) = (image.ready, image.refused_option()) {
        return Err(Failure::usage(error));
    }
    Ok(measured.report(options, plan, &ground, broken, &inbox))
}

/// A machine, and what was found so far.
struct Measured<'a> {
    bench: Bench<'a>,
    progress: Progress,
    frames: Vec<Frame>,
}

impl Measured<'_> {
    fn all(&mut self, options: &RunOptions, plan: &Plan) -> Result<(), Broken> {
        self.progress.step("booting");
        self.bench.rig.wait_ready(self.bench.inbox).map_or(Ok(()), |what| Err(Broken::Failed(what)))?;
        let (count, seconds) = (plan.sizes.len(), plan.trial.as_secs_f64());
        self.progress.say(&format!(
            "{count} frame size{}, for each some 10 to 25 trials of {seconds} s, at most {}",
            if count == 1 { "" } else { "s" },
            search::MOST_TRIALS + plan.repeats as usize
        ));
        self.links(plan)?;
        for size in &plan.sizes {
            self.frames.push(Frame::new(*size, plan.line_rate(options, *size)));
            self.size(plan, *size)?;
        }
        Ok(())
    }

    /// Both searches for a frame size, the second one with the trials of the first; then the repeats.
    fn size(&mut self, plan: &Plan, size: usize) -> Result<(), Broken> {
        let (rate, duration) = WARM_UP;
        self.trial(Purpose::WarmUp, Order { len: size - FCS, rate, duration }, plan)?;
        let line = self.frames.last().map_or(LOWEST, |frame| frame.line_fps);
        let highest = plan.highest.map_or(line, |highest| highest.min(line));
        let search = Search { lowest: plan.lowest().min(highest), highest, resolution: plan.resolution };
        let mut points = Vec::new();
        let ndr = self.search(&search, 0.0, &mut points, plan, size)?;
        self.now(|frame| (frame.ndr, frame.ndr_searched) = (ndr, true));
        let pdr = self.search(&search, plan.pdr, &mut points, plan, size)?;
        self.now(|frame| (frame.pdr, frame.pdr_searched) = (pdr, true));
        let at = ndr.map(|found| ("ndr", found)).or(pdr.map(|found| ("pdr", found)));
        at.map_or(Ok(()), |(name, figures)| self.repeat(name, figures, plan, size))
    }

    /// Waits for the links of both ports.
    fn links(&mut self, plan: &Plan) -> Result<(), Broken> {
        let until = Instant::now() + LINK;
        loop {
            let ports = &self.bench.rig.image.ports;
            let down = |port: &usize| ports.get(port).is_some_and(|lines| lines.link_down);
            let Some(port) = [plan.pair.0, plan.pair.1].into_iter().find(down) else { return Ok(()) };
            match self.bench.rig.next(self.bench.inbox, until) {
                Next::Line => {}
                Next::Late => {
                    let what = format!("the link of port {port} is down: nothing can be measured over it");
                    return Err(Broken::Down(what));
                }
                Next::Stop => return Err(Broken::Stop),
                Next::Failed(what) => return Err(Broken::Failed(what)),
            }
        }
    }

    /// Writes down something of the size that is being measured.
    fn now(&mut self, write: impl FnOnce(&mut Frame)) {
        if let Some(frame) = self.frames.last_mut() {
            write(frame);
        }
    }

    fn search(
        &mut self,
        search: &Search,
        allowed: f64,
        points: &mut Vec<Point>,
        plan: &Plan,
        size: usize,
    ) -> Result<Option<Figures>, Broken> {
        loop {
            let (rate, bound) = match search.next(points, allowed) {
                Step::Try(rate) => {
                    let order = Order { len: size - FCS, rate, duration: plan.trial };
                    points.push(self.trial(Purpose::Search, order, plan)?.0);
                    continue;
                }
                Step::Nothing => return Ok(None),
                Step::Found(rate, bound) => (rate, bound),
            };
            let line = self.frames.last().map_or(0.0, |frame| frame.line_fps);
            return Ok(Some(Figures::new(rate, bound, size, line)));
        }
    }

    /// The rate again and again: how far the trials differ, and the latency of all of them.
    fn repeat(&mut self, at: &'static str, found: Figures, plan: &Plan, size: usize) -> Result<(), Broken> {
        let order = Order { len: size - FCS, rate: found.fps, duration: plan.trial };
        let mut all = Histogram::default();
        let mut trials = Vec::new();
        for _ in 0..plan.repeats {
            let (point, latency) = self.trial(Purpose::Repeat, order, plan)?;
            all.add(&latency);
            trials.push((point.loss, Latency::of(&latency)));
        }
        self.now(|frame| {
            frame.repeats = Some(Spread::of(at, &trials));
            frame.latency_us = Latency::of(&all);
            frame.histogram = all;
        });
        Ok(())
    }

    fn trial(&mut self, purpose: Purpose, order: Order, plan: &Plan) -> Result<(Point, Histogram), Broken> {
        self.links(plan)?;
        let (counts, result) = self.bench.trial(order);
        let point = point(&counts, order, plan.ways().len());
        let trial = Trial { broken_off: result.is_err(), ..Trial::new(purpose, order, &counts, &point) };
        if purpose != Purpose::WarmUp {
            self.progress.long_step(&format!("{} bytes: {trial}", order.len + FCS));
        }
        self.now(|frame| frame.trials.push(trial));
        result.map(|()| (point, counts.latency))
    }

    fn report(
        mut self,
        options: &RunOptions,
        plan: &Plan,
        ground: &Ground,
        broken: Option<Broken>,
        inbox: &Receiver<Event>,
    ) -> Report {
        let rig = &mut self.bench.rig;
        let (failure, ended) = match broken {
            Some(Broken::Failed(what)) => (Some(what), None),
            Some(Broken::Down(what)) => (None, Some(what)),
            Some(Broken::Stop) => (None, Some("stopped before everything was measured".into())),
            None => (None, None),
        };
        let failure = rig.end(failure, inbox);
        self.progress.clear();
        let mut problems = rig.problems(failure);
        problems.extend(ended);
        Report::new(report::Parts {
            options,
            plan,
            accel: ground.accel,
            image_bytes: ground.image_bytes,
            image: &self.bench.rig.image,
            books: self.bench.source.books(),
            frames: self.frames,
            problems,
        })
    }
}

/// What a trial says to a search.
fn point(counts: &Counts, order: Order, ways: usize) -> Point {
    let planned = order.planned() * ways as u64;
    let part = |count: u64, of: u64| if of == 0 { 0.0 } else { count as f64 / of as f64 };
    let offered = order.rate * part(counts.sent, planned);
    let loss = if counts.sent == 0 { 1.0 } else { part(counts.sent - counts.back, counts.sent) };
    Point { asked: order.rate, offered, loss }
}
