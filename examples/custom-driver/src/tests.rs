//! The rings played by hand: the words that the manual says, and a card that writes what it should not.

use std::vec;
use std::vec::Vec;

use hal::hosted::{FakeBar, HostedMachine, MemoryBar};
use hal::simd::Isa;
use hal::{BarAccess, DescRing, DmaMemory, Machine, Reg, Wo};
use kernel::port::QueueSetup;
use kernel::{BLOCK, BufferLayout, Buffers, Burst, DropReason, Meta, Packet, Pool, RxQueue, TxQueue};

use crate::{Rx, Tx};

const BUFFERS: usize = 256;
/// The only register that a queue writes.
const TAIL: Reg<u32, Wo> = Reg::at(0);

/// A ring as the card sees it, beside the queue on it.
struct Bench {
    ring: DmaMemory,
    register: DmaMemory,
    pool: Pool,
    setup: QueueSetup,
    count: usize,
}

impl Bench {
    fn new(count: u16) -> Self {
        let machine = HostedMachine::<FakeBar>::new(1 << 20).unwrap();
        let layout = BufferLayout::DEFAULT;
        let memory = machine.dma_alloc(layout.bytes(BUFFERS), 64).unwrap();
        let setup = QueueSetup { descriptors: count, memory: memory.clone(), layout, isa: Isa::best() };
        Self {
            ring: machine.dma_alloc(usize::from(count) * 16, 128).unwrap(),
            register: machine.dma_alloc(64, 64).unwrap(),
            pool: Pool::new(memory, layout),
            setup,
            count: count.into(),
        }
    }

    fn parts(&self) -> (DescRing<2>, hal::Doorbell<MemoryBar>) {
        let ring = DescRing::new(self.ring.clone(), self.count).unwrap();
        (ring, MemoryBar::new(self.register.clone()).doorbell(TAIL))
    }

    fn rx(&mut self) -> Rx<MemoryBar> {
        let (ring, tail) = self.parts();
        let mut rx = Rx::new(ring, tail, &self.setup);
        rx.arm(&mut self.pool);
        rx
    }

    fn tx(&self) -> Tx<MemoryBar> {
        let (ring, tail) = self.parts();
        Tx::new(ring, tail, &self.setup)
    }

    fn tail(&self) -> usize {
        self.register.load::<u32>(0).unwrap() as usize
    }

    fn word(&self, index: usize, word: usize) -> u64 {
        self.ring.load(index * 16 + word * 8).unwrap()
    }

    /// The card is done with descriptor `index`.
    fn write_back(&self, index: usize, word: u64) {
        self.ring.store(index * 16 + 8, word).unwrap();
    }

    fn packet(&mut self, meta: Meta) -> Packet {
        Packet { buffer: self.pool.take().unwrap(), meta }
    }
}

/// Status DD and EOP are bits 0 and 1 of byte 12, errors are byte 13, the length is bytes 8 and 9.
const fn received(len: u16, status: u8, errors: u8) -> u64 {
    u64::from_le_bytes([len.to_le_bytes()[0], len.to_le_bytes()[1], 0, 0, status, errors, 0, 0])
}

#[test]
fn frames_come_in_order_around_the_ring_and_every_buffer_comes_back() {
    let mut bench = Bench::new(64);
    let mut rx = bench.rx();
    assert_eq!(bench.tail(), 32);
    let mut burst = Burst::new();
    let mut head = 0;
    for lap in 0..50_u16 {
        let have = (bench.tail() + 64 - head) % 64;
        assert!(have >= 32, "lap {lap}: the card has {have}");
        let (start, came) = (head, usize::from(1 + lap % 31));
        for at in 0..came {
            let index = (start + at) % 64;
            let address = bench.word(index, 0);
            assert_eq!((address - bench.setup.memory.addr().as_u64()) % 2176, 128);
            bench.write_back(index, received(60 + at as u16, 3, 0));
        }
        head = (start + came) % 64;
        let first = bench.word(start, 0) - bench.setup.memory.addr().as_u64();
        assert_eq!(rx.rx_burst(&mut bench.pool, &mut burst, 512), came);
        assert_eq!(u64::from(burst.buffers()[0]), first);
        let lengths: Vec<u32> = burst.metas().iter().map(|meta| meta.len()).collect();
        assert_eq!(lengths, (0..came as u32).map(|at| 60 + at).collect::<Vec<_>>());
        assert!(burst.metas().iter().all(|meta| meta.is_last() && meta.lo == 0));
        burst.give_back(&mut bench.pool);
    }
    assert_eq!(rx.rx_burst(&mut bench.pool, &mut burst, 512), 0);
    bench.write_back(head, received(100, 3, 0));
    let left = rx.release(&mut bench.pool);
    assert_eq!((left.frames, left.bytes), (1, 100));
    assert_eq!((bench.pool.available(), bench.pool.excess()), (BUFFERS, 0));
}

