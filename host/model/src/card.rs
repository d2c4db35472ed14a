//! The function itself: what each register access does, the ways of a frame, reset.

use std::time::Instant;

use crate::adminq;
use crate::device::{BAR3_BYTES, PortConfig};
use crate::dma::GuestMemory;
use crate::faults::{Direction, Faults, Violations};
use crate::firmware::{Firmware, VSI_NUMBER};
use crate::flow_director::{self, Destination, FlowDirector};
use crate::hmc::Hmc;
use crate::interrupt::{self, Interrupts};
use crate::pci::ConfigSpace;
use crate::ptp::Ptp;
use crate::regs::{self, Registers, queue_of};
use crate::rx::{self, RxMeta, RxQueue};
use crate::stats::{Counters, Lost};
use crate::trace::Trace;
use crate::tx::{self, TxQueue};
use crate::wire::Wire;

const MAX_FRAME: usize = 9728;

/// The function without its wire.
pub struct Card {
    pub config: PortConfig,
    pub pci: ConfigSpace,
    pub bar3: Vec<u8>,
    pub registers: Registers,
    pub memory: GuestMemory,
    pub interrupts: Interrupts,
    pub firmware: Firmware,
    pub hmc: Hmc,
    pub flow_director: FlowDirector,
    pub ptp: Ptp,
    pub tx: Vec<Option<TxQueue>>,
    pub rx: Vec<Option<RxQueue>>,
    /// Receive queues that run, in ascending order.
    pub rx_running: Vec<u32>,
    /// Receive queues that got a frame since the last interrupt.
    pub rx_touched: Vec<u32>,
    /// Transmit queues with descriptors that have not been looked at.
    pub tx_waiting: Vec<u32>,
    pub faults: Faults,
    pub violations: Violations,
    pub counters: Counters,
    pub queue_requests: Vec<(u32, u32)>,
    pub reset_reads: Option<u32>,
    pub started: Instant,
    /// What the driver does is written down.
    pub trace: Option<Box<Trace>>,
}

impl Card {
    /// Powered on just now.
    pub fn new(config: PortConfig) -> Self {
        let queues = regs::QUEUES as usize;
        let firmware = Firmware::new(config.mac, config.device_id);
        Self {
            pci: ConfigSpace::new(config.device_id, config.mac),
            bar3: vec![0; BAR3_BYTES as usize],
            registers: Registers::new(),
            memory: GuestMemory::default(),
            interrupts: Interrupts::new(),
            ptp: Ptp::new(firmware.link.is_slow()),
            firmware,
            hmc: Hmc::default(),
            flow_director: FlowDirector::default(),
            tx: (0..queues).map(|_| None).collect(),
            rx: (0..queues).map(|_| None).collect(),
            rx_running: Vec::new(),
            rx_touched: Vec::new(),
            tx_waiting: Vec::new(),
            faults: Faults::default(),
            violations: Violations::default(),
            counters: Counters::default(),
            queue_requests: Vec::new(),
            reset_reads: None,
            started: Instant::now(),
            trace: None,
            config,
        }
    }

    pub fn read(&mut self, offset: u32, data: &mut [u8]) {
        let aligned = offset & !3;
        if let Some(what) = self.faults.watch.as_ref().and_then(|watch| watch.read(aligned)) {
            self.violations.record(what);
        }
        let low = self.read_register(aligned);
        let high = if data.len() > 4 { self.registers.get(aligned + 4) } else { 0 };
        let bytes = (u64::from(high) << 32 | u64::from(low)).to_le_bytes();
        let from = bytes.iter().skip((offset & 3) as usize);
        data.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
    }

    pub fn read_register(&mut self, offset: u32) -> u32 {
        self.event();
        if let Some(value) = self.faults.register(offset) {
            return value;
        }
        match offset {
            regs::PFINT_ICR0 => {
                let value = self.registers.get(offset);
                self.registers.set(offset, 0);
                value
            }
            regs::GLVFGEN_TIMER => self.started.elapsed().as_micros() as u32,
            regs::PRTMAC_LINKSTA => self.firmware.link.register(),
            regs::PFGEN_CTRL => self.read_reset(),
            _ if Ptp::holds(offset) => {
                let value = self.ptp.read(offset, self.started.elapsed());
                value.unwrap_or_else(|| self.registers.get(offset))
            }
            _ => {
                if let Some(queue) = queue_of(offset, regs::QTX_HEAD)
                    && let Some(Some(tx)) = self.tx.get(queue as usize)
                {
                    return tx.head();
                }
                if !self.queue_requests.is_empty() {
                    self.settle_queue(offset);
                }
                self.registers.get(offset)
            }
        }
    }

