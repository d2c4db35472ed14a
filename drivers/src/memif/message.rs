//! Control messages: 128 bytes each, each one packet of a socket (`SOCK_SEQPACKET`) that also carries file descriptors (memif protocol 2.0, as in
//! `memif.h` of libmemif and DPDK). All fields are little-endian and packed behind the 16-bit type.

use heapless::String;

/// Bytes of a message.
pub const MESSAGE_LEN: usize = 128;
/// `MEMIF_VERSION`: 2.0.
pub const VERSION: u16 = 2 << 8;
/// Bytes of a name on the wire.
pub const NAME_LEN: usize = 32;
/// Bytes of a secret on the wire.
pub const SECRET_LEN: usize = 24;
/// Bytes of a reason on the wire.
pub const REASON_LEN: usize = 96;

/// A name: of a program or an interface.
pub type Name = String<NAME_LEN>;
/// What both sides know; empty where nothing is asked.
pub type Secret = String<SECRET_LEN>;
/// Why a connection ends.
pub type Reason = String<REASON_LEN>;

/// What an interface carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterfaceMode {
    /// Ethernet frames.
    Ethernet,
    /// IP packets without a frame, or punt/inject, by its number.
    Other(u8),
}

impl InterfaceMode {
    const fn code(self) -> u8 {
        match self {
            Self::Ethernet => 0,
            Self::Other(code) => code,
        }
    }
}

/// `memif_msg_hello_t`: what a server can do. The limits are highest indices, not counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// The server's program.
    pub name: Name,
    /// Lowest version that it speaks.
    pub min_version: u16,
    /// Highest version.
    pub max_version: u16,
    /// Highest index of a region.
    pub max_region: u16,
    /// Highest index of a ring from server to client.
    pub max_s2c_ring: u16,
    /// Highest index of a ring from client to server.
    pub max_c2s_ring: u16,
    /// Largest ring, as a power of two.
    pub max_log2_ring_size: u8,
}

/// `memif_msg_init_t`: which interface a client wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Init {
    /// The version that is spoken from here on.
    pub version: u16,
    /// The interface's number on this socket.
    pub id: u32,
    /// What it carries.
    pub mode: InterfaceMode,
    /// Empty where there is none.
    pub secret: Secret,
    /// The client's program.
    pub name: Name,
}

/// `memif_msg_add_region_t`: a file with buffers and rings, whose descriptor goes along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddRegion {
    /// Counted from 0, in order.
    pub index: u16,
    /// Bytes.
    pub size: u64,
}

/// `memif_msg_add_ring_t`: a ring in a region; an eventfd for its interrupts goes along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddRing {
    /// From client to server, or the other way.
    pub client_to_server: bool,
    /// Counted from 0 in its direction.
    pub index: u16,
    /// The region that it lies in.
    pub region: u16,
    /// Where in it.
    pub offset: u32,
    /// Descriptors, as a power of two.
    pub log2_ring_size: u8,
    /// Bytes in front of each packet; 0 here.
    pub private_header: u16,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// What was asked is done.
    Ack,
    /// The server's first.
    Hello(Hello),
    /// The client's first.
    Init(Init),
    /// The client shares memory.
    AddRegion(AddRegion),
    /// The client shares a ring.
    AddRing(AddRing),
    /// The client is ready; the name of its interface.
    Connect(Name),
    /// The server is ready; the name of its interface.
    Connected(Name),
    /// Either side ends it.
    Disconnect {
        /// A number that means nothing to us; 0 is what others send.
        code: u32,
        /// In words.
        reason: Reason,
    },
}

/// Types on the wire.
mod kind {
    pub const ACK: u16 = 1;
    pub const HELLO: u16 = 2;
    pub const INIT: u16 = 3;
    pub const ADD_REGION: u16 = 4;
    pub const ADD_RING: u16 = 5;
    pub const CONNECT: u16 = 6;
    pub const CONNECTED: u16 = 7;
    pub const DISCONNECT: u16 = 8;
}

const FLAG_C2S: u16 = 1;

