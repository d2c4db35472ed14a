//! Bring-up of a port, a function for each step, and the control of its queues.

use alloc::vec::Vec;
use core::time::Duration;

use hal::{BarAccess, Clock, DescRing, DmaMemory, Machine};
use kernel::port::{PortControl, PortStats, QueueCounters, QueueSetup};
use kernel::{Buffers, Link, MacAddr};

pub use super::command::FirmwareVersion;

use super::adminq::AdminQueue;
use super::capability::{self, Capabilities};
use super::context::{RxContext, TxContext};
use super::error::{self, Error};
use super::filters::{self, Filters};
use super::hmc::Hmc;
use super::nvm::{self, NvmVersion};
use super::queue::{self, Direction};
use super::recovery::Parked;
use super::rss::Rss;
use super::rx::Rx;
use super::stats::Statistics;
use super::switch::{self, Vsi};
use super::tx::Tx;
use super::xstats::ExtendedStatistics;
use super::{MAX_FRAME, MAX_RX_BUFFERS, command, link, regs, reset};

/// Queue pairs that contexts are made for; the card may have more.
const MAX_QUEUES: u32 = 64;
/// Rings start at a page; the card wants 128 bytes.
const RING_ALIGN: usize = 4096;
/// How long a stop lets the card send what it has.
const DRAIN_LIMIT: Duration = Duration::from_millis(100);

/// What can be chosen for a port before it is brought up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// 32-byte receive descriptors rather than 16-byte ones.
    pub wide_descriptors: bool,
    /// Frames for others are received, too.
    pub promiscuous: bool,
}

/// Rings of one queue pair, kept over stop and start.
struct RingMemory<B> {
    rx: Option<DmaMemory>,
    tx: Option<DmaMemory>,
    /// Queues that the card did not give up.
    parked: Parked<B>,
}

/// One physical function of a card: a port.
pub struct I40e<M: Machine> {
    pub(super) machine: M,
    pub(super) bar: M::Bar,
    pub(super) options: Options,
    pub(super) admin: AdminQueue<M>,
    pub(super) hmc: Hmc,
    pub(super) vsi: Vsi,
    pub(super) statistics: Statistics,
    pub(super) xstats: ExtendedStatistics,
    pub(super) filters: Filters,
    pub(super) rss: Rss,
    pub(super) vlan_strip: bool,
    pub(super) qinq: bool,
    pub(super) nvm: NvmVersion,
    rings: Vec<RingMemory<M::Bar>>,
    pub(super) pf: u32,
    first_queue: u32,
    pub(super) mac: MacAddr,
    pub(super) firmware: FirmwareVersion,
    pub(super) link: Link,
    pub(super) mac_config_pending: bool,
    pub(super) lldp_stopped: bool,
    /// Resets of the function since it was brought up.
    pub(super) resets: u32,
    /// The last bring-up, or reset, went well.
    pub(super) up: bool,
}

impl<M: Machine> I40e<M> {
    /// Brings the function behind `bar` up: memory decoding and bus mastering are on already. No queue runs yet.
    ///
    /// # Errors
    /// The first step that failed, with its register or opcode.
    pub fn new(machine: M, bar: M::Bar, options: Options) -> Result<Self, Error> {
        reset::start_over(&machine, &bar)?;
        let pf = bar.read(regs::PF_FUNC_RID) & 7;
        let port = bar.read(regs::PFGEN_PORTNUM) & 3;
        let (first_queue, _) = reset::allocated_queues(&bar);
        let mut admin = AdminQueue::new(machine.clone(), bar.clone())?;
        admin.start()?;
        let firmware = Self::greet(&bar, &mut admin)?;
        let queues = usable_queues(capability::discover(&mut admin)?);
        let hmc = Hmc::new(&machine, &bar, pf as usize, queues as usize)?;
        let mac = command::mac_address(&mut admin)?;
        let lldp_stopped = link::stop_lldp(&mut admin).is_ok();
        let mut filters = Filters::new(mac);
        filters.set_promiscuous(options.promiscuous);
        let vsi = Self::set_up_switch(&bar, &mut admin, queues as u16, &filters)?;
        let nvm = nvm::read_version(&machine, &bar)?;
        let (port, stat_index) = (port as usize, usize::from(vsi.stat_index));
        let statistics = Statistics::start(&bar, port, stat_index);
        let xstats = ExtendedStatistics::start(&bar, port, stat_index);
        let rings =
            (0..queues).map(|_| RingMemory { rx: None, tx: None, parked: Parked::default() }).collect();
        let mut this = Self {
            machine,
            bar,
            options,
            admin,
            hmc,
            vsi,
            statistics,
            xstats,
            filters,
            rss: Rss::OFF,
            vlan_strip: false,
            qinq: false,
            nvm,
            rings,
            pf,
            first_queue,
            mac,
            firmware,
            link: Link::default(),
            mac_config_pending: true,
            lldp_stopped,
            resets: 0,
            up: true,
        };
        this.bring_link_up()?;
        Ok(this)
    }

