use std::vec::Vec;

use hal::Machine;
use hal::hosted::{FakeBar, HostedMachine};

use super::*;
use crate::drops::Drops;
use crate::forward::Route;
use crate::packet::{Meta, Packet};
use crate::pool::{BufferLayout, Pool};

struct Ground {
    memory: DmaMemory,
    noisy: Noisy,
}

impl Ground {
    fn new(options: Options) -> Self {
        let machine = HostedMachine::<FakeBar>::new(8 << 20).unwrap();
        let memory = machine.dma_alloc(1 << 20, 64).unwrap();
        let noisy_memory =
            (options.memory_mib > 0).then(|| machine.dma_alloc(options.memory_bytes(), 4096).unwrap());
        let fifo = || machine.dma_alloc(options.fifo_bytes(), 64).unwrap();
        let fifos = if options.fifo > 0 { std::vec![fifo(), fifo()] } else { std::vec![] };
        let share = CoreShare { fifos, noisy_memory, ticks_per_second: 1000, core: 0 };
        Self { memory, noisy: Noisy::new(&options, share) }
    }

    /// Frames with these numbers go in, the numbers of those that come out.
    fn pass(&mut self, stream: usize, numbers: &[u32]) -> Vec<u32> {
        let mut burst = Burst::new();
        for number in numbers {
            burst.push(Packet { buffer: *number, meta: Meta::frame(60) }).unwrap();
        }
        self.pass_burst(stream, &mut burst);
        burst.buffers().to_vec()
    }

    fn pass_burst(&mut self, stream: usize, burst: &mut Burst) {
        let mut pool = Pool::new(self.memory.part(0, 0).unwrap(), BufferLayout::DEFAULT);
        let (route, mut drops) = (Route::default(), Drops::default());
        let mut work = Work {
            memory: &self.memory,
            route: &route,
            stream,
            limit: 4,
            buffers: &mut pool,
            drops: &mut drops,
        };
        assert_eq!(self.noisy.forward(Isa::best(), &mut work, burst), Verdict::Send);
        assert_eq!(drops.total(), 0);
    }
}

#[test]
fn without_a_queue_frames_go_on() {
    let mut ground =
        Ground::new(Options { memory_mib: 1, writes: 3, reads: 2, reads_writes: 1, ..Options::default() });
    assert_eq!(ground.pass(0, &[1, 2, 3]), [1, 2, 3]);
    let memory = ground.noisy.memory.clone().unwrap();
    let written = (0..memory.len()).step_by(64).filter(|at| memory.load::<u8>(*at).unwrap() != 0).count();
    // Three frames, four writes each; some of them may have written 0, or the same line.
    assert!((8..=12).contains(&written), "{written}");
    assert_eq!(ground.pass(0, &[]), []);
}

#[test]
fn what_finds_no_room_pushes_as_many_out() {
    let mut ground = Ground::new(Options { fifo: 5, ..Options::default() });
    assert_eq!(ground.pass(0, &[1, 2, 3]), []);
    assert_eq!(ground.pass(1, &[100]), []);
    assert_eq!(ground.pass(0, &[4, 5]), []);
    assert_eq!(ground.pass(0, &[6]), [1]);
    assert_eq!(ground.pass(0, &[]), []);
    assert_eq!(ground.pass(0, &[7, 8, 9, 10, 11, 12, 13]), [2, 3, 4, 5, 6, 7, 8]);
    ground.noisy.finish();
    assert_eq!(
        (ground.pass(0, &[]), ground.pass(0, &[14]), ground.pass(0, &[])),
        (std::vec![9, 10, 11, 12], std::vec![13, 14], std::vec![])
    );
    assert_eq!(ground.pass(1, &[]), [100]);
}

/// At a thousand time stamps a second, a millisecond is one of them.
#[test]
fn a_queue_is_emptied_when_its_time_has_come() {
    let mut ground = Ground::new(Options { fifo: 50, flush_ms: 1, ..Options::default() });
    assert_eq!(ground.pass(0, &[1, 2, 3, 4, 5, 6]), [1, 2, 3, 4]);
    assert_eq!(ground.pass(0, &[7]), [5, 6, 7]);
    let mut ground = Ground::new(Options { fifo: 50, flush_ms: u16::MAX, ..Options::default() });
    ground.noisy.flush_ticks = Some(u64::MAX / 2);
    assert_eq!((ground.pass(0, &[1, 2]), ground.pass(0, &[])), (std::vec![], std::vec![]));
}