/// Takes values from the front of a message.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        match self.0.split_first_chunk::<N>() {
            Some((bytes, rest)) => {
                self.0 = rest;
                *bytes
            }
            None => [0; N],
        }
    }
    fn u8(&mut self) -> u8 {
        let [byte] = self.bytes();
        byte
    }
    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.bytes())
    }
    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.bytes())
    }
    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes())
    }
    /// Text of at most `N` bytes, ended by a zero or by its field; what no terminal should see becomes `?`.
    fn text<const N: usize>(&mut self) -> String<N> {
        let field: [u8; N] = self.bytes();
        let shown = |byte: u8| if (0x20..0x7f).contains(&byte) { char::from(byte) } else { '?' };
        field.into_iter().take_while(|byte| *byte != 0).map(shown).collect()
    }
}

/// Puts values behind each other.
struct Writer<'a>(&'a mut [u8]);

impl Writer<'_> {
    fn bytes<const N: usize>(&mut self, bytes: [u8; N]) {
        if let Some((field, rest)) = core::mem::take(&mut self.0).split_first_chunk_mut::<N>() {
            *field = bytes;
            self.0 = rest;
        }
    }
    fn u8(&mut self, value: u8) {
        self.bytes([value]);
    }
    fn u16(&mut self, value: u16) {
        self.bytes(value.to_le_bytes());
    }
    fn u32(&mut self, value: u32) {
        self.bytes(value.to_le_bytes());
    }
    fn u64(&mut self, value: u64) {
        self.bytes(value.to_le_bytes());
    }
    /// Text in a field of `N` bytes, with a zero at its end, as everybody else reads it.
    fn text<const N: usize>(&mut self, text: &str) {
        let mut field = [0; N];
        for (to, from) in field.iter_mut().take(N - 1).zip(text.bytes()) {
            *to = from;
        }
        self.bytes(field);
    }
}

impl Message {
    /// The message in these bytes; `None` when its type is not one of the protocol.
    pub fn decode(bytes: &[u8; MESSAGE_LEN]) -> Option<Self> {
        let mut from = Reader(bytes);
        Some(match from.u16() {
            kind::ACK => Self::Ack,
            kind::HELLO => Self::Hello(Hello {
                name: from.text(),
                min_version: from.u16(),
                max_version: from.u16(),
                max_region: from.u16(),
                max_s2c_ring: from.u16(),
                max_c2s_ring: from.u16(),
                max_log2_ring_size: from.u8(),
            }),
            kind::INIT => Self::Init(Init {
                version: from.u16(),
                id: from.u32(),
                mode: match from.u8() {
                    0 => InterfaceMode::Ethernet,
                    code => InterfaceMode::Other(code),
                },
                secret: from.text(),
                name: from.text(),
            }),
            kind::ADD_REGION => Self::AddRegion(AddRegion { index: from.u16(), size: from.u64() }),
            kind::ADD_RING => Self::AddRing(AddRing {
                client_to_server: from.u16() & FLAG_C2S != 0,
                index: from.u16(),
                region: from.u16(),
                offset: from.u32(),
                log2_ring_size: from.u8(),
                private_header: from.u16(),
            }),
            kind::CONNECT => Self::Connect(from.text()),
            kind::CONNECTED => Self::Connected(from.text()),
            kind::DISCONNECT => Self::Disconnect { code: from.u32(), reason: from.text() },
            _ => return None,
        })
    }

    /// The bytes of the message. What has no place in a field, zero at the end included, is cut.
    pub fn encode(&self) -> [u8; MESSAGE_LEN] {
        let mut bytes = [0; MESSAGE_LEN];
        let mut to = Writer(&mut bytes);
        match self {
            Self::Ack => to.u16(kind::ACK),
            Self::Hello(hello) => {
                to.u16(kind::HELLO);
                to.text::<NAME_LEN>(&hello.name);
                to.u16(hello.min_version);
                to.u16(hello.max_version);
                to.u16(hello.max_region);
                to.u16(hello.max_s2c_ring);
                to.u16(hello.max_c2s_ring);
                to.u8(hello.max_log2_ring_size);
            }
            Self::Init(init) => {
                to.u16(kind::INIT);
                to.u16(init.version);
                to.u32(init.id);
                to.u8(init.mode.code());
                to.text::<SECRET_LEN>(&init.secret);
                to.text::<NAME_LEN>(&init.name);
            }
            Self::AddRegion(region) => {
                to.u16(kind::ADD_REGION);
                to.u16(region.index);
                to.u64(region.size);
            }
            Self::AddRing(ring) => {
                to.u16(kind::ADD_RING);
                to.u16(u16::from(ring.client_to_server) * FLAG_C2S);
                to.u16(ring.index);
                to.u16(ring.region);
                to.u32(ring.offset);
                to.u8(ring.log2_ring_size);
                to.u16(ring.private_header);
            }
            Self::Connect(name) => {
                to.u16(kind::CONNECT);
                to.text::<NAME_LEN>(name);
            }
            Self::Connected(name) => {
                to.u16(kind::CONNECTED);
                to.text::<NAME_LEN>(name);
            }
            Self::Disconnect { code, reason } => {
                to.u16(kind::DISCONNECT);
                to.u32(*code);
                to.text::<REASON_LEN>(reason);
            }
        }
        bytes
    }

