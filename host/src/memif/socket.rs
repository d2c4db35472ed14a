//! memif's control channel: messages of 128 bytes over a UNIX socket that keeps them apart (`SOCK_SEQPACKET`), each with at
//! most one descriptor.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use drivers::memif::message::MESSAGE_LEN;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect,
    listen, recvmsg, sendmsg, socket_with,
};

/// Descriptors that are taken with one message before the rest is not: who sends more is no memif peer.
const MOST_DESCRIPTORS: usize = 4;

/// Where a socket is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A file.
    Path(PathBuf),
    /// A name that is no file (`unix(7)`), without the zero in front.
    Abstract(String),
}

impl Address {
    /// A path, or a name behind `@`.
    pub fn parse(text: &str) -> Self {
        match text.strip_prefix('@') {
            Some(name) => Self::Abstract(name.into()),
            None => Self::Path(text.into()),
        }
    }

    fn raw(&self) -> io::Result<SocketAddrUnix> {
        Ok(match self {
            Self::Path(path) => SocketAddrUnix::new(path)?,
            Self::Abstract(name) => SocketAddrUnix::new_abstract_name(name.as_bytes())?,
        })
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Path(path) => write!(f, "{}", path.display()),
            Self::Abstract(name) => write!(f, "@{name}"),
        }
    }
}

fn new_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// A socket that servers wait at.
pub struct Listener {
    fd: OwnedFd,
    address: Address,
}

impl Listener {
    /// Listens there. A file that nobody listens at any more is removed first: a server that was killed leaves it.
    ///
    /// # Errors
    /// Somebody listens there already, or what the system said.
    pub fn bind(address: &Address) -> io::Result<Self> {
        let fd = new_socket()?;
        let raw = address.raw()?;
        if let Err(error) = bind(&fd, &raw) {
            let Address::Path(path) = address else { return Err(error.into()) };
            if error != rustix::io::Errno::ADDRINUSE || is_alive(address)? {
                return Err(error.into());
            }
            std::fs::remove_file(path)?;
            bind(&fd, &raw)?;
        }
        listen(&fd, 16)?;
        Ok(Self { fd, address: address.clone() })
    }

    /// The next one who connects, if there is one.
    ///
    /// # Errors
    /// What the system said.
    pub fn accept(&self) -> io::Result<Option<ControlSocket>> {
        match accept_with(&self.fd, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(fd) => Ok(Some(ControlSocket::new(fd))),
            Err(error) if is_for_later(error) || error == rustix::io::Errno::CONNABORTED => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Address::Path(path) = &self.address {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Somebody listens at a file.
fn is_alive(address: &Address) -> io::Result<bool> {
    match connect(new_socket()?, &address.raw()?) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::CONNREFUSED | rustix::io::Errno::NOENT) => Ok(false),
        // Its queue is full.
        Err(rustix::io::Errno::AGAIN) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

fn is_for_later(error: rustix::io::Errno) -> bool {
    matches!(error, rustix::io::Errno::AGAIN | rustix::io::Errno::INTR)
}

/// A connection.
pub struct ControlSocket {
    fd: OwnedFd,
}

/// What has come.
pub enum Received {
    /// Nothing.
    Nothing,
    /// A message, with the descriptor that came along. Others that did are closed.
    Message([u8; MESSAGE_LEN], Option<OwnedFd>),
    /// Something else, of another length.
    Other,
    /// The peer has closed it.
    Closed,
}

impl ControlSocket {
    fn new(fd: OwnedFd) -> Self {
        Self { fd }
    }

    /// Connects.
    ///
    /// # Errors
    /// Nobody listens there, or what the system said.
    pub fn connect(address: &Address) -> io::Result<Self> {
        let fd = new_socket()?;
        connect(&fd, &address.raw()?)?;
        Ok(Self::new(fd))
    }

    /// Two ends of one.
    ///
    /// # Errors
    /// What the system said.
    pub fn pair() -> io::Result<(Self, Self)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (a, b) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        Ok((Self::new(a), Self::new(b)))
    }

    /// Sends a message, whole.
    ///
    /// # Errors
    /// The peer is gone, or does not read: a peer with so many messages unread is none.
    pub fn send(&self, message: &[u8; MESSAGE_LEN], attach: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors: Vec<BorrowedFd<'_>> = attach.into_iter().collect();
        if !descriptors.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        }
        let sent = sendmsg(&self.fd, &[IoSlice::new(message)], &mut ancillary, SendFlags::NOSIGNAL)?;
        if sent == message.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    /// Takes the next message.
    ///
    /// # Errors
    /// What the system said.
    pub fn receive(&self) -> io::Result<Received> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        // A byte more than a message has, so that a longer one shows.
        let mut bytes = [0; MESSAGE_LEN + 1];
        let into = &mut [IoSliceMut::new(&mut bytes)];
        let received = match recvmsg(&self.fd, into, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Ok(received) => received.bytes,
            Err(error) if is_for_later(error) => return Ok(Received::Nothing),
            Err(rustix::io::Errno::CONNRESET) => return Ok(Received::Closed),
            Err(error) => return Err(error.into()),
        };
        let mut attached = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                attached.extend(descriptors);
            }
        }
        Ok(match (received, bytes.first_chunk::<MESSAGE_LEN>()) {
            (0, _) => Received::Closed,
            (MESSAGE_LEN, Some(message)) => Received::Message(*message, attached.into_iter().next()),
            _ => Received::Other,
        })
    }
}

