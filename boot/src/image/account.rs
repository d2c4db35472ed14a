//! The end: every queue is stopped, everything is told that was counted, by port and by core, and the cards are given
//! back.

use core::marker::PhantomData;
use core::time::Duration;

use hal::Clock;
use hal::bare::TscClock;
use kernel::config::{MAX_CORES, MAX_PORTS};
use kernel::lcore::{MAX_STREAMS, Stream};
use kernel::port::{PortControl, QueueCounters};
use kernel::report::{self, CoreReport, PortReport};
use kernel::{DropReason, Pool, RxQueue, TxQueue};

use super::console::println;
use super::ports::{PortOf, Ports};
use super::streams::{RxOf, Share, StreamsOf, TxOf};
use super::{App, serial};
use crate::port::{ImagePort, ImageQueue};

/// Most polls for what has arrived when the end is said: several rings full.
const DRAIN_POLLS: usize = 4096;
/// Between the two looks at a core's rings.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

type ErrorOf<A> = <PortOf<A> as PortControl>::Error;
type WatchOf<A> = <PortOf<A> as ImagePort>::Watch;

/// What was counted, of cores that have stopped.
pub struct Account<A> {
    ports: heapless::Vec<PortReport, MAX_PORTS>,
    cores: heapless::Vec<(usize, CoreReport), MAX_CORES>,
    /// By port that sends: the one that receives what it sends.
    came_in_at: [usize; MAX_PORTS],
    /// Extended statistics are told, too.
    xstats: bool,
    app: PhantomData<A>,
}

impl<A: App> Account<A> {
    /// An account of these ports, in which nothing stands.
    pub fn new(ports: &Ports<A>, xstats: bool) -> Self {
        let report = |name: &report::PortName| PortReport { name: name.clone(), ..Default::default() };
        Self {
            ports: ports.iter().map(|port| report(&port.name)).collect(),
            cores: heapless::Vec::new(),
            came_in_at: [0; MAX_PORTS],
            xstats,
            app: PhantomData,
        }
    }

    /// Stops the queues of a core that does not poll them any more, and adds what it counted. Says whether everything
    /// went well.
    pub fn stop(&mut self, share: &mut Share<A>, ports: &mut Ports<A>, clock: &TscClock) -> bool {
        let mut good = true;
        let mut report = CoreReport { streams: share.core.streams.len(), ..Default::default() };
        // Whoever said the end may have sent just before.
        share.core.drain(DRAIN_POLLS);
        tell_stuck::<A>(&share.core.streams, ports, clock);
        while let Some(stream) = share.core.streams.pop() {
            good &= self.stop_stream(stream, &mut share.core.pool, ports, &mut report);
        }
        let (available, capacity) = (share.core.pool.available(), share.core.pool.capacity());
        let excess = share.core.pool.excess();
        if available != capacity || excess != 0 {
            let number = share.number;
            println!(
                "barewire: error: core {number}: {available} of {capacity} buffers came back, {excess} twice"
            );
            good = false;
        }
        let _ = self.cores.push((share.number, report));
        good
    }

