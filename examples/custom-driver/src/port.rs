//! Bring-up, queues, link and statistics of a port.

use core::time::Duration;

use boot::port::ImagePort;
use hal::{BarAccess, Clock, DescRing, DmaMemory, Machine, Reg, Ro};
use kernel::port::{Link, MacAddr, PortControl, PortStats, QueueCounters, QueueSetup};
use kernel::{BLOCK, Buffers};

use crate::regs::{self, RingRegs};
use crate::{Error, Rx, Trouble, Tx};

/// A reset takes microseconds, and the card reads its EEPROM behind it (section 14.3).
const RESET_LIMIT: Duration = Duration::from_millis(100);
const EEPROM: Duration = Duration::from_millis(5);
/// What the card has begun when it is turned off ends within this time (by Linux's driver).
const SETTLE: Duration = Duration::from_millis(10);
/// How long the card may take to send a full ring: at 10 Mbit/s five seconds.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);
/// Descriptors that a ring can have.
const MOST: u16 = 4096;
/// Bytes of a descriptor.
const DESCRIPTOR: usize = 16;
/// Bytes that a buffer must take.
const ROOM: u32 = 2048;
const FCS: u64 = 4;

/// An 82540EM.
pub struct E1000<M: Machine> {
    machine: M,
    bar: M::Bar,
    mac: MacAddr,
    promiscuous: bool,
    /// Memory of the receive and of the transmit ring, kept over stop and start.
    rings: [Option<DmaMemory>; 2],
    stats: PortStats,
}

impl<M: Machine> E1000<M> {
    /// Resets the card behind `bar` and gets it ready; its queues are off.
    ///
    /// # Errors
    /// The step that failed.
    pub fn new(machine: M, bar: M::Bar, promiscuous: bool) -> Result<Self, Error> {
        reset(&machine, &bar)?;
        for entry in (0..128).filter_map(|index| regs::MTA.get(index)) {
            bar.write(entry, 0);
        }
        bar.update(regs::CTRL, |ctrl| ctrl | regs::CTRL_SLU | regs::CTRL_ASDE);
        let (low, high) = (bar.read(regs::RAL), bar.read(regs::RAH));
        let [a, b, c, d] = low.to_le_bytes();
        let [e, f, ..] = high.to_le_bytes();
        if high & regs::RAH_AV == 0 || a & 1 != 0 || high == u32::MAX {
            return Err(Error::NoAddress(high));
        }
        let mac = MacAddr([a, b, c, d, e, f]);
        let mut port =
            Self { machine, bar, mac, promiscuous, rings: [None, None], stats: PortStats::default() };
        // What was counted before is not this port's.
        port.stats();
        port.stats = PortStats::default();
        Ok(port)
    }

    /// A ring of `count` descriptors that the card knows of, without any that it could use.
    fn ring(&mut self, which: usize, regs: &RingRegs, count: u16) -> Result<DescRing<2>, Error> {
        let bytes = usize::from(count) * DESCRIPTOR;
        let kept = self.rings.get(which).cloned().flatten().filter(|memory| memory.len() >= bytes);
        let memory = match kept {
            Some(memory) => memory,
            None => self.machine.dma_alloc(bytes, 128).map_err(Error::Memory)?,
        };
        if let Some(slot) = self.rings.get_mut(which) {
            *slot = Some(memory.clone());
        }
        let address = memory.addr().as_u64();
        let [low, high] = regs.base;
        for (register, value) in [
            (low, address as u32),
            (high, (address >> 32) as u32),
            (regs.len, bytes as u32),
            (regs.head, 0),
            (regs.tail, 0),
        ] {
            self.bar.write(register, value);
        }
        DescRing::new(memory, count.into()).ok_or(Error::RingSize(count))
    }

    fn rctl(&self) -> u32 {
        let promiscuous = if self.promiscuous { regs::RCTL_PROMISCUOUS } else { 0 };
        regs::RCTL_EN | regs::RCTL_BAM | regs::RCTL_SECRC | promiscuous
    }
}

/// Section 14.3, with all interrupts off.
fn reset<M: Machine>(machine: &M, bar: &M::Bar) -> Result<(), Error> {
    let clock = machine.clock();
    bar.write(regs::IMC, u32::MAX);
    bar.write(regs::RCTL, 0);
    bar.write(regs::TCTL, 0);
    clock.delay(SETTLE);
    bar.update(regs::CTRL, |ctrl| ctrl | regs::CTRL_RST);
    let clear = || (bar.read(regs::CTRL) & regs::CTRL_RST == 0).then_some(());
    // A register must not be read while the reset begins.
    clock.delay(Duration::from_micros(10));
    clock.poll(RESET_LIMIT, Duration::from_micros(100), clear).map_err(Error::Reset)?;
    clock.delay(EEPROM);
    bar.write(regs::IMC, u32::MAX);
    bar.read(regs::ICR);
    Ok(())
}

