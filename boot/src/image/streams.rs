//! Each core's share: its packet memory, its queues, its loop's state. All of it is made by the boot core, before any core
//! polls.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use drivers::i40e::{Rx, Tx};
use hal::bare::MmioBar;
use hal::simd::Isa;
use hal::{Clock, Machine};
use kernel::assign::{Assigned, Assignment};
use kernel::config::Config;
use kernel::forward::{CoreShare, Forwarder, Mode, Route};
use kernel::lcore::{Lcore, Retry, Stream};
use kernel::port::{PortControl, QueueSetup};
use kernel::{BufferLayout, Pool};

use crate::exit;
use crate::machine::BootMachine;
use crate::ports::Ports;

/// The loop of one core.
pub type Core = Lcore<Rx<MmioBar>, Tx<MmioBar>, Forwarder>;

/// A core that has something to do.
pub struct Share {
    /// Its number.
    pub number: usize,
    /// What it does.
    pub core: Box<Core>,
}

/// Starts every queue and gives it to its core. Shares are in the order of the cores' numbers.
pub fn start(boot: &BootMachine, ports: &mut Ports, config: &Config, assignment: &Assignment) -> Vec<Share> {
    let mut shares = Vec::new();
    for number in 0..boot.cores.count() {
        let count = assignment.of_core(number).count();
        if count == 0 {
            continue;
        }
        let pool = make_pool(boot, number, count, config);
        let share = make_share(boot, number, count, config);
        let mode = Forwarder::new(config.mode, &config.modes, boot.isa(config), share);
        let mut core = Box::new(Core::new(pool, mode, usize::from(config.burst)));
        core.set_retry(retry(boot, config));
        for assigned in assignment.of_core(number) {
            start_stream(&mut core, ports, config, boot.isa(config), assigned);
        }
        shares.push(Share { number, core });
    }
    // Only now: a frame for a queue that does not run yet would be lost.
    for (index, port) in ports.iter_mut().enumerate() {
        let spread = port.control.set_rss_queues(assignment.queues(index));
        spread.unwrap_or_else(|error| exit::fatal(format_args!("{}: {error}", port.name)));
    }
    shares
}

/// A core's own packet memory.
fn make_pool(boot: &BootMachine, core: usize, streams: usize, config: &Config) -> Pool {
    let layout = BufferLayout::DEFAULT;
    let needed = config.buffers_needed(streams);
    let count = config.total_num_mbufs.unwrap_or(needed);
    if count < needed {
        exit::fatal(format_args!(
            "option --total-num-mbufs={count}: core {core} needs {needed} for its {streams} queue pairs"
        ));
    }
    match boot.machine.dma_alloc(layout.bytes(count as usize), 2 << 20) {
        Ok(memory) => Pool::new(memory, layout),
        Err(error) => exit::fatal(format_args!("packet buffers of core {core}: {error}")),
    }
}

/// What the mode of a core is made with.
fn make_share(boot: &BootMachine, core: usize, streams: usize, config: &Config) -> CoreShare {
    let noisy = &config.modes.noisy;
    let memory = |bytes, what| match boot.machine.dma_alloc(bytes, 4096) {
        Ok(memory) => memory,
        Err(error) => exit::fatal(format_args!("{what} of core {core}: {error}")),
    };
    let (mut fifos, mut noisy_memory) = (Vec::new(), None);
    if config.mode == Mode::Noisy {
        let queued = noisy.fifo > 0;
        fifos.extend((0..streams).filter(|_| queued).map(|_| memory(noisy.fifo_bytes(), "queues")));
        noisy_memory = (noisy.memory_mib > 0).then(|| memory(noisy.memory_bytes(), "memory for accesses"));
    }
    CoreShare { core: core as u8, fifos, noisy_memory, ticks_per_second: boot.clock().ticks_per_second() }
}

/// What a core does when a transmit ring is full.
fn retry(boot: &BootMachine, config: &Config) -> Option<Retry> {
    let delay = Duration::from_micros(config.burst_tx_delay_us.into());
    config
        .retry
        .then(|| Retry { times: config.burst_tx_retry_num.into(), delay: boot.clock().to_ticks(delay) })
}

fn start_stream(core: &mut Core, ports: &mut Ports, config: &Config, isa: Isa, assigned: &Assigned) {
    let Assigned { rx_port, tx_port, queue, .. } = *assigned;
    let setup = |descriptors| QueueSetup {
        descriptors,
        memory: core.pool.memory().clone(),
        layout: core.pool.layout(),
        isa,
    };
    let (rx_setup, tx_setup) = (setup(config.rxd), setup(config.txd));
    let port = &mut ports[tx_port];
    let tx = port.control.start_tx(queue, &tx_setup);
    let tx = tx.unwrap_or_else(|error| exit::fatal(format_args!("{}: {error}", port.name)));
    let route = Route { mac: port.control.mac(), peer: config.eth_peers[tx_port] };
    let port = &mut ports[rx_port];
    let rx = port.control.start_rx(queue, &rx_setup, &mut core.pool);
    let rx = rx.unwrap_or_else(|error| exit::fatal(format_args!("{}: {error}", port.name)));
    let stream = Stream::new((rx_port, tx_port), rx, tx, route);
    if core.streams.push(stream).is_err() {
        exit::fatal(format_args!("more streams than a core can have"));
    }
}
