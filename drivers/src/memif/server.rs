//! The server's side of a connection, without I/O: messages with what came along go in, and answers come out.
//!
//! HELLO first. A client then says which interface it wants (INIT); only when that interface is free is the connection
//! the interface's, so somebody who is refused disturbs nobody. Everything that a client says of its memory is compared
//! with the memory that is mapped.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use hal::DmaMemory;

use super::client::{End, MAX_QUEUES, PROGRAM};
use super::message::{
    AddRegion, AddRing, Hello, Init, InterfaceMode, Message, Name, Reason, Secret, VERSION, cut,
};
use super::plug::{Attachment, Kick, Side};
use super::ring::{LOG2_SIZES, Ring};

/// Regions that a client may share.
pub const MAX_REGIONS: usize = 256;

/// What a server's interface is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerOptions {
    /// Its number on the socket.
    pub id: u32,
    /// What a client has to know; empty where that is nothing.
    pub secret: Secret,
    /// Its name.
    pub name: Name,
    /// Most queues each way, 1 to [`MAX_QUEUES`].
    pub queues: u16,
    /// Largest ring, as a power of two.
    pub log2_size: u8,
}

/// What came along with a message.
pub enum Attached {
    /// Nothing.
    Nothing,
    /// ADD_REGION: the file's first bytes, mapped, as many as the message says; or why they could not be.
    Region(Result<DmaMemory, Reason>),
    /// ADD_RING: what wakes the client.
    Interrupt(Kick),
}

/// What a message leads to.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// INIT was good as far as it goes: [`Server::accept`] comes next, or a DISCONNECT.
    Asked(Init),
    /// This is to be sent.
    Send(Message),
    /// This is to be sent, and the connection is up.
    Up(Message),
}

/// A ring that a client has told.
struct Told {
    ring: AddRing,
    kick: Kick,
}

/// What is expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Init,
    Answer,
    Memory,
    Up,
}

/// A connection of a server.
pub struct Server {
    options: ServerOptions,
    state: State,
    regions: Vec<DmaMemory>,
    c2s: Vec<Told>,
    s2c: Vec<Told>,
    shared: Arc<[DmaMemory]>,
    peer: Name,
}

impl Server {
    /// The first message of a server, to everybody who connects.
    pub fn hello(queues: u16, log2_size: u8) -> Message {
        let highest = queues.clamp(1, MAX_QUEUES) - 1;
        Message::Hello(Hello {
            name: cut(PROGRAM),
            min_version: VERSION,
            max_version: VERSION,
            max_region: MAX_REGIONS as u16 - 1,
            max_s2c_ring: highest,
            max_c2s_ring: highest,
            max_log2_ring_size: log2_size,
        })
    }

    /// A connection that has just been made. `options` may become others' by [`Server::accept`].
    pub fn new(options: ServerOptions) -> Self {
        Self {
            options,
            state: State::Init,
            regions: Vec::new(),
            c2s: Vec::new(),
            s2c: Vec::new(),
            shared: Arc::from([]),
            peer: Name::new(),
        }
    }

    /// The interface that was asked for is this one's from now on, if the secret is right.
    ///
    /// # Errors
    /// It is not.
    pub fn accept(&mut self, options: ServerOptions, init: &Init) -> Result<Message, End> {
        if !options.secret.is_empty() && init.secret.is_empty() {
            return Err(End::ByUs(cut("Secret required")));
        }
        if !same(&options.secret, &init.secret) {
            return Err(End::ByUs(cut("Incorrect secret")));
        }
        self.options = options;
        self.state = State::Memory;
        Ok(Message::Ack)
    }

    /// The connection is up.
    pub fn is_up(&self) -> bool {
        self.state == State::Up
    }

    /// Queues of the connection from client to server, and the other way.
    pub fn queues(&self) -> (u16, u16) {
        (self.c2s.len() as u16, self.s2c.len() as u16)
    }

    /// The client's name of its interface.
    pub fn peer(&self) -> &Name {
        &self.peer
    }

    /// Takes a message.
    ///
    /// # Errors
    /// The connection ends. With [`End::ByUs`] a DISCONNECT with the reason is to be sent.
    pub fn handle(&mut self, message: &Message, attached: Attached) -> Result<Step, End> {
        match (self.state, message, attached) {
            (_, Message::Disconnect { reason, .. }, _) => Err(End::ByPeer(reason.clone())),
            (State::Init, Message::Init(init), _) => self.init(init),
            (State::Memory, Message::AddRegion(region), attached) => self.add_region(region, attached),
            (State::Memory, Message::AddRing(ring), attached) => self.add_ring(ring, attached),
            (State::Memory, Message::Connect(name), _) => self.connect(name),
            _ => Err(unexpected(message)),
        }
    }

