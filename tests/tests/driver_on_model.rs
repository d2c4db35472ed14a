//! The i40e driver against the software XL710 in one process: bring-up, traffic, stop and start, faults.

use drivers::i40e::{AdminFault, Error, I40e, Options, Rx, Tx};
use hal::Machine;
use hal::hosted::{FakeBar, HostedMachine};
use hal::simd::Isa;
use kernel::config::{Config, RxDesc};
use kernel::forward::{Forwarder, Mode, Route};
use kernel::lcore::{Lcore, Stream};
use kernel::port::{PortControl, QueueCounters, QueueSetup};
use kernel::{BufferLayout, DropReason, MacAddr, Pool, RxQueue, TxQueue};
use model::AdminFault as ModelFault;
use rig::{TestPort, frames};

type Driver = I40e<HostedMachine<FakeBar>>;
type Core = Lcore<Rx<FakeBar>, Tx<FakeBar>, Forwarder>;

const OPTIONS: Options = Options { wide_descriptors: true, promiscuous: true };

/// A port that sends back what it receives, and the core that does so.
struct Loop {
    port: TestPort,
    driver: Driver,
    core: Core,
}

impl Loop {
    fn start(mode: Mode, rx_desc: RxDesc, rxd: u16, txd: u16) -> Self {
        let port = TestPort::new();
        let options = Options { wide_descriptors: rx_desc == RxDesc::B32, promiscuous: true };
        let driver = port.bring_up(options).unwrap();
        let config = Config { rxd, txd, ..Config::default() };
        let layout = BufferLayout::DEFAULT;
        let memory = port.machine.dma_alloc(layout.bytes(config.buffers_needed(1) as usize), 4096).unwrap();
        let core = Core::new(Pool::new(memory, layout), Forwarder::plain(mode, Isa::best()), 32);
        let mut this = Self { port, driver, core };
        this.start_queues(rxd, txd);
        this
    }

    fn start_queues(&mut self, rxd: u16, txd: u16) {
        let setup = |descriptors, pool: &Pool| QueueSetup {
            descriptors,
            memory: pool.memory().clone(),
            layout: pool.layout(),
            isa: Isa::best(),
        };
        let (rx_setup, tx_setup) = (setup(rxd, &self.core.pool), setup(txd, &self.core.pool));
        let tx = self.driver.start_tx(0, &tx_setup).unwrap();
        let rx = self.driver.start_rx(0, &rx_setup, &mut self.core.pool).unwrap();
        let route = Route { mac: self.driver.mac(), peer: MacAddr([2, 0, 0, 0, 0, 0]) };
        let stream = Stream::new((0, 0), rx, tx, route);
        assert!(self.core.streams.push(stream).is_ok());
    }

    /// Offers frames and polls until nothing moves any more.
    fn exchange(&mut self, offered: &[Vec<u8>]) -> Vec<Vec<u8>> {
        offered.iter().for_each(|frame| self.port.wire.offer(frame.clone()));
        // A poll arms before it receives, so that what it freed counts for the card one round later.
        let mut idle = 0;
        while idle < 2 {
            let before = self.port.wire.waiting();
            self.port.card().pump();
            let moved = self.core.poll() > 0 || self.port.wire.waiting() != before;
            idle = if moved { 0 } else { idle + 1 };
        }
        self.port.wire.take()
    }

    fn stop_queues(&mut self) -> (QueueCounters, QueueCounters) {
        let stream = self.core.streams.pop().unwrap();
        let left = self.driver.stop_rx(stream.rx, &mut self.core.pool).unwrap();
        let unsent = self.driver.stop_tx(stream.tx, &mut self.core.pool).unwrap();
        assert_eq!(self.core.pool.available(), self.core.pool.capacity());
        assert_eq!(self.core.pool.excess(), 0);
        (left, unsent)
    }

    fn finish(mut self) {
        self.stop_queues();
        assert_eq!(self.port.card().violations(), [""; 0]);
        assert_eq!(self.port.card().counters().dma_faults, 0);
        self.driver.shut_down().unwrap();
    }
}

#[test]
fn a_port_comes_up_with_address_link_and_versions() {
    let port = TestPort::new();
    let mut driver = port.bring_up(OPTIONS).unwrap();
    assert_eq!(driver.mac(), MacAddr(TestPort::MAC));
    let link = driver.link().unwrap();
    assert_eq!((link.up, link.speed), (true, 10_000));
    assert_eq!((driver.firmware().firmware, driver.firmware().api), ((6, 1), (1, 7)));
    assert_eq!(port.card().unknown_commands(), [0_u16; 0]);
    assert_eq!(port.card().violations(), [""; 0]);
    driver.shut_down().unwrap();
}

