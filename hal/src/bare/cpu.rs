//! What the CPU can do, and turning it on.

use core::arch::asm;
use core::arch::x86_64::_xsetbv;

use raw_cpuid::CpuId;

use crate::simd::level::{Level, xcr0};

/// Turns on all vector state that this core has, and says which level can be used from now on.
///
/// Order matters: CPUID says whether CR4.OSXSAVE may be set, CPUID leaf 0xD which bits XCR0 may take; anything else
/// is a general protection fault. An instruction set counts only when its state is on.
///
/// # Safety
/// Runs in ring 0, on each core once, before any vector instruction beyond SSE2 on it; CR0 and CR4 have SSE on.
pub unsafe fn enable_vectors() -> Level {
    let Some(features) = CpuId::new().get_feature_info() else { return Level::Scalar };
    if !features.has_xsave() {
        return Level::detect();
    }
    // SAFETY: CPUID says that the CPU has XSAVE, so that the bit exists.
    unsafe { set_cr4_osxsave() };
    let offered = offered_state();
    let mut state = xcr0::X87 | xcr0::SSE;
    for part in [xcr0::AVX, xcr0::AVX512] {
        let below = part == xcr0::AVX || state & xcr0::AVX != 0;
        if below && offered & part == part {
            state |= part;
        }
    }
    // SAFETY: OSXSAVE is set, and only bits that leaf 0xD offers are written, AVX-512 never without AVX.
    unsafe { write_xcr0(state) };
    Level::detect()
}

/// Bits of XCR0 that the CPU takes: CPUID leaf 0xD, sub-leaf 0.
fn offered_state() -> u64 {
    let leaf = raw_cpuid::cpuid!(0xd, 0);
    u64::from(leaf.edx) << 32 | u64::from(leaf.eax)
}

/// # Safety
/// Ring 0, and the CPU has XSAVE.
unsafe fn set_cr4_osxsave() {
    const OSXSAVE: u64 = 1 << 18;
    // SAFETY: only adds the bit, which the CPU has.
    unsafe {
        asm!("mov {t}, cr4", "or {t}, {bit}", "mov cr4, {t}", t = out(reg) _, bit = in(reg) OSXSAVE,
            options(nostack));
    }
}

/// # Safety
/// OSXSAVE is set and every bit of `state` is one that the CPU takes, in a legal combination.
unsafe fn write_xcr0(state: u64) {
    #[target_feature(enable = "xsave")]
    fn enter(state: u64) {
        // SAFETY: the caller of `write_xcr0` promised a legal value.
        unsafe { _xsetbv(0, state) };
    }
    // SAFETY: OSXSAVE can only be set on a CPU that has XSAVE.
    unsafe { enter(state) };
}

/// The CPU maps a gigabyte with one entry.
pub fn has_gigabyte_pages() -> bool {
    CpuId::new().get_extended_processor_and_feature_identifiers().is_some_and(|info| info.has_1gib_pages())
}

/// Bits of a physical address, as CPUID says, within what page tables can hold.
pub fn physical_address_bits() -> u32 {
    let bits =
        CpuId::new().get_processor_capacity_feature_info().map_or(36, |info| info.physical_address_bits());
    u32::from(bits).clamp(32, 52)
}
