//! `5tswap`: exchanges source and destination of Ethernet, IPv4 or IPv6, and UDP or TCP.
//!
//! As testpmd does it, tags (802.1Q and 802.1ad, any number) are stepped over, the first IP header is the one that counts,
//! and no checksum changes, since sums don't depend on the order. A layer is exchanged only if it lies in the frame's
//! first buffer as far as it is touched; what is not understood stays as it is. Two things differ: no length that the
//! packet tells is believed beyond the frame, and fragments but the first have no ports.

use core::arch::x86_64::*;

use hal::DmaMemory;
use hal::simd::{Avx2, Isa, Ssse3, sse};

use super::frame::Frame;
use super::layers::skip_tags;
use super::vector;
use crate::burst::Burst;
use crate::packet::Meta;

const TYPE_AT: usize = 12;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// Exchanges the tuples of all frames.
#[allow(unsafe_code)]
pub fn swap(isa: Isa, memory: &DmaMemory, burst: &Burst) {
    match isa {
        Isa::Scalar => {
            vector::macswap(isa, memory, burst);
            each_first(burst, |offset, meta| swap_frame(memory, offset, meta));
        }
        // SAFETY: the token proves that the CPU has the instructions of the loop.
        Isa::Ssse3(token) => unsafe { swap_usual(token, memory, burst) },
        // SAFETY: as above.
        Isa::Avx2(token) => unsafe { swap_usual(token.into(), memory, burst) },
        // SAFETY: as above.
        Isa::Avx512(token) => unsafe { swap_usual(Avx2::from(token).into(), memory, burst) },
    }
}

/// Calls `each` with the first buffer of each frame.
#[inline]
fn each_first(burst: &Burst, mut each: impl FnMut(u32, Meta)) {
    let mut first = true;
    for (offset, meta) in burst.buffers().iter().zip(burst.metas()) {
        if first {
            each(*offset, *meta);
        }
        first = meta.is_last();
    }
}

fn swap_frame(memory: &DmaMemory, offset: u32, meta: Meta) {
    // A buffer that is not in the memory has nothing to exchange.
    let _ = swap_inner(Frame::new(memory, offset, meta));
}

/// The same, with registers of 16 bytes where a frame is of the usual kinds.
#[target_feature(enable = "ssse3,sse4.1")]
fn swap_usual(_: Ssse3, memory: &DmaMemory, burst: &Burst) {
    let mut first = true;
    for (offset, meta) in burst.buffers().iter().zip(burst.metas()) {
        let frame = Frame::new(memory, *offset, *meta);
        if first && swap_ipv4_frame(frame).is_none() && swap_ipv6_frame(frame).is_none() {
            swap_apart(memory, *offset, *meta);
        }
        first = meta.is_last();
    }
}

/// All layers of a frame that is none of the usual ones.
#[inline(never)]
fn swap_apart(memory: &DmaMemory, offset: u32, meta: Meta) {
    let frame = Frame::new(memory, offset, meta);
    // Too short for addresses: there is nothing to exchange.
    if frame.exchange::<6>(0).is_some() {
        swap_frame(memory, offset, meta);
    }
}

/// Ethernet without tags, IPv4 without options, the first or only fragment, UDP or TCP; `None`, and nothing is done, if a
/// frame is something else.
#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
fn swap_ipv4_frame(frame: Frame<'_>) -> Option<()> {
    const HEADER_AT: usize = 12;
    const TUPLE_AT: usize = 26;
    const LEN: usize = TUPLE_AT + 16;
    if frame.len() < LEN {
        return None;
    }
    // Type, version and length, fragment offset, protocol.
    let looked_at = _mm_setr_epi8(-1, -1, -1, 0, 0, 0, 0, 0, 0x1f, -1, 0, -1, 0, 0, 0, 0);
    let udp = _mm_setr_epi8(8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 0, UDP as i8, 0, 0, 0, 0);
    let tcp = _mm_setr_epi8(8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 0, TCP as i8, 0, 0, 0, 0);
    let header = _mm_and_si128(frame.load_vector(HEADER_AT)?, looked_at);
    let (udp, tcp) = (_mm_xor_si128(header, udp), _mm_xor_si128(header, tcp));
    if _mm_testz_si128(udp, udp) == 0 && _mm_testz_si128(tcp, tcp) == 0 {
        return None;
    }
    // Two addresses of four bytes, two ports of two.
    let exchange = _mm_setr_epi8(4, 5, 6, 7, 0, 1, 2, 3, 10, 11, 8, 9, 12, 13, 14, 15);
    let (addresses, tuple) = (frame.load_vector(0)?, frame.load_vector(TUPLE_AT)?);
    frame.store_vector(0, _mm_shuffle_epi8(addresses, sse::load(&MACS)))?;
    frame.store_vector(TUPLE_AT, _mm_shuffle_epi8(tuple, exchange))
}