/// Every ring size at its edges, both descriptor widths, io and macswap: all frames back, in order, to the byte.
#[test]
fn numbered_frames_come_back_in_order_for_every_ring() {
    for rx_desc in [RxDesc::B16, RxDesc::B32] {
        for (rxd, txd) in [(64, 64), (96, 4096), (1024, 512), (544, 96), (4096, 64), (8160, 8160)] {
            for mode in [Mode::Io, Mode::MacSwap] {
                let mut ring = Loop::start(mode, rx_desc, rxd, txd);
                let offered: Vec<_> =
                    (0..3 * u32::from(rxd)).map(|n| frames::numbered(n, 60 + n as usize % 1459)).collect();
                let back = ring.exchange(&offered);
                assert_eq!(back.len(), offered.len(), "{rx_desc:?} {rxd} {txd} {mode:?}");
                for (frame, back) in offered.iter().zip(&back) {
                    let want = if mode == Mode::Io { frame.clone() } else { frames::swapped(frame) };
                    assert_eq!(*back, want);
                }
                ring.finish();
            }
        }
    }
}

/// Around each multiple of the buffer size up to the largest frame.
#[test]
fn large_frames_come_back_whole() {
    let mut ring = Loop::start(Mode::MacSwap, RxDesc::B32, 1024, 512);
    let edges = [2048, 4096, 6144, 8192, 9728].into_iter().flat_map(|edge| [edge - 1, edge, edge + 1]);
    let lengths: Vec<usize> = edges.filter(|len| *len <= 9728).collect();
    let offered: Vec<_> =
        (0..600).map(|n| frames::numbered(n, lengths[n as usize % lengths.len()])).collect();
    let back = ring.exchange(&offered);
    let want: Vec<_> = offered.iter().map(|frame| frames::swapped(frame)).collect();
    assert_eq!(back, want);
    // One byte more than the card takes never reaches the driver, and the rest goes on.
    assert_eq!(ring.exchange(&[vec![1; 9729], frames::numbered(1, 60)]).len(), 1);
    assert_eq!(ring.core.streams[0].rx.counters().frames, 601);
    ring.finish();
}

#[test]
fn counters_of_queue_card_and_wire_agree() {
    let mut ring = Loop::start(Mode::Io, RxDesc::B32, 1024, 1024);
    let offered: Vec<_> = (0..1000).map(|n| frames::numbered(n, 60)).collect();
    assert_eq!(ring.exchange(&offered).len(), 1000);
    let stream = &ring.core.streams[0];
    let expected = QueueCounters { frames: 1000, bytes: 60_000 };
    assert_eq!((stream.rx.counters(), stream.tx.counters()), (expected, expected));
    let stats = ring.driver.stats();
    assert_eq!((stats.rx_frames, stats.rx_bytes, stats.rx_missed, stats.rx_errors), (1000, 60_000, 0, 0));
    assert_eq!((stats.tx_frames, stats.tx_bytes, stats.tx_errors), (1000, 60_000, 0));
    ring.finish();
}

/// Without promiscuous mode: the port's own address and broadcasts, nothing else. With it everything, frames that
/// bear the port's own address as source among them.
#[test]
fn only_promiscuous_mode_receives_what_is_for_others() {
    let mut ring = Loop::start(Mode::Io, RxDesc::B32, 256, 256);
    let to = |mac: [u8; 6], from: [u8; 6]| [&mac[..], &from[..], &[0x88, 0xb5], &[7; 46]].concat();
    let other = [2, 0, 0, 0, 0, 9];
    let offered = [
        to(TestPort::MAC, other),
        to([0xff; 6], other),
        to(other, other),
        to([1, 0, 0x5e, 0, 0, 1], other),
        to(other, TestPort::MAC),
    ];
    assert_eq!(ring.exchange(&offered), offered);
    ring.driver.set_promiscuous(false).unwrap();
    assert_eq!(ring.exchange(&offered), offered[..2]);
    ring.driver.set_promiscuous(true).unwrap();
    assert_eq!(ring.exchange(&offered), offered);
    ring.finish();
}

/// Frames that find no descriptor are the card's to count, and each is counted once.
#[test]
fn frames_without_a_descriptor_are_counted_as_missed() {
    let mut ring = Loop::start(Mode::Io, RxDesc::B32, 64, 64);
    ring.port.wire.lose_frames();
    (0..100).for_each(|n| ring.port.wire.offer(frames::numbered(n, 60)));
    ring.port.card().pump();
    assert_eq!(ring.exchange(&[]).len(), 32);
    assert_eq!(ring.driver.stats().rx_missed, 68);
    ring.finish();
}

