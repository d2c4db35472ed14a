//! The guest's memory, as the card reaches it.
//!
//! A VMM hands pieces of it over as files with an offset; a guest's write may come at any moment, so bytes are copied
//! in and out and no reference to them is made. Pieces come and go in order; nothing is kept of an address.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::fs::fstat;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// An address that the card can't reach, or not in that direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DmaFault {
    /// The address.
    pub addr: u64,
    /// Bytes.
    pub len: usize,
}

impl fmt::Display for DmaFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no memory for {} bytes at {:#x}", self.len, self.addr)
    }
}

struct Map {
    iova: u64,
    size: u64,
    /// `None`: the VMM named the piece and gave no file.
    base: Option<NonNull<u8>>,
    readable: bool,
    writable: bool,
}

// SAFETY: a mapping belongs to the process, not to a thread, and is unmapped once, on drop.
unsafe impl Send for Map {}

impl Drop for Map {
    fn drop(&mut self) {
        if let Some(base) = self.base {
            // SAFETY: exactly what `GuestMemory::map` mapped, and no copy of the pointer outlives the map.
            let _ = unsafe { munmap(base.as_ptr().cast(), self.size as usize) };
        }
    }
}

/// All pieces that are mapped now.
#[derive(Default)]
pub struct GuestMemory {
    maps: Vec<Map>,
    recent: std::cell::Cell<usize>,
}

impl GuestMemory {
    /// Most pieces; a VMM has some dozens, and a process has some ten thousand mappings at most.
    const MOST: usize = 4096;

