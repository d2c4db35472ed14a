//! The byte channel between an image and the bridge on its host, which has what the image has not: a socket, and file
//! descriptors to send over it.
//!
//! Records of [`RECORD_LEN`] bytes, each way, in order: a magic word, a kind, the port, a session, and 128 bytes. What is
//! no record is passed over, byte by byte, so that either side finds the other again after a restart in the middle of one.
//! Every side's first record is a greeting with a number that it drew; the other one puts it into all its records, so that
//! a record for somebody who is gone is known as such and passed over.
//!
//! | bytes    | field |
//! |----------|-------|
//! | 0..4     | [`MAGIC`] |
//! | 4        | kind |
//! | 5        | port, in the order of the ivshmem devices |
//! | 6..8     | 0 |
//! | 8..12    | session: the number that the receiver of this record drew; 0 in a greeting to somebody not known yet |
//! | 12..16   | the number that the sender drew |
//! | 16..144  | body |

use super::message::{MESSAGE_LEN, Reason, cut};

/// Bytes of a record.
pub const RECORD_LEN: usize = 16 + MESSAGE_LEN;
/// "bwm1", the first bytes of a record.
pub const MAGIC: [u8; 4] = *b"bwm1";

/// What a record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// Image: here I am, nothing before this counts. The bridge closes what it had open for this port, and answers with
    /// [`Record::Region`] or [`Record::Refused`].
    Greeting,
    /// Bridge: the port's memory is a file of so many bytes; what was open is closed.
    Region {
        /// Bytes.
        size: u64,
    },
    /// Bridge: there is no such port, or its file is not what it should be.
    Refused(Reason),
    /// Image: connect to the peer's socket. The bridge answers [`Record::Opened`] or [`Record::Closed`].
    Open,
    /// Bridge: connected.
    Opened,
    /// Either way: a message of the memif protocol. The bridge sends what comes from the image with the descriptors that
    /// belong to it.
    Message([u8; MESSAGE_LEN]),
    /// Image: close the connection. Bridge: it is closed, or could not be made, and why.
    Closed(Reason),
    /// Image: wake the peer, which sleeps on this ring.
    Kick {
        /// From client to server, or the other way.
        client_to_server: bool,
        /// The ring.
        index: u16,
    },
}

mod kind {
    pub const GREETING: u8 = 1;
    pub const REGION: u8 = 2;
    pub const REFUSED: u8 = 3;
    pub const OPEN: u8 = 4;
    pub const OPENED: u8 = 5;
    pub const MESSAGE: u8 = 6;
    pub const CLOSED: u8 = 7;
    pub const KICK: u8 = 8;
}

/// A record with its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addressed {
    /// The port.
    pub port: u8,
    /// The number that the receiver drew.
    pub to: u32,
    /// The number that the sender drew.
    pub from: u32,
    /// What is said.
    pub record: Record,
}

impl Addressed {
    /// The bytes of a record.
    pub fn encode(&self) -> [u8; RECORD_LEN] {
        let mut body = [0; MESSAGE_LEN];
        let text = |body: &mut [u8; MESSAGE_LEN], reason: &Reason| {
            body.iter_mut().zip(reason.bytes()).for_each(|(to, from)| *to = from);
        };
        let kind = match &self.record {
            Record::Greeting => kind::GREETING,
            Record::Region { size } => {
                body[..8].copy_from_slice(&size.to_le_bytes());
                kind::REGION
            }
            Record::Refused(reason) => {
                text(&mut body, reason);
                kind::REFUSED
            }
            Record::Open => kind::OPEN,
            Record::Opened => kind::OPENED,
            Record::Message(message) => {
                body = *message;
                kind::MESSAGE
            }
            Record::Closed(reason) => {
                text(&mut body, reason);
                kind::CLOSED
            }
            Record::Kick { client_to_server, index } => {
                let [low, high] = index.to_le_bytes();
                body[..3].copy_from_slice(&[u8::from(*client_to_server), low, high]);
                kind::KICK
            }
        };
        let mut bytes = [0; RECORD_LEN];
        let (head, rest) = bytes.split_at_mut(16);
        head[..4].copy_from_slice(&MAGIC);
        (head[4], head[5]) = (kind, self.port);
        head[8..12].copy_from_slice(&self.to.to_le_bytes());
        head[12..].copy_from_slice(&self.from.to_le_bytes());
        rest.copy_from_slice(&body);
        bytes
    }

