//! A receive queue: which width its descriptors have and which loop it runs was chosen when it was started.

use core::any::Any;

use hal::simd::{Isa, Level};
use hal::{Bar, DescRing, Doorbell};
use kernel::port::{Path, QueueCounters, QueueSetup, Relayed, Touch};
use kernel::{Buffers, Burst, Drops, Pool, RxQueue, TxQueue};

use super::descriptor::Descriptor;
use super::rx_ring::Ring;
use super::tx::Tx;
use super::vector::{Loops, avx2, avx512, sse};

/// A receive queue.
pub struct Rx<B> {
    index: usize,
    loops: Loops,
    ring: Width<B>,
}

enum Width<B> {
    Narrow(Ring<B, 2>),
    Wide(Ring<B, 4>),
}

impl<B: Bar> Rx<B> {
    /// Queue `index` with descriptors of 16 bytes, on a ring whose device's tail register is `tail`. A port makes it with
    /// [`start_rx`](kernel::port::PortControl::start_rx); on its own it serves whoever plays the card himself.
    pub fn narrow(index: usize, descriptors: DescRing<2>, tail: Doorbell<B>, setup: &QueueSetup) -> Self {
        let ring = Width::Narrow(Ring::new(descriptors, tail, setup));
        Self { index, loops: Loops::choose(setup), ring }
    }

    /// As [`Rx::narrow`], with descriptors of 32 bytes.
    pub fn wide(index: usize, descriptors: DescRing<4>, tail: Doorbell<B>, setup: &QueueSetup) -> Self {
        let ring = Width::Wide(Ring::new(descriptors, tail, setup));
        Self { index, loops: Loops::choose(setup), ring }
    }

    /// The card may strip two tags from what arrives here; of no effect with descriptors of 16 bytes.
    pub(super) fn expect_second_tag(&mut self, second_tag: bool) {
        if let Width::Wide(ring) = &mut self.ring {
            ring.second_tag = second_tag;
        }
    }

    /// Its number within the port.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The descriptor that holds up those behind it, which are done.
    pub(super) fn hole(&self) -> Option<usize> {
        match &self.ring {
            Width::Narrow(ring) => ring.hole(),
            Width::Wide(ring) => ring.hole(),
        }
    }

    /// Arms the ring for the first time: the port does so before it starts the queue.
    pub fn arm(&mut self, buffers: &mut impl Buffers) {
        match &mut self.ring {
            Width::Narrow(ring) => ring.arm(buffers),
            Width::Wide(ring) => ring.arm(buffers),
        }
    }

    pub(super) fn release(self, buffers: &mut impl Buffers) -> QueueCounters {
        match self.ring {
            Width::Narrow(ring) => ring.release(buffers),
            Width::Wide(ring) => ring.release(buffers),
        }
    }

    /// The descriptor at `index`; `None` behind the end of the ring.
    pub fn descriptor(&self, index: usize) -> Option<Descriptor> {
        match &self.ring {
            Width::Narrow(ring) => (index < ring.count).then(|| ring.descriptor(index)),
            Width::Wide(ring) => (index < ring.count).then(|| ring.descriptor(index)),
        }
    }

    /// Which loop the queue runs, and why no faster one.
    pub fn path(&self) -> Path {
        let (kind, second_tag) = match &self.ring {
            Width::Narrow(_) => ("16B", false),
            Width::Wide(ring) => ("32B", ring.second_tag),
        };
        if second_tag && self.loops.isa != Isa::Scalar {
            return Path { level: Level::Scalar, kind, reason: Some("two tags are stripped") };
        }
        self.loops.path(kind)
    }
}

impl<B: Bar> RxQueue for Rx<B> {
    fn rx_burst(&mut self, buffers: &mut impl Buffers, burst: &mut Burst, limit: usize) -> usize {
        match &mut self.ring {
            Width::Narrow(ring) => receive(self.loops.isa, ring, buffers, burst, limit),
            Width::Wide(ring) => receive(self.loops.isa, ring, buffers, burst, limit),
        }
    }

    fn relay<T: TxQueue + 'static>(
        &mut self,
        tx: &mut T,
        pool: &mut Pool,
        touch: Touch,
        limit: usize,
    ) -> Option<Relayed> {
        let tx = (tx as &mut dyn Any).downcast_mut::<Tx<B>>()?;
        match &mut self.ring {
            Width::Narrow(ring) => relay(self.loops.isa, ring, tx, pool, touch, limit),
            Width::Wide(ring) => relay(self.loops.isa, ring, tx, pool, touch, limit),
        }
    }

    fn counters(&self) -> QueueCounters {
        match &self.ring {
            Width::Narrow(ring) => ring.counters,
            Width::Wide(ring) => ring.counters,
        }
    }

    fn drops(&self) -> &Drops {
        match &self.ring {
            Width::Narrow(ring) => &ring.drops,
            Width::Wide(ring) => &ring.drops,
        }
    }
}

#[inline]
#[allow(unsafe_code)]
fn receive<B: Bar, const WORDS: usize>(
    isa: Isa,
    ring: &mut Ring<B, WORDS>,
    buffers: &mut impl Buffers,
    burst: &mut Burst,
    limit: usize,
) -> usize {
    match isa {
        Isa::Scalar => ring.receive(buffers, burst, limit),
        // SAFETY: the token proves that the CPU has the instructions of the loop.
        Isa::Ssse3(token) => unsafe { sse::receive(token, ring, buffers, burst, limit) },
        // SAFETY: as above.
        Isa::Avx2(token) => unsafe { avx2::receive(token, ring, buffers, burst, limit) },
        // SAFETY: as above.
        Isa::Avx512(token) => unsafe { avx512::receive(token, ring, buffers, burst, limit) },
    }
}

#[inline]
#[allow(unsafe_code)]
fn relay<B: Bar, const WORDS: usize>(
    isa: Isa,
    ring: &mut Ring<B, WORDS>,
    tx: &mut Tx<B>,
    pool: &mut Pool,
    touch: Touch,
    limit: usize,
) -> Option<Relayed> {
    match isa {
        Isa::Scalar => None,
        // SAFETY: the token proves that the CPU has the instructions of the loop.
        Isa::Ssse3(token) => Some(unsafe { sse::relay(token, ring, tx, pool, touch, limit) }),
        // SAFETY: as above.
        Isa::Avx2(token) => Some(unsafe { avx2::relay(token, ring, tx, pool, touch, limit) }),
        // SAFETY: as above.
        Isa::Avx512(token) => Some(unsafe { avx512::relay(token, ring, tx, pool, touch, limit) }),
    }
}