/// A thousand times: stop with frames in the rings, start again; every buffer is back each time.
#[test]
fn stop_and_start_lose_no_buffer() {
    let mut ring = Loop::start(Mode::Io, RxDesc::B32, 128, 128);
    for lap in 0..1000_u32 {
        let offered: Vec<_> = (0..lap % 50).map(|n| frames::numbered(n, 60)).collect();
        assert_eq!(ring.exchange(&offered).len(), offered.len());
        // Frames that arrive and are not fetched before the stop.
        (0..lap % 7).for_each(|n| ring.port.wire.offer(frames::numbered(n, 3000)));
        ring.port.card().pump();
        let (left, unsent) = ring.stop_queues();
        assert_eq!((left.frames, left.bytes), (u64::from(lap % 7), 3000 * u64::from(lap % 7)));
        assert_eq!(unsent, QueueCounters::default());
        ring.start_queues(128, 128);
    }
    ring.finish();
}

/// A card that is reset again and again by new drivers, each without the farewell of the one before.
#[test]
fn a_card_that_was_left_running_comes_up() {
    let port = TestPort::new();
    for _ in 0..20 {
        let driver = port.bring_up(OPTIONS).unwrap();
        assert_eq!(driver.mac(), MacAddr(TestPort::MAC));
    }
    assert_eq!(port.card().violations(), [""; 0]);
}

#[test]
fn the_link_goes_down_and_comes_back() {
    let port = TestPort::new();
    let mut driver = port.bring_up(OPTIONS).unwrap();
    for _ in 0..10 {
        port.card().set_link(false);
        assert!(!driver.link().unwrap().up);
        port.card().set_link(true);
        assert_eq!(driver.link().unwrap().speed, 10_000);
    }
}

/// Firmware that takes the frame size only with the link up: the port comes up all the same, and the command is given
/// again with the link.
#[test]
fn a_port_starts_while_its_link_is_down() {
    let port = TestPort::new();
    port.card().faults().mac_config_needs_link = true;
    port.card().set_link(false);
    let mut driver = port.bring_up(OPTIONS).unwrap();
    assert!(!driver.link().unwrap().up);
    port.card().set_link(true);
    assert!(driver.link().unwrap().up);
}

/// With the link down nothing is sent, and the stop says how much.
#[test]
fn frames_that_the_link_did_not_take_are_told() {
    let mut ring = Loop::start(Mode::TxOnly, RxDesc::B32, 64, 64);
    ring.port.card().set_link(false);
    ring.core.poll();
    let stats = ring.driver.stats();
    assert_eq!((stats.tx_frames, stats.tx_errors), (0, 32));
    ring.finish();
}

#[test]
fn slow_cards_are_waited_for() {
    let port = TestPort::new();
    port.card().faults().queue_delay = 20;
    port.card().faults().reset_delay = 20;
    let driver = port.bring_up(OPTIONS);
    assert!(driver.is_ok(), "{:?}", driver.err());
}

/// A command that fails, in every step of bring-up that has one: the error names the opcode and the code.
#[test]
fn a_command_that_fails_is_named() {
    for opcode in
        [0x0001, 0x000a, 0x0107, 0x0110, 0x0200, 0x0211, 0x0212, 0x0250, 0x0254, 0x0605, 0x0607, 0x0603]
    {
        let port = TestPort::new();
        port.card().faults().admin.push((opcode, ModelFault::Code(14), u32::MAX));
        match port.bring_up(OPTIONS).err() {
            Some(Error::Admin { opcode: named, fault: AdminFault::Code(14), .. }) => {
                assert_eq!(named, opcode)
            }
            other => panic!("{opcode:#06x}: {other:?}"),
        }
    }
}

#[test]
fn commands_that_can_be_done_without_are() {
    for opcode in [0x0206, 0x0207, 0x0a05] {
        let port = TestPort::new();
        port.card().faults().admin.push((opcode, ModelFault::Code(3), u32::MAX));
        assert!(port.bring_up(OPTIONS).is_ok(), "{opcode:#06x}");
    }
}

#[test]
fn busy_firmware_is_asked_again() {
    let port = TestPort::new();
    port.card().faults().admin.push((0x0254, ModelFault::Code(8), 3));
    assert!(port.bring_up(OPTIONS).is_ok());
}

#[test]
fn firmware_that_does_not_answer_or_lies_is_named() {
    for (fault, text) in [
        (
            ModelFault::Never,
            "admin command 0x0107 (Manage MAC Address Read): no answer within 1000 ms, PF_ATQH is",
        ),
        (ModelFault::Head(u32::MAX), "PF_ATQH is 0xffffffff, which is no index of the queue"),
        (ModelFault::Head(32), "PF_ATQH is 0x20, which is no index of the queue"),
        (ModelFault::NotDone, "completed without DD"),
    ] {
        let port = TestPort::new();
        port.card().faults().admin.push((0x0107, fault, 1));
        let error = port.bring_up(OPTIONS).err().unwrap().to_string();
        assert!(error.contains(text), "{fault:?}: {error}");
    }
}

