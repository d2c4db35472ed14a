//! What a run is asked to do.

use std::path::PathBuf;
use std::time::Duration;

use kernel::config::Config;

use crate::faults::FaultSource;
use crate::pci::Bdf;
use crate::qemu::Accel;
use crate::traffic::{Forward, FrameSet};

/// One port of the machine: a software XL710.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortOptions {
    /// PCI device id of the card.
    pub device: u16,
    /// Capture whose frames it receives.
    pub pcap: Option<PathBuf>,
    /// Capture of what it sends.
    pub out: Option<PathBuf>,
    /// Where its socket is made; in a folder of the run's own where nothing is said.
    pub socket: Option<PathBuf>,
    /// What the card does wrong.
    pub faults: Option<FaultSource>,
}

impl Default for PortOptions {
    fn default() -> Self {
        Self { device: 0x1572, pcap: None, out: None, socket: None, faults: None }
    }
}

/// A run.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Its ports with software cards.
    pub ports: Vec<PortOptions>,
    /// Cards of this machine that are given to it; then there are no others.
    pub real: Vec<Bdf>,
    /// Capture for every port that has none of its own.
    pub pcap: Option<PathBuf>,
    /// Captures begin again when they end.
    pub repeat: bool,
    /// Bytes of each frame, without FCS; the Internet mix where nothing is said.
    pub frame_size: Option<usize>,
    /// What the image does.
    pub forward: Forward,
    /// Most frames of a poll.
    pub burst: u16,
    /// Descriptors of a receive ring.
    pub rxd: u16,
    /// Descriptors of a transmit ring.
    pub txd: u16,
    /// Bytes of a receive descriptor.
    pub rx_desc: u8,
    /// Cores of the machine.
    pub cpus: u16,
    /// Cores that forward; all of them where nothing is said.
    pub nb_cores: Option<u16>,
    /// Receive queues of a port; as many as give each forwarding core a stream where nothing is said.
    pub rxq: Option<u16>,
    /// Transmit queues of a port, likewise.
    pub txq: Option<u16>,
    /// Which core polls which queue: port, queue and core; empty where the three above say it.
    pub map: Vec<[u16; 3]>,
    /// Instruction set.
    pub isa: String,
    /// Accelerator; the best that works where nothing is said.
    pub accel: Option<Accel>,
    /// How long traffic is sent at most; where nothing is said, 5 s, and captures that are sent once to their end.
    pub duration: Option<Duration>,
    /// Frames of a direction that may be under way.
    pub in_flight: usize,
    /// More options for the image.
    pub append: String,
    /// An image that is there already.
    pub image: Option<PathBuf>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            ports: vec![PortOptions::default(); 2],
            real: Vec::new(),
            pcap: None,
            repeat: false,
            frame_size: None,
            forward: Forward::MacSwap,
            burst: 32,
            rxd: 1024,
            txd: 1024,
            rx_desc: 32,
            cpus: 1,
            nb_cores: None,
            rxq: None,
            txq: None,
            map: Vec::new(),
            isa: "auto".into(),
            accel: None,
            duration: None,
            in_flight: crate::traffic::IN_FLIGHT,
            append: String::new(),
            image: None,
        }
    }
}

impl RunOptions {
    /// A capture is sent, not a synthetic set.
    pub fn has_capture(&self) -> bool {
        self.pcap.is_some() || self.ports.iter().any(|port| port.pcap.is_some())
    }

    /// How long traffic is sent at most.
    pub fn duration(&self) -> Duration {
        const SET: Duration = Duration::from_secs(5);
        const CAPTURE: Duration = Duration::from_secs(86_400);
        self.duration.unwrap_or(if self.has_capture() && !self.repeat { CAPTURE } else { SET })
    }

    /// Frames of a direction that may be under way: no more than fit into the transmit ring with a burst to spare, so
    /// that nothing is dropped for want of room.
    pub fn in_flight(&self, sets: &[Option<FrameSet>]) -> usize {
        const BUFFER: usize = 2048;
        const SPARE: usize = 32;
        let longest = sets.iter().flatten().map(FrameSet::longest).max().unwrap_or(0);
        let room = usize::from(self.txd).saturating_sub(SPARE) / longest.div_ceil(BUFFER).max(1);
        if self.forward == Forward::Ieee1588 {
            // A card keeps the time of one frame until it was asked for.
            return 1;
        }
        // What is kept on the way makes no ring full.
        let kept = if self.forward == Forward::Noisy { self.image_config().modes.noisy.fifo } else { 0 };
        self.in_flight.min(room.max(1)) + usize::from(kept)
    }

