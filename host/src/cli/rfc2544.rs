//! Options of `--rfc2544`.

use std::ops::RangeInclusive;
use std::time::Duration;

use clap::Args;

use crate::Failure;
use crate::rfc2544::{Plan, SIZES};
use crate::run::RunOptions;
use crate::traffic::{Forward, IN_FLIGHT};

#[derive(Debug, Args)]
#[command(next_help_heading = "RFC 2544")]
pub struct Rfc2544Args {
    /// Search the rate without loss (NDR) and with a given one (PDR) for each frame size, with the latency at it, see
    /// docs/rfc2544.md; --seconds is that of a trial, 2 without it
    #[arg(long)]
    rfc2544: bool,
    /// Loss that is allowed at the PDR, in per cent, 0 to 50
    #[arg(long, value_name = "PERCENT", default_value_t = 0.5, value_parser = parse_pdr, requires = "rfc2544")]
    pdr: f64,
    /// Frame sizes in bytes with FCS, 64 to 9732, with commas: without it those of the RFC, 64 to 1518
    #[arg(long, value_name = "N,...", value_delimiter = ',', requires = "rfc2544",
        value_parser = clap::value_parser!(u16).range(64..=9732))]
    frame_sizes: Vec<u16>,
    /// How near a search comes to a rate, in per cent of it, 0.1 to 50
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = parse_resolution, requires = "rfc2544")]
    resolution: f64,
    /// Ports that frames go between, of those that the image joins: 0,1 or 2,3 and so on
    #[arg(long, value_name = "A,B", value_parser = parse_pair, requires = "rfc2544")]
    pair: Option<Pair>,
    /// From the first port of the pair to the second one only
    #[arg(long, requires = "rfc2544")]
    one_way: bool,
    /// The highest rate that is tried, in frames a second and way, from 10 frames a trial on: without it that of the wire
    #[arg(long, value_name = "FPS", value_parser = clap::value_parser!(u32).range(1..), requires = "rfc2544")]
    max_rate: Option<u32>,
    /// Trials at the NDR, or at the PDR where there is no NDR, 1 to 100
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100),
        requires = "rfc2544")]
    repeats: u32,
}

/// Milliseconds after which `noisy` lets go of what it keeps: less than the silence that ends a trial.
const FLUSH: RangeInclusive<u16> = 1..=250;

/// Two ports.
#[derive(Debug, Clone, Copy)]
struct Pair(usize, usize);

fn parse_percent(text: &str, low: f64, high: f64) -> Result<f64, String> {
    let percent = text.parse().ok().filter(|percent| (low..=high).contains(percent));
    percent.ok_or_else(|| format!("a number from {low} to {high}"))
}

fn parse_pdr(text: &str) -> Result<f64, String> {
    parse_percent(text, 0.0, 50.0)
}

fn parse_resolution(text: &str) -> Result<f64, String> {
    parse_percent(text, 0.1, 50.0)
}

fn parse_pair(text: &str) -> Result<Pair, String> {
    let pair = text.split_once(',').and_then(|(a, b)| Some(Pair(a.parse().ok()?, b.parse().ok()?)));
    pair.ok_or_else(|| "two ports, such as 0,1".into())
}

impl Rfc2544Args {
    /// What is to be measured, if anything is.
    ///
    /// # Errors
    /// Options of the run that don't go with it.
    pub fn plan(&self, options: &RunOptions) -> Result<Option<Plan>, Failure> {
        if !self.rfc2544 {
            return Ok(None);
        }
        let refuse = |what: &str| Err(Failure::usage(format!("--rfc2544: {what}")));
        if !options.real.is_empty() {
            return refuse(
                "pci= cards have wires of their own, and the source is on those of software ports",
            );
        }
        if options.has_capture() || options.frame_size.is_some() {
            return refuse("the frames are its own, of --frame-sizes: no --pcap, pcap= or --frame-size");
        }
        if options.ports.iter().any(|port| port.out.is_some()) {
            return refuse("what comes back is not kept: no out=");
        }
        if !options.forward.returns() || matches!(options.forward, Forward::IcmpEcho | Forward::Ieee1588) {
            return refuse("frames have to come back, as they were sent, which they don't in this mode");
        }
        if options.in_flight != IN_FLIGHT {
            return refuse("the rate decides how many frames are under way: no --in-flight");
        }
        let config = options.image_config();
        if config.tx_first > 0 {
            return refuse("frames that the image makes belong to no trial: no --tx-first");
        }
        let noisy = &config.modes.noisy;
        if options.forward == Forward::Noisy && noisy.fifo > 0 && !FLUSH.contains(&noisy.flush_ms) {
            return refuse(
                "frames that the image keeps have to come back in their trial: --noisy-tx-sw-buffer-flushtime from 1 to 250",
            );
        }
        let (defaults, ports) = (Plan::default(), options.ports.len());
        let plan = Plan {
            pdr: self.pdr / 100.0,
            sizes: match self.frame_sizes.is_empty() {
                true => SIZES.to_vec(),
                false => self.frame_sizes.iter().copied().map(usize::from).collect(),
            },
            resolution: self.resolution / 100.0,
            pair: self.pair.map_or((0, ports.min(2) - 1), |Pair(a, b)| (a, b)),
            one_way: self.one_way,
            highest: self.max_rate.map(f64::from),
            repeats: self.repeats,
            trial: options.duration.unwrap_or(defaults.trial),
        };
        if plan.trial > Duration::from_secs(3600) {
            return refuse("--seconds is that of one trial, at most 3600");
        }
        plan.check(ports)?;
        Ok(Some(plan))
    }
}
