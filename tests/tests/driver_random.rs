//! Sends in any order on rings of any size, by seeds: plain frames, frames with tags and so with context descriptors,
//! frames in several buffers, frames that are cut. Buffers come back by the queue or by block, the card stops looking at
//! any time, and the queue is stopped in the middle: frames and buffers always add up.

use drivers::i40e::Options;
use kernel::port::PortControl;
use kernel::request::{Checksums, IpHeader, L4Checksum, Segmentation};
use kernel::{BLOCK, Buffers, TxQueue, TxRequest};
use rig::direct::Direct;
use rig::flows::{Flow, Kind, frame};
use rig::machine::full;

const OPTIONS: Options = Options { wide_descriptors: true, promiscuous: true };

/// Marsaglia's xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// A frame, the size of its pieces, what is asked for, and how many frames that makes on the wire.
fn draw(random: &mut Random) -> (Vec<u8>, usize, TxRequest, usize) {
    let flow = Flow::v4(random.below(1000) as u32);
    let short = vec![3; 20 + random.below(1400) as usize];
    let vlan = Some(random.below(4096) as u16);
    match random.below(6) {
        0 => {
            let payload = vec![5; 600 + random.below(20_000) as usize];
            let checksums = Checksums { l2_len: 14, l3_len: 20, ip: IpHeader::V4, l4: Some(L4Checksum::Tcp) };
            let mss = 200 + random.below(1200) as u16;
            let segmentation = Some(Segmentation { mss, l4_len: 20 });
            let request = TxRequest { checksums: Some(checksums), segmentation, ..Default::default() };
            let segments = payload.len().div_ceil(usize::from(mss));
            (frame(flow, Kind::Tcp, &payload), 1000 + random.below(1000) as usize, request, segments)
        }
        1 => (frame(flow, Kind::Udp, &short), 2048, TxRequest { vlan, ..Default::default() }, 1),
        2 => {
            let request = TxRequest { vlan, outer_vlan: vlan, ..Default::default() };
            (frame(flow, Kind::Udp, &short), 300, request, 1)
        }
        3 => (frame(flow, Kind::Udp, &short), 300, TxRequest::default(), 1),
        _ => (frame(flow, Kind::Udp, &short), 2048, TxRequest::default(), 1),
    }
}

fn survive(seed: u64) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let txd = [64, 96, 128, 256, 512][random.below(5) as usize];
    let mut ring = Direct::start(1, 64, txd, OPTIONS);
    let (mut expected, mut seen, mut looked_at) = (0, 0, 0);
    // From then on the card does not look at its tails.
    let blind = random.below(200);
    for step in 0..150 {
        if step == blind {
            ring.port.card().play(&"tx-fetch late 4000000000".parse().unwrap());
        }
        let (frame, size, request, segments) = draw(&mut random);
        let pieces: Vec<&[u8]> = frame.chunks(size).collect();
        let (taken, out) = ring.send(&pieces, &request);
        if step < blind {
            expected += taken * segments;
            looked_at += taken as u64;
        }
        seen += out.len();
        let mut block = [0; BLOCK];
        if random.below(3) == 0 && ring.tx.take_sent(&mut block) {
            ring.pool.give(&block);
        }
    }
    assert_eq!(seen, expected, "seed {seed}");
    let taken = ring.tx.counters().frames;
    let Direct { mut driver, mut pool, rx, tx, port } = ring;
    let unsent = driver.stop_tx(tx, &mut pool).unwrap();
    assert_eq!(unsent.frames, taken - looked_at, "seed {seed}");
    for rx in rx {
        driver.stop_rx(rx, &mut pool).unwrap();
    }
    assert_eq!((pool.available(), pool.excess()), (pool.capacity(), 0), "seed {seed}");
    assert_eq!(port.card().violations(), [""; 0], "seed {seed}");
}

#[test]
fn sends_of_all_kinds_add_up() {
    (1..=if full() { 1000 } else { 40 }).for_each(survive);
}
