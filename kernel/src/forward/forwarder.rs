//! The built-in modes behind one type; a core asks once a burst which it is.

use alloc::boxed::Box;
use alloc::vec::Vec;

use hal::DmaMemory;
use hal::clock::time_stamp_counter;
use hal::simd::Isa;

use super::csum::Csum;
use super::flowgen::FlowGen;
use super::ieee1588::{Event, Ieee1588};
use super::noisy::Noisy;
use super::{
    ForwardMode, Input, Mode, ModeOptions, Route, TxOnly, Verdict, Work, five_tuple, icmp_echo, vector,
};
use crate::burst::Burst;
use crate::drops::DropReason;
use crate::port::Touch;
use crate::port::time_stamp::TimeStamper;

/// One of the built-in modes.
pub struct Forwarder {
    mode: Mode,
    isa: Isa,
    state: State,
}

/// What a mode remembers from burst to burst.
enum State {
    Nothing,
    TxOnly(TxOnly),
    FlowGen(FlowGen),
    Csum(Csum),
    Noisy(Noisy),
    Ieee1588(Clocks),
}

/// What is called with what `ieee1588` tells of a frame, and the port that received it.
pub type TellTime = fn(usize, Event);

/// `ieee1588` of a core: the clock of each stream's port.
struct Clocks {
    ticks_per_second: u64,
    streams: Vec<Option<Clock>>,
}

struct Clock {
    port: usize,
    mode: Ieee1588,
    stamper: Box<dyn TimeStamper + Send>,
    tell: TellTime,
}

/// What the modes of one core are made with.
#[derive(Debug, Clone, Default)]
pub struct CoreShare {
    /// The core's number, by which the flows of `txonly` tell cores apart.
    pub core: u8,
    /// For `noisy`'s queues, memory of [`noisy::Options::fifo_bytes`](super::noisy::Options::fifo_bytes) for each of the
    /// core's streams; none where it has no queues.
    pub fifos: alloc::vec::Vec<DmaMemory>,
    /// Memory of [`noisy::Options::memory_bytes`](super::noisy::Options::memory_bytes) for `noisy`'s accesses.
    pub noisy_memory: Option<DmaMemory>,
    /// Of the time stamp counter.
    pub ticks_per_second: u64,
}

impl Forwarder {
    /// `mode` with the best loops of `isa`, for a core.
    pub fn new(mode: Mode, options: &ModeOptions, isa: Isa, share: CoreShare) -> Self {
        let state = match mode {
            Mode::TxOnly => State::TxOnly(TxOnly::new(options, share.core)),
            Mode::FlowGen => State::FlowGen(FlowGen::new(options)),
            Mode::Csum => State::Csum(Csum::new(options, &share)),
            Mode::Noisy => State::Noisy(Noisy::new(&options.noisy, share)),
            Mode::Ieee1588 => {
                State::Ieee1588(Clocks { ticks_per_second: share.ticks_per_second, streams: Vec::new() })
            }
            _ => State::Nothing,
        };
        Self { mode, isa, state }
    }

    /// `mode` as nothing else is said.
    pub fn plain(mode: Mode, isa: Isa) -> Self {
        Self::new(mode, &ModeOptions::default(), isa, CoreShare::default())
    }
}

impl Forwarder {
    /// Frames' times are told: streams need the clocks of the ports that receive, by [`Forwarder::give_clock`].
    pub const fn wants_clocks(&self) -> bool {
        matches!(self.state, State::Ieee1588(_))
    }

    /// Starts the clock of `port`, which stream `stream` receives from.
    pub fn give_clock(
        &mut self,
        stream: usize,
        port: usize,
        mut stamper: Box<dyn TimeStamper + Send>,
        tell: TellTime,
    ) {
        if let State::Ieee1588(clocks) = &mut self.state {
            stamper.enable();
            let mode = Ieee1588::new(clocks.ticks_per_second);
            while clocks.streams.len() <= stream {
                clocks.streams.push(None);
            }
            if let Some(place) = clocks.streams.get_mut(stream) {
                *place = Some(Clock { port, mode, stamper, tell });
            }
        }
    }
}

impl Clocks {
    fn forward(&mut self, work: &mut Work<'_>, burst: &mut Burst) -> Verdict {
        let Some(Some(Clock { port, mode, stamper, tell })) = self.streams.get_mut(work.stream) else {
            return Verdict::Drop(DropReason::NoPtp);
        };
        if !burst.is_empty() || mode.awaits() {
            mode.forward(work, burst, stamper, time_stamp_counter, |event| tell(*port, event));
        }
        Verdict::Send
    }
}

/// The header work of a mode that changes each frame and sends it; other modes change nothing.
pub(super) fn change_headers(mode: Mode, isa: Isa, work: &Work<'_>, burst: &Burst) {
    match mode {
        Mode::Mac => vector::mac(isa, work.memory, work.route, burst),
        Mode::MacSwap => vector::macswap(isa, work.memory, burst),
        Mode::FiveTupleSwap => five_tuple::swap(isa, work.memory, burst),
        _ => {}
    }
}

impl ForwardMode for Forwarder {
    fn name(&self) -> &'static str {
        self.mode.name()
    }

    fn input(&self) -> Input {
        match self.mode {
            Mode::TxOnly => Input::Nothing,
            Mode::FlowGen | Mode::Noisy | Mode::Ieee1588 => Input::Polls,
            _ => Input::Frames,
        }
    }

    fn touch(&self, route: &Route) -> Option<Touch> {
        match self.mode {
            Mode::Mac => Some(Touch::WriteAddresses(route.addresses())),
            Mode::Io | Mode::RecycleMbufs => Some(Touch::Nothing),
            Mode::MacSwap => Some(Touch::SwapAddresses),
            _ => None,
        }
    }

    fn forward(&mut self, work: &mut Work<'_>, burst: &mut Burst) -> Verdict {
        match (self.mode, &mut self.state) {
            (_, State::TxOnly(txonly)) => return txonly.make(work, burst),
            (_, State::FlowGen(flowgen)) => return flowgen.make(work, burst),
            (_, State::Noisy(noisy)) => return noisy.forward(self.isa, work, burst),
            (_, State::Ieee1588(clocks)) => return clocks.forward(work, burst),
            (_, State::Csum(csum)) => return csum.forward(self.isa, work, burst),
            (Mode::IcmpEcho, _) => icmp_echo::reply(work, burst),
            (Mode::RxOnly, _) => return Verdict::Drop(DropReason::RxOnly),
            (Mode::SharedRxq, _) => return Verdict::Drop(DropReason::SharedRxq),
            (mode, State::Nothing) => change_headers(mode, self.isa, work, burst),
        }
        Verdict::Send
    }

    fn unsent(&mut self, frames: usize) {
        match &mut self.state {
            State::TxOnly(txonly) => txonly.unsent(frames),
            State::FlowGen(flowgen) => flowgen.unsent(frames),
            _ => {}
        }
    }

    fn finish(&mut self) {
        match &mut self.state {
            State::TxOnly(txonly) => txonly.finish(),
            State::FlowGen(flowgen) => flowgen.finish(),
            State::Noisy(noisy) => noisy.finish(),
            State::Ieee1588(clocks) => {
                clocks.streams.iter_mut().flatten().for_each(|clock| clock.stamper.disable());
            }
            _ => {}
        }
    }
}
