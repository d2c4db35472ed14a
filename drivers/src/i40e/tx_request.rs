//! A frame's request as the card takes it: command, offsets and tag of the data descriptors, and a context descriptor
//! where they don't suffice. Datasheet: "Transmit Descriptor", "Transmit Context Descriptor".
//!
//! Each condition that is checked here stops a queue of a real card when it is broken.

use kernel::request::{Checksums, IpHeader, L4Checksum, Segmentation};
use kernel::{DropReason, Meta};

use super::desc::tx;
use super::{MAX_FRAME, MAX_TX_BUFFERS};

/// Largest payload of a frame that is cut (by drivers: the field has 18 bits).
const MAX_SEGMENTED: u32 = (1 << 18) - 1;
const TAG_BYTES: u32 = 4;

/// What goes into the descriptors of a frame with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encoded {
    /// Bits of quadword 1 that all data descriptors carry.
    pub data: u64,
    /// The context descriptor in front of them.
    pub context: Option<[u64; 2]>,
}

/// Encodes the request of a frame of `len` bytes in `pieces`.
///
/// # Errors
/// Why the card must not be given the frame.
#[inline(never)]
pub fn encode(pieces: &[Meta], len: u32) -> Result<Encoded, DropReason> {
    let Some(last) = pieces.last() else { return Err(DropReason::TxBuffer) };
    // The bits are anybody's to write, and some that can't be asked for would stop the card.
    if last.request().is_err() {
        return Err(DropReason::TxRequest);
    }
    let mut data = 0;
    let mut tags = 0;
    if let Some(tag) = last.insert_vlan() {
        data |= tx::IL2TAG1 | u64::from(tag) << tx::L2TAG1_SHIFT;
        tags += TAG_BYTES;
    }
    let mut context = last.insert_outer_vlan().map(|tag| {
        tags += TAG_BYTES;
        [u64::from(tag) << tx::CONTEXT_L2TAG2_SHIFT, tx::TYPE_CONTEXT | tx::CONTEXT_IL2TAG2]
    });
    if last.asks_for_time() {
        let [first, second] = context.unwrap_or([0, tx::TYPE_CONTEXT]);
        context = Some([first, second | tx::CONTEXT_TSYN]);
    }
    if let Some(checksums) = last.request_checksums() {
        let segmentation = last.request_segmentation();
        data |= header_bits(&checksums, segmentation);
        let header = headers(&checksums, segmentation);
        if header > len {
            return Err(DropReason::TxRequest);
        }
        if let Some(segmentation) = segmentation {
            check_segments(pieces, len, header, segmentation, tags)?;
            let [first, second] = context.unwrap_or([0, tx::TYPE_CONTEXT]);
            let payload = u64::from(len - header) << tx::CONTEXT_LEN_SHIFT;
            let mss = u64::from(segmentation.mss) << tx::CONTEXT_MSS_SHIFT;
            context = Some([first, second | tx::CONTEXT_TSO | payload | mss]);
            return Ok(Encoded { data, context });
        }
    }
    if len + tags > MAX_FRAME {
        return Err(DropReason::TxTooLong);
    }
    Ok(Encoded { data, context })
}

/// Bytes up to the end of the headers that the card works on.
fn headers(checksums: &Checksums, segmentation: Option<Segmentation>) -> u32 {
    let l4 = match (segmentation, checksums.l4) {
        (Some(segmentation), _) => segmentation.l4_len,
        (None, Some(L4Checksum::Tcp)) => 20,
        (None, Some(L4Checksum::Sctp)) => 12,
        (None, Some(L4Checksum::Udp)) => 8,
        (None, None) => 0,
    };
    u32::from(checksums.l2_len) + u32::from(checksums.l3_len) + u32::from(l4)
}

fn header_bits(checksums: &Checksums, segmentation: Option<Segmentation>) -> u64 {
    let ip = match checksums.ip {
        IpHeader::V6 => tx::IIPT_IPV6,
        IpHeader::V4 => tx::IIPT_IPV4,
        IpHeader::V4Checksum => tx::IIPT_IPV4_CSUM,
    };
    let (l4, words) = match checksums.l4 {
        None => (0, 0),
        Some(L4Checksum::Tcp) => (tx::L4T_TCP, 5),
        Some(L4Checksum::Sctp) => (tx::L4T_SCTP, 3),
        Some(L4Checksum::Udp) => (tx::L4T_UDP, 2),
    };
    let words = segmentation.map_or(words, |segmentation| segmentation.l4_len / 4);
    ip | l4
        | u64::from(checksums.l2_len / 2) << tx::MACLEN_SHIFT
        | u64::from(checksums.l3_len / 4) << tx::IPLEN_SHIFT
        | u64::from(words) << tx::L4LEN_SHIFT
}

/// Each frame on the wire, with its headers, is taken from at most 8 buffers.
fn check_segments(
    pieces: &[Meta],
    len: u32,
    header: u32,
    segmentation: Segmentation,
    tags: u32,
) -> Result<(), DropReason> {
    let mss = u32::from(segmentation.mss);
    if len - header > MAX_SEGMENTED || header + mss + tags > MAX_FRAME {
        return Err(DropReason::TxTooLong);
    }
    if len == header {
        return Err(DropReason::TxRequest);
    }
    let mut walk = Walk { pieces, used: 0 };
    let header_buffers = walk.cross(header);
    let mut left = len - header;
    while left > 0 {
        let segment = left.min(mss);
        if header_buffers + walk.cross(segment) > MAX_TX_BUFFERS {
            return Err(DropReason::TxSegments);
        }
        left -= segment;
    }
    Ok(())
}

