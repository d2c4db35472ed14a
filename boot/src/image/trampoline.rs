//! From the message that starts a core to Rust: real mode, protected mode, 64-bit mode, in one page below 1 MiB.
//!
//! Intel SDM volume 3A, "Multiple-Processor Initialization". The code names no address: its page is the segment that it
//! starts in, and what it needs lies at fixed offsets in that page.
//!
//! After INIT a core's caches are off (CR0.CD, CR0.NW): the value that CR0 gets here turns them on.

use core::arch::global_asm;
use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering, fence};

global_asm!(
    r#"
    .section .rodata.trampoline, "a", @progbits
    .balign 16
    .code16
trampoline_start:
    cli
    cld
    xor ebx, ebx
    mov bx, cs
    shl ebx, 4                  # address of the page
    lgdt cs:[0xF00]
    mov eax, cr0
    or al, 1                    # PE
    mov cr0, eax
    data32 jmp fword ptr cs:[0xF08]

    .code32
trampoline_32:
    mov ax, 0x10
    mov ds, ax
    mov es, ax
    mov ss, ax
    mov eax, 0x620              # PAE, OSFXSR, OSXMMEXCPT
    mov cr4, eax
    mov eax, [ebx + 0xF10]
    mov cr3, eax
    mov ecx, 0xC0000080         # EFER
    rdmsr
    or eax, 0x100               # LME
    wrmsr
    mov eax, 0x80010033         # PG, WP, NE, ET, MP, PE
    mov cr0, eax
    jmp fword ptr [ebx + 0xF18]

    .code64
trampoline_64:
    xor eax, eax
    mov fs, ax
    mov gs, ax
    # Whoever takes the stack has it: a core that comes late finds none and stays here.
    xchg [rbx + 0xF20], rax
    test rax, rax
    jz trampoline_rest
    mov rsp, rax
    mov rdi, [rbx + 0xF28]
    xor ebp, ebp                # the end of every backtrace
    call [rbx + 0xF30]
trampoline_rest:
    cli
    hlt
    jmp trampoline_rest
trampoline_end:
    .text
    "#
);

// SAFETY: the assembler above defines these; the code between them is only copied.
unsafe extern "C" {
    static trampoline_start: u8;
    static trampoline_32: u8;
    static trampoline_64: u8;
    static trampoline_end: u8;
}

/// Offsets in the page; the assembler above has the same numbers.
mod offset {
    pub const GDT_POINTER: u64 = 0xf00;
    pub const ENTRY_32: u64 = 0xf08;
    pub const ROOT: u64 = 0xf10;
    pub const ENTRY_64: u64 = 0xf18;
    pub const STACK: u64 = 0xf20;
    pub const CORE: u64 = 0xf28;
    pub const MAIN: u64 = 0xf30;
    pub const GDT: u64 = 0xf80;
}

/// 32-bit code, data, 64-bit code: selectors 0x08, 0x10, 0x18.
const SEGMENTS: [u64; 4] = [0, 0x00cf_9b00_0000_ffff, 0x00cf_9300_0000_ffff, 0x00af_9b00_0000_ffff];

/// The page that cores start in.
pub struct Trampoline {
    page: u64,
}

impl Trampoline {
    /// Writes the page: cores that start there go on at `main`, with the page tables at `root`.
    ///
    /// # Safety
    /// `page` is a page of memory below 0xa0000, mapped one to one, that nothing else uses; `root` lies below 4 GiB, and
    /// its tables map the page and all of the image as they are mapped now.
    pub unsafe fn install(page: u64, root: u64, main: extern "C" fn(usize) -> !) -> Self {
        let this = Self { page };
        let start = &raw const trampoline_start;
        let len = (&raw const trampoline_end).addr() - start.addr();
        let entry = |symbol: *const u8| page + (symbol.addr() - start.addr()) as u64;
        // SAFETY: the page is ours and longer than the code, which ends before the first offset: the assembler would
        // have to emit 3840 bytes for it not to.
        unsafe { ptr::copy_nonoverlapping(start, this.at::<u8>(0), len.min(offset::GDT_POINTER as usize)) };
        let gdt_limit = size_of_val(&SEGMENTS) as u64 - 1;
        for (at, value) in [
            (offset::GDT_POINTER, (page + offset::GDT) << 16 | gdt_limit),
            (offset::ENTRY_32, 0x08 << 32 | entry(&raw const trampoline_32)),
            (offset::ROOT, root),
            (offset::ENTRY_64, 0x18 << 32 | entry(&raw const trampoline_64)),
            (offset::STACK, 0),
            (offset::CORE, 0),
            (offset::MAIN, main as usize as u64),
        ] {
            // SAFETY: within the page, at a multiple of 8.
            unsafe { this.at::<u64>(at).write_volatile(value) };
        }
        // SAFETY: as above.
        unsafe { this.at::<[u64; 4]>(offset::GDT).write_volatile(SEGMENTS) };
        this
    }

    fn at<T>(&self, offset: u64) -> *mut T {
        ptr::with_exposed_provenance_mut((self.page + offset) as usize)
    }

    /// The page's number, as the message that starts a core has it.
    pub fn number(&self) -> u8 {
        (self.page >> 12) as u8
    }

    fn stack(&self) -> &AtomicU64 {
        // SAFETY: an aligned word of the page, which cores and this program change by atomic instructions only.
        unsafe { &*self.at::<AtomicU64>(offset::STACK) }
    }

    /// Offers the stack that ends at `stack_top` to the next core that comes; it becomes core `core`.
    pub fn offer(&self, core: usize, stack_top: u64) {
        // SAFETY: within the page; read by a core only after it has taken the stack.
        unsafe { self.at::<u64>(offset::CORE).write_volatile(core as u64) };
        fence(Ordering::SeqCst);
        self.stack().store(stack_top, Ordering::SeqCst);
    }

    /// Takes the offer back. Says whether that was possible: nobody has taken it.
    pub fn withdraw(&self) -> bool {
        self.stack().swap(0, Ordering::SeqCst) != 0
    }
}
