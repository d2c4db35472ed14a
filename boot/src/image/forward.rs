//! From ports that are up to forwarding, and to an orderly end.

use core::time::Duration;

use drivers::i40e::{Rx, Tx};
use hal::bare::MmioBar;
use hal::{Clock, Machine};
use kernel::config::{Config, MAX_PORTS};
use kernel::forward::{Forwarder, Route};
use kernel::lcore::{Flow, Lcore, Stream};
use kernel::port::{PortControl, QueueCounters, QueueSetup};
use kernel::report::{self, PortReport};
use kernel::{BufferLayout, DropReason, Drops, Link, Pool, RxQueue, TxQueue};

use crate::console::{Input, println};
use crate::machine::BootMachine;
use crate::ports::Ports;
use crate::{exit, heap, serial};

type Core = Lcore<Rx<MmioBar>, Tx<MmioBar>, Forwarder>;

/// How often the core looks away from its queues.
const SERVICE_PERIOD: Duration = Duration::from_millis(10);

/// Forwards until the console says `quit`.
pub fn run(boot: BootMachine, mut ports: Ports, config: &Config, entered: u64) -> ! {
    let pool = make_pool(&boot, ports.len(), config);
    let mut core = Core::new(pool, Forwarder::new(config.mode, config.txpkts), usize::from(config.burst));
    start_streams(&mut core, &mut ports, config);
    announce(&boot, &mut ports, &core, entered);
    heap::close();
    let (mut input, mut links) = (Input::default(), Links::new(&ports));
    core.run(boot.clock(), SERVICE_PERIOD, |_| {
        links.look(&mut ports);
        match input.poll() {
            Some(line) if line.trim() == "quit" => return Flow::Stop,
            Some(line) => println!("{}: not known; quit ends", line.trim()),
            None => {}
        }
        Flow::Continue
    });
    exit::leave(end(core, ports))
}

/// The links, as they were told last.
struct Links {
    known: heapless::Vec<Option<Link>, MAX_PORTS>,
    waited: u32,
}

impl Links {
    /// Services between two looks.
    const PERIOD: u32 = 10;

    fn new(ports: &Ports) -> Self {
        Self { known: ports.iter().map(|port| Some(port.link)).collect(), waited: 0 }
    }

    /// Tells each change; a port whose firmware does not answer is told once and not asked again.
    fn look(&mut self, ports: &mut Ports) {
        self.waited += 1;
        if self.waited < Self::PERIOD {
            return;
        }
        self.waited = 0;
        for ((index, port), known) in ports.iter_mut().enumerate().zip(&mut self.known) {
            let Some(before) = *known else { continue };
            match port.control.link() {
                Ok(link) if link != before => {
                    println!("barewire: link port={index} name={} {link}", port.name);
                    *known = Some(link);
                }
                Ok(_) => {}
                Err(error) => {
                    println!("barewire: error: {}: {error}", port.name);
                    *known = None;
                }
            }
        }
    }
}

fn make_pool(boot: &BootMachine, ports: usize, config: &Config) -> Pool {
    let layout = BufferLayout::DEFAULT;
    let needed = config.buffers_needed(ports);
    let count = config.total_num_mbufs.unwrap_or(needed);
    if count < needed {
        exit::fatal(format_args!(
            "option --total-num-mbufs={count}: {ports} ports with these rings need {needed}"
        ));
    }
    match boot.machine.dma_alloc(layout.bytes(count as usize), 2 << 20) {
        Ok(memory) => Pool::new(memory, layout),
        Err(error) => exit::fatal(format_args!("packet buffers: {error}")),
    }
}

/// One queue pair a port: what a port receives its partner sends.
fn start_streams(core: &mut Core, ports: &mut Ports, config: &Config) {
    let setup = |descriptors| QueueSetup {
        descriptors,
        memory: core.pool.memory().clone(),
        layout: core.pool.layout(),
    };
    let (rx_setup, tx_setup) = (setup(config.rxd), setup(config.txd));
    let count = ports.len();
    for rx_port in 0..count {
        let tx_port = config.topology.tx_port(rx_port, count);
        let tx = start_tx(ports, tx_port, &tx_setup);
        let mac = ports[tx_port].control.mac();
        let port = &mut ports[rx_port];
        let rx = port.control.start_rx(0, &rx_setup, &mut core.pool);
        let rx = rx.unwrap_or_else(|error| exit::fatal(format_args!("{}: {error}", port.name)));
        let route = Route { mac, peer: config.eth_peers[tx_port] };
        let stream = Stream { rx_port, tx_port, rx, tx, route, drops: Drops::default() };
        if core.streams.push(stream).is_err() {
            exit::fatal(format_args!("more streams than a core can have"));
        }
    }
}

