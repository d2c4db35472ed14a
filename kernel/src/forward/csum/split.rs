//! `--txsplit`: frames are copied into segments before they are sent, as testpmd's `csum` does it.

use heapless::Vec;

use crate::burst::Burst;
use crate::forward::Work;
use crate::forward::frame::ranges;
use crate::forward::random::Random;
use crate::forward::segments::{MAX_SEGMENTS, SEGMENT_MAX, Segments, Split};
use crate::packet::{Meta, Packet};

/// Buffers and metadata of a frame, old or new.
type Entries = Vec<(u32, Meta), 16>;

/// Copies the frames into segments, if that is asked for. One that would need a segment larger than a buffer, or for which
/// there are no buffers, stays as it is.
pub fn split(segments: &Segments, random: &mut Random, work: &mut Work<'_>, burst: &mut Burst) {
    // What has no end would come to lie in front of the next frame.
    let ends = burst.metas().last().is_none_or(|meta| meta.is_last());
    if segments.split == Split::Off || !ends {
        return;
    }
    // Frames go round once: from the front of the burst to its end.
    let frames = burst.frames();
    for _ in 0..frames {
        let Some(len) = ranges(burst.metas()).next().map(|range| range.len()) else { return };
        let mut old = Entries::new();
        let mut rest = len;
        while rest > 0 && old.len() < old.capacity() {
            let Some(packet) = burst.pop() else { break };
            let _ = old.push((packet.buffer, packet.meta));
            rest -= 1;
        }
        let new = if rest == 0 { copy(segments.next(random), work, burst.room(), &old) } else { None };
        let (kept, given) = match new {
            Some(new) => (new, old),
            None => (old, Entries::new()),
        };
        for (buffer, meta) in kept {
            // There was room for it.
            if let Err(packet) = burst.push(Packet { buffer, meta }) {
                work.buffers.give(&[packet.buffer]);
            }
        }
        given.iter().for_each(|(buffer, _)| work.buffers.give(&[*buffer]));
        // More entries of this frame than are handled go round untouched.
        for _ in 0..rest {
            if let Some(packet) = burst.pop() {
                let _ = burst.push(packet);
            }
        }
    }
}

/// The lengths of the segments of a frame of `total` bytes: as asked for, the last with all that is left.
fn lengths(asked: &[u16], total: usize) -> Option<Vec<usize, MAX_SEGMENTS>> {
    let mut lens = Vec::new();
    let mut left = total;
    for len in asked {
        if left == 0 {
            break;
        }
        let len = usize::from(*len).min(left);
        lens.push(len).ok()?;
        left -= len;
    }
    *lens.last_mut()? += left;
    lens.iter().all(|len| *len <= usize::from(SEGMENT_MAX)).then_some(lens)
}

fn copy(asked: &[u16], work: &mut Work<'_>, room: usize, old: &Entries) -> Option<Entries> {
    let total = old.iter().map(|(_, meta)| meta.len() as usize).sum();
    let lens = lengths(asked, total).filter(|lens| lens.len() <= room)?;
    let mut new = Entries::new();
    for (index, len) in lens.iter().enumerate() {
        let Some(buffer) = work.buffers.take() else { break };
        let len = *len as u32;
        let meta = if index + 1 == lens.len() { Meta::frame(len) } else { Meta::segment(len) };
        let _ = new.push((buffer, meta));
    }
    // What is asked of the card goes along, with the tag.
    if let (Some((_, last)), Some((_, meta))) = (new.last_mut(), old.last()) {
        last.lo = meta.lo;
    }
    if new.len() < lens.len() || copy_bytes(work, old, &new).is_none() {
        new.iter().for_each(|(buffer, _)| work.buffers.give(&[*buffer]));
        return None;
    }
    Some(new)
}

fn copy_bytes(work: &Work<'_>, old: &Entries, new: &Entries) -> Option<()> {
    let mut piece = [0; 64];
    let (mut index, mut to) = (0, 0);
    for (buffer, meta) in old {
        let (mut at, mut left) = ((buffer + meta.start()) as usize, meta.len() as usize);
        while left > 0 {
            let (buffer, meta) = new.get(index)?;
            let room = meta.len() as usize - to;
            let here = piece.get_mut(..left.min(room).min(64))?;
            work.memory.copy_out(at, here).ok()?;
            work.memory.copy_in(*buffer as usize + to, here).ok()?;
            (at, left, to) = (at + here.len(), left - here.len(), to + here.len());
            if to == meta.len() as usize {
                (index, to) = (index + 1, 0);
            }
        }
    }
    Some(())
}
