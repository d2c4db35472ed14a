//! The final page tables: everything one to one, memory cached, registers not.
//!
//! Pages of 1 GiB where the CPU has them, else of 2 MiB. The first 4 MiB are mapped in pages of 4 KiB, so that the
//! null page and the page below the boot stack can be left out. Other cores' stacks lie anywhere, and the page around the
//! one below each is cut.

use crate::memory::Range;
use hal::bare::{Arena, cpu};
use hal::{DmaError, PhysAddr};
use x86_64::PhysAddr as PageAddr;
use x86_64::registers::control::{Cr3, Cr3Flags};
use x86_64::structures::paging::{PageTable, PageTableFlags, PhysFrame};

const PAGE: u64 = 4 << 10;
const LARGE: u64 = 2 << 20;
const HUGE: u64 = 1 << 30;
/// One to one, an address must be in the lower half.
const LIMIT: u64 = 1 << 47;
/// Up to here everything is mapped, memory or not: registers of the platform lie below 4 GiB.
const LOW: u64 = 4 << 30;

const PRESENT: PageTableFlags = PageTableFlags::PRESENT.union(PageTableFlags::WRITABLE);
/// Strong uncacheable: entry 3 of the page attribute table as it is after reset.
const UNCACHED: PageTableFlags = PageTableFlags::NO_CACHE.union(PageTableFlags::WRITE_THROUGH);

/// Why something can't be mapped.
#[derive(Debug)]
pub enum MapError {
    /// It lies too high, or is no whole page.
    Address(PhysAddr),
    /// No memory for tables.
    Memory(DmaError),
}

impl core::fmt::Display for MapError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Address(at) => write!(f, "{at:?} can't be mapped: it is no page, or lies above 47 bits"),
            Self::Memory(error) => write!(f, "page tables: {error}"),
        }
    }
}

impl core::error::Error for MapError {}

/// The tables, and memory for more.
pub struct Tables<'a> {
    root: &'static mut PageTable,
    arena: &'a mut Arena,
    gigabyte_pages: bool,
}

impl<'a> Tables<'a> {
    /// Tables for `ram` and the first 4 GiB, loaded.
    ///
    /// # Safety
    /// `arena` gives memory below 4 GiB or within what is mapped now. Runs on the boot core, whose code, data and
    /// stack lie one to one in memory that `ram` names.
    pub unsafe fn load(arena: &'a mut Arena, ram: &[Range], guard_page: u64) -> Result<Self, MapError> {
        let root = new_table(arena).map_err(MapError::Memory)?;
        let mut tables = Self { root, arena, gigabyte_pages: cpu::has_gigabyte_pages() };
        for page in (0..2 * LARGE).step_by(PAGE as usize) {
            if page != 0 && page != guard_page {
                tables.map_page(page, PAGE, PRESENT)?;
            }
        }
        tables.map_range(
            2 * LARGE,
            LOW,
            |range| if touches(ram, range) { PRESENT } else { PRESENT | UNCACHED },
        )?;
        for range in ram.iter().filter(|range| range.end > LOW) {
            if range.end > LIMIT {
                return Err(MapError::Address(PhysAddr::new(range.end)));
            }
            tables.map_range(range.start.max(LOW), range.end, |_| PRESENT)?;
        }
        let root = PhysFrame::containing_address(PageAddr::new((&raw const *tables.root).addr() as u64));
        // SAFETY: the new tables map all that the old ones mapped of memory in use, at the same addresses.
        unsafe { Cr3::write(root, Cr3Flags::empty()) };
        Ok(tables)
    }

    /// Maps `len` bytes of registers at `start`, uncached.
    pub fn map_registers(&mut self, start: PhysAddr, len: u64) -> Result<(), MapError> {
        let end =
            start.checked_add(len).filter(|end| end.as_u64() <= LIMIT).ok_or(MapError::Address(start))?;
        // Below 4 GiB everything is mapped already: what is not memory, uncached.
        let start = start.as_u64().max(LOW);
        if start < end.as_u64() {
            self.map_range(start, end.as_u64(), |_| PRESENT | UNCACHED)?;
            x86_64::instructions::tlb::flush_all();
        }
        Ok(())
    }

    /// Maps `len` bytes of memory behind a device's BAR at `start`, cached, exactly: what lies beside it keeps its own
    /// kind, even within the same large page.
    ///
    /// # Safety
    /// The range is such memory, and no other core has touched it.
    pub unsafe fn map_memory(&mut self, start: PhysAddr, len: u64) -> Result<(), MapError> {
        let end = start.checked_add(len).filter(|end| end.as_u64() <= LIMIT);
        let aligned = start.as_u64().is_multiple_of(PAGE) && len.is_multiple_of(PAGE) && start.as_u64() != 0;
        let end = end.filter(|_| aligned).ok_or(MapError::Address(start))?.as_u64();
        // First with all that lies in the same large pages, so that none of it is missing when these are cut.
        self.map_registers(start, len)?;
        let mut at = start.as_u64();
        while at < end {
            let fits = |size: u64| at.is_multiple_of(size) && end - at >= size;
            let (depth, size) = match () {
                () if self.gigabyte_pages && fits(HUGE) => (1, HUGE),
                () if fits(LARGE) => (2, LARGE),
                () => (3, PAGE),
            };
            let kind = if size == PAGE { PRESENT } else { PRESENT | PageTableFlags::HUGE_PAGE };
            let table = self.table_at(at, depth)?;
            table[index(at, depth)].set_addr(PageAddr::new(at), kind);
            at += size;
        }
        x86_64::instructions::tlb::flush_all();
        Ok(())
    }

