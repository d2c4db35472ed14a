//! Frames of which something is asked for that needs no context descriptor: a tag to insert, checksums to fill in.
//!
//! Written without branches, lane by lane, so that the compiler makes vectors of the instruction set of the loop that this
//! is part of. What a request can't be, and one that needs more, is left to `tx_request`.

use hal::Bar;
use kernel::Meta;

use super::loops::GROUP;
use crate::i40e::desc::tx;
use crate::i40e::tx::Tx;
use crate::i40e::{MAX_FRAME, MIN_FRAME};

/// Bits of a request that are understood here: the tag, the kind of IP, the checksum of layer 4.
const UNDERSTOOD: u64 = 0b0111_1001;
/// Length of a layer 4 header in 4 bytes, by the checksum that is asked for: none, TCP, SCTP, UDP.
const L4_WORDS: u64 = 0x2350;

/// What a frame asks for, as bits of its descriptor, and bits of which one is set when it can't be done here.
#[inline(always)]
fn encode(lo: u64, len: u64) -> (u64, u64) {
    let (vlan, ip, l4) = (lo & 1, lo >> 3 & 3, lo >> 5 & 3);
    let (l2_len, l3_len) = (lo >> 32 & 0x7f, lo >> 39 & 0x7f);
    let l4_words = L4_WORDS >> (l4 * 4) & 0xf;
    let with_ip = u64::from(ip != 0);
    let headers = ip << 9
        | l4 << 12
        | l2_len << tx::MACLEN_SHIFT
        | l3_len << tx::IPLEN_SHIFT
        | l4_words << tx::L4LEN_SHIFT;
    let tag = lo >> 16 & 0xffff;
    let data = (with_ip * headers) | (vlan * (tx::IL2TAG1 | tag << tx::L2TAG1_SHIFT));
    let least = 5 + 5 * u64::from(ip == 1);
    let end = l2_len * 2 + (l3_len + l4_words) * 4;
    let wrong = u64::from(lo & Meta::REQUEST & !UNDERSTOOD != 0)
        | (with_ip ^ 1) & u64::from(l4 != 0)
        | with_ip & (u64::from(l2_len < 7) | u64::from(l3_len < least) | u64::from(end > len))
        | u64::from(len + 4 * vlan > u64::from(MAX_FRAME));
    (data, wrong)
}

/// Writes the descriptors of eight frames, each whole in one buffer; returns their bytes. `None`, and nothing is
/// written, when one of them has to be looked at by itself. There is room for them in front of the ring's end.
#[inline(always)]
pub fn write_asked<B: Bar>(tx: &mut Tx<B>, offsets: &[u32; GROUP], metas: &[Meta; GROUP]) -> Option<u64> {
    const PLACE: u64 = Meta::EOP | u64::MAX << Meta::START_SHIFT;
    let (mut words, mut bytes, mut wrong) = ([0; GROUP], 0, 0);
    for ((word, offset), meta) in words.iter_mut().zip(offsets).zip(metas) {
        let len = u64::from(meta.len());
        let (data, unfit) = encode(meta.lo, len);
        let outside = u64::from(u64::from(*offset) + len > tx.memory_len);
        let elsewhere = u64::from(meta.hi & PLACE != Meta::EOP);
        wrong |= unfit | outside | elsewhere | u64::from(len < u64::from(MIN_FRAME));
        *word = tx::ICRC | tx::EOP | data | len << tx::SIZE_SHIFT;
        bytes += len;
    }
    if wrong != 0 {
        return None;
    }
    let (start, base) = (tx.next, tx.base);
    let (blocks, [buffers]) = tx.slots.groups::<GROUP>(start, 1)? else { return None };
    let block = blocks.get(0)?;
    for (index, (word, offset)) in words.into_iter().zip(offsets).enumerate() {
        block.write::<0>(index, base + u64::from(*offset));
        block.write::<1>(index, word);
    }
    *buffers = *offsets;
    tx.ask_for_reports(start, GROUP);
    tx.next = tx.wrap(start + GROUP);
    tx.used += GROUP;
    Some(bytes)
}
