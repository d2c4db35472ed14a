//! What the loops of all instruction sets have in common.
//!
//! `vector_loops!` makes `receive` and `transmit` of a module. The module gives it, all with its instruction set enabled:
//!
//! - `arm(descriptors, base, block)`: writes address and 0 into the first two words of 32 descriptors.
//! - `Heads`: first and second quadwords of eight frames; `heads(block)` from descriptors, `heads_of(metas)`, and
//!   `put(metas, heads)`.
//! - `Words`: some bits of their second quadwords; `words(heads, used)`, and `in_order(words)` as an array.
//! - `all_plain(words, range)`: the frames are plain and have nothing wrong with them.
//! - `Sum` of words; `nothing()`, `add(sum, words)`, `bytes(sum)`.
//! - `may_be_sent(offsets, heads, limit)`: each frame is `Tx::is_plain` and ends in front of `limit`.
//! - `write(block, base, offsets, words)`: writes the descriptors of eight plain frames.
//! - `exchange(headers, offsets)`: exchanges the addresses of eight frames, or says that one is not in the memory.
//! - `overwrite(headers, offsets, addresses)`: writes addresses over those of eight frames, likewise.

use kernel::Meta;

use crate::i40e::desc::{rx, tx};

/// Frames in a group.
pub const GROUP: usize = 8;

/// The length in a second quadword.
pub const LENGTH: u64 = (Meta::LEN_MAX as u64) << Meta::LEN_SHIFT;
/// What of a received second quadword is looked at. The marks of a good frame disappear when the length is shifted to
/// where a transmit descriptor has it.
pub const WORD: u64 = LENGTH | rx::DD | Meta::EOP | rx::RXE | rx::OVERSIZE;
/// How far the length is shifted.
pub const SIZE_RIGHT: u32 = Meta::LEN_SHIFT - tx::SIZE_SHIFT;

/// The lengths of plain frames, as words.
#[derive(Clone, Copy)]
pub struct Range {
    /// The word of the shortest one.
    pub shortest: u64,
    /// How much the longest one's is above it.
    pub longer: u64,
}

impl Range {
    /// From the shortest and the longest in bytes.
    #[inline]
    pub const fn new((first, last): (u32, u32)) -> Self {
        let shortest = (first as u64) << Meta::LEN_SHIFT | rx::DD | Meta::EOP;
        Self { shortest, longer: (last.saturating_sub(first) as u64) << Meta::LEN_SHIFT }
    }

    /// How many words in front are of plain frames, and their bytes.
    #[cold]
    #[inline(never)]
    pub fn leading(self, words: &[u64; GROUP]) -> (usize, u64) {
        let plain = |word: &&u64| {
            let beyond = word.wrapping_sub(self.shortest);
            beyond & !LENGTH == 0 && beyond <= self.longer
        };
        let lens = words.iter().take_while(plain).map(|word| word >> Meta::LEN_SHIFT);
        lens.fold((0, 0), |(frames, bytes), len| (frames + 1, bytes + len))
    }
}

