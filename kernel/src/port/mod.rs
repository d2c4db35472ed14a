//! What a port is to the rest: two queues for the data path, and control apart from it.

use core::fmt;

use hal::DmaMemory;
use hal::simd::{Isa, Level};

use crate::burst::Burst;
use crate::drops::Drops;
use crate::pool::{BLOCK, BufferLayout, Buffers, Pool};

#[cfg(any(test, feature = "fake"))]
pub mod fake;
pub mod time_stamp;

/// Frames and bytes that went through a queue. Bytes are without FCS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// Whole frames.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The receive side of a queue pair; one core polls it.
pub trait RxQueue {
    /// Appends up to `limit` whole frames to `burst`, in the order of arrival, and arms the ring again with
    /// buffers from `buffers`, whether or not anything came. Returns the number of frames.
    ///
    /// A frame whose last buffer has not arrived yet, or that does not fit into the burst, stays for the next
    /// call. A frame that is dropped here is counted in [`RxQueue::drops`] and its buffers are given back.
    fn rx_burst(&mut self, buffers: &mut impl Buffers, burst: &mut Burst, limit: usize) -> usize;

    /// Receives up to `limit` frames and hands them to `tx` without a burst in between: as
    /// [`rx_burst`](RxQueue::rx_burst) with buffers that `tx` has sent, or else from `pool`, then `touch` on each
    /// frame, then [`tx_burst`](TxQueue::tx_burst). Stops at the first frame with which that can't be done, and at one
    /// for which `tx` has no room; such a frame stays. `None` when this queue can't do so with that one, and then
    /// nothing has been done.
    fn relay<T: TxQueue + 'static>(
        &mut self,
        tx: &mut T,
        pool: &mut Pool,
        touch: Touch,
        limit: usize,
    ) -> Option<Relayed> {
        let _ = (tx, pool, touch, limit);
        None
    }

    /// What came in and was handed out or dropped by this queue.
    fn counters(&self) -> QueueCounters;

    /// What this queue dropped.
    fn drops(&self) -> &Drops;
}

/// What is done to each frame of a [`RxQueue::relay`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    /// Nothing, as `io` does.
    Nothing,
    /// Destination and source are exchanged, as `macswap` does.
    SwapAddresses,
    /// The first twelve of these bytes become destination and source, as `mac` does.
    WriteAddresses([u8; 16]),
}

/// What a [`RxQueue::relay`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Relayed {
    /// Frames that were received and sent.
    pub frames: usize,
    /// A frame has arrived that was not relayed.
    pub more: bool,
}

impl Relayed {
    /// Nothing was done, and somebody else has to look.
    pub const NOTHING: Self = Self { frames: 0, more: true };
}

/// The transmit side of a queue pair; one core polls it.
pub trait TxQueue {
    /// Hands the frames at the front of `burst` to the device: whole frames, in order, one doorbell. Returns the
    /// number of frames taken; those that did not fit stay in `burst`.
    ///
    /// A frame that this device must not be given is dropped: counted in [`TxQueue::drops`], its buffers given
    /// back. Buffers that have been sent may be given back here, too.
    fn tx_burst(&mut self, buffers: &mut impl Buffers, burst: &mut Burst) -> usize;

    /// A block of buffers that have been sent, if one is complete. This is the usual way of a buffer: from here
    /// straight into the receive ring of the same core.
    fn take_sent(&mut self, block: &mut [u32; BLOCK]) -> bool;

    /// Frames given to the device.
    fn counters(&self) -> QueueCounters;

    /// What this queue dropped.
    fn drops(&self) -> &Drops;
}

/// Buffers for a receive ring: first what the transmit ring has sent, then the pool.
pub struct Recycle<'a, T, P> {
    /// The transmit queue to which the received frames go.
    pub sent: &'a mut T,
    /// The core's pool.
    pub pool: &'a mut P,
}

impl<T: TxQueue, P: Buffers> Buffers for Recycle<'_, T, P> {
    #[inline]
    fn take(&mut self) -> Option<u32> {
        self.pool.take()
    }
    #[inline]
    fn take_block(&mut self, block: &mut [u32; BLOCK]) -> bool {
        self.sent.take_sent(block) || self.pool.take_block(block)
    }
    #[inline]
    fn take_many(&mut self, to: &mut [u32]) -> usize {
        self.pool.take_many(to)
    }
    #[inline]
    fn give(&mut self, buffers: &[u32]) {
        self.pool.give(buffers);
    }
}

