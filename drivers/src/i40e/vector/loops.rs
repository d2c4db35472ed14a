//! What the loops of all instruction sets have in common.
//!
//! `vector_loops!` makes `receive` and `transmit` of a module. The module gives it, all with its instruction set enabled:
//!
//! - `arm(descriptors, base, block)`: writes address and 0 into the first two words of 32 descriptors.
//! - `Lens`: lengths of eight frames; `no_lens()`, `add(lens, lens)`, `total(lens)`.
//! - `range(first, last)`: what a length is compared with.
//! - `Heads`: first and second quadwords of eight frames; `heads(block)` from descriptors, `heads_of(metas)`, and
//!   `put(metas, heads)`.
//! - `judge(heads, range)`: which of eight frames are plain and have nothing wrong with them, and all lengths.
//! - `all(good)`; `leading(good, lens)`: how many in front are good, and the lengths of those.
//! - `good(offsets, metas, limit)`: the lengths of eight frames, if each is `Tx::is_plain` and ends in front of `limit`.
//! - `fixed(base)`, `write(block, fixed, offsets, heads)`: writes the descriptors of eight plain frames.
//! - `exchange(headers, offsets)`: exchanges the addresses of eight frames, or says that one is not in the memory.

/// Frames in a group.
pub const GROUP: usize = 8;

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
                ring.took(frames, bytes);
                taken.add(frames, bytes);
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
            let (first, last) = ring.plain_range();
            let range = range(first, last);
            let Some((blocks, from)) = ring.slots.groups::<GROUP>(ring.next, groups) else { return (0, 0) };
            let Some((to, into)) = burst.spare_groups::<GROUP>(entries, groups) else { return (0, 0) };
            let (mut frames, mut bytes) = (0, no_lens());
            for group in 0..groups {
                let Some(block) = blocks.get(group) else { break };
                let heads = heads(&block);
                acquire();
                let (good, lens) = judge(heads, range);
                put(&mut into[group], heads);
                to[group] = from[group];
                if !all(good) {
                    let (count, lens) = leading(good, lens);
                    bytes = add(bytes, lens);
                    frames += count;
                    break;
                }
                bytes = add(bytes, lens);
                frames += GROUP;
            }
            (frames, total(bytes))
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
            let ((first, last), fixed) = (ring.plain_range(), fixed(tx.base));
            let range = range(first, last);
            let Some((blocks, from)) = ring.slots.groups::<GROUP>(ring.next, groups) else { return (0, 0) };
            let Some((tx_blocks, to)) = tx.slots.groups::<GROUP>(tx.next, groups) else { return (0, 0) };
            let (mut frames, mut bytes) = (0, no_lens());
            for group in 0..groups {
                let (Some(block), Some(tx_block)) = (blocks.get(group), tx_blocks.get(group)) else { break };
                let heads = heads(&block);
                acquire();
                let (good, lens) = judge(heads, range);
                if !all(good) || !touch(&from[group]) {
                    break;
                }
                write(&tx_block, fixed, &from[group], heads);
                to[group] = from[group];
                bytes = add(bytes, lens);
                frames += GROUP;
            }
            (frames, total(bytes))
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
            let (mut groups, mut bytes) = (0, 0);
            let (fronts, _) = offsets.as_chunks::<GROUP>();
            for (offsets, metas) in fronts.iter().zip(metas.as_chunks::<GROUP>().0).take(most / GROUP) {
                let Some(lens) = good(offsets, metas, limit) else { break };
                bytes += total(lens);
                groups += 1;
            }
            if groups == 0 {
                let few = offsets.get(..offsets.len().min(GROUP - 1)).unwrap_or_default();
                return tx.plain_frames(few, metas);
            }
            (write_groups(tx, offsets, metas, groups), bytes)
        }

        /// Writes `groups` times eight frames, which are plain and for which there is room in front of the ring's end;
        /// returns how many frames that were.
        #[inline]
        #[target_feature(enable = $feature)]
        fn write_groups<B: Bar>(tx: &mut Tx<B>, offsets: &[u32], metas: &[Meta], groups: usize) -> usize {
            let start = tx.next;
            let fixed = fixed(tx.base);
            let offsets = offsets.as_chunks::<GROUP>().0.get(..groups);
            let metas = metas.as_chunks::<GROUP>().0.get(..groups);
            let (Some(offsets), Some(metas)) = (offsets, metas) else { return 0 };
            let Some((blocks, shadow)) = tx.slots.groups::<GROUP>(start, groups) else { return 0 };
            for group in 0..groups {
                let Some(block) = blocks.get(group) else { break };
                write(&block, fixed, &offsets[group], heads_of(&metas[group]));
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
