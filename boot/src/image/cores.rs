//! All cores of the machine: started one by one, asleep until there is work for them, told of by number.
//!
//! Core 0 is the one that booted. The others are numbered as they come up, in the order of ACPI's table.

use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use core::time::Duration;

use crate::acpi::madt;
use crate::memory::{self, Range};
use hal::bare::apic::{ApicError, Message};
use hal::bare::cpu;
use hal::bare::{Arena, LocalApic, MmioBar, TscClock};
use hal::simd::Level;
use hal::{Clock, PhysAddr};
use kernel::config::MAX_CORES;
use spin::mutex::SpinMutex;
use x86_64::instructions::{hlt, interrupts};
use x86_64::registers::control::Cr3;
use x86_64::structures::tss::TaskStateSegment;

use super::console::println;
use super::exceptions::{self, SPURIOUS_VECTOR, WAKE_VECTOR};
use super::paging::Tables;
use super::trampoline::Trampoline;
use super::{entry, exit, gdt};

/// SDM: from INIT to the first start message, and to the second where the first had no effect.
const INIT_DELAY: Duration = Duration::from_millis(10);
const FIRST_START: Duration = Duration::from_micros(200);
/// A core answers within microseconds, one that a busy host emulates within milliseconds.
const START_LIMIT: Duration = Duration::from_secs(1);
/// One that has begun and says nothing.
const SILENCE_LIMIT: Duration = Duration::from_secs(10);

/// A core's memory: a page that is not mapped, its stack, its exception stacks, its task state.
const GUARD: u64 = 4096;
const STACK: u64 = 64 << 10;
const TASK: u64 = 4096;
const BLOCK: u64 = GUARD + STACK + gdt::EXCEPTION_STACKS as u64 + TASK;

/// States of a core.
const ABSENT: u32 = 0;
const ASLEEP: u32 = 1;
const AT_WORK: u32 = 2;
const DONE: u32 = 3;

/// What a core and the boot core tell each other, on cache lines that no other core uses.
#[repr(C, align(128))]
struct Slot {
    state: AtomicU32,
    apic_id: AtomicU32,
    /// Where its memory begins; 0 for the boot core.
    block: AtomicU64,
    /// A [`Job`].
    job: AtomicPtr<()>,
}

/// Work for a core, which is given its number.
pub type Job = fn(usize);

static SLOTS: [Slot; MAX_CORES] = [const {
    Slot {
        state: AtomicU32::new(ABSENT),
        apic_id: AtomicU32::new(0),
        block: AtomicU64::new(0),
        job: AtomicPtr::new(core::ptr::null_mut()),
    }
}; MAX_CORES];

/// Set once, before another core runs.
static APIC: SpinMutex<Option<LocalApic>> = SpinMutex::new(None);
/// The vector level that every core has which has come up so far.
static LEVEL: SpinMutex<Level> = SpinMutex::new(Level::Avx512);

/// The cores that run.
pub struct Cores {
    count: usize,
    clock: TscClock,
}

/// What starting cores needs.
pub struct Ground<'a> {
    /// Cores that ACPI lists.
    pub listed: &'a madt::Cores,
    /// The memory map.
    pub ram: &'a [Range],
    /// What of it is taken.
    pub taken: &'a [Range],
    /// Memory for stacks.
    pub arena: &'a SpinMutex<Arena>,
    /// The page tables that all cores share.
    pub tables: &'a mut Tables<'static>,
    /// The clock.
    pub clock: TscClock,
}

impl Cores {
    /// Starts every core that ACPI lists; one that does not come up is told and left out. `level` is the boot core's.
    ///
    /// # Safety
    /// Once, on the boot core, with the final page tables loaded.
    pub unsafe fn start(level: Level, mut ground: Ground<'_>) -> Self {
        *LEVEL.lock() = level;
        let mut this = Self { count: 1, clock: ground.clock };
        SLOTS[0].state.store(AT_WORK, Ordering::Relaxed);
        // SAFETY: the window is mapped uncached: below 4 GiB what is not memory is, above it is made so.
        let apic = unsafe {
            LocalApic::enable(|at| {
                ground.tables.map_registers(at, LocalApic::WINDOW).ok()?;
                MmioBar::new(at, LocalApic::WINDOW)
            })
        };
        match apic {
            Ok(apic) => {
                *APIC.lock() = Some(apic);
                SLOTS[0].apic_id.store(apic.id(), Ordering::Relaxed);
                this.start_others(apic, &mut ground);
                println!("cores {}, {}", this.count, apic.name());
            }
            Err(error) => println!("cores 1: {error}"),
        }
        this
    }

