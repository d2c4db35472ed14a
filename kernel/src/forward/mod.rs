//! Forwarding modes: what happens to a burst between receive and transmit. Names and behaviour are testpmd's.

use hal::DmaMemory;
use hal::simd::Isa;

use crate::burst::Burst;
use crate::drops::DropReason;
use crate::pool::Buffers;
use crate::port::{MacAddr, Touch};

pub mod five_tuple;
pub mod scalar;
pub mod txonly;
pub mod vector;

pub use txonly::TxOnly;

/// The modes of this image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Sends frames as they came.
    #[default]
    Io,
    /// Writes the sending port's address as source and its peer's as destination.
    Mac,
    /// Exchanges source and destination address.
    MacSwap,
    /// Exchanges source and destination of Ethernet, IP, and UDP or TCP.
    FiveTupleSwap,
    /// As `io`: sent buffers always go straight back to the receive ring.
    RecycleMbufs,
    /// Receives and drops.
    RxOnly,
    /// Makes frames and sends them, receives nothing.
    TxOnly,
}

impl Mode {
    /// All modes, in the order in which they are listed.
    pub const ALL: [Self; 7] = [
        Self::Io,
        Self::Mac,
        Self::MacSwap,
        Self::FiveTupleSwap,
        Self::RecycleMbufs,
        Self::RxOnly,
        Self::TxOnly,
    ];

    /// Their names, as an error tells them.
    pub const NAMES: &'static str = "io, mac, macswap, 5tswap, recycle_mbufs, rxonly or txonly";

    /// testpmd's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Io => "io",
            Self::Mac => "mac",
            Self::MacSwap => "macswap",
            Self::FiveTupleSwap => "5tswap",
            Self::RecycleMbufs => "recycle_mbufs",
            Self::RxOnly => "rxonly",
            Self::TxOnly => "txonly",
        }
    }

    /// The mode of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

/// What becomes of a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is sent.
    Send,
    /// All of its frames are dropped for this reason.
    Drop(DropReason),
}

/// Addresses for the port that sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Route {
    /// The port's own.
    pub mac: MacAddr,
    /// Whoever is at the other end of its cable (`--eth-peer`).
    pub peer: MacAddr,
}

/// A forwarding mode; one core runs it.
///
/// Packet memory is reached through `memory` by the offsets in the burst. Lengths in metadata are the
/// device's; lengths in packets are nobody's.
pub trait ForwardMode {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Makes frames of its own instead of receiving any.
    fn generates(&self) -> bool {
        false
    }

    /// What the mode does to a frame, if it does the same to each and nothing else: then it may be done on the way from
    /// a receive to a transmit queue, without [`ForwardMode::forward`].
    fn touch(&self) -> Option<Touch> {
        None
    }

    /// Changes the frames of `burst` in place.
    fn forward(&mut self, memory: &DmaMemory, route: &Route, burst: &mut Burst) -> Verdict;

    /// Adds up to `limit` frames to the empty `burst`, in buffers from `buffers`.
    fn generate(
        &mut self,
        memory: &DmaMemory,
        route: &Route,
        buffers: &mut dyn Buffers,
        burst: &mut Burst,
        limit: usize,
    ) {
        let _ = (memory, route, buffers, burst, limit);
    }
}

/// The built-in modes.
pub struct Forwarder {
    mode: Mode,
    isa: Isa,
    txonly: TxOnly,
}

impl Forwarder {
    /// `mode` with the best loops; `txonly` frames have `txpkts` bytes.
    pub fn new(mode: Mode, txpkts: u16, isa: Isa) -> Self {
        Self { mode, isa, txonly: TxOnly::new(txpkts) }
    }
}

impl ForwardMode for Forwarder {
    fn name(&self) -> &'static str {
        self.mode.name()
    }

    fn generates(&self) -> bool {
        self.mode == Mode::TxOnly
    }

    fn touch(&self) -> Option<Touch> {
        match self.mode {
            Mode::Io | Mode::RecycleMbufs => Some(Touch::Nothing),
            Mode::MacSwap => Some(Touch::SwapAddresses),
            _ => None,
        }
    }

    fn forward(&mut self, memory: &DmaMemory, route: &Route, burst: &mut Burst) -> Verdict {
        match self.mode {
            Mode::Io | Mode::RecycleMbufs | Mode::TxOnly => {}
            Mode::Mac => vector::mac(self.isa, memory, route, burst),
            Mode::MacSwap => vector::macswap(self.isa, memory, burst),
            Mode::FiveTupleSwap => five_tuple::swap(self.isa, memory, burst),
            Mode::RxOnly => return Verdict::Drop(DropReason::RxOnly),
        }
        Verdict::Send
    }

    fn generate(
        &mut self,
        memory: &DmaMemory,
        route: &Route,
        buffers: &mut dyn Buffers,
        burst: &mut Burst,
        limit: usize,
    ) {
        self.txonly.generate(memory, route, buffers, burst, limit);
    }
}