    /// Its name in the protocol.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Ack => "ACK",
            Self::Hello(_) => "HELLO",
            Self::Init(_) => "INIT",
            Self::AddRegion(_) => "ADD_REGION",
            Self::AddRing(_) => "ADD_RING",
            Self::Connect(_) => "CONNECT",
            Self::Connected(_) => "CONNECTED",
            Self::Disconnect { .. } => "DISCONNECT",
        }
    }
}

/// Text that is cut where its field ends.
pub fn cut<const N: usize>(text: &str) -> String<N> {
    let mut out = String::new();
    for c in text.chars() {
        if out.push(c).is_err() {
            break;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where libmemif's packed structures have their fields.
    #[test]
    fn fields_lie_where_memif_h_has_them() {
        let ring = AddRing {
            client_to_server: true,
            index: 0x0102,
            region: 0x0304,
            offset: 0x0506_0708,
            log2_ring_size: 10,
            private_header: 0x0b0c,
        };
        let bytes = Message::AddRing(ring).encode();
        assert_eq!(bytes[..15], [5, 0, 1, 0, 2, 1, 4, 3, 8, 7, 6, 5, 10, 0x0c, 0x0b]);
        let bytes = Message::AddRegion(AddRegion { index: 1, size: 0x1122_3344_5566_7788 }).encode();
        assert_eq!(bytes[..12], [4, 0, 1, 0, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]);
        let init = Init {
            version: VERSION,
            id: 7,
            mode: InterfaceMode::Ethernet,
            secret: cut("psst"),
            name: cut("barewire"),
        };
        let bytes = Message::Init(init).encode();
        assert_eq!((&bytes[..9], &bytes[9..13]), (&[3, 0, 0, 2, 7, 0, 0, 0, 0][..], &b"psst"[..]));
        assert_eq!(bytes[33..41], *b"barewire");
        let mut hello = [0; MESSAGE_LEN];
        hello[..2].copy_from_slice(&[2, 0]);
        hello[2..6].copy_from_slice(b"DPDK");
        hello[34..45].copy_from_slice(&[0, 2, 0, 2, 0, 0, 255, 0, 254, 0, 14]);
        let Some(Message::Hello(hello)) = Message::decode(&hello) else { panic!("no hello") };
        assert_eq!((hello.name.as_str(), hello.min_version, hello.max_version), ("DPDK", VERSION, VERSION));
        assert_eq!((hello.max_s2c_ring, hello.max_c2s_ring, hello.max_log2_ring_size), (255, 254, 14));
        let bytes = Message::Disconnect { code: 1, reason: cut("ID not found") }.encode();
        assert_eq!((&bytes[..6], &bytes[6..18]), (&[8, 0, 1, 0, 0, 0][..], &b"ID not found"[..]));
    }

    #[test]
    fn texts_are_cut_and_cleaned() {
        let long = "x".repeat(REASON_LEN);
        let bytes = Message::Disconnect { code: 0, reason: cut(&long) }.encode();
        assert_eq!((bytes[6 + 94], bytes[6 + 95]), (b'x', 0));
        let mut bytes = [0xff; MESSAGE_LEN];
        bytes[..3].copy_from_slice(&[6, 0, 0x1b]);
        let Some(Message::Connect(name)) = Message::decode(&bytes) else { panic!("no connect") };
        assert_eq!(name.as_str(), "?".repeat(NAME_LEN));
        assert_eq!(Message::decode(&[0; MESSAGE_LEN]), None);
        assert_eq!(Message::decode(&[0xff; MESSAGE_LEN]), None);
    }
}