/// Registers that say something is wrong: the step and the register are in the error.
#[test]
fn a_card_that_is_not_well_is_named() {
    for (register, value, text) in [
        (0x0b_8188, 1, "reset of the card: GLGEN_RSTAT is still 0x1 after 1000 ms"),
        (0x0b_6008, 0, "load of the card's settings: GLNVM_ULD is still 0x0 after 2000 ms"),
        (0x08_3048, 0x0021_0000, "GL_FWSTS (recovery mode) is 0x210000"),
        (0x09_2400, 1, "reset of the function: PFGEN_CTRL is still 0x1 after 3000 ms"),
        (0x08_0000, 0x10, "start of the admin queue: the card says PF_ATQBAL is 0x10"),
        (0x0c_2004, 6, "GLHMC_LANTXOBJSZ is 0x6"),
        (0x0c_2008, 63, "GLHMC_LANQMAX is 0x3f"),
    ] {
        let port = TestPort::new();
        port.card().faults().registers.push((register, value));
        let error = port.bring_up(OPTIONS).err().unwrap().to_string();
        assert!(error.contains(text), "{register:#x}: {error}");
    }
}

#[test]
fn a_card_that_is_gone_is_an_error_and_no_hang() {
    let port = TestPort::new();
    let gone = FakeBar::new(0, Nothing);
    let error = I40e::new(port.machine.clone(), gone, OPTIONS).err().unwrap();
    assert!(error.to_string().contains("GLGEN_RSTAT is still 0xffffffff"), "{error}");
}

struct Nothing;
impl hal::hosted::Registers for Nothing {
    fn read(&mut self, _offset: u32, _data: &mut [u8]) {}
    fn write(&mut self, _offset: u32, _value: u32) {}
}

/// A queue that does not come on gives its buffers back and names its register.
#[test]
fn a_queue_that_does_not_start_is_named_and_keeps_nothing() {
    let port = TestPort::new();
    let mut driver = port.bring_up(OPTIONS).unwrap();
    let layout = BufferLayout::DEFAULT;
    let memory = port.machine.dma_alloc(layout.bytes(200), 4096).unwrap();
    let mut pool = Pool::new(memory.clone(), layout);
    let setup = QueueSetup { descriptors: 64, memory, layout, isa: Isa::best() };
    // QRX_ENA(0) reads as if nothing had been asked for.
    port.card().faults().registers.push((0x12_0000, 0));
    let error = driver.start_rx(0, &setup, &mut pool).err().unwrap();
    assert_eq!(error.to_string(), "queue enable: QRX_ENA is still 0x0 after 1000 ms");
    assert_eq!(pool.available(), 200);
}

#[test]
fn setups_that_make_no_sense_are_refused() {
    let port = TestPort::new();
    let mut driver = port.bring_up(OPTIONS).unwrap();
    let layout = BufferLayout::DEFAULT;
    let memory = port.machine.dma_alloc(layout.bytes(200), 4096).unwrap();
    let mut pool = Pool::new(memory.clone(), layout);
    let good = QueueSetup { descriptors: 64, memory, layout, isa: Isa::best() };
    for descriptors in [0, 32, 65, 8192] {
        let setup = QueueSetup { descriptors, ..good.clone() };
        assert!(matches!(driver.start_tx(0, &setup), Err(Error::Request { .. })), "{descriptors}");
    }
    for room in [0, 1024, 2000, 16384] {
        let setup = QueueSetup { layout: BufferLayout { room, ..layout }, ..good.clone() };
        assert!(matches!(driver.start_rx(0, &setup, &mut pool), Err(Error::Request { .. })), "{room}");
    }
    assert!(matches!(driver.start_tx(64, &good), Err(Error::Request { .. })));
    assert_eq!(pool.available(), 200);
}

/// Frames for which no transmit descriptor is free are dropped under their name; frames sent and dropped add up.
#[test]
fn a_full_transmit_ring_drops_under_its_name() {
    let mut ring = Loop::start(Mode::Io, RxDesc::B32, 512, 64);
    // A card that does not look at its tail: the transmit queue is off behind the driver's back.
    ring.port.card().bar_write(0, 0x10_0000, &[0; 4]);
    let offered: Vec<_> = (0..200).map(|n| frames::numbered(n, 60)).collect();
    assert_eq!(ring.exchange(&offered).len(), 0);
    let stream = &ring.core.streams[0];
    assert_eq!(stream.rx.counters().frames, 200);
    assert_eq!((stream.tx.counters().frames, stream.drops.get(DropReason::TxFull)), (63, 137));
    let (_, unsent) = ring.stop_queues();
    assert_eq!(unsent.frames, 63);
}
