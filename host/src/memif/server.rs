//! A server of the host: one socket, any number of interfaces by their numbers, one client each.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use drivers::memif::message::{AddRegion, Init, Message, Reason, cut};
use drivers::memif::server::Step;
use drivers::memif::{Attached, End, Server, ServerOptions};
use hal::shared_file::SharedFile;
use rustix::event::{EventfdFlags, eventfd};

use super::client::{Plugs, Status, kick};
use super::socket::{Address, ControlSocket, Listener, Received, wait};

/// A handshake that takes longer is given up.
const HANDSHAKE: Duration = Duration::from_secs(2);
/// Between two looks at faults of queues.
const LOOK: u32 = 50;
/// Clients that are in the middle of a handshake; more wait at the door.
const MOST_GUESTS: usize = 16;
/// The largest region that is mapped.
const MOST_BYTES: u64 = 1 << 36;

/// An interface of a server.
pub struct Interface {
    /// What it is.
    pub options: ServerOptions,
    /// Its queues.
    pub plugs: Arc<Plugs>,
    /// Its connection.
    pub status: Arc<Status>,
}

impl Interface {
    /// One that nobody has connected to.
    pub fn new(options: ServerOptions) -> Self {
        let plugs = Arc::new(Plugs::new(options.queues));
        Self { options, plugs, status: Arc::default() }
    }
}