    fn start_others(&mut self, apic: LocalApic, ground: &mut Ground<'_>) {
        let own = apic.id();
        let others = ground.listed.ids.iter().copied().filter(|id| *id != own);
        let count = others.clone().count().min(MAX_CORES - 1);
        let beyond = ground.listed.more + others.clone().count() - count;
        if beyond > 0 {
            println!("{beyond} cores are left out: an image has at most {MAX_CORES}");
        }
        let Some(page) = memory::start_page(ground.ram, ground.taken).filter(|_| count > 0) else {
            if count > 0 {
                println!("{count} cores are left out: no memory below 640 KiB to start them in");
            }
            return;
        };
        let ready = (0..count).take_while(|i| make_block(i + 1, ground)).count();
        let root = Cr3::read().0.start_address().as_u64();
        if root > u64::from(u32::MAX) {
            println!("{count} cores are left out: page tables at {root:#x}");
            return;
        }
        // SAFETY: memory of the map that nothing else uses, the arena included, which begins at 1 MiB; the tables are
        // those that map it.
        let trampoline = unsafe { Trampoline::install(page, root, core_main) };
        let others = others.take(ready);
        for id in others.clone() {
            // One that can't be told is found out when it is to start.
            let _ = tell(apic, id, Message::Init);
        }
        self.clock.delay(INIT_DELAY);
        for id in others {
            self.start_one(apic, id, &trampoline);
        }
    }

    /// Offers the next core's stack, and starts the core with this identifier.
    fn start_one(&mut self, apic: LocalApic, id: u32, trampoline: &Trampoline) {
        let core = self.count;
        trampoline.offer(core, stack_of(core).end);
        let come = |limit| {
            let pause = Duration::from_micros(10);
            let up = || (SLOTS[core].state.load(Ordering::Acquire) == ASLEEP).then_some(());
            self.clock.poll(limit, pause, up).is_ok()
        };
        let mut up = false;
        for limit in [FIRST_START, START_LIMIT] {
            if let Err(error) = tell(apic, id, Message::Start(trampoline.number())) {
                println!("core with APIC id {id:#x} can't be started: {error}");
                break;
            }
            up = come(limit);
            if up {
                break;
            }
        }
        if !up && trampoline.withdraw() {
            println!("core with APIC id {id:#x} did not come up and is left out");
            return;
        }
        if !up && !come(SILENCE_LIMIT) {
            exit::fatal(format_args!("core {core}, APIC id {id:#x}, has begun and says nothing"));
        }
        let came = self.apic_id(core);
        if came != id {
            println!("core with APIC id {came:#x} came in the place of {id:#x}");
        }
        self.count += 1;
    }

    /// Cores that run, the boot core included.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Identifier of a core's local APIC.
    pub fn apic_id(&self, core: usize) -> u32 {
        SLOTS.get(core).map_or(0, |slot| slot.apic_id.load(Ordering::Relaxed))
    }

    /// Wakes core `core`, which is asleep, and gives it `job`; afterwards it sleeps for ever.
    pub fn give(&self, core: usize, job: Job) {
        let Some(slot) = SLOTS.get(core).filter(|slot| slot.state.load(Ordering::Relaxed) == ASLEEP) else {
            exit::fatal(format_args!("core {core} is not there for work"));
        };
        slot.job.store(job as *mut (), Ordering::Relaxed);
        slot.state.store(AT_WORK, Ordering::Release);
        let apic = *APIC.lock();
        if let Some(apic) = apic {
            let told = tell(apic, self.apic_id(core), Message::Interrupt(WAKE_VECTOR));
            told.unwrap_or_else(|error| exit::fatal(format_args!("core {core}: {error}")));
        }
    }

    /// Waits until core `core` has done its job; says whether it has, within `limit`.
    pub fn wait(&self, core: usize, limit: Duration) -> bool {
        let done = || self.is_done(core).then_some(());
        self.clock.poll(limit, Duration::from_micros(10), done).is_ok()
    }

    /// Core `core` has done its job; what it has written meanwhile is seen from here on.
    pub fn is_done(&self, core: usize) -> bool {
        SLOTS.get(core).is_some_and(|slot| slot.state.load(Ordering::Acquire) == DONE)
    }
}