/// Ethernet without tags, IPv6 without extension headers, UDP or TCP.
#[inline]
#[target_feature(enable = "ssse3,sse4.1")]
fn swap_ipv6_frame(frame: Frame<'_>) -> Option<()> {
    const PROTOCOL_AT: usize = 20;
    const ADDRESSES_AT: usize = 22;
    const PORTS_AT: usize = 54;
    if frame.len() < PORTS_AT + 4 || frame.load_word(TYPE_AT)? != IPV6 {
        return None;
    }
    let [protocol] = frame.load(PROTOCOL_AT)?;
    if !matches!(protocol, TCP | UDP) {
        return None;
    }
    let addresses = frame.load_vector(0)?;
    let (from, to) = (frame.load_vector(ADDRESSES_AT)?, frame.load_vector(ADDRESSES_AT + 16)?);
    let ports = u32::from_le_bytes(frame.load(PORTS_AT)?);
    frame.store_vector(0, _mm_shuffle_epi8(addresses, sse::load(&MACS)))?;
    frame.store_vector(ADDRESSES_AT, to)?;
    frame.store_vector(ADDRESSES_AT + 16, from)?;
    frame.store(PORTS_AT, ports.rotate_left(16).to_le_bytes())
}

/// Where the bytes of two Ethernet addresses and a little more come from.
const MACS: [u8; 16] = [6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5, 12, 13, 14, 15];

/// Exchanges what lies behind the addresses of Ethernet; `None` when it ends early.
fn swap_inner(frame: Frame<'_>) -> Option<()> {
    let (kind, at) = skip_tags(frame, TYPE_AT)?;
    let (protocol, ports) = match kind {
        IPV4 => swap_ipv4(frame, at)?,
        IPV6 => swap_ipv6(frame, at)?,
        _ => return None,
    };
    matches!(protocol, TCP | UDP).then(|| frame.exchange::<2>(ports))?
}

/// Protocol and place of the ports; `None` where there are none.
fn swap_ipv4(frame: Frame<'_>, at: usize) -> Option<(u8, usize)> {
    let header: [u8; 20] = frame.load(at)?;
    let words = usize::from(header[0] & 0xf);
    if words < 5 {
        return None;
    }
    frame.exchange::<4>(at + 12)?;
    let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x1fff;
    (fragment == 0).then_some((header[9], at + words * 4))
}