/// An Ethernet address.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// From `aa:bb:cc:dd:ee:ff`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let digits = |part: &&str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
            let part = parts.next().filter(|part| (1..=2).contains(&part.len())).filter(digits)?;
            *byte = u8::from_str_radix(part, 16).ok()?;
        }
        parts.next().is_none().then_some(Self(bytes))
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// State of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Link {
    /// A frame can cross it.
    pub up: bool,
    /// Mbit a second; 0 when it is down.
    pub speed: u32,
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "link={} speed={}", if self.up { "up" } else { "down" }, self.speed)
    }
}

/// What a device counted on its own, without FCS in the bytes; each counts from the start of the port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Good frames from the wire that there was a receive descriptor for.
    pub rx_frames: u64,
    /// Their bytes; with some devices also those of frames that were missed.
    pub rx_bytes: u64,
    /// Frames for which there was no receive descriptor.
    pub rx_missed: u64,
    /// Frames with a bad FCS, illegal bytes, a wrong length.
    pub rx_errors: u64,
    /// Frames on the wire.
    pub tx_frames: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Frames that the link did not take.
    pub tx_errors: u64,
}

/// Queue sizes and what packets look like in memory.
#[derive(Debug, Clone)]
pub struct QueueSetup {
    /// Descriptors in the ring.
    pub descriptors: u16,
    /// Memory that the core's buffers lie in.
    pub memory: DmaMemory,
    /// How it is cut.
    pub layout: BufferLayout,
    /// The best loops that the queue may run. Whether it does is told by its [`Path`].
    pub isa: Isa,
}

/// Which loop a queue runs, and why no faster one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Path {
    /// Its instruction set.
    pub level: Level,
    /// What else tells it from others, such as the width of the descriptors; may be empty.
    pub kind: &'static str,
    /// Why the queue runs no faster loop than this; `None` when [`QueueSetup::isa`] allowed no faster one.
    pub reason: Option<&'static str>,
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.level.name())?;
        if self.kind.is_empty() { Ok(()) } else { write!(f, " {}", self.kind) }
    }
}

/// Bring-up, link and statistics of a port; never called from the data path.
pub trait PortControl {
    /// Its receive queues.
    type Rx: RxQueue;
    /// Its transmit queues.
    type Tx: TxQueue;
    /// An error that names the step and the value.
    type Error: core::error::Error;

    /// The port's own address.
    fn mac(&self) -> MacAddr;

    /// Makes receive queue `queue` ready and starts it, with buffers from `buffers`.
    ///
    /// # Errors
    /// The step that failed; then every buffer is back.
    fn start_rx(
        &mut self,
        queue: u16,
        setup: &QueueSetup,
        buffers: &mut impl Buffers,
    ) -> Result<Self::Rx, Self::Error>;

    /// Makes transmit queue `queue` ready and starts it.
    ///
    /// # Errors
    /// The step that failed.
    fn start_tx(&mut self, queue: u16, setup: &QueueSetup) -> Result<Self::Tx, Self::Error>;

    /// Stops a receive queue and gives every buffer back. Returns frames that had arrived and were not handed
    /// out: the caller counts them as received and as dropped under
    /// [`DropReason::RxStopped`](crate::DropReason::RxStopped).
    ///
    /// # Errors
    /// The step that failed. The buffers of a queue that the device did not give up are not given back.
    fn stop_rx(&mut self, rx: Self::Rx, buffers: &mut impl Buffers) -> Result<QueueCounters, Self::Error>;

    /// Lets the device send what it has, within a bound, stops the queue and gives every buffer back. Returns what
    /// was taken from a burst, and so counted as sent, but did not leave: the caller takes it off the frames
    /// sent and counts it under [`DropReason::TxStopped`](crate::DropReason::TxStopped).
    ///
    /// # Errors
    /// As for [`PortControl::stop_rx`].
    fn stop_tx(&mut self, tx: Self::Tx, buffers: &mut impl Buffers) -> Result<QueueCounters, Self::Error>;

    /// All frames, or only those for this port.
    ///
    /// # Errors
    /// The step that failed.
    fn set_promiscuous(&mut self, on: bool) -> Result<(), Self::Error>;

    /// The link now.
    ///
    /// # Errors
    /// The step that failed.
    fn link(&mut self) -> Result<Link, Self::Error>;

    /// What the device counted.
    fn stats(&mut self) -> PortStats;
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        let mac = MacAddr::parse("02:00:00:0a:ff:1").unwrap();
        assert_eq!(mac, MacAddr([2, 0, 0, 10, 255, 1]));
        assert_eq!(mac.to_string(), "02:00:00:0a:ff:01");
        for wrong in [
            "",
            "02:00:00:0a:ff",
            "02:00:00:0a:ff:01:02",
            "02:00:00:0a:ff:100",
            "x2:0:0:0:0:0",
            "+1:+2:+3:+4:+5:+6",
            ":::::",
        ] {
            assert_eq!(MacAddr::parse(wrong), None, "{wrong}");
        }
    }
}
