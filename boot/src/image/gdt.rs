//! Segments, and for each core a stack for each kind of exception.
//!
//! All cores share one table of segments, in which each has a task state of its own: so the task register tells a core
//! which one it is, whatever stack it is on.

use core::arch::asm;

use kernel::config::MAX_CORES;
use spin::mutex::SpinMutex;
use x86_64::VirtAddr;
use x86_64::instructions::segmentation::{CS, DS, ES, SS, Segment};
use x86_64::instructions::tables::load_tss;
use x86_64::registers::segmentation::SegmentSelector;
use x86_64::structures::gdt::{Descriptor, GlobalDescriptorTable};
use x86_64::structures::tss::TaskStateSegment;

/// Stacks of the interrupt stack table. Every gate uses one: the prebuilt standard library has a red zone below the
/// stack pointer, which nothing may be pushed on. NMI, double fault and machine check own theirs, since they may
/// come on top of another.
pub const STACK_NMI: u16 = 0;
/// Double fault.
pub const STACK_DOUBLE_FAULT: u16 = 1;
/// Machine check.
pub const STACK_MACHINE_CHECK: u16 = 2;
/// Everything else.
pub const STACK_COMMON: u16 = 3;

const STACKS: usize = 4;
const STACK_BYTES: usize = 16 << 10;
/// Bytes of one core's exception stacks.
pub const EXCEPTION_STACKS: usize = STACKS * STACK_BYTES;

/// Selectors: nothing, code, data, and from here on two entries for each core.
const CODE: SegmentSelector = SegmentSelector(1 << 3);
const DATA: SegmentSelector = SegmentSelector(2 << 3);
const FIRST_TASK: u16 = 3;

#[repr(C, align(16))]
struct Stacks([u8; EXCEPTION_STACKS]);

static mut BOOT_STACKS: Stacks = Stacks([0; EXCEPTION_STACKS]);
static BOOT_TSS: SpinMutex<TaskStateSegment> = SpinMutex::new(TaskStateSegment::new());
static GDT: SpinMutex<GlobalDescriptorTable<{ FIRST_TASK as usize + 2 * MAX_CORES }>> =
    SpinMutex::new(GlobalDescriptorTable::empty());

/// Where the boot core's exception stacks begin.
pub fn boot_exception_stacks() -> u64 {
    (&raw const BOOT_STACKS).addr() as u64
}

/// Makes the table and loads it. Once, on the boot core.
pub fn init() {
    {
        let mut gdt = GDT.lock();
        gdt.append(Descriptor::kernel_code_segment());
        gdt.append(Descriptor::kernel_data_segment());
    }
    // SAFETY: a static that only this function and the CPU use.
    unsafe { add_core(SpinMutex::as_mut_ptr(&BOOT_TSS), boot_exception_stacks()) };
    // SAFETY: the boot core's task state was added just now.
    unsafe { load(0) };
}

/// Gives the next core its task state, in `tss`, with exception stacks from `stacks` on. Cores count from the boot core,
/// which is 0; at most [`MAX_CORES`] are added.
///
/// # Safety
/// `tss` and the [`EXCEPTION_STACKS`] bytes at `stacks` are that core's for ever. No other core runs yet.
pub unsafe fn add_core(tss: *mut TaskStateSegment, stacks: u64) {
    let mut filled = TaskStateSegment::new();
    // The structure is packed: no reference to the table, a copy that is changed and put back.
    let mut table = filled.interrupt_stack_table;
    for (i, stack) in table.iter_mut().take(STACKS).enumerate() {
        *stack = VirtAddr::new(stacks + ((i + 1) * STACK_BYTES) as u64);
    }
    filled.interrupt_stack_table = table;
    // SAFETY: the caller's promise: nobody else uses it.
    unsafe { tss.write(filled) };
    // SAFETY: it stays where it is, and nothing changes it any more.
    GDT.lock().append(unsafe { Descriptor::tss_segment_unchecked(tss) });
}

/// Loads the table and the task state of core `core` on the core that runs this.
///
/// # Safety
/// [`add_core`] was called for it, and it has not been loaded before.
pub unsafe fn load(core: usize) {
    // SAFETY: a static table whose entries stay as they are: those of cores are added before another core runs.
    unsafe { (*SpinMutex::as_mut_ptr(&GDT)).load_unsafe() };
    // SAFETY: the selectors are those of a flat code and data segment in the table that was just loaded, and of a
    // valid task state that no other core has loaded, by the caller's promise.
    unsafe {
        CS::set_reg(CODE);
        SS::set_reg(DATA);
        DS::set_reg(DATA);
        ES::set_reg(DATA);
        load_tss(SegmentSelector((FIRST_TASK + 2 * core as u16) << 3));
    }
}

/// The core that runs this; the boot core, as long as no task state is loaded.
pub fn core() -> usize {
    let selector: u16;
    // SAFETY: copies a register.
    unsafe { asm!("str {:x}", out(reg) selector, options(nomem, nostack, preserves_flags)) };
    usize::from((selector >> 3).saturating_sub(FIRST_TASK) / 2)
}
