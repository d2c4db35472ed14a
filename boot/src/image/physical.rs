//! Physical memory before and after the final page tables: the first 4 GiB are always mapped one to one.

use core::ptr;

use crate::pvh::Physical;

/// The first 4 GiB, for tables of loader and firmware.
pub struct LowMemory;

const END: u64 = 1 << 32;

impl Physical for LowMemory {
    fn read(&self, at: u64, to: &mut [u8]) -> bool {
        let inside = at != 0 && at.checked_add(to.len() as u64).is_some_and(|end| end <= END);
        if !inside {
            return false;
        }
        for (at, to) in (at..).zip(to) {
            let from = ptr::with_exposed_provenance::<u8>(at as usize);
            // SAFETY: the first 4 GiB are mapped and readable; the byte is copied, whoever owns it, and no reference
            // to it is made. The loader's and the firmware's tables are no objects of this program.
            *to = unsafe { from.read_volatile() };
        }
        true
    }
}
