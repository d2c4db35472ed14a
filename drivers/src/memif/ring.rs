//! A ring in shared memory: a header of 128 bytes, then descriptors of 16.
//!
//! | bytes | who writes | field |
//! |-------|------------|-------|
//! | 0..4  | client, once | cookie |
//! | 4..6  | who takes packets off | flags: [`MASK_INT`] |
//! | 6..8  | client | head: where the client goes on |
//! | 64..66 | server | tail: where the server goes on |
//! | 128.. | both | descriptors |
//!
//! Head and tail run freely through 16 bits. From client to server a client fills what lies from the head on, and the server
//! takes from tail to head. The other way a client offers empty buffers up to the head, the server fills them from the tail
//! on, and the client takes what lies before the tail.
//!
//! A descriptor as two quadwords: flags in bits 15:0, region in 31:16, length in 63:32 of the first; offset in bits 31:0
//! of the second (`memif_desc_t`).

use core::fmt;

use hal::{DescRing, DmaMemory, SharedU16};

/// `MEMIF_COOKIE`
pub const COOKIE: u32 = 0x03e3_1f20;
/// Bytes in front of the descriptors.
pub const HEADER_LEN: usize = 128;
/// Bytes of a descriptor.
pub const DESCRIPTOR_LEN: usize = 16;
/// `MEMIF_RING_FLAG_MASK_INT`: who takes packets off polls, and needs no interrupt.
pub const MASK_INT: u16 = 1;
/// `MEMIF_DESC_FLAG_NEXT`: the packet goes on in the next descriptor.
pub const NEXT: u16 = 1;
/// Ring sizes as powers of two.
pub const LOG2_SIZES: core::ops::RangeInclusive<u8> = 1..=14;

const COOKIE_AT: usize = 0;
const FLAGS_AT: usize = 4;
const HEAD_AT: usize = 6;
const TAIL_AT: usize = 64;

/// Bytes of a ring.
pub const fn ring_bytes(log2_size: u8) -> usize {
    HEADER_LEN + (DESCRIPTOR_LEN << log2_size)
}

/// A descriptor, read once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptor {
    /// [`NEXT`] and whatever else the other side wrote.
    pub flags: u16,
    /// Which region.
    pub region: u16,
    /// Bytes.
    pub len: u32,
    /// Where in the region.
    pub offset: u32,
}

impl Descriptor {
    /// From its quadwords.
    #[inline]
    pub const fn from_words(first: u64, second: u64) -> Self {
        Self {
            flags: first as u16,
            region: (first >> 16) as u16,
            len: (first >> 32) as u32,
            offset: second as u32,
        }
    }

    /// The first quadword.
    #[inline]
    pub const fn first_word(self) -> u64 {
        self.flags as u64 | (self.region as u64) << 16 | (self.len as u64) << 32
    }

    /// The packet goes on in the next one.
    #[inline]
    pub const fn goes_on(self) -> bool {
        self.flags & NEXT != 0
    }
}

/// What is wrong with a ring that a peer shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RingError {
    /// Its size is 2 to the power of this.
    Size(u8),
    /// It does not lie in its region: offset and bytes of the region.
    Outside(u32, usize),
    /// Its offset is not a multiple of 16.
    Unaligned(u32),
    /// Its first word.
    Cookie(u32),
}

impl fmt::Display for RingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size(log2) => write!(f, "ring size 2^{log2} is not 2^1 to 2^14"),
            Self::Outside(offset, len) => write!(f, "ring at {offset:#x} not inside region of {len:#x}"),
            Self::Unaligned(offset) => write!(f, "ring at {offset:#x} is not 16-byte aligned"),
            Self::Cookie(cookie) => write!(f, "ring cookie {cookie:#x}"),
        }
    }
}

/// A ring.
pub struct Ring {
    descriptors: DescRing<2>,
    head: SharedU16,
    tail: SharedU16,
    flags: SharedU16,
    size: u16,
}