    fn stop_stream(
        &mut self,
        stream: Stream<RxOf<A>, TxOf<A>>,
        pool: &mut Pool,
        ports: &mut Ports<A>,
        core: &mut CoreReport,
    ) -> bool {
        let mut good = true;
        let mut settle = |result: Result<QueueCounters, ErrorOf<A>>, name: &str| {
            result.unwrap_or_else(|error| {
                println!("barewire: error: {name}: {error}");
                good = false;
                QueueCounters::default()
            })
        };
        let (mut received, mut sent) = (stream.rx.counters(), stream.tx.counters());
        let mut drops = stream.all_drops();
        let (rx_queue, tx_queue) = (stream.rx.index(), stream.tx.index());
        let port = &mut ports[stream.rx_port];
        let left = settle(port.control.stop_rx(stream.rx, pool), &port.name);
        let port = &mut ports[stream.tx_port];
        let unsent = settle(port.control.stop_tx(stream.tx, pool), &port.name);
        drops.add(DropReason::RxStopped, left.frames);
        drops.add(DropReason::TxStopped, unsent.frames);
        received.frames += left.frames;
        received.bytes += left.bytes;
        sent.frames = sent.frames.saturating_sub(unsent.frames);
        sent.bytes = sent.bytes.saturating_sub(unsent.bytes);
        self.came_in_at[stream.tx_port] = stream.rx_port;
        self.ports[stream.tx_port].made += stream.made;
        core.made += stream.made;
        if self.xstats {
            tell_queue(stream.rx_port, "rx", rx_queue, received);
            tell_queue(stream.tx_port, "tx", tx_queue, sent);
        }
        add(&mut self.ports[stream.rx_port].rx, received);
        add(&mut self.ports[stream.tx_port].tx, sent);
        self.ports[stream.rx_port].drops.merge(&drops);
        add(&mut core.rx, received);
        add(&mut core.tx, sent);
        core.drops.merge(&drops);
        good
    }

    /// Adds what the cards counted, tells everything and gives the cards back. Says whether all went well, this and
    /// what came before.
    pub fn end(mut self, mut ports: Ports<A>, mut good: bool) -> bool {
        for (index, port) in ports.iter_mut().enumerate() {
            let stats = port.control.stats();
            let report = &mut self.ports[index];
            report.drops.add(DropReason::RxMissed, stats.rx_missed);
            report.drops.add(DropReason::RxBad, stats.rx_errors);
            // Given to the card and so counted as sent; its bytes are not known any more.
            report.tx.frames = report.tx.frames.saturating_sub(stats.tx_errors);
            self.ports[self.came_in_at[index]].drops.add(DropReason::TxLinkDown, stats.tx_errors);
        }
        // The console has no errors.
        for (index, report) in self.ports.iter().enumerate() {
            let _ = serial::with(|serial| report::stats_line(serial, index, report));
        }
        for (core, report) in &self.cores {
            let _ = serial::with(|serial| report::core_line(serial, *core, report));
        }
        if self.xstats {
            ports.iter_mut().enumerate().for_each(|(index, port)| tell_xstats(index, &mut port.control));
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
}

/// Names what holds up streams whose queues nobody polls any more.
fn tell_stuck<A: App>(streams: &StreamsOf<A>, ports: &Ports<A>, clock: &TscClock) {
    let mut watches: [(WatchOf<A>, WatchOf<A>); MAX_STREAMS] = core::array::from_fn(|_| Default::default());
    // A mark that is only late is no trouble: one is what was there at two looks, some time apart.
    for look in 0..2 {
        for (stream, (rx_watch, tx_watch)) in streams.iter().zip(&mut watches) {
            let (rx, tx) = (&ports[stream.rx_port], &ports[stream.tx_port]);
            if let Some(trouble) = rx.control.rx_trouble(&stream.rx, rx_watch) {
                println!("barewire: error: {}: {trouble}", rx.name);
            }
            if let Some(trouble) = tx.control.tx_trouble(&stream.tx, tx_watch) {
                println!("barewire: error: {}: {trouble}", tx.name);
            }
        }
        if look == 0 {
            clock.delay(BETWEEN_LOOKS);
        }
    }
}

/// A queue's counters under DPDK's names.
fn tell_queue(port: usize, way: &str, queue: usize, counters: QueueCounters) {
    let QueueCounters { frames, bytes } = counters;
    println!("barewire: xstat port={port} {way}_q{queue}_packets={frames}");
    println!("barewire: xstat port={port} {way}_q{queue}_bytes={bytes}");
}

fn tell_xstats(index: usize, port: &mut impl ImagePort) {
    port.tell_xstats(&mut |name, count| {
        if count > 0 {
            println!("barewire: xstat port={index} {name}={count}");
        }
    });
}

fn add(sum: &mut QueueCounters, counters: QueueCounters) {
    sum.frames += counters.frames;
    sum.bytes += counters.bytes;
}