    /// The image's options as it reads them; those of another image, which may have more, as if nothing were said.
    pub fn image_config(&self) -> Config {
        let other = |name: &str| self.forward.is_other() && name == self.forward.name();
        Config::parse_with(&self.image_options(), other).unwrap_or_default()
    }

    /// Cores that are to forward, and receive and transmit queues of each port.
    fn cores_and_queues(&self) -> (u16, u16, u16) {
        let cores = self.nb_cores.unwrap_or(self.cpus);
        let enough = usize::from(cores).div_ceil(self.ports.len().max(1)) as u16;
        (cores, self.rxq.unwrap_or(enough), self.txq.unwrap_or(enough))
    }

    /// Frames of a port come back in the order in which it received them: it has one queue.
    pub fn in_order(&self) -> bool {
        let (_, rxq, txq) = self.cores_and_queues();
        if self.map.is_empty() { rxq.min(txq) == 1 } else { self.map.iter().all(|[_, queue, _]| *queue == 0) }
    }

    /// Which core polls which queue, as the image's command line says it.
    fn image_cores(&self) -> String {
        if self.map.is_empty() {
            let (cores, rxq, txq) = self.cores_and_queues();
            return format!("--nb-cores={cores} --rxq={rxq} --txq={txq}");
        }
        let entries: Vec<String> =
            self.map.iter().map(|[port, queue, core]| format!("({port},{queue},{core})")).collect();
        format!("--config={}", entries.join(","))
    }

    /// The image's command line.
    pub fn image_options(&self) -> String {
        format!(
            "--forward-mode={} --burst={} --rxd={} --txd={} --rx-desc={} {} --isa={}{}{}{}",
            self.forward.name(),
            self.burst,
            self.rxd,
            self.txd,
            self.rx_desc,
            self.image_cores(),
            self.isa,
            match (self.forward, self.frame_size) {
                (Forward::TxOnly, Some(len)) => format!(" --txpkts={}", txpkts(len)),
                // It counts an FCS among a frame's bytes.
                (Forward::FlowGen, Some(len)) => format!(" --txpkts={}", txpkts(len + 4)),
                _ => String::new(),
            },
            if self.append.is_empty() { "" } else { " " },
            self.append
        )
    }
}

/// A frame of `len` bytes in segments that buffers hold.
fn txpkts(len: usize) -> String {
    const SEGMENT: usize = 2048;
    let segments = (0..len).step_by(SEGMENT).map(|at| (len - at).min(SEGMENT).to_string());
    segments.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::sized;

    #[test]
    fn every_core_gets_a_stream_unless_something_else_is_said() {
        let line = |options: RunOptions| options.image_cores();
        let defaults = RunOptions::default;
        assert_eq!(line(defaults()), "--nb-cores=1 --rxq=1 --txq=1");
        assert_eq!(line(RunOptions { cpus: 2, ..defaults() }), "--nb-cores=2 --rxq=1 --txq=1");
        assert_eq!(line(RunOptions { cpus: 5, ..defaults() }), "--nb-cores=5 --rxq=3 --txq=3");
        let said = RunOptions { cpus: 4, nb_cores: Some(2), rxq: Some(2), ..defaults() };
        assert_eq!(line(said.clone()), "--nb-cores=2 --rxq=2 --txq=1");
        assert!(said.in_order() && !RunOptions { txq: Some(2), ..said }.in_order());
        let map = vec![[0, 0, 1], [1, 0, 0], [1, 1, 3]];
        let mapped = RunOptions { cpus: 4, map, ..defaults() };
        assert_eq!(line(mapped.clone()), "--config=(0,0,1),(1,0,0),(1,1,3)");
        assert!(!mapped.in_order());
    }

    #[test]
    fn no_more_is_under_way_than_the_transmit_ring_holds() {
        let options = |txd| RunOptions { txd, ..RunOptions::default() };
        let in_flight = |txd, len| options(txd).in_flight(&[Some(sized(0, len)), None]);
        assert_eq!((in_flight(1024, 60), in_flight(1024, 2048)), (256, 256));
        // Five buffers a frame: 992 descriptors hold 198.
        assert_eq!((in_flight(1024, 9728), in_flight(64, 9728), in_flight(64, 60)), (198, 6, 32));
    }
}
