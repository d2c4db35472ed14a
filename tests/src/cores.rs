//! Several cores in one process, each with a queue of its own to poll, whose cards work between the polls only: so that
//! whatever a poll does is the core's doing.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use drivers::i40e::{I40e, Options, Rx, Tx};
use hal::hosted::{FakeBar, HostedMachine};
use hal::simd::Isa;
use hal::{Bar, Line, Machine};
use kernel::forward::{Forwarder, Mode, Route};
use kernel::lcore::{Lcore, Stream};
use kernel::port::{PortControl, QueueSetup};
use kernel::{BufferLayout, MacAddr, Pool};
use model::Xl710;

use crate::port::{TestWire, plug};

/// The loop of one core.
pub type Core = Lcore<Rx<TailBar>, Tx<TailBar>, Forwarder>;

/// Queues whose tails are held back.
const QUEUES: usize = 16;
/// Datasheet: QTX_TAIL and QRX_TAIL, 4 bytes a queue.
const QTX_TAIL: u32 = 0x0010_8000;
const QRX_TAIL: u32 = 0x0012_8000;
/// No tail was written.
const NONE: u32 = u32::MAX;

/// Registers of a card, of which the tails can be held back: then a write goes to a place of its own for each queue, as
/// it would to the card, and the card learns of it later.
#[derive(Clone)]
pub struct TailBar {
    inner: FakeBar,
    tails: Arc<Tails>,
}

#[derive(Default)]
struct Tails {
    held_back: AtomicBool,
    tx: [Line<AtomicU32>; QUEUES],
    rx: [Line<AtomicU32>; QUEUES],
}

impl TailBar {
    fn new(inner: FakeBar) -> Self {
        let tails = Tails::default();
        tails.tx.iter().chain(&tails.rx).for_each(|tail| tail.0.store(NONE, Ordering::Relaxed));
        Self { inner, tails: Arc::new(tails) }
    }

    fn place(&self, offset: u32) -> Option<&AtomicU32> {
        let of = |start: u32, tails: &'_ [Line<AtomicU32>; QUEUES]| {
            let queue = offset.checked_sub(start)? as usize / 4;
            tails.get(queue).map(|_| queue)
        };
        let tails = &self.tails;
        let rx = of(QRX_TAIL, &tails.rx).map(|queue| &tails.rx[queue].0);
        rx.or_else(|| of(QTX_TAIL, &tails.tx).map(|queue| &tails.tx[queue].0))
    }

    /// Hands on the tails that were held back.
    fn deliver(&self) {
        let tails = [(QTX_TAIL, &self.tails.tx), (QRX_TAIL, &self.tails.rx)];
        for (start, tails) in tails {
            for (queue, tail) in tails.iter().enumerate() {
                let value = tail.0.swap(NONE, Ordering::Relaxed);
                if value != NONE {
                    self.inner.write32(start + 4 * queue as u32, value);
                }
            }
        }
    }
}

impl Bar for TailBar {
    fn size(&self) -> u64 {
        self.inner.size()
    }
    fn read32(&self, offset: u32) -> u32 {
        self.inner.read32(offset)
    }
    fn write32(&self, offset: u32, value: u32) {
        match self.place(offset).filter(|_| self.tails.held_back.load(Ordering::Relaxed)) {
            Some(tail) => tail.store(value, Ordering::Relaxed),
            None => self.inner.write32(offset, value),
        }
    }
    fn read64(&self, offset: u32) -> u64 {
        self.inner.read64(offset)
    }
}

/// A part of device memory that belongs to a core.
#[derive(Debug, Clone)]
pub struct Part {
    /// What it is.
    pub name: String,
    /// The core.
    pub core: usize,
    /// First byte and the one behind the last, counted from the start of the device memory.
    pub range: std::ops::Range<u64>,
}

/// How cores and ports are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// As many ports as cores, in a ring: core `n` polls port `n` and sends by the next one.
    PortEach,
    /// One port, whose frames are spread over a queue pair for each core.
    OnePort,
}

/// A card and its driver.
struct Port {
    card: Arc<Mutex<Xl710>>,
    bar: TailBar,
    driver: I40e<HostedMachine<TailBar>>,
    wire: TestWire,
}

/// Cores, and ports for them.
pub struct Cores {
    /// The cores.
    pub cores: Vec<Box<Core>>,
    /// Their parts of device memory.
    pub parts: Vec<Part>,
    ports: Vec<Port>,
}