fn swap_ipv6(frame: Frame<'_>, at: usize) -> Option<(u8, usize)> {
    const NEXT_HEADER_AT: usize = 6;
    let [protocol] = frame.load(at + NEXT_HEADER_AT)?;
    frame.exchange::<16>(at + 8)?;
    Some((protocol, at + 40))
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use hal::Machine;
    use hal::hosted::{FakeBar, HostedMachine};
    use hal::simd::Level;

    use super::*;
    use crate::packet::Packet;

    const MACS: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    const MACS_SWAPPED: [u8; 12] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];

    /// What becomes of a frame, by every instruction set; nothing behind it may change.
    fn swapped(frame: &[u8]) -> Vec<u8> {
        let mut results = Level::ALL.into_iter().filter_map(Isa::exactly).map(|isa| {
            let machine = HostedMachine::<FakeBar>::new(1 << 16).unwrap();
            let memory = machine.dma_alloc(4096, 64).unwrap();
            memory.fill(0xee);
            memory.copy_in(128, frame).unwrap();
            let mut burst = Burst::new();
            burst.push(Packet { buffer: 128, meta: Meta::frame(frame.len() as u32) }).unwrap();
            swap(isa, &memory, &burst);
            let mut all = std::vec![0; 4096];
            memory.copy_out(0, &mut all).unwrap();
            let (before, rest) = all.split_at(128);
            let (frame, behind) = rest.split_at(frame.len());
            assert!(before.iter().chain(behind).all(|byte| *byte == 0xee));
            frame.to_vec()
        });
        let first = results.next().unwrap();
        assert!(results.all(|result| result == first));
        first
    }

    fn with(parts: &[&[u8]]) -> Vec<u8> {
        parts.concat()
    }

    /// 10.0.0.1 to 10.0.0.2 and back, with `words` of header, and `protocol`.
    fn ipv4(words: u8, fragment: [u8; 2], protocol: u8, swapped: bool) -> Vec<u8> {
        let (a, b) = if swapped { (2, 1) } else { (1, 2) };
        let start = [0x40 | words, 0, 0xff, 0xff, 0, 0, fragment[0], fragment[1], 64, protocol, 0x12, 0x34];
        let mut header = with(&[&start, &[10, 0, 0, a], &[10, 0, 0, b]]);
        header.resize(usize::from(words.max(5)) * 4, 7);
        header
    }

    const PORTS: [u8; 8] = [0x30, 0x39, 0, 53, 1, 2, 3, 4];
    const PORTS_SWAPPED: [u8; 8] = [0, 53, 0x30, 0x39, 1, 2, 3, 4];

    #[test]
    fn each_layer_is_exchanged() {
        for protocol in [TCP, UDP] {
            for words in [5, 6, 15] {
                for tags in [&[][..], &[0x81, 0, 0, 5], &[0x88, 0xa8, 0, 5, 0x81, 0, 0x60, 6]] {
                    let kind = [tags, &[8, 0]].concat();
                    let frame = with(&[&MACS, &kind, &ipv4(words, [0x40, 0], protocol, false), &PORTS]);
                    let want = with(&[
                        &MACS_SWAPPED,
                        &kind,
                        &ipv4(words, [0x40, 0], protocol, true),
                        &PORTS_SWAPPED,
                    ]);
                    assert_eq!(swapped(&frame), want);
                }
            }
        }
        let ipv6 = |a: u8, b: u8, next| {
            with(&[&[0x60, 0, 0, 0, 0, 8, next, 64, 0xfe, 0x80], &[a; 14], &[0xfe, 0x80], &[b; 14]])
        };
        let frame = |macs: &[u8], ip: &[u8], rest: &[u8]| with(&[macs, &[0x86, 0xdd], ip, rest]);
        assert_eq!(
            swapped(&frame(&MACS, &ipv6(1, 2, UDP), &PORTS)),
            frame(&MACS_SWAPPED, &ipv6(2, 1, UDP), &PORTS_SWAPPED)
        );
        // Hop-by-hop options are no ports.
        assert_eq!(
            swapped(&frame(&MACS, &ipv6(1, 2, 0), &PORTS)),
            frame(&MACS_SWAPPED, &ipv6(2, 1, 0), &PORTS)
        );
    }

    #[test]
    fn what_has_no_ports_keeps_what_lies_there() {
        let frame = |macs: &[u8], ip: &[u8], rest: &[u8]| with(&[macs, &[8, 0], ip, rest]);
        for (fragment, protocol) in [([0, 1], UDP), ([0x20, 100], TCP), ([0, 0], 1), ([0, 0], 132)] {
            assert_eq!(
                swapped(&frame(&MACS, &ipv4(5, fragment, protocol, false), &PORTS)),
                frame(&MACS_SWAPPED, &ipv4(5, fragment, protocol, true), &PORTS)
            );
        }
        // A header that is shorter than a header.
        let short = ipv4(4, [0, 0], UDP, false);
        assert_eq!(swapped(&frame(&MACS, &short, &PORTS)), frame(&MACS_SWAPPED, &short, &PORTS));
    }

    /// B42: tags up to the end of the frame, of 9 and of 372 of them; a tag as the last four bytes.
    #[test]
    fn a_row_of_tags_ends_with_the_frame() {
        for tags in [1, 9, 372] {
            let tags = [0x81, 0, 0, 5].repeat(tags);
            assert_eq!(swapped(&with(&[&MACS, &tags])), with(&[&MACS_SWAPPED, &tags]));
            let frame = |macs: &[u8], ip: &[u8], rest: &[u8]| with(&[macs, &tags, &[8, 0], ip, rest]);
            assert_eq!(
                swapped(&frame(&MACS, &ipv4(5, [0, 0], UDP, false), &PORTS)),
                frame(&MACS_SWAPPED, &ipv4(5, [0, 0], UDP, true), &PORTS_SWAPPED)
            );
        }
    }

    /// Cut off anywhere: each layer that is whole is exchanged, nothing behind the end is touched.
    #[test]
    fn a_frame_that_ends_anywhere() {
        let whole = with(&[&MACS, &[8, 0], &ipv4(6, [0, 0], UDP, false), &PORTS]);
        let all_swapped = with(&[&MACS_SWAPPED, &[8, 0], &ipv4(6, [0, 0], UDP, true), &PORTS_SWAPPED]);
        for len in 1..=whole.len() {
            let done = match len {
                ..12 => 0,
                12..34 => 12,
                34..42 => 34,
                _ => len,
            };
            let want = with(&[&all_swapped[..done], &whole[done..len]]);
            assert_eq!(swapped(&whole[..len]), want, "{len}");
        }
    }

    #[test]
    fn only_the_first_buffer_of_a_frame_counts() {
        let machine = HostedMachine::<FakeBar>::new(1 << 16).unwrap();
        let memory = machine.dma_alloc(4096, 64).unwrap();
        let frame = with(&[&MACS, &[8, 0], &ipv4(5, [0, 0], UDP, false), &PORTS]);
        let mut burst = Burst::new();
        for (buffer, last) in [(0, false), (1024, true), (u32::MAX - 9, true)] {
            if buffer < 4096 {
                memory.copy_in(buffer as usize, &frame).unwrap();
            }
            let len = frame.len() as u32;
            let meta = if last { Meta::frame(len) } else { Meta::segment(len) };
            burst.push(Packet { buffer, meta }).unwrap();
        }
        swap(Isa::best(), &memory, &burst);
        let mut second = std::vec![0; frame.len()];
        memory.copy_out(1024, &mut second).unwrap();
        assert_eq!(second, frame);
    }
}
