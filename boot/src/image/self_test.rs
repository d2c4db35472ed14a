//! Tests of the image itself, by `--self-test=NAME`: vector state of every core, and each exception that ring 0 can
//! raise, on the boot core or, by `exception:NAME@CORE`, on another. Those of devices are in `self_test_devices`.

use core::arch::asm;
use core::arch::x86_64::{
    __m256i, _mm_add_epi32, _mm_cvtsi128_si32, _mm_set1_epi32, _mm256_add_epi32, _mm256_extracti128_si256,
    _mm256_set1_epi32,
};
use core::hint::black_box;
use core::time::Duration;

use hal::simd::Level;
use heapless::String;
use spin::mutex::SpinMutex;

use super::console::println;
use super::cores::{self, Cores};
use super::machine::BootMachine;
use super::{exceptions, exit, heap, self_test_devices};

/// How long another core may take for a test.
const LIMIT: Duration = Duration::from_secs(10);

/// The exception that another core is to raise.
static NAME: SpinMutex<String<32>> = SpinMutex::new(String::new());

/// Runs the test and leaves.
pub fn run(name: &str, machine: &mut BootMachine) -> ! {
    let cores = &machine.cores;
    match name.split_once(':') {
        None if name == "simd" => simd(cores),
        None if name == "boot" => {
            println!("barewire: self-test boot ok");
            exit::leave(true)
        }
        None if name == "memory-window" => self_test_devices::memory_window(machine),
        None if name == "channel" => self_test_devices::channel(machine),
        Some(("exception", name)) => {
            match name.split_once('@') {
                Some((name, core)) => raise_on(name, core, cores),
                None => raise(name),
            }
            exit::fatal(format_args!("self-test exception:{name} raised nothing"))
        }
        _ => exit::fatal(format_args!(
            "option --self-test={name}: simd, boot, memory-window, channel or exception:NAME"
        )),
    }
}

/// Sums on every core. A hypervisor that can't run vector instructions does not come back from here.
fn simd(cores: &Cores) -> ! {
    sum(0);
    for core in 1..cores.count() {
        cores.give(core, sum);
        if !cores.wait(core, LIMIT) {
            exit::fatal(format_args!("self-test simd: core {core} does not come back"));
        }
    }
    println!("barewire: self-test simd ok ({}) on {} cores", cores::level(), cores.count());
    exit::leave(true)
}

/// Sums 1 to 1000 in vector registers.
fn sum(core: usize) {
    let mut sums = [sum_sse2(), 500_500];
    if cores::level() >= Level::Avx2 {
        // SAFETY: the level says that every core has AVX2 and that its state is on.
        sums[1] = unsafe { sum_avx2() };
    }
    if sums != [500_500; 2] {
        exit::fatal(format_args!("self-test simd: sums on core {core} are {sums:?}"));
    }
}

fn sum_sse2() -> i32 {
    // SAFETY: every x86-64 CPU has SSE2.
    unsafe {
        let mut sum = _mm_set1_epi32(0);
        for i in 1..=1000 {
            sum = _mm_add_epi32(sum, _mm_set1_epi32(black_box(i)));
        }
        _mm_cvtsi128_si32(sum)
    }
}

#[target_feature(enable = "avx2")]
fn sum_avx2() -> i32 {
    let mut sum: __m256i = _mm256_set1_epi32(0);
    for i in 1..=1000 {
        sum = _mm256_add_epi32(sum, _mm256_set1_epi32(black_box(i)));
    }
    _mm_cvtsi128_si32(_mm256_extracti128_si256::<1>(sum))
}

/// Lets another core raise the exception of that name.
fn raise_on(name: &str, core: &str, cores: &Cores) {
    let core = core.parse().ok().filter(|core| (1..cores.count()).contains(core));
    let Some(core) = core else {
        exit::fatal(format_args!("--self-test=exception:{name}@CORE: {} cores run", cores.count()));
    };
    // It came from an option that is no longer.
    let _ = NAME.lock().push_str(name);
    cores.give(core, |_| {
        let name = NAME.lock().clone();
        raise(&name);
    });
    cores.wait(core, LIMIT);
}

/// Raises the exception of that name.
fn raise(name: &str) {
    // SAFETY: none of these returns: each raises an exception, whose handler ends the machine. What they leave
    // behind in registers or memory is not used again.
    unsafe {
        match name {
            "de" => {
                asm!("xor edx, edx", "xor ecx, ecx", "mov eax, 1", "div ecx", out("eax") _, out("ecx") _, out("edx") _)
            }
            "db" => asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq", "nop", "nop"),
            "nmi" => asm!("int 2"),
            "bp" => asm!("int3"),
            "of" => asm!("int 4"),
            "br" => asm!("int 5"),
            "ud" => asm!("ud2"),
            "nm" => asm!("mov rax, cr0", "or rax, 8", "mov cr0, rax", "fld1", out("rax") _),
            // A page fault whose gate is missing: the second fault, in its delivery, is a double fault.
            "df" => {
                exceptions::remove_page_fault_gate();
                asm!("mov rax, [8]", out("rax") _);
            }
            "np" => load_with_missing_segment(|| asm!("mov eax, 0x18", "mov es, ax", out("eax") _)),
            "ss" => load_with_missing_segment(|| asm!("mov eax, 0x18", "mov ss, ax", out("eax") _)),
            "gp" => asm!("mov rax, [{}]", in(reg) 1_u64 << 63, out("rax") _),
            "pf" => asm!("mov rax, [8]", out("rax") _),
            "mf" => asm!(
                "mov rax, cr0", "or rax, 0x20", "mov cr0, rax", "fninit", "push 0x300", "fldcw [rsp]", "fldz", "fld1",
                "fdivrp st(1), st", "fwait", out("rax") _
            ),
            // By number: QEMU's own CPU raises none for an operation.
            "xm" => asm!("int 19"),
            "stack-overflow" => {
                black_box(overflow(black_box(0)));
            }
            "panic" => panic!("asked for by --self-test"),
            "alloc-after-close" => {
                heap::close();
                drop(black_box(alloc::vec![0_u8; 16]));
            }
            _ => exit::fatal(format_args!("--self-test=exception:{name} is not known")),
        }
    }
}

#[repr(C, packed)]
struct GdtPointer {
    limit: u16,
    base: u64,
}

/// Runs `load` with a segment table whose descriptor 0x18, a data segment, is not present.
///
/// # Safety
/// `load` does not return.
unsafe fn load_with_missing_segment(load: impl FnOnce()) {
    #[repr(C, align(8))]
    struct Table([u64; 4]);
    static TABLE: Table = Table([0, 0x00AF_9B00_0000_FFFF, 0x00CF_9300_0000_FFFF, 0x00CF_1300_0000_FFFF]);
    let pointer = GdtPointer { limit: 31, base: (&raw const TABLE).addr() as u64 };
    // SAFETY: code and data descriptors are those of the boot table, at the same selectors.
    unsafe { asm!("lgdt [{}]", in(reg) &raw const pointer) };
    load();
}

#[allow(unconditional_recursion, reason = "it is there to overflow the stack")]
fn overflow(depth: u64) -> u64 {
    let local = black_box([depth; 64]);
    overflow(depth + 1) + local[0]
}