    /// The record in these bytes; `None` when they are none.
    pub fn decode(bytes: &[u8; RECORD_LEN]) -> Option<Self> {
        let (head, body) = bytes.split_first_chunk::<16>()?;
        let body: &[u8; MESSAGE_LEN] = body.first_chunk()?;
        let [m0, m1, m2, m3, kind, port, 0, 0, numbers @ ..] = *head else { return None };
        if [m0, m1, m2, m3] != MAGIC {
            return None;
        }
        let [t0, t1, t2, t3, from @ ..] = numbers;
        let text = || -> Reason {
            let end = body.iter().position(|byte| *byte == 0).unwrap_or(MESSAGE_LEN);
            let shown = |byte: &u8| if (0x20..0x7f).contains(byte) { char::from(*byte) } else { '?' };
            body.iter().take(end).take(super::message::REASON_LEN).map(shown).collect()
        };
        let record = match kind {
            kind::GREETING => Record::Greeting,
            kind::REGION => Record::Region { size: u64::from_le_bytes(*body.first_chunk()?) },
            kind::REFUSED => Record::Refused(text()),
            kind::OPEN => Record::Open,
            kind::OPENED => Record::Opened,
            kind::MESSAGE => Record::Message(*body),
            kind::CLOSED => Record::Closed(text()),
            kind::KICK => {
                let [way, low, high] = *body.first_chunk()?;
                Record::Kick { client_to_server: way != 0, index: u16::from_le_bytes([low, high]) }
            }
            _ => return None,
        };
        Some(Self { port, to: u32::from_le_bytes([t0, t1, t2, t3]), from: u32::from_le_bytes(from), record })
    }
}

impl Record {
    /// A [`Record::Closed`] with its reason.
    pub fn closed(reason: &str) -> Self {
        Self::Closed(cut(reason))
    }
}

/// Finds records in a stream of bytes.
#[derive(Debug, Clone)]
pub struct Finder {
    bytes: [u8; RECORD_LEN],
    len: usize,
}

impl Default for Finder {
    fn default() -> Self {
        Self { bytes: [0; RECORD_LEN], len: 0 }
    }
}

impl Finder {
    /// Takes the next byte; returns the record that ends with it, if one does.
    pub fn take(&mut self, byte: u8) -> Option<Addressed> {
        *self.bytes.get_mut(self.len)? = byte;
        self.len += 1;
        while !MAGIC.iter().zip(&self.bytes[..self.len]).all(|(wanted, byte)| wanted == byte) {
            self.bytes.copy_within(1..self.len, 0);
            self.len -= 1;
        }
        if self.len < RECORD_LEN {
            return None;
        }
        self.len = 0;
        Addressed::decode(&self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    fn records() -> Vec<Addressed> {
        let all = [
            Record::Greeting,
            Record::Region { size: 1 << 33 },
            Record::Refused(cut("no such port")),
            Record::Open,
            Record::Opened,
            Record::Message([0xa5; MESSAGE_LEN]),
            Record::closed("connection refused"),
            Record::Kick { client_to_server: true, index: 258 },
        ];
        all.into_iter().map(|record| Addressed { port: 3, to: 0x0102_0304, from: 7, record }).collect()
    }

    #[test]
    fn records_come_out_as_they_went_in_whatever_lies_between() {
        for noise in [&b""[..], b"b", b"bw", b"bwm", b"bbwbwm", b"bwm0bwm", &[0; 200]] {
            let mut finder = Finder::default();
            let mut found = Vec::new();
            for record in records() {
                for byte in noise.iter().copied().chain(record.encode()) {
                    found.extend(finder.take(byte));
                }
            }
            assert_eq!(found, records(), "{noise:?}");
        }
    }

    /// Half a record, then a whole one: at most one is lost with it.
    #[test]
    fn a_broken_record_costs_itself_and_one_more() {
        let mut finder = Finder::default();
        let record = &records()[0];
        let mut found = 0;
        for byte in record.encode().into_iter().take(100) {
            found += usize::from(finder.take(byte).is_some());
        }
        for _ in 0..3 {
            for byte in record.encode() {
                found += usize::from(finder.take(byte).as_ref() == Some(record));
            }
        }
        assert!((1..=3).contains(&found), "{found}");
    }
}
