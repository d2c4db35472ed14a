//! Completion marks on their way to memory: at once, or late, in pieces, out of order, never.
//!
//! Time is counted in events: accesses to registers, and times that the owner lets the card work. Marks of a direction
//! never overtake each other unless that is the fault; when a queue is off, all of its marks have been written.

use crate::dma::{DmaFault, GuestMemory};

/// Receive or transmit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Receive.
    Rx,
    /// Transmit.
    Tx,
}

/// How completion marks misbehave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkFault {
    /// They come this many events later.
    Late(u32),
    /// They never come, though the card goes on behind them.
    Missing,
    /// They come in pieces, this many events apart. Receive: the first quadword, then the half of the second one with DD
    /// and the half with the length, in this order and the other in turn. Transmit: types 1 and 8 stand in the descriptor before it is done.
    Torn(u32),
    /// Of four that belong together the second comes after the third, this many events apart.
    Swapped(u32),
}

#[derive(Debug, Clone, Copy)]
enum Word {
    Whole(u64),
    Half(u32),
}

struct Piece {
    due: u64,
    direction: Direction,
    queue: u32,
    addr: u64,
    word: Word,
}

impl Piece {
    fn publish(&self, memory: &GuestMemory) -> Result<(), DmaFault> {
        match self.word {
            Word::Whole(word) => memory.publish_u64(self.addr, word),
            Word::Half(word) => memory.publish_u32(self.addr, word),
        }
    }
}

/// A fault of one direction and how many marks it has left.
#[derive(Default)]
struct Plan {
    fault: Option<MarkFault>,
    /// Marks before them that are as they should be.
    skip: u32,
    times: u32,
    /// Position within four, and when those began.
    position: u32,
    start: u64,
}

/// Pieces that may be on their way: more than any rings have descriptors. What a guest makes beyond is lost.
const MOST: usize = 1 << 16;

/// What happens to marks, and those that are on their way.
#[derive(Default)]
pub struct Marks {
    now: u64,
    plans: [Plan; 2],
    held: Vec<Piece>,
    /// When the first of them is due, and when the last of each direction is.
    first: u64,
    last: [u64; 2],
    /// The queue that works now.
    pub(crate) queue: u32,
}

impl Marks {
    /// From now on `skip` marks of a direction are as they should be, and the `times` after them misbehave.
    pub(crate) fn misbehave(&mut self, direction: Direction, fault: MarkFault, skip: u32, times: u32) {
        self.plans[direction as usize] = Plan { fault: Some(fault), skip, times, position: 0, start: 0 };
    }

    /// Nothing is wrong: marks go straight to memory.
    #[inline]
    pub(crate) fn idle(&self, direction: Direction) -> bool {
        self.plans[direction as usize].fault.is_none() && self.held.is_empty()
    }

    /// Marks are on their way.
    pub(crate) fn waiting(&self) -> bool {
        !self.held.is_empty()
    }

    /// Time goes on: writes what is due.
    pub(crate) fn event(&mut self, memory: &GuestMemory) {
        self.now += 1;
        let now = self.now;
        if self.held.is_empty() || now < self.first {
            return;
        }
        self.write_those(memory, |piece| piece.due <= now);
    }

    /// A queue goes off: its marks are written before.
    pub(crate) fn flush(&mut self, memory: &GuestMemory, direction: Direction, queue: u32) {
        self.write_those(memory, |piece| piece.direction == direction && piece.queue == queue);
    }

    /// A reset: nothing more is written.
    pub(crate) fn forget(&mut self) {
        self.held.clear();
        self.last = [0; 2];
    }

