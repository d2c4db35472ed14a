//! What a script does to the card, and what goes on from event to event.

use super::{ALWAYS, Fault, Script};
use crate::adminq::{self, Event};
use crate::card::Card;
use crate::regs;

/// Events between two changes of a link that flaps.
const FLAP_EVENTS: u32 = 8;
const GLGEN_RSTAT: u32 = 0x0b_8188;

impl Card {
    /// Frames that went through the MAC.
    fn frames(&self) -> u64 {
        self.counters.rx_frames + self.counters.tx_frames
    }

    /// Plays a script from now on, after whatever is left of one before.
    pub fn play(&mut self, script: &Script) {
        let base = self.frames();
        self.faults.plan.extend(script.faults.iter().map(|planned| (base + planned.after, planned.fault)));
        // The next one is the last; those for the same frame keep their order.
        self.faults.plan.reverse();
        self.faults.plan.sort_by_key(|(after, _)| std::cmp::Reverse(*after));
        self.play_due();
    }

    /// Begins what is due by now.
    pub fn play_due(&mut self) {
        while self.faults.plan.last().is_some_and(|(after, _)| *after <= self.frames()) {
            if let Some((_, fault)) = self.faults.plan.pop() {
                self.begin(fault);
            }
        }
        self.faults.due = self.faults.plan.last().map(|(after, _)| *after);
    }

    /// Looks whether the script has come to something; nothing but a comparison when it has not.
    #[inline]
    pub fn look_at_script(&mut self) {
        if self.faults.due.is_some_and(|due| self.frames() >= due) {
            self.play_due();
        }
    }

    fn begin(&mut self, fault: Fault) {
        let faults = &mut self.faults;
        faults.busy = true;
        match fault {
            Fault::Admin(opcode, how, times) => faults.admin.push((opcode, how, times)),
            Fault::Register(offset, value, times) => faults.reads.push((offset, value, times)),
            Fault::Queue(queue) => faults.queues.push(queue),
            Fault::Reset(reads) => faults.reset_delay = reads,
            Fault::Marks(direction, how, skip, times) => faults.marks.misbehave(direction, how, skip, times),
            Fault::Fetch(events) => faults.fetch.left = events,
            Fault::RxEmpty(events) => faults.rx_empty = events,
            Fault::Link(up) => self.plug(up),
            Fault::Flap(times) => faults.flap = (times.saturating_mul(2), FLAP_EVENTS, 1),
            Fault::PfReset => self.reset(),
            Fault::CardReset(reads) => self.card_reset(reads),
            Fault::Firmware(firmware, api) => self.firmware.set_version(firmware, api),
            Fault::Lldp(on) => self.firmware.lldp.configure(on),
            Fault::Queues(queues) => {
                faults.reads.push((regs::PFLAN_QALLOC, 1 << 31 | (queues - 1) << 16, ALWAYS));
                self.firmware.queues = queues;
            }
            Fault::MacConfigNeedsLink => {
                faults.mac_config_needs_link = true;
                self.firmware.link.short_frames = true;
            }
            Fault::Event(opcode, length, times) => {
                let event = Event { opcode, params: [0xee; 16], length };
                for _ in 0..times.min(1024) {
                    adminq::post_event(&mut self.registers, &self.memory, &mut self.interrupts, &event);
                }
            }
        }
    }

    /// All functions are reset, and the statistics with them.
    fn card_reset(&mut self, reads: u32) {
        const RESETS: u32 = 3 << 4;
        const ONE: u32 = 1 << 4;
        self.registers.clear_statistics();
        let counted = self.registers.get(GLGEN_RSTAT);
        self.reset();
        self.firmware.lldp.restart();
        self.registers.set(GLGEN_RSTAT, counted.wrapping_add(ONE) & RESETS);
        if reads > 0 {
            self.faults.reads.push((GLGEN_RSTAT, 1, reads));
        }
    }

    /// Plugs or pulls the cable.
    pub fn plug(&mut self, up: bool) {
        let before = self.firmware.link.up();
        self.firmware.link.plugged = up;
        if self.firmware.link.up() != before {
            self.link_changed();
        }
    }

    /// Time goes on by one event, for a card with something that waits for it.
    #[inline]
    pub fn event(&mut self) {
        if self.faults.busy {
            self.fault_event();
        }
    }

    fn fault_event(&mut self) {
        self.faults.marks.event(&self.memory);
        self.faults.rx_empty = self.faults.rx_empty.saturating_sub(1);
        self.faults.fetch.left = self.faults.fetch.left.saturating_sub(1);
        if self.faults.admin_late > 0 {
            self.faults.admin_late -= 1;
            if self.faults.admin_late == 0 {
                self.faults.admin_now = true;
                self.admin();
            }
        }
        let (changes, every, next) = self.faults.flap;
        if changes > 0 && next <= 1 {
            self.faults.flap = (changes - 1, every, every);
            self.plug(changes % 2 == 1);
        } else if changes > 0 {
            self.faults.flap.2 = next - 1;
        }
        self.faults.busy = self.waits_for_events();
    }

    /// Something goes on by itself if it is only given time.
    pub fn waits_for_events(&self) -> bool {
        let faults = &self.faults;
        faults.marks.waiting()
            || faults.rx_empty > 0
            || faults.admin_late > 0
            || faults.flap.0 > 0
            || faults.fetch.left > 0
            || faults.fetch.holds()
    }

    /// A doorbell that is looked at later: notes what it handed over.
    pub fn hold_doorbell(&mut self, queue: u32) {
        let tail = self.registers.get(regs::QTX_TAIL + 4 * queue) & 0x1fff;
        let Some(Some(tx)) = self.tx.get(queue as usize) else { return };
        let from = self.faults.fetch.from(queue, tx.head());
        self.faults.fetch.hold(&self.memory, queue, tail, tx.pieces(&self.memory, from, tail));
        self.faults.fetch.plant(&self.memory, queue, tx.reports(&self.memory, from, tail));
    }

    /// The time of doorbells that wait has come: their queues are worked off as soon as there is a wire.
    pub fn release_doorbells(&mut self) {
        if self.faults.fetch.left > 0 || !self.faults.fetch.holds() {
            return;
        }
        for (queue, changed) in self.faults.fetch.release(&self.memory) {
            if let Some(what) = changed {
                self.violations.record(what);
            }
            if !self.tx_waiting.contains(&queue) {
                self.tx_waiting.push(queue);
            }
        }
    }
}