    pub fn read_reset(&mut self) -> u32 {
        match self.reset_reads {
            None => 0,
            Some(u32::MAX) => regs::PFGEN_CTRL_PFSWR,
            Some(0) => {
                self.reset_reads = None;
                self.reset();
                0
            }
            Some(left) => {
                self.reset_reads = Some(left - 1);
                regs::PFGEN_CTRL_PFSWR
            }
        }
    }

    pub fn write(&mut self, offset: u32, value: u32, wire: &mut dyn Wire) {
        self.event();
        if let Some(what) = self.faults.watch.as_ref().and_then(|watch| watch.write(offset, value)) {
            self.violations.record(what);
        }
        // The ways of a packet first.
        if let Some(queue) = queue_of(offset, regs::QTX_TAIL) {
            self.registers.set(offset, value);
            return self.transmit(queue, wire);
        }
        if queue_of(offset, regs::QRX_TAIL).is_some() {
            return self.registers.set(offset, value);
        }
        match offset {
            regs::PFGEN_CTRL => {
                if value & regs::PFGEN_CTRL_PFSWR != 0 {
                    self.reset_reads = Some(self.faults.reset_delay).filter(|reads| *reads > 0);
                    if self.reset_reads.is_none() {
                        self.reset();
                    }
                }
            }
            regs::GLGEN_RTRIG => {
                if value & 7 != 0 {
                    // Not reset with the function alone.
                    self.ptp = Ptp::new(self.firmware.link.is_slow());
                    self.reset();
                }
            }
            regs::GLNVM_SRCTL => self.firmware.nvm.control(&mut self.registers, value),
            regs::PF_ATQT => {
                self.registers.set(offset, value);
                self.admin();
            }
            regs::PFHMC_SDCMD => self.hmc.command(&self.registers, value),
            regs::PFINT_ICR0_ENA => {
                self.registers.set(offset, value);
                self.interrupts.deliver0(&mut self.registers);
            }
            regs::PFINT_DYN_CTL0 => self.interrupts.write_control(&mut self.registers, 0, value),
            flow_director::PFQF_CTL_1 if value & 1 != 0 => self.flow_director.clear(&mut self.registers),
            _ if Ptp::holds(offset) => {
                if !self.ptp.write(offset, value, self.started.elapsed()) {
                    self.registers.set(offset, value);
                }
            }
            // Writing a one clears these.
            regs::GLLAN_RCTL_0 | regs::PF_MDET_TX | regs::PF_MDET_RX | regs::GL_MDET_TX => {
                self.registers.set(offset, self.registers.get(offset) & !value);
            }
            _ => self.write_indexed(offset, value),
        }
    }

    pub fn write_indexed(&mut self, offset: u32, value: u32) {
        if flow_director::COUNTERS.contains(&offset) {
            return self.registers.set(offset, if value == 0 { self.registers.get(offset) } else { 0 });
        }
        let vectors = regs::PFINT_DYN_CTLN..regs::PFINT_DYN_CTLN + 4 * (crate::pci::VECTORS - 1);
        if vectors.contains(&offset) {
            let vector = (offset - regs::PFINT_DYN_CTLN) / 4 + 1;
            return self.interrupts.write_control(&mut self.registers, vector, value);
        }
        if queue_of(offset, regs::QTX_ENA).is_some() || queue_of(offset, regs::QRX_ENA).is_some() {
            return self.request_queue(offset, value);
        }
        self.registers.set(offset, value);
    }

    pub fn admin(&mut self) {
        let was_up = self.firmware.link.up();
        if !self.can_dma("admin queue") {
            return;
        }
        if self.faults.admin_late > 0 {
            return;
        }
        let trace = self.trace.as_deref_mut();
        adminq::run(&mut self.registers, &self.memory, &mut self.firmware, &mut self.faults, trace);
        if self.firmware.link.up() != was_up {
            self.link_changed();
        }
    }

