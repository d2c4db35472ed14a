//! A packet outside of its memory: which buffer, and 16 bytes of metadata.
//!
//! The metadata are two quadwords in the layout in which an XL710 writes a receive descriptor back
//! (X710/XXV710/XL710 datasheet, "Receive Descriptor - Write Back Format"), so that this driver's receive is a
//! copy and others fill in a few fields. Two fields have a meaning of our own:
//!
//! | word | bits  | field |
//! |------|-------|-------|
//! | lo   | 15:0  | **ours**: what the transmit queue is asked for, see [`crate::request`]; 0 from receive |
//! | lo   | 31:16 | VLAN tag that was stripped, with priority (L2TAG1), or that is to be inserted |
//! | lo   | 63:32 | hash of the flow (RSS), or lengths that go with a request |
//! | hi   | 0     | the card has written this (DD); no meaning once a packet is in a burst |
//! | hi   | 1     | last buffer of its frame (EOP) |
//! | hi   | 2     | a VLAN tag was stripped (L2TAG1P) |
//! | hi   | 3     | the card looked at layers 3 and 4 (L3L4P) |
//! | hi   | 6:5   | which register keeps the time of arrival (TSYNINDX) |
//! | hi   | 7     | one does (TSYNVALID) |
//! | hi   | 13:12 | 3: the hash is one (FLTSTAT) |
//! | hi   | 15    | IPv6 with extension headers (IPV6EXADD) |
//! | hi   | 26:19 | error bits |
//! | hi   | 37:30 | packet type |
//! | hi   | 51:38 | bytes of the frame in this buffer, without FCS |
//! | hi   | 62:52 | **ours**: bytes from the buffer's offset to the first byte of the frame |
//! | hi   | 63    | **ours**: a second tag was stripped, and lies in lo 63:48 in place of the hash |
//!
//! A frame in several buffers is several entries, in order, without EOP on all but the last; flags, tag, hash
//! and type count in the last one.

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::ptype::{Ip, PacketType};

/// What a card found about a checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksum {
    /// Nothing: software has to look.
    Unknown,
    /// It is right.
    Good,
    /// It is wrong.
    Bad,
}

impl Checksum {
    const fn from_error(error: bool) -> Self {
        if error { Self::Bad } else { Self::Good }
    }
}

/// Metadata of one buffer of a frame. See the module for the layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C, align(16))]
pub struct Meta {
    /// First quadword.
    pub lo: u64,
    /// Second quadword.
    pub hi: u64,
}

impl Meta {
    /// EOP in `hi`.
    pub const EOP: u64 = 1 << 1;
    /// L2TAG1P in `hi`.
    pub const VLAN_STRIPPED: u64 = 1 << 2;
    /// A second tag was stripped.
    const INNER_STRIPPED: u64 = 1 << 63;
    /// Its lowest bit in `lo`.
    const INNER_SHIFT: u32 = 48;
    /// L3L4P in `hi`.
    const L3L4: u64 = 1 << 3;
    /// TSYNVALID in `hi`.
    const TIME_STAMP: u64 = 1 << 7;
    /// IPV6EXADD in `hi`.
    const IPV6_EXTENSIONS: u64 = 1 << 15;
    /// IPE in `hi`.
    const IP_ERROR: u64 = 1 << 22;
    /// L4E in `hi`.
    const L4_ERROR: u64 = 1 << 23;
    /// PPRS in `hi`: checksums were not looked at.
    const NOT_CHECKED: u64 = 1 << 26;
    /// Lowest bit of the error field in `hi`.
    pub const ERROR_SHIFT: u32 = 19;
    /// Lowest bit of the packet type in `hi`.
    pub const PTYPE_SHIFT: u32 = 30;
    /// Lowest bit of the length in `hi`.
    pub const LEN_SHIFT: u32 = 38;
    /// Largest length of one buffer.
    pub const LEN_MAX: u32 = (1 << 14) - 1;
    /// Lowest bit of the offset in the buffer in `hi`.
    pub const START_SHIFT: u32 = 52;
    /// Largest offset in the buffer.
    pub const START_MAX: u32 = (1 << 11) - 1;

