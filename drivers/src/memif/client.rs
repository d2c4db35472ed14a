//! The client's side of a connection, without I/O: messages go in and come out.
//!
//! HELLO from the server; then INIT, ADD_REGION, ADD_RING for each ring and CONNECT, each after the ACK of the one before;
//! CONNECTED from the server. The client owns the memory.

use core::fmt;

use hal::DmaMemory;
use heapless::Deque;

use super::layout::{Layout, Shape, TooSmall};
use super::message::{
    AddRegion, AddRing, Hello, Init, InterfaceMode, Message, Name, Reason, Secret, VERSION, cut,
};
use super::plug::{Attachment, Kick, Side, Slots};
use super::ring::Ring;

/// Queues that a port can have each way.
pub const MAX_QUEUES: u16 = 64;

/// What a client wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientOptions {
    /// The interface's number on the socket.
    pub id: u32,
    /// What the server asks for, if it does.
    pub secret: Secret,
    /// The name of this interface.
    pub name: Name,
    /// Queues each way, 1 to [`MAX_QUEUES`].
    pub queues: u16,
    /// Descriptors of a ring, as a power of two.
    pub log2_size: u8,
    /// Bytes of a buffer; unused with zero-copy.
    pub buffer: u32,
    /// Where the core's packet memory begins in the region, with zero-copy.
    pub pool: Option<u32>,
}

/// The name that our side gives of itself.
pub const PROGRAM: &str = concat!("barewire ", env!("CARGO_PKG_VERSION"));

/// A descriptor that goes along with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attach {
    /// None.
    Nothing,
    /// The file of the region.
    Region,
    /// The eventfd that wakes who takes packets off a ring.
    Interrupt {
        /// From client to server, or the other way.
        client_to_server: bool,
        /// The ring.
        index: u16,
    },
}

/// What a message leads to.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing, until the next one.
    Wait,
    /// This is to be sent.
    Send(Message, Attach),
    /// The connection is up; the name of the server's interface.
    Up(Name),
}

/// Why a connection ends.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// The server said so: its reason.
    ByPeer(Reason),
    /// We say so, and tell the server why.
    ByUs(Reason),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ByPeer(reason) if reason.is_empty() => f.write_str("the peer disconnected"),
            Self::ByPeer(reason) => write!(f, "the peer disconnected: {reason}"),
            Self::ByUs(reason) => f.write_str(reason),
        }
    }
}

/// What a server expects of a connection that is being made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// HELLO.
    Hello,
    /// ACK of the message with this number.
    Ack(u16),
    /// CONNECTED.
    Connected,
    /// Nothing more.
    Up,
}

/// A connection of a client.
pub struct Client {
    options: ClientOptions,
    region: DmaMemory,
    /// Bytes of the region's file.
    file: u64,
    /// Counts connections, of which every other one has the same rings.
    connection: u32,
    state: State,
    layout: Layout,
}

impl Client {
    /// A client whose region is `region`, at the front of a file of `file` bytes.
    ///
    /// # Errors
    /// What is asked for does not fit into it.
    pub fn new(options: ClientOptions, region: DmaMemory, file: u64) -> Result<Self, TooSmall> {
        let layout = Layout::new(
            Self::shape(&options, options.queues, options.queues, options.log2_size),
            region.len() as u64,
        )?;
        if let Some(pool) = options.pool
            && u64::from(pool) < layout.end()
        {
            return Err(TooSmall { needed: layout.end(), available: pool.into() });
        }
        Ok(Self { options, region, file, connection: 0, state: State::Hello, layout })
    }

    fn shape(options: &ClientOptions, c2s: u16, s2c: u16, log2_size: u8) -> Shape {
        Shape { c2s, s2c, log2_size, buffer: if options.pool.is_some() { 0 } else { options.buffer } }
    }

    /// A connection has been made: HELLO is to come.
    pub fn open(&mut self) {
        self.state = State::Hello;
        self.connection = self.connection.wrapping_add(1);
    }

    /// The connection is up.
    pub fn is_up(&self) -> bool {
        self.state == State::Up
    }

    /// Queues of the connection from client to server, and the other way.
    pub const fn queues(&self) -> (u16, u16) {
        (self.layout.shape().c2s, self.layout.shape().s2c)
    }

