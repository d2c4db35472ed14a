//! The heap: for start-up only. It is closed before the first poll, and whoever asks afterwards ends the machine.
//!
//! Every allocation has cache lines of its own: what belongs to one core never lies beside what belongs to another.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicBool, Ordering};

use hal::{DmaMemory, LineHeap};
use linked_list_allocator::Heap;
use spin::mutex::SpinMutex;

use super::exit;

/// Bytes of the heap on a machine of `cores` cores: each has some 50 KiB of its own, the software half of its rings, and
/// a stack of free buffers.
pub const fn bytes(cores: usize) -> usize {
    (4 << 20) + cores * (512 << 10)
}

/// The inner heap behind a lock.
struct Locked(SpinMutex<Heap>);

struct StartupHeap {
    heap: LineHeap<Locked>,
    closed: AtomicBool,
}

#[global_allocator]
static HEAP: StartupHeap =
    StartupHeap { heap: LineHeap(Locked(SpinMutex::new(Heap::empty()))), closed: AtomicBool::new(false) };

/// Opens the heap in `memory`, which is never used for anything else.
///
/// # Safety
/// `memory` is a bare machine's, mapped one to one for ever, and no other handle to it exists. Called once.
pub unsafe fn open(memory: DmaMemory) {
    let start = ptr::with_exposed_provenance_mut::<u8>(memory.addr().as_u64() as usize);
    // SAFETY: the caller's promise; physical and virtual addresses are the same.
    unsafe { HEAP.heap.0.0.lock().init(start, memory.len()) };
}

/// From here on an allocation ends the machine.
pub fn close() {
    HEAP.closed.store(true, Ordering::Relaxed);
}

// SAFETY: the inner heap hands out distinct, suitably aligned pieces of its memory, under the lock.
unsafe impl GlobalAlloc for Locked {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.0.lock().allocate_first_fit(layout).map_or(ptr::null_mut(), NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if let Some(at) = NonNull::new(at) {
            // SAFETY: the caller's promise: `at` came from `alloc` with this layout.
            unsafe { self.0.lock().deallocate(at, layout) };
        }
    }
}

// SAFETY: hands on what the inner heap does.
unsafe impl GlobalAlloc for StartupHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if self.closed.load(Ordering::Relaxed) {
            exit::fatal(format_args!("allocation of {} bytes after start-up", layout.size()));
        }
        // SAFETY: the caller's promise.
        unsafe { self.heap.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { self.heap.dealloc(at, layout) };
    }
}
