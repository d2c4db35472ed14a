//! A machine inside of a process: memory that can be handed to another process or to a device model by
//! file descriptor, the host's clock, and a register window that a closure serves.

use alloc::sync::Arc;
use core::ptr::NonNull;
use core::time::Duration;
use std::boxed::Box;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;
use std::time::Instant;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::{Bar, Clock, DmaError, DmaMemory, Machine, NarrowBar};

/// The host's monotonic clock, a tick a nanosecond.
#[derive(Debug, Clone, Copy)]
pub struct HostClock(Instant);

impl Default for HostClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for HostClock {
    fn ticks(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
    fn ticks_per_second(&self) -> u64 {
        1_000_000_000
    }
    fn relax(&self) {
        std::thread::yield_now();
    }
    fn delay(&self, duration: Duration) {
        std::thread::sleep(duration);
    }
}

/// A shared mapping of a memfd.
struct Mapping {
    base: NonNull<u8>,
    len: usize,
    fd: OwnedFd,
}

// SAFETY: the mapping belongs to the process, not to a thread; it is only unmapped on drop.
unsafe impl Send for Mapping {}
// SAFETY: as above; `Mapping` itself never touches the bytes.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(len: usize) -> io::Result<Self> {
        let fd = memfd_create("barewire-dma", MemfdFlags::CLOEXEC)?;
        ftruncate(&fd, len as u64)?;
        // SAFETY: a new mapping at an address that the kernel chooses touches no existing memory.
        let at = unsafe {
            mmap(core::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &fd, 0)?
        };
        let base = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, len, fd })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `new`; every `DmaMemory` handle holds an `Arc` of this value, so
        // none is left.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}

struct Shared {
    mapping: Arc<Mapping>,
    used: Mutex<usize>,
}

/// A machine whose device memory is one memfd, from device address [`HostedMachine::DMA_BASE`] on.
#[derive(Clone)]
pub struct HostedMachine<B> {
    shared: Arc<Shared>,
    clock: HostClock,
    bar: core::marker::PhantomData<fn() -> B>,
}

impl<B> HostedMachine<B> {
    /// The device address of the first byte: not 0, so that a forgotten address is noticed.
    pub const DMA_BASE: u64 = 0x1_0000_0000;

    /// A machine with `len` bytes of device memory.
    ///
    /// # Errors
    /// What the host said to creating or mapping the memory.
    pub fn new(len: usize) -> io::Result<Self> {
        let mapping = Arc::new(Mapping::new(len)?);
        let shared = Arc::new(Shared { mapping, used: Mutex::new(0) });
        Ok(Self { shared, clock: HostClock::default(), bar: core::marker::PhantomData })
    }

    /// The file behind the device memory, to be mapped by whoever plays the device.
    pub fn dma_fd(&self) -> BorrowedFd<'_> {
        self.shared.mapping.fd.as_fd()
    }

    /// Bytes of device memory.
    pub fn dma_len(&self) -> usize {
        self.shared.mapping.len
    }

    fn reserve(&self, len: usize, align: usize) -> Option<usize> {
        let mut used = self.shared.used.lock().ok()?;
        let start = used.checked_next_multiple_of(align)?;
        let end = start.checked_add(len)?;
        if end > self.shared.mapping.len {
            return None;
        }
        *used = end;
        Some(start)
    }
}

impl<B: Bar> Machine for HostedMachine<B> {
    type Bar = B;
    type Clock = HostClock;

    fn clock(&self) -> &HostClock {
        &self.clock
    }

    fn dma_alloc(&self, len: usize, align: usize) -> Result<DmaMemory, DmaError> {
        let start = self.reserve(len, align.max(1)).ok_or(DmaError { len })?;
        // SAFETY: `start + len` lies inside of the mapping, checked in `reserve`.
        let base = unsafe { self.shared.mapping.base.add(start) };
        let owner = self.shared.mapping.clone();
        // SAFETY: mapped as long as `owner` lives; no one else got this range; a fresh memfd is zero and holds
        // no Rust object.
        Ok(unsafe { DmaMemory::new(base, len, Self::DMA_BASE + start as u64, Some(owner)) })
    }
}

/// What the other side of a [`FakeBar`] does with an access.
pub trait Registers: Send {
    /// A read of `data.len()` bytes (1, 2, 4 or 8) at `offset`.
    fn read(&mut self, offset: u32, data: &mut [u8]);
    /// A write of 4 bytes at `offset`.
    fn write(&mut self, offset: u32, value: u32);
    /// A write of `data.len()` bytes (1 or 2) at `offset`; nothing happens where it is not written out.
    fn write_narrow(&mut self, offset: u32, data: &[u8]) {
        let _ = (offset, data);
    }
}