    fn write_those(&mut self, memory: &GuestMemory, which: impl Fn(&Piece) -> bool) {
        let (mut go, stay): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.held).into_iter().partition(|piece| which(piece));
        self.held = stay;
        self.first = self.held.iter().map(|piece| piece.due).min().unwrap_or(0);
        for direction in [Direction::Rx, Direction::Tx] {
            let same = self.held.iter().filter(|piece| piece.direction == direction);
            self.last[direction as usize] = same.map(|piece| piece.due).max().unwrap_or(0);
        }
        go.sort_by_key(|piece| piece.due);
        for piece in &go {
            // The memory may be gone by now; a late mark has nobody to tell.
            let _ = piece.publish(memory);
        }
    }

    /// What the next mark of this direction does.
    fn next(&mut self, direction: Direction) -> (Option<MarkFault>, u32) {
        let plan = &mut self.plans[direction as usize];
        if plan.skip > 0 {
            plan.skip -= 1;
            return (None, 0);
        }
        let (fault, position) = (plan.fault, plan.position);
        if fault.is_some() {
            plan.position = (position + 1) % 4;
            plan.times = plan.times.saturating_sub(u32::from(plan.times != u32::MAX));
            if plan.times == 0 {
                plan.fault = None;
            }
        }
        (fault, position)
    }

    /// When a mark without a fault may come: not before those of its direction that wait.
    fn turn(&self, direction: Direction) -> u64 {
        self.last[direction as usize].max(self.now)
    }

    fn hold(&mut self, due: u64, direction: Direction, addr: u64, word: Word) {
        let queue = self.queue;
        if self.held.len() >= MOST {
            return;
        }
        self.first = if self.held.is_empty() { due } else { self.first.min(due) };
        let last = &mut self.last[direction as usize];
        *last = due.max(*last);
        self.held.push(Piece { due, direction, queue, addr, word });
    }

    /// The mark of a receive descriptor at `at`: 2 or 4 quadwords, the one with DD being the second.
    pub(crate) fn receive(&mut self, memory: &GuestMemory, at: u64, words: &[u64]) -> Result<(), DmaFault> {
        let direction = Direction::Rx;
        let (fault, position) = self.next(direction);
        let turn = self.turn(direction);
        match fault {
            None if turn <= self.now => {
                return places(at, words).try_for_each(|(addr, word)| memory.publish_u64(addr, word));
            }
            None => {
                places(at, words).for_each(|(addr, word)| self.hold(turn, direction, addr, Word::Whole(word)))
            }
            Some(MarkFault::Missing) => {}
            Some(MarkFault::Late(events)) => {
                let due = turn.max(self.now + u64::from(events));
                places(at, words).for_each(|(addr, word)| self.hold(due, direction, addr, Word::Whole(word)));
            }
            Some(MarkFault::Torn(gap)) => {
                let (gap, second) = (u64::from(gap), words.get(1).copied().unwrap_or(0));
                for (addr, word) in places(at, words).filter(|(addr, _)| *addr != at.wrapping_add(8)) {
                    self.hold(turn + gap, direction, addr, Word::Whole(word));
                }
                let (low, high) = (second as u32, (second >> 32) as u32);
                let (low_at, high_at) = if position % 2 == 0 { (2, 3) } else { (3, 2) };
                self.hold(turn + low_at * gap, direction, at.wrapping_add(8), Word::Half(low));
                self.hold(turn + high_at * gap, direction, at.wrapping_add(12), Word::Half(high));
            }
            Some(MarkFault::Swapped(gap)) => {
                let due = self.swapped(direction, turn, gap, position);
                places(at, words).for_each(|(addr, word)| self.hold(due, direction, addr, Word::Whole(word)));
            }
        }
        Ok(())
    }

    /// The mark of a transmit descriptor: its second quadword, at `addr`, with the type that says done.
    pub(crate) fn transmit(&mut self, memory: &GuestMemory, addr: u64, word: u64) -> Result<(), DmaFault> {
        const TYPE: u64 = 0xf;
        let direction = Direction::Tx;
        let (fault, position) = self.next(direction);
        let turn = self.turn(direction);
        match fault {
            None if turn <= self.now => return memory.publish_u64(addr, word),
            None => self.hold(turn, direction, addr, Word::Whole(word)),
            Some(MarkFault::Missing) => {}
            Some(MarkFault::Late(events)) => {
                let due = turn.max(self.now + u64::from(events));
                self.hold(due, direction, addr, Word::Whole(word));
            }
            Some(MarkFault::Torn(gap)) => {
                for (step, kind) in [(1, 0x1), (2, 0x8), (3, TYPE)] {
                    let due = turn + step * u64::from(gap);
                    self.hold(due, direction, addr, Word::Whole(word & !TYPE | kind));
                }
            }
            Some(MarkFault::Swapped(gap)) => {
                let due = self.swapped(direction, turn, gap, position);
                self.hold(due, direction, addr, Word::Whole(word));
            }
        }
        Ok(())
    }

    /// When the mark at `position` of four comes: in the order 0, 2, 1, 3.
    fn swapped(&mut self, direction: Direction, turn: u64, gap: u32, position: u32) -> u64 {
        const PLACE: [u64; 4] = [1, 3, 2, 4];
        let plan = &mut self.plans[direction as usize];
        if position == 0 {
            plan.start = turn;
        }
        plan.start + PLACE[position as usize % 4] * u64::from(gap)
    }
}