    /// Queue pairs that there are contexts for.
    pub(super) fn queues(&self) -> usize {
        self.rings.len().min(self.hmc.queues())
    }

    /// The first words with the firmware after a reset.
    pub(super) fn greet(bar: &M::Bar, admin: &mut AdminQueue<M>) -> Result<FirmwareVersion, Error> {
        let firmware = command::get_version(admin)?;
        command::clear_pxe(admin)?;
        bar.write(regs::GLLAN_RCTL_0, 1);
        Ok(firmware)
    }

    /// The function's VSI and its filters; a reset undoes all of it.
    pub(super) fn set_up_switch(
        bar: &M::Bar,
        admin: &mut AdminQueue<M>,
        queues: u16,
        wanted: &Filters,
    ) -> Result<Vsi, Error> {
        let vsi = switch::set_up_vsi(admin, queues)?;
        switch::enable_filters(admin, bar);
        filters::program(admin, vsi, None, wanted)?;
        Ok(vsi)
    }

    /// Versions of the card's firmware.
    pub fn firmware(&self) -> FirmwareVersion {
        self.firmware
    }

    /// Whether the firmware's own LLDP agent took the order to stop; if not, it eats LLDP frames.
    pub fn lldp_stopped(&self) -> bool {
        self.lldp_stopped
    }

    /// Gives the card back: no queue runs any more.
    ///
    /// # Errors
    /// The firmware did not take the farewell; everything is off all the same.
    pub fn shut_down(mut self) -> Result<(), Error> {
        self.hmc.release(&self.bar);
        let farewell = command::queue_shutdown(&mut self.admin);
        self.admin.stop();
        farewell
    }

    pub(super) fn bring_link_up(&mut self) -> Result<(), Error> {
        link::restart(&mut self.admin)?;
        self.refresh_link()
    }

