//! The checksums of the Internet: RFC 1071's sum, and SCTP's CRC-32C.

use crc::{CRC_32_ISCSI, Crc, Table};
use hal::{DmaMemory, OutOfBounds};

use crate::packet::Meta;

/// CRC-32C with a table of 1 KiB.
static CRC32C: Crc<u32, Table<1>> = Crc::<u32, Table<1>>::new(&CRC_32_ISCSI);
/// Bytes that are looked at in one go.
const PIECE: usize = 64;

/// The sum of 16-bit words in network order, not yet folded. A byte at an odd place is the low half of its word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    total: u64,
    /// The next byte is the low half of a word.
    odd: bool,
}

impl Sum {
    /// Adds a word.
    pub fn add_word(&mut self, word: u16) {
        self.total += u64::from(word);
    }

    /// Adds bytes that follow those that were added before.
    pub fn add(&mut self, bytes: &[u8]) {
        let mut bytes = bytes;
        if let (true, [low, rest @ ..]) = (self.odd, bytes) {
            self.total += u64::from(*low);
            self.odd = false;
            bytes = rest;
        }
        let (words, rest) = bytes.as_chunks::<2>();
        self.total += words.iter().map(|word| u64::from(u16::from_be_bytes(*word))).sum::<u64>();
        if let [high] = rest {
            self.total += u64::from(*high) << 8;
            self.odd = true;
        }
    }

    /// The sum in ones' complement.
    pub fn folded(self) -> u16 {
        let mut sum = self.total;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    /// What a checksum field holds.
    pub fn checksum(self) -> u16 {
        !self.folded()
    }
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

impl Span<'_> {
    /// Calls `each` with its bytes, in order, in pieces; returns how many there were. Fewer than asked for when the frame
    /// ends before, or a buffer is not in the memory.
    pub fn each_piece(&self, mut each: impl FnMut(&[u8])) -> usize {
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
            if read(self.memory, at, here, &mut each).is_err() {
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
    pub fn add_to(&self, sum: &mut Sum) -> bool {
        self.each_piece(|piece| sum.add(piece)) == self.len
    }

    /// CRC-32C, as SCTP's field has it in network order (RFC 9260, appendix A); `None` when the bytes are not all there.
    pub fn crc32c(&self) -> Option<[u8; 4]> {
        let mut digest = CRC32C.digest();
        let read = self.each_piece(|piece| digest.update(piece));
        (read == self.len).then(|| digest.finalize().to_le_bytes())
    }
}

fn read(memory: &DmaMemory, at: usize, len: usize, each: &mut impl FnMut(&[u8])) -> Result<(), OutOfBounds> {
    let mut piece = [0; PIECE];
    let mut done = 0;
    while done < len {
        let (here, _) = piece.split_at_mut(PIECE.min(len - done));
        memory.copy_out(at + done, here)?;
        each(here);
        done += here.len();
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
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        for cut in 0..=8 {
            for again in cut..=8 {
                let mut sum = Sum::default();
                for piece in [&bytes[..cut], &bytes[cut..again], &bytes[again..]] {
                    sum.add(piece);
                }
                assert_eq!((sum.folded(), sum.checksum()), (0xddf2, 0x220d));
            }
        }
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