    pub fn link_changed(&mut self) {
        self.firmware.lldp.link_changed(self.firmware.link.up());
        if self.pci.bus_master()
            && let Some(event) = self.firmware.link.event()
        {
            let posted = adminq::post_event(&mut self.registers, &self.memory, &mut self.interrupts, &event);
            if let Some(trace) = &mut self.trace {
                trace.event(event.opcode, posted);
            }
        }
    }

    pub fn can_dma(&mut self, who: &str) -> bool {
        let can = self.pci.bus_master();
        if !can {
            self.violations.record(format!("{who}: used while bus mastering is off"));
        }
        can
    }

    /// QENA_REQ was written: the queue follows at once, or after some reads.
    pub fn request_queue(&mut self, offset: u32, value: u32) {
        let stat = self.registers.get(offset) & regs::QENA_STAT;
        self.registers.set(offset, value & !regs::QENA_STAT | stat);
        self.queue_requests.retain(|(other, _)| *other != offset);
        let is_tx = queue_of(offset, regs::QTX_ENA).is_some();
        let direction = if is_tx { Direction::Tx } else { Direction::Rx };
        match self.faults.queue_reads(direction, value & regs::QENA_REQ != 0) {
            0 => self.follow_request(offset),
            delay => self.queue_requests.push((offset, delay)),
        }
    }

    pub fn settle_queue(&mut self, offset: u32) {
        let Some(index) = self.queue_requests.iter().position(|(other, _)| *other == offset) else { return };
        match &mut self.queue_requests[index].1 {
            0 => {
                self.queue_requests.swap_remove(index);
                self.follow_request(offset);
            }
            &mut u32::MAX => {}
            left => *left -= 1,
        }
    }

    pub fn follow_request(&mut self, offset: u32) {
        let value = self.registers.get(offset);
        let (on, running) = (value & regs::QENA_REQ != 0, value & regs::QENA_STAT != 0);
        if on != running {
            if let Some(queue) = queue_of(offset, regs::QTX_ENA) {
                self.set_tx_queue(queue, on);
            } else if let Some(queue) = queue_of(offset, regs::QRX_ENA) {
                self.set_rx_queue(queue, on);
            }
        }
        let stat = if on { regs::QENA_STAT } else { 0 };
        self.registers.set(offset, value & !regs::QENA_STAT | stat);
    }

    pub fn set_tx_queue(&mut self, queue: u32, on: bool) {
        self.faults.marks.flush(&self.memory, Direction::Tx, queue);
        self.faults.fetch.forget(Some(queue));
        let mut running = None;
        if on && self.can_dma("transmit queue") {
            let base = regs::GLHMC_LANTXBASE;
            let context = self.hmc.context::<{ tx::CONTEXT }>(&self.registers, &self.memory, base, queue);
            running = context.as_ref().and_then(TxQueue::new);
            if running.is_none() {
                self.violations.record(format!("transmit queue {queue}: enabled without a usable context"));
            }
            // A new queue begins with an empty ring.
            self.registers.set(regs::QTX_TAIL + 4 * queue, 0);
        }
        if let Some(slot) = self.tx.get_mut(queue as usize) {
            *slot = running;
        }
    }

    pub fn set_rx_queue(&mut self, queue: u32, on: bool) {
        self.faults.marks.flush(&self.memory, Direction::Rx, queue);
        let mut running = None;
        if on && self.can_dma("receive queue") {
            let base = regs::GLHMC_LANRXBASE;
            let context = self.hmc.context::<{ rx::CONTEXT }>(&self.registers, &self.memory, base, queue);
            running = context.as_ref().and_then(RxQueue::new);
            if running.is_none() {
                self.violations.record(format!("receive queue {queue}: enabled without a usable context"));
            }
        }
        self.rx_running.retain(|other| *other != queue);
        if running.is_some() {
            self.rx_running.push(queue);
            self.rx_running.sort_unstable();
        }
        if let Some(slot) = self.rx.get_mut(queue as usize) {
            *slot = running;
        }
    }