/// The thread that looks after a server's socket.
pub struct ServerThread {
    stop: Arc<AtomicBool>,
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl ServerThread {
    /// A server at `address` with these interfaces.
    ///
    /// # Errors
    /// Somebody listens there already, or what the system said.
    pub fn start(address: &Address, interfaces: Vec<Interface>) -> io::Result<Self> {
        let listener = Listener::bind(address)?;
        let stop = Arc::new(AtomicBool::new(false));
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let mut control =
            Control { listener, interfaces, guests: Vec::new(), stop: stop.clone(), wake: wake.clone() };
        let thread = std::thread::Builder::new().name("memif-server".into()).spawn(move || control.run())?;
        Ok(Self { stop, wake, thread: Some(thread) })
    }
}

impl Drop for ServerThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let _ = rustix::io::write(&*self.wake, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Somebody who has connected.
struct Guest {
    socket: ControlSocket,
    server: Server,
    /// The interface that is his.
    interface: Option<usize>,
    /// Its regions.
    files: Vec<SharedFile>,
    since: Instant,
}

struct Control {
    listener: Listener,
    interfaces: Vec<Interface>,
    guests: Vec<Guest>,
    stop: Arc<AtomicBool>,
    wake: Arc<OwnedFd>,
}

impl Control {
    fn run(&mut self) {
        while !self.stop.load(Ordering::Acquire) {
            self.accept();
            for index in (0..self.guests.len()).rev() {
                if let Err(end) = self.look_after(index) {
                    self.send_off(index, &end);
                }
            }
            let guests = self.guests.iter().map(|guest| guest.socket.as_fd());
            let all: Vec<_> = guests.chain([self.wake.as_fd(), self.listener.as_fd()]).collect();
            // Who has to wait at the door does not keep us awake.
            let full = usize::from(self.is_full());
            wait(&all[..all.len() - full], LOOK);
        }
        for index in (0..self.guests.len()).rev() {
            self.send_off(index, &End::ByUs(cut("Interface is going down")));
        }
    }

    fn is_full(&self) -> bool {
        self.guests.iter().filter(|guest| guest.interface.is_none()).count() >= MOST_GUESTS
    }

    fn accept(&mut self) {
        while !self.is_full()
            && let Ok(Some(socket)) = self.listener.accept()
        {
            let most = |of: fn(&ServerOptions) -> u16| {
                self.interfaces.iter().map(|interface| of(&interface.options)).max().unwrap_or(1)
            };
            let hello =
                Server::hello(most(|options| options.queues), most(|options| options.log2_size.into()) as u8);
            let Some(options) = self.interfaces.first().map(|interface| interface.options.clone()) else {
                return;
            };
            if socket.send(&hello.encode(), None).is_ok() {
                let server = Server::new(options);
                self.guests.push(Guest {
                    socket,
                    server,
                    interface: None,
                    files: Vec::new(),
                    since: Instant::now(),
                });
            }
        }
    }

    /// Takes all that a guest has sent.
    fn look_after(&mut self, index: usize) -> Result<(), End> {
        while self.take(index)? {}
        let Some(guest) = self.guests.get(index) else { return Ok(()) };
        if guest.files.iter().any(SharedFile::is_torn) {
            return Err(End::ByUs(cut("Region has become shorter")));
        }
        if !guest.server.is_up() && guest.since.elapsed() >= HANDSHAKE {
            return Err(End::ByUs(cut("Handshake takes too long")));
        }
        let plugs = guest.interface.and_then(|at| self.interfaces.get(at)).map(|interface| &interface.plugs);
        match plugs.and_then(|plugs| plugs.fault()) {
            Some(reason) => Err(End::ByUs(cut(reason))),
            None => Ok(()),
        }
    }

    /// Takes a message, if there is one; says whether there was.
    fn take(&mut self, index: usize) -> Result<bool, End> {
        let lost = |error: io::Error| End::ByPeer(cut(&error.to_string()));
        let Some(guest) = self.guests.get_mut(index) else { return Ok(false) };
        let (bytes, descriptor) = match guest.socket.receive().map_err(lost)? {
            Received::Nothing => return Ok(false),
            Received::Closed => return Err(End::ByPeer(cut("connection closed"))),
            Received::Other => return Err(End::ByUs(cut("Invalid message size"))),
            Received::Message(bytes, descriptor) => (bytes, descriptor),
        };
        let message = Message::decode(&bytes).ok_or_else(|| End::ByUs(cut("Unknown message")))?;
        let attached = attached(&message, descriptor, &mut guest.files);
        let answer = match guest.server.handle(&message, attached)? {
            Step::Asked(init) => self.introduce(index, &init)?,
            Step::Send(answer) => answer,
            Step::Up(answer) => {
                self.attach(index);
                answer
            }
        };
        let Some(guest) = self.guests.get(index) else { return Ok(false) };
        guest.socket.send(&answer.encode(), None).map_err(lost)?;
        Ok(true)
    }

    /// The interface that a guest asks for is his, if it is nobody's.
    fn introduce(&mut self, index: usize, init: &Init) -> Result<Message, End> {
        let wanted = self.interfaces.iter().position(|interface| interface.options.id == init.id);
        let wanted = wanted.ok_or_else(|| End::ByUs(cut("ID not found")))?;
        if self.guests.iter().any(|guest| guest.interface == Some(wanted)) {
            return Err(End::ByUs(cut("Already connected")));
        }
        let options = self.interfaces[wanted].options.clone();
        let guest = &mut self.guests[index];
        let answer = guest.server.accept(options, init)?;
        guest.interface = Some(wanted);
        Ok(answer)
    }

    fn attach(&self, index: usize) {
        let Some(guest) = self.guests.get(index) else { return };
        let Some(interface) = guest.interface.and_then(|at| self.interfaces.get(at)) else { return };
        for (client_to_server, plugs) in [(true, &interface.plugs.rx), (false, &interface.plugs.tx)] {
            for (queue, plug) in (0..).zip(plugs) {
                if let Some(attachment) = guest.server.attachment(client_to_server, queue) {
                    plug.attach(attachment);
                }
            }
        }
        interface.status.set(true);
        interface.status.say("");
    }

    /// Ends a connection; the guest is told why, and the interface is free again.
    fn send_off(&mut self, index: usize, end: &End) {
        let guest = self.guests.swap_remove(index);
        if let End::ByUs(reason) = end {
            let message = Message::Disconnect { code: 0, reason: reason.clone() };
            // Who is gone needs no reason.
            let _ = guest.socket.send(&message.encode(), None);
        }
        if let Some(interface) = guest.interface.and_then(|at| self.interfaces.get(at)) {
            interface.status.set(false);
            interface.plugs.detach();
            interface.status.say(&end.to_string());
        }
    }
}

/// What a message needs of its descriptor.
fn attached(message: &Message, descriptor: Option<OwnedFd>, files: &mut Vec<SharedFile>) -> Attached {
    match (message, descriptor) {
        (Message::AddRegion(region), Some(file)) => {
            let mapped = map(region, file);
            files.extend(mapped.as_ref().ok().cloned());
            Attached::Region(mapped.map(|file| file.memory().clone()))
        }
        (Message::AddRing(_), Some(event)) => Attached::Interrupt(kick(Arc::new(event))),
        _ => Attached::Nothing,
    }
}

/// Maps a client's file. One that may shrink is mapped as well: see [`SharedFile`].
fn map(region: &AddRegion, file: OwnedFd) -> Result<SharedFile, Reason> {
    if region.size == 0 || region.size > MOST_BYTES {
        return Err(cut("Invalid region size"));
    }
    SharedFile::map(file, region.size as usize)
        .map_err(|error| cut(&format!("Region can't be mapped: {error}")))
}
