//! Turning queues on and off. Datasheet: "Queue Enable/Disable Flow".

use core::time::Duration;

use hal::{Bar, BarAccess, Clock, Machine, RegArray, Rw};

use super::error::Error;
use super::regs::{self, QueueEnable, TxPreQdis};
use super::reset;

/// Drivers wait up to a second for the card to follow.
const LIMIT: Duration = Duration::from_secs(1);
/// Time for a card that follows after all, before a withdrawn request is believed to be over.
const GRACE: Duration = Duration::from_millis(50);
const GROUP: u32 = 128;

/// Which of the two enable registers.
#[derive(Clone, Copy)]
pub enum Direction {
    /// QRX_ENA
    Rx,
    /// QTX_ENA
    Tx,
}

impl Direction {
    const fn register(self) -> (RegArray<QueueEnable, Rw, { regs::QUEUES }>, &'static str) {
        match self {
            Self::Rx => (regs::QRX_ENA, "QRX_ENA"),
            Self::Tx => (regs::QTX_ENA, "QTX_ENA"),
        }
    }
}

/// Announces that transmit queue `absolute` (counted over the whole card) is about to be disabled.
pub fn warn_of_disable<B: Bar>(bar: &B, absolute: u32) {
    txpre(bar, absolute, TxPreQdis::SET_QDIS);
}

/// Announces that transmit queue `absolute` is about to be enabled.
pub fn warn_of_enable<B: Bar>(bar: &B, absolute: u32) {
    txpre(bar, absolute, TxPreQdis::CLEAR_QDIS);
}

fn txpre<B: Bar>(bar: &B, absolute: u32, action: TxPreQdis) {
    const INDEX: u32 = 0x7ff;
    if let Some(register) = regs::GLLAN_TXPRE_QDIS.get((absolute / GROUP) as usize) {
        bar.update(register, |old| {
            let kept = old.bits() & !INDEX & !(TxPreQdis::SET_QDIS | TxPreQdis::CLEAR_QDIS).bits();
            TxPreQdis::from_bits_retain(kept | (absolute % GROUP)) | action
        });
    }
}

/// Turns both directions of queue `index` off without waiting, with their interrupts.
pub fn turn_off<B: Bar>(bar: &B, index: usize) {
    for array in [regs::QINT_TQCTL, regs::QINT_RQCTL] {
        if let Some(register) = array.get(index) {
            bar.write(register, 0);
        }
    }
    for array in [regs::QTX_ENA, regs::QRX_ENA] {
        if let Some(register) = array.get(index) {
            bar.write(register, QueueEnable::empty());
        }
    }
}

/// Takes back a request to turn queue `index` on that the card has not followed.
pub fn withdraw<M: Machine>(
    machine: &M,
    bar: &M::Bar,
    direction: Direction,
    index: usize,
) -> Result<(), Error> {
    const STEP: &str = "withdrawal of a queue enable";
    let (array, name) = direction.register();
    let register =
        array.get(index).ok_or(Error::Request { step: STEP, what: "queue", value: index as u64 })?;
    bar.update(register, |value| value - QueueEnable::REQ);
    machine.clock().delay(GRACE);
    reset::wait(machine, STEP, name, LIMIT, || {
        let value = bar.read(register);
        (value.bits(), !value.intersects(QueueEnable::REQ | QueueEnable::STAT))
    })
}

/// Queue `index` runs, or is wanted to, or its register can't be read.
pub fn is_running<B: Bar>(bar: &B, direction: Direction, index: usize) -> bool {
    let (array, _) = direction.register();
    array
        .get(index)
        .is_some_and(|register| bar.read(register).intersects(QueueEnable::REQ | QueueEnable::STAT))
}

/// Turns queue `index` on or off and waits until the card has followed. A request that is still under way is
/// waited for first.
pub fn set_enabled<M: Machine>(
    machine: &M,
    bar: &M::Bar,
    direction: Direction,
    index: usize,
    on: bool,
) -> Result<(), Error> {
    let (array, name) = direction.register();
    let step = if on { "queue enable" } else { "queue disable" };
    let register = array.get(index).ok_or(Error::Request { step, what: "queue", value: index as u64 })?;
    let settled = |value: QueueEnable| {
        value.contains(QueueEnable::REQ) == value.contains(QueueEnable::STAT) && value.bits() != u32::MAX
    };
    reset::wait(machine, step, name, LIMIT, || {
        let value = bar.read(register);
        (value.bits(), settled(value))
    })?;
    bar.update(register, |mut value| {
        value.set(QueueEnable::REQ, on);
        value
    });
    reset::wait(machine, step, name, LIMIT, || {
        let value = bar.read(register);
        (value.bits(), value.contains(QueueEnable::STAT) == on && settled(value))
    })
}
