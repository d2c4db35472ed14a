//! The server: one thread for all ports of a machine, woken by sockets and by its owner, never spinning.

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::message::{self, Message};
use super::session;
use crate::Xl710;
use crate::stats::Counters;

/// How long a client may take over one message.
const PATIENCE: Duration = Duration::from_secs(2);
/// Messages of one port that are handled before the others get their turn.
const MESSAGES: usize = 64;

/// Why ports can't be served, or no longer.
#[derive(Debug)]
pub enum ServeError {
    /// Somebody listens on the socket already.
    InUse(PathBuf),
    /// The socket can't be made.
    Bind(PathBuf, io::Error),
    /// Waiting for events failed.
    Poll(io::Error),
    /// A client broke the protocol.
    Client(String, io::Error),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse(path) => write!(f, "socket {}: in use", path.display()),
            Self::Bind(path, error) => write!(f, "socket {}: {error}", path.display()),
            Self::Poll(error) => write!(f, "waiting for the sockets: {error}"),
            Self::Client(name, error) => write!(f, "client of port {name}: {error}"),
        }
    }
}

impl std::error::Error for ServeError {}

/// What a port's owner can see while it is served.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PortStatus {
    /// A VMM is connected.
    pub connected: bool,
    /// What the MAC saw.
    pub counters: Counters,
    /// What the driver did that no driver may do.
    pub violations: Vec<String>,
}

struct Port {
    path: PathBuf,
    listener: UnixListener,
    client: Option<UnixStream>,
    /// A client was there and has gone.
    left: bool,
    card: Xl710,
}

impl Drop for Port {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// What the owner asks of the server's thread.
#[derive(Default)]
struct Orders {
    links: Vec<(usize, bool)>,
}

struct Shared {
    wake: OwnedFd,
    stop: AtomicBool,
    orders: Mutex<Orders>,
    status: Mutex<Vec<PortStatus>>,
}

/// Ports that wait for their VMMs.
pub struct Server {
    ports: Vec<Port>,
    shared: Arc<Shared>,
    /// Goes on when a client has gone.
    stay: bool,
}

/// A way to the server from other threads.
#[derive(Clone)]
pub struct Handle(Arc<Shared>);

impl Handle {
    /// Lets the server ask every wire for frames.
    pub fn kick(&self) {
        // A full counter means that it is awake already.
        let _ = rustix::io::write(&self.0.wake, &1_u64.to_ne_bytes());
    }

    /// Ends [`Server::run`].
    pub fn stop(&self) {
        self.0.stop.store(true, Ordering::Release);
        self.kick();
    }

    /// Plugs or pulls the cable of a port.
    pub fn set_link(&self, port: usize, up: bool) {
        let mut orders = self.0.orders.lock().unwrap_or_else(PoisonError::into_inner);
        orders.links.push((port, up));
        drop(orders);
        self.kick();
    }

    /// State of each port after the last event.
    pub fn status(&self) -> Vec<PortStatus> {
        self.0.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Makes the socket; a file that a dead server left is replaced.
fn bind(path: &Path) -> Result<UnixListener, ServeError> {
    let failed = |error| ServeError::Bind(path.to_owned(), error);
    match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let is_socket = fs::symlink_metadata(path).is_ok_and(|data| data.file_type().is_socket());
            if !is_socket || UnixStream::connect(path).is_ok() {
                return Err(ServeError::InUse(path.to_owned()));
            }
            fs::remove_file(path).map_err(failed)?;
            UnixListener::bind(path).map_err(failed)
        }
        other => other.map_err(failed),
    }
}

impl Server {
    /// Makes a socket for each port. Sockets of dead servers are replaced.
    ///
    /// # Errors
    /// The socket that can't be had; then none is left behind.
    pub fn bind(ports: Vec<(PathBuf, Xl710)>) -> Result<Self, ServeError> {
        let mut bound = Vec::new();
        for (path, card) in ports {
            let listener = bind(&path)?;
            listener.set_nonblocking(true).map_err(|error| ServeError::Bind(path.clone(), error))?;
            bound.push(Port { path, listener, client: None, left: false, card });
        }
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| ServeError::Poll(error.into()))?;
        let status = Mutex::new(vec![PortStatus::default(); bound.len()]);
        let shared = Shared { wake, stop: AtomicBool::new(false), orders: Mutex::default(), status };
        Ok(Self { ports: bound, shared: Arc::new(shared), stay: false })
    }

