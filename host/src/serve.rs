//! The software XL710 alone, for a VMM that somebody else starts.

use std::path::PathBuf;
use std::sync::Arc;

use model::wire::{EchoWire, PeerWire, SinkWire};
use model::{PortConfig, Server, Wire, Xl710};

use crate::capture;
use crate::traffic::{Forward, FrameSet, Limits, Macs, Traffic, TrafficWire};
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
}

/// A port to serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedPort {
    /// Its socket.
    pub socket: PathBuf,
    /// Its wire.
    pub wire: WireKind,
}

/// Serves until it is asked to stop.
///
/// # Errors
/// A socket or a capture can't be had, or a peer is missing.
pub fn serve(ports: &[ServedPort], device: u16) -> Result<(), Failure> {
    let mut captures: Vec<Arc<Traffic>> = Vec::new();
    let mut waiting_peer: Option<PeerWire> = None;
    let mut cards = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        let wire: Box<dyn Wire> = match &port.wire {
            WireKind::Echo => Box::<EchoWire>::default(),
            WireKind::Sink => Box::new(SinkWire),
            WireKind::Peer => Box::new(waiting_peer.take().unwrap_or_else(|| {
                let (near, far) = PeerWire::pair();
                waiting_peer = Some(far);
                near
            })),
            WireKind::Pcap(from, to) => {
                let traffic = replay(from, to)?;
                captures.push(traffic.clone());
                Box::new(TrafficWire::new(&traffic, 0))
            }
        };
        let config = PortConfig {
            device_id: device,
            mac: [0x68, 0x05, 0xca, 0, 0, index as u8],
            name: port.socket.display().to_string(),
        };
        cards.push((port.socket.clone(), Xl710::new(config, wire)));
    }
    if waiting_peer.is_some() {
        return Err(Failure::usage("wire=peer joins two ports, and the last one has no partner"));
    }
    let server = Server::bind(cards).map_err(|error| Failure::usage(error.to_string()))?.stay();
    let handle = server.handle();
    signals::on_stop(move || handle.stop())?;
    for port in ports {
        eprintln!("barewire: serving {device:04x} on {}", port.socket.display());
    }
    let result = server.run().map_err(|error| Failure::run(error.to_string()));
    if captures.iter().all(|traffic| traffic.finish_captures()) {
        result
    } else {
        Err(Failure::run("a capture could not be written to its end"))
    }
}

/// Frames of `from` are sent once, and nothing is expected of what comes back.
fn replay(from: &std::path::Path, to: &std::path::Path) -> Result<Arc<Traffic>, Failure> {
    let frames = FrameSet::new(capture::read(from)?.frames);
    let limits = Limits { in_flight: usize::MAX, generated_len: 0, repeat: false, in_order: true };
    let traffic = Traffic::new(Forward::RxOnly, Macs(Vec::new()), vec![Some(frames)], limits);
    traffic.record(&[Some(to.to_owned())])?;
    traffic.start();
    Ok(traffic)
}
