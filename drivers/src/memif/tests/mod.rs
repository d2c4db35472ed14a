//! Both ends in one process: messages are handed over as bytes, rings and buffers lie in one mapping.

use alloc::sync::Arc;
use std::vec;
use std::vec::Vec;

use hal::hosted::{FakeBar, HostedMachine};
use hal::simd::Isa;
use hal::{DmaMemory, Machine};
use kernel::port::QueueSetup;
use kernel::{BufferLayout, Buffers, Burst, Drops, Meta, Packet, Pool, RxQueue, TxQueue};

use super::client::Step as ClientStep;
use super::message::{Message, cut};
use super::server::Step as ServerStep;
use super::*;

mod control;
mod frames;
mod lies;

/// Bytes of the region.
const REGION: usize = 16 << 20;
/// Where the client's packet memory lies in it, with zero-copy.
const POOL: usize = 8 << 20;

pub fn memory(len: usize) -> DmaMemory {
    HostedMachine::<FakeBar>::new(len).unwrap().dma_alloc(len, 4096).unwrap()
}

/// A core with its pool.
pub struct Core {
    pub pool: Pool,
    pub burst: Burst,
    layout: BufferLayout,
    isa: Isa,
}

impl Core {
    pub fn new(memory: DmaMemory, isa: Isa) -> Self {
        let layout = BufferLayout::DEFAULT;
        Self { pool: Pool::new(memory, layout), burst: Burst::new(), layout, isa }
    }

    pub fn setup(&self) -> QueueSetup {
        let memory = self.pool.memory().clone();
        QueueSetup { descriptors: 64, memory, layout: self.layout, isa: self.isa }
    }

    /// Puts a frame, cut into `pieces`, into the burst.
    pub fn push(&mut self, pieces: &[&[u8]]) {
        for (i, piece) in pieces.iter().enumerate() {
            let buffer = self.pool.take().unwrap();
            self.pool.memory().copy_in(buffer as usize, piece).unwrap();
            let len = piece.len() as u32;
            let last = i + 1 == pieces.len();
            let meta = if last { Meta::frame(len) } else { Meta::segment(len) };
            self.burst.push(Packet { buffer, meta }).unwrap();
        }
    }

    /// Puts a frame into as many buffers as it needs.
    pub fn push_frame(&mut self, frame: &[u8]) {
        self.push(&frame.chunks(2048).collect::<Vec<_>>());
    }

    /// Takes all frames out of the burst.
    pub fn pop_frames(&mut self) -> Vec<Vec<u8>> {
        let mut frames = vec![Vec::new()];
        while let Some(Packet { buffer, meta }) = self.burst.pop() {
            let mut piece = vec![0; meta.len() as usize];
            self.pool.memory().copy_out((buffer + meta.start()) as usize, &mut piece).unwrap();
            self.pool.give(&[buffer]);
            frames.last_mut().unwrap().extend(piece);
            if meta.is_last() {
                frames.push(Vec::new());
            }
        }
        assert!(frames.pop().unwrap().is_empty(), "a frame without an end");
        frames
    }
}

/// One end: a core with a queue each way.
pub struct Side1 {
    pub core: Core,
    pub rx: Rx,
    pub tx: Tx,
    pub rx_plug: Arc<Plug>,
    pub tx_plug: Arc<Plug>,
}

impl Side1 {
    pub fn new(core: Core, fast: bool) -> Self {
        let (rx_plug, tx_plug) = (Arc::new(Plug::default()), Arc::new(Plug::default()));
        let setup = core.setup();
        let rx = Rx::new(0, rx_plug.clone(), &setup, fast);
        let tx = Tx::new(0, tx_plug.clone(), &setup, fast);
        Self { core, rx, tx, rx_plug, tx_plug }
    }

    pub fn receive(&mut self, limit: usize) -> Vec<Vec<u8>> {
        let count = self.rx.rx_burst(&mut self.core.pool, &mut self.core.burst, limit);
        let frames = self.core.pop_frames();
        assert_eq!(frames.len(), count);
        frames
    }

    /// Sends what is in the burst; what finds no room stays there.
    pub fn send(&mut self) -> usize {
        self.tx.tx_burst(&mut self.core.pool, &mut self.core.burst)
    }

    pub fn drops(&self) -> Drops {
        let mut drops = self.rx.drops().clone();
        drops.merge(self.tx.drops());
        drops
    }
}

/// A client and a server with a connection.
pub struct Pair {
    pub region: DmaMemory,
    pub client: Client,
    pub server: Server,
    pub client_side: Side1,
    pub server_side: Side1,
}