    /// Goes on serving when a client has gone.
    pub fn stay(mut self) -> Self {
        self.stay = true;
        self
    }

    /// A way to this server from other threads.
    pub fn handle(&self) -> Handle {
        Handle(self.shared.clone())
    }

    /// Serves until [`Handle::stop`], or until a client has gone.
    ///
    /// # Errors
    /// What ended it otherwise.
    pub fn run(mut self) -> Result<(), ServeError> {
        while !self.shared.stop.load(Ordering::Acquire) {
            let ready = self.wait()?;
            self.take_orders();
            for (port, ready) in self.ports.iter_mut().zip(ready) {
                if ready {
                    match serve(port) {
                        // Whoever breaks the protocol loses its card; the others keep theirs.
                        Err(_) if self.stay => disconnect(port),
                        other => other?,
                    }
                }
            }
            self.ports.iter_mut().for_each(|port| port.card.pump());
            self.publish();
            // The ports are those of one machine: it is gone, or can't use one of them any more.
            if !self.stay && self.ports.iter().any(|port| port.left) {
                break;
            }
        }
        Ok(())
    }

    /// Waits for an event; says which ports have one.
    fn wait(&self) -> Result<Vec<bool>, ServeError> {
        let mut fds = vec![PollFd::new(&self.shared.wake, PollFlags::IN)];
        for port in &self.ports {
            fds.push(match &port.client {
                Some(client) => PollFd::from_borrowed_fd(client.as_fd(), PollFlags::IN),
                None => PollFd::from_borrowed_fd(port.listener.as_fd(), PollFlags::IN),
            });
        }
        // Rings that are longer than one go are gone on with, after a look at the sockets.
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let busy = self.ports.iter().any(|port| port.card.is_busy());
        match poll(&mut fds, busy.then_some(&at_once)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(ServeError::Poll(error.into())),
        }
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.shared.wake, &mut count);
        Ok(fds.iter().skip(1).map(|fd| !fd.revents().is_empty()).collect())
    }

    fn take_orders(&mut self) {
        let mut orders = self.shared.orders.lock().unwrap_or_else(PoisonError::into_inner);
        for (index, up) in orders.links.drain(..) {
            if let Some(port) = self.ports.get_mut(index) {
                port.card.set_link(up);
            }
        }
    }

    fn publish(&self) {
        let mut status = self.shared.status.lock().unwrap_or_else(PoisonError::into_inner);
        for (status, port) in status.iter_mut().zip(&self.ports) {
            status.connected = port.client.is_some();
            status.counters = port.card.counters();
            if status.violations.len() != port.card.violations().len() {
                status.violations = port.card.violations().to_vec();
            }
        }
    }
}

/// Accepts a client, or handles what it sent.
fn serve(port: &mut Port) -> Result<(), ServeError> {
    let Some(client) = &port.client else {
        if let Ok((client, _)) = port.listener.accept() {
            // A client that stops in the middle of a message must not hold up the others.
            let bounded =
                client.set_read_timeout(Some(PATIENCE)).and(client.set_write_timeout(Some(PATIENCE)));
            port.client = bounded.is_ok().then_some(client);
        }
        return Ok(());
    };
    let failed = |name: &str, error| Err(ServeError::Client(name.to_owned(), error));
    for _ in 0..MESSAGES {
        match message::receive(client.as_fd(), false) {
            Ok(Some(mut message)) => {
                if let Err(error) = answer(client, &mut port.card, &mut message) {
                    let gone = error.kind() == io::ErrorKind::BrokenPipe;
                    disconnect(port);
                    return if gone { Ok(()) } else { failed(port.card.name(), error) };
                }
            }
            Ok(None) => return Ok(()),
            Err(error) => {
                let gone = matches!(
                    error.kind(),
                    io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
                );
                disconnect(port);
                return if gone { Ok(()) } else { failed(port.card.name(), error) };
            }
        }
    }
    Ok(())
}

fn answer(client: &UnixStream, card: &mut Xl710, message: &mut Message) -> io::Result<()> {
    if message.is_reply {
        return Ok(());
    }
    let result = session::handle(card, message);
    if message.wants_reply {
        message::reply(client, message, result.as_deref().map_err(|error| *error))?;
    }
    Ok(())
}

/// The VMM is gone, and its memory with it.
fn disconnect(port: &mut Port) {
    (port.client, port.left) = (None, true);
    port.card.unmap_all_dma();
    port.card.reset();
}
