//! Between control and a queue: a connection's ring comes to the core that polls it, and goes, without a lock on the way of
//! packets.
//!
//! Control writes, the queue looks at one word a poll. It keeps what it was given until it looks again, so memory of a
//! connection that is over stays mapped until then.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use hal::{DmaMemory, Line};
use spin::Mutex;

use super::ring::Ring;

/// Wakes a peer that sleeps on a ring.
pub type Kick = Arc<dyn Fn() + Send + Sync>;

/// What a queue needs of a connection.
pub struct Attachment {
    /// Its ring.
    pub ring: Ring,
    /// Whose buffers its descriptors speak of.
    pub side: Side,
    /// Wakes the peer.
    pub kick: Option<Kick>,
    /// This side sleeps when there is nothing, and wants to be woken.
    pub interrupts: bool,
}

/// Which end of the ring this is.
pub enum Side {
    /// The client: memory is ours.
    Client(Slots),
    /// The server: memory is the peer's, and it writes descriptors that point anywhere. Regions by their index.
    Server(Arc<[DmaMemory]>),
}

/// A client's buffers of one ring.
#[derive(Clone)]
pub enum Slots {
    /// A buffer for each descriptor.
    Own {
        /// The region.
        region: DmaMemory,
        /// Where the first one lies.
        first: u32,
        /// From one to the next.
        stride: u32,
        /// Bytes of each.
        len: u32,
    },
    /// Zero-copy: those of the core, whose packet memory lies in the region.
    Pool {
        /// Where the packet memory begins in the region.
        offset: u32,
    },
}

/// What a queue found wrong with what its peer wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Fault {
    /// The peer's index says that there are more descriptors than the ring has.
    Index = 1,
}

impl Fault {
    /// In words for the peer.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Index => "ring index is out of range",
        }
    }
}

/// One queue's end of it, and control's.
#[derive(Default)]
pub struct Plug {
    /// Counts what control has done.
    changes: Line<AtomicU32>,
    attachment: Mutex<Option<Attachment>>,
    /// A [`Fault`] of the last attachment, or 0.
    fault: AtomicU8,
}

impl Plug {
    /// Gives the queue a ring. A fault of the one before is forgotten.
    pub fn attach(&self, attachment: Attachment) {
        let mut place = self.attachment.lock();
        *place = Some(attachment);
        self.fault.store(0, Ordering::Relaxed);
        self.changes.0.fetch_add(1, Ordering::Release);
    }

    /// Takes the ring from the queue.
    pub fn detach(&self) {
        *self.attachment.lock() = None;
        self.changes.0.fetch_add(1, Ordering::Release);
    }

    /// What the queue found wrong.
    pub fn fault(&self) -> Option<Fault> {
        (self.fault.load(Ordering::Relaxed) == Fault::Index as u8).then_some(Fault::Index)
    }

    /// The queue has found something wrong.
    #[cold]
    pub fn report(&self, fault: Fault) {
        self.fault.store(fault as u8, Ordering::Relaxed);
    }

    /// The number of changes; other than `seen` when there is something to [`take`](Plug::take).
    #[inline]
    pub fn changes(&self) -> u32 {
        self.changes.0.load(Ordering::Relaxed)
    }

    /// What has come since, and the number of changes up to it. `None` means that there is no connection.
    #[cold]
    pub fn take(&self) -> (u32, Option<Attachment>) {
        let mut place = self.attachment.lock();
        (self.changes.0.load(Ordering::Acquire), place.take())
    }
}