/// The vector level that all cores have.
pub fn level() -> Level {
    *LEVEL.lock()
}

/// Sends a message to a core that only ever runs what this module gives it.
fn tell(apic: LocalApic, id: u32, message: Message) -> Result<(), ApicError> {
    // SAFETY: the trampoline is there before a core is started, and gates for every interrupt before it is woken.
    unsafe { apic.send(id, message) }
}

/// Memory for core `core`, with its guard page; says whether there was some.
fn make_block(core: usize, ground: &mut Ground<'_>) -> bool {
    let memory = ground.arena.lock().alloc(BLOCK as usize, GUARD as usize);
    let start = match memory {
        Ok(memory) => memory.addr().as_u64(),
        Err(error) => {
            println!("core {core} and those behind it are left out: {error}");
            return false;
        }
    };
    // SAFETY: the page was given out just now, and nothing refers to it.
    if let Err(error) = unsafe { ground.tables.unmap(PhysAddr::new(start)) } {
        println!("core {core} and those behind it are left out: {error}");
        return false;
    }
    SLOTS[core].block.store(start, Ordering::Relaxed);
    let stacks = exception_stacks_of(core);
    let tss = core::ptr::with_exposed_provenance_mut::<TaskStateSegment>(stacks.end as usize);
    // SAFETY: memory that was given out just now, for this core alone; no other core runs yet.
    unsafe { gdt::add_core(tss, stacks.start) };
    true
}

/// The stack of a core, without its guard page.
pub fn stack_of(core: usize) -> Range {
    match SLOTS.get(core).map_or(0, |slot| slot.block.load(Ordering::Relaxed)) {
        0 => entry::stack_range(),
        block => Range { start: block + GUARD, end: block + GUARD + STACK },
    }
}

/// The exception stacks of a core.
pub fn exception_stacks_of(core: usize) -> Range {
    let start = match SLOTS.get(core).map_or(0, |slot| slot.block.load(Ordering::Relaxed)) {
        0 => gdt::boot_exception_stacks(),
        block => block + GUARD + STACK,
    };
    Range { start, end: start + gdt::EXCEPTION_STACKS as u64 }
}

/// Where a core begins, on its own stack, with interrupts off.
extern "C" fn core_main(core: usize) -> ! {
    // SAFETY: added before any other core ran, and each core that comes here has taken a number of its own.
    unsafe { gdt::load(core) };
    exceptions::load();
    let (Some(apic), Some(slot)) = (*APIC.lock(), SLOTS.get(core)) else { rest() };
    // SAFETY: a core of the same machine, in ring 0, before any vector instruction on it.
    let level = unsafe {
        apic.join();
        cpu::enable_vectors()
    };
    apic.accept_interrupts(SPURIOUS_VECTOR);
    {
        let mut lowest = LEVEL.lock();
        *lowest = level.min(*lowest);
    }
    slot.apic_id.store(apic.id(), Ordering::Relaxed);
    slot.state.store(ASLEEP, Ordering::Release);
    while slot.state.load(Ordering::Acquire) != AT_WORK {
        // Nothing comes between the two instructions, so no wake-up is missed.
        interrupts::enable_and_hlt();
        interrupts::disable();
    }
    apic.end_of_interrupt();
    let job = slot.job.load(Ordering::Relaxed);
    // SAFETY: `give` stored a job there before it changed the state.
    let job = unsafe { core::mem::transmute::<*mut (), Job>(job) };
    job(core);
    slot.state.store(DONE, Ordering::Release);
    rest()
}

/// Stands still for ever.
pub fn rest() -> ! {
    loop {
        interrupts::disable();
        hlt();
    }
}

/// Stops every other core where it is. Their handler of the interrupt knows by [`exit::another_core_ends`] what it
/// means.
pub fn stop_others() {
    // Whoever holds the lock is starting cores, and they do nothing yet.
    let Some(apic) = APIC.try_lock().and_then(|apic| *apic) else { return };
    let own = gdt::core();
    for (core, slot) in SLOTS.iter().enumerate() {
        if core != own && slot.state.load(Ordering::Relaxed) != ABSENT {
            // SAFETY: its handler stands still. A core that can't be told is one that can't be helped.
            let _ = unsafe { apic.send(slot.apic_id.load(Ordering::Relaxed), Message::Nmi) };
        }
    }
}
