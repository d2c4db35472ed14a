//! A device behind virtio-pci: its status, features and queues (4.1.4.3, and 3.1 for the order of steps).

use core::time::Duration;

use hal::{Bar, Clock, DmaMemory, Machine, NarrowBar};

use super::pci::{Layout, Window};
use super::queue::{self, Queue};
use super::{Error, VERSION_1};

/// How long a reset may take: a device may have work under way.
const RESET_LIMIT: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_micros(50);

/// Device status bits (2.1).
mod status {
    pub const ACKNOWLEDGE: u8 = 1;
    pub const DRIVER: u8 = 2;
    pub const DRIVER_OK: u8 = 4;
    pub const FEATURES_OK: u8 = 8;
    pub const NEEDS_RESET: u8 = 64;
    pub const FAILED: u8 = 128;
}

/// Offsets in the common configuration.
mod common {
    pub const DEVICE_FEATURE_SELECT: u32 = 0x00;
    pub const DEVICE_FEATURE: u32 = 0x04;
    pub const DRIVER_FEATURE_SELECT: u32 = 0x08;
    pub const DRIVER_FEATURE: u32 = 0x0c;
    pub const CONFIG_MSIX_VECTOR: u32 = 0x10;
    pub const NUM_QUEUES: u32 = 0x12;
    pub const DEVICE_STATUS: u32 = 0x14;
    pub const CONFIG_GENERATION: u32 = 0x15;
    pub const QUEUE_SELECT: u32 = 0x16;
    pub const QUEUE_SIZE: u32 = 0x18;
    pub const QUEUE_MSIX_VECTOR: u32 = 0x1a;
    pub const QUEUE_ENABLE: u32 = 0x1c;
    pub const QUEUE_NOTIFY_OFF: u32 = 0x1e;
    pub const QUEUE_DESC: u32 = 0x20;
    pub const QUEUE_DRIVER: u32 = 0x28;
    pub const QUEUE_DEVICE: u32 = 0x30;
}

/// VIRTIO_MSI_NO_VECTOR.
const NO_VECTOR: u16 = 0xffff;

/// A structure, as a window of a register window.
#[derive(Clone)]
struct Part<B> {
    bar: B,
    place: Window,
}

impl<B: NarrowBar> Part<B> {
    fn new<E>(place: Window, bar: &mut impl FnMut(u8) -> Result<B, E>) -> Result<Option<Self>, E> {
        let bar = bar(place.bar)?;
        let inside = u64::from(place.offset) + u64::from(place.len) <= bar.size();
        Ok(inside.then_some(Self { bar, place }))
    }

    /// Where `len` bytes at `offset` lie in the BAR.
    fn at(&self, offset: u32, len: u32) -> Option<u32> {
        let end = offset.checked_add(len).filter(|end| *end <= self.place.len)?;
        Some(self.place.offset + end - len)
    }
}

/// Rings one queue's doorbell.
#[derive(Clone)]
pub struct Notifier<B> {
    bar: B,
    offset: u32,
    queue: u16,
}

impl<B: NarrowBar> Notifier<B> {
    /// Tells the device of new buffers; all earlier stores are visible to it before.
    #[inline]
    pub fn notify(&self) {
        core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
        self.bar.write16(self.offset, self.queue);
    }
}

/// The structures of a device whose driver is us. Nothing has been negotiated yet.
pub struct Transport<M: Machine> {
    machine: M,
    common: Part<M::Bar>,
    notify: Part<M::Bar>,
    multiplier: u32,
    device: Option<Part<M::Bar>>,
}

/// A device whose features are agreed and whose queues can be made; see [`Setup::run`].
pub struct Setup<M: Machine> {
    transport: Transport<M>,
    /// Features that both sides have.
    pub features: u64,
}

/// A device that runs.
pub struct Device<M: Machine> {
    transport: Transport<M>,
    /// Features that both sides have.
    pub features: u64,
}

impl<M: Machine<Bar: NarrowBar>> Transport<M> {
    /// The device whose structures lie as `layout` says. `bar` gives the registers behind a BAR, mapped; it may be asked for
    /// one several times.
    ///
    /// # Errors
    /// What `bar` says; or a structure does not lie in its BAR.
    pub fn new<E: From<Error>>(
        machine: M,
        layout: &Layout,
        mut bar: impl FnMut(u8) -> Result<M::Bar, E>,
    ) -> Result<Self, E> {
        let outside = |what, place: Window| {
            E::from(Error::Device { step: "finding structures", what, value: place.offset.into() })
        };
        let common = Part::new(layout.common, &mut bar)?;
        let common = common.ok_or_else(|| outside("common configuration's offset", layout.common))?;
        let notify = Part::new(layout.notify, &mut bar)?;
        let notify = notify.ok_or_else(|| outside("notification structure's offset", layout.notify))?;
        let device = match layout.device {
            Some(place) => Part::new(place, &mut bar)?,
            None => None,
        };
        Ok(Self { machine, common, notify, multiplier: layout.multiplier, device })
    }

