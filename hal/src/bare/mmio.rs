//! The one window onto device registers.

use core::ptr::NonNull;

use volatile::VolatilePtr;

use crate::{Bar, NarrowBar, PhysAddr};

/// Registers of a device, mapped one to one and uncached.
#[derive(Clone, Copy)]
pub struct MmioBar {
    base: NonNull<u8>,
    size: u64,
}

// SAFETY: device registers belong to no thread; each access is one volatile load or store.
unsafe impl Send for MmioBar {}
// SAFETY: as above.
unsafe impl Sync for MmioBar {}

impl MmioBar {
    /// The window of `size` bytes at `base`; `None` at address 0 or when it is not aligned to 8 bytes.
    ///
    /// # Safety
    /// The range is mapped one to one, uncached, for as long as the program runs, holds device registers and no
    /// memory of this program, and reading any of it has no effect that breaks a rule of the language.
    pub unsafe fn new(base: PhysAddr, size: u64) -> Option<Self> {
        let base = NonNull::new(core::ptr::with_exposed_provenance_mut::<u8>(base.as_u64() as usize))?;
        base.cast::<u64>().is_aligned().then_some(Self { base, size })
    }

    fn word<T>(&self, offset: u32) -> Option<VolatilePtr<'_, T>> {
        let width = size_of::<T>() as u64;
        let inside = u64::from(offset) + width <= self.size && u64::from(offset).is_multiple_of(width);
        if !inside {
            return None;
        }
        // SAFETY: the offset lies inside of the window.
        let at = unsafe { self.base.add(offset as usize) };
        // SAFETY: mapped for ever (contract of `new`), aligned (the base is to 8, the offset to its width), and no
        // reference to registers exists anywhere.
        Some(unsafe { VolatilePtr::new(at.cast::<T>()) })
    }
}

impl Bar for MmioBar {
    fn size(&self) -> u64 {
        self.size
    }

    #[inline]
    fn read32(&self, offset: u32) -> u32 {
        self.word::<u32>(offset).map_or(u32::MAX, VolatilePtr::read)
    }

    #[inline]
    fn write32(&self, offset: u32, value: u32) {
        if let Some(word) = self.word::<u32>(offset) {
            word.write(value);
        }
    }

    #[inline]
    fn read64(&self, offset: u32) -> u64 {
        self.word::<u64>(offset).map_or(u64::MAX, VolatilePtr::read)
    }
}

impl NarrowBar for MmioBar {
    fn read8(&self, offset: u32) -> u8 {
        self.word::<u8>(offset).map_or(u8::MAX, VolatilePtr::read)
    }

    fn read16(&self, offset: u32) -> u16 {
        self.word::<u16>(offset).map_or(u16::MAX, VolatilePtr::read)
    }

    fn write8(&self, offset: u32, value: u8) {
        if let Some(word) = self.word::<u8>(offset) {
            word.write(value);
        }
    }

    fn write16(&self, offset: u32, value: u16) {
        if let Some(word) = self.word::<u16>(offset) {
            word.write(value);
        }
    }
}
