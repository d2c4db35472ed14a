//! The machine, from boot information to one that drivers can run on.

use alloc::format;
use alloc::vec::Vec;
use core::ptr::NonNull;

use crate::acpi::{madt, mcfg};
use crate::memory::{self, Range};
use crate::pvh::BootInfo;
use drivers::ivshmem::{self, Place};
use hal::bare::cpu;
use hal::bare::{Arena, BareMachine, MmioBar, TscClock};
use hal::pci::access::{Ecam, Ports};
use hal::pci::{Address, BarError, BarInfo, ConfigSpace, Tree, bars};
use hal::simd::{Isa, Level};
use hal::{Clock, DmaMemory, Machine, PhysAddr};
use kernel::config::MAX_CORES;
use spin::mutex::SpinMutex;

use super::console::println;
use super::cores::{self, Cores, Ground};
use super::paging::{MapError, Tables};
use super::{BringUpError, entry, exit, heap, physical};

static ARENA: SpinMutex<Arena> = SpinMutex::new(Arena::new());
/// Tables take memory of their own, so that they can be extended while drivers allocate.
static TABLE_ARENA: SpinMutex<Arena> = SpinMutex::new(Arena::new());
const TABLE_BYTES: usize = 2 << 20;
/// Modules and the image.
const MAX_TAKEN: usize = 17;

/// The machine that the image runs on, with everything that bring-up needs.
pub struct BootMachine {
    pub(super) machine: BareMachine,
    /// The vector level that all cores have.
    pub(super) level: Level,
    pub(super) cores: Cores,
    /// PCI configuration space.
    pub(super) config: Config,
    tables: Tables<'static>,
    /// First address above all memory.
    top: u64,
}

/// Memory of an ivshmem device.
pub struct Window {
    /// Where the device is.
    pub at: Address,
    /// The memory, all of it.
    pub memory: DmaMemory,
}

/// One of the two ways into configuration space.
pub enum Config {
    /// By memory.
    Ecam(Ecam<MmioBar>),
    /// By I/O ports.
    Ports(Ports),
}

impl ConfigSpace for Config {
    fn read(&self, at: Address, offset: u16) -> u32 {
        match self {
            Self::Ecam(ecam) => ecam.read(at, offset),
            Self::Ports(ports) => ports.read(at, offset),
        }
    }

    fn write(&mut self, at: Address, offset: u16, value: u32) {
        match self {
            Self::Ecam(ecam) => ecam.write(at, offset, value),
            Self::Ports(ports) => ports.write(at, offset, value),
        }
    }
}

/// Starts the machine: memory, page tables, heap, vector state, clock, configuration space, all cores.
pub fn start(info: &BootInfo) -> BootMachine {
    // SAFETY: once, on the only core that runs, before any vector instruction.
    let level = unsafe { cpu::enable_vectors() };
    let listed = madt::cores(&physical::LowMemory, info.rsdp);
    let taken = taken(info);
    let mut tables = start_memory(info, &taken, heap::bytes(listed.ids.len().clamp(1, MAX_CORES)));
    // SAFETY: nothing else uses the timer.
    let clock = unsafe { TscClock::calibrate() };
    println!(
        "memory {} MiB free, vectors {level}, tsc {} kHz from {}",
        ARENA.lock().free() >> 20,
        clock.ticks_per_second() / 1000,
        clock.source()
    );
    // The last that reads firmware's tables, before the page that cores start in is written.
    let config = config_space(info, &mut tables);
    let ground =
        Ground { listed: &listed, ram: &info.ram, taken: &taken, arena: &ARENA, tables: &mut tables, clock };
    // SAFETY: once, on the boot core; the final tables are loaded.
    let cores = unsafe { Cores::start(level, ground) };
    let machine = BareMachine::new(clock, &ARENA);
    BootMachine { machine, level: cores::level(), cores, config, tables, top: memory::top(&info.ram) }
}

/// Memory that is not free: modules and the image.
fn taken(info: &BootInfo) -> heapless::Vec<Range, MAX_TAKEN> {
    let mut taken = heapless::Vec::new();
    if info.modules.iter().chain([&entry::image_range()]).any(|range| taken.push(*range).is_err()) {
        exit::fatal(format_args!("more modules than can be kept out of the way"));
    }
    taken
}