impl Cores {
    /// Everything is up, and from now on cards work in [`Cores::work`] only.
    pub fn new(count: usize, shape: Shape, mode: Mode, descriptors: u16) -> Self {
        // Packets with room to spare, and what a card and its driver need besides.
        let memory = BufferLayout::DEFAULT.bytes(4 * usize::from(descriptors)) + (1 << 20);
        let machine = HostedMachine::<TailBar>::new(count * memory).expect("memory for the machine");
        let port_count = if shape == Shape::OnePort { 1 } else { count };
        let mut ports: Vec<Port> = (0..port_count).map(|port| Port::new(&machine, port as u8)).collect();
        if shape == Shape::OnePort {
            spread(&ports[0].bar, count as u32);
        }
        let (mut cores, mut parts) = (Vec::new(), Vec::new());
        for number in 0..count {
            cores.push(start_core(&machine, &mut ports, number, (mode, descriptors), &mut parts));
        }
        ports.iter().for_each(|port| port.bar.tails.held_back.store(true, Ordering::Relaxed));
        Self { cores, parts, ports }
    }

    /// Puts a frame on the wire toward the port of core `core`.
    pub fn offer(&self, core: usize, frame: Vec<u8>) {
        self.ports[core % self.ports.len()].wire.offer(frame);
    }

    /// Lets the cards do what there is to do; returns what each port has sent.
    pub fn work(&self) -> Vec<Vec<Vec<u8>>> {
        let work = |port: &Port| {
            port.bar.deliver();
            port.card.lock().expect("the model does not panic").pump();
            port.wire.take()
        };
        self.ports.iter().map(work).collect()
    }
}

impl Port {
    fn new(machine: &HostedMachine<TailBar>, number: u8) -> Self {
        let wire = TestWire::default();
        let (card, bar) = plug(machine, [0x68, 5, 0xca, 0, 0, number], wire.card_end());
        let bar = TailBar::new(bar);
        let options = Options { wide_descriptors: true, promiscuous: true };
        let driver = I40e::new(machine.clone(), bar.clone(), options).expect("the port comes up");
        Self { card, bar, driver, wire }
    }
}

/// Spreads IP frames over `queues` queues by a hash of addresses and ports. Datasheet: PFQF_HKEY (13 words), PFQF_HLUT
/// (128 words of four entries) and PFQF_HENA (2), 128 bytes from one to the next.
fn spread(bar: &TailBar, queues: u32) {
    const PFQF_HLUT: u32 = 0x0024_0000;
    const PFQF_HKEY: u32 = 0x0024_4800;
    const PFQF_HENA: u32 = 0x0024_5900;
    for word in 0..13 {
        bar.write32(PFQF_HKEY + 128 * word, 0x6d5a_56da_u32.rotate_left(word) ^ (word << 13));
    }
    for word in 0..128 {
        let entries = (0..4).map(|entry| ((4 * word + entry) % queues) << (8 * entry));
        bar.write32(PFQF_HLUT + 128 * word, entries.sum());
    }
    (0..2).for_each(|word| bar.write32(PFQF_HENA + 128 * word, u32::MAX));
}

fn start_core(
    machine: &HostedMachine<TailBar>,
    ports: &mut [Port],
    number: usize,
    (mode, descriptors): (Mode, u16),
    parts: &mut Vec<Part>,
) -> Box<Core> {
    let place = || {
        let memory = machine.dma_alloc(64, 4096).expect("memory for a mark");
        memory.addr().as_u64() - HostedMachine::<TailBar>::DMA_BASE
    };
    let mut mark = place();
    let mut part = |name: String| {
        let end = place();
        parts.push(Part { name, core: number, range: mark..end });
        mark = end;
    };
    let layout = BufferLayout::DEFAULT;
    let memory = machine.dma_alloc(layout.bytes(3 * usize::from(descriptors)), 4096).expect("packet memory");
    part(format!("packets of core {number}"));
    let mut core =
        Box::new(Core::new(Pool::new(memory.clone(), layout), Forwarder::plain(mode, Isa::best()), 32));
    let setup = QueueSetup { descriptors, memory, layout, isa: Isa::best() };
    let (port, queue) = if ports.len() == 1 { (0, number as u16) } else { (number, 0) };
    let next = (port + 1) % ports.len();
    let tx = ports[next].driver.start_tx(queue, &setup).expect("the transmit queue starts");
    part(format!("transmit ring of port {next}, queue {queue}"));
    let rx = ports[port].driver.start_rx(queue, &setup, &mut core.pool).expect("the receive queue starts");
    part(format!("receive ring of port {port}, queue {queue}"));
    let route = Route { mac: ports[next].driver.mac(), peer: MacAddr([2, 0, 0, 0, 0, next as u8]) };
    let stream = Stream::new((port, next), rx, tx, route);
    assert!(core.streams.push(stream).is_ok());
    core
}
