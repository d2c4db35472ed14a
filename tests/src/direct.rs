//! Queues of the driver without a loop around them: a test gives and takes packets one by one, with their metadata.

use drivers::i40e::{I40e, Options, Rx, Tx};
use hal::Machine;
use hal::hosted::{FakeBar, HostedMachine};
use hal::simd::Isa;
use kernel::port::{PortControl, QueueSetup};
use kernel::{BufferLayout, Buffers, Burst, Meta, Packet, Pool, RxQueue, TxQueue, TxRequest};

use crate::TestPort;

/// A driver on the model.
pub type Driver = I40e<HostedMachine<FakeBar>>;

/// A port with receive queues and one transmit queue.
pub struct Direct {
    /// Card and wire.
    pub port: TestPort,
    /// The driver.
    pub driver: Driver,
    /// Buffers of all queues.
    pub pool: Pool,
    /// Receive queues, in order.
    pub rx: Vec<Rx<FakeBar>>,
    /// The transmit queue.
    pub tx: Tx<FakeBar>,
}

impl Direct {
    const BUFFERS: usize = 8192;

    /// Starts `queues` receive queues of `rxd` descriptors and one transmit queue of `txd`.
    pub fn start(queues: u16, rxd: u16, txd: u16, options: Options) -> Self {
        let port = TestPort::new();
        let mut driver = port.bring_up(options).expect("the port comes up");
        let layout = BufferLayout::DEFAULT;
        let memory = port.machine.dma_alloc(layout.bytes(Self::BUFFERS), 4096).expect("packet memory");
        let mut pool = Pool::new(memory.clone(), layout);
        let setup =
            |descriptors| QueueSetup { descriptors, memory: memory.clone(), layout, isa: Isa::best() };
        let rx = (0..queues)
            .map(|queue| driver.start_rx(queue, &setup(rxd), &mut pool).expect("the queue starts"))
            .collect();
        let tx = driver.start_tx(0, &setup(txd)).expect("the queue starts");
        Self { port, driver, pool, rx, tx }
    }

    /// Starts receive queue `queue`, which is the one behind those that run.
    pub fn start_rx(&mut self, queue: u16, descriptors: u16) {
        let (memory, layout) = (self.pool.memory().clone(), self.pool.layout());
        let setup = QueueSetup { descriptors, memory, layout, isa: Isa::best() };
        self.rx.push(self.driver.start_rx(queue, &setup, &mut self.pool).expect("the queue starts"));
    }

    /// Puts frames on the wire and fetches what arrives at each queue: bytes, and metadata of the last buffer.
    pub fn receive(&mut self, frames: &[Vec<u8>]) -> Vec<Vec<(Vec<u8>, Meta)>> {
        frames.iter().for_each(|frame| self.port.wire.offer(frame.clone()));
        let mut received: Vec<Vec<_>> = self.rx.iter().map(|_| Vec::new()).collect();
        let mut idle = 0;
        while idle < 3 {
            let waiting = self.port.wire.waiting();
            self.port.card().pump();
            let before = received.iter().map(Vec::len).sum::<usize>();
            for (rx, received) in self.rx.iter_mut().zip(&mut received) {
                let mut burst = Burst::new();
                rx.rx_burst(&mut self.pool, &mut burst, 32);
                received.extend(take_frames(&mut burst, &mut self.pool));
            }
            let moved = received.iter().map(Vec::len).sum::<usize>() != before;
            idle = if moved || self.port.wire.waiting() != waiting { 0 } else { idle + 1 };
        }
        received
    }

    /// Sends one frame in `pieces` with a request; returns whether the queue took it, and what came out.
    pub fn send(&mut self, pieces: &[&[u8]], request: &TxRequest) -> (usize, Vec<Vec<u8>>) {
        let mut burst = Burst::new();
        for (index, piece) in pieces.iter().enumerate() {
            let buffer = self.pool.take().expect("a buffer");
            self.pool.memory().copy_in(buffer as usize, piece).expect("inside of the packet memory");
            let meta = Meta::segment(piece.len() as u32);
            let meta = if index + 1 == pieces.len() {
                request
                    .put(Meta { hi: meta.hi | Meta::EOP, ..meta })
                    .expect("a request that can be asked for")
            } else {
                meta
            };
            burst.push(Packet { buffer, meta }).expect("room in the burst");
        }
        let taken = self.tx.tx_burst(&mut self.pool, &mut burst);
        burst.give_back(&mut self.pool);
        self.port.card().pump();
        (taken, self.port.wire.take())
    }

    /// Stops everything: every buffer is back, and the card has nothing to complain of.
    pub fn finish(mut self) {
        for rx in self.rx {
            self.driver.stop_rx(rx, &mut self.pool).expect("the queue stops");
        }
        self.driver.stop_tx(self.tx, &mut self.pool).expect("the queue stops");
        assert_eq!((self.pool.available(), self.pool.excess()), (self.pool.capacity(), 0));
        assert_eq!(self.port.card().violations(), [""; 0]);
        assert_eq!(self.port.card().counters().dma_faults, 0);
        self.driver.shut_down().expect("the card takes its farewell");
    }
}

fn take_frames(burst: &mut Burst, pool: &mut Pool) -> Vec<(Vec<u8>, Meta)> {
    let (mut frames, mut bytes) = (Vec::new(), Vec::new());
    while let Some(packet) = burst.pop() {
        let start = bytes.len();
        bytes.resize(start + packet.meta.len() as usize, 0);
        let at = packet.buffer as usize + packet.meta.start() as usize;
        pool.memory().copy_out(at, &mut bytes[start..]).expect("inside of the packet memory");
        pool.give(&[packet.buffer]);
        if packet.meta.is_last() {
            frames.push((std::mem::take(&mut bytes), packet.meta));
        }
    }
    frames
}
