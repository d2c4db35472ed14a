//! Two kinds of port that do nothing but tell of which kind they are.

use core::any::Any;
use core::convert::Infallible;
use std::string::ToString;

use hal::hosted::{FakeBar, HostedMachine};
use hal::simd::{Isa, Level};
use hal::{DmaError, DmaMemory, Machine};
use kernel::port::{Path, PortControl, PortStats, QueueCounters, QueueSetup, Relayed, Touch};
use kernel::{BLOCK, BufferLayout, Buffers, Burst, Drops, Link, MacAddr, Pool, RxQueue, TxQueue};

use crate::port::{ImagePort, ImageQueue};

/// A port whose MAC address ends with its kind.
pub struct Plain<const KIND: u8>;

/// A queue of it, of either direction.
pub struct Line<const KIND: u8>(Drops);

impl<const KIND: u8> RxQueue for Line<KIND> {
    fn rx_burst(&mut self, _: &mut impl Buffers, _: &mut Burst, _: usize) -> usize {
        usize::from(KIND)
    }
    fn relay<T: TxQueue + 'static>(
        &mut self,
        tx: &mut T,
        _: &mut Pool,
        _: Touch,
        _: usize,
    ) -> Option<Relayed> {
        let _: &mut Self = (tx as &mut dyn Any).downcast_mut()?;
        Some(Relayed { frames: usize::from(KIND), more: false })
    }
    fn counters(&self) -> QueueCounters {
        QueueCounters { frames: KIND.into(), bytes: 0 }
    }
    fn drops(&self) -> &Drops {
        &self.0
    }
}

impl<const KIND: u8> TxQueue for Line<KIND> {
    fn tx_burst(&mut self, _: &mut impl Buffers, _: &mut Burst) -> usize {
        usize::from(KIND)
    }
    fn take_sent(&mut self, _: &mut [u32; BLOCK]) -> bool {
        KIND == 2
    }
    fn counters(&self) -> QueueCounters {
        QueueCounters { frames: 0, bytes: KIND.into() }
    }
    fn drops(&self) -> &Drops {
        &self.0
    }
}

impl<const KIND: u8> ImageQueue for Line<KIND> {
    fn index(&self) -> usize {
        usize::from(KIND)
    }
    fn path(&self) -> Path {
        Path { level: Level::Scalar, kind: "", reason: None }
    }
}

impl<const KIND: u8> PortControl for Plain<KIND> {
    type Rx = Line<KIND>;
    type Tx = Line<KIND>;
    type Error = DmaError;

    fn mac(&self) -> MacAddr {
        MacAddr([2, 0, 0, 0, 0, KIND])
    }
    fn start_rx(&mut self, _: u16, _: &QueueSetup, _: &mut impl Buffers) -> Result<Line<KIND>, DmaError> {
        Ok(Line(Drops::default()))
    }
    fn start_tx(&mut self, _: u16, _: &QueueSetup) -> Result<Line<KIND>, DmaError> {
        Ok(Line(Drops::default()))
    }
    fn stop_rx(&mut self, rx: Line<KIND>, _: &mut impl Buffers) -> Result<QueueCounters, DmaError> {
        Ok(RxQueue::counters(&rx))
    }
    fn stop_tx(&mut self, tx: Line<KIND>, _: &mut impl Buffers) -> Result<QueueCounters, DmaError> {
        Ok(TxQueue::counters(&tx))
    }
    fn set_promiscuous(&mut self, _: bool) -> Result<(), DmaError> {
        Err(DmaError { len: KIND.into() })
    }
    fn link(&mut self) -> Result<Link, DmaError> {
        Ok(Link { up: true, speed: KIND.into() })
    }
    fn stats(&mut self) -> PortStats {
        PortStats { rx_frames: KIND.into(), ..Default::default() }
    }
}

impl<const KIND: u8> ImagePort for Plain<KIND> {
    type Trouble = Infallible;
    type Watch = ();

    fn packet_memory(&mut self, len: usize, _: usize) -> Option<Result<DmaMemory, DmaError>> {
        (KIND == 2).then_some(Err(DmaError { len }))
    }
    fn shut_down(self) -> Result<(), DmaError> {
        Ok(())
    }
}

super::any_port! {
    port Port, rx Rx, tx Tx, error Error, trouble Trouble, watch Watch;
    one: One(Plain<1>),
    two: Two(Plain<2>),
}

fn setup() -> (QueueSetup, Pool) {
    let layout = BufferLayout::DEFAULT;
    let machine = HostedMachine::<FakeBar>::new(1 << 20).unwrap();
    let memory = machine.dma_alloc(layout.bytes(64), 4096).unwrap();
    let setup = QueueSetup { descriptors: 64, memory: memory.clone(), layout, isa: Isa::Scalar };
    (setup, Pool::new(memory, layout))
}

#[test]
fn each_kind_answers_for_itself() {
    let (setup, mut pool) = setup();
    for (kind, mut port) in [(1, Port::One(Plain)), (2, Port::Two(Plain))] {
        assert_eq!(port.mac(), MacAddr([2, 0, 0, 0, 0, kind]));
        assert_eq!(port.link().unwrap().speed, kind.into());
        assert_eq!(port.stats().rx_frames, kind.into());
        let told = port.set_promiscuous(true).unwrap_err().to_string();
        assert_eq!(told, DmaError { len: kind.into() }.to_string());
        assert_eq!(port.packet_memory(77, 1).is_some(), kind == 2);
        let mut tx = port.start_tx(0, &setup).unwrap();
        let rx = port.start_rx(0, &setup, &mut pool).unwrap();
        assert_eq!((rx.index(), tx.take_sent(&mut [0; BLOCK])), (kind.into(), kind == 2));
        let mut watch = Watch::default();
        assert!(port.rx_trouble(&rx, &mut watch).is_none() && port.tx_trouble(&tx, &mut watch).is_none());
        assert_eq!(port.stop_rx(rx, &mut pool).unwrap().frames, kind.into());
        assert_eq!(port.stop_tx(tx, &mut pool).unwrap().bytes, kind.into());
        port.shut_down().unwrap();
    }
}

/// Ring to ring where both are of one kind, and otherwise by a burst.
#[test]
fn relay_reaches_the_queue_inside() {
    let (setup, mut pool) = setup();
    let mut ports = [Port::One(Plain), Port::Two(Plain)];
    for (from, to) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let mut rx = ports[from].start_rx(0, &setup, &mut pool).unwrap();
        let mut tx = ports[to].start_tx(0, &setup).unwrap();
        let relayed = rx.relay(&mut tx, &mut pool, Touch::Nothing, 32);
        assert_eq!(relayed.map(|relayed| relayed.frames), (from == to).then_some(from + 1));
        assert_eq!(rx.rx_burst(&mut pool, &mut Burst::default(), 32), from + 1);
        assert_eq!(tx.tx_burst(&mut pool, &mut Burst::default()), to + 1);
        // A bare queue, which is in no enum.
        let mut bare = Line::<2>(Drops::default());
        assert_eq!(rx.relay(&mut bare, &mut pool, Touch::Nothing, 32).is_some(), from == 1);
    }
}

#[test]
fn queues_of_another_kind_are_refused() {
    let (setup, mut pool) = setup();
    let (mut one, mut two) = (Port::One(Plain), Port::Two(Plain));
    let rx = one.start_rx(0, &setup, &mut pool).unwrap();
    let tx = one.start_tx(0, &setup).unwrap();
    assert!(matches!(two.stop_rx(rx, &mut pool), Err(Error::OtherKind)));
    assert!(matches!(two.stop_tx(tx, &mut pool), Err(Error::OtherKind)));
}
