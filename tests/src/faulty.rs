//! A port that sends back what it receives, on a card that misbehaves: it is looked at as a driver's owner would, and
//! helped as `drivers::i40e::Trouble` says.

use std::collections::BTreeSet;

use drivers::i40e::{Error, I40e, Options, RingWatch, Rx, Trouble, Tx};
use hal::Machine;
use hal::hosted::FakeBar;
use hal::simd::Isa;
use kernel::forward::{Forwarder, Mode, Route};
use kernel::lcore::{Lcore, Stream};
use kernel::port::{PortControl, QueueCounters, QueueSetup};
use kernel::{BufferLayout, MacAddr, Pool, RxQueue, TxQueue};

use crate::frames;
use crate::port::TestPort;
use crate::stepped::SteppedMachine;

/// The driver, whose waits take no time.
pub type Driver = I40e<SteppedMachine>;
type Core = Lcore<Rx<FakeBar>, Tx<FakeBar>, Forwarder>;

/// What is chosen for a port.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// 32-byte receive descriptors.
    pub wide: bool,
    /// Descriptors of the rings.
    pub rxd: u16,
    /// Descriptors of the rings.
    pub txd: u16,
    /// Frames of a poll.
    pub burst: usize,
    /// How packet memory is cut.
    pub layout: BufferLayout,
}

impl Default for Shape {
    fn default() -> Self {
        Self { wide: true, rxd: 256, txd: 256, burst: 32, layout: BufferLayout::DEFAULT }
    }
}

/// Everything but `wide` as it always is.
pub fn options(wide: bool) -> Options {
    Options { wide_descriptors: wide, promiscuous: true }
}

/// A port on a card.
pub struct FaultyPort {
    /// Card and wire.
    pub port: TestPort,
    /// Its driver.
    pub driver: Driver,
    /// The core that forwards, in mode `io`.
    pub core: Core,
    /// What it was made with.
    pub shape: Shape,
    /// Every trouble and error that was told.
    pub told: Vec<String>,
    rx_watch: RingWatch,
    tx_watch: RingWatch,
}

impl FaultyPort {
    /// Brings a port up on a card with a script, and starts its queues.
    pub fn start(script: &str) -> Self {
        Self::with(Shape::default(), script)
    }

    /// As [`FaultyPort::start`], with other rings or buffers.
    pub fn with(shape: Shape, script: &str) -> Self {
        let port = TestPort::new();
        play(&port, script);
        let driver = bring_up(&port, shape.wide).unwrap_or_else(|error| panic!("{script}: {error}"));
        let mut this = Self::of(port, driver, shape);
        this.start_queues().unwrap_or_else(|error| panic!("{script}: {error}"));
        this
    }

    /// A port whose queues don't run yet.
    pub fn of(port: TestPort, driver: Driver, shape: Shape) -> Self {
        // The receive ring, the transmit ring, a burst, and blocks that are not complete.
        let buffers = usize::from(shape.rxd) + usize::from(shape.txd) + 512 + 64;
        let memory = port.machine.dma_alloc(shape.layout.bytes(buffers), 4096).expect("packet memory");
        let core =
            Core::new(Pool::new(memory, shape.layout), Forwarder::plain(Mode::Io, Isa::best()), shape.burst);
        let (rx_watch, tx_watch) = (RingWatch::default(), RingWatch::default());
        Self { port, driver, core, shape, told: Vec::new(), rx_watch, tx_watch }
    }

    /// Plays a script from now on.
    pub fn play(&self, script: &str) {
        play(&self.port, script);
    }

    /// What a ring of so many descriptors is set up with.
    pub fn setup(&self, descriptors: u16) -> QueueSetup {
        QueueSetup {
            descriptors,
            memory: self.core.pool.memory().clone(),
            layout: self.core.pool.layout(),
            isa: Isa::best(),
        }
    }

    /// Starts queue pair 0.
    ///
    /// # Errors
    /// The driver's; then no queue runs, unless it does not go off.
    pub fn start_queues(&mut self) -> Result<(), Error> {
        let (rx_setup, tx_setup) = (self.setup(self.shape.rxd), self.setup(self.shape.txd));
        let tx = self.driver.start_tx(0, &tx_setup)?;
        let rx = match self.driver.start_rx(0, &rx_setup, &mut self.core.pool) {
            Ok(rx) => rx,
            Err(error) => {
                self.driver.stop_tx(tx, &mut self.core.pool)?;
                return Err(error);
            }
        };
        let route = Route { mac: self.driver.mac(), peer: MacAddr([2, 0, 0, 0, 0, 0]) };
        let stream = Stream::new((0, 0), rx, tx, route);
        assert!(self.core.streams.push(stream).is_ok());
        Ok(())
    }

    /// Stops queue pair 0, if it runs; tells what goes wrong. Returns frames left in the rings.
    pub fn stop_queues(&mut self) -> [QueueCounters; 2] {
        let Some(stream) = self.core.streams.pop() else { return [QueueCounters::default(); 2] };
        let (received, sent, drops) = (stream.rx.counters(), stream.tx.counters(), stream.all_drops());
        assert_eq!(received.frames, sent.frames + drops.total(), "every frame is sent or dropped");
        let left = self.driver.stop_rx(stream.rx, &mut self.core.pool);
        let unsent = self.driver.stop_tx(stream.tx, &mut self.core.pool);
        [left, unsent].map(|result| {
            result.unwrap_or_else(|error| {
                self.told.push(error.to_string());
                QueueCounters::default()
            })
        })
    }

    /// One round: the card works, the core polls. Says whether something moved.
    pub fn round(&mut self) -> bool {
        let before = self.port.wire.waiting();
        self.port.card().pump();
        self.core.poll() > 0 || self.port.wire.waiting() != before
    }

