//! The software XL710 alone, for a VMM that somebody else starts.

use std::fs::File;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::wire::{EchoWire, PeerWire, SinkWire};
use model::{PortConfig, Server, TraceLog, Wire, Xl710};

use crate::capture;
use crate::faults::FaultSource;
use crate::tap::Tap;
use crate::traffic::{Forward, FrameSet, Limits, Macs, Rules, Traffic, TrafficWire};
use crate::{Failure, signals};

/// What a port is plugged into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WireKind {
    /// A host that answers ARP and ICMP echo for every address.
    Echo,
    /// Nothing: frames are taken and none comes.
    Sink,
    /// The next port, which is given as `peer`, too.
    Peer,
    /// Frames of one capture, once; what the card sends goes to another.
    Pcap(PathBuf, PathBuf),
    /// A TAP interface of the host.
    Tap(String),
}

/// A port to serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedPort {
    /// Its socket.
    pub socket: PathBuf,
    /// Its wire.
    pub wire: WireKind,
    /// What its card does wrong.
    pub faults: Option<FaultSource>,
}

/// Serves until it is asked to stop; with `log`, writes down there what the drivers do.
///
/// # Errors
/// A socket, a capture, an interface or the log can't be had, or a peer is missing.
pub fn serve(ports: &[ServedPort], device: u16, log: Option<&Path>) -> Result<(), Failure> {
    let log = log.map(open_log).transpose()?;
    let mut wires = Wires::default();
    let mut cards = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        let config = PortConfig {
            device_id: device,
            mac: [0x68, 0x05, 0xca, 0, 0, index as u8],
            name: port.socket.display().to_string(),
        };
        let mut card = Xl710::new(config, wires.plug(&port.wire)?);
        if let Some(faults) = &port.faults {
            card.play(&faults.script(card.name())?);
        }
        if let Some(log) = &log {
            card.trace(log, &format!("port{index}"));
        }
        cards.push((port.socket.clone(), card));
    }
    if wires.waiting_peer.is_some() {
        return Err(Failure::usage("wire=peer joins two ports, and the last one has no partner"));
    }
    let server = Server::bind(cards).map_err(|error| Failure::usage(error.to_string()))?.stay();
    let handle = server.handle();
    for tap in &mut wires.taps {
        let handle = handle.clone();
        tap.start(move || handle.kick());
    }
    signals::on_stop(move || handle.stop())?;
    for port in ports {
        eprintln!("barewire: serving {device:04x} on {}", port.socket.display());
    }
    let result = server.run().map_err(|error| Failure::run(error.to_string()));
    wires.taps.iter().for_each(tell_account);
    result?;
    if !wires.captures.iter().all(|traffic| traffic.finish_captures()) {
        return Err(Failure::run("a capture could not be written to its end"));
    }
    log.map_or(Ok(()), |log| log.finish().map_err(|error| Failure::run(format!("the log: {error}"))))
}

/// A pipe that nobody empties would hold the cards up, so it must be a file or a terminal.
fn open_log(path: &Path) -> Result<TraceLog, Failure> {
    let told = |what: &dyn std::fmt::Display| Failure::usage(format!("--log {}: {what}", path.display()));
    if path.metadata().is_ok_and(|there| there.file_type().is_fifo() || there.file_type().is_socket()) {
        return Err(told(&"a pipe or a socket, which may stand still"));
    }
    File::create(path).map(TraceLog::new).map_err(|error| told(&error))
}

/// What an interface took and gave; on standard error, as everything that the command says.
fn tell_account(tap: &Tap) {
    let account = tap.account();
    let why = account.why.map(|why| format!(" ({why})")).unwrap_or_default();
    eprintln!(
        "barewire: tap {}: {} frames to the host, {} from it, {} refused by it{why}",
        tap.name(),
        account.to_host,
        account.from_host,
        account.refused
    );
}

/// What the wires of all ports need to go on.
#[derive(Default)]
struct Wires {
    captures: Vec<Arc<Traffic>>,
    taps: Vec<Tap>,
    waiting_peer: Option<PeerWire>,
}

impl Wires {
    fn plug(&mut self, kind: &WireKind) -> Result<Box<dyn Wire>, Failure> {
        Ok(match kind {
            WireKind::Echo => Box::<EchoWire>::default(),
            WireKind::Sink => Box::new(SinkWire),
            WireKind::Peer => Box::new(self.waiting_peer.take().unwrap_or_else(|| {
                let (near, far) = PeerWire::pair();
                self.waiting_peer = Some(far);
                near
            })),
            WireKind::Pcap(from, to) => {
                let traffic = replay(from, to)?;
                self.captures.push(traffic.clone());
                Box::new(TrafficWire::new(&traffic, 0))
            }
            WireKind::Tap(name) => {
                let (tap, wire) = Tap::open(name)?;
                self.taps.push(tap);
                Box::new(wire)
            }
        })
    }
}

/// Frames of `from` are sent once, and nothing is expected of what comes back.
fn replay(from: &Path, to: &Path) -> Result<Arc<Traffic>, Failure> {
    let frames = FrameSet::new(capture::read(from)?.frames);
    let limits = Limits { in_flight: usize::MAX, repeat: false, in_order: true };
    let traffic = Traffic::new(Rules::of(Forward::RxOnly, Macs(Vec::new())), vec![Some(frames)], limits);
    traffic.record(&[Some(to.to_owned())])?;
    traffic.start();
    Ok(traffic)
}