    pub fn transmit(&mut self, queue: u32, wire: &mut dyn Wire) {
        let tail = self.registers.get(regs::QTX_TAIL + 4 * queue) & 0x1fff;
        if !self.pci.bus_master() {
            return;
        }
        if self.faults.fetch.left > 0 {
            return self.hold_doorbell(queue);
        }
        self.release_doorbells();
        let Some(Some(tx)) = self.tx.get_mut(queue as usize) else { return };
        let Self { registers, counters, firmware, memory, faults, .. } = self;
        faults.marks.queue = queue;
        let up = firmware.link.up();
        let now = self.ptp.stamps_sent().then(|| self.started.elapsed());
        let run = tx.run(memory, tail, &mut faults.marks, &mut |frame| {
            if up {
                counters.sent(registers, frame);
                wire.transmit(frame);
            } else {
                counters.not_sent(registers);
            }
        });
        if let (true, true, Some(now)) = (run.stamp, up, now)
            && self.ptp.left(now)
        {
            self.interrupts.cause0(&mut self.registers, interrupt::ICR0_TIMESYNC);
        }
        self.counters.tx_segments += run.segments;
        if run.fault.is_some() {
            self.counters.dma_faults += 1;
        }
        for (program, frame) in run.programs {
            self.program_filter(program, &frame);
        }
        if let Some(what) = run.violation {
            self.violations.record(what);
            self.registers.set(regs::PF_MDET_TX, 1);
            self.registers.set(regs::GL_MDET_TX, 1 << 31 | queue);
        }
        if run.unfinished && !self.tx_waiting.contains(&queue) {
            self.tx_waiting.push(queue);
        }
        self.faults.busy |= self.faults.marks.waiting();
        self.look_at_script();
        if run.progress {
            self.interrupts.queue_event(&mut self.registers, regs::QINT_TQCTL + 4 * queue);
        }
    }

    /// Programs a flow director filter; what fails is told on receive queue 0.
    fn program_filter(&mut self, program: flow_director::Program, frame: &[u8]) {
        let Err(status) = self.flow_director.program(&mut self.registers, program, frame) else { return };
        let tail = self.registers.get(regs::QRX_TAIL) & 0x1fff;
        let Some(Some(rx)) = self.rx.first_mut() else { return };
        if rx.report(&self.memory, tail, status).is_err() {
            self.counters.dma_faults += 1;
        }
        self.interrupts.queue_event(&mut self.registers, regs::QINT_RQCTL);
    }

    /// Goes on with rings that were too long for one go.
    pub fn transmit_rest(&mut self, wire: &mut dyn Wire) {
        self.release_doorbells();
        for queue in std::mem::take(&mut self.tx_waiting) {
            self.transmit(queue, wire);
        }
    }

    /// Queues that run and that frames may go to: the main VSI's.
    fn rx_queues(&self) -> impl Iterator<Item = u32> {
        let (first, count) = self.firmware.vsi.queues();
        self.rx_running.iter().copied().filter(move |queue| (first..first + count).contains(queue))
    }

    /// Descriptors of the receive queue that has fewest.
    pub fn rx_free(&self) -> usize {
        if self.faults.rx_empty > 0 {
            return 0;
        }
        let free = |queue: u32| {
            let tail = self.registers.get(regs::QRX_TAIL + 4 * queue) & 0x1fff;
            self.rx.get(queue as usize)?.as_ref().map(|rx| rx.free(tail))
        };
        self.rx_queues().filter_map(free).min().unwrap_or(0)
    }

    /// Every receive queue has descriptors for the longest frame, and there is one.
    pub fn rx_ready(&self) -> bool {
        let ready = |queue: u32| {
            let tail = self.registers.get(regs::QRX_TAIL + 4 * queue) & 0x1fff;
            self.rx.get(queue as usize).is_some_and(|rx| rx.as_ref().is_some_and(|rx| rx.ready(tail)))
        };
        let mut queues = self.rx_queues().peekable();
        self.faults.rx_empty == 0 && queues.peek().is_some() && queues.all(ready)
    }

