//! From whatever state a predecessor left to a function that has just been reset.

use core::time::Duration;

use hal::{Bar, BarAccess, Clock, Machine};

use super::error::Error;
use super::queue;
use super::regs::{self, NvmUld, PfGenCtrl, QAlloc};

const PAUSE: Duration = Duration::from_micros(100);
/// A reset takes milliseconds; 900 ms have been seen.
const PF_RESET_LIMIT: Duration = Duration::from_secs(3);
const LOAD_LIMIT: Duration = Duration::from_secs(2);
/// Bound for a reset of the whole card that is under way when the driver comes.
const GLOBAL_RESET_LIMIT: Duration = Duration::from_secs(16);

/// Queues that the card has given to the function: number of the first, and how many.
pub fn allocated_queues<B: Bar>(bar: &B) -> (u32, u32) {
    let alloc = bar.read(regs::PFLAN_QALLOC);
    let (first, last) = (alloc.bits() & 0x7ff, alloc.bits() >> 16 & 0x7ff);
    let usable = alloc.contains(QAlloc::VALID) && first <= last && (last as usize) < regs::QUEUES;
    if usable { (first, last - first + 1) } else { (0, 0) }
}

/// Quiet, reset, and with firmware that can run a port.
pub fn start_over<M: Machine>(machine: &M, bar: &M::Bar) -> Result<(), Error> {
    quiesce(machine, bar);
    pf_reset(machine, bar)?;
    check_firmware(bar)
}

/// Turns off interrupts and queues, so that the card writes to no memory of a predecessor's.
fn quiesce<M: Machine>(machine: &M, bar: &M::Bar) {
    bar.write(regs::PFINT_ICR0_ENA, 0);
    // ITR index 3: no update of a throttling timer goes with the write.
    bar.write(regs::PFINT_DYN_CTL0, 3 << 3);
    bar.write(regs::PFINT_LNKLST0, 0x7ff);
    let (first, count) = allocated_queues(bar);
    for index in 0..count {
        queue::warn_of_disable(bar, first + index);
    }
    machine.clock().delay(Duration::from_micros(400));
    for index in 0..count as usize {
        queue::turn_off(bar, index);
    }
    machine.clock().delay(Duration::from_micros(50));
}

/// Resets the physical function. Datasheet: "Software Reset".
fn pf_reset<M: Machine>(machine: &M, bar: &M::Bar) -> Result<(), Error> {
    wait_for_global_reset(machine, bar)?;
    wait_for_load(machine, bar)?;
    bar.update(regs::PFGEN_CTRL, |ctrl| ctrl | PfGenCtrl::PFSWR);
    wait(machine, "reset of the function", "PFGEN_CTRL", PF_RESET_LIMIT, || {
        let ctrl = bar.read(regs::PFGEN_CTRL);
        (ctrl.bits(), !ctrl.contains(PfGenCtrl::PFSWR))
    })?;
    // A reset of the whole card may have come in between.
    wait_for_global_reset(machine, bar)?;
    wait_for_load(machine, bar)
}

/// Firmware that is in recovery mode can't run a port.
fn check_firmware<B: Bar>(bar: &B) -> Result<(), Error> {
    let status = bar.read(regs::GL_FWSTS);
    if status >> 16 & 0xff == 0 {
        return Ok(());
    }
    Err(Error::Card {
        step: "state of the firmware",
        what: "GL_FWSTS (recovery mode)",
        value: u64::from(status),
    })
}

fn wait_for_global_reset<M: Machine>(machine: &M, bar: &M::Bar) -> Result<(), Error> {
    let units = bar.read(regs::GLGEN_RSTCTL) & 0x3f;
    let limit = Duration::from_millis(u64::from(units + 10) * 100).min(GLOBAL_RESET_LIMIT);
    wait(machine, "reset of the card", "GLGEN_RSTAT", limit, || {
        let status = bar.read(regs::GLGEN_RSTAT);
        (status, status & 3 == 0)
    })
}

fn wait_for_load<M: Machine>(machine: &M, bar: &M::Bar) -> Result<(), Error> {
    let done = NvmUld::CORE_DONE | NvmUld::GLOBAL_DONE;
    wait(machine, "load of the card's settings", "GLNVM_ULD", LOAD_LIMIT, || {
        let uld = bar.read(regs::GLNVM_ULD);
        // All ones is a card that is gone, not one that is ready.
        (uld.bits(), uld.contains(done) && uld.bits() != u32::MAX)
    })
}

/// Polls a register until `read` says that its value will do.
pub fn wait<M: Machine>(
    machine: &M,
    step: &'static str,
    register: &'static str,
    limit: Duration,
    read: impl Fn() -> (u32, bool),
) -> Result<(), Error> {
    let mut value = 0;
    let done = machine.clock().poll(limit, PAUSE, || {
        let (now, good) = read();
        value = now;
        good.then_some(())
    });
    done.map_err(|timeout| Error::Timeout { step, register, value, millis: timeout.limit.as_millis() as u32 })
}
