//! A port that no longer works as it should: noticing it, naming it, and starting again without losing a buffer.
//!
//! | what the card does | what is noticed | what helps |
//! |---|---|---|
//! | an admin command fails with a code | [`Error::Admin`]; EAGAIN and EBUSY are tried again | the command can be given again |
//! | a command is not answered, or PF_ATQH lies | [`Error::Admin`], then [`Trouble::AdminStopped`] | [`I40e::reset`] |
//! | PF_ATQLEN reports a critical error | [`Trouble::AdminCritical`] | [`I40e::reset`] |
//! | a queue does not go on | [`Error::Timeout`] with its register; every buffer is back | start it again, or reset |
//! | a queue does not go off | [`Error::Timeout`]; the queue is parked with its buffers | [`I40e::reset`], then [`I40e::reclaim_rx`] and [`I40e::reclaim_tx`] |
//! | completion marks are late, torn or out of order | nothing: they are waited for, in order | time |
//! | a completion mark never comes | [`Trouble::RxStuck`], [`Trouble::TxStuck`] | stop and start of the queue |
//! | the function or the card is reset | [`Trouble::WasReset`], [`Trouble::CardReset`] | stop of the queues, [`I40e::reset`] |
//! | it stops a queue for an illegal descriptor | [`Trouble::Malicious`], [`Trouble::MaliciousRx`] | stop of the queues, [`I40e::reset`] |
//! | it is gone | [`Trouble::Gone`] | nothing |

use core::fmt;

use hal::{BarAccess, Machine};
use kernel::Buffers;
use kernel::port::QueueCounters;

use super::error::Error;
use super::port::I40e;
use super::regs::{self, AqLen};
use super::rss;
use super::rx::Rx;
use super::tx::Tx;
use super::{link, reset};

/// What is wrong with a port, or with a queue of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// Its registers read as all ones.
    Gone,
    /// The whole card is being reset.
    CardReset {
        /// GLGEN_RSTAT
        status: u32,
    },
    /// The function was reset, and not by this driver: its admin queue is off.
    WasReset {
        /// PF_ATQLEN
        length: u32,
    },
    /// The firmware reports a critical error of the admin queue.
    AdminCritical {
        /// PF_ATQLEN
        length: u32,
    },
    /// A command was not answered as it should, and the admin queue is not used since.
    AdminStopped,
    /// The card has found a descriptor illegal and stopped its transmit queue.
    Malicious {
        /// PF_MDET_TX
        event: u32,
    },
    /// The same of a receive queue.
    MaliciousRx {
        /// PF_MDET_RX
        event: u32,
    },
    /// A receive descriptor is not done, though one behind it is.
    RxStuck {
        /// Its queue.
        queue: usize,
        /// Its place in the ring.
        descriptor: usize,
    },
    /// The card has passed a transmit descriptor and not marked it as done.
    TxStuck {
        /// Its queue.
        queue: usize,
        /// Its place in the ring.
        descriptor: usize,
    },
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => write!(f, "the card is gone, its registers read as all ones"),
            Self::CardReset { status } => write!(f, "the card is being reset, GLGEN_RSTAT is {status:#x}"),
            Self::WasReset { length } => write!(f, "the function was reset, PF_ATQLEN is {length:#x}"),
            Self::AdminCritical { length } => {
                write!(f, "critical error of the admin queue, PF_ATQLEN is {length:#x}")
            }
            Self::AdminStopped => write!(f, "the admin queue is not used since a command went unanswered"),
            Self::Malicious { event } => write!(f, "a transmit queue was stopped, PF_MDET_TX is {event:#x}"),
            Self::MaliciousRx { event } => {
                write!(f, "a receive queue was stopped, PF_MDET_RX is {event:#x}")
            }
            Self::RxStuck { queue, descriptor } => {
                write!(
                    f,
                    "receive queue {queue} is stuck: descriptor {descriptor} is not done, others behind it are"
                )
            }
            Self::TxStuck { queue, descriptor } => {
                write!(f, "transmit queue {queue} is stuck: descriptor {descriptor} was sent and is not done")
            }
        }
    }
}

/// Remembers what a queue looked like, since a mark that is only late is no trouble: looks are to be milliseconds
/// apart.
#[derive(Debug, Clone, Copy, Default)]
pub struct RingWatch(Option<(Trouble, u64)>);

impl RingWatch {
    /// Nothing was seen yet.
    pub const fn new() -> Self {
        Self(None)
    }

    /// Tells a trouble that was there at the last look already, with the same number of frames through the queue.
    fn tell(&mut self, now: Option<Trouble>, frames: u64) -> Option<Trouble> {
        let before = core::mem::replace(&mut self.0, now.map(|trouble| (trouble, frames)));
        now.filter(|trouble| before == Some((*trouble, frames)))
    }
}

/// Queues that the card did not give up, and with them buffers that it may still write to; each with the number of
/// resets at that time.
pub(super) struct Parked<B> {
    rx: Option<(Rx<B>, u32)>,
    tx: Option<(Tx<B>, u32)>,
}

impl<B> Default for Parked<B> {
    fn default() -> Self {
        Self { rx: None, tx: None }
    }
}

impl<B> Parked<B> {
    pub fn is_empty(&self) -> bool {
        self.rx.is_none() && self.tx.is_none()
    }
}