/// How a pair is made.
#[derive(Debug, Clone, Copy)]
pub struct How {
    pub log2_size: u8,
    pub buffer: u32,
    pub zero_copy: bool,
    pub fast: bool,
    pub isa: Isa,
    /// Buffers of each core.
    pub buffers: usize,
}

impl How {
    pub fn plain() -> Self {
        Self { log2_size: 6, buffer: 2048, zero_copy: false, fast: true, isa: Isa::best(), buffers: 512 }
    }

    /// Every way of copying.
    pub fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for level in hal::simd::Level::ALL {
            let Some(isa) = Isa::exactly(level) else { continue };
            for fast in [true, false] {
                for buffer in [2048, 1024, 4096, 100] {
                    all.push(Self { buffer, fast, isa, ..Self::plain() });
                }
                all.push(Self { zero_copy: true, fast, isa, ..Self::plain() });
            }
        }
        all
    }
}

pub fn client_options(how: &How) -> ClientOptions {
    ClientOptions {
        id: 0,
        secret: cut(""),
        name: cut("client0"),
        queues: 1,
        log2_size: how.log2_size,
        buffer: how.buffer,
        pool: how.zero_copy.then_some(POOL as u32),
    }
}

pub fn server_options() -> ServerOptions {
    ServerOptions { id: 0, secret: cut(""), name: cut("server0"), queues: 4, log2_size: 14 }
}

impl Pair {
    pub fn new(how: &How) -> Self {
        let region = memory(REGION);
        let bytes = BufferLayout::DEFAULT.bytes(how.buffers);
        let packets = if how.zero_copy { region.part(POOL, bytes).unwrap() } else { memory(bytes) };
        let client_side = Side1::new(Core::new(packets, how.isa), how.fast);
        let server_side = Side1::new(Core::new(memory(bytes), how.isa), how.fast);
        let client = Client::new(client_options(how), region.clone(), REGION as u64).unwrap();
        let server = Server::new(server_options());
        let mut pair = Self { region, client, server, client_side, server_side };
        pair.connect();
        pair
    }

    /// Connects, or connects again.
    pub fn connect(&mut self) {
        self.client.open();
        self.server = Server::new(server_options());
        let mut message = Server::hello(4, 14);
        loop {
            let (next, attach) = match self.client.handle(&over_the_wire(&message)).unwrap() {
                ClientStep::Send(next, attach) => (next, attach),
                ClientStep::Up(name) => {
                    assert_eq!(name.as_str(), "server0");
                    break;
                }
                ClientStep::Wait => unreachable!(),
            };
            let attached = match attach {
                Attach::Nothing => Attached::Nothing,
                Attach::Region => Attached::Region(Ok(self.region.clone())),
                Attach::Interrupt { .. } => Attached::Interrupt(Arc::new(|| {})),
            };
            message = match self.server.handle(&over_the_wire(&next), attached).unwrap() {
                ServerStep::Asked(init) => self.server.accept(server_options(), &init).unwrap(),
                ServerStep::Send(answer) | ServerStep::Up(answer) => answer,
            };
        }
        self.client_side.tx_plug.attach(self.client.attachment(true, 0, None).unwrap());
        self.client_side.rx_plug.attach(self.client.attachment(false, 0, None).unwrap());
        self.server_side.rx_plug.attach(self.server.attachment(true, 0).unwrap());
        self.server_side.tx_plug.attach(self.server.attachment(false, 0).unwrap());
        // Queues look when they are polled; a server finds buffers only when its client has offered them.
        assert_eq!((self.client_side.receive(32), self.client_side.send()), (Vec::new(), 0));
        assert_eq!((self.server_side.receive(32), self.server_side.send()), (Vec::new(), 0));
    }

    pub fn disconnect(&mut self) {
        for plug in [
            &self.client_side.tx_plug,
            &self.client_side.rx_plug,
            &self.server_side.tx_plug,
            &self.server_side.rx_plug,
        ] {
            plug.detach();
        }
    }

    /// All buffers are in their pools once the queues let go.
    pub fn check_buffers(mut self) {
        for side in [&mut self.client_side, &mut self.server_side] {
            assert!(side.core.burst.is_empty());
        }
        for side in [self.client_side, self.server_side] {
            let Side1 { mut core, rx, tx, .. } = side;
            rx.release(&mut core.pool);
            tx.release(&mut core.pool);
            assert_eq!((core.pool.available(), core.pool.excess()), (core.pool.capacity(), 0));
        }
    }
}

fn over_the_wire(message: &Message) -> Message {
    let decoded = Message::decode(&message.encode()).unwrap();
    assert_eq!(&decoded, message);
    decoded
}

/// A frame of `len` bytes whose every byte says which frame and where.
pub fn frame(number: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (number * 31 + at * 7 + (at >> 8)) as u8).collect()
}
