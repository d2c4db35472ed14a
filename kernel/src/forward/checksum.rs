//! The checksums of the Internet: RFC 1071's sum, and SCTP's CRC-32C.

use crc::{CRC_32_ISCSI, Crc, Digest, Table};
use hal::{DmaMemory, OutOfBounds};

use crate::packet::Meta;

/// CRC-32C with a table of 1 KiB.
static CRC32C: Crc<u32, Table<1>> = Crc::<u32, Table<1>>::new(&CRC_32_ISCSI);

/// The sum of 16-bit words, not yet folded. A byte at an odd place is the low half of its word.
///
/// Words are summed as this machine reads them and exchanged at the end, since the sum in ones' complement does not mind
/// the order of bytes (RFC 1071, section 2).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    total: u64,
    /// The next byte is the low half of a word.
    odd: bool,
}

impl Sum {
    /// Adds a word.
    #[inline]
    pub fn add_word(&mut self, word: u16) {
        self.total += u64::from(word.to_be());
    }

    /// Adds bytes that follow those that were added before.
    #[inline]
    pub fn add<const N: usize>(&mut self, bytes: &[u8; N]) {
        let mut sum = 0;
        let (eights, rest) = bytes.as_chunks::<8>();
        for eight in eights {
            let word = u64::from_le_bytes(*eight);
            sum += (word & 0xffff_ffff) + (word >> 32);
        }
        let (pairs, last) = rest.as_chunks::<2>();
        for pair in pairs {
            sum += u64::from(u16::from_le_bytes(*pair));
        }
        sum += last.first().map_or(0, |byte| u64::from(*byte));
        // Behind an odd byte each of these is in the other half.
        self.total += if self.odd { u64::from(fold(sum).swap_bytes()) } else { sum };
        self.odd ^= N % 2 == 1;
    }

    /// The sum in ones' complement.
    #[inline]
    pub fn folded(self) -> u16 {
        u16::from_be(fold(self.total))
    }

    /// What a checksum field holds.
    #[inline]
    pub fn checksum(self) -> u16 {
        !self.folded()
    }
}

#[inline]
fn fold(sum: u64) -> u16 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// The checksum of an IPv4 header without options whose field is 0.
pub fn ipv4_header_checksum(header: &[u8; 20]) -> u16 {
    let mut sum = Sum::default();
    sum.add(header);
    sum.checksum()
}

/// A range of a frame's bytes, in however many buffers.
#[derive(Clone, Copy)]
pub struct Span<'a> {
    /// Packet memory.
    pub memory: &'a DmaMemory,
    /// The frame's buffers.
    pub buffers: &'a [u32],
    /// Their metadata.
    pub metas: &'a [Meta],
    /// The first byte, counted from the frame's.
    pub start: usize,
    /// Bytes.
    pub len: usize,
}

/// What is done with a range of bytes, in pieces of few sizes: a copy of a length that is not known in advance costs more
/// than what is done with it.
trait Pieces {
    fn piece<const N: usize>(&mut self, bytes: &[u8; N]);
}

impl Pieces for Sum {
    #[inline]
    fn piece<const N: usize>(&mut self, bytes: &[u8; N]) {
        self.add(bytes);
    }
}

impl Pieces for Digest<'static, u32, Table<1>> {
    fn piece<const N: usize>(&mut self, bytes: &[u8; N]) {
        self.update(bytes);
    }
}

impl Span<'_> {
    /// Hands its bytes over, in order; returns how many there were. Fewer than asked for when the frame ends before, or a
    /// buffer is not in the memory.
    #[inline]
    fn hand_to(&self, to: &mut impl Pieces) -> usize {
        let (mut skip, mut left) = (self.start, self.len);
        for (buffer, meta) in self.buffers.iter().zip(self.metas) {
            let len = meta.len() as usize;
            if skip >= len {
                skip -= len;
                continue;
            }
            let at = *buffer as usize + meta.start() as usize + skip;
            let here = (len - skip).min(left);
            skip = 0;
            if read(self.memory, at, here, to).is_err() {
                break;
            }
            left -= here;
            if left == 0 {
                break;
            }
        }
        self.len - left
    }

    /// Adds its bytes to `sum`; `false` when they are not all there.
    #[must_use]
    #[inline]
    pub fn add_to(&self, sum: &mut Sum) -> bool {
        self.hand_to(sum) == self.len
    }

    /// CRC-32C, as SCTP's field has it in network order (RFC 9260, appendix A); `None` when the bytes are not all there.
    pub fn crc32c(&self) -> Option<[u8; 4]> {
        let mut digest = CRC32C.digest();
        let read = self.hand_to(&mut digest);
        (read == self.len).then(|| digest.finalize().to_le_bytes())
    }
}

