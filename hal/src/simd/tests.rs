use core::arch::x86_64::{_mm_set1_epi8, _mm256_set1_epi8, _mm512_set1_epi8};
use std::vec::Vec;

use super::*;
use crate::hosted::{FakeBar, HostedMachine};
use crate::{DescRing, DmaMemory, Machine};

fn memory(len: usize) -> DmaMemory {
    HostedMachine::<FakeBar>::new(1 << 16).unwrap().dma_alloc(len, 64).unwrap()
}

/// What /proc/cpuinfo says of this CPU: the kernel lists only what can be used.
fn has(flag: &str) -> bool {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    let flags = info.lines().find(|line| line.starts_with("flags")).unwrap();
    flags.split_whitespace().any(|word| word == flag)
}

#[test]
fn the_level_is_what_the_operating_system_says() {
    let sse = has("ssse3") && has("sse4_1");
    let avx512 = ["avx512f", "avx512bw", "avx512dq", "avx512vl"].into_iter().all(has);
    let want = match (sse, has("avx2"), avx512) {
        (true, true, true) => Level::Avx512,
        (true, true, false) => Level::Avx2,
        (true, false, _) => Level::Ssse3,
        _ => Level::Scalar,
    };
    assert_eq!(Level::detect(), want);
    assert_eq!(Isa::best().level(), want);
    for level in Level::ALL {
        assert_eq!(Isa::exactly(level).is_some(), level <= want, "{level}");
        assert_eq!(Isa::at_most(level).level(), level.min(want));
    }
}

/// Every pair, and every four, of a block that ends where the ring ends: what is stored lies in the first two words of
/// those descriptors and nowhere else.
#[test]
fn heads_are_the_first_two_words() {
    fn check<const WORDS: usize>(isa: Isa) {
        #[target_feature(enable = "ssse3,sse4.1")]
        fn sse<const WORDS: usize>(ring: &DescRing<WORDS>) {
            let block = ring.block::<4>(4).unwrap();
            sse::store_head::<1, WORDS, 4>(&block, _mm_set1_epi8(0x22));
            let mut words = [0_u64; 2];
            sse::store(&mut words, sse::load_head::<1, WORDS, 4>(&block));
            assert_eq!(words, [0x2222_2222_2222_2222; 2]);
        }
        #[target_feature(enable = "avx2")]
        fn avx2<const WORDS: usize>(ring: &DescRing<WORDS>) {
            let block = ring.block::<4>(4).unwrap();
            avx2::store_heads::<2, WORDS, 4>(&block, _mm256_set1_epi8(0x33));
            let mut words = [0_u64; 4];
            avx2::store(&mut words, avx2::load_heads::<2, WORDS, 4>(&block));
            assert_eq!(words, [0x3333_3333_3333_3333; 4]);
        }
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
        fn avx512<const WORDS: usize>(ring: &DescRing<WORDS>) {
            let block = ring.block::<4>(4).unwrap();
            avx512::store_heads::<0, WORDS, 4>(&block, _mm512_set1_epi8(0x44));
            let mut words = [0_u64; 8];
            avx512::store(&mut words, avx512::load_heads::<0, WORDS, 4>(&block));
            assert_eq!(words, [0x4444_4444_4444_4444; 8]);
        }
        let memory = memory(8 * WORDS * 8 + 64);
        let ring = DescRing::<WORDS>::new(memory.part(0, 8 * WORDS * 8).unwrap(), 8).unwrap();
        let touched = match isa {
            Isa::Scalar => return,
            // SAFETY: the token in `isa` proves that the CPU has what the function needs.
            Isa::Ssse3(_) => unsafe { (sse::<WORDS>(&ring), 5..6).1 },
            // SAFETY: as above.
            Isa::Avx2(_) => unsafe { (avx2::<WORDS>(&ring), 6..8).1 },
            // SAFETY: as above.
            Isa::Avx512(_) => unsafe { (avx512::<WORDS>(&ring), 4..8).1 },
        };
        for index in 0..8 {
            for word in 0..WORDS {
                let written = touched.contains(&index) && word < 2;
                assert_eq!(ring.read(index, word) != 0, written, "{isa} {WORDS}: {index} {word}");
            }
        }
        assert_eq!(memory.load::<u64>(8 * WORDS * 8).unwrap(), 0);
        assert!(ring.block::<4>(5).is_none() && ring.block::<9>(0).is_none());
        assert!(ring.block::<4>(usize::MAX).is_none());
    }
    for isa in Level::ALL.into_iter().filter_map(Isa::exactly) {
        check::<2>(isa);
        check::<4>(isa);
    }
}

#[test]
fn headers_outside_of_the_memory_are_refused() {
    #[target_feature(enable = "avx2")]
    fn eight(headers: &Headers<'_>, at: usize, offset: u32) -> bool {
        let mut offsets = [0; 8];
        offsets[at] = offset;
        headers.eight(&offsets).is_some()
    }
    #[target_feature(enable = "ssse3,sse4.1")]
    fn four(headers: &Headers<'_>, at: usize, offset: u32) -> bool {
        let mut offsets = [0; 4];
        offsets[at] = offset;
        headers.four(&offsets).is_some()
    }
    let memory = memory(4096);
    let headers = Headers::new(&memory).unwrap();
    for (offset, good) in [(0, true), (4080, true), (4081, false), (u32::MAX, false), (1 << 31, false)] {
        for at in 0..8 {
            if Isa::exactly(Level::Avx2).is_some() {
                // SAFETY: the CPU has AVX2.
                assert_eq!(unsafe { eight(&headers, at, offset) }, good, "{at} {offset}");
            }
            if at < 4 && Isa::exactly(Level::Ssse3).is_some() {
                // SAFETY: the CPU has SSE4.1.
                assert_eq!(unsafe { four(&headers, at, offset) }, good, "{at} {offset}");
            }
        }
    }
    assert!(Headers::new(&memory.part(0, 15).unwrap()).is_none());
}

#[test]
fn a_header_is_sixteen_bytes_at_its_offset() {
    #[target_feature(enable = "ssse3,sse4.1")]
    fn write(headers: &Headers<'_>, offsets: &[u32; 4]) {
        let starts = headers.four(offsets).unwrap();
        starts.store::<3>(_mm_set1_epi8(7));
        let mut bytes = [0_u8; 16];
        sse::store(&mut bytes, starts.load::<3>());
        assert_eq!(bytes, [7; 16]);
    }
    let memory = memory(4096);
    if Isa::exactly(Level::Ssse3).is_some() {
        // SAFETY: the CPU has SSE4.1.
        unsafe { write(&Headers::new(&memory).unwrap(), &[0, 100, 2000, 4079]) };
        let mut bytes = [0; 4096];
        memory.copy_out(0, &mut bytes).unwrap();
        let written: Vec<usize> = (0..4096).filter(|at| bytes[*at] == 7).collect();
        assert_eq!(written, (4079..4095).collect::<Vec<_>>());
    }
}