fn check(queue: u16, setup: &QueueSetup) -> Result<(), Error> {
    let count = setup.descriptors;
    if queue != 0 {
        return Err(Error::Queue(queue));
    }
    if !(1..=MOST).contains(&count) || !usize::from(count).is_multiple_of(BLOCK) {
        return Err(Error::RingSize(count));
    }
    if setup.layout.room < ROOM { Err(Error::BufferRoom(setup.layout.room)) } else { Ok(()) }
}

impl<M: Machine> PortControl for E1000<M> {
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
        check(queue, setup)?;
        let ring = self.ring(0, &regs::RX, setup.descriptors)?;
        let mut rx = Rx::new(ring, self.bar.doorbell(regs::RX.tail), setup);
        rx.arm(buffers);
        self.bar.write(regs::RCTL, self.rctl());
        Ok(rx)
    }

    fn start_tx(&mut self, queue: u16, setup: &QueueSetup) -> Result<Self::Tx, Error> {
        check(queue, setup)?;
        let ring = self.ring(1, &regs::TX, setup.descriptors)?;
        self.bar.write(regs::TIPG, regs::TIPG_COPPER);
        let tx = Tx::new(ring, self.bar.doorbell(regs::TX.tail), setup);
        self.bar.write(regs::TCTL, regs::TCTL_EN | regs::TCTL_COLLISIONS);
        Ok(tx)
    }

    fn stop_rx(&mut self, rx: Self::Rx, buffers: &mut impl Buffers) -> Result<QueueCounters, Error> {
        self.bar.write(regs::RCTL, 0);
        self.machine.clock().delay(SETTLE);
        Ok(rx.release(buffers))
    }

    fn stop_tx(&mut self, tx: Self::Tx, buffers: &mut impl Buffers) -> Result<QueueCounters, Error> {
        let clock = self.machine.clock();
        // A link that is down lets nothing out: then there is nothing to wait for.
        let idle = || (tx.is_idle() || self.bar.read(regs::STATUS) & regs::STATUS_LU == 0).then_some(());
        let _ = clock.poll(DRAIN_LIMIT, Duration::from_micros(50), idle);
        self.bar.write(regs::TCTL, 0);
        clock.delay(SETTLE);
        Ok(tx.release(buffers))
    }

    fn set_promiscuous(&mut self, on: bool) -> Result<(), Error> {
        self.promiscuous = on;
        if self.bar.read(regs::RCTL) & regs::RCTL_EN != 0 {
            self.bar.write(regs::RCTL, self.rctl());
        }
        Ok(())
    }

    fn link(&mut self) -> Result<Link, Error> {
        let status = self.bar.read(regs::STATUS);
        if status == u32::MAX || status & regs::STATUS_LU == 0 {
            return Ok(Link::default());
        }
        let speed = match status >> regs::STATUS_SPEED_SHIFT & 3 {
            0 => 10,
            1 => 100,
            _ => 1000,
        };
        Ok(Link { up: true, speed })
    }

    fn stats(&mut self) -> PortStats {
        let count = |register| match self.bar.read(register) {
            u32::MAX => 0,
            count => u64::from(count),
        };
        let bytes = |[low, high]: [Reg<u32, Ro>; 2], frames: u64| {
            (count(low) | count(high) << 32).saturating_sub(FCS * frames)
        };
        let (rx_frames, tx_frames) = (count(regs::GPRC), count(regs::GPTC));
        self.stats.rx_frames += rx_frames;
        self.stats.rx_bytes += bytes(regs::GORC, rx_frames);
        self.stats.rx_missed += count(regs::MPC);
        self.stats.rx_errors += count(regs::CRCERRS) + count(regs::RXERRC);
        self.stats.tx_frames += tx_frames;
        self.stats.tx_bytes += bytes(regs::GOTC, tx_frames);
        self.stats
    }
}

impl<M: Machine> ImagePort for E1000<M> {
    type Trouble = Trouble;
    type Watch = ();

    fn trouble(&mut self) -> Option<Trouble> {
        (self.bar.read(regs::STATUS) == u32::MAX).then_some(Trouble::Gone)
    }

    fn shut_down(self) -> Result<(), Error> {
        reset(&self.machine, &self.bar)
    }
}