#[inline]
fn read(memory: &DmaMemory, mut at: usize, len: usize, to: &mut impl Pieces) -> Result<(), OutOfBounds> {
    for _ in 0..len / 32 {
        to.piece::<32>(&memory.load(at)?);
        at += 32;
    }
    if len & 16 != 0 {
        to.piece::<16>(&memory.load(at)?);
        at += 16;
    }
    if len & 8 != 0 {
        to.piece::<8>(&memory.load(at)?);
        at += 8;
    }
    if len & 4 != 0 {
        to.piece::<4>(&memory.load(at)?);
        at += 4;
    }
    if len & 2 != 0 {
        to.piece::<2>(&memory.load(at)?);
        at += 2;
    }
    if len & 1 != 0 {
        to.piece::<1>(&memory.load(at)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use hal::Machine;
    use hal::hosted::{FakeBar, HostedMachine};

    use super::*;

    /// The example of RFC 1071's algorithm that is most often printed: 4500 0073 0000 4000 4011 c0a8 0001
    /// c0a8 00c7 sums to b861.
    #[test]
    fn checksum_of_a_known_header() {
        let header =
            [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7];
        assert_eq!(ipv4_header_checksum(&header), 0xb861);
    }

    /// RFC 1071, section 3: 0001 f203 f4f5 f6f7 sum to ddf2; however they are cut.
    #[test]
    fn the_example_of_the_rfc_in_any_pieces() {
        let memory = HostedMachine::<FakeBar>::new(1 << 16).unwrap().dma_alloc(4096, 64).unwrap();
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7].repeat(9);
        for cut in 1..70 {
            for again in cut + 1..72 {
                let ends = [0..cut, cut..again, again..72];
                let metas = [
                    Meta::segment(cut as u32),
                    Meta::segment((again - cut) as u32),
                    Meta::frame((72 - again) as u32),
                ];
                for (place, range) in ends.into_iter().enumerate() {
                    memory.copy_in(1000 * place + 3, &bytes[range]).unwrap();
                }
                let span =
                    Span { memory: &memory, buffers: &[3, 1003, 2003], metas: &metas, start: 0, len: 72 };
                let mut sum = Sum::default();
                assert!(span.add_to(&mut sum));
                // Nine times ddf2, carries put back in.
                assert_eq!((sum.folded(), sum.checksum()), (0xcd89, !0xcd89), "{cut} {again}");
            }
        }
        let mut sum = Sum::default();
        sum.add(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!((sum.folded(), sum.checksum()), (0xddf2, 0x220d));
    }

    /// RFC 3720, appendix B.4: 32 bytes of zeroes, of ones, and counting up.
    #[test]
    fn crc32c_of_the_rfcs_examples() {
        let memory = HostedMachine::<FakeBar>::new(1 << 16).unwrap().dma_alloc(4096, 64).unwrap();
        let counting: [u8; 32] = core::array::from_fn(|i| i as u8);
        for (bytes, crc) in [
            ([0; 32], [0xaa, 0x36, 0x91, 0x8a]),
            ([0xff; 32], [0x43, 0xab, 0xa8, 0x62]),
            (counting, [0x4e, 0x79, 0xdd, 0x46]),
        ] {
            memory.copy_in(100, &bytes[..10]).unwrap();
            memory.copy_in(1000, &bytes[10..]).unwrap();
            let (buffers, metas) = (&[99, 1000][..], &[Meta::segment(11), Meta::frame(22)][..]);
            let span = Span { memory: &memory, buffers, metas, start: 1, len: 32 };
            assert_eq!(span.crc32c(), Some(crc));
            assert_eq!(Span { len: 33, ..span }.crc32c(), None);
        }
    }
}
