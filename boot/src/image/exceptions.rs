//! CPU exceptions: each is told in full and ends the machine with a failing status.

use core::arch::{asm, global_asm};
use core::fmt::Write;
use core::ptr;

use spin::mutex::SpinMutex;
use x86_64::VirtAddr;
use x86_64::registers::control::Cr2;
use x86_64::structures::idt::{Entry, InterruptDescriptorTable};

use super::serial::Serial;
use super::{cores, entry, exit, gdt};

/// The interrupt that wakes a core, and the one that a local APIC raises for another that has vanished.
pub const WAKE_VECTOR: u8 = 0xf0;
/// As above.
pub const SPURIOUS_VECTOR: u8 = 0xff;

/// Registers at the exception, in the order in which the stub leaves them on the stack.
#[repr(C)]
struct Frame {
    r15: u64,
    r14: u64,
    r13: u64,
    r12: u64,
    r11: u64,
    r10: u64,
    r9: u64,
    r8: u64,
    rbp: u64,
    rdi: u64,
    rsi: u64,
    rdx: u64,
    rcx: u64,
    rbx: u64,
    rax: u64,
    vector: u64,
    error: u64,
    rip: u64,
    cs: u64,
    rflags: u64,
    rsp: u64,
    ss: u64,
}

// A stub for each vector: those for which the CPU pushes no error code push a 0. The stack is aligned to 16 by the CPU
// before it pushes its five or six words, so the call below is made on an aligned stack in either case.
global_asm!(
    r#"
    .section .text.exceptions, "ax", @progbits
    .altmacro
    .macro stub vector
    .balign 16
exception_stub_\vector:
    .if \vector != 8 && (\vector < 10 || \vector > 14) && \vector != 17 && \vector != 21 && \vector != 29 && \vector != 30
    push 0
    .endif
    push \vector
    jmp exception_common
    .endm

    .set vector, 0
    .rept 32
    stub %vector
    .set vector, vector + 1
    .endr

# Waking a core, and what vanished: that it came is all there is to it.
interrupt_stub:
    iretq

exception_common:
    push rax
    push rbx
    push rcx
    push rdx
    push rsi
    push rdi
    push rbp
    push r8
    push r9
    push r10
    push r11
    push r12
    push r13
    push r14
    push r15
    cld
    mov rdi, rsp
    and rsp, -16
    call {report}
    ud2

    .section .rodata.exceptions, "a", @progbits
    .balign 8
    .macro address vector
    .quad exception_stub_\vector
    .endm
exception_stubs:
    .set vector, 0
    .rept 32
    address %vector
    .set vector, vector + 1
    .endr
    .noaltmacro
    .text
    "#,
    report = sym report,
);

// SAFETY: the assembler above defines it, with an address for each of 32 vectors.
unsafe extern "C" {
    static exception_stubs: [u64; 32];
    static interrupt_stub: u8;
}

static IDT: SpinMutex<InterruptDescriptorTable> = SpinMutex::new(InterruptDescriptorTable::new());

/// Catches every exception from here on. Once, on the boot core.
pub fn init() {
    gdt::init();
    fill();
    load();
}

/// Catches every exception on the core that runs this, too.
pub fn load() {
    // SAFETY: a static table that is filled before another core runs, with gates for stacks that each core has.
    unsafe { (*SpinMutex::as_mut_ptr(&IDT)).load_unsafe() };
}

fn fill() {
    // SAFETY: a table of constants that the assembler made.
    let stubs = unsafe { exception_stubs };
    let mut idt = IDT.lock();
    // SAFETY: each address is that of a stub that saves what it needs and never returns; each stack index is one
    // that `gdt::init` has filled.
    unsafe {
        macro_rules! gate {
            ($($name:ident $vector:literal $stack:expr;)+) => {$(
                idt.$name.set_handler_addr(VirtAddr::new(stubs[$vector])).set_stack_index($stack);
            )+};
        }
        gate! {
            divide_error 0 gdt::STACK_COMMON;
            debug 1 gdt::STACK_COMMON;
            non_maskable_interrupt 2 gdt::STACK_NMI;
            breakpoint 3 gdt::STACK_COMMON;
            overflow 4 gdt::STACK_COMMON;
            bound_range_exceeded 5 gdt::STACK_COMMON;
            invalid_opcode 6 gdt::STACK_COMMON;
            device_not_available 7 gdt::STACK_COMMON;
            double_fault 8 gdt::STACK_DOUBLE_FAULT;
            invalid_tss 10 gdt::STACK_COMMON;
            segment_not_present 11 gdt::STACK_COMMON;
            stack_segment_fault 12 gdt::STACK_COMMON;
            general_protection_fault 13 gdt::STACK_COMMON;
            page_fault 14 gdt::STACK_COMMON;
            x87_floating_point 16 gdt::STACK_COMMON;
            alignment_check 17 gdt::STACK_COMMON;
            machine_check 18 gdt::STACK_MACHINE_CHECK;
            simd_floating_point 19 gdt::STACK_COMMON;
            virtualization 20 gdt::STACK_COMMON;
            cp_protection_exception 21 gdt::STACK_COMMON;
            hv_injection_exception 28 gdt::STACK_COMMON;
            vmm_communication_exception 29 gdt::STACK_COMMON;
            security_exception 30 gdt::STACK_COMMON;
        }
        for vector in [WAKE_VECTOR, SPURIOUS_VECTOR] {
            let stub = VirtAddr::new((&raw const interrupt_stub).addr() as u64);
            idt[vector].set_handler_addr(stub).set_stack_index(gdt::STACK_COMMON);
        }
    }
}