    /// The machine.
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// Resets the device, offers it to us and agrees on the features that both sides have. VIRTIO_F_VERSION_1 is always
    /// asked for.
    ///
    /// # Errors
    /// The device does not come out of reset, does not offer VIRTIO_F_VERSION_1 or a feature of `needed`, or does not take
    /// our choice.
    pub fn negotiate(self, wanted: u64, needed: u64) -> Result<Setup<M>, Error> {
        const STEP: &str = "agreeing on features";
        self.reset()?;
        self.set_status(status::ACKNOWLEDGE);
        self.set_status(status::ACKNOWLEDGE | status::DRIVER);
        let offered = self.offered();
        let needed = needed | VERSION_1;
        if offered & needed != needed {
            self.fail();
            return Err(Error::Device { step: STEP, what: "device_feature", value: offered });
        }
        let features = offered & (wanted | needed);
        self.choose(features);
        let asked = status::ACKNOWLEDGE | status::DRIVER | status::FEATURES_OK;
        self.set_status(asked);
        let now = self.status();
        if now != asked {
            self.fail();
            return Err(Error::Device { step: STEP, what: "device_status", value: now.into() });
        }
        Ok(Setup { transport: self, features })
    }

    /// Resets the device: it forgets its queues, and touches no memory afterwards.
    ///
    /// # Errors
    /// [`Error::Timeout`]: the status did not become 0.
    pub fn reset(&self) -> Result<(), Error> {
        self.set_status(0);
        let mut value = 0;
        let done = || {
            value = self.status();
            (value == 0).then_some(())
        };
        self.machine.clock().poll(RESET_LIMIT, PAUSE, done).map_err(|_| Error::Timeout {
            step: "reset",
            value: value.into(),
            millis: RESET_LIMIT.as_millis() as u32,
        })
    }

    /// Queues that the device has at most.
    pub fn queues(&self) -> u16 {
        self.read16(common::NUM_QUEUES)
    }

    /// The device's own configuration, which may change at any time: bytes from `offset` on, all of one generation.
    ///
    /// # Errors
    /// There are not as many, or they change all the time.
    pub fn config<const N: usize>(&self, offset: u32) -> Result<[u8; N], Error> {
        const STEP: &str = "reading configuration";
        /// A device changes its configuration on an event, not all the time.
        const TRIES: u32 = 16;
        let short = Error::Device { step: STEP, what: "length", value: self.config_len().into() };
        let part = self.device.as_ref().ok_or(short)?;
        let start = part.at(offset, N as u32).ok_or(short)?;
        let generation = || self.read8(common::CONFIG_GENERATION);
        for _ in 0..TRIES {
            let before = generation();
            let mut bytes = [0; N];
            for (at, byte) in (start..).zip(&mut bytes) {
                *byte = part.bar.read8(at);
            }
            if generation() == before {
                return Ok(bytes);
            }
        }
        let value = generation().into();
        Err(Error::Device { step: STEP, what: "config_generation", value })
    }

    /// Bytes of the device's own configuration.
    pub fn config_len(&self) -> u32 {
        self.device.as_ref().map_or(0, |part| part.place.len)
    }

    /// Says that this driver gives up.
    fn fail(&self) {
        self.set_status(self.status() | status::FAILED);
    }

    fn offered(&self) -> u64 {
        let half = |select| {
            self.write32(common::DEVICE_FEATURE_SELECT, select);
            self.common.bar.read32(self.common.place.offset + common::DEVICE_FEATURE)
        };
        u64::from(half(1)) << 32 | u64::from(half(0))
    }

    fn choose(&self, features: u64) {
        for (select, half) in [(0, features as u32), (1, (features >> 32) as u32)] {
            self.write32(common::DRIVER_FEATURE_SELECT, select);
            self.write32(common::DRIVER_FEATURE, half);
        }
    }