fn start_memory(info: &BootInfo, taken: &[Range], heap_bytes: usize) -> Tables<'static> {
    let usable = memory::usable(&info.ram, taken);
    let tables_memory = {
        let mut arena = ARENA.lock();
        for range in &usable {
            // SAFETY: memory of the map that neither image nor modules lie in. What lies above 4 GiB is not mapped
            // yet; the arena gives out low memory first, and nothing above is touched before the tables are loaded.
            unsafe { arena.add(range.start, range.end) };
        }
        arena.alloc(TABLE_BYTES, 4096)
    };
    let tables_memory =
        tables_memory.unwrap_or_else(|error| exit::fatal(format_args!("memory for page tables: {error}")));
    let start = tables_memory.addr().as_u64();
    let arena = spin::mutex::SpinMutexGuard::leak(TABLE_ARENA.lock());
    // SAFETY: given out just now, and `tables_memory` is not used otherwise.
    unsafe { arena.add(start, start + TABLE_BYTES as u64) };
    // SAFETY: the first usable range lies below 4 GiB on every machine that could load the image; the image lies in
    // memory of the map.
    let tables = unsafe { Tables::load(arena, &info.ram, entry::stack_guard_page()) };
    let tables = tables.unwrap_or_else(|error| exit::fatal(format_args!("{error}")));
    match ARENA.lock().alloc(heap_bytes, 4096) {
        // SAFETY: fresh memory of the bare machine, used for nothing else; called once.
        Ok(memory) => unsafe { heap::open(memory) },
        Err(error) => exit::fatal(format_args!("memory for the heap: {error}")),
    }
    tables
}

fn config_space(info: &BootInfo, tables: &mut Tables<'static>) -> Config {
    let Some(found) = mcfg::ecam(&physical::LowMemory, info.rsdp) else {
        // SAFETY: the only user of the ports.
        return Config::Ports(unsafe { Ports::new() });
    };
    if let Err(error) = tables.map_registers(PhysAddr::new(found.base), found.bytes()) {
        exit::fatal(format_args!("configuration space: {error}"));
    }
    // SAFETY: mapped uncached just now or with the first 4 GiB; ACPI says that it is configuration space.
    match unsafe { MmioBar::new(PhysAddr::new(found.base), found.bytes()) } {
        Some(window) => Config::Ecam(Ecam::new(window, found.first_bus)),
        None => exit::fatal(format_args!("configuration space at {:#x}", found.base)),
    }
}

impl BootMachine {
    /// The loops that queues are started with.
    pub(super) fn isa(&self, config: &kernel::config::Config) -> Isa {
        Isa::at_most(config.isa.unwrap_or(Level::Avx512).min(self.level))
    }

    /// The register window of a device, mapped.
    ///
    /// # Safety
    /// The range is a memory BAR of a device that this program drives.
    pub(super) unsafe fn map_bar(&mut self, base: PhysAddr, size: u64) -> Result<MmioBar, MapError> {
        self.tables.map_registers(base, size)?;
        // SAFETY: mapped uncached just now, or below 4 GiB, where what is not memory is uncached; a BAR, by the caller's
        // promise.
        unsafe { MmioBar::new(base, size) }.ok_or(MapError::Address(base))
    }

    /// Place and size of memory BAR `index`, which gets a place if it has none.
    pub(super) fn place_bar(&mut self, at: Address, index: u8) -> Result<BarInfo, BarError> {
        let top = &mut self.top;
        bars::probe_or_place(&mut self.config, at, index, |size| place_for_bar(top, size))
    }

    /// The memory that every ivshmem device shares with its host, mapped and cached, in the order of their PCI addresses.
    /// Devices know it by the same addresses. Called once.
    ///
    /// # Errors
    /// Of the first device whose memory can't be had.
    pub fn shared_memory(&mut self) -> Result<Vec<Window>, BringUpError> {
        let tree = Tree::scan(&self.config);
        let top = &mut self.top;
        let found = ivshmem::find(&tree, &mut self.config, |size| place_for_bar(top, size))?;
        let mut windows = Vec::new();
        for Place { at, base, size } in found {
            // SAFETY: memory of a device that nobody has touched yet, since its driver is this one.
            unsafe { self.tables.map_memory(base, size) }.map_err(|error| format!("{at}: {error}"))?;
            let start = core::ptr::with_exposed_provenance_mut::<u8>(base.as_u64() as usize);
            let start = NonNull::new(start).ok_or(MapError::Address(base))?;
            // SAFETY: mapped one to one just now, for ever; no object of this program lies in a BAR, and devices see
            // physical addresses, of a BAR too. The host may write to it at any time, as a device may to its memory.
            let memory = unsafe { DmaMemory::new(start, size as usize, base.as_u64(), None) };
            windows.push(Window { at, memory });
        }
        Ok(windows)
    }

    /// As drivers see it.
    pub fn machine(&self) -> &BareMachine {
        &self.machine
    }

    /// The clock.
    pub fn clock(&self) -> &TscClock {
        self.machine.clock()
    }
}

/// Address space for a BAR of `size` bytes, a power of two, that firmware gave no place: above all memory, whose end is
/// `top`, and above 4 GiB.
fn place_for_bar(top: &mut u64, size: u64) -> u64 {
    let highest = (1_u64 << cpu::physical_address_bits()).min(1 << 46);
    let start = (*top).max(highest / 2).next_multiple_of(size);
    *top = start + size;
    start
}
