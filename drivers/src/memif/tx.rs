//! A transmit queue: fills a ring from which a peer takes packets.

use alloc::sync::Arc;

use kernel::port::{Path, QueueCounters, QueueSetup};
use kernel::{BLOCK, Buffers, Burst, DropReason, Drops, TxQueue};

use super::copy_tx::CopyTx;
use super::plug::{Attachment, Kick, Plug, Side, Slots};
use super::ring::Ring;
use super::rx::Ground;
use super::zero_tx::ZeroTx;

/// A transmit queue.
pub struct Tx {
    index: usize,
    plug: Arc<Plug>,
    /// Changes of the plug up to now.
    seen: u32,
    end: End,
    kick: Option<Kick>,
    ground: Ground,
}

/// The ring of the connection that there is.
enum End {
    /// None.
    Nobody,
    /// Packets are copied.
    Copy(CopyTx),
    /// The peer reads our buffers.
    Zero(ZeroTx),
}

impl Tx {
    /// Queue `index`, whose rings come by `plug`. `fast` allows the fast path.
    pub fn new(index: usize, plug: Arc<Plug>, setup: &QueueSetup, fast: bool) -> Self {
        Self { index, plug, seen: 0, end: End::Nobody, kick: None, ground: Ground::new(setup, fast) }
    }

    /// Its number within the port.
    pub const fn index(&self) -> usize {
        self.index
    }

    /// Which loop the queue runs.
    pub fn path(&self) -> Path {
        self.ground.path("memif")
    }

    #[cold]
    #[inline(never)]
    fn change(&mut self, buffers: &mut impl Buffers) {
        self.leave(buffers);
        let (seen, attachment) = self.plug.take();
        self.seen = seen;
        let Some(Attachment { ring, side, kick, .. }) = attachment else { return };
        self.kick = kick;
        self.end = match side {
            Side::Client(Slots::Pool { offset }) => End::Zero(ZeroTx::new(ring, offset)),
            side => End::Copy(CopyTx::new(ring, side)),
        };
    }

    /// Gives back what the ring holds. The peer does not use it any more.
    fn leave(&mut self, buffers: &mut impl Buffers) {
        if let End::Zero(zero) = &mut self.end {
            zero.leave(buffers);
        }
        (self.end, self.kick) = (End::Nobody, None);
    }

    /// Gives every buffer back.
    pub fn release(mut self, buffers: &mut impl Buffers) {
        self.leave(buffers);
    }

    /// Packets that the peer has not taken yet, of those whose buffers it reads; 0 where they were copied.
    pub fn on_their_way(&self) -> u16 {
        match &self.end {
            End::Zero(zero) => zero.on_their_way(),
            _ => 0,
        }
    }

    /// Wakes the peer if it sleeps.
    #[inline]
    fn wake(ring: &Ring, kick: Option<&Kick>) {
        hal::shared::full_fence();
        if ring.wants_interrupts()
            && let Some(kick) = kick
        {
            kick();
        }
    }
}

impl TxQueue for Tx {
    #[inline]
    fn tx_burst(&mut self, buffers: &mut impl Buffers, burst: &mut Burst) -> usize {
        if self.plug.changes() != self.seen {
            self.change(buffers);
        }
        let Self { plug, ground, kick, .. } = self;
        let (frames, ring) = match &mut self.end {
            End::Nobody => {
                if !burst.is_empty() {
                    ground.drops.add(DropReason::TxLinkDown, burst.give_back(buffers) as u64);
                }
                return 0;
            }
            End::Copy(copy) => (copy.send(plug, ground, buffers, burst), copy.ring()),
            End::Zero(zero) => (zero.send(plug, ground, buffers, burst), zero.ring()),
        };
        if frames > 0 {
            Self::wake(ring, kick.as_ref());
        }
        frames
    }

    #[inline]
    fn take_sent(&mut self, block: &mut [u32; BLOCK]) -> bool {
        match &mut self.end {
            End::Zero(zero) => zero.take_sent(&self.plug, block),
            _ => false,
        }
    }

    fn counters(&self) -> QueueCounters {
        self.ground.counters
    }

    fn drops(&self) -> &Drops {
        &self.ground.drops
    }
}
