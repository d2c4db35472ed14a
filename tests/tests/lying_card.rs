//! A card that lies in its registers and in the rings: the driver neither panics nor hangs, counts each frame once, and
//! loses no buffer.

use std::collections::BTreeSet;

use drivers::i40e::{I40e, Options, Rx, Tx};
use hal::hosted::{FakeBar, HostedMachine, Registers};
use hal::simd::Isa;
use hal::{Bar, Machine};
use kernel::forward::{Forwarder, Mode, Route};
use kernel::lcore::{Lcore, Stream};
use kernel::port::{PortControl, QueueSetup};
use kernel::{BufferLayout, Buffers, MacAddr, Pool, RxQueue, TxQueue};
use rig::{TestPort, frames};

/// Numbers that are the same for the same seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    fn below(&mut self, most: u64) -> u64 {
        self.next() % most
    }
}

/// Registers of which one read in `one_in` is wrong.
struct Liar {
    inner: FakeBar,
    random: Random,
    one_in: u64,
}

impl Registers for Liar {
    fn read(&mut self, offset: u32, data: &mut [u8]) {
        let truth =
            if data.len() == 8 { self.inner.read64(offset) } else { self.inner.read32(offset).into() };
        let value = match self.random.below(self.one_in) {
            0 => [u64::MAX, 0, self.random.next()][self.random.below(3) as usize],
            _ => truth,
        };
        let len = data.len();
        data.copy_from_slice(&value.to_le_bytes()[..len]);
    }
    fn write(&mut self, offset: u32, value: u32) {
        self.inner.write32(offset, value);
    }
}

#[test]
fn bring_up_ends_whatever_registers_say() {
    for seed in 1..=40 {
        let port = TestPort::new();
        let liar = Liar { inner: port.bar.clone(), random: Random(seed << 32 | seed), one_in: 50 + seed };
        let bar = FakeBar::new(8 << 20, liar);
        let options = Options { wide_descriptors: true, promiscuous: true };
        if let Ok(mut driver) = I40e::new(port.machine.clone(), bar, options) {
            let _ = driver.link();
            let _ = driver.stats();
            let _ = driver.shut_down();
        }
    }
}

/// Words of both rings are overwritten between polls, with everything that a write-back could be and could not be.
#[test]
fn rings_that_lie_cost_no_buffer() {
    for seed in 1..=150_u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let port = TestPort::new();
        let options = Options { wide_descriptors: seed % 2 == 0, promiscuous: true };
        let mut driver = port.bring_up(options).unwrap();
        let layout = BufferLayout::DEFAULT;
        let sizes = [64_u16, 96, 512];
        let (rxd, txd) = (sizes[random.below(3) as usize], sizes[random.below(3) as usize]);
        let memory = port.machine.dma_alloc(layout.bytes(usize::from(rxd + txd) + 96), 4096).unwrap();
        let mode = [Mode::Io, Mode::MacSwap, Mode::Mac, Mode::RxOnly][random.below(4) as usize];
        let mut core: Lcore<Rx<FakeBar>, Tx<FakeBar>, Forwarder> = Lcore::new(
            Pool::new(memory.clone(), layout),
            Forwarder::plain(mode, Isa::best()),
            1 + random.below(64) as usize,
        );
        let setup =
            |descriptors| QueueSetup { descriptors, memory: memory.clone(), layout, isa: Isa::best() };
        // Rings are what is allocated between these two.
        let place =
            || port.machine.dma_alloc(64, 4096).unwrap().addr().as_u64() - HostedMachine::<FakeBar>::DMA_BASE;
        let from = place();
        let tx = driver.start_tx(0, &setup(txd)).unwrap();
        let rx = driver.start_rx(0, &setup(rxd), &mut core.pool).unwrap();
        let to = place();
        let route = Route { mac: driver.mac(), peer: MacAddr([2; 6]) };
        assert!(core.streams.push(Stream::new((0, 0), rx, tx, route)).is_ok());
        for _ in 0..100 {
            for _ in 0..random.below(30) {
                let at = from + random.below((to - from) / 8) * 8;
                let word = match random.below(5) {
                    0 => 3 | (1 + random.below(2048)) << 38,
                    1 => 1 | random.below(16384) << 38,
                    2 => random.next(),
                    3 => 0xf | random.next() << 4,
                    _ => 0x1f | 16383 << 34,
                };
                rustix::io::pwrite(port.machine.dma_fd(), &word.to_le_bytes(), at).unwrap();
            }
            (0..random.below(20))
                .for_each(|n| port.wire.offer(frames::numbered(n as u32, 60 + random.below(9000) as usize)));
            port.card().pump();
            core.poll();
            port.wire.take();
        }
        let stream = core.streams.pop().unwrap();
        let (received, sent, drops) = (stream.rx.counters(), stream.tx.counters(), stream.all_drops());
        assert_eq!(received.frames, sent.frames + drops.total(), "seed {seed}");
        driver.stop_rx(stream.rx, &mut core.pool).unwrap();
        let unsent = driver.stop_tx(stream.tx, &mut core.pool).unwrap();
        assert!(
            unsent.frames <= sent.frames && unsent.bytes <= sent.bytes,
            "seed {seed}: {unsent:?} of {sent:?}"
        );
        assert_eq!((core.pool.available(), core.pool.excess()), (core.pool.capacity(), 0), "seed {seed}");
        let buffers: BTreeSet<u32> = std::iter::from_fn(|| core.pool.take()).collect();
        assert_eq!(buffers.len(), core.pool.capacity(), "seed {seed}: a buffer is there twice");
    }
}
