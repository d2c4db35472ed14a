//! Each core's share: its packet memory, its queues, its loop's state. All of it is made by the boot core, before any core
//! polls.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use hal::simd::Isa;
use hal::{Clock, DmaError, DmaMemory, Machine};
use kernel::assign::{Assigned, Assignment};
use kernel::config::Config;
use kernel::forward::Route;
use kernel::lcore::{Lcore, Retry, Stream, Streams};
use kernel::port::{PortControl, QueueSetup};
use kernel::{BufferLayout, Pool};

use super::machine::BootMachine;
use super::ports::{PortOf, Ports};
use super::{App, exit};
use crate::modes::{CoreGround, Modes};
use crate::port::ImagePort;

/// The queues of an [`App`].
pub type RxOf<A> = <PortOf<A> as PortControl>::Rx;
pub type TxOf<A> = <PortOf<A> as PortControl>::Tx;
/// Streams of an [`App`].
pub type StreamsOf<A> = Streams<RxOf<A>, TxOf<A>>;

/// The loop of one core.
pub type Core<A> = Lcore<RxOf<A>, TxOf<A>, <A as App>::Modes>;

/// A core that has something to do.
pub struct Share<A: App> {
    /// Its number.
    pub number: usize,
    /// What it does.
    pub core: Box<Core<A>>,
}

/// Starts every queue and gives it to its core. Shares are in the order of the cores' numbers.
pub fn start<A: App>(
    boot: &BootMachine,
    ports: &mut Ports<A>,
    config: &Config,
    assignment: &Assignment,
) -> Vec<Share<A>> {
    let mut shares = Vec::new();
    for number in 0..boot.cores.count() {
        let count = assignment.of_core(number).count();
        if count == 0 {
            continue;
        }
        let pool = make_pool::<A>(boot, ports, number, assignment, config);
        let mode = make_mode::<A>(boot, number, count, config);
        let mut core = Box::new(Core::<A>::new(pool, mode, usize::from(config.burst)));
        core.set_retry(retry(boot, config));
        for assigned in assignment.of_core(number) {
            start_stream::<A>(&mut core, ports, config, boot.isa(config), assigned);
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
fn make_pool<A: App>(
    boot: &BootMachine,
    ports: &mut Ports<A>,
    core: usize,
    assignment: &Assignment,
    config: &Config,
) -> Pool {
    let streams = assignment.of_core(core).count();
    let layout = BufferLayout::DEFAULT;
    let kept = <A::Modes as Modes>::buffers_kept(config);
    let needed = config.buffers_needed(streams).saturating_add(kept.saturating_mul(streams as u32));
    let count = config.total_num_mbufs.unwrap_or(needed);
    if count < needed {
        exit::fatal(format_args!(
            "option --total-num-mbufs={count}: core {core} needs {needed} for its {streams} queue pairs"
        ));
    }
    match packet_memory::<A>(boot, ports, core, assignment, layout.bytes(count as usize)) {
        Ok(memory) => Pool::new(memory, layout),
        Err(error) => exit::fatal(format_args!("packet buffers of core {core}: {error}")),
    }
}

/// Memory of the first port of the core that has some for packets, else the machine's.
fn packet_memory<A: App>(
    boot: &BootMachine,
    ports: &mut Ports<A>,
    core: usize,
    assignment: &Assignment,
    len: usize,
) -> Result<DmaMemory, DmaError> {
    const ALIGN: usize = 2 << 20;
    for port in assignment.of_core(core).flat_map(|assigned| [assigned.rx_port, assigned.tx_port]) {
        let memory = ports.get_mut(port).and_then(|port| port.control.packet_memory(len, ALIGN));
        if let Some(memory) = memory {
            return memory;
        }
    }
    boot.machine.dma_alloc(len, ALIGN)
}

/// A core's own mode.
fn make_mode<A: App>(boot: &BootMachine, core: usize, streams: usize, config: &Config) -> A::Modes {
    let ground = CoreGround {
        core,
        streams,
        isa: boot.isa(config),
        ticks_per_second: boot.clock().ticks_per_second(),
        memory: &|bytes| boot.machine.dma_alloc(bytes, 4096),
    };
    A::Modes::make(config, &ground)
        .unwrap_or_else(|error| exit::fatal(format_args!("forwarding mode of core {core}: {error}")))
}

/// What a core does when a transmit ring is full.
fn retry(boot: &BootMachine, config: &Config) -> Option<Retry> {
    let delay = Duration::from_micros(config.burst_tx_delay_us.into());
    config
        .retry
        .then(|| Retry { times: config.burst_tx_retry_num.into(), delay: boot.clock().to_ticks(delay) })
}

fn start_stream<A: App>(
    core: &mut Core<A>,
    ports: &mut Ports<A>,
    config: &Config,
    isa: Isa,
    assigned: &Assigned,
) {
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