    /// Makes queue `index`, of the largest size up to `size`.
    fn make_queue(&self, index: u16, size: u16) -> Result<Queue<M::Bar>, Error> {
        const STEP: &str = "making a queue";
        let error = |what, value: u64| Error::Device { step: STEP, what, value };
        if index >= self.queues() {
            return Err(Error::Request { step: STEP, what: "its index", value: index.into() });
        }
        self.write16(common::QUEUE_SELECT, index);
        let most = self.read16(common::QUEUE_SIZE);
        if self.read16(common::QUEUE_ENABLE) != 0 {
            return Err(error("queue_enable", self.read16(common::QUEUE_ENABLE).into()));
        }
        // A size is a power of two up to 32768, and 0 where the device lacks the queue.
        let size = queue::size_within(size.min(most)).ok_or(error("queue_size", most.into()))?;
        let notifier = self.notifier(index)?;
        let memory = self.machine.dma_alloc(queue::bytes(size), queue::ALIGN);
        let memory = memory.map_err(|error| Error::Memory(STEP, error))?;
        self.tell_queue(size, &memory)?;
        Queue::new(memory, size, notifier)
    }

    fn tell_queue(&self, size: u16, memory: &DmaMemory) -> Result<(), Error> {
        const STEP: &str = "making a queue";
        self.write16(common::QUEUE_SIZE, size);
        self.write16(common::QUEUE_MSIX_VECTOR, NO_VECTOR);
        let (driver, device) = queue::areas(size);
        for (register, offset) in
            [(common::QUEUE_DESC, 0), (common::QUEUE_DRIVER, driver), (common::QUEUE_DEVICE, device)]
        {
            let addr = memory.addr_at(offset).map_err(super::error::layout(STEP))?;
            self.write32(register, addr.low());
            self.write32(register + 4, addr.high());
        }
        self.write16(common::QUEUE_ENABLE, 1);
        match self.read16(common::QUEUE_ENABLE) {
            1 => Ok(()),
            value => Err(Error::Device { step: STEP, what: "queue_enable", value: value.into() }),
        }
    }

    /// The doorbell of the queue that is selected, `index`.
    fn notifier(&self, index: u16) -> Result<Notifier<M::Bar>, Error> {
        let value = self.read16(common::QUEUE_NOTIFY_OFF);
        let error = Error::Device { step: "making a queue", what: "queue_notify_off", value: value.into() };
        let offset = u32::from(value).checked_mul(self.multiplier).ok_or(error)?;
        let offset = self.notify.at(offset, 2).filter(|at| at.is_multiple_of(2)).ok_or(error)?;
        Ok(Notifier { bar: self.notify.bar.clone(), offset, queue: index })
    }

    fn status(&self) -> u8 {
        self.read8(common::DEVICE_STATUS)
    }

    fn set_status(&self, value: u8) {
        self.common.bar.write8(self.common.place.offset + common::DEVICE_STATUS, value);
    }

    fn read8(&self, register: u32) -> u8 {
        self.common.bar.read8(self.common.place.offset + register)
    }

    fn read16(&self, register: u32) -> u16 {
        self.common.bar.read16(self.common.place.offset + register)
    }

    fn write16(&self, register: u32, value: u16) {
        self.common.bar.write16(self.common.place.offset + register, value);
    }

    fn write32(&self, register: u32, value: u32) {
        self.common.bar.write32(self.common.place.offset + register, value);
    }
}

impl<M: Machine<Bar: NarrowBar>> Setup<M> {
    /// The transport: its queues' number, its configuration.
    pub fn transport(&self) -> &Transport<M> {
        &self.transport
    }

    /// Makes queue `index` with `size` descriptors, or as many as the device has if that is less. No interrupts.
    ///
    /// # Errors
    /// There is no such queue, no memory for it, or what the device says of it makes no sense.
    pub fn queue(&mut self, index: u16, size: u16) -> Result<Queue<M::Bar>, Error> {
        let made = self.transport.make_queue(index, size);
        if made.is_err() {
            self.transport.fail();
        }
        made
    }

    /// Lets the device run.
    ///
    /// # Errors
    /// It does not.
    pub fn run(self) -> Result<Device<M>, Error> {
        let Self { transport, features } = self;
        transport.write16(common::CONFIG_MSIX_VECTOR, NO_VECTOR);
        transport.set_status(transport.status() | status::DRIVER_OK);
        let now = transport.status();
        if now & status::DRIVER_OK == 0 || now & (status::NEEDS_RESET | status::FAILED) != 0 {
            return Err(Error::Device { step: "starting", what: "device_status", value: now.into() });
        }
        Ok(Device { transport, features })
    }
}

impl<M: Machine<Bar: NarrowBar>> Device<M> {
    /// The transport: its configuration, a reset.
    pub fn transport(&self) -> &Transport<M> {
        &self.transport
    }

    /// The device says that it can't go on before a reset.
    pub fn needs_reset(&self) -> bool {
        self.transport.status() & status::NEEDS_RESET != 0
    }
}