    /// A whole frame of `len` bytes at the start of its buffer. A length above [`Meta::LEN_MAX`] makes an entry of 0
    /// bytes, which a transmit queue drops under [`DropReason::TxBuffer`](crate::DropReason::TxBuffer).
    pub const fn frame(len: u32) -> Self {
        Self { lo: 0, hi: Self::EOP | Self::length_bits(len) }
    }

    /// As [`Meta::frame`], with more buffers of the same frame after it.
    pub const fn segment(len: u32) -> Self {
        Self { lo: 0, hi: Self::length_bits(len) }
    }

    const fn length_bits(len: u32) -> u64 {
        if len > Self::LEN_MAX { 0 } else { (len as u64) << Self::LEN_SHIFT }
    }

    /// Bytes of the frame in this buffer.
    pub const fn len(self) -> u32 {
        (self.hi >> Self::LEN_SHIFT) as u32 & Self::LEN_MAX
    }

    /// No bytes in this buffer.
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Bytes from the buffer's offset to the first byte of the frame.
    pub const fn start(self) -> u32 {
        (self.hi >> Self::START_SHIFT) as u32 & Self::START_MAX
    }

    /// The last buffer of its frame.
    pub const fn is_last(self) -> bool {
        self.hi & Self::EOP != 0
    }

    /// The card's packet type.
    pub const fn ptype(self) -> u8 {
        (self.hi >> Self::PTYPE_SHIFT) as u8
    }

    /// The card's error bits.
    pub const fn errors(self) -> u8 {
        (self.hi >> Self::ERROR_SHIFT) as u8
    }

    /// The VLAN tag that was stripped.
    pub const fn stripped_vlan(self) -> Option<u16> {
        if self.hi & Self::VLAN_STRIPPED != 0 { Some((self.lo >> 16) as u16) } else { None }
    }

    /// The tag behind [`Meta::stripped_vlan`], which was stripped, too.
    pub const fn stripped_inner_vlan(self) -> Option<u16> {
        if self.hi & Self::INNER_STRIPPED != 0 { Some((self.lo >> Self::INNER_SHIFT) as u16) } else { None }
    }

    /// With the second tag of a frame from which two were stripped.
    #[must_use]
    pub const fn with_inner_stripped(self, tag: u16) -> Self {
        let lo = self.lo & 0xffff_ffff | (tag as u64) << Self::INNER_SHIFT;
        Self { lo, hi: self.hi | Self::INNER_STRIPPED }
    }

    /// The flow hash, if the card made one and no second tag was stripped.
    pub const fn flow_hash(self) -> Option<u32> {
        if self.hi >> 12 & 3 == 3 && self.hi & Self::INNER_STRIPPED == 0 {
            Some((self.lo >> 32) as u32)
        } else {
            None
        }
    }

    /// The register that keeps the time at which the frame arrived, if one does.
    pub const fn time_stamp(self) -> Option<u8> {
        if self.hi & Self::TIME_STAMP != 0 { Some((self.hi >> 5) as u8 & 3) } else { None }
    }

    /// The card's packet type taken apart.
    pub const fn packet_type(self) -> PacketType {
        PacketType::decode(self.ptype())
    }

    /// What the card found about the checksum of the (innermost) IPv4 header.
    pub const fn ip_checksum(self) -> Checksum {
        let kind = self.packet_type();
        let innermost = if kind.inner.is_some() { kind.inner } else { kind.ip };
        if !self.was_checked() || !matches!(innermost, Some(Ip::V4)) {
            return Checksum::Unknown;
        }
        Checksum::from_error(self.hi & Self::IP_ERROR != 0)
    }

