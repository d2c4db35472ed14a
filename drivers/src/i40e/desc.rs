//! Descriptors (datasheet: "Receive Descriptor", "Transmit Descriptor").

/// Quadword 1 of a receive write-back. Length, flags and type have their places in `kernel::Meta`.
pub mod rx {
    /// Descriptor done.
    pub const DD: u64 = 1 << 0;
    /// MAC error: the frame is bad.
    pub const RXE: u64 = 1 << 19;
    /// Longer than the queue takes.
    pub const OVERSIZE: u64 = 1 << 25;
    /// Header length and SPH, bits 63:52: always 0 without header split, and ours once a packet is in a burst.
    pub const HEADER: u64 = 0xfff << 52;
    /// Quadword 2 of a descriptor of 32 bytes: a second tag was stripped (L2TAG2P), and lies in bits 63:48 (L2TAG2_2).
    pub const L2TAG2P: u64 = 1 << 0;
    /// Lowest bit of that tag.
    pub const L2TAG2_SHIFT: u32 = 48;
    /// What of quadword 0 means something: hash and stripped tag.
    pub const META_LO: u64 = 0xffff_ffff_ffff_0000;
}

/// Quadword 1 of a transmit descriptor.
pub mod tx {
    /// Type of a finished descriptor, bits 3:0.
    pub const DONE: u64 = 0xf;
    /// Bits 3:0.
    pub const TYPE_MASK: u64 = 0xf;
    /// Last buffer of its frame.
    pub const EOP: u64 = 1 << 4;
    /// Report when done.
    pub const RS: u64 = 1 << 5;
    /// The card adds the FCS; always set.
    pub const ICRC: u64 = 1 << 6;
    /// Insert the tag in bits 63:48.
    pub const IL2TAG1: u64 = 0x008 << 4;
    /// IPv6.
    pub const IIPT_IPV6: u64 = 0x020 << 4;
    /// IPv4 whose checksum stays.
    pub const IIPT_IPV4: u64 = 0x040 << 4;
    /// IPv4 whose checksum is filled in.
    pub const IIPT_IPV4_CSUM: u64 = 0x060 << 4;
    /// A TCP checksum is filled in.
    pub const L4T_TCP: u64 = 0x100 << 4;
    /// An SCTP checksum is filled in.
    pub const L4T_SCTP: u64 = 0x200 << 4;
    /// A UDP checksum is filled in.
    pub const L4T_UDP: u64 = 0x300 << 4;
    /// Lowest bit of the length in front of IP, in 2 bytes.
    pub const MACLEN_SHIFT: u32 = 16;
    /// Lowest bit of the length of IP, in 4 bytes.
    pub const IPLEN_SHIFT: u32 = 23;
    /// Lowest bit of the length of layer 4, in 4 bytes.
    pub const L4LEN_SHIFT: u32 = 30;
    /// Lowest bit of the tag.
    pub const L2TAG1_SHIFT: u32 = 48;

    /// Type of a context descriptor.
    pub const TYPE_CONTEXT: u64 = 1;
    /// Quadword 1: the frame is cut into segments.
    pub const CONTEXT_TSO: u64 = 0x01 << 4;
    /// Quadword 1: keep the time at which the frame is sent (TSYN).
    pub const CONTEXT_TSYN: u64 = 0x02 << 4;
    /// Quadword 1: insert the second tag.
    pub const CONTEXT_IL2TAG2: u64 = 0x04 << 4;
    /// Quadword 1: lowest bit of the payload's length.
    pub const CONTEXT_LEN_SHIFT: u32 = 30;
    /// Quadword 1: lowest bit of the segment size.
    pub const CONTEXT_MSS_SHIFT: u32 = 50;
    /// Quadword 0: lowest bit of the second tag.
    pub const CONTEXT_L2TAG2_SHIFT: u32 = 32;

    /// Lowest bit of the buffer's size, bits 47:34.
    pub const SIZE_SHIFT: u32 = 34;
    /// Largest size of a buffer.
    pub const SIZE_MAX: u32 = (1 << 14) - 1;

    /// Bytes of the buffer.
    pub const fn size(word: u64) -> u32 {
        (word >> SIZE_SHIFT) as u32 & SIZE_MAX
    }
}
