//! The main job: a machine with the image and software cards, traffic through it, and the account of every frame.

mod folder;
mod options;
mod process;
mod progress;
mod real;
mod report;
mod rig;
mod summary;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use crate::capture::{self, Capture, CaptureWriter, Unfit};
use crate::qemu::{self, Machine, Qemu};
use crate::traffic::{self, Forward, FrameSet, Limits, Rules, Traffic, TrafficWire};
use crate::{Failure, image, signals};

pub use options::{PortOptions, RunOptions};
pub use real::{RealPort, RealSummary, run_real};
pub use summary::{PortSummary, Summary};

pub(crate) use progress::Progress;
pub(crate) use report::ImageReport;
pub(crate) use rig::{Cards, Event, Next, Rig, macs};

/// The wire drains this long without a frame before the rest counts as lost.
const DRAIN: Duration = Duration::from_secs(1);
/// A mode that nobody knows may have dropped what has not come back for so long.
const GIVE_UP: Duration = Duration::from_millis(500);
/// The same as [`DRAIN`] when somebody waits at the terminal.
const HURRIED_DRAIN: Duration = Duration::from_millis(200);

/// Carries out a run.
///
/// # Errors
/// What was asked for can't be done, or went wrong before there was anything to sum up.
pub fn run(options: &RunOptions) -> Result<Summary, Failure> {
    let (events, inbox) = mpsc::channel();
    let stop_events = events.clone();
    signals::on_stop(move || drop(stop_events.send(Event::Stop)))?;
    let mut progress = Progress::new();
    let plan = Plan::read(options)?;
    if plan.nothing_to_offer() {
        progress.say("nothing to offer: no record of the capture is one that a card carries");
        return nothing(options, plan.unfit, Vec::new());
    }
    let unfit = plan.unfit;
    let (traffic, cards) = bind(options, plan)?;
    match prepare(options, &mut progress) {
        // Whatever a stop broke off is no news.
        _ if signals::stop_asked() => {
            nothing(options, unfit, vec!["stopped before anything was sent".into()])
        }
        Err(failure) => Err(failure),
        Ok(ground) => {
            let command = ground.machine(options, &cards).command(&ground.qemu);
            let outs: Vec<Option<PathBuf>> = options.ports.iter().map(|port| port.out.clone()).collect();
            traffic.record(&outs)?;
            let mut run = Forwarding { traffic, rig: Rig::start(cards, command, &events)? };
            let ended = run.carry_out(options, &inbox, &mut progress);
            // Another image may know better what its options mean.
            if let (false, Some(error)) = (run.rig.image.ready, run.rig.image.refused_option()) {
                return Err(Failure::usage(error));
            }
            Ok(run.sum_up(options, ended, &ground, unfit))
        }
    }
}

/// The account of a run that sent nothing: captures of what came out are empty.
fn nothing(options: &RunOptions, unfit: Unfit, problems: Vec<String>) -> Result<Summary, Failure> {
    if problems.is_empty() {
        for out in options.ports.iter().filter_map(|port| port.out.as_deref()) {
            CaptureWriter::create(out)?.finish();
        }
    }
    Ok(Summary { problems, ..Summary::of_nothing(options, unfit) })
}

/// What a machine is made of.
pub(crate) struct Ground {
    pub qemu: Qemu,
    pub image: PathBuf,
    pub image_bytes: u64,
    pub accel: qemu::Accel,
}

impl Ground {
    /// The machine with these cards.
    pub fn machine(&self, options: &RunOptions, cards: &Cards) -> Machine {
        let (image, sockets) = (self.image.clone(), cards.sockets());
        let mut machine = Machine::new(self.accel, image, options.image_options(), sockets);
        machine.cpus = options.cpus;
        machine
    }
}

/// Everything that takes time before a machine can be started.
pub(crate) fn prepare(options: &RunOptions, progress: &mut Progress) -> Result<Ground, Failure> {
    if let Some(image) = &options.image {
        image::check(image)?;
    }
    let qemu = Qemu::obtain(&mut |step| progress.long_step(step))?;
    let image = match &options.image {
        Some(image) => image.clone(),
        None => {
            progress.step("building the image");
            image::build(image::Profile::Release)?
        }
    };
    let image_bytes = image::check(&image)?;
    progress.step("choosing the accelerator");
    let accel = qemu::choose(&qemu, &image, options.accel, &mut |step| progress.long_step(step))?;
    Ok(Ground { qemu, image, image_bytes, accel })
}

/// What each port is given, read and checked before anything is started.
struct Plan {
    /// Frames for each port; none for a port that only sends.
    ports: Vec<Option<FrameSet>>,
    unfit: Unfit,
    from_capture: bool,
}

