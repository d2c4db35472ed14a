//! What can be measured, and its name.

use std::fmt;

use hal::simd::{Isa, Level};
use serde::{Deserialize, Serialize};

/// What is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Bench {
    /// A burst is received; its buffers go back to the pool, and from there into the ring.
    #[serde(rename = "i40e-rx")]
    Rx,
    /// A burst is sent; its buffers come from the ring that they were sent through.
    #[serde(rename = "i40e-tx")]
    Tx,
    /// The loop of a core: receive, `io`, transmit.
    #[serde(rename = "i40e-io")]
    Io,
    /// The same with `mac`.
    #[serde(rename = "i40e-mac")]
    Mac,
    /// The same with `macswap`.
    #[serde(rename = "i40e-macswap")]
    MacSwap,
    /// What `io` does to a burst in memory: nothing.
    #[serde(rename = "io")]
    IoAlone,
    /// What `mac` does to it.
    #[serde(rename = "mac")]
    MacAlone,
    /// What `macswap` does to it.
    #[serde(rename = "macswap")]
    MacSwapAlone,
    /// What `5tswap` does to it.
    #[serde(rename = "5tswap")]
    FiveTupleAlone,
    /// What `csum` does to it, in software.
    #[serde(rename = "csum")]
    CsumAlone,
}

impl Bench {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Rx,
        Self::Tx,
        Self::Io,
        Self::Mac,
        Self::MacSwap,
        Self::IoAlone,
        Self::MacAlone,
        Self::MacSwapAlone,
        Self::FiveTupleAlone,
        Self::CsumAlone,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rx => "i40e-rx",
            Self::Tx => "i40e-tx",
            Self::Io => "i40e-io",
            Self::Mac => "i40e-mac",
            Self::MacSwap => "i40e-macswap",
            Self::IoAlone => "io",
            Self::MacAlone => "mac",
            Self::MacSwapAlone => "macswap",
            Self::FiveTupleAlone => "5tswap",
            Self::CsumAlone => "csum",
        }
    }

    /// It goes over rings of descriptors.
    pub const fn has_rings(self) -> bool {
        matches!(self, Self::Rx | Self::Tx | Self::Io | Self::Mac | Self::MacSwap)
    }
}

/// Where buffers and descriptors lie when their turn comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Set {
    /// 64 buffers go round, so that their headers stay in the first cache; with the rings that fit beside them.
    L1,
    /// 1536 buffers go round: too many headers for the first cache, not for the second.
    L2,
    /// As `l2`, and the card leaves what it writes, headers and descriptors, in no cache.
    Mem,
}

impl Set {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::L1, Self::L2, Self::Mem];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::L1 => "l1",
            Self::L2 => "l2",
            Self::Mem => "mem",
        }
    }

    /// Buffers that go round.
    pub const fn buffers(self) -> usize {
        match self {
            Self::L1 => 64,
            Self::L2 | Self::Mem => 1536,
        }
    }
}

/// Ring sizes.
pub const RINGS: [u16; 2] = [512, 1024];
/// Frames of a burst.
pub const BURSTS: [u16; 3] = [8, 32, 64];
/// Bytes of a frame, without FCS.
pub const SIZES: [u16; 8] = [60, 64, 66, 122, 128, 256, 512, 1518];
/// Bytes of a receive descriptor.
pub const DESCS: [u8; 2] = [32, 16];

/// One measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Case {
    /// What is timed.
    pub bench: Bench,
    /// With which instructions.
    pub isa: Loops,
    /// Bytes of a receive descriptor; 0 where there are no rings.
    pub desc: u8,
    /// Descriptors of each ring; 0 where there are none.
    pub ring: u16,
    /// Frames of a burst.
    pub burst: u16,
    /// Bytes of a frame, without FCS.
    pub size: u16,
    /// Where everything lies.
    pub set: Set,
}

/// Instruction sets by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Loops {
    /// No vectors.
    Scalar,
    /// SSSE3 and SSE4.1.
    Ssse3,
    /// AVX2.
    Avx2,
    /// AVX-512.
    Avx512,
}

impl Loops {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Scalar, Self::Ssse3, Self::Avx2, Self::Avx512];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Ssse3 => "ssse3",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }

    /// If this machine has them.
    pub fn isa(self) -> Option<Isa> {
        Isa::exactly(match self {
            Self::Scalar => Level::Scalar,
            Self::Ssse3 => Level::Ssse3,
            Self::Avx2 => Level::Avx2,
            Self::Avx512 => Level::Avx512,
        })
    }
}

impl Case {
    /// Every case: the sweep.
    pub fn all() -> Vec<Self> {
        let mut cases = Vec::new();
        for isa in Loops::ALL {
            for bench in Bench::ALL {
                let (descs, rings): (&[u8], &[u16]) =
                    if bench.has_rings() { (&DESCS, &RINGS) } else { (&[0], &[0]) };
                for (desc, ring) in descs.iter().flat_map(|desc| rings.iter().map(move |ring| (*desc, *ring)))
                {
                    for burst in BURSTS {
                        for (size, set) in SIZES.iter().flat_map(|size| Set::ALL.map(|set| (*size, set))) {
                            cases.push(Self { bench, isa, desc, ring, burst, size, set });
                        }
                    }
                }
            }
        }
        cases
    }

    /// It is one of those that are measured where nothing is said: rings of 1024, bursts of 32, frames of 60 bytes, the
    /// second cache.
    pub fn is_usual(&self) -> bool {
        matches!(self.ring, 0 | 1024) && self.burst == 32 && self.size == 60 && self.set == Set::L2
    }

    /// The case whose instructions are those of this one: they depend on neither length nor place, but for sums over
    /// frames.
    pub fn counted(&self) -> Self {
        let size = if self.bench == Bench::CsumAlone { self.size } else { SIZES[0] };
        Self { size, set: Set::L2, ..*self }
    }

    /// The case of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|case| case.to_string() == name)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bench, isa, desc, ring, burst, size, set } = self;
        write!(f, "{}/{}", bench.name(), isa.name())?;
        if bench.has_rings() {
            write!(f, "/{desc}/{ring}")?;
        }
        write!(f, "/{burst}/{size}/{}", set.name())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_distinct_and_read_back() {
        let cases = Case::all();
        let names: HashSet<String> = cases.iter().map(Case::to_string).collect();
        assert_eq!(names.len(), cases.len());
        assert_eq!(cases.len(), 4 * (5 * 2 * 2 * 3 * 8 * 3 + 5 * 3 * 8 * 3));
        let case = Case::from_name("i40e-io/avx2/32/1024/32/60/l2").unwrap();
        assert_eq!((case.bench, case.desc, case.ring, case.is_usual()), (Bench::Io, 32, 1024, true));
        let case = Case::from_name("macswap/ssse3/8/1518/mem").unwrap();
        assert_eq!(
            (case.bench, case.isa, case.set, case.is_usual()),
            (Bench::MacSwapAlone, Loops::Ssse3, Set::Mem, false)
        );
        assert_eq!(Case::from_name("macswap/ssse3/8/1518"), None);
    }

    #[test]
    fn each_usual_case_is_counted_itself() {
        let usual: Vec<Case> = Case::all().into_iter().filter(Case::is_usual).collect();
        assert_eq!(usual.len(), 4 * (5 * 2 + 5));
        assert!(usual.iter().all(|case| case.counted() == *case));
    }
}
