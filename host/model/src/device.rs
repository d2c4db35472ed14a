//! The device as its owner sees it: configuration space, BARs, memory, frames.

use std::os::fd::{BorrowedFd, OwnedFd};

use crate::card::Card;
use crate::faults::{Faults, Script};
use crate::pci::ConfigSpace;
use crate::ptp::Ptp;
use crate::regs;
use crate::stats::Counters;
use crate::trace::{Trace, TraceLog};
use crate::wire::Wire;

/// Bytes of BAR 3, the MSI-X table's.
pub const BAR3_BYTES: u64 = 32 << 10;
/// Frames taken from a wire in one go, so that other ports get their turn.
const PUMP_LIMIT: usize = 1024;

/// What a port is.
#[derive(Debug, Clone)]
pub struct PortConfig {
    /// PCI device id: 0x1572 (X710, 10G) or 0x1583 (XL710, 40G).
    pub device_id: u16,
    /// Its permanent address.
    pub mac: [u8; 6],
    /// Its name in messages.
    pub name: String,
}

/// A physical function, plugged into a wire.
pub struct Xl710 {
    card: Card,
    wire: Box<dyn Wire>,
}

impl Xl710 {
    /// A card that has just been powered on.
    pub fn new(config: PortConfig, wire: Box<dyn Wire>) -> Self {
        let card = Card::new(config);
        Self { card, wire }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.card.config.name
    }

    /// Reads configuration space.
    pub fn config_read(&mut self, offset: u64, data: &mut [u8]) {
        self.card.pci.read(offset, data);
    }

    /// Writes configuration space; a function level reset is carried out.
    pub fn config_write(&mut self, offset: u64, data: &[u8]) {
        if self.card.pci.write(offset, data) {
            self.card.reset();
        }
    }

    /// Reads 1 to 8 bytes of a BAR; all ones where there is nothing.
    pub fn bar_read(&mut self, bar: u32, offset: u64, data: &mut [u8]) {
        data.fill(0xff);
        match bar {
            0 if offset < regs::BAR0_BYTES => {
                self.card.read(offset as u32, data);
                if let Some(trace) = &mut self.card.trace {
                    trace.read(offset, data);
                }
            }
            3 => {
                let from = self.card.bar3.iter().skip(offset.min(BAR3_BYTES) as usize);
                data.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
            }
            _ => {}
        }
    }

    /// Writes 4 or 8 bytes of a BAR; other widths, and places where there is nothing, are ignored.
    pub fn bar_write(&mut self, bar: u32, offset: u64, data: &[u8]) {
        match bar {
            0 if offset < regs::BAR0_BYTES && offset.is_multiple_of(4) => {
                if let Some(trace) = &mut self.card.trace {
                    trace.write(offset, data);
                }
                for (at, word) in (offset as u32..).step_by(4).zip(data.chunks_exact(4)) {
                    let value = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
                    self.card.write(at, value, &mut *self.wire);
                }
            }
            3 => {
                let to = self.card.bar3.iter_mut().skip(offset.min(BAR3_BYTES) as usize);
                to.zip(data).for_each(|(to, from)| *to = *from);
            }
            _ => {}
        }
    }

    /// Gives the card a piece of memory, from `offset` of `file` on.
    ///
    /// # Errors
    /// It overlaps with another, or can't be mapped.
    pub fn map_dma(
        &mut self,
        iova: u64,
        size: u64,
        file: Option<(BorrowedFd<'_>, u64)>,
        readable: bool,
        writable: bool,
    ) -> std::io::Result<()> {
        self.card.memory.map(iova, size, file, readable, writable)
    }

    /// Takes pieces of memory away; says whether there was one.
    pub fn unmap_dma(&mut self, iova: u64, size: u64) -> bool {
        self.card.memory.unmap(iova, size)
    }

    /// Takes all memory away.
    pub fn unmap_all_dma(&mut self) {
        self.card.memory.clear();
    }

    /// Connects an MSI-X vector to an eventfd, or to nothing.
    pub fn set_msix(&mut self, vector: u32, event: Option<OwnedFd>) {
        self.card.interrupts.connect(vector, event);
    }

    /// Writes down from now on what the driver does, as lines that bear the name `port`.
    pub fn trace(&mut self, log: &TraceLog, port: &str) {
        self.card.trace = Some(Box::new(Trace::new(log.clone(), port.to_owned())));
    }

    /// Takes frames from the wire as long as there are frames and descriptors for them.
    pub fn pump(&mut self) {
        let Self { card, wire } = self;
        if let Some(trace) = &card.trace {
            trace.flush();
        }
        card.event();
        card.transmit_rest(&mut **wire);
        if let Some(frame) = card.firmware.lldp.frame() {
            wire.transmit(&frame);
        }
        let can = card.firmware.link.up() && card.pci.bus_master() && card.reset_reads.is_none();
        if !can {
            return;
        }
        let waits = wire.waits();
        wire.rx_descriptors(card.rx_free());
        for _ in 0..PUMP_LIMIT {
            if waits && !card.rx_ready() {
                break;
            }
            let Some(frame) = wire.receive() else { break };
            card.receive(frame);
        }
        card.interrupt_receivers();
    }

    /// A transmit ring is longer than what is worked off in one go: [`Xl710::pump`] goes on with it.
    pub fn is_busy(&self) -> bool {
        !self.card.tx_waiting.is_empty() || self.card.waits_for_events()
    }

    /// Plugs or pulls the cable.
    pub fn set_link(&mut self, up: bool) {
        self.card.plug(up);
    }

    /// Reset of the whole function, as a VMM does it at start.
    pub fn reset(&mut self) {
        self.card.pci = ConfigSpace::new(self.card.config.device_id, self.card.config.mac);
        self.card.ptp = Ptp::new(self.card.firmware.link.is_slow());
        self.card.reset();
    }

    /// What to do wrong from now on.
    pub fn faults(&mut self) -> &mut Faults {
        &mut self.card.faults
    }

    /// Plays a script of faults from now on: its frames are counted from here.
    pub fn play(&mut self, script: &Script) {
        self.card.play(script);
    }

    /// What the driver did that no driver may do.
    pub fn violations(&self) -> &[String] {
        self.card.violations.list()
    }

    /// Admin commands that the model does not know and a driver sent.
    pub fn unknown_commands(&self) -> &[u16] {
        &self.card.firmware.unknown
    }

    /// What the MAC saw.
    pub fn counters(&self) -> Counters {
        Counters {
            interrupts: self.card.interrupts.sent,
            violations: self.card.violations.list().len() as u64,
            ..self.card.counters
        }
    }
}