impl Plan {
    fn read(options: &RunOptions) -> Result<Self, Failure> {
        let shared = options.pcap.as_deref().map(capture::read).transpose()?;
        let any_capture = shared.is_some() || options.ports.iter().any(|port| port.pcap.is_some());
        let generates = options.forward == Forward::TxOnly;
        let mut unfit = Unfit::default();
        let mut ports = Vec::new();
        for (index, port) in options.ports.iter().enumerate() {
            let own = port.pcap.as_deref().map(capture::read).transpose()?;
            let capture: Option<&Capture> = own.as_ref().or(shared.as_ref());
            let frames = match capture {
                _ if generates => None,
                Some(capture) => {
                    unfit.add(&capture.unfit);
                    Some(FrameSet::new(capture.frames.clone()))
                }
                None if any_capture => None,
                None if options.forward == Forward::Ieee1588 => Some(traffic::syncs(index)),
                None if options.forward == Forward::IcmpEcho => {
                    Some(traffic::requests(index, options.frame_size))
                }
                None => Some(match options.frame_size {
                    Some(len) => traffic::sized(index, len),
                    None => traffic::imix(index),
                }),
            };
            ports.push(frames);
        }
        Ok(Self { ports, unfit, from_capture: any_capture && !generates })
    }

    fn nothing_to_offer(&self) -> bool {
        self.from_capture && self.ports.iter().all(|frames| frames.as_ref().is_none_or(FrameSet::is_empty))
    }
}

/// The cards on the wires of the plan's traffic.
fn bind(options: &RunOptions, plan: Plan) -> Result<(Arc<Traffic>, Cards), Failure> {
    let repeat = !plan.from_capture || options.repeat;
    let rules = Rules::new(options.forward, macs(options.ports.len()), &options.image_config());
    let limits = Limits { in_flight: options.in_flight(&plan.ports), repeat, in_order: options.in_order() };
    let traffic = Traffic::new(rules, plan.ports, limits);
    let cards = Cards::bind(&options.ports, |port| Box::new(TrafficWire::new(&traffic, port)))?;
    Ok((traffic, cards))
}

/// A machine, and the traffic through it.
struct Forwarding {
    traffic: Arc<Traffic>,
    rig: Rig,
}

/// How a run ended.
struct Ended {
    failure: Option<String>,
    seconds: f64,
}

impl Forwarding {
    /// From boot to the end of QEMU.
    fn carry_out(&mut self, options: &RunOptions, inbox: &Receiver<Event>, progress: &mut Progress) -> Ended {
        progress.step("booting");
        let mut seconds = 0.0;
        let mut failure = self.rig.wait_ready(inbox);
        if failure.is_none() {
            progress.say(&format!(
                "ready after {} ms, {}",
                self.rig.started.elapsed().as_millis(),
                self.rig.image.paths()
            ));
            let start = Instant::now();
            self.traffic.start();
            self.rig.server.kick();
            failure = self.watch(options, inbox, progress, start);
            self.traffic.stop();
            seconds = start.elapsed().as_secs_f64();
        }
        if failure.is_none() {
            progress.step("draining");
            self.traffic.drain(DRAIN, signals::stop_asked);
            if signals::stop_asked() {
                self.traffic.drain(HURRIED_DRAIN, || false);
            }
        }
        failure = self.rig.end(failure, inbox);
        progress.clear();
        Ended { failure, seconds }
    }

    /// Until the time is up, everything is sent, or something happens. Says what went wrong.
    fn watch(
        &mut self,
        options: &RunOptions,
        inbox: &Receiver<Event>,
        progress: &mut Progress,
        start: Instant,
    ) -> Option<String> {
        let duration = options.duration();
        let end = start + duration;
        progress.begin();
        loop {
            let tick = end.min(Instant::now() + Duration::from_millis(100));
            if self.traffic.wait_finished(tick) {
                return None;
            }
            loop {
                match self.rig.next(inbox, Instant::now()) {
                    Next::Line => {}
                    Next::Late => break,
                    Next::Stop => return None,
                    Next::Failed(what) => return Some(what),
                }
            }
            if options.forward.is_other() && self.traffic.give_up(GIVE_UP) {
                self.rig.server.kick();
            }
            progress.show(&self.traffic, options.forward, start.elapsed(), duration);
            if Instant::now() >= end {
                return None;
            }
        }
    }

    fn sum_up(mut self, options: &RunOptions, ended: Ended, ground: &Ground, unfit: Unfit) -> Summary {
        let captures_whole = self.traffic.finish_captures();
        let mut problems = self.rig.problems(ended.failure);
        if !captures_whole {
            problems.push("a capture could not be written to its end".into());
        }
        Summary::new(summary::Parts {
            options,
            accel: ground.accel,
            image_bytes: ground.image_bytes,
            unfit,
            image: &self.rig.image,
            traffic: &self.traffic,
            started: self.rig.started,
            seconds: ended.seconds,
            problems,
        })
    }
}