    /// Rounds until nothing moves any more and the card waits for nothing.
    pub fn settle(&mut self) {
        let mut idle = 0;
        for _ in 0..200_000 {
            // A poll arms before it receives, so that what it freed counts for the card one round later.
            idle = if self.round() || self.port.card().is_busy() { 0 } else { idle + 1 };
            if idle == 2 {
                return;
            }
        }
        panic!("something moves for ever");
    }

    /// Offers frames, and returns what came back once nothing moves.
    pub fn exchange(&mut self, offered: &[Vec<u8>]) -> Vec<Vec<u8>> {
        offered.iter().for_each(|frame| self.port.wire.offer(frame.clone()));
        self.settle();
        self.port.wire.take()
    }

    /// Looks at the port and its queues twice, with time for the card in between, as an owner does now and then;
    /// troubles are told once.
    pub fn look(&mut self) -> Vec<Trouble> {
        let mut troubles = BTreeSet::new();
        let mut found = Vec::new();
        for _ in 0..2 {
            let mut all: Vec<Trouble> = self.driver.trouble().into_iter().collect();
            if let Some(stream) = self.core.streams.first() {
                all.extend(self.driver.rx_trouble(&stream.rx, &mut self.rx_watch));
                all.extend(self.driver.tx_trouble(&stream.tx, &mut self.tx_watch));
            }
            found.extend(all.into_iter().filter(|trouble| troubles.insert(trouble.to_string())));
            (0..100).for_each(|_| self.port.card().pump());
        }
        self.told.extend(found.iter().map(ToString::to_string));
        found
    }

    /// Helps as far as a driver's owner can, and says whether there was anything to help.
    pub fn recover(&mut self) -> bool {
        let troubles = self.look();
        let stuck = |trouble: &Trouble| matches!(trouble, Trouble::RxStuck { .. } | Trouble::TxStuck { .. });
        if !troubles.is_empty() || self.core.streams.is_empty() {
            self.stop_queues();
            if !troubles.iter().all(stuck) || self.core.pool.available() != self.core.pool.capacity() {
                self.reset();
            }
            self.start_queues().expect("the queues start again");
        }
        !troubles.is_empty()
    }

    /// Resets the port, and takes parked buffers back. Firmware may refuse a command of a reset: then it is repeated.
    pub fn reset(&mut self) {
        for last in [false, false, true] {
            match self.driver.reset() {
                Ok(()) => break,
                Err(error) if last => {
                    panic!("the port does not come up again: {error}; told was {:?}", self.told)
                }
                Err(error) => self.told.push(error.to_string()),
            }
        }
        let _ = self.driver.reclaim_rx(0, &mut self.core.pool);
        let _ = self.driver.reclaim_tx(0, &mut self.core.pool);
    }

    /// Ten thousand frames pass, in order, to the byte.
    pub fn ten_thousand(&mut self) {
        // No more under way than the transmit ring takes while a block of it is not complete.
        let most = (u32::from(self.shape.txd) - 40).min(200);
        let mut next = 0;
        while next < 10_000 {
            let end = (next + most).min(10_000);
            let offered: Vec<_> = (next..end).map(|n| frames::numbered(n, 60 + n as usize % 400)).collect();
            self.pass(&offered);
            next = end;
        }
    }

    /// These frames come back, in order, to the byte.
    pub fn pass(&mut self, offered: &[Vec<u8>]) {
        let back = self.exchange(offered);
        let wrong = back.iter().zip(offered).position(|(back, offered)| back != offered);
        let (told, drops) = (&self.told, self.core.streams.first().map(Stream::all_drops));
        assert_eq!(wrong, None, "the first frame that came back wrong; told was {told:?}");
        assert_eq!(back.len(), offered.len(), "frames that came back; told was {told:?}, dropped {drops:?}");
    }

    /// Ten thousand frames pass, all buffers are there once, and the card has nothing to complain of.
    pub fn finish(mut self) {
        self.ten_thousand();
        self.check_buffers();
        assert_eq!(self.port.card().violations(), [""; 0]);
        assert_eq!(self.port.card().counters().dma_faults, 0);
        self.driver.shut_down().expect("the firmware takes the farewell");
    }

    /// Stops the queues: every buffer is back, and once.
    pub fn check_buffers(&mut self) {
        self.stop_queues();
        let pool = &mut self.core.pool;
        assert_eq!(
            (pool.available(), pool.excess()),
            (pool.capacity(), 0),
            "all buffers, told was {:?}",
            self.told
        );
        let mut buffers = Vec::new();
        while let Some(buffer) = kernel::Buffers::take(pool) {
            buffers.push(buffer);
        }
        let distinct: BTreeSet<_> = buffers.iter().collect();
        assert_eq!(distinct.len(), buffers.len(), "a buffer is there twice");
        kernel::Buffers::give(pool, &buffers);
    }

    /// Something that was told has `text` in it.
    pub fn was_told(&self, text: &str) {
        assert!(self.told.iter().any(|told| told.contains(text)), "{text:?} in {:?}", self.told);
    }
}

/// Brings a driver up whose waits take no time.
///
/// # Errors
/// The driver's.
pub fn bring_up(port: &TestPort, wide: bool) -> Result<Driver, Error> {
    I40e::new(SteppedMachine::new(port.machine.clone()), port.bar.clone(), options(wide))
}

/// Plays a script on a card.
pub fn play(port: &TestPort, script: &str) {
    let script = script.parse().unwrap_or_else(|error| panic!("{error}"));
    port.card().play(&script);
}
