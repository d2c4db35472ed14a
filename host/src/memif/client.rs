//! A client of the host: connects, hands its memory over, and connects again when the server is gone.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use drivers::memif::client::Step;
use drivers::memif::message::{Message, cut};
use drivers::memif::{Attach, Client, ClientOptions, End, Kick, Plug};
use hal::shared_file::SharedFile;
use rustix::event::{EventfdFlags, eventfd};

use super::socket::{Address, ControlSocket, Received, wait};

/// Between two tries to connect.
const RETRY: Duration = Duration::from_millis(100);
/// A handshake that takes longer is given up.
const HANDSHAKE: Duration = Duration::from_secs(2);
/// Between two looks at faults of queues.
const LOOK: u32 = 50;

/// What a thread tells of its connection.
#[derive(Default)]
pub struct Status {
    up: AtomicBool,
    connections: AtomicU64,
    said: Mutex<String>,
}

impl Status {
    /// There is a connection.
    pub fn is_up(&self) -> bool {
        self.up.load(Ordering::Acquire)
    }

    /// Connections that have been made.
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Acquire)
    }

    /// Why the last one ended, or could not be made.
    pub fn said(&self) -> String {
        self.said.lock().map_or_else(|_| String::new(), |said| said.clone())
    }

    pub(super) fn set(&self, up: bool) {
        self.up.store(up, Ordering::Release);
        if up {
            self.connections.fetch_add(1, Ordering::AcqRel);
        }
    }

    pub(super) fn say(&self, what: &str) {
        if let Ok(mut said) = self.said.lock() {
            what.clone_into(&mut said);
        }
    }
}

/// The queues of a port, as control sees them.
pub struct Plugs {
    /// By index; a queue of the other kind than rings have it: what we receive by.
    pub rx: Vec<Arc<Plug>>,
    /// What we send by.
    pub tx: Vec<Arc<Plug>>,
}

impl Plugs {
    /// For so many queues each way.
    pub fn new(queues: u16) -> Self {
        let some = || (0..queues).map(|_| Arc::default()).collect();
        Self { rx: some(), tx: some() }
    }

    pub(super) fn detach(&self) {
        self.rx.iter().chain(&self.tx).for_each(|plug| plug.detach());
    }

    pub(super) fn fault(&self) -> Option<&'static str> {
        self.rx.iter().chain(&self.tx).find_map(|plug| plug.fault()).map(drivers::memif::Fault::reason)
    }
}

/// The thread that looks after a client's connection.
pub struct ClientThread {
    /// Its queues.
    pub plugs: Arc<Plugs>,
    /// Its connection.
    pub status: Arc<Status>,
    stop: Arc<AtomicBool>,
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl ClientThread {
    /// A client of the server at `address`, with its memory in `file`.
    ///
    /// # Errors
    /// What is asked for does not fit into the file, or what the system said.
    pub fn start(address: Address, options: ClientOptions, file: SharedFile) -> io::Result<Self> {
        let queues = options.queues;
        let client = Client::new(options, file.memory().clone(), file.memory().len() as u64)
            .map_err(|error| io::Error::other(error.to_string()))?;
        let plugs = Arc::new(Plugs::new(queues));
        let (status, stop): (Arc<Status>, Arc<AtomicBool>) = Default::default();
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let mut control = Control {
            address,
            client,
            file,
            interrupts: Interrupts::new(queues)?,
            plugs: plugs.clone(),
            status: status.clone(),
            stop: stop.clone(),
            wake: wake.clone(),
        };
        let thread = std::thread::Builder::new().name("memif-client".into()).spawn(move || control.run())?;
        Ok(Self { plugs, status, stop, wake, thread: Some(thread) })
    }
}

impl Drop for ClientThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let _ = rustix::io::write(&*self.wake, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// An eventfd for each ring.
struct Interrupts {
    c2s: Vec<Arc<OwnedFd>>,
    s2c: Vec<Arc<OwnedFd>>,
}

impl Interrupts {
    fn new(queues: u16) -> io::Result<Self> {
        let some = || {
            let new = |_| Ok(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?));
            (0..queues).map(new).collect::<io::Result<Vec<_>>>()
        };
        Ok(Self { c2s: some()?, s2c: some()? })
    }

    fn of(&self, client_to_server: bool, index: u16) -> Option<&Arc<OwnedFd>> {
        if client_to_server { &self.c2s } else { &self.s2c }.get(usize::from(index))
    }

    fn kick(&self, client_to_server: bool, index: u16) -> Option<Kick> {
        let fd = self.of(client_to_server, index)?.clone();
        Some(kick(fd))
    }
}

/// Writes to an eventfd. One whose count is full wakes anyway.
pub(super) fn kick(fd: Arc<OwnedFd>) -> Kick {
    Arc::new(move || {
        let _ = rustix::io::write(&*fd, &1_u64.to_ne_bytes());
    })
}

struct Control {
    address: Address,
    client: Client,
    file: SharedFile,
    interrupts: Interrupts,
    plugs: Arc<Plugs>,
    status: Arc<Status>,
    stop: Arc<AtomicBool>,
    wake: Arc<OwnedFd>,
}

impl Control {
    fn run(&mut self) {
        while !self.stop.load(Ordering::Acquire) {
            match ControlSocket::connect(&self.address) {
                Ok(socket) => {
                    self.client.open();
                    let end = self.serve(&socket);
                    self.status.set(false);
                    self.plugs.detach();
                    if let End::ByUs(reason) = &end {
                        let message = Message::Disconnect { code: 0, reason: reason.clone() };
                        // Who is gone needs no reason.
                        let _ = socket.send(&message.encode(), None);
                    }
                    self.status.say(&end.to_string());
                }
                Err(error) => self.status.say(&format!("{}: {error}", self.address)),
            }
            if !self.stop.load(Ordering::Acquire) {
                wait(&[self.wake.as_fd()], RETRY.as_millis() as u32);
            }
        }
    }

