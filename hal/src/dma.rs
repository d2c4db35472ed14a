//! Memory that a device reads and writes.
//!
//! Nothing here makes a reference to the memory itself. Values are copied in and out, whole, so a device that
//! writes at a wrong moment can make a value wrong but never break a rule of the language.

use alloc::sync::Arc;
use core::any::Any;
use core::fmt;
use core::ptr::{self, NonNull};

use crate::DmaAddr;

/// Memory for devices could not be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DmaError {
    /// Bytes asked for.
    pub len: usize,
}

impl fmt::Display for DmaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no {} bytes of device memory left", self.len)
    }
}

impl core::error::Error for DmaError {}

/// An offset and length that do not lie inside of the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfBounds {
    /// First byte.
    pub offset: usize,
    /// Bytes.
    pub len: usize,
}

impl fmt::Display for OutOfBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at offset {:#x} lie outside of the memory", self.len, self.offset)
    }
}

impl core::error::Error for OutOfBounds {}

mod sealed {
    pub trait Sealed {}
}

/// Values that are nothing but bytes: each pattern is valid, and there is no padding.
pub trait Plain: Copy + sealed::Sealed {}

macro_rules! plain {
    ($($t:ty),+) => {$(
        impl sealed::Sealed for $t {}
        impl Plain for $t {}
    )+};
}
plain!(u8, u16, u32, u64, u128);
impl<T: Plain, const N: usize> sealed::Sealed for [T; N] {}
impl<T: Plain, const N: usize> Plain for [T; N] {}

/// A piece of memory that a device may use; a clone is another handle to the same bytes.
#[derive(Clone)]
pub struct DmaMemory {
    base: NonNull<u8>,
    len: usize,
    addr: DmaAddr,
    /// What keeps the memory mapped; `None` on a machine that never takes memory back.
    owner: Option<Arc<dyn Any + Send + Sync>>,
}

// SAFETY: the memory has no thread affinity, stays mapped as long as a handle lives (contract of `new`), and
// is only reached through copies of plain values, so handles may be used from any thread.
unsafe impl Send for DmaMemory {}
// SAFETY: as above; no method gives out a reference to the bytes.
unsafe impl Sync for DmaMemory {}

impl DmaMemory {
    /// A handle to `len` bytes at `base`, which devices call `addr`.
    ///
    /// # Safety
    /// The bytes are mapped, readable and writable, as long as `owner` lives (for ever without one); nobody
    /// in this program holds a reference to them; and `addr` is what the device calls them.
    pub unsafe fn new(
        base: NonNull<u8>,
        len: usize,
        addr: u64,
        owner: Option<Arc<dyn Any + Send + Sync>>,
    ) -> Self {
        Self { base, len, addr: DmaAddr::new(addr), owner }
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// No bytes at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What a device calls the first byte.
    pub fn addr(&self) -> DmaAddr {
        self.addr
    }

    /// What a device calls byte `offset`.
    ///
    /// # Errors
    /// [`OutOfBounds`] from the end on.
    pub fn addr_at(&self, offset: usize) -> Result<DmaAddr, OutOfBounds> {
        self.check(offset, 1)?;
        Ok(DmaAddr::new(self.addr.as_u64() + offset as u64))
    }

    /// A handle to a part of this memory.
    ///
    /// # Errors
    /// [`OutOfBounds`] when the part does not lie inside.
    pub fn part(&self, offset: usize, len: usize) -> Result<Self, OutOfBounds> {
        self.check(offset, len)?;
        // SAFETY: `offset + len <= self.len`, so the part starts inside or at the end of the same mapping.
        let base = unsafe { self.base.add(offset) };
        let addr = DmaAddr::new(self.addr.as_u64() + offset as u64);
        Ok(Self { base, len, addr, owner: self.owner.clone() })
    }

    /// Copies a value out.
    ///
    /// # Errors
    /// [`OutOfBounds`] when it does not lie inside.
    #[inline]
    pub fn load<T: Plain>(&self, offset: usize) -> Result<T, OutOfBounds> {
        self.check(offset, size_of::<T>())?;
        // SAFETY: the bytes lie inside of the mapping (checked above); `T` is plain, so any bytes will do.
        Ok(unsafe { self.base.add(offset).cast::<T>().read_unaligned() })
    }

    /// Copies a value in.
    ///
    /// # Errors
    /// [`OutOfBounds`] when it does not lie inside; then nothing is written.
    #[inline]
    pub fn store<T: Plain>(&self, offset: usize, value: T) -> Result<(), OutOfBounds> {
        self.check(offset, size_of::<T>())?;
        // SAFETY: the bytes lie inside of the mapping (checked above), and nobody holds a reference to them.
        unsafe { self.base.add(offset).cast::<T>().write_unaligned(value) };
        Ok(())
    }

    /// Copies bytes out.
    ///
    /// # Errors
    /// [`OutOfBounds`] when they do not lie inside; then `to` is unchanged.
    pub fn copy_out(&self, offset: usize, to: &mut [u8]) -> Result<(), OutOfBounds> {
        self.check(offset, to.len())?;
        // SAFETY: the bytes lie inside of the mapping, and `to` is a Rust slice, which can't overlap with it.
        unsafe { ptr::copy_nonoverlapping(self.base.add(offset).as_ptr(), to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    /// Copies bytes in.
    ///
    /// # Errors
    /// [`OutOfBounds`] when they do not lie inside; then nothing is written.
    pub fn copy_in(&self, offset: usize, from: &[u8]) -> Result<(), OutOfBounds> {
        self.check(offset, from.len())?;
        // SAFETY: as in `copy_out`, the other way.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), self.base.add(offset).as_ptr(), from.len()) };
        Ok(())
    }

    /// Sets every byte to `value`.
    pub fn fill(&self, value: u8) {
        // SAFETY: exactly the mapped bytes are written.
        unsafe { ptr::write_bytes(self.base.as_ptr(), value, self.len) };
    }

    /// Where `len` bytes from `offset` on lie, which are mapped as long as a handle lives.
    #[inline]
    pub(crate) fn bytes_at(&self, offset: usize, len: usize) -> Result<*mut u8, OutOfBounds> {
        self.check(offset, len)?;
        // SAFETY: `offset <= self.len`, checked above.
        Ok(unsafe { self.base.as_ptr().add(offset) })
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    #[inline]
    fn check(&self, offset: usize, len: usize) -> Result<(), OutOfBounds> {
        if offset <= self.len && len <= self.len - offset { Ok(()) } else { Err(OutOfBounds { offset, len }) }
    }
}

impl fmt::Debug for DmaMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {:?}", self.len, self.addr)
    }
}