/// A place in a frame: buffers not yet gone through, and the bytes of the first of them that are.
struct Walk<'a> {
    pieces: &'a [Meta],
    used: u32,
}

impl Walk<'_> {
    /// Goes `bytes` on and says how many buffers they lie in.
    fn cross(&mut self, mut bytes: u32) -> usize {
        let mut buffers = 0;
        while let (true, [first, rest @ ..]) = (bytes > 0, self.pieces) {
            let here = (first.len() - self.used).min(bytes);
            buffers += usize::from(here > 0);
            bytes -= here;
            self.used += here;
            if self.used == first.len() {
                (self.pieces, self.used) = (rest, 0);
            }
        }
        buffers
    }
}

#[cfg(test)]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use kernel::TxRequest;

    use super::*;

    const TCP: Checksums =
        Checksums { l2_len: 14, l3_len: 20, ip: IpHeader::V4Checksum, l4: Some(L4Checksum::Tcp) };

    fn frame(lens: &[u32], request: TxRequest) -> (Vec<Meta>, u32) {
        let mut metas: Vec<Meta> = lens.iter().map(|len| Meta::segment(*len)).collect();
        let last = metas.last_mut().unwrap();
        *last = request.put(Meta::frame(last.len())).unwrap();
        (metas, lens.iter().sum())
    }

    fn cut(lens: &[u32], mss: u16) -> Result<Encoded, DropReason> {
        let segmentation = Some(Segmentation { mss, l4_len: 32 });
        let (pieces, len) =
            frame(lens, TxRequest { checksums: Some(TCP), segmentation, ..Default::default() });
        encode(&pieces, len)
    }

    /// Values that DPDK's `i40e_txd_enable_checksum` and Linux's `i40e_tx_enable_csum` write: for TCP over IPv4,
    /// MACLEN 7, IPLEN 5, L4LEN 5, IIPT 3, L4T 1; the tag in bits 63:48 with bit 7.
    #[test]
    fn data_descriptors_as_other_drivers_write_them() {
        let request = TxRequest { checksums: Some(TCP), vlan: Some(0x6123), ..Default::default() };
        let (pieces, len) = frame(&[60], request);
        let Encoded { data, context } = encode(&pieces, len).unwrap();
        assert_eq!(data, 0x6123 << 48 | (5 << 14 | 5 << 7 | 7) << 16 | (0x60 | 0x100 | 0x08) << 4);
        assert_eq!(context, None);
    }

    /// As Linux's `i40e_tso` and `i40e_create_tx_ctx`: type 1, TSO in bit 4, payload from bit 30, MSS from bit 50.
    #[test]
    fn context_descriptor_as_other_drivers_write_it() {
        let Encoded { data, context } = cut(&[66, 10_000], 1460).unwrap();
        assert_eq!(data >> 30 & 0xf, 8);
        assert_eq!(context, Some([0, 1460 << 50 | 10_000 << 30 | 1 << 4 | 1]));
        let request = TxRequest { vlan: Some(5), outer_vlan: Some(0x0fff), ..Default::default() };
        let (pieces, len) = frame(&[60], request);
        assert_eq!(encode(&pieces, len).unwrap().context, Some([0x0fff << 32, 4 << 4 | 1]));
    }

    #[test]
    fn segments_in_more_than_8_buffers_are_refused() {
        assert!(cut(&[66, 200, 200, 200, 200, 200, 200, 200], 1400).is_ok());
        assert_eq!(cut(&[66, 200, 200, 200, 200, 200, 200, 199, 1], 1400), Err(DropReason::TxSegments));
        // The ninth buffer lies in the second segment only.
        assert!(cut(&[66, 200, 200, 200, 200, 200, 200, 200, 200, 200], 1400).is_ok());
        // Headers in two buffers count twice.
        assert_eq!(cut(&[33, 33, 200, 200, 200, 200, 200, 200, 200], 1400), Err(DropReason::TxSegments));
    }

    #[test]
    fn lengths_that_stop_a_card_are_refused() {
        assert_eq!(cut(&[66], 1460), Err(DropReason::TxRequest));
        assert_eq!(cut(&[60], 1460), Err(DropReason::TxRequest));
        assert_eq!(cut(&[66, 9728], 9674), Err(DropReason::TxTooLong));
        assert!(cut(&[66, 9728], 9662).is_ok());
        let long = vec![16_000; 17];
        assert_eq!(cut(&long, 9662), Err(DropReason::TxTooLong));
        let (pieces, len) = frame(&[9725], TxRequest { vlan: Some(1), ..Default::default() });
        assert_eq!(encode(&pieces, len), Err(DropReason::TxTooLong));
        let (pieces, len) = frame(&[53], TxRequest { checksums: Some(TCP), ..Default::default() });
        assert_eq!(encode(&pieces, len), Err(DropReason::TxRequest));
    }
}