    /// Takes a message.
    ///
    /// # Errors
    /// The connection ends. With [`End::ByUs`] a DISCONNECT with the reason is to be sent.
    pub fn handle(&mut self, message: &Message) -> Result<Step, End> {
        match (self.state, message) {
            (_, Message::Disconnect { reason, .. }) => Err(End::ByPeer(reason.clone())),
            (State::Hello, Message::Hello(hello)) => self.greet(hello),
            (State::Ack(number), Message::Ack) => Ok(self.send(number + 1)),
            (State::Connected, Message::Connected(name)) => {
                self.state = State::Up;
                Ok(Step::Up(name.clone()))
            }
            // Servers differ in whether they acknowledge CONNECT, too.
            (State::Connected, Message::Ack) => Ok(Step::Wait),
            _ => {
                let mut reason = Reason::new();
                // What is too long is cut.
                let _ =
                    fmt::Write::write_fmt(&mut reason, format_args!("Unexpected message {}", message.name()));
                Err(End::ByUs(reason))
            }
        }
    }

    fn greet(&mut self, hello: &Hello) -> Result<Step, End> {
        if !(hello.min_version..=hello.max_version).contains(&VERSION) {
            return Err(End::ByUs(cut("Incompatible memif version")));
        }
        let most = |highest: u16| self.options.queues.min(highest.saturating_add(1));
        let (c2s, s2c) = (most(hello.max_c2s_ring), most(hello.max_s2c_ring));
        let log2_size = self.options.log2_size.min(hello.max_log2_ring_size);
        if log2_size == 0 {
            return Err(End::ByUs(cut("Rings of one descriptor are none")));
        }
        let shape = Self::shape(&self.options, c2s, s2c, log2_size);
        // It is smaller than what was found to fit.
        self.layout = Layout::new(shape, self.region.len() as u64).map_err(|_| End::ByUs(cut("No room")))?;
        for (way, index) in self.rings() {
            let offset = self.layout.ring(self.connection, way, index);
            Ring::lay_out(&self.region, offset, log2_size)
                .map_err(|_| End::ByUs(cut("No room for a ring")))?;
        }
        Ok(self.send(0))
    }

    /// All rings, in the order in which they are told.
    fn rings(&self) -> impl Iterator<Item = (bool, u16)> + use<> {
        let (c2s, s2c) = self.queues();
        (0..c2s).map(|index| (true, index)).chain((0..s2c).map(|index| (false, index)))
    }

    /// The message with this number: INIT, ADD_REGION, ADD_RING for each ring, CONNECT.
    fn send(&mut self, number: u16) -> Step {
        self.state = State::Ack(number);
        let (message, attach) = match number {
            0 => (Message::Init(self.init()), Attach::Nothing),
            1 => (Message::AddRegion(AddRegion { index: 0, size: self.file }), Attach::Region),
            _ => match self.rings().nth(usize::from(number) - 2) {
                Some((way, index)) => {
                    let ring = AddRing {
                        client_to_server: way,
                        index,
                        region: 0,
                        offset: self.layout.ring(self.connection, way, index),
                        log2_ring_size: self.layout.shape().log2_size,
                        private_header: 0,
                    };
                    (Message::AddRing(ring), Attach::Interrupt { client_to_server: way, index })
                }
                None => {
                    self.state = State::Connected;
                    (Message::Connect(self.options.name.clone()), Attach::Nothing)
                }
            },
        };
        Step::Send(message, attach)
    }

    fn init(&self) -> Init {
        Init {
            version: VERSION,
            id: self.options.id,
            mode: InterfaceMode::Ethernet,
            secret: self.options.secret.clone(),
            name: cut(PROGRAM),
        }
    }

    /// What a queue needs of the connection that is up; `None` when the connection has fewer queues.
    pub fn attachment(&self, client_to_server: bool, index: u16, kick: Option<Kick>) -> Option<Attachment> {
        let (c2s, s2c) = self.queues();
        if !self.is_up() || index >= if client_to_server { c2s } else { s2c } {
            return None;
        }
        let offset = self.layout.ring(self.connection, client_to_server, index);
        let ring = Ring::open(&self.region, offset, self.layout.shape().log2_size).ok()?;
        let slots = match self.options.pool {
            Some(offset) => Slots::Pool { offset },
            None => {
                let (first, stride) = self.layout.buffers(client_to_server, index);
                Slots::Own { region: self.region.clone(), first, stride, len: self.options.buffer }
            }
        };
        Some(Attachment { ring, side: Side::Client(slots), kick, interrupts: false })
    }
}

/// Messages that wait until they can be sent.
pub type Outbox = Deque<(Message, Attach), 4>;
