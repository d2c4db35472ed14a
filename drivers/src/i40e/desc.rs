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
    /// Lowest bit of the buffer's size, bits 47:34.
    pub const SIZE_SHIFT: u32 = 34;
    /// Largest size of a buffer.
    pub const SIZE_MAX: u32 = (1 << 14) - 1;

    /// Bytes of the buffer.
    pub const fn size(word: u64) -> u32 {
        (word >> SIZE_SHIFT) as u32 & SIZE_MAX
    }
}
