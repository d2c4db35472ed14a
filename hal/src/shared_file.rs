//! Memory in a file that another process maps, too.
//!
//! Who gave us a file may make it shorter, and then a page that is touched is not there any more (SIGBUS). So there is a
//! handler: it puts an empty page of our own into its place, and notes that it did; whoever looks after the file can see it
//! then, and nobody else notices.

use alloc::sync::Arc;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::OnceLock;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use crate::DmaMemory;

/// Files that can be mapped at once.
const MOST: usize = 1024;
const PAGE: usize = 4096;

/// Where a file is mapped; a length of 0 is nobody's place.
struct Place {
    taken: AtomicBool,
    base: AtomicUsize,
    len: AtomicUsize,
    /// A page was not there.
    torn: AtomicBool,
}

static PLACES: [Place; MOST] = [const {
    Place {
        taken: AtomicBool::new(false),
        base: AtomicUsize::new(0),
        len: AtomicUsize::new(0),
        torn: AtomicBool::new(false),
    }
}; MOST];

/// A file and where it is mapped.
struct Mapping {
    base: NonNull<u8>,
    len: usize,
    place: &'static Place,
}

// SAFETY: the mapping belongs to the process, not to a thread; it is only unmapped on drop.
unsafe impl Send for Mapping {}
// SAFETY: as above; `Mapping` itself never touches the bytes.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(file: BorrowedFd<'_>, len: usize) -> io::Result<Self> {
        handle_missing_pages()?;
        let free = PLACES.iter().find(|place| !place.taken.swap(true, Ordering::AcqRel));
        let place = free.ok_or_else(|| io::Error::other("too many files are mapped"))?;
        let mapped = map(file, len);
        let base = match mapped {
            Ok(base) => base,
            Err(error) => {
                place.taken.store(false, Ordering::Release);
                return Err(error);
            }
        };
        place.torn.store(false, Ordering::Release);
        place.base.store(base.as_ptr().addr(), Ordering::Release);
        place.len.store(len, Ordering::Release);
        Ok(Self { base, len, place })
    }
}

fn map(file: BorrowedFd<'_>, len: usize) -> io::Result<NonNull<u8>> {
    // SAFETY: a new mapping at an address that the kernel chooses touches no existing memory.
    let at = unsafe {
        mmap(core::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file, 0)?
    };
    NonNull::new(at.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.place.len.store(0, Ordering::Release);
        // SAFETY: exactly the mapping made in `new`; every `DmaMemory` handle holds an `Arc` of this value, so none is left.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
        self.place.taken.store(false, Ordering::Release);
    }
}

/// A file that is mapped; a clone is the same one.
#[derive(Clone)]
pub struct SharedFile {
    file: Arc<OwnedFd>,
    memory: DmaMemory,
    place: &'static Place,
}

impl SharedFile {
    /// A new file of `len` bytes, in memory, that nobody can shorten.
    ///
    /// # Errors
    /// What the system said.
    pub fn new(len: usize) -> io::Result<Self> {
        let file = memfd_create("barewire-shared", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, len as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK)?;
        Self::map(file, len)
    }

    /// The file at `path`, as long as it is.
    ///
    /// # Errors
    /// What the system said.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = std::fs::File::options().read(true).write(true).open(path)?;
        let len = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        Self::map(file.into(), len)
    }

    /// The first `len` bytes of a file, which has them now.
    ///
    /// # Errors
    /// It is shorter, or what the system said.
    pub fn map(file: OwnedFd, len: usize) -> io::Result<Self> {
        let has = fstat(&file)?.st_size;
        if len == 0 || u64::try_from(has).is_ok_and(|has| has < len as u64) {
            let told = std::format!("{len} bytes of a file of {has}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, told));
        }
        let mapping = Mapping::new(file.as_fd(), len)?;
        let (base, place) = (mapping.base, mapping.place);
        // SAFETY: mapped as long as its owner lives; a page that goes is replaced; nobody makes references to it.
        let memory = unsafe { DmaMemory::new(base, len, 0, Some(Arc::new(mapping))) };
        Ok(Self { file: Arc::new(file), memory, place })
    }

    /// Its bytes; the first one's device address is 0, so that an address is an offset.
    pub const fn memory(&self) -> &DmaMemory {
        &self.memory
    }

    /// Part of it was not there when it was touched: somebody has made the file shorter.
    pub fn is_torn(&self) -> bool {
        self.place.torn.load(Ordering::Acquire)
    }
}