impl<M: Machine> I40e<M> {
    /// Looks at the port's registers; four reads, for every now and then. What it tells, [`I40e::reset`] may mend.
    pub fn trouble(&self) -> Option<Trouble> {
        let length = self.bar.read(regs::PF_ATQLEN);
        let status = self.bar.read(regs::GLGEN_RSTAT);
        let event = self.bar.read(regs::PF_MDET_TX);
        let rx_event = self.bar.read(regs::PF_MDET_RX);
        match () {
            () if length.bits() == u32::MAX && status == u32::MAX => Some(Trouble::Gone),
            () if status & 3 != 0 => Some(Trouble::CardReset { status }),
            () if !length.contains(AqLen::ENABLE) => Some(Trouble::WasReset { length: length.bits() }),
            () if length.contains(AqLen::CRIT) => Some(Trouble::AdminCritical { length: length.bits() }),
            () if event & 1 != 0 => Some(Trouble::Malicious { event }),
            () if rx_event & 1 != 0 => Some(Trouble::MaliciousRx { event: rx_event }),
            () if !self.admin.is_running() => Some(Trouble::AdminStopped),
            () => None,
        }
    }

    /// The function has lost what it was told, its counters perhaps too.
    pub(super) fn was_reset(&self) -> bool {
        !self.bar.read(regs::PF_ATQLEN).contains(AqLen::ENABLE)
    }

    /// Looks at a receive queue: tells that it is stuck if it was so at the last look with this `watch`, too. Stop and
    /// start mend it; the frame whose mark never came is lost, those behind it are told by the stop.
    pub fn rx_trouble(&self, rx: &Rx<M::Bar>, watch: &mut RingWatch) -> Option<Trouble> {
        let stuck = rx.hole().map(|descriptor| Trouble::RxStuck { queue: rx.index(), descriptor });
        watch.tell(stuck, kernel::RxQueue::counters(rx).frames)
    }

    /// As [`I40e::rx_trouble`], for a transmit queue.
    pub fn tx_trouble(&self, tx: &Tx<M::Bar>, watch: &mut RingWatch) -> Option<Trouble> {
        let queue = tx.index();
        let stuck = tx.unmarked(self.tx_head(queue));
        let stuck = stuck.map(|descriptor| Trouble::TxStuck { queue, descriptor });
        watch.tell(stuck, kernel::TxQueue::counters(tx).frames)
    }

    /// Resets the function and brings it up again with everything that was set, but for flow control, which the
    /// firmware keeps; any number of times, and again when it failed. No memory is asked for.
    ///
    /// Queues that run are to be stopped before, which works on a card that was reset, too. Those that the card did
    /// not give up are given back by [`I40e::reclaim_rx`] and [`I40e::reclaim_tx`] afterwards.
    ///
    /// # Errors
    /// The step that failed, as at the first bring-up. No queue is started before a reset has gone well.
    pub fn reset(&mut self) -> Result<(), Error> {
        self.up = false;
        self.admin.abandon();
        reset::start_over(&self.machine, &self.bar)?;
        // From here on the card writes to no buffer that it was given before.
        self.resets = self.resets.wrapping_add(1);
        self.bar.write(regs::PF_MDET_TX, 1);
        self.bar.write(regs::PF_MDET_RX, 1);
        self.statistics.restarted(&self.bar);
        self.xstats.restarted(&self.bar);
        self.admin.start()?;
        self.firmware = Self::greet(&self.bar, &mut self.admin)?;
        self.hmc.program(&self.bar, self.pf as usize)?;
        self.lldp_stopped = link::stop_lldp(&mut self.admin).is_ok();
        let queues = self.hmc.queues() as u16;
        self.vsi = Self::set_up_switch(&self.bar, &mut self.admin, queues, &self.filters)?;
        rss::program(&mut self.admin, &self.bar, &self.rss, usize::from(queues))?;
        if self.qinq {
            self.set_qinq(true)?;
        }
        if self.vlan_strip {
            self.set_vlan_strip(true)?;
        }
        self.mac_config_pending = true;
        self.bring_link_up()?;
        self.up = true;
        Ok(())
    }

    /// Gives back the buffers of a receive queue that the card had not given up when it was stopped, if a reset has
    /// taken them from it meanwhile. Returns what [`PortControl::stop_rx`] would have; `None` where nothing was
    /// waiting, or still waits for a reset.
    ///
    /// [`PortControl::stop_rx`]: kernel::port::PortControl::stop_rx
    pub fn reclaim_rx(&mut self, queue: u16, buffers: &mut impl Buffers) -> Option<QueueCounters> {
        let resets = self.resets;
        let (rx, _) = self.parked_mut(usize::from(queue))?.rx.take_if(|(_, at)| *at != resets)?;
        Some(rx.release(buffers))
    }

    /// As [`I40e::reclaim_rx`], for a transmit queue.
    pub fn reclaim_tx(&mut self, queue: u16, buffers: &mut impl Buffers) -> Option<QueueCounters> {
        let resets = self.resets;
        let (tx, _) = self.parked_mut(usize::from(queue))?.tx.take_if(|(_, at)| *at != resets)?;
        let head = tx.marked_head();
        Some(tx.release(head, buffers))
    }

    pub(super) fn park_rx(&mut self, rx: Rx<M::Bar>) {
        let resets = self.resets;
        if let Some(parked) = self.parked_mut(rx.index()) {
            parked.rx = Some((rx, resets));
        }
    }

    pub(super) fn park_tx(&mut self, tx: Tx<M::Bar>) {
        let resets = self.resets;
        if let Some(parked) = self.parked_mut(tx.index()) {
            parked.tx = Some((tx, resets));
        }
    }
}