    /// Asks for the link, and sets the frame size as soon as the link is up: some firmware refuses it before.
    pub(super) fn refresh_link(&mut self) -> Result<(), Error> {
        self.link = link::status(&mut self.admin)?;
        if self.mac_config_pending {
            match link::set_mac_config(&mut self.admin) {
                Ok(()) => self.mac_config_pending = false,
                Err(error) if self.link.up => return Err(error),
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn check_setup(&self, queue: u16, setup: &QueueSetup) -> Result<(), Error> {
        const STEP: &str = "queue setup";
        if usize::from(queue) >= self.queues() {
            return Err(Error::Request { step: STEP, what: "queue", value: u64::from(queue) });
        }
        if self.parked(queue).is_some_and(|parked| !parked.is_empty()) {
            let what = "a queue that the card has not given up";
            return Err(Error::Request { step: STEP, what, value: u64::from(queue) });
        }
        if !self.up {
            let what = "queue of a port that did not come up after its reset";
            return Err(Error::Request { step: STEP, what, value: u64::from(queue) });
        }
        let descriptors = setup.descriptors;
        if !(64..=8160).contains(&descriptors) || !descriptors.is_multiple_of(32) {
            let value = u64::from(descriptors);
            return Err(Error::Request { step: STEP, what: "the number of descriptors", value });
        }
        let (room, needed) = (setup.layout.room, MAX_FRAME.div_ceil(MAX_RX_BUFFERS as u32));
        if room < needed || room > RxContext::ROOM_MAX || !room.is_multiple_of(128) {
            return Err(Error::Request { step: STEP, what: "the size of a buffer", value: u64::from(room) });
        }
        Ok(())
    }

    /// Memory of one ring, made when it is first needed and again when a longer ring is asked for.
    fn ring_memory(
        machine: &M,
        slot: &mut Option<DmaMemory>,
        step: &'static str,
        bytes: usize,
    ) -> Result<DmaMemory, Error> {
        match slot {
            Some(memory) if memory.len() >= bytes => Ok(memory.clone()),
            _ => {
                let memory = machine.dma_alloc(bytes, RING_ALIGN).map_err(error::memory(step))?;
                *slot = Some(memory.clone());
                Ok(memory)
            }
        }
    }

    fn rx_queue(&mut self, queue: usize, setup: &QueueSetup) -> Result<Rx<M::Bar>, Error> {
        const STEP: &str = "receive ring";
        let (count, wide) = (usize::from(setup.descriptors), self.options.wide_descriptors);
        let bytes = count * if wide { DescRing::<4>::STRIDE } else { DescRing::<2>::STRIDE };
        let bad_queue = Error::Request { step: STEP, what: "queue", value: queue as u64 };
        let slot = &mut self.rings.get_mut(queue).ok_or(bad_queue)?.rx;
        let memory = Self::ring_memory(&self.machine, slot, STEP, bytes)?;
        let unaligned = Error::Card { step: STEP, what: "alignment", value: memory.addr().as_u64() };
        let tail = self.bar.doorbell(regs::QRX_TAIL.get(queue).ok_or(bad_queue)?);
        let context = RxContext {
            base: memory.addr(),
            qlen: setup.descriptors,
            room: setup.layout.room,
            wide,
            max_frame: MAX_FRAME,
        };
        self.hmc.set_rx(queue, &context)?;
        Ok(if wide {
            let mut rx = Rx::wide(queue, DescRing::new(memory, count).ok_or(unaligned)?, tail, setup);
            rx.expect_second_tag(self.qinq);
            rx
        } else {
            Rx::narrow(queue, DescRing::new(memory, count).ok_or(unaligned)?, tail, setup)
        })
    }

    fn tx_queue(&mut self, queue: usize, setup: &QueueSetup) -> Result<Tx<M::Bar>, Error> {
        const STEP: &str = "transmit ring";
        let count = usize::from(setup.descriptors);
        let bad_queue = Error::Request { step: STEP, what: "queue", value: queue as u64 };
        let slot = &mut self.rings.get_mut(queue).ok_or(bad_queue)?.tx;
        let memory = Self::ring_memory(&self.machine, slot, STEP, count * DescRing::<2>::STRIDE)?;
        let unaligned = Error::Card { step: STEP, what: "alignment", value: memory.addr().as_u64() };
        let context = TxContext {
            base: memory.addr(),
            qlen: setup.descriptors,
            rdylist: self.vsi.queue_set,
            time_sync: self.owns_clock(),
        };
        self.hmc.set_tx(queue, &context)?;
        let tail = self.bar.doorbell(regs::QTX_TAIL.get(queue).ok_or(bad_queue)?);
        Ok(Tx::new(queue, DescRing::new(memory, count).ok_or(unaligned)?, tail, setup))
    }

    /// What is parked of queue `queue`.
    pub(super) fn parked(&self, queue: u16) -> Option<&Parked<M::Bar>> {
        self.rings.get(usize::from(queue)).map(|rings| &rings.parked)
    }

    /// As [`I40e::parked`].
    pub(super) fn parked_mut(&mut self, queue: usize) -> Option<&mut Parked<M::Bar>> {
        self.rings.get_mut(queue).map(|rings| &mut rings.parked)
    }

    /// The card's head of a transmit queue, as an index of a ring of `count`.
    pub(super) fn tx_head(&self, queue: usize) -> usize {
        regs::QTX_HEAD.get(queue).map_or(0, |register| (self.bar.read(register) & 0x1fff) as usize)
    }

    /// Waits a while for the card to have sent everything; the link may be down, so that it never does. Returns the
    /// card's head: once the queue is off its register says nothing.
    fn drain(&self, queue: usize, next: usize) -> usize {
        let clock = self.machine.clock();
        let done = clock
            .poll(DRAIN_LIMIT, Duration::from_micros(50), || (self.tx_head(queue) == next).then_some(next));
        done.unwrap_or_else(|_| self.tx_head(queue))
    }
}

/// A power of two: the VSI's queue map counts in those.
fn usable_queues(capabilities: Capabilities) -> u32 {
    let most = capabilities.rx_queues.min(capabilities.tx_queues).clamp(1, MAX_QUEUES);
    1 << most.ilog2()
}

impl<M: Machine> PortControl for I40e<M> {
    type Rx = Rx<M::Bar>;
    type Tx = Tx<M::Bar>;
    type Error = Error;

    fn mac(&self) -> MacAddr {
        self.mac
    }

    fn start_rx(
        &mut self,
        queue: u16,
        setup: &QueueSetup,
        buffers: &mut impl Buffers,
    ) -> Result<Self::Rx, Error> {
        self.check_setup(queue, setup)?;
        let index = usize::from(queue);
        let mut rx = self.rx_queue(index, setup)?;
        if let Some(tail) = regs::QRX_TAIL.get(index) {
            self.bar.write(tail, 0);
        }
        rx.arm(buffers);
        if let Err(error) = queue::set_enabled(&self.machine, &self.bar, Direction::Rx, index, true) {
            // Not enabled, so nothing was written to the buffers; take the request back before they are reused.
            match queue::withdraw(&self.machine, &self.bar, Direction::Rx, index) {
                Ok(()) => drop(rx.release(buffers)),
                Err(_) => self.park_rx(rx),
            }
            return Err(error);
        }
        Ok(rx)
    }

    fn start_tx(&mut self, queue: u16, setup: &QueueSetup) -> Result<Self::Tx, Error> {
        self.check_setup(queue, setup)?;
        const PHYSICAL_FUNCTION: u32 = 2;
        let index = usize::from(queue);
        let tx = self.tx_queue(index, setup)?;
        for (array, value) in
            [(regs::QTX_CTL, PHYSICAL_FUNCTION | self.pf << 2), (regs::QTX_HEAD, 0), (regs::QTX_TAIL, 0)]
        {
            if let Some(register) = array.get(index) {
                self.bar.write(register, value);
            }
        }
        queue::warn_of_enable(&self.bar, self.first_queue + u32::from(queue));
        if let Err(error) = queue::set_enabled(&self.machine, &self.bar, Direction::Tx, index, true) {
            // The ring is empty: nothing but the request is to be taken back, so that it can be made again.
            let _ = queue::withdraw(&self.machine, &self.bar, Direction::Tx, index);
            return Err(error);
        }
        Ok(tx)
    }

    fn stop_rx(&mut self, rx: Self::Rx, buffers: &mut impl Buffers) -> Result<QueueCounters, Error> {
        match queue::set_enabled(&self.machine, &self.bar, Direction::Rx, rx.index(), false) {
            Ok(()) => Ok(rx.release(buffers)),
            Err(error) => {
                self.park_rx(rx);
                Err(error)
            }
        }
    }

    fn stop_tx(&mut self, tx: Self::Tx, buffers: &mut impl Buffers) -> Result<QueueCounters, Error> {
        let index = tx.index();
        if !queue::is_running(&self.bar, Direction::Tx, index) {
            // The function was reset: the register of the head says nothing.
            let head = tx.marked_head();
            return Ok(tx.release(head, buffers));
        }
        let head = self.drain(index, tx.next());
        queue::warn_of_disable(&self.bar, self.first_queue + index as u32);
        self.machine.clock().delay(Duration::from_micros(400));
        match queue::set_enabled(&self.machine, &self.bar, Direction::Tx, index, false) {
            Ok(()) => Ok(tx.release(head, buffers)),
            Err(error) => {
                self.park_tx(tx);
                Err(error)
            }
        }
    }

    fn set_promiscuous(&mut self, on: bool) -> Result<(), Error> {
        self.change_filters(|filters| {
            filters.set_promiscuous(on);
            Ok(())
        })
    }

    fn link(&mut self) -> Result<Link, Error> {
        if link::drain_events(&mut self.admin) || !self.link.up {
            self.refresh_link()?;
        }
        Ok(self.link)
    }

    fn stats(&mut self) -> PortStats {
        // Counters of a card that was reset may have begun again.
        if self.was_reset() {
            self.statistics.restarted(&self.bar);
        }
        self.statistics.read(&self.bar)
    }
}