impl Ring {
    /// The ring that a client has laid out at `offset` of `region`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn open(region: &DmaMemory, offset: u32, log2_size: u8) -> Result<Self, RingError> {
        let ring = Self::at(region, offset, log2_size)?;
        let outside = RingError::Outside(offset, region.len());
        let cookie = region.load(offset as usize + COOKIE_AT).map_err(|_| outside)?;
        if cookie == COOKIE { Ok(ring) } else { Err(RingError::Cookie(cookie)) }
    }

    /// Lays out an empty ring.
    ///
    /// # Errors
    /// It can't lie there.
    pub fn lay_out(region: &DmaMemory, offset: u32, log2_size: u8) -> Result<Self, RingError> {
        let ring = Self::at(region, offset, log2_size)?;
        ring.descriptors.fill(0);
        for word in [&ring.flags, &ring.head, &ring.tail] {
            word.store(0);
        }
        let outside = RingError::Outside(offset, region.len());
        region.store(offset as usize + COOKIE_AT, COOKIE).map_err(|_| outside)?;
        Ok(ring)
    }

    fn at(region: &DmaMemory, offset: u32, log2_size: u8) -> Result<Self, RingError> {
        if !LOG2_SIZES.contains(&log2_size) {
            return Err(RingError::Size(log2_size));
        }
        if !(offset as usize).is_multiple_of(DESCRIPTOR_LEN) {
            return Err(RingError::Unaligned(offset));
        }
        let outside = RingError::Outside(offset, region.len());
        // `usize` has 64 bits, so no sum of 32-bit values wraps.
        let whole = region.part(offset as usize, ring_bytes(log2_size)).map_err(|_| outside)?;
        let descriptors = whole.part(HEADER_LEN, DESCRIPTOR_LEN << log2_size).map_err(|_| outside)?;
        let word = |at| SharedU16::new(&whole, at).ok_or(outside);
        Ok(Self {
            head: word(HEAD_AT)?,
            tail: word(TAIL_AT)?,
            flags: word(FLAGS_AT)?,
            // A region may begin anywhere, even if a client's own memory does not.
            descriptors: DescRing::new(descriptors, 1 << log2_size).ok_or(RingError::Unaligned(offset))?,
            size: 1 << log2_size,
        })
    }

    /// Descriptors in the ring.
    #[inline]
    pub const fn size(&self) -> u16 {
        self.size
    }

    /// The descriptors, which wrap at [`Ring::size`].
    #[inline]
    pub const fn descriptors(&self) -> &DescRing<2> {
        &self.descriptors
    }

    /// The place of a free-running index.
    #[inline]
    pub const fn slot(&self, index: u16) -> usize {
        (index & (self.size - 1)) as usize
    }

    /// The descriptor at a free-running index.
    #[inline]
    pub fn descriptor(&self, index: u16) -> Descriptor {
        let slot = self.slot(index);
        Descriptor::from_words(self.descriptors.read(slot, 0), self.descriptors.read(slot, 1))
    }

    /// The client's index.
    #[inline]
    pub const fn head(&self) -> &SharedU16 {
        &self.head
    }

    /// The server's index.
    #[inline]
    pub const fn tail(&self) -> &SharedU16 {
        &self.tail
    }

    /// Says whether who takes packets off this ring polls.
    pub fn mask_interrupts(&self, polls: bool) {
        self.flags.store(if polls { MASK_INT } else { 0 });
    }

    /// Who takes packets off wants to be woken. To be asked behind a [`full_fence`](hal::shared::full_fence) after packets
    /// have been published: else he may go to sleep in between.
    #[inline]
    pub fn wants_interrupts(&self) -> bool {
        self.flags.load() & MASK_INT == 0
    }
}

#[cfg(test)]
mod tests {
    use hal::Machine;
    use hal::hosted::{FakeBar, HostedMachine};

    use super::*;

    fn region() -> DmaMemory {
        HostedMachine::<FakeBar>::new(1 << 16).unwrap().dma_alloc(0x4000, 4096).unwrap()
    }

    /// `memif_ring_t` and `memif_desc_t` as C lays them out.
    #[test]
    fn fields_lie_where_memif_h_has_them() {
        let region = region();
        let ring = Ring::lay_out(&region, 0x1000, 4).unwrap();
        ring.mask_interrupts(true);
        ring.head().store(0x1122);
        ring.tail().store(0x3344);
        let descriptor = Descriptor { flags: NEXT, region: 2, len: 0x0506_0708, offset: 0x090a_0b0c };
        ring.descriptors().write_all(3, [descriptor.first_word(), u64::from(descriptor.offset)]);
        assert_eq!(region.load::<[u8; 8]>(0x1000).unwrap(), [0x20, 0x1f, 0xe3, 3, 1, 0, 0x22, 0x11]);
        assert_eq!(region.load::<[u8; 2]>(0x1040).unwrap(), [0x44, 0x33]);
        let wanted = [1, 0, 2, 0, 8, 7, 6, 5, 0x0c, 0x0b, 0x0a, 9, 0, 0, 0, 0];
        assert_eq!(region.load::<[u8; 16]>(0x1000 + 128 + 3 * 16).unwrap(), wanted);
        assert_eq!(ring.descriptor(3 + 16), descriptor);
    }

    #[test]
    fn a_ring_that_is_none_is_refused_by_name() {
        let region = region();
        let error = |offset, log2| Ring::open(&region, offset, log2).err().unwrap();
        assert_eq!(error(0, 0), RingError::Size(0));
        assert_eq!(error(0, 15), RingError::Size(15));
        assert_eq!(error(8, 4), RingError::Unaligned(8));
        // One descriptor too far, and sums that would wrap in 32 bits.
        let last = 0x4000 - 128 - 16 * 16;
        assert_eq!(error(last + 16, 4), RingError::Outside(last + 16, 0x4000));
        assert_eq!(error(0xffff_fff0, 4), RingError::Outside(0xffff_fff0, 0x4000));
        assert_eq!(error(last, 4), RingError::Cookie(0));
        assert!(Ring::lay_out(&region, last, 4).is_ok() && Ring::open(&region, last, 4).is_ok());
    }
}
