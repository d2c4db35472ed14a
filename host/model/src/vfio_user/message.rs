//! Messages on the socket: a header of 16 bytes, a body, and files beside them.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendFlags, recvmsg, send,
};

/// Longest message that is taken.
pub const MAX_MESSAGE: usize = 1 << 20;
/// Most files with one message.
pub const MAX_FILES: usize = 16;
const HEADER: usize = 16;

/// Commands.
pub mod command {
    pub const VERSION: u16 = 1;
    pub const DMA_MAP: u16 = 2;
    pub const DMA_UNMAP: u16 = 3;
    pub const DEVICE_GET_INFO: u16 = 4;
    pub const DEVICE_GET_REGION_INFO: u16 = 5;
    pub const DEVICE_GET_IRQ_INFO: u16 = 7;
    pub const DEVICE_SET_IRQS: u16 = 8;
    pub const REGION_READ: u16 = 9;
    pub const REGION_WRITE: u16 = 10;
    pub const DEVICE_RESET: u16 = 13;
    pub const REGION_WRITE_MULTI: u16 = 15;
}

/// A message from the client.
pub struct Message {
    pub id: u16,
    pub command: u16,
    /// It is an answer to a message of ours.
    pub is_reply: bool,
    pub wants_reply: bool,
    pub body: Vec<u8>,
    pub files: Vec<OwnedFd>,
}

/// Little-endian numbers at offsets; `None` past the end.
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Little-endian numbers at offsets; `None` past the end.
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Receives a message; `None` at the end of the stream, or when none waits and `wait` is false.
pub fn receive(socket: BorrowedFd<'_>, wait: bool) -> io::Result<Option<Message>> {
    let mut header = [0; HEADER];
    let mut files = Vec::new();
    let flags = if wait { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
    match receive_exact(socket, &mut header, &mut files, flags) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
        other => {
            if !other? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
    let [id_low, id_high, command_low, command_high, ..] = header;
    let size = u32_at(&header, 4).unwrap_or(0) as usize;
    let flags = u32_at(&header, 8).unwrap_or(0);
    if !(HEADER..=MAX_MESSAGE).contains(&size) {
        return Err(invalid("message of an impossible size"));
    }
    let mut body = vec![0; size - HEADER];
    if !body.is_empty() && !receive_exact(socket, &mut body, &mut files, RecvFlags::empty())? {
        return Err(invalid("message that ends early"));
    }
    const REPLY: u32 = 1;
    const NO_REPLY: u32 = 1 << 4;
    Ok(Some(Message {
        id: u16::from_le_bytes([id_low, id_high]),
        command: u16::from_le_bytes([command_low, command_high]),
        is_reply: flags & 0xf == REPLY,
        wants_reply: flags & NO_REPLY == 0,
        body,
        files,
    }))
}

/// Fills `bytes`; false if the stream ended before the first of them.
fn receive_exact(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
    files: &mut Vec<OwnedFd>,
    first: RecvFlags,
) -> io::Result<bool> {
    let mut done = 0;
    let mut flags = first;
    while done < bytes.len() {
        let got = receive_some(socket, &mut bytes[done..], files, flags);
        let got = match got {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // Only the first byte may be missing; the rest of a message is waited for, and not for ever.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && flags.is_empty() => {
                return Err(invalid("message that does not go on"));
            }
            other => other?,
        };
        if got == 0 {
            return if done == 0 { Ok(false) } else { Err(invalid("message that ends early")) };
        }
        done += got;
        // Once a message has begun, the rest of it is waited for.
        flags = RecvFlags::empty();
    }
    Ok(true)
}

fn receive_some(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
    files: &mut Vec<OwnedFd>,
    flags: RecvFlags,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [io::IoSliceMut::new(bytes)];
    let result = recvmsg(socket, &mut parts, &mut ancillary, flags | RecvFlags::CMSG_CLOEXEC)?;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            files.extend(received);
        }
    }
    if files.len() > MAX_FILES || result.flags.contains(ReturnFlags::CTRUNC) {
        return Err(invalid("message with too many files"));
    }
    Ok(result.bytes)
}

/// Answers `message` with `body`, or with an error number and nothing else.
pub fn reply(socket: impl AsFd, message: &Message, result: Result<&[u8], i32>) -> io::Result<()> {
    const REPLY: u32 = 1;
    const ERROR: u32 = 1 << 5;
    let (body, error) = match result {
        Ok(body) => (body, 0),
        Err(error) => (&[][..], error),
    };
    let mut out = Vec::with_capacity(HEADER + body.len());
    out.extend(message.id.to_le_bytes());
    out.extend(message.command.to_le_bytes());
    out.extend(((HEADER + body.len()) as u32).to_le_bytes());
    out.extend((REPLY | if error != 0 { ERROR } else { 0 }).to_le_bytes());
    out.extend(error.to_le_bytes());
    out.extend_from_slice(body);
    let mut rest = &out[..];
    while !rest.is_empty() {
        match send(socket.as_fd(), rest, SendFlags::NOSIGNAL) {
            Ok(sent) => rest = rest.get(sent..).unwrap_or_default(),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