    pub fn receive(&mut self, frame: &[u8]) {
        // The MAC stamps whatever comes, before anybody asks whether the frame is wanted.
        let stamp = self.ptp.arrived(frame, || self.started.elapsed());
        let lost = match frame.len() {
            0..60 => Some(Lost::Short),
            1523.. if self.firmware.link.short_frames => Some(Lost::Long),
            60..=MAX_FRAME if !self.firmware.filters.pass(frame) => Some(Lost::Filtered),
            60..=MAX_FRAME if self.is_own(frame) => Some(Lost::Filtered),
            60..=MAX_FRAME if self.firmware.lldp.eats(frame) => Some(Lost::Filtered),
            60..=MAX_FRAME => self.deliver(frame, stamp),
            _ => Some(Lost::Oversize),
        };
        match lost {
            None => self.counters.received(&mut self.registers, frame),
            Some(why) => {
                if let Some(trace) = &mut self.trace {
                    trace.lost(why, frame);
                }
                self.counters.lost(&mut self.registers, frame, why);
            }
        }
        self.look_at_script();
    }

    /// The switch drops frames that bear the port's own address as source, unless the VSI wants them.
    pub fn is_own(&self, frame: &[u8]) -> bool {
        frame.get(6..12) == Some(&self.config.mac) && !self.firmware.vsi.receives_own()
    }

    pub fn deliver(&mut self, frame: &[u8], stamp: Option<u8>) -> Option<Lost> {
        let filter = self.flow_director.find(&mut self.registers, frame);
        self.counters.rx_directed += u64::from(filter.is_some());
        let (mut queue, hash) = self.choose_queue(frame);
        match filter {
            Some(filter) if filter.destination == Destination::Drop || filter.vsi != VSI_NUMBER => {
                return Some(Lost::Directed);
            }
            Some(filter) if filter.destination == Destination::Queue => {
                queue = self.firmware.vsi.first_queue() + filter.queue;
            }
            _ => {}
        }
        let filter = filter.map(|filter| filter.report.then_some(filter.id));
        let tail = self.registers.get(regs::QRX_TAIL + 4 * queue) & 0x1fff;
        let Some(Some(rx)) = self.rx.get_mut(queue as usize) else { return Some(Lost::NoDescriptor) };
        if self.faults.rx_empty > 0 {
            return Some(Lost::NoDescriptor);
        }
        self.faults.marks.queue = queue;
        let meta = RxMeta {
            hash,
            filter,
            stamp,
            strip_tag: self.firmware.vsi.strips_tags(),
            double: self.firmware.double_vlan,
        };
        match rx.receive(&self.memory, tail, frame, meta, &mut self.faults.marks) {
            Ok(None) => {
                self.faults.busy |= self.faults.marks.waiting();
                if !self.rx_touched.contains(&queue) {
                    self.rx_touched.push(queue);
                }
                None
            }
            Ok(lost) => lost,
            Err(_) => {
                self.counters.dma_faults += 1;
                Some(Lost::NoDescriptor)
            }
        }
    }

    /// Queue and flow hash of a frame: through the RSS table where the flow's type has a hash, else the VSI's first
    /// queue.
    pub fn choose_queue(&self, frame: &[u8]) -> (u32, Option<u32>) {
        let (first, count) = self.firmware.vsi.queues();
        match crate::filter::rss::hash(&self.registers, frame) {
            Some(hash) => {
                let entry = crate::filter::rss::table_entry(&self.registers, hash);
                (first + entry % count, Some(hash))
            }
            None => (first, None),
        }
    }

    pub fn interrupt_receivers(&mut self) {
        while let Some(queue) = self.rx_touched.pop() {
            self.interrupts.queue_event(&mut self.registers, regs::QINT_RQCTL + 4 * queue);
        }
    }

    pub fn reset(&mut self) {
        if let Some(trace) = &mut self.trace {
            trace.note("reset");
        }
        self.registers.reset();
        self.flow_director.reset();
        self.hmc.reset();
        self.firmware.reset();
        self.interrupts.reset();
        self.tx.iter_mut().for_each(|slot| *slot = None);
        self.rx.iter_mut().for_each(|slot| *slot = None);
        self.rx_running.clear();
        self.rx_touched.clear();
        self.tx_waiting.clear();
        self.queue_requests.clear();
        self.reset_reads = None;
        self.faults.reset();
    }
}
