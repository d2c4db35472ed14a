//! Which vector instructions this CPU executes.

use core::arch::x86_64::_xgetbv;
use core::fmt;

use raw_cpuid::CpuId;

/// State that XSAVE-style instructions need turned on, as bits of XCR0.
pub mod xcr0 {
    /// Registers of the x87.
    pub const X87: u64 = 1 << 0;
    /// Registers xmm.
    pub const SSE: u64 = 1 << 1;
    /// Upper halves of registers ymm.
    pub const AVX: u64 = 1 << 2;
    /// Mask registers, upper halves of zmm 0-15, registers 16-31.
    pub const AVX512: u64 = 0b111 << 5;
}

/// Vector instruction sets, each with everything below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Level {
    /// SSE2, which every x86-64 CPU has.
    #[default]
    Scalar,
    /// SSSE3 and SSE4.1.
    Ssse3,
    /// AVX2.
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
}

impl Level {
    /// All of them, the slowest first.
    pub const ALL: [Self; 4] = [Self::Scalar, Self::Ssse3, Self::Avx2, Self::Avx512];

    /// Its name as an option's value.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Ssse3 => "ssse3",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }

    /// What this CPU has and whose state is on: an instruction set without its state in XCR0 doesn't count.
    pub fn detect() -> Self {
        let cpuid = CpuId::new();
        let Some(features) = cpuid.get_feature_info() else { return Self::Scalar };
        if !features.has_ssse3() || !features.has_sse41() {
            return Self::Scalar;
        }
        let state = if features.has_oxsave() { state() } else { 0 };
        let Some(extended) = cpuid.get_extended_feature_info() else { return Self::Ssse3 };
        if !features.has_avx() || !extended.has_avx2() || state & xcr0::AVX == 0 {
            return Self::Ssse3;
        }
        let avx512 = extended.has_avx512f()
            && extended.has_avx512bw()
            && extended.has_avx512dq()
            && extended.has_avx512vl();
        if avx512 && state & xcr0::AVX512 == xcr0::AVX512 { Self::Avx512 } else { Self::Avx2 }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// XCR0. Only called where CPUID says that XGETBV may be executed.
fn state() -> u64 {
    #[target_feature(enable = "xsave")]
    fn read() -> u64 {
        // SAFETY: CR4.OSXSAVE is set (CPUID.1:ECX.OSXSAVE mirrors it), so register 0 can be read in every ring.
        unsafe { _xgetbv(0) }
    }
    // SAFETY: OSXSAVE can only be set on a CPU that has XSAVE.
    unsafe { read() }
}

/// SSSE3 and SSE4.1 can be executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ssse3(());

/// AVX2 can be executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Avx2(());

/// AVX-512 F, BW, DQ and VL can be executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Avx512(());

impl From<Avx2> for Ssse3 {
    /// What has AVX2 has both, as levels are counted here.
    fn from(_: Avx2) -> Self {
        Self(())
    }
}

impl From<Avx512> for Avx2 {
    /// AVX-512 as it is counted here has everything below it.
    fn from(_: Avx512) -> Self {
        Self(())
    }
}

/// A choice of loops, with the proof that this CPU executes them.
///
/// A machine whose cores differ uses what [`Isa::at_most`] makes of the lowest level among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isa {
    /// No vector loops.
    #[default]
    Scalar,
    /// SSSE3 and SSE4.1.
    Ssse3(Ssse3),
    /// AVX2.
    Avx2(Avx2),
    /// AVX-512.
    Avx512(Avx512),
}

impl Isa {
    /// The best that this CPU has.
    pub fn best() -> Self {
        Self::at_most(Level::Avx512)
    }

    /// The best that this CPU has up to `level`.
    pub fn at_most(level: Level) -> Self {
        match level.min(Level::detect()) {
            Level::Scalar => Self::Scalar,
            Level::Ssse3 => Self::Ssse3(Ssse3(())),
            Level::Avx2 => Self::Avx2(Avx2(())),
            Level::Avx512 => Self::Avx512(Avx512(())),
        }
    }

    /// Exactly `level`, if this CPU has it.
    pub fn exactly(level: Level) -> Option<Self> {
        let isa = Self::at_most(level);
        (isa.level() == level).then_some(isa)
    }

    /// Its level.
    pub const fn level(self) -> Level {
        match self {
            Self::Scalar => Level::Scalar,
            Self::Ssse3(_) => Level::Ssse3,
            Self::Avx2(_) => Level::Avx2,
            Self::Avx512(_) => Level::Avx512,
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.level().name())
    }
}