#[test]
fn a_frame_in_more_buffers_than_the_queue_has_comes_out_whole() {
    let mut ground = Ground::new(Options { fifo: 2, ..Options::default() });
    assert_eq!(ground.pass(0, &[1]), []);
    let mut burst = Burst::new();
    for (buffer, last) in [(2, false), (3, false), (4, true), (5, false), (6, true)] {
        let meta = if last { Meta::frame(60) } else { Meta::segment(60) };
        burst.push(Packet { buffer, meta }).unwrap();
    }
    ground.pass_burst(0, &mut burst);
    assert_eq!(burst.buffers(), [1, 2, 3, 4]);
    assert_eq!(ground.pass(0, &[7]), [5, 6]);
}

/// Bursts as large as a burst can be, of frames in one buffer and in several: each frame comes out once and whole, in its
/// order, or is counted.
#[test]
fn large_bursts_of_large_frames_keep_their_order() {
    const FRAMES: u32 = 4000;
    for (fifo, pieces) in [(1, [5, 1]), (7, [1, 8]), (600, [5, 1]), (1000, [2, 3]), (700, [1, 1])] {
        let mut ground = Ground::new(Options { fifo, ..Options::default() });
        let mut pool = Pool::new(ground.memory.part(0, 0).unwrap(), BufferLayout::DEFAULT);
        let (route, mut drops) = (Route::default(), Drops::default());
        // The number of a frame is the number of each of its buffers.
        let (mut next, mut out) = (0, Vec::new());
        let mut ended = false;
        loop {
            let mut burst = Burst::new();
            while next < FRAMES {
                // Long runs of each kind.
                let len = pieces[(next / 512 % 2) as usize];
                if burst.room() < len {
                    break;
                }
                for piece in 0..len {
                    let meta = if piece + 1 == len { Meta::frame(60) } else { Meta::segment(60) };
                    burst.push(Packet { buffer: next, meta }).unwrap();
                }
                next += 1;
            }
            if next == FRAMES && burst.is_empty() && !ended {
                ground.noisy.finish();
                ended = true;
            }
            let (memory, buffers) = (&ground.memory, &mut pool);
            let mut work = Work { memory, route: &route, stream: 0, limit: 512, buffers, drops: &mut drops };
            ground.noisy.forward(Isa::best(), &mut work, &mut burst);
            if ended && burst.is_empty() {
                break;
            }
            loop {
                let Some(range) = crate::forward::frame::ranges(burst.metas()).next() else { break };
                let buffers = &burst.buffers()[range.clone()];
                assert!(buffers.iter().all(|buffer| *buffer == buffers[0]), "{buffers:?}");
                assert_eq!(buffers.len(), pieces[(buffers[0] / 512 % 2) as usize]);
                out.push(buffers[0]);
                burst.release(range.len());
            }
            let queue = &ground.noisy.streams[0];
            assert!(!queue.fifo.is_over_full(), "{fifo}");
        }
        assert!(out.windows(2).all(|pair| pair[0] < pair[1]), "{fifo}");
        assert_eq!(out.len() as u64 + drops.get(DropReason::TxFull), u64::from(FRAMES), "{fifo}");
        assert_eq!(drops.total(), drops.get(DropReason::TxFull));
    }
}

#[test]
fn headers_change_as_in_the_other_mode() {
    for (name, swapped) in [("io", false), ("macswap", true), ("5tswap", true)] {
        let mut options = Options::default();
        options.set("--noisy-forward-mode", name).unwrap();
        let mut ground = Ground::new(options);
        let addresses: [u8; 12] = core::array::from_fn(|i| i as u8);
        ground.memory.store(4096, addresses).unwrap();
        assert_eq!(ground.pass(0, &[4096]), [4096]);
        let now: [u8; 12] = ground.memory.load(4096).unwrap();
        assert_eq!(now, if swapped { [6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5] } else { addresses });
    }
    let mut options = Options::default();
    for wrong in ["csum", "noisy", "IO", ""] {
        assert!(options.set("--noisy-forward-mode", wrong).is_err());
    }
    assert!(options.set("--noisy-lkup-num-reads", "65536").is_err());
    options.set("--noisy-lkup-num-reads", "1").unwrap();
    assert!(options.check().is_err());
}
