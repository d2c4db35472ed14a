//! From the loader to Rust.
//!
//! A PVH loader enters in 32-bit protected mode with paging off, flat segments, interrupts off, and the address of
//! the start info in EBX (Xen's `docs/misc/pvh.pandoc`). From there: page tables that map the first 4 GiB one to
//! one in 2 MiB pages, long mode, SSE, a stack.
//!
//! SSE is turned on here, before the first instruction of Rust: the compiler uses its registers for anything.

use core::arch::global_asm;

use crate::memory::Range;

global_asm!(
    r#"
    .section .note.Xen, "a", @note
    .balign 4
    .long 4                     # bytes of the name
    .long 4                     # bytes of the descriptor
    .long 18                    # XEN_ELFNOTE_PHYS32_ENTRY
    .asciz "Xen"
    .long pvh_entry

    .section .text.entry, "ax", @progbits
    .code32
    .global pvh_entry
pvh_entry:
    cli
    cld
    mov esp, offset stack_top
    rdtsc
    mov esi, eax                # kept in esi:edi until Rust
    mov edi, edx

    # A CPU without long mode: nothing can be said, since there may be no console.
    mov eax, 0x80000000
    push ebx
    cpuid
    pop ebx
    cmp eax, 0x80000001
    jb no_long_mode
    mov eax, 0x80000001
    push ebx
    cpuid
    pop ebx
    bt edx, 29
    jnc no_long_mode

    # Four page directories of 512 entries of 2 MiB.
    mov ecx, 0
    mov edx, offset boot_directories
1:  mov eax, ecx
    shl eax, 21
    or eax, 0x83                # present, writable, large
    mov [edx + ecx * 8], eax
    mov dword ptr [edx + ecx * 8 + 4], 0
    inc ecx
    cmp ecx, 2048
    jne 1b

    mov ecx, 0
    mov edx, offset boot_pointers
2:  mov eax, ecx
    shl eax, 12
    add eax, offset boot_directories
    or eax, 3
    mov [edx + ecx * 8], eax
    inc ecx
    cmp ecx, 4
    jne 2b

    mov eax, offset boot_pointers
    or eax, 3
    mov dword ptr [boot_root], eax
    mov eax, offset boot_root
    mov cr3, eax

    mov eax, cr4
    or eax, 0x620               # PAE, OSFXSR, OSXMMEXCPT
    mov cr4, eax
    mov ecx, 0xC0000080         # EFER
    rdmsr
    or eax, 0x100               # LME
    wrmsr
    mov eax, cr0
    and eax, 0xFFFFFFFB         # EM off
    or eax, 0x80010023          # PG, WP, NE, MP, PE
    mov cr0, eax

    lgdt [boot_gdt_pointer]
    # A far return, since Intel syntax has no direct far jump that every assembler reads alike.
    push 0x08
    mov eax, offset long_mode
    push eax
    retf

no_long_mode:
    hlt
    jmp no_long_mode

    .code64
long_mode:
    mov ax, 0x10
    mov ds, ax
    mov es, ax
    mov ss, ax
    xor eax, eax
    mov fs, ax
    mov gs, ax
    mov esp, offset stack_top   # zero-extends
    xor ebp, ebp                # the end of every backtrace
    mov eax, esi
    mov esi, edi
    shl rsi, 32
    or rsi, rax                 # time of entry
    mov edi, ebx                # start info
    call barewire_image_main    # made by `image!`
    ud2

    .section .rodata.boot_gdt, "a", @progbits
    .balign 8
boot_gdt:
    .quad 0
    .quad 0x00AF9B000000FFFF    # 64-bit code
    .quad 0x00CF93000000FFFF    # data
boot_gdt_pointer:
    .word 23
    .long boot_gdt

    .section .bss.boot_tables, "aw", @nobits
    .balign 4096
boot_root:
    .skip 4096
boot_pointers:
    .skip 4096
boot_directories:
    .skip 16384
    .text
    "#
);

// SAFETY: the linker script defines these; only their addresses are used.
unsafe extern "C" {
    static image_start: u8;
    static image_end: u8;
    static stack_guard: u8;
    static stack_top: u8;
}

/// Addresses from the first to behind the last byte of the image, its stack and its zeroed data included.
pub fn image_range() -> Range {
    Range { start: (&raw const image_start).addr() as u64, end: (&raw const image_end).addr() as u64 }
}

/// The page below the boot stack.
pub fn stack_guard_page() -> u64 {
    (&raw const stack_guard).addr() as u64
}

/// The boot stack, without its guard page.
pub fn stack_range() -> Range {
    Range { start: stack_guard_page() + 4096, end: (&raw const stack_top).addr() as u64 }
}
