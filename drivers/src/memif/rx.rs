//! A receive queue: takes packets off a ring that a peer fills.

use alloc::sync::Arc;

use hal::DmaMemory;
use hal::simd::Isa;
use kernel::port::{Path, QueueCounters, QueueSetup};
use kernel::{Buffers, Burst, Drops, RxQueue};

use super::copy_rx::CopyRx;
use super::plug::{Attachment, Plug, Side, Slots};
use super::zero_rx::ZeroRx;

/// A receive queue.
pub struct Rx {
    index: usize,
    plug: Arc<Plug>,
    /// Changes of the plug up to now.
    seen: u32,
    end: End,
    ground: Ground,
}

/// What a queue has beside its ring.
pub struct Ground {
    /// The core's packet memory.
    pub(super) memory: DmaMemory,
    /// Bytes that a buffer takes.
    pub(super) room: u32,
    /// The loops that it may run.
    pub(super) isa: Isa,
    /// Frames in one buffer are copied by the fast loop.
    pub(super) fast: bool,
    pub(super) counters: QueueCounters,
    pub(super) drops: Drops,
}

impl Ground {
    pub(super) fn new(setup: &QueueSetup, fast: bool) -> Self {
        let (counters, drops) = Default::default();
        let (memory, room) = (setup.memory.clone(), setup.layout.room);
        Self { memory, room, isa: setup.isa, fast, counters, drops }
    }

    pub(super) fn path(&self, kind: &'static str) -> Path {
        let reason = (!self.fast && self.isa != Isa::Scalar).then_some("the fast path is off");
        let level = if self.fast { self.isa.level() } else { hal::simd::Level::Scalar };
        Path { level, kind, reason }
    }
}

/// The ring of the connection that there is.
enum End {
    /// None.
    Nobody,
    /// Packets are copied.
    Copy(CopyRx),
    /// The peer writes into our buffers.
    Zero(ZeroRx),
}

impl Rx {
    /// Queue `index`, whose rings come by `plug`. `fast` allows the fast path.
    pub fn new(index: usize, plug: Arc<Plug>, setup: &QueueSetup, fast: bool) -> Self {
        // What was attached before is taken at the first poll.
        let seen = 0;
        Self { index, plug, seen, end: End::Nobody, ground: Ground::new(setup, fast) }
    }

    /// Its number within the port.
    pub const fn index(&self) -> usize {
        self.index
    }

    /// Which loop the queue runs.
    pub fn path(&self) -> Path {
        self.ground.path("memif")
    }

    /// Takes what has come by the plug.
    #[cold]
    #[inline(never)]
    fn change(&mut self, buffers: &mut impl Buffers) {
        self.leave(buffers);
        let (seen, attachment) = self.plug.take();
        self.seen = seen;
        let Some(Attachment { ring, side, interrupts, .. }) = attachment else { return };
        ring.mask_interrupts(!interrupts);
        self.end = match side {
            Side::Client(Slots::Pool { offset }) => End::Zero(ZeroRx::new(ring, offset, self.ground.room)),
            side => End::Copy(CopyRx::new(ring, side)),
        };
    }

    /// Gives back what the ring holds.
    fn leave(&mut self, buffers: &mut impl Buffers) {
        if let End::Zero(zero) = &mut self.end {
            zero.leave(buffers);
        }
        self.end = End::Nobody;
    }

    /// Gives every buffer back; returns frames that had arrived and were not handed out.
    pub fn release(mut self, buffers: &mut impl Buffers) -> QueueCounters {
        let left = match &self.end {
            End::Nobody => 0,
            End::Copy(copy) => copy.waiting(),
            End::Zero(zero) => zero.waiting(),
        };
        self.leave(buffers);
        QueueCounters { frames: left, bytes: 0 }
    }

    /// Who sleeps until something comes says so with `true`; packets that came before are not told. Of no effect without a
    /// connection.
    pub fn ask_for_interrupts(&self, on: bool) {
        match &self.end {
            End::Nobody => {}
            End::Copy(copy) => copy.ring().mask_interrupts(!on),
            End::Zero(zero) => zero.ring().mask_interrupts(!on),
        }
        hal::shared::full_fence();
    }
}

impl RxQueue for Rx {
    #[inline]
    fn rx_burst(&mut self, buffers: &mut impl Buffers, burst: &mut Burst, limit: usize) -> usize {
        if self.plug.changes() != self.seen {
            self.change(buffers);
        }
        let Self { plug, ground, .. } = self;
        match &mut self.end {
            End::Nobody => 0,
            End::Copy(copy) => copy.receive(plug, ground, buffers, burst, limit),
            End::Zero(zero) => zero.receive(plug, ground, buffers, burst, limit),
        }
    }

    fn counters(&self) -> QueueCounters {
        self.ground.counters
    }

    fn drops(&self) -> &Drops {
        &self.ground.drops
    }
}