/// Quadwords of a descriptor and their addresses in the order in which the card writes them: the second one, with DD,
/// last.
fn places(at: u64, words: &[u64]) -> impl Iterator<Item = (u64, u64)> {
    let order = (2..words.len()).chain(0..words.len().min(2));
    order.filter_map(move |index| Some((at.wrapping_add(8 * index as u64), *words.get(index)?)))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;

    fn memory() -> GuestMemory {
        let file = memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, 4096).unwrap();
        let mut memory = GuestMemory::default();
        memory.map(0, 4096, Some((file.as_fd(), 0)), true, true).unwrap();
        memory
    }

    fn word(memory: &GuestMemory, at: u64) -> u64 {
        let mut bytes = [0; 8];
        memory.read(at, &mut bytes).unwrap();
        u64::from_le_bytes(bytes)
    }

    fn done(memory: &GuestMemory) -> Vec<u64> {
        (0..5).filter(|index| word(memory, 16 * index + 8) & 1 != 0).collect()
    }

    #[test]
    fn four_marks_come_in_another_order_and_the_fifth_after_them() {
        let (memory, mut marks) = (memory(), Marks::default());
        marks.misbehave(Direction::Rx, MarkFault::Swapped(1), 0, 4);
        (0..5).for_each(|index| marks.receive(&memory, 16 * index, &[7, 1]).unwrap());
        let mut seen = Vec::new();
        while marks.waiting() {
            marks.event(&memory);
            seen.push(done(&memory));
        }
        assert_eq!(seen, [vec![0], vec![0, 2], vec![0, 1, 2], vec![0, 1, 2, 3, 4]]);
        assert!(marks.idle(Direction::Rx));
    }

    #[test]
    fn a_torn_mark_shows_dd_before_its_length_or_behind_it() {
        let (memory, mut marks) = (memory(), Marks::default());
        marks.misbehave(Direction::Rx, MarkFault::Torn(1), 0, 2);
        for half in [3, 60 << 38] {
            marks.receive(&memory, 32, &[5, 60 << 38 | 3, 6, 0]).unwrap();
            let mut seen = Vec::new();
            while marks.waiting() {
                marks.event(&memory);
                seen.push([32, 40, 48].map(|at| word(&memory, at)));
            }
            assert_eq!(seen, [[5, 0, 6], [5, half, 6], [5, 60 << 38 | 3, 6]]);
            memory.write(32, &[0; 32]).unwrap();
        }
    }

    #[test]
    fn late_missing_and_a_queue_that_goes_off() {
        let (memory, mut marks) = (memory(), Marks::default());
        marks.misbehave(Direction::Tx, MarkFault::Missing, 0, 1);
        marks.transmit(&memory, 8, 0xf).unwrap();
        marks.misbehave(Direction::Tx, MarkFault::Late(3), 0, 1);
        marks.transmit(&memory, 24, 0xf).unwrap();
        marks.queue = 1;
        marks.transmit(&memory, 40, 0xf).unwrap();
        marks.event(&memory);
        assert_eq!([8, 24, 40].map(|at| word(&memory, at)), [0, 0, 0]);
        marks.flush(&memory, Direction::Tx, 0);
        assert_eq!([8, 24, 40].map(|at| word(&memory, at)), [0, 0xf, 0]);
        marks.forget();
        (0..9).for_each(|_| marks.event(&memory));
        assert_eq!(word(&memory, 40), 0);
    }
}