impl AsFd for ControlSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Waits until one of these can be read, or so many milliseconds have passed.
pub fn wait(descriptors: &[BorrowedFd<'_>], milliseconds: u32) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut polled: Vec<PollFd<'_>> =
        descriptors.iter().map(|descriptor| PollFd::new(descriptor, PollFlags::IN)).collect();
    let limit = Timespec {
        tv_sec: (milliseconds / 1000).into(),
        tv_nsec: i64::from(milliseconds % 1000) * 1_000_000,
    };
    // Whoever waits looks at all of them anyway.
    let _ = poll(&mut polled, Some(&limit));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open_descriptors() -> usize {
        std::fs::read_dir("/proc/self/fd").unwrap().count()
    }

    #[test]
    fn messages_come_whole_with_what_came_along() {
        let (a, b) = ControlSocket::pair().unwrap();
        assert!(matches!(b.receive().unwrap(), Received::Nothing));
        let file = std::fs::File::open("/dev/null").unwrap();
        a.send(&[1; MESSAGE_LEN], Some(file.as_fd())).unwrap();
        a.send(&[2; MESSAGE_LEN], None).unwrap();
        for len in [1, 127, 129, 200] {
            rustix::io::write(&a, &vec![3; len]).unwrap();
        }
        let Received::Message(message, Some(_)) = b.receive().unwrap() else { panic!("no descriptor") };
        assert_eq!(message, [1; MESSAGE_LEN]);
        assert!(
            matches!(b.receive().unwrap(), Received::Message(message, None) if message == [2; MESSAGE_LEN])
        );
        for _ in 0..4 {
            assert!(matches!(b.receive().unwrap(), Received::Other));
        }
        assert!(matches!(b.receive().unwrap(), Received::Nothing));
        drop(a);
        assert!(matches!(b.receive().unwrap(), Received::Closed));
    }

    /// B14: whatever comes along and is not wanted is closed.
    #[test]
    fn descriptors_that_nobody_wants_are_closed() {
        let before = open_descriptors();
        {
            let (a, b) = ControlSocket::pair().unwrap();
            let file = std::fs::File::open("/dev/null").unwrap();
            for _ in 0..50 {
                // Three descriptors with a message, and with what is none.
                for message in [&[1; MESSAGE_LEN][..], &[1; 28]] {
                    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
                    let mut ancillary = SendAncillaryBuffer::new(&mut space);
                    let three = [file.as_fd(); 3];
                    ancillary.push(SendAncillaryMessage::ScmRights(&three));
                    sendmsg(&a, &[IoSlice::new(message)], &mut ancillary, SendFlags::empty()).unwrap();
                }
                let Received::Message(_, Some(_)) = b.receive().unwrap() else { panic!("no descriptor") };
                assert!(matches!(b.receive().unwrap(), Received::Other));
            }
            a.send(&[1; MESSAGE_LEN], Some(file.as_fd())).unwrap();
        }
        assert!(open_descriptors() <= before + 2, "{} and {before}", open_descriptors());
    }

    #[test]
    fn a_file_that_was_left_behind_is_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let address = Address::Path(folder.path().join("s"));
        let first = Listener::bind(&address).unwrap();
        assert!(Listener::bind(&address).is_err());
        // Who looked whether it is alive has connected, too.
        while first.accept().unwrap().is_some() {}
        let client = ControlSocket::connect(&address).unwrap();
        assert!(first.accept().unwrap().is_some() && first.accept().unwrap().is_none());
        drop(client);
        // As after `kill -9`: the file stays, and nobody listens.
        let Listener { fd, .. } = &first;
        rustix::net::shutdown(fd, rustix::net::Shutdown::Both).unwrap();
        let second = Listener::bind(&address).unwrap();
        let _client = ControlSocket::connect(&address).unwrap();
        assert!(second.accept().unwrap().is_some());
        let name = Address::parse(&format!("@barewire-test-{}", std::process::id()));
        let listener = Listener::bind(&name).unwrap();
        assert!(ControlSocket::connect(&name).is_ok() && listener.accept().unwrap().is_some());
        drop(listener);
        assert!(ControlSocket::connect(&name).is_err());
    }
}