fn start_tx(ports: &mut Ports, tx_port: usize, setup: &QueueSetup) -> Tx<MmioBar> {
    let port = &mut ports[tx_port];
    let tx = port.control.start_tx(0, setup);
    tx.unwrap_or_else(|error| exit::fatal(format_args!("{}: {error}", port.name)))
}

fn announce(boot: &BootMachine, ports: &mut Ports, core: &Core, entered: u64) {
    for stream in &core.streams {
        let index = stream.rx_port;
        let port = &mut ports[index];
        let link = port.control.link();
        let link = link.unwrap_or_else(|error| exit::fatal(format_args!("{}: {error}", port.name)));
        port.link = link;
        let tx_path =
            core.streams.iter().find(|other| other.tx_port == index).map_or("", |other| other.tx.path());
        println!(
            "barewire: port {index} {} mac={} {link} rx_path=\"{}\" tx_path=\"{tx_path}\"",
            port.name,
            port.control.mac(),
            stream.rx.path(),
        );
    }
    let clock = boot.clock();
    println!(
        "barewire: cpu isa=scalar vectors={} tsc_khz={} reason=\"this image has no vector loops\"",
        boot.level,
        clock.ticks_per_second() / 1000
    );
    let micros = clock.to_duration(clock.ticks().wrapping_sub(entered)).as_micros();
    println!("barewire: boot_ms={}.{:03}", micros / 1000, micros % 1000);
    println!("barewire ready: {} ports", ports.len());
}

/// Stops every queue, tells what was counted, gives the cards back. Says whether everything went well.
fn end(mut core: Core, mut ports: Ports) -> bool {
    let mut good = true;
    let mut reports: heapless::Vec<PortReport, MAX_PORTS> = heapless::Vec::new();
    for port in &ports {
        let _ = reports.push(PortReport { name: port.name.clone(), ..Default::default() });
    }
    let streams = core::mem::take(&mut core.streams);
    let mut came_in_at = [0; MAX_PORTS];
    for stream in streams {
        came_in_at[stream.tx_port] = stream.rx_port;
        good &= stop_stream(stream, &mut core.pool, &mut ports, &mut reports);
    }
    for (index, port) in ports.iter_mut().enumerate() {
        let stats = port.control.stats();
        reports[index].drops.add(DropReason::RxMissed, stats.rx_missed);
        reports[index].drops.add(DropReason::RxBad, stats.rx_errors);
        // Given to the card and so counted as sent; its bytes are not known any more.
        reports[index].tx.frames = reports[index].tx.frames.saturating_sub(stats.tx_errors);
        reports[came_in_at[index]].drops.add(DropReason::TxLinkDown, stats.tx_errors);
    }
    for (index, _) in ports.iter().enumerate() {
        serial::with(|serial| report::stats_line(serial, index, &reports[index])).unwrap_or(());
    }
    let (available, capacity) = (core.pool.available(), core.pool.capacity());
    if available != capacity || core.pool.excess() != 0 {
        println!(
            "barewire: error: {available} of {capacity} buffers came back, {} twice",
            core.pool.excess()
        );
        good = false;
    }
    for port in ports {
        if let Err(error) = port.control.shut_down() {
            println!("barewire: error: {}: {error}", port.name);
            good = false;
        }
    }
    println!("barewire: end status={}", if good { "ok" } else { "failed" });
    good
}

fn stop_stream(
    stream: Stream<Rx<MmioBar>, Tx<MmioBar>>,
    pool: &mut Pool,
    ports: &mut Ports,
    reports: &mut [PortReport],
) -> bool {
    let mut good = true;
    let mut settle = |result: Result<QueueCounters, drivers::i40e::Error>, name: &str| {
        result.unwrap_or_else(|error| {
            println!("barewire: error: {name}: {error}");
            good = false;
            QueueCounters::default()
        })
    };
    let (received, sent, mut drops) = (stream.rx.counters(), stream.tx.counters(), stream.all_drops());
    let port = &mut ports[stream.rx_port];
    let left = settle(port.control.stop_rx(stream.rx, pool), &port.name);
    let port = &mut ports[stream.tx_port];
    let unsent = settle(port.control.stop_tx(stream.tx, pool), &port.name);
    drops.add(DropReason::RxStopped, left.frames);
    drops.add(DropReason::TxStopped, unsent.frames);
    let report = &mut reports[stream.rx_port];
    report.rx.frames += received.frames + left.frames;
    report.rx.bytes += received.bytes + left.bytes;
    report.drops.merge(&drops);
    let report = &mut reports[stream.tx_port];
    report.tx.frames += sent.frames.saturating_sub(unsent.frames);
    report.tx.bytes += sent.bytes.saturating_sub(unsent.bytes);
    good
}