    /// Adds a piece.
    pub fn map(
        &mut self,
        iova: u64,
        size: u64,
        file: Option<(BorrowedFd<'_>, u64)>,
        readable: bool,
        writable: bool,
    ) -> std::io::Result<()> {
        use std::io::ErrorKind::{AlreadyExists, InvalidInput, OutOfMemory};
        let end = iova.checked_add(size).filter(|end| *end > iova).ok_or(InvalidInput)?;
        let overlaps = self.maps.iter().any(|map| map.iova < end && iova < map.iova + map.size);
        if overlaps {
            return Err(AlreadyExists.into());
        }
        if self.maps.len() >= Self::MOST {
            return Err(OutOfMemory.into());
        }
        let base = match file {
            None => None,
            Some((file, offset)) => {
                let mut protection = ProtFlags::READ;
                protection.set(ProtFlags::WRITE, writable);
                let len = usize::try_from(size).map_err(|_| InvalidInput)?;
                // What lies behind the end of a file can be mapped and not be touched.
                let file_size = u64::try_from(fstat(file)?.st_size).unwrap_or(0);
                if offset.checked_add(size).is_none_or(|end| end > file_size) {
                    return Err(InvalidInput.into());
                }
                // SAFETY: a new mapping at an address that the kernel chooses touches no existing memory.
                let at =
                    unsafe { mmap(std::ptr::null_mut(), len, protection, MapFlags::SHARED, file, offset)? };
                NonNull::new(at.cast())
            }
        };
        self.maps.push(Map { iova, size, base, readable, writable });
        Ok(())
    }

    /// Takes away every piece that lies within the range. Says whether there was one.
    pub fn unmap(&mut self, iova: u64, size: u64) -> bool {
        let before = self.maps.len();
        let end = iova.saturating_add(size);
        self.maps.retain(|map| map.iova < iova || map.iova + map.size > end);
        self.recent.set(0);
        self.maps.len() != before
    }

    /// Takes away everything.
    pub fn clear(&mut self) {
        self.maps.clear();
    }

    /// Where up to `len` bytes from `addr` on lie, and how many of them in one piece.
    fn find(&self, addr: u64, len: usize, write: bool) -> Option<(NonNull<u8>, usize)> {
        let hit = |map: &Map| addr.wrapping_sub(map.iova) < map.size;
        let recent = self.recent.get();
        let index = match self.maps.get(recent) {
            Some(map) if hit(map) => recent,
            _ => self.maps.iter().position(hit)?,
        };
        self.recent.set(index);
        let map = self.maps.get(index)?;
        if !(if write { map.writable } else { map.readable }) {
            return None;
        }
        let offset = addr - map.iova;
        let here = (map.size - offset).min(len as u64) as usize;
        // SAFETY: `offset` is less than the size of the mapping.
        Some((unsafe { map.base?.add(offset as usize) }, here))
    }

    /// Fills `to` from `addr` on.
    pub fn read(&self, addr: u64, to: &mut [u8]) -> Result<(), DmaFault> {
        let fault = DmaFault { addr, len: to.len() };
        let mut done = 0;
        while done < to.len() {
            let left = &mut to[done..];
            let at = addr.checked_add(done as u64).ok_or(fault)?;
            let (from, here) = self.find(at, left.len(), false).ok_or(fault)?;
            // SAFETY: `here` bytes from `from` on are mapped, `left` has at least as many, and a private slice
            // can't overlap with a shared mapping.
            unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), left.as_mut_ptr(), here) };
            done += here;
        }
        Ok(())
    }

    /// Writes `from` at `addr`.
    pub fn write(&self, addr: u64, from: &[u8]) -> Result<(), DmaFault> {
        let fault = DmaFault { addr, len: from.len() };
        let mut done = 0;
        while done < from.len() {
            let left = &from[done..];
            let at = addr.checked_add(done as u64).ok_or(fault)?;
            let (to, here) = self.find(at, left.len(), true).ok_or(fault)?;
            // SAFETY: as in `read`, the other way.
            unsafe { std::ptr::copy_nonoverlapping(left.as_ptr(), to.as_ptr(), here) };
            done += here;
        }
        Ok(())
    }

    /// Writes a quadword at a multiple of 8, whole, after everything that was written before.
    pub fn publish_u64(&self, addr: u64, value: u64) -> Result<(), DmaFault> {
        let at = self.word(addr, 8)?;
        // SAFETY: mapped, aligned (`word` checks), and only reached by whole loads and stores or by copies.
        unsafe { AtomicU64::from_ptr(at.cast().as_ptr()) }.store(value, Ordering::Release);
        Ok(())
    }

    /// Writes a doubleword at a multiple of 4, whole, after everything that was written before.
    pub fn publish_u32(&self, addr: u64, value: u32) -> Result<(), DmaFault> {
        let at = self.word(addr, 4)?;
        // SAFETY: as in `publish_u64`.
        unsafe { AtomicU32::from_ptr(at.cast().as_ptr()) }.store(value, Ordering::Release);
        Ok(())
    }

    fn word(&self, addr: u64, len: usize) -> Result<NonNull<u8>, DmaFault> {
        let fault = DmaFault { addr, len };
        let (at, here) = self.find(addr, len, true).ok_or(fault)?;
        if here == len && at.as_ptr().addr().is_multiple_of(len) { Ok(at) } else { Err(fault) }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;

    fn memory() -> GuestMemory {
        let fd = memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&fd, 0x4000).unwrap();
        let mut memory = GuestMemory::default();
        memory.map(0x10000, 0x1000, Some((fd.as_fd(), 0x1000)), true, true).unwrap();
        memory.map(0x11000, 0x1000, Some((fd.as_fd(), 0)), true, true).unwrap();
        memory.map(0x12000, 0x1000, Some((fd.as_fd(), 0x2000)), true, false).unwrap();
        memory.map(0x20000, 0x1000, None, true, true).unwrap();
        memory
    }

    #[test]
    fn an_access_may_span_pieces() {
        let memory = memory();
        let bytes: Vec<u8> = (0..=255).collect();
        memory.write(0x10f80, &bytes).unwrap();
        let mut back = [0; 256];
        memory.read(0x10f80, &mut back).unwrap();
        assert_eq!(back[..], bytes);
    }

    #[test]
    fn what_is_not_mapped_or_not_writable_is_a_fault() {
        let memory = memory();
        let mut byte = [0; 2];
        assert!(memory.read(0x12fff, &mut byte).is_err());
        assert!(memory.read(0x20000, &mut byte).is_err());
        assert!(memory.read(u64::MAX, &mut byte).is_err());
        assert!(memory.write(0x12000, &byte).is_err());
        assert!(memory.read(0x12000, &mut byte).is_ok());
        assert!(memory.publish_u64(0x10004, 1).is_err());
        assert!(memory.publish_u64(0x10008, 1).is_ok());
    }

    #[test]
    fn pieces_come_and_go() {
        let mut memory = memory();
        let fd = memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
        assert!(memory.map(0x10800, 0x1000, Some((fd.as_fd(), 0)), true, true).is_err());
        assert!(memory.map(u64::MAX, 2, None, true, true).is_err());
        ftruncate(&fd, 0x1000).unwrap();
        assert!(memory.map(0x80000, 0x1000, Some((fd.as_fd(), 1)), true, true).is_err());
        assert!(memory.map(0x80000, 0x1000, Some((fd.as_fd(), 0)), true, true).is_ok());
        assert!(memory.unmap(0x10000, 0x1000));
        assert!(!memory.unmap(0x10000, 0x1000));
        assert!(memory.read(0x10000, &mut [0]).is_err());
        assert!(memory.read(0x11000, &mut [0]).is_ok());
    }
}
