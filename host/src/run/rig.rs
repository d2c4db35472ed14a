//! Everything that runs beside the one who leads it: QEMU with the image, and the thread that serves its cards.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use model::{Handle, PortConfig, Server, Wire, Xl710};

use super::PortOptions;
use super::folder::Folder;
use super::process::Process;
use super::report::ImageReport;
use crate::traffic::Macs;
use crate::{Failure, qemu, signals};

/// What the threads of a run tell the one that leads it.
#[derive(Debug)]
pub enum Event {
    /// A line from the image's console.
    Line(String),
    /// QEMU has ended, with this status if it has one.
    Exited(Option<i32>),
    /// The cards are not served any more.
    ServerEnded(Option<String>),
    /// Somebody wants it to end.
    Stop,
}

/// What an event means to whoever waits.
pub enum Next {
    Line,
    Stop,
    Late,
    Failed(String),
}

/// A translator may need seconds to get through firmware on a busy host.
pub const BOOT_LIMIT: Duration = Duration::from_secs(60);
/// It has this long to end.
pub const END_LIMIT: Duration = Duration::from_secs(5);
/// The same when somebody waits at the terminal.
pub const HURRIED_END_LIMIT: Duration = Duration::from_millis(1000);

/// Addresses of so many ports.
pub fn macs(ports: usize) -> Macs {
    Macs((0..ports).map(|port| [0x68, 0x05, 0xca, 0, 0, port as u8]).collect())
}

/// The software cards with their sockets, not served yet.
pub struct Cards {
    server: Server,
    sockets: Vec<PathBuf>,
    folder: Folder,
}

impl Cards {
    /// A card for each port, on the wire that `wire` makes for its number.
    pub fn bind(
        ports: &[PortOptions],
        mut wire: impl FnMut(usize) -> Box<dyn Wire>,
    ) -> Result<Self, Failure> {
        let folder = Folder::new()?;
        let mut cards = Vec::new();
        for (index, (port, mac)) in ports.iter().zip(macs(ports.len()).0).enumerate() {
            let socket = port.socket.clone().unwrap_or_else(|| folder.path().join(format!("i40e{index}")));
            let config = PortConfig { device_id: port.device, mac, name: format!("i40e{index}") };
            let mut card = Xl710::new(config, wire(index));
            if let Some(faults) = &port.faults {
                card.play(&faults.script(card.name())?);
            }
            cards.push((socket, card));
        }
        let sockets = cards.iter().map(|(socket, _)| socket.clone()).collect();
        let server = Server::bind(cards).map_err(|error| Failure::usage(error.to_string()))?;
        Ok(Self { server, sockets, folder })
    }

    /// Where QEMU finds them.
    pub fn sockets(&self) -> Vec<PathBuf> {
        self.sockets.clone()
    }
}

/// Everything that runs.
pub struct Rig {
    /// The cards.
    pub server: Handle,
    server_thread: Option<std::thread::JoinHandle<()>>,
    /// QEMU.
    pub process: Process,
    /// What the image has said.
    pub image: ImageReport,
    /// When QEMU was started.
    pub started: Instant,
    /// The sockets' folder; goes with the rig.
    _folder: Folder,
}

impl Rig {
    /// Serves the cards and starts `command`; what happens is told to `events`.
    pub fn start(cards: Cards, command: Command, events: &Sender<Event>) -> Result<Self, Failure> {
        let Cards { server, folder, .. } = cards;
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
            server: handle,
            server_thread: Some(thread),
            process,
            image: ImageReport::default(),
            started,
            _folder: folder,
        })
    }

    /// Until the image forwards. Says what went wrong.
    pub fn wait_ready(&mut self, inbox: &Receiver<Event>) -> Option<String> {
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

    /// Tells the image to end, unless something went wrong, and ends what is left. Says what went wrong.
    pub fn end(&mut self, failure: Option<String>, inbox: &Receiver<Event>) -> Option<String> {
        let failure = failure.or_else(|| {
            self.process.say("quit\n");
            self.wait_end(inbox)
        });
        self.process.end();
        self.server.stop();
        if let Some(thread) = self.server_thread.take() {
            let _ = thread.join();
        }
        failure
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

    /// The next event, at most until `until`; lines are taken in.
    pub fn next(&mut self, inbox: &Receiver<Event>, until: Instant) -> Next {
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

    /// What went wrong: `failure`, and what the driver or the image did.
    pub fn problems(&mut self, failure: Option<String>) -> Vec<String> {
        let mut problems: Vec<String> = failure.into_iter().collect();
        problems.extend(self.server.status().iter().flat_map(|port| port.violations.clone()));
        // Those that ended the image have been told with its end.
        let told = |error: &String| problems.iter().any(|problem| problem.contains(error.as_str()));
        let errors: Vec<String> = self.image.errors.drain(..).filter(|error| !told(error)).collect();
        problems.extend(errors);
        problems
    }
}