    /// What the card found about the checksum of layer 4. One that it can't know is [`Checksum::Unknown`]: of another
    /// protocol, of a fragment, behind IPv6 extension headers.
    pub const fn l4_checksum(self) -> Checksum {
        if !self.was_checked()
            || !self.packet_type().has_l4_checksum()
            || self.hi & Self::IPV6_EXTENSIONS != 0
        {
            return Checksum::Unknown;
        }
        Checksum::from_error(self.hi & Self::L4_ERROR != 0)
    }

    const fn was_checked(self) -> bool {
        self.hi & Self::L3L4 != 0 && self.hi & Self::NOT_CHECKED == 0
    }
}

/// One buffer with its metadata, owned by whoever holds it.
///
/// Not `Copy` and without `Drop`: it is sent, kept, or given back to the pool.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a packet is sent or given back to its pool"]
pub struct Packet {
    /// Byte offset of the buffer in the core's packet memory.
    pub buffer: u32,
    /// Its metadata.
    pub meta: Meta,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A write-back as Linux and DPDK read it: length 1514 in bits 51:38, type 24 (IPv4 UDP) in 37:30, DD and
    /// EOF, tag 0x6123 with L2TAG1P, hash 0xdeadbeef.
    #[test]
    fn fields_are_where_the_card_writes_them() {
        let meta = Meta { lo: 0xdead_beef_6123_0000, hi: 1514 << 38 | 24 << 30 | 3 << 12 | 0b1111 };
        assert_eq!((meta.len(), meta.ptype(), meta.flow_hash()), (1514, 24, Some(0xdead_beef)));
        assert_eq!((meta.ip_checksum(), meta.l4_checksum()), (Checksum::Good, Checksum::Good));
        assert_eq!((meta.stripped_vlan(), meta.is_last(), meta.start()), (Some(0x6123), true, 0));
        assert_eq!(Meta { lo: 0, hi: 0x10 << 19 }.errors(), 0x10);
        assert_eq!(
            (Meta { lo: 0, hi: 0xc0 }.time_stamp(), Meta { lo: 0, hi: 0x60 }.time_stamp()),
            (Some(2), None)
        );
    }

    /// As Linux's `i40e_rx_checksum` judges: nothing without L3L4P, nothing of what is neither TCP, UDP nor SCTP.
    #[test]
    fn checksums_are_judged_where_the_card_looked() {
        let meta = |ptype: u64, bits: u64| Meta { lo: 0, hi: ptype << 30 | bits };
        let (looked, ip_wrong, l4_wrong) = (1 << 3, 1 << 22, 1 << 23);
        let both = |meta: Meta| (meta.ip_checksum(), meta.l4_checksum());
        use Checksum::{Bad, Good, Unknown};
        assert_eq!(both(meta(26, looked)), (Good, Good));
        assert_eq!(both(meta(26, looked | ip_wrong)), (Bad, Good));
        assert_eq!(both(meta(26, looked | l4_wrong)), (Good, Bad));
        assert_eq!(both(meta(26, 0)), (Unknown, Unknown));
        assert_eq!(both(meta(26, looked | 1 << 26)), (Unknown, Unknown));
        assert_eq!(both(meta(22, looked)), (Good, Unknown));
        assert_eq!(both(meta(92, looked)), (Unknown, Good));
        assert_eq!(both(meta(92, looked | 1 << 15)), (Unknown, Unknown));
        assert_eq!(both(meta(11, looked)), (Unknown, Unknown));
        assert_eq!(meta(26, looked).flow_hash(), None);
    }

    #[test]
    fn largest_values_stay_in_their_fields() {
        let meta = Meta { lo: 0, hi: u64::MAX >> 1 };
        assert_eq!((meta.len(), meta.start()), (16383, 2047));
        assert_eq!(Meta::frame(16_383).len(), 16_383);
        // Never a length that is another one's rest.
        assert!([16_384, 16_384 + 60, u32::MAX].into_iter().all(|len| Meta::frame(len).is_empty()));
        assert!(!Meta::segment(60).is_last());
    }
}
