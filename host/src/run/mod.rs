//! The main job: a machine with the image and software cards, traffic through it, and the account of every frame.

mod folder;
mod options;
mod process;
mod progress;
mod real;
mod report;
mod summary;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use model::{Handle, PortConfig, Server, Xl710};

use crate::capture::{self, Capture, CaptureWriter, Unfit};
use crate::qemu::{self, Machine, Qemu};
use crate::traffic::{self, FrameSet, Limits, Macs, Traffic, TrafficWire};
use crate::{Failure, image, signals};

pub use options::{PortOptions, RunOptions};
pub use real::{RealPort, RealSummary, run_real};
pub use summary::{PortSummary, Summary};

use folder::Folder;
use process::Process;
use progress::Progress;
use report::ImageReport;

/// What the threads of a run tell the one that leads it.
#[derive(Debug)]
enum Event {
    /// A line from the image's console.
    Line(String),
    /// QEMU has ended, with this status if it has one.
    Exited(Option<i32>),
    /// The cards are not served any more.
    ServerEnded(Option<String>),
    /// Somebody wants it to end.
    Stop,
}

/// A translator may need seconds to get through firmware on a busy host.
const BOOT_LIMIT: Duration = Duration::from_secs(60);
/// The wire drains this long without a frame before the rest counts as lost.
const DRAIN: Duration = Duration::from_secs(1);
const END_LIMIT: Duration = Duration::from_secs(5);
/// The same two when somebody waits at the terminal.
const HURRIED_DRAIN: Duration = Duration::from_millis(200);
const HURRIED_END_LIMIT: Duration = Duration::from_millis(1000);

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
    let cards = Cards::bind(options, plan)?;
    match prepare(options, &mut progress) {
        // Whatever a stop broke off is no news.
        _ if signals::stop_asked() => {
            nothing(options, unfit, vec!["stopped before anything was sent".into()])
        }
        Err(failure) => Err(failure),
        Ok(ground) => {
            let mut machine = Machine::new(
                ground.accel,
                ground.image.clone(),
                options.image_options(),
                cards.sockets.clone(),
            );
            machine.cpus = options.cpus;
            let mut rig = Rig::start(options, cards, machine.command(&ground.qemu), &events)?;
            let ended = rig.carry_out(options, &inbox, &mut progress);
            // Another image may know better what its options mean.
            if let (false, Some(error)) = (rig.image.ready, rig.image.refused_option()) {
                return Err(Failure::usage(error));
            }
            Ok(rig.sum_up(options, ended, &ground, unfit))
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
struct Ground {
    qemu: Qemu,
    image: PathBuf,
    image_bytes: u64,
    accel: qemu::Accel,
}

fn prepare(options: &RunOptions, progress: &mut Progress) -> Result<Ground, Failure> {
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
        let generates = options.forward == traffic::Forward::TxOnly;
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

/// The software cards with their sockets, not served yet.
struct Cards {
    traffic: Arc<Traffic>,
    server: Server,
    sockets: Vec<PathBuf>,
    folder: Folder,
}

impl Cards {
    fn bind(options: &RunOptions, plan: Plan) -> Result<Self, Failure> {
        let macs: Vec<[u8; 6]> =
            (0..options.ports.len()).map(|port| [0x68, 0x05, 0xca, 0, 0, port as u8]).collect();
        let repeat = !plan.from_capture || options.repeat;
        let limits = Limits {
            in_flight: options.in_flight(&plan.ports),
            generated_len: options.generated_len(),
            repeat,
            in_order: options.in_order(),
        };
        let traffic = Traffic::new(options.forward, Macs(macs.clone()), plan.ports, limits);
        let folder = Folder::new()?;
        let mut cards = Vec::new();
        for (index, (port, mac)) in options.ports.iter().zip(macs).enumerate() {
            let socket = port.socket.clone().unwrap_or_else(|| folder.path().join(format!("i40e{index}")));
            let config = PortConfig { device_id: port.device, mac, name: format!("i40e{index}") };
            let mut card = Xl710::new(config, Box::new(TrafficWire::new(&traffic, index)));
            if let Some(faults) = &port.faults {
                card.play(&faults.script(card.name())?);
            }
            cards.push((socket, card));
        }
        let sockets = cards.iter().map(|(socket, _)| socket.clone()).collect();
        let server = Server::bind(cards).map_err(|error| Failure::usage(error.to_string()))?;
        Ok(Self { traffic, server, sockets, folder })
    }
}

/// Everything that runs.
struct Rig {
    traffic: Arc<Traffic>,
    server: Handle,
    server_thread: Option<std::thread::JoinHandle<()>>,
    process: Process,
    image: ImageReport,
    started: Instant,
    /// The sockets' folder; goes with the rig.
    _folder: Folder,
}

/// How a run ended.
struct Ended {
    failure: Option<String>,
    seconds: f64,
}

impl Rig {
    fn start(
        options: &RunOptions,
        cards: Cards,
        command: Command,
        events: &Sender<Event>,
    ) -> Result<Self, Failure> {
        let Cards { traffic, server, folder, .. } = cards;
        let outs: Vec<Option<PathBuf>> = options.ports.iter().map(|port| port.out.clone()).collect();
        traffic.record(&outs)?;
        let handle = server.handle();
        let server_events = events.clone();
        let thread = std::thread::spawn(move || {
            // A defect of the card must not leave the run waiting for it.
            let result = catch_unwind(AssertUnwindSafe(|| server.run()));
            let error = match result {
                Ok(result) => result.err().map(|error| error.to_string()),
                Err(_) => Some("it panicked".into()),
            };
            let _ = server_events.send(Event::ServerEnded(error));
        });
        let started = Instant::now();
        let process = Process::start(command, events).inspect_err(|_| handle.stop())?;
        Ok(Self {
            traffic,
            server: handle,
            server_thread: Some(thread),
            process,
            image: ImageReport::default(),
            started,
            _folder: folder,
        })
    }

    /// From boot to the end of QEMU.
    fn carry_out(&mut self, options: &RunOptions, inbox: &Receiver<Event>, progress: &mut Progress) -> Ended {
        progress.step("booting");
        let mut seconds = 0.0;
        let mut failure = self.wait_ready(inbox);
        if failure.is_none() {
            progress.say(&format!(
                "ready after {} ms, {}",
                self.started.elapsed().as_millis(),
                self.image.paths()
            ));
            let start = Instant::now();
            self.traffic.start();
            self.server.kick();
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
            self.process.say("quit\n");
            failure = self.wait_end(inbox);
        }
        progress.clear();
        self.process.end();
        self.server.stop();
        if let Some(thread) = self.server_thread.take() {
            let _ = thread.join();
        }
        Ended { failure, seconds }
    }

    fn wait_ready(&mut self, inbox: &Receiver<Event>) -> Option<String> {
        let until = Instant::now() + BOOT_LIMIT;
        loop {
            match self.next(inbox, until) {
                Next::Line if self.image.ready => return None,
                Next::Line => {}
                Next::Stop => return Some("stopped while the image was booting".into()),
                Next::Late => {
                    return Some(format!("the image is not ready after {} s", BOOT_LIMIT.as_secs()));
                }
                Next::Failed(what) => return Some(what),
            }
        }
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
                match self.next(inbox, Instant::now()) {
                    Next::Line => {}
                    Next::Late => break,
                    Next::Stop => return None,
                    Next::Failed(what) => return Some(what),
                }
            }
            progress.show(&self.traffic, options.forward, start.elapsed(), duration);
            if Instant::now() >= end {
                return None;
            }
        }
    }

    fn wait_end(&mut self, inbox: &Receiver<Event>) -> Option<String> {
        let hurried = |from: Instant| from + HURRIED_END_LIMIT;
        let now = Instant::now();
        let mut until = if signals::stop_asked() { hurried(now) } else { now + END_LIMIT };
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match inbox.recv_timeout(left) {
                Ok(Event::Line(line)) => {
                    self.image.line(&line);
                    self.process.remember(line);
                }
                Ok(Event::Exited(Some(qemu::DEBUG_EXIT_SUCCESS))) if self.image.ended_well => return None,
                Ok(Event::Exited(status)) => return Some(self.process.ended_with(status, &self.image)),
                Ok(Event::ServerEnded(Some(error))) => return Some(format!("the software card: {error}")),
                Ok(Event::ServerEnded(None)) => {}
                Ok(Event::Stop) => until = until.min(hurried(Instant::now())),
                Err(_) => return Some(self.process.tell("the image did not end when it was told to")),
            }
        }
    }

    fn next(&mut self, inbox: &Receiver<Event>, until: Instant) -> Next {
        let left = until.saturating_duration_since(Instant::now());
        match inbox.recv_timeout(left) {
            Ok(Event::Line(line)) => {
                self.image.line(&line);
                self.process.remember(line);
                Next::Line
            }
            Ok(Event::Stop) => Next::Stop,
            Ok(Event::Exited(status)) => Next::Failed(self.process.ended_with(status, &self.image)),
            Ok(Event::ServerEnded(Some(error))) => {
                Next::Failed(self.process.tell(&format!("the software card is gone: {error}")))
            }
            Ok(Event::ServerEnded(None)) => Next::Failed(self.why_gone(inbox)),
            Err(RecvTimeoutError::Timeout) => Next::Late,
            Err(RecvTimeoutError::Disconnected) => Next::Failed("every thread of the run is gone".into()),
        }
    }

    /// A card was let go of: most often because QEMU has ended, which is told a moment later.
    fn why_gone(&mut self, inbox: &Receiver<Event>) -> String {
        let until = Instant::now() + HURRIED_END_LIMIT;
        while let Ok(event) = inbox.recv_timeout(until.saturating_duration_since(Instant::now())) {
            match event {
                Event::Line(line) => {
                    self.image.line(&line);
                    self.process.remember(line);
                }
                Event::Exited(status) => return self.process.ended_with(status, &self.image),
                Event::ServerEnded(_) | Event::Stop => {}
            }
        }
        self.process.tell("QEMU runs on and has let go of a software card")
    }

    fn sum_up(mut self, options: &RunOptions, ended: Ended, ground: &Ground, unfit: Unfit) -> Summary {
        let captures_whole = self.traffic.finish_captures();
        let status = self.server.status();
        let mut problems: Vec<String> = ended.failure.into_iter().collect();
        if !captures_whole {
            problems.push("a capture could not be written to its end".into());
        }
        problems.extend(status.iter().flat_map(|port| port.violations.clone()));
        // Those that ended the image have been told with its end.
        let told = |error: &String| problems.iter().any(|problem| problem.contains(error.as_str()));
        let errors: Vec<String> = self.image.errors.drain(..).filter(|error| !told(error)).collect();
        problems.extend(errors);
        Summary::new(summary::Parts {
            options,
            accel: ground.accel,
            image_bytes: ground.image_bytes,
            unfit,
            image: &self.image,
            traffic: &self.traffic,
            started: self.started,
            seconds: ended.seconds,
            problems,
        })
    }
}

/// What an event means to whoever waits.
enum Next {
    Line,
    Stop,
    Late,
    Failed(String),
}
