//! How many 60-byte frames a second go through one port of the software XL710: with the driver in one process, and under
//! QEMU with the image. Prints the median of nine runs, the slowest and the fastest.
//!
//! `cargo bench -p barewire-tests --bench model_speed`

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use barewire::qemu::Accel;
use barewire::run::{PortOptions, RunOptions, run};
use drivers::i40e::Options;
use hal::Machine;
use hal::simd::Isa;
use kernel::forward::{Forwarder, Mode, Route};
use kernel::lcore::{Lcore, Stream};
use kernel::port::{PortControl, QueueSetup};
use kernel::{BufferLayout, Pool, RxQueue, TxQueue};
use model::Wire;
use rig::{TestPort, frames};

const RUNS: usize = 9;
const FRAMES: u64 = 1_000_000;

/// Gives the same frame again and again, as many as are asked for, and counts what comes back.
struct Mirror {
    frame: Vec<u8>,
    left: u64,
    back: Arc<AtomicU64>,
}

impl Wire for Mirror {
    fn transmit(&mut self, frame: &[u8]) {
        assert_eq!(frame.len(), 60);
        self.back.fetch_add(1, Ordering::Relaxed);
    }

    fn receive(&mut self) -> Option<&[u8]> {
        self.left = self.left.checked_sub(1)?;
        Some(&self.frame)
    }
}

/// Millions of frames a second through receive, `mode` and transmit of one port in one thread.
fn in_one_process(mode: Mode, wide_descriptors: bool) -> f64 {
    let back = Arc::new(AtomicU64::new(0));
    let wire = Mirror { frame: frames::numbered(7, 60), left: FRAMES, back: back.clone() };
    let port = TestPort::with_wire(Box::new(wire));
    let mut driver =
        port.bring_up(Options { wide_descriptors, promiscuous: true }).expect("the port comes up");
    let layout = BufferLayout::DEFAULT;
    let memory = port.machine.dma_alloc(layout.bytes(4096), 4096).expect("packet memory");
    let mut core = Lcore::new(Pool::new(memory.clone(), layout), Forwarder::plain(mode, Isa::best()), 32);
    let setup = QueueSetup { descriptors: 1024, memory, layout, isa: Isa::best() };
    let tx = driver.start_tx(0, &setup).expect("the queue starts");
    let rx = driver.start_rx(0, &setup, &mut core.pool).expect("the queue starts");
    let route = Route { mac: driver.mac(), peer: driver.mac() };
    let stream = Stream::new((0, 0), rx, tx, route);
    assert!(core.streams.push(stream).is_ok());
    let start = Instant::now();
    while back.load(Ordering::Relaxed) < FRAMES {
        port.card().pump();
        core.poll();
    }
    let seconds = start.elapsed().as_secs_f64();
    let stream = &core.streams[0];
    assert_eq!((stream.rx.counters().frames, stream.tx.counters().frames), (FRAMES, FRAMES));
    assert_eq!(port.card().violations(), [""; 0]);
    FRAMES as f64 / seconds / 1e6
}

fn under_qemu(accel: Accel) -> Result<f64, String> {
    let options = RunOptions {
        ports: vec![PortOptions::default(); 1],
        frame_size: Some(60),
        accel: Some(accel),
        duration: Some(Duration::from_secs(2)),
        ..RunOptions::default()
    };
    let summary = run(&options).map_err(|failure| failure.to_string())?;
    if summary.good() { Ok(summary.mpps) } else { Err(format!("{summary}")) }
}

fn print(what: &str, mut runs: Vec<f64>) {
    runs.sort_by(f64::total_cmp);
    let (least, median, most) = (runs[0], runs[runs.len() / 2], runs[runs.len() - 1]);
    println!("{what}: median {median:.2} Mpps, {least:.2} to {most:.2}, {} runs", runs.len());
}

fn main() {
    for (mode, wide) in [(Mode::Io, true), (Mode::Io, false), (Mode::MacSwap, true)] {
        let runs = (0..RUNS).map(|_| in_one_process(mode, wide)).collect();
        print(
            &format!("one process, {}, {}-byte descriptors", mode.name(), if wide { 32 } else { 16 }),
            runs,
        );
    }
    let runs: Result<Vec<_>, _> = (0..RUNS).map(|_| under_qemu(Accel::Tcg)).collect();
    match runs {
        Ok(runs) => print("QEMU (TCG), one port, macswap", runs),
        Err(why) => println!("QEMU: {why}"),
    }
}