    /// A connection, up to its end.
    fn serve(&mut self, socket: &ControlSocket) -> End {
        let until = Instant::now() + HANDSHAKE;
        loop {
            match self.next(socket) {
                Ok(true) => continue,
                Ok(false) => {}
                Err(end) => return end,
            }
            if self.stop.load(Ordering::Acquire) {
                return End::ByUs(cut("Interface is going down"));
            }
            if !self.client.is_up() && Instant::now() >= until {
                return End::ByUs(cut("Handshake takes too long"));
            }
            if let Some(reason) = self.plugs.fault() {
                return End::ByUs(cut(reason));
            }
            wait(&[socket.as_fd(), self.wake.as_fd()], LOOK);
        }
    }

    /// Takes a message, if there is one; says whether there was.
    fn next(&mut self, socket: &ControlSocket) -> Result<bool, End> {
        let lost = |error: io::Error| End::ByPeer(cut(&error.to_string()));
        // Nothing that a server sends comes with a descriptor: what does is closed.
        let bytes = match socket.receive().map_err(lost)? {
            Received::Nothing => return Ok(false),
            Received::Closed => return Err(End::ByPeer(cut("connection closed"))),
            Received::Other => return Err(End::ByUs(cut("Invalid message size"))),
            Received::Message(bytes, _) => bytes,
        };
        let message = Message::decode(&bytes).ok_or_else(|| End::ByUs(cut("Unknown message")))?;
        match self.client.handle(&message)? {
            Step::Wait => {}
            Step::Send(message, attach) => {
                let attached = match attach {
                    Attach::Nothing => None,
                    Attach::Region => Some(self.file.as_fd()),
                    Attach::Interrupt { client_to_server, index } => {
                        self.interrupts.of(client_to_server, index).map(|fd| fd.as_fd())
                    }
                };
                socket.send(&message.encode(), attached).map_err(lost)?;
            }
            Step::Up(_) => self.attach(),
        }
        Ok(true)
    }

    fn attach(&self) {
        for (client_to_server, plugs) in [(true, &self.plugs.tx), (false, &self.plugs.rx)] {
            for (index, plug) in (0..).zip(plugs) {
                let kick = self.interrupts.kick(client_to_server, index).filter(|_| client_to_server);
                if let Some(attachment) = self.client.attachment(client_to_server, index, kick) {
                    plug.attach(attachment);
                }
            }
        }
        self.status.set(true);
        self.status.say("");
    }
}