    fn init(&mut self, init: &Init) -> Result<Step, End> {
        if init.version != VERSION {
            return Err(End::ByUs(cut("Incompatible memif version")));
        }
        if init.mode != InterfaceMode::Ethernet {
            return Err(End::ByUs(cut("Only ethernet mode supported")));
        }
        self.state = State::Answer;
        Ok(Step::Asked(init.clone()))
    }

    fn add_region(&mut self, region: &AddRegion, attached: Attached) -> Result<Step, End> {
        let Attached::Region(mapped) = attached else { return Err(End::ByUs(cut("Missing region fd"))) };
        if usize::from(region.index) != self.regions.len() || self.regions.len() == MAX_REGIONS {
            return Err(End::ByUs(cut("Invalid region index")));
        }
        self.regions.push(mapped.map_err(End::ByUs)?);
        Ok(Step::Send(Message::Ack))
    }

    fn add_ring(&mut self, ring: &AddRing, attached: Attached) -> Result<Step, End> {
        let Attached::Interrupt(kick) = attached else { return Err(End::ByUs(cut("Missing interrupt fd"))) };
        let most = usize::from(self.options.queues);
        let rings = if ring.client_to_server { &mut self.c2s } else { &mut self.s2c };
        if usize::from(ring.index) != rings.len() || rings.len() == most {
            return Err(End::ByUs(cut("Invalid ring index")));
        }
        if ring.private_header != 0 {
            return Err(End::ByUs(cut("Private headers are not supported")));
        }
        if !LOG2_SIZES.contains(&ring.log2_ring_size) || ring.log2_ring_size > self.options.log2_size {
            return Err(End::ByUs(cut("Invalid ring size")));
        }
        rings.push(Told { ring: *ring, kick });
        Ok(Step::Send(Message::Ack))
    }

    fn connect(&mut self, name: &Name) -> Result<Step, End> {
        if self.c2s.is_empty() && self.s2c.is_empty() {
            return Err(End::ByUs(cut("No rings")));
        }
        self.shared = Arc::from(self.regions.as_slice());
        for told in self.c2s.iter().chain(&self.s2c) {
            let ring = open(&self.shared, &told.ring)?;
            ring.head().store(0);
            ring.tail().store(0);
        }
        self.peer = name.clone();
        self.state = State::Up;
        Ok(Step::Up(Message::Connected(self.options.name.clone())))
    }

    /// What a queue needs of the connection that is up; `None` when the connection has fewer queues.
    pub fn attachment(&self, client_to_server: bool, index: u16) -> Option<Attachment> {
        let rings = if client_to_server { &self.c2s } else { &self.s2c };
        let told = rings.get(usize::from(index)).filter(|_| self.is_up())?;
        let ring = open(&self.shared, &told.ring).ok()?;
        let side = Side::Server(self.shared.clone());
        Some(Attachment { ring, side, kick: Some(told.kick.clone()), interrupts: false })
    }
}

fn open(regions: &[DmaMemory], told: &AddRing) -> Result<Ring, End> {
    let Some(region) = regions.get(usize::from(told.region)) else {
        return Err(End::ByUs(cut("Ring in an unknown region")));
    };
    Ring::open(region, told.offset, told.log2_ring_size).map_err(|error| {
        let mut reason = Reason::new();
        // What is too long is cut.
        let _ = fmt::Write::write_fmt(&mut reason, format_args!("{error}"));
        End::ByUs(reason)
    })
}

/// Compares in a time that depends on no byte.
fn same(a: &Secret, b: &Secret) -> bool {
    let byte = |text: &Secret, at: usize| text.as_bytes().get(at).copied().unwrap_or(0);
    (0..super::message::SECRET_LEN)
        .fold(a.len() ^ b.len(), |sum, at| sum | usize::from(byte(a, at) ^ byte(b, at)))
        == 0
}

fn unexpected(message: &Message) -> End {
    let mut reason = Reason::new();
    // What is too long is cut.
    let _ = fmt::Write::write_fmt(&mut reason, format_args!("Unexpected message {}", message.name()));
    End::ByUs(reason)
}
