//! Frames of the usual kinds, with vector registers: Ethernet without tags, IPv4 without options, no fragment, TCP or UDP,
//! all in one buffer, and all sums software's.

// The functions are safe; what they need of the CPU is in their attributes.
#![allow(clippy::missing_safety_doc)]

use core::arch::x86_64::*;

use hal::DmaMemory;
use hal::simd::sums::{sum_avx2, sum_sse};
use hal::simd::{Avx2, Isa, Ssse3, sse};

use crate::packet::Meta;

const IP_AT: usize = 14;
const L4_AT: usize = IP_AT + 20;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// Makes the checksums of a frame that lies in one buffer right; `None`, and nothing is changed, if it is of another kind,
/// or a length in it is not borne out.
#[inline]
#[allow(unsafe_code)]
pub fn fix(isa: Isa, memory: &DmaMemory, buffer: u32, meta: Meta) -> Option<()> {
    let (at, len) = (buffer as usize + meta.start() as usize, meta.len() as usize);
    match isa {
        Isa::Scalar => None,
        // SAFETY: the token proves that the CPU has the instructions of the loop.
        Isa::Ssse3(token) => unsafe { fix_sse(token, memory, at, len) },
        // SAFETY: as above.
        Isa::Avx2(token) => unsafe { fix_avx2(token, memory, at, len) },
        // SAFETY: as above.
        Isa::Avx512(token) => unsafe { fix_avx2(token.into(), memory, at, len) },
    }
}

#[target_feature(enable = "ssse3,sse4.1")]
fn fix_sse(_: Ssse3, memory: &DmaMemory, at: usize, len: usize) -> Option<()> {
    let found = find(memory, at, len)?;
    let sum = sum_sse(memory, at + L4_AT, found.len).ok()?;
    found.store(memory, at, sum)
}

#[target_feature(enable = "avx2")]
fn fix_avx2(_: Avx2, memory: &DmaMemory, at: usize, len: usize) -> Option<()> {
    let found = find(memory, at, len)?;
    // Most of what is short ends in the first 32 bytes or soon behind them.
    let sum = sum_avx2(memory, at + L4_AT, found.len).ok()?;
    found.store(memory, at, sum)
}

/// What was found of a frame. Sums are of words as this machine reads them.
struct Found {
    /// The sum of the IP header without its checksum.
    ip: u64,
    /// The sum of the pseudo-header, and what takes the old checksum off.
    more: u64,
    /// Bytes that layer 4's checksum is about.
    len: usize,
    /// Where it lies in the frame.
    place: usize,
    udp: bool,
    /// There is none, and there will be none.
    none: bool,
}

#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
fn find(memory: &DmaMemory, at: usize, len: usize) -> Option<Found> {
    const SHORTEST: usize = L4_AT + 8;
    if len < SHORTEST {
        return None;
    }
    // Type, version and length, fragment offset and more fragments, protocol.
    let looked_at = _mm_setr_epi8(-1, -1, -1, 0, 0, 0, 0, 0, 0x3f, -1, 0, -1, 0, 0, 0, 0);
    let udp = _mm_setr_epi8(8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 0, UDP as i8, 0, 0, 0, 0);
    let tcp = _mm_setr_epi8(8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 0, TCP as i8, 0, 0, 0, 0);
    let header = _mm_and_si128(sse::load_from(memory, at + 12).ok()?, looked_at);
    let (udp, tcp) = (_mm_xor_si128(header, udp), _mm_xor_si128(header, tcp));
    let is_udp = _mm_testz_si128(udp, udp) == 1;
    if !is_udp && _mm_testz_si128(tcp, tcp) == 0 {
        return None;
    }
    let load = |offset| memory.load::<u64>(at + offset).ok();
    let (first, second) = (load(IP_AT)?, load(IP_AT + 8)?);
    let to: u32 = memory.load(at + IP_AT + 16).ok()?;
    let total = usize::from(((first >> 16) as u16).swap_bytes());
    if total > len - IP_AT {
        return None;
    }
    let payload = total.checked_sub(20)?;
    // What follows of layer 4 is in the frame: 8 bytes of UDP by its shortest length, TCP's 20 by its own.
    let (place, l4_len, old) = if is_udp {
        let words: u64 = memory.load(at + L4_AT).ok()?;
        let told = usize::from(((words >> 32) as u16).swap_bytes());
        (told >= 8 && told <= payload).then_some((6, told, (words >> 48) as u16))?
    } else {
        let words: u64 = memory.load(at + L4_AT + 10).ok().filter(|_| payload >= 20)?;
        let header = usize::from((words >> 20) as u8 & 0xf) * 4;
        (header >= 20 && header <= payload).then_some((16, payload, (words >> 48) as u16))?
    };
    let second_kept = second & !0xffff_0000;
    let halves = |word: u64| (word & 0xffff_ffff) + (word >> 32);
    let protocol = if is_udp { UDP } else { TCP };
    let pseudo = (second >> 32) + u64::from(to) + u64::from(u16::from(protocol).swap_bytes());
    Some(Found {
        ip: halves(first) + halves(second_kept) + u64::from(to),
        more: pseudo + u64::from((l4_len as u16).swap_bytes()) + u64::from(!old),
        len: l4_len,
        place: L4_AT + place,
        udp: is_udp,
        none: is_udp && old == 0,
    })
}

impl Found {
    /// Writes both checksums, of which that of layer 4 is over `sum`.
    #[inline]
    fn store(&self, memory: &DmaMemory, at: usize, sum: u64) -> Option<()> {
        const IP_CHECKSUM_AT: usize = IP_AT + 10;
        memory.store(at + IP_CHECKSUM_AT, !fold(self.ip)).ok()?;
        if self.none {
            return Some(());
        }
        let checksum = match !fold(sum + self.more) {
            0 if self.udp => 0xffff,
            checksum => checksum,
        };
        memory.store(at + self.place, checksum).ok()
    }
}

/// A sum in ones' complement.
#[inline]
fn fold(sum: u64) -> u16 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}