/// A register window that a [`Registers`] serves, for tests and for a device model in the same process.
#[derive(Clone)]
pub struct FakeBar {
    registers: Arc<Mutex<Box<dyn Registers>>>,
    size: u64,
}

impl FakeBar {
    /// A window of `size` bytes in front of `registers`.
    pub fn new(size: u64, registers: impl Registers + 'static) -> Self {
        Self { registers: Arc::new(Mutex::new(Box::new(registers))), size }
    }

    fn inside(&self, offset: u32, len: u32) -> bool {
        offset.is_multiple_of(len) && u64::from(offset) + u64::from(len) <= self.size
    }
}

impl Bar for FakeBar {
    fn size(&self) -> u64 {
        self.size
    }

    fn read32(&self, offset: u32) -> u32 {
        let mut data = [0xff; 4];
        if let (true, Ok(mut registers)) = (self.inside(offset, 4), self.registers.lock()) {
            registers.read(offset, &mut data);
        }
        u32::from_le_bytes(data)
    }

    fn write32(&self, offset: u32, value: u32) {
        if let (true, Ok(mut registers)) = (self.inside(offset, 4), self.registers.lock()) {
            registers.write(offset, value);
        }
    }

    fn read64(&self, offset: u32) -> u64 {
        let mut data = [0xff; 8];
        if let (true, Ok(mut registers)) = (self.inside(offset, 8), self.registers.lock()) {
            registers.read(offset, &mut data);
        }
        u64::from_le_bytes(data)
    }
}

impl NarrowBar for FakeBar {
    fn read8(&self, offset: u32) -> u8 {
        let mut data = [0xff];
        if let (true, Ok(mut registers)) = (self.inside(offset, 1), self.registers.lock()) {
            registers.read(offset, &mut data);
        }
        data[0]
    }

    fn read16(&self, offset: u32) -> u16 {
        let mut data = [0xff; 2];
        if let (true, Ok(mut registers)) = (self.inside(offset, 2), self.registers.lock()) {
            registers.read(offset, &mut data);
        }
        u16::from_le_bytes(data)
    }

    fn write8(&self, offset: u32, value: u8) {
        if let (true, Ok(mut registers)) = (self.inside(offset, 1), self.registers.lock()) {
            registers.write_narrow(offset, &[value]);
        }
    }

    fn write16(&self, offset: u32, value: u16) {
        if let (true, Ok(mut registers)) = (self.inside(offset, 2), self.registers.lock()) {
            registers.write_narrow(offset, &value.to_le_bytes());
        }
    }
}

/// A register window that is ordinary memory: a doorbell in it is one store, for whoever plays a device on the same core
/// and measures what is in front of it.
#[derive(Clone)]
pub struct MemoryBar(DmaMemory);

impl MemoryBar {
    /// The registers in `memory`.
    pub fn new(memory: DmaMemory) -> Self {
        Self(memory)
    }
}

impl Bar for MemoryBar {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    #[inline]
    fn read32(&self, offset: u32) -> u32 {
        self.0.load(offset as usize).unwrap_or(u32::MAX)
    }

    #[inline]
    fn write32(&self, offset: u32, value: u32) {
        let _ = self.0.store(offset as usize, value);
    }

    fn read64(&self, offset: u32) -> u64 {
        self.0.load(offset as usize).unwrap_or(u64::MAX)
    }
}

/// Throws the cache line with byte `offset` of `memory` out of all caches; outside of it nothing happens.
#[cfg(target_arch = "x86_64")]
pub fn flush_line(memory: &DmaMemory, offset: usize) {
    use core::arch::x86_64::{_mm_clflush, _mm_mfence};
    if offset < memory.len() {
        // SAFETY: the byte lies inside of the mapping. Every x86-64 CPU has both instructions; they change no memory.
        unsafe {
            _mm_clflush(memory.base().add(offset).as_ptr());
            _mm_mfence();
        }
    }
}

/// The time stamp counter, after everything before has been executed and before anything behind is.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn time_stamp() -> u64 {
    use core::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: reads a counter between two fences; every x86-64 CPU has all three, and the kernel lets user code read it.
    unsafe {
        _mm_lfence();
        let ticks = _rdtsc();
        _mm_lfence();
        ticks
    }
}
