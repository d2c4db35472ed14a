//! A queue and a device that lies.

use hal::hosted::FakeBar;
use hal::{DmaMemory, Machine};

use super::super::{Error, Piece, Queue, Used};
use super::device::{Chain, Play};
use super::transport;

struct Ground {
    play: Play,
    queue: Queue<FakeBar>,
    buffer: DmaMemory,
}

fn ground() -> Ground {
    let (transport, play) = transport(|_| {});
    let buffer = transport.machine().dma_alloc(4096, 4096).unwrap();
    let mut setup = transport.negotiate(0, 0).unwrap();
    let queue = setup.queue(0, 8).unwrap();
    Ground { play, queue, buffer }
}

impl Ground {
    fn offer(&mut self, lens: &[(usize, bool)]) -> Option<u16> {
        let parts: std::vec::Vec<_> =
            lens.iter().map(|(len, writes)| (self.buffer.part(0, *len).unwrap(), *writes)).collect();
        let pieces: std::vec::Vec<_> =
            parts.iter().map(|(memory, writes)| Piece { memory, device_writes: *writes }).collect();
        let id = self.queue.offer(&pieces);
        self.queue.publish();
        id
    }
}

#[test]
fn chains_go_out_and_come_back_in_any_order() {
    let mut ground = ground();
    let addr = ground.buffer.addr().as_u64();
    // Far more than the indices of 16 bits hold.
    for round in 0..30_000_u32 {
        let first = ground.offer(&[(16, false), (100, true), (1, true)]).unwrap();
        let second = ground.offer(&[(7, false)]).unwrap();
        let third = ground.offer(&[(1, true); 4]).unwrap();
        assert_eq!((ground.offer(&[(1, true)]), ground.queue.room(), ground.queue.out()), (None, 0, 3));
        let mut card = ground.play.card();
        card.notified.clear();
        let chain = card.next_chain(0).unwrap();
        let want = Chain { id: first, reads: [(addr, 16)].into(), writes: [(addr, 100), (addr, 1)].into() };
        assert_eq!(chain, want);
        assert_eq!(card.next_chain(0).unwrap().id, second);
        assert_eq!(card.next_chain(0).unwrap().id, third);
        assert_eq!(card.next_chain(0), None);
        card.put_used(0, third.into(), 4);
        card.put_used(0, first.into(), round % 102);
        drop(card);
        assert_eq!(ground.queue.take(), Ok(Some(Used { chain: third, len: 4 })));
        assert_eq!(ground.queue.take(), Ok(Some(Used { chain: first, len: round % 102 })));
        assert_eq!(ground.queue.take(), Ok(None));
        assert_eq!(ground.queue.room(), 7);
        ground.play.card().put_used(0, second.into(), 0);
        assert_eq!(ground.queue.take(), Ok(Some(Used { chain: second, len: 0 })));
        assert_eq!((ground.queue.room(), ground.queue.out()), (8, 0));
    }
}

/// What the device says, after one chain of two descriptors was offered: a fault that stays.
fn lie(say: impl FnOnce(&mut super::Card, u32)) -> Error {
    let mut ground = ground();
    let id = ground.offer(&[(16, false), (100, true)]).unwrap();
    say(&mut ground.play.card(), id.into());
    let error = ground.queue.take().unwrap_err();
    assert_eq!(ground.queue.take(), Err(error));
    assert_eq!(ground.offer(&[(1, true)]), None);
    error
}

fn named(error: Error, want: &str, want_value: u64) {
    let Error::Device { step: "taking used buffers", what, value } = error else { panic!("{error}") };
    assert_eq!((what, value), (want, want_value));
}

#[test]
fn each_lie_is_named_and_ends_the_queue() {
    named(lie(|card, id| card.put_used(0, id, 101)), "used len", 101);
    named(lie(|card, id| card.put_used(0, id, u32::MAX)), "used len", u32::MAX.into());
    named(lie(|card, id| card.put_used(0, id + 1, 0)), "used id", 1);
    named(lie(|card, _| card.put_used(0, 8, 0)), "used id", 8);
    // Cut to 16 bits it would be the right one.
    named(lie(|card, id| card.put_used(0, 1 << 16 | id, 0)), "used id", 1 << 16);
    named(lie(|card, _| card.set_used_index(0, 2)), "used idx", 2);
    named(lie(|card, _| card.set_used_index(0, u16::MAX)), "used idx", u16::MAX.into());
}

#[test]
fn a_chain_is_taken_once_and_not_before_it_was_published() {
    let mut ground = ground();
    let id = ground.offer(&[(1, true)]).unwrap();
    let other = ground.offer(&[(1, true)]).unwrap();
    let mut card = ground.play.card();
    card.put_used(0, id.into(), 1);
    card.put_used(0, id.into(), 1);
    drop(card);
    assert_eq!(ground.queue.take(), Ok(Some(Used { chain: id, len: 1 })));
    named(ground.queue.take().unwrap_err(), "used id", id.into());
    assert_ne!(id, other);

    let mut ground = self::ground();
    let part = ground.buffer.part(0, 1).unwrap();
    let id = ground.queue.offer(&[Piece { memory: &part, device_writes: true }]).unwrap();
    ground.play.card().put_used(0, id.into(), 1);
    named(ground.queue.take().unwrap_err(), "used idx", 1);
}