#[test]
fn what_is_no_good_frame_is_dropped_under_a_name() {
    let mut bench = Bench::new(64);
    let mut rx = bench.rx();
    for (index, word) in [
        received(60, 0b01, 0),          // no end
        received(60, 0b11, 0x01),       // CRC
        received(60, 0b11, 0x80),       // data
        received(60, 0b11, 0x60),       // checksums of TCP and IP: somebody else's business
        received(0, 0b11, 0),           // nothing
        received(0xffff, 0b11, 0),      // longer than any buffer
        received(1518, 0b1111_1111, 0), // all of the status
    ]
    .into_iter()
    .enumerate()
    {
        bench.write_back(index, word);
    }
    let mut burst = Burst::new();
    assert_eq!(rx.rx_burst(&mut bench.pool, &mut burst, 512), 2);
    assert_eq!(burst.metas().iter().map(|meta| meta.len()).collect::<Vec<_>>(), [60, 1518]);
    assert_eq!((rx.drops().get(DropReason::RxSegments), rx.drops().get(DropReason::RxError)), (1, 4));
    assert_eq!(rx.counters().frames, 7);
    burst.give_back(&mut bench.pool);
    rx.release(&mut bench.pool);
    assert_eq!((bench.pool.available(), bench.pool.excess()), (BUFFERS, 0));
}

/// Commands EOP, IFCS and RS are bits 0, 1 and 3 of byte 11.
#[test]
fn a_frame_is_as_many_descriptors_as_it_has_buffers() {
    let mut bench = Bench::new(64);
    let mut tx = bench.tx();
    let mut burst = Burst::new();
    for meta in [Meta::segment(100), Meta::frame(30), Meta::frame(60)] {
        let packet = bench.packet(meta);
        burst.push(packet).unwrap();
    }
    let buffers = burst.buffers().to_vec();
    assert_eq!(tx.tx_burst(&mut bench.pool, &mut burst), 2);
    assert_eq!((bench.tail(), burst.len()), (3, 0));
    let base = bench.setup.memory.addr().as_u64();
    for (index, want) in [0x0a00_0064, 0x0b00_001e, 0x0b00_003c].into_iter().enumerate() {
        assert_eq!((bench.word(index, 0), bench.word(index, 1)), (base + u64::from(buffers[index]), want));
    }
    assert!(!tx.is_idle());
    bench.write_back(0, 1 << 32);
    bench.write_back(1, 1 << 32);
    let unsent = tx.release(&mut bench.pool);
    assert_eq!((unsent.frames, unsent.bytes), (1, 60));
    assert_eq!((bench.pool.available(), bench.pool.excess()), (BUFFERS, 0));
}

#[test]
fn a_full_ring_takes_no_more_until_the_card_is_done() {
    let mut bench = Bench::new(64);
    let mut tx = bench.tx();
    let mut burst = Burst::new();
    let mut sent = Vec::new();
    for _ in 0..70 {
        let packet = bench.packet(Meta::frame(60));
        sent.push(packet.buffer);
        burst.push(packet).unwrap();
    }
    assert_eq!(tx.tx_burst(&mut bench.pool, &mut burst), 63);
    assert_eq!((tx.tx_burst(&mut bench.pool, &mut burst), bench.tail()), (0, 63));
    (0..40).for_each(|index| bench.write_back(index, 1 << 32));
    let mut block = [0; BLOCK];
    assert!(tx.take_sent(&mut block));
    assert_eq!(block, sent[..32]);
    assert!(!tx.take_sent(&mut block));
    bench.pool.give(&block);
    assert_eq!((tx.tx_burst(&mut bench.pool, &mut burst), bench.tail()), (7, 6));
    assert!(burst.is_empty());
    tx.release(&mut bench.pool);
    assert_eq!((bench.pool.available(), bench.pool.excess()), (BUFFERS, 0));
}

#[test]
fn what_the_card_must_not_be_given_is_dropped_under_a_name() {
    let mut bench = Bench::new(64);
    let mut tx = bench.tx();
    let mut burst = Burst::new();
    let mut wanted = Meta::frame(60);
    wanted.lo |= 1;
    let mut frames = vec![
        vec![Meta::frame(59)],
        vec![Meta::frame(1519)],
        vec![Meta::segment(0), Meta::frame(60)],
        vec![wanted],
        vec![Meta::segment(100); 8],
    ];
    frames[4].push(Meta::frame(100));
    for meta in frames.into_iter().flatten() {
        let packet = bench.packet(meta);
        burst.push(packet).unwrap();
    }
    let outside = Packet { buffer: (BUFFERS * 2176 - 10) as u32, meta: Meta::frame(60) };
    let room = bench.pool.take().unwrap();
    burst.push(outside).unwrap();
    assert_eq!(tx.tx_burst(&mut bench.pool, &mut burst), 0);
    for (reason, count) in [
        (DropReason::TxTooShort, 1),
        (DropReason::TxTooLong, 1),
        (DropReason::TxBuffer, 2),
        (DropReason::TxRequest, 1),
        (DropReason::TxSegments, 1),
    ] {
        assert_eq!(tx.drops().get(reason), count, "{reason:?}");
    }
    let _ = room;
    assert_eq!((bench.pool.available(), bench.pool.excess(), bench.tail()), (BUFFERS, 0, 0));
}