/// Takes the page fault's gate away, for the test of the double fault.
pub fn remove_page_fault_gate() {
    IDT.lock().page_fault = Entry::missing();
}

fn name(vector: u64) -> &'static str {
    match vector {
        0 => "#DE divide error",
        1 => "#DB debug",
        2 => "NMI",
        3 => "#BP breakpoint",
        4 => "#OF overflow",
        5 => "#BR bound range exceeded",
        6 => "#UD invalid opcode",
        7 => "#NM device not available",
        8 => "#DF double fault",
        10 => "#TS invalid TSS",
        11 => "#NP segment not present",
        12 => "#SS stack fault",
        13 => "#GP general protection",
        14 => "#PF page fault",
        16 => "#MF x87 floating point",
        17 => "#AC alignment check",
        18 => "#MC machine check",
        19 => "#XM SIMD floating point",
        20 => "#VE virtualization",
        21 => "#CP control protection",
        _ => "reserved",
    }
}

/// Prints everything and leaves. A fault in here leaves at once.
extern "C" fn report(frame: &Frame) -> ! {
    const NMI: u64 = 2;
    if frame.vector == NMI && exit::another_core_ends() {
        cores::rest();
    }
    exit::tell_the_end(|serial| write_report(serial, frame))
}

fn write_report(serial: &mut Serial, f: &Frame) -> core::fmt::Result {
    writeln!(
        serial,
        "\nbarewire: error: exception {} ({}), error code {:#x}, on core {}, at {:#x}",
        f.vector,
        name(f.vector),
        f.error,
        gdt::core(),
        f.rip
    )?;
    writeln!(serial, "rax {:016x} rbx {:016x} rcx {:016x} rdx {:016x}", f.rax, f.rbx, f.rcx, f.rdx)?;
    writeln!(serial, "rsi {:016x} rdi {:016x} rbp {:016x} rsp {:016x}", f.rsi, f.rdi, f.rbp, f.rsp)?;
    writeln!(serial, "r8  {:016x} r9  {:016x} r10 {:016x} r11 {:016x}", f.r8, f.r9, f.r10, f.r11)?;
    writeln!(serial, "r12 {:016x} r13 {:016x} r14 {:016x} r15 {:016x}", f.r12, f.r13, f.r14, f.r15)?;
    writeln!(serial, "rip {:016x} cs {:04x} ss {:04x} rflags {:08x}", f.rip, f.cs, f.ss, f.rflags)?;
    writeln!(serial, "cr2 {:016x}", Cr2::read_raw())?;
    backtrace(serial, f.rbp, Some(f.rip));
    Ok(())
}

/// The frame pointer of the caller.
#[inline(always)]
pub fn frame_pointer() -> u64 {
    let rbp;
    // SAFETY: copies a register.
    unsafe { asm!("mov {}, rbp", out(reg) rbp, options(nomem, nostack, preserves_flags)) };
    rbp
}

/// Prints return addresses along the chain of frame pointers that starts with `rbp`. Only stacks of the core that runs
/// this are looked at, and the chain is followed upward only.
pub fn backtrace(serial: &mut Serial, mut rbp: u64, rip: Option<u64>) {
    let image = entry::image_range();
    let stacks = [cores::stack_of(gdt::core()), cores::exception_stacks_of(gdt::core())];
    let _ = write!(serial, "backtrace:");
    if let Some(rip) = rip {
        let _ = write!(serial, " {rip:#x}");
    }
    for _ in 0..32 {
        let on_stack = stacks.iter().any(|stack| (stack.start..stack.end - 8).contains(&rbp));
        if !on_stack || !rbp.is_multiple_of(8) {
            break;
        }
        let at = ptr::with_exposed_provenance::<[u64; 2]>(rbp as usize);
        // SAFETY: two aligned words on a stack of the image, which is mapped; they are only copied.
        let [next, return_address] = unsafe { at.read_volatile() };
        if !(image.start..image.end).contains(&return_address) {
            break;
        }
        let _ = write!(serial, " {return_address:#x}");
        if next <= rbp {
            break;
        }
        rbp = next;
    }
    let _ = writeln!(serial);
}