macro_rules! vector_loops {
    ($feature:literal, $token:ty) => {
        /// Arms the ring and receives.
        #[target_feature(enable = $feature)]
        pub fn receive<B: Bar, const WORDS: usize>(
            _: $token,
            ring: &mut Ring<B, WORDS>,
            buffers: &mut impl Buffers,
            burst: &mut Burst,
            limit: usize,
        ) -> usize {
            ring.arm_with(buffers, |descriptors, base, block| arm(descriptors, base, block));
            let mut taken = Taken::default();
            loop {
                let (frames, bytes) = fetch_groups(ring, burst, taken.entries, limit - taken.frames);
                // Nothing taken is nothing new: a mark that is seen in part goes on being counted.
                if frames > 0 {
                    ring.took(frames, bytes);
                    taken.add(frames, bytes);
                }
                if taken.frames == limit
                    || !ring.take_next(&mut taken, burst.spare(), (limit, GROUP - 1), buffers)
                {
                    break;
                }
            }
            burst.commit(taken.entries, taken.bytes);
            taken.frames
        }

        /// `Ring::plain_frames`, behind the first `entries` that the burst has been given and not taken.
        #[inline]
        #[target_feature(enable = $feature)]
        fn fetch_groups<B: Bar, const WORDS: usize>(
            ring: &mut Ring<B, WORDS>,
            burst: &mut Burst,
            entries: usize,
            limit: usize,
        ) -> (usize, u64) {
            let most = limit.min(ring.held).min(ring.count - ring.next).min(burst.room() - entries);
            let groups = if ring.skipping || ring.second_tag { 0 } else { most / GROUP };
            let range = Range::new(ring.plain_range());
            let Some((blocks, from)) = ring.slots.groups::<GROUP>(ring.next, groups) else { return (0, 0) };
            let Some((to, into)) = burst.spare_groups::<GROUP>(entries, groups) else { return (0, 0) };
            let mut sum = nothing();
            for group in 0..groups {
                let Some(block) = blocks.get(group) else { break };
                let heads = heads(&block);
                acquire();
                put(&mut into[group], heads);
                to[group] = from[group];
                let words = words(heads, WORD);
                if !all_plain(words, range) {
                    let (frames, more) = range.leading(&in_order(words));
                    return (group * GROUP + frames, bytes(sum) + more);
                }
                sum = add(sum, words);
            }
            (groups * GROUP, bytes(sum))
        }

        /// Arms the ring, and moves groups of plain frames straight into the transmit ring.
        #[target_feature(enable = $feature)]
        pub fn relay<B: Bar, const WORDS: usize>(
            _: $token,
            ring: &mut Ring<B, WORDS>,
            tx: &mut Tx<B>,
            pool: &mut Pool,
            touch: Touch,
            limit: usize,
        ) -> Relayed {
            let mut buffers = Recycle { sent: tx, pool };
            ring.arm_with(&mut buffers, |descriptors, base, block| arm(descriptors, base, block));
            let Some(headers) = Headers::new(pool.memory()) else { return Relayed::NOTHING };
            let (frames, bytes) = match touch {
                Touch::Nothing => relay_groups(ring, tx, limit, |_| true),
                Touch::SwapAddresses => relay_groups(ring, tx, limit, |offsets| exchange(headers, offsets)),
                Touch::WriteAddresses(addresses) => {
                    relay_groups(ring, tx, limit, |offsets| overwrite(headers, offsets, &addresses))
                }
            };
            if frames > 0 {
                ring.took(frames, bytes);
                tx.took(frames, bytes);
            }
            Relayed { frames, more: frames < limit && ring.may_have_more() }
        }

        /// Frames and bytes that were moved.
        #[inline]
        #[target_feature(enable = $feature)]
        fn relay_groups<B: Bar, const WORDS: usize>(
            ring: &mut Ring<B, WORDS>,
            tx: &mut Tx<B>,
            limit: usize,
            touch: impl Fn(&[u32; GROUP]) -> bool,
        ) -> (usize, u64) {
            let received = ring.held.min(ring.count - ring.next);
            let most = limit.min(received).min(tx.free()).min(tx.count - tx.next);
            let groups = if ring.skipping || ring.second_tag { 0 } else { most / GROUP };
            let (range, base) = (Range::new(ring.plain_range()), tx.base);
            let Some((blocks, from)) = ring.slots.groups::<GROUP>(ring.next, groups) else { return (0, 0) };
            let Some((tx_blocks, to)) = tx.slots.groups::<GROUP>(tx.next, groups) else { return (0, 0) };
            let mut sum = nothing();
            for group in 0..groups {
                let (Some(block), Some(tx_block)) = (blocks.get(group), tx_blocks.get(group)) else { break };
                let words = words(heads(&block), WORD);
                acquire();
                if !all_plain(words, range) || !touch(&from[group]) {
                    return (group * GROUP, bytes(sum));
                }
                write(&tx_block, base, &from[group], words);
                to[group] = from[group];
                sum = add(sum, words);
            }
            (groups * GROUP, bytes(sum))
        }

        /// Sends a burst.
        #[target_feature(enable = $feature)]
        pub fn transmit<B: Bar>(
            _: $token,
            tx: &mut Tx<B>,
            buffers: &mut impl Buffers,
            burst: &mut Burst,
        ) -> usize {
            tx.take_burst(
                buffers,
                burst,
                |tx, offsets, metas| write_known(tx, offsets, metas),
                |tx, offsets, metas| write_good(tx, offsets, metas),
            )
        }

        /// `Tx::write_known`.
        #[inline]
        #[target_feature(enable = $feature)]
        fn write_known<B: Bar>(tx: &mut Tx<B>, offsets: &[u32], metas: &[Meta]) {
            let groups = offsets.len().min(tx.count - tx.next) / GROUP;
            let count = write_groups(tx, offsets, metas, groups);
            if count < offsets.len() {
                let rest = (offsets.get(count..).unwrap_or_default(), metas.get(count..).unwrap_or_default());
                write_rest(tx, rest.0, rest.1);
            }
        }

        /// Writes what lies in front of the ring's end, one by one, and what lies behind.
        #[cold]
        #[inline(never)]
        #[target_feature(enable = $feature)]
        fn write_rest<B: Bar>(tx: &mut Tx<B>, offsets: &[u32], metas: &[Meta]) {
            let few = offsets.len().min((tx.count - tx.next) % GROUP);
            let (front, back) = offsets.split_at(few);
            tx.write_known(front, metas);
            let metas = metas.get(few..).unwrap_or_default();
            let count = write_groups(tx, back, metas, back.len().min(tx.count - tx.next) / GROUP);
            tx.write_known(back.get(count..).unwrap_or_default(), metas.get(count..).unwrap_or_default());
        }

        /// `Tx::plain_frames`.
        #[inline]
        #[target_feature(enable = $feature)]
        fn write_good<B: Bar>(tx: &mut Tx<B>, offsets: &[u32], metas: &[Meta]) -> (usize, u64) {
            let most = offsets.len().min(tx.free()).min(tx.count - tx.next);
            let limit = tx.memory_len;
            let (mut groups, mut sum) = (0, nothing());
            let (fronts, _) = offsets.as_chunks::<GROUP>();
            for (offsets, metas) in fronts.iter().zip(metas.as_chunks::<GROUP>().0).take(most / GROUP) {
                let heads = heads_of(metas);
                if !may_be_sent(offsets, heads, limit) {
                    break;
                }
                sum = add(sum, words(heads, LENGTH));
                groups += 1;
            }
            if groups == 0
                && most >= GROUP
                && let (Some(offsets), Some(metas)) = (offsets.first_chunk(), metas.first_chunk())
                && let Some(bytes) = write_asked(tx, offsets, metas)
            {
                return (GROUP, bytes);
            }
            if groups == 0 {
                let few = offsets.get(..offsets.len().min(GROUP - 1)).unwrap_or_default();
                return tx.plain_frames(few, metas);
            }
            (write_groups(tx, offsets, metas, groups), bytes(sum))
        }

        /// Writes `groups` times eight frames, which are plain and for which there is room in front of the ring's end;
        /// returns how many frames that were.
        #[inline]
        #[target_feature(enable = $feature)]
        fn write_groups<B: Bar>(tx: &mut Tx<B>, offsets: &[u32], metas: &[Meta], groups: usize) -> usize {
            let start = tx.next;
            let base = tx.base;
            let offsets = offsets.as_chunks::<GROUP>().0.get(..groups);
            let metas = metas.as_chunks::<GROUP>().0.get(..groups);
            let (Some(offsets), Some(metas)) = (offsets, metas) else { return 0 };
            let Some((blocks, shadow)) = tx.slots.groups::<GROUP>(start, groups) else { return 0 };
            for group in 0..groups {
                let Some(block) = blocks.get(group) else { break };
                write(&block, base, &offsets[group], words(heads_of(&metas[group]), LENGTH));
                shadow[group] = offsets[group];
            }
            let count = groups * GROUP;
            tx.ask_for_reports(start, count);
            tx.next = tx.wrap(start + count);
            tx.used += count;
            count
        }
    };
}
pub(super) use vector_loops;
