//! Segments, and a stack for each kind of exception.

use spin::mutex::SpinMutex;
use x86_64::VirtAddr;
use x86_64::instructions::segmentation::{CS, DS, ES, SS, Segment};
use x86_64::instructions::tables::load_tss;
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

#[repr(C, align(16))]
struct Stack([u8; STACK_BYTES]);

static mut EXCEPTION_STACKS: [Stack; STACKS] = [const { Stack([0; STACK_BYTES]) }; STACKS];
static TSS: SpinMutex<TaskStateSegment> = SpinMutex::new(TaskStateSegment::new());
static GDT: SpinMutex<GlobalDescriptorTable> = SpinMutex::new(GlobalDescriptorTable::new());

/// Where an exception stack of that index lies, for backtraces.
pub fn exception_stacks() -> core::ops::Range<u64> {
    let start = (&raw const EXCEPTION_STACKS).addr() as u64;
    start..start + (STACKS * STACK_BYTES) as u64
}

/// Loads both. Once, on the boot core.
pub fn init() {
    let first = (&raw const EXCEPTION_STACKS).addr() as u64;
    let tss = {
        let mut tss = TSS.lock();
        // The structure is packed: no reference to the table, a copy that is changed and put back.
        let mut table = tss.interrupt_stack_table;
        for (i, stack) in table.iter_mut().take(STACKS).enumerate() {
            *stack = VirtAddr::new(first + ((i + 1) * STACK_BYTES) as u64);
        }
        tss.interrupt_stack_table = table;
        SpinMutex::as_mut_ptr(&TSS)
    };
    let mut gdt = GDT.lock();
    let code = gdt.append(Descriptor::kernel_code_segment());
    let data = gdt.append(Descriptor::kernel_data_segment());
    // SAFETY: the TSS is a static that nothing changes any more after this function.
    let tss = gdt.append(unsafe { Descriptor::tss_segment_unchecked(tss) });
    // SAFETY: the table is a static that nothing changes any more after this function.
    unsafe { (*SpinMutex::as_mut_ptr(&GDT)).load_unsafe() };
    // SAFETY: the selectors are those of a flat code and data segment in the table that was just loaded, and of a
    // valid TSS.
    unsafe {
        CS::set_reg(code);
        SS::set_reg(data);
        DS::set_reg(data);
        ES::set_reg(data);
        load_tss(tss);
    }
}
