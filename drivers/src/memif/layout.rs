//! Where a client's rings and buffers lie in its region.
//!
//! First the rings of two connections, of which every other one uses the same: a queue that has not seen yet that a
//! connection is over does not write into the next one's rings. Then, without zero-copy, a buffer for each descriptor.

use core::fmt;

use super::ring::{LOG2_SIZES, ring_bytes};

/// Rings begin at a multiple of this: two cache lines, since processors fetch them in pairs.
const RING_ALIGN: u64 = 128;
/// Buffers begin at a multiple of this, so that whole lines can be copied.
const LINE: u64 = 64;
/// Where buffers begin, and how far a region with none goes at least.
const PAGE: u64 = 4096;

/// What a client shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Rings from client to server.
    pub c2s: u16,
    /// Rings from server to client.
    pub s2c: u16,
    /// Descriptors of each, as a power of two.
    pub log2_size: u8,
    /// Bytes of a buffer of the region's own; 0 with zero-copy, where it has none.
    pub buffer: u32,
}

/// A region that does not hold what it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooSmall {
    /// Bytes needed.
    pub needed: u64,
    /// Bytes that there are, or that a 32-bit offset reaches.
    pub available: u64,
}

impl fmt::Display for TooSmall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rings and buffers need {} bytes, the region has {}", self.needed, self.available)
    }
}

/// The places in a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    shape: Shape,
    ring_stride: u64,
    stride: u64,
    buffers: u64,
    end: u64,
}

impl Layout {
    /// The places for `shape` in a region of `len` bytes.
    ///
    /// # Errors
    /// It does not fit.
    pub fn new(shape: Shape, len: u64) -> Result<Self, TooSmall> {
        debug_assert!(LOG2_SIZES.contains(&shape.log2_size));
        let rings = u64::from(shape.c2s) + u64::from(shape.s2c);
        let ring_stride = (ring_bytes(shape.log2_size) as u64).next_multiple_of(RING_ALIGN);
        let buffers = (2 * rings * ring_stride).next_multiple_of(PAGE);
        let stride = stride(shape.buffer);
        let end = buffers + ((rings * stride) << shape.log2_size);
        let available = len.min(1 << 32);
        if end > available {
            return Err(TooSmall { needed: end, available });
        }
        Ok(Self { shape, ring_stride, stride, buffers, end })
    }

    /// What is shared.
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// The first byte that is used for nothing of this.
    pub const fn end(&self) -> u64 {
        self.end
    }

    /// Where a ring of connection `connection` lies.
    pub fn ring(&self, connection: u32, client_to_server: bool, index: u16) -> u32 {
        let rings = u64::from(self.shape.c2s) + u64::from(self.shape.s2c);
        let number = u64::from(connection % 2) * rings + self.number(client_to_server, index);
        // Below `end`, which is at most 2^32.
        (number * self.ring_stride) as u32
    }

    /// The buffers of a ring: where the first one lies, and the distance of two.
    pub fn buffers(&self, client_to_server: bool, index: u16) -> (u32, u32) {
        let first =
            self.buffers + ((self.number(client_to_server, index) * self.stride) << self.shape.log2_size);
        (first as u32, self.stride as u32)
    }

    fn number(&self, client_to_server: bool, index: u16) -> u64 {
        u64::from(index) + if client_to_server { 0 } else { u64::from(self.shape.c2s) }
    }
}

/// Bytes from one buffer to the next: whole lines, and one more where the headers of all packets would fall into few sets
/// of a cache otherwise.
fn stride(buffer: u32) -> u64 {
    let lines = u64::from(buffer).next_multiple_of(LINE);
    if lines > 0 && lines.is_multiple_of(512) { lines + LINE } else { lines }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    /// B04: numbers of queues and ring sizes whose product passes 2^16.
    #[test]
    fn every_ring_and_every_buffer_has_its_own_place() {
        for (c2s, s2c, log2_size, buffer) in [
            (9, 9, 12, 2048),
            (4, 1, 14, 2048),
            (1, 1, 1, 64),
            (3, 2, 10, 1000),
            (255, 1, 8, 128),
            (1, 4, 14, 0),
        ] {
            let shape = Shape { c2s, s2c, log2_size, buffer };
            let layout = Layout::new(shape, 1 << 32).unwrap();
            let rings = || (0..c2s).map(|index| (true, index)).chain((0..s2c).map(|index| (false, index)));
            let mut places: Vec<(u64, u64)> = Vec::new();
            for connection in 0..2 {
                for (way, index) in rings() {
                    places.push((layout.ring(connection, way, index).into(), ring_bytes(log2_size) as u64));
                }
            }
            for (way, index) in rings().filter(|_| buffer > 0) {
                let (first, stride) = layout.buffers(way, index);
                assert!(first % 64 == 0 && stride % 64 == 0 && stride >= buffer);
                let at = |slot: u64| u64::from(first) + slot * u64::from(stride);
                places.extend(
                    (0..1 << log2_size).map(|slot| (at(slot), u64::from(buffer).next_multiple_of(64))),
                );
            }
            places.sort_unstable();
            assert!(places.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{shape:?}");
            assert!(places.iter().all(|(at, len)| at + len <= layout.end()));
            assert_eq!(Layout::new(shape, layout.end()), Ok(layout));
            let needed = layout.end();
            assert_eq!(Layout::new(shape, needed - 1), Err(TooSmall { needed, available: needed - 1 }));
        }
    }

    #[test]
    fn what_no_offset_reaches_is_refused() {
        let shape = Shape { c2s: 64, s2c: 64, log2_size: 14, buffer: 2048 };
        assert!(Layout::new(shape, u64::MAX).is_err_and(|error| error.available == 1 << 32));
    }
}