    /// Takes the page of 4 KiB at `at` away, so that whoever touches it is found out. Larger pages around it are cut.
    ///
    /// # Safety
    /// Nothing uses the page, and no other core runs, whose buffers would have to forget it too.
    pub unsafe fn unmap(&mut self, at: PhysAddr) -> Result<(), MapError> {
        let at = at.as_u64();
        self.table_at(at, 3)?[index(at, 3)].set_unused();
        x86_64::instructions::tlb::flush_all();
        Ok(())
    }

    /// The table of level `depth` that maps `at`. One that is missing is made, and larger pages on the way are cut, to
    /// pages of the same kind.
    fn table_at(&mut self, at: u64, depth: u32) -> Result<&mut PageTable, MapError> {
        let mut table: &mut PageTable = self.root;
        for level in 0..depth {
            let entry = &mut table[index(at, level)];
            if entry.is_unused() {
                let next = new_table(self.arena).map_err(MapError::Memory)?;
                entry.set_addr(PageAddr::new((&raw const *next).addr() as u64), PRESENT);
            } else if entry.flags().contains(PageTableFlags::HUGE_PAGE) {
                let flags = entry.flags() - PageTableFlags::HUGE_PAGE;
                let (start, part, flags) = match level {
                    1 => (at / HUGE * HUGE, LARGE, flags | PageTableFlags::HUGE_PAGE),
                    _ => (at / LARGE * LARGE, PAGE, flags),
                };
                let parts = new_table(self.arena).map_err(MapError::Memory)?;
                for (page, entry) in (start..).step_by(part as usize).zip(parts.iter_mut()) {
                    entry.set_addr(PageAddr::new(page), flags);
                }
                entry.set_addr(PageAddr::new((&raw const *parts).addr() as u64), PRESENT);
            }
            let next = core::ptr::with_exposed_provenance_mut::<PageTable>(entry.addr().as_u64() as usize);
            // SAFETY: an entry that is neither unused nor a page is a table that `new_table` made; `table` is not used
            // again.
            table = unsafe { &mut *next };
        }
        Ok(table)
    }

    fn map_range(
        &mut self,
        start: u64,
        end: u64,
        flags: impl Fn(Range) -> PageTableFlags,
    ) -> Result<(), MapError> {
        let mut at = start / LARGE * LARGE;
        while at < end {
            let whole = Range { start: at, end: at + HUGE };
            let huge = self.gigabyte_pages && at.is_multiple_of(HUGE) && whole.end <= end;
            // A huge page must be of one kind: memory and registers don't share one.
            let uniform = (at..whole.end)
                .step_by(LARGE as usize)
                .all(|part| flags(Range { start: part, end: part + LARGE }) == flags(whole));
            let size = if huge && uniform { HUGE } else { LARGE };
            self.map_page(at, size, flags(Range { start: at, end: at + size }))?;
            at += size;
        }
        Ok(())
    }

    /// Maps one page; what is mapped already stays as it is.
    fn map_page(&mut self, at: u64, size: u64, flags: PageTableFlags) -> Result<(), MapError> {
        let depth = match size {
            HUGE => 1,
            LARGE => 2,
            _ => 3,
        };
        let mut table: &mut PageTable = self.root;
        for level in 0..depth {
            let entry = &mut table[index(at, level)];
            if entry.is_unused() {
                let next = new_table(self.arena).map_err(MapError::Memory)?;
                entry.set_addr(PageAddr::new((&raw const *next).addr() as u64), PRESENT);
            } else if entry.flags().contains(PageTableFlags::HUGE_PAGE) {
                return Ok(());
            }
            let next = core::ptr::with_exposed_provenance_mut::<PageTable>(entry.addr().as_u64() as usize);
            // SAFETY: an entry that is neither unused nor a page was made above, from memory that `new_table` took
            // for a table and that nothing else refers to; `table` is not used again.
            table = unsafe { &mut *next };
        }
        let entry = &mut table[index(at, depth)];
        if entry.is_unused() {
            let page = if size == PAGE { PageTableFlags::empty() } else { PageTableFlags::HUGE_PAGE };
            entry.set_addr(PageAddr::new(at), flags | page);
        }
        Ok(())
    }
}

fn index(at: u64, level: u32) -> usize {
    (at >> (39 - 9 * level) & 0x1ff) as usize
}

fn touches(ram: &[Range], range: Range) -> bool {
    ram.iter().any(|ram| ram.start < range.end && range.start < ram.end)
}

fn new_table(arena: &mut Arena) -> Result<&'static mut PageTable, DmaError> {
    let memory = arena.alloc(size_of::<PageTable>(), PAGE as usize)?;
    let at = core::ptr::with_exposed_provenance_mut::<PageTable>(memory.addr().as_u64() as usize);
    // SAFETY: zeroed, page-aligned memory that was given out just now and that nothing else uses; zeros are an empty
    // table. `memory` is dropped without having been used.
    Ok(unsafe { &mut *at })
}