impl AsFd for SharedFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// What was done at SIGBUS before: the standard library looks whether a stack has overflowed.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Installs the handler, once.
fn handle_missing_pages() -> io::Result<()> {
    static INSTALLED: OnceLock<Result<(), i32>> = OnceLock::new();
    let install = || {
        let failed = || Err(io::Error::last_os_error().raw_os_error().unwrap_or(0));
        // SAFETY: all zeros is a `sigaction`: the default action, no flags.
        let mut before: libc::sigaction = unsafe { core::mem::zeroed() };
        // SAFETY: with no new action, the old one is only told.
        if unsafe { libc::sigaction(libc::SIGBUS, core::ptr::null(), &raw mut before) } != 0 {
            return failed();
        }
        // It is read in the handler, so it is there before the handler is.
        let _ = BEFORE.set(before);
        // SAFETY: as above.
        let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
        action.sa_sigaction = on_missing_page as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: the handler does what a handler may: it reads and writes atomics and makes system calls.
        let set = unsafe { libc::sigaction(libc::SIGBUS, &raw const action, core::ptr::null_mut()) };
        if set == 0 { Ok(()) } else { failed() }
    };
    INSTALLED.get_or_init(install).map_err(io::Error::from_raw_os_error)
}

/// Puts an empty page where one is missing in a file of ours. Anywhere else what was done before is done.
extern "C" fn on_missing_page(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel hands over what it says of the signal, which is SIGBUS, for which it sets the address.
    let at = unsafe { (*info).si_addr() }.addr();
    for place in &PLACES {
        let (base, len) = (place.base.load(Ordering::Acquire), place.len.load(Ordering::Acquire));
        if len > 0 && (base..base + len).contains(&at) {
            place.torn.store(true, Ordering::Release);
            let page = core::ptr::without_provenance_mut(at & !(PAGE - 1));
            let flags = MapFlags::PRIVATE | MapFlags::FIXED;
            // SAFETY: the page lies in a mapping of this module, which nobody holds references to.
            let mapped = unsafe { mmap_anonymous(page, PAGE, ProtFlags::READ | ProtFlags::WRITE, flags) };
            if mapped.is_ok() {
                return;
            }
        }
    }
    // What touched the page does so again, and this time as if there were no handler.
    let before = BEFORE.get().map_or(core::ptr::null(), core::ptr::from_ref);
    // SAFETY: the action that was there before this handler, or none, which changes nothing.
    unsafe { libc::sigaction(libc::SIGBUS, before, core::ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    #[test]
    fn two_mappings_of_a_file_are_the_same_bytes() {
        let one = SharedFile::new(1 << 16).unwrap();
        let other = SharedFile::map(one.as_fd().try_clone_to_owned().unwrap(), 1 << 15).unwrap();
        one.memory().store(100, 0x1234_5678_u32).unwrap();
        assert_eq!(other.memory().load::<u32>(100).unwrap(), 0x1234_5678);
        assert!(ftruncate(&one, 1).is_err(), "it is sealed");
        let longer = one.as_fd().try_clone_to_owned().unwrap();
        let error = SharedFile::map(longer, (1 << 16) + 1).err().unwrap();
        assert_eq!(error.to_string(), "65537 bytes of a file of 65536");
    }

    #[test]
    fn a_file_that_is_made_shorter_reads_as_zeros_and_says_so() {
        let file = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, 1 << 16).unwrap();
        let shared = SharedFile::map(file.try_clone().unwrap(), 1 << 16).unwrap();
        shared.memory().fill(7);
        ftruncate(&file, 1 << 12).unwrap();
        assert!(!shared.is_torn());
        assert_eq!(shared.memory().load::<u8>(0xfff).unwrap(), 7);
        assert!(!shared.is_torn());
        assert_eq!(shared.memory().load::<u8>(0x2fff).unwrap(), 0);
        assert!(shared.is_torn());
        shared.memory().fill(9);
        let mut bytes = [0; 1 << 16];
        shared.memory().copy_out(0, &mut bytes).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 9));
    }
}
