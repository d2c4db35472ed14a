//! The main job: a machine with the image and software cards, traffic through it, and the account of every frame.

mod options;
mod process;
mod progress;
mod report;
mod summary;

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use model::{Handle, PortConfig, Server, Xl710};

use crate::capture::{self, Capture, Unfit};
use crate::qemu::{self, Machine, Qemu};
use crate::traffic::{self, FrameSet, Macs, Traffic, TrafficWire};
use crate::{Failure, image, signals};

pub use options::{PortOptions, RunOptions};
pub use summary::{PortSummary, Summary};

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
    let stopped = Arc::new(AtomicBool::new(false));
    let (stop_events, flag) = (events.clone(), stopped.clone());
    signals::on_stop(move || {
        flag.store(true, Ordering::Release);
        let _ = stop_events.send(Event::Stop);
    })?;
    let mut progress = Progress::new();
    let plan = Plan::read(options)?;
    if plan.nothing_to_offer() {
        progress.say("nothing to offer: no record of the capture is one that a card carries");
        return Ok(Summary::of_nothing(options, plan.unfit));
    }
    let unfit = plan.unfit;
    let cards = Cards::bind(options, plan)?;
    let qemu = Qemu::obtain(&mut |step| progress.step(step))?;
    let image = match &options.image {
        Some(image) => image.clone(),
        None => {
            progress.step("building the image");
            image::build(image::Profile::Release)?
        }
    };
    let image_bytes = std::fs::metadata(&image)
        .map_err(|error| Failure::usage(format!("{}: {error}", image.display())))?
        .len();
    progress.step("choosing the accelerator");
    let is_stopped = || stopped.load(Ordering::Acquire);
    let accel = qemu::choose(&qemu, &image, options.accel, &is_stopped)?;
    if is_stopped() {
        return Err(Failure::run("stopped before anything was started"));
    }
    let machine = Machine::new(accel, image, options.image_options(), cards.sockets.clone());
    let mut rig = Rig::start(options, cards, machine.command(&qemu), &events)?;
    let ended = rig.carry_out(options, &inbox, &mut progress);
    rig.sum_up(options, ended, accel, image_bytes, unfit)
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
    folder: tempfile::TempDir,
}

impl Cards {
    fn bind(options: &RunOptions, plan: Plan) -> Result<Self, Failure> {
        let macs: Vec<[u8; 6]> =
            (0..options.ports.len()).map(|port| [0x68, 0x05, 0xca, 0, 0, port as u8]).collect();
        let repeat = !plan.from_capture || options.repeat;
        let traffic =
            Traffic::new(options.forward, Macs(macs.clone()), plan.ports, options.in_flight, repeat);
        let folder = tempfile::Builder::new().prefix("barewire-").tempdir();
        let folder = folder.map_err(|error| Failure::usage(format!("folder for sockets: {error}")))?;
        let mut cards = Vec::new();
        for (index, (port, mac)) in options.ports.iter().zip(macs).enumerate() {
            let socket = port.socket.clone().unwrap_or_else(|| folder.path().join(format!("i40e{index}")));
            let config = PortConfig { device_id: port.device, mac, name: format!("i40e{index}") };
            cards.push((socket, Xl710::new(config, Box::new(TrafficWire::new(&traffic, index)))));
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
    _folder: tempfile::TempDir,
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
            let error = server.run().err().map(|error| error.to_string());
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
        let mut hurried = false;
        if failure.is_none() {
            progress.say(&format!(
                "ready after {} ms, {}",
                self.started.elapsed().as_millis(),
                self.image.paths()
            ));
            let start = Instant::now();
            self.traffic.start();
            self.server.kick();
            (failure, hurried) = self.watch(options, inbox, progress, start);
            self.traffic.stop();
            seconds = start.elapsed().as_secs_f64();
        }
        if failure.is_none() {
            progress.step("draining");
            self.traffic.drain(if hurried { HURRIED_DRAIN } else { DRAIN });
            self.process.say("quit\n");
            failure = self.wait_end(inbox, if hurried { HURRIED_END_LIMIT } else { END_LIMIT });
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

    /// Until the time is up, everything is sent, or something happens. Says what went wrong, and whether to hurry.
    fn watch(
        &mut self,
        options: &RunOptions,
        inbox: &Receiver<Event>,
        progress: &mut Progress,
        start: Instant,
    ) -> (Option<String>, bool) {
        let end = start + options.duration;
        loop {
            let tick = end.min(Instant::now() + Duration::from_millis(100));
            if self.traffic.wait_finished(tick) {
                return (None, false);
            }
            loop {
                match self.next(inbox, Instant::now()) {
                    Next::Line => {}
                    Next::Late => break,
                    Next::Stop => return (None, true),
                    Next::Failed(what) => return (Some(what), false),
                }
            }
            progress.show(&self.traffic, start.elapsed(), options.duration);
            if Instant::now() >= end {
                return (None, false);
            }
        }
    }

    fn wait_end(&mut self, inbox: &Receiver<Event>, limit: Duration) -> Option<String> {
        let until = Instant::now() + limit;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match inbox.recv_timeout(left) {
                Ok(Event::Line(line)) => self.image.line(&line),
                Ok(Event::Exited(Some(qemu::DEBUG_EXIT_SUCCESS))) if self.image.ended_well => return None,
                Ok(Event::Exited(status)) => return Some(self.process.ended_with(status, &self.image)),
                Ok(Event::ServerEnded(Some(error))) => return Some(format!("the software card: {error}")),
                Ok(Event::ServerEnded(None) | Event::Stop) => {}
                Err(_) => return Some(format!("the image did not end within {} ms", limit.as_millis())),
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
            Ok(Event::ServerEnded(error)) => {
                let why = error.unwrap_or_else(|| "QEMU has let go of it".into());
                Next::Failed(self.process.tell(&format!("the software card is gone: {why}")))
            }
            Err(RecvTimeoutError::Timeout) => Next::Late,
            Err(RecvTimeoutError::Disconnected) => Next::Failed("every thread of the run is gone".into()),
        }
    }

    fn sum_up(
        mut self,
        options: &RunOptions,
        ended: Ended,
        accel: qemu::Accel,
        image_bytes: u64,
        unfit: Unfit,
    ) -> Result<Summary, Failure> {
        let captures_whole = self.traffic.finish_captures();
        let status = self.server.status();
        let mut problems: Vec<String> = ended.failure.into_iter().collect();
        if !captures_whole {
            problems.push("a capture could not be written to its end".into());
        }
        problems.extend(status.iter().flat_map(|port| port.violations.clone()));
        problems.append(&mut self.image.errors);
        Ok(Summary::new(summary::Parts {
            options,
            accel,
            image_bytes,
            unfit,
            image: &self.image,
            traffic: &self.traffic,
            started: self.started,
            seconds: ended.seconds,
            problems,
        }))
    }
}

/// What an event means to whoever waits.
enum Next {
    Line,
    Stop,
    Late,
    Failed(String),
}
