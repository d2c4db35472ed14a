//! The account of a run, for people and for programs.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::time::Instant;

use serde::Serialize;

use super::report::{CoreCounts, ImageReport, PortCounts};
use super::{RunOptions, Unfit};
use crate::qemu::Accel;
use crate::traffic::{Forward, Traffic};

/// The account. Keys of the JSON object are never renamed.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// Accelerator.
    pub accel: &'static str,
    /// Forwarding mode.
    pub forward: &'static str,
    /// Instruction set of the image's loops.
    pub isa: String,
    /// Cores of the machine.
    pub cpus: u32,
    /// How long traffic was sent.
    pub seconds: f64,
    /// From the image's entry to ready.
    pub boot_ms: f64,
    /// From QEMU's start to the first frame back.
    pub first_frame_ms: Option<f64>,
    /// Bytes of the image's file.
    pub image_bytes: u64,
    /// Frames put on the wire toward the image.
    pub offered: u64,
    /// Frames back on the right port.
    pub returned: u64,
    /// Frames that the image dropped under a name.
    pub dropped: u64,
    /// Records that no card carries, never offered.
    pub unfit: u64,
    /// Offered or made, and neither back nor dropped.
    pub lost: i64,
    /// Frames back with a byte that they should not have.
    pub wrong: u64,
    /// Millions of frames back a second.
    pub mpps: f64,
    /// By port.
    pub ports: Vec<PortSummary>,
    /// Cores that forward.
    pub lcores: u32,
    /// By core that forwards.
    pub cores: Vec<CoreSummary>,
    /// Frames that the image made and that came out.
    pub generated: u64,
    /// Unfit records by reason.
    pub unfit_reasons: BTreeMap<&'static str, u64>,
    /// Frames of captures that the time did not suffice for.
    pub unsent: u64,
    /// What the image told that is nothing wrong: links that changed, troubles that were over, remarks on cards.
    pub events: Vec<String>,
    /// What else went wrong.
    pub problems: Vec<String>,
}

/// A port's account.
#[derive(Debug, Clone, Default, Serialize)]
pub struct PortSummary {
    /// Its name.
    pub name: String,
    /// `up` or `down`, as it was told last; empty where it never was.
    pub link: &'static str,
    /// Frames that it received.
    pub rx_frames: u64,
    /// Their bytes, without FCS.
    pub rx_bytes: u64,
    /// Frames that it sent.
    pub tx_frames: u64,
    /// Their bytes, without FCS.
    pub tx_bytes: u64,
    /// Frames that came in here and were dropped, by reason.
    pub drops: BTreeMap<String, u64>,
    /// Loop of its receive queue.
    pub rx_path: String,
    /// Loop of its transmit queue.
    pub tx_path: String,
    /// Extended statistics, where `--xstats` was among the image's options.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub xstats: BTreeMap<String, u64>,
}

/// What went through a core.
#[derive(Debug, Clone, Default, Serialize)]
pub struct CoreSummary {
    /// Its number; 0 is the one that booted.
    pub core: usize,
    /// Queue pairs that it polled.
    pub streams: u64,
    /// Frames that it received.
    pub rx_frames: u64,
    /// Their bytes, without FCS.
    pub rx_bytes: u64,
    /// Frames that it sent.
    pub tx_frames: u64,
    /// Their bytes, without FCS.
    pub tx_bytes: u64,
    /// Frames that it dropped, by reason.
    pub drops: BTreeMap<String, u64>,
}

/// What a summary is made of.
pub struct Parts<'a> {
    pub options: &'a RunOptions,
    pub accel: Accel,
    pub image_bytes: u64,
    pub unfit: Unfit,
    pub image: &'a ImageReport,
    pub traffic: &'a Traffic,
    pub started: Instant,
    pub seconds: f64,
    pub problems: Vec<String>,
}

impl Summary {
    /// The account of a run.
    pub fn new(parts: Parts<'_>) -> Self {
        let Parts { options, image, traffic, .. } = parts;
        let (totals, times) = (traffic.totals(), traffic.times());
        let takes = options.forward.takes() && !options.forward.makes();
        let active = match (times.started, times.last) {
            (Some(_), _) if takes => parts.seconds,
            (Some(start), Some(last)) => last.duration_since(start).as_secs_f64(),
            _ => 0.0,
        };
        // Where nothing comes back, what went in is the rate.
        let back = if takes { totals.offered } else { totals.returned + totals.generated };
        let mpps = if active > 0.0 { back as f64 / active / 1e6 } else { 0.0 };
        let dropped = image.dropped();
        let mut problems = parts.problems;
        let ports = ports(options, image, &traffic.per_port(), &mut problems);
        let no_links: Vec<&str> =
            ports.iter().filter(|port| port.link == "down").map(|port| port.name.as_str()).collect();
        if !takes && totals.returned + totals.generated == 0 && !no_links.is_empty() {
            problems.push(format!("no frame was forwarded; without link: {}", no_links.join(", ")));
        }
        let ms = |instant: Instant| instant.duration_since(parts.started).as_secs_f64() * 1e3;
        Self {
            accel: parts.accel.name(),
            forward: options.forward.name(),
            isa: image.isa.clone(),
            cpus: image.cores,
            lcores: image.lcores,
            cores: cores(options, image, &mut problems),
            seconds: round(parts.seconds),
            boot_ms: image.boot_ms,
            first_frame_ms: times.first.map(ms).map(round),
            image_bytes: parts.image_bytes,
            offered: totals.offered,
            returned: totals.returned,
            dropped,
            lost: lost([totals.offered, image.made()], [totals.returned, totals.generated, dropped]),
            wrong: totals.wrong,
            mpps: round(mpps),
            ports,
            generated: totals.generated,
            unsent: traffic.unsent(),
            events: image.events.clone(),
            problems,
            ..Self::of_nothing(options, parts.unfit)
        }
    }

    /// The account of a run that had nothing to offer.
    pub fn of_nothing(options: &RunOptions, unfit: Unfit) -> Self {
        let reasons =
            [("too-short", unfit.too_short), ("too-long", unfit.too_long), ("truncated", unfit.truncated)];
        Self {
            accel: "none",
            forward: options.forward.name(),
            isa: String::new(),
            cpus: u32::from(options.cpus),
            lcores: 0,
            cores: Vec::new(),
            seconds: 0.0,
            boot_ms: 0.0,
            first_frame_ms: None,
            image_bytes: 0,
            offered: 0,
            returned: 0,
            dropped: 0,
            unfit: unfit.total(),
            lost: 0,
            wrong: 0,
            mpps: 0.0,
            ports: Vec::new(),
            generated: 0,
            unfit_reasons: reasons.into_iter().filter(|(_, count)| *count > 0).collect(),
            unsent: 0,
            events: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// Nothing was lost, nothing was wrong.
    pub fn good(&self) -> bool {
        self.lost == 0 && self.wrong == 0 && self.problems.is_empty()
    }
}

/// Offered or made, and neither back nor dropped; whatever the image says of itself.
fn lost(came: [u64; 2], gone: [u64; 3]) -> i64 {
    let sum = |counts: &[u64]| counts.iter().map(|count| i128::from(*count)).sum::<i128>();
    (sum(&came) - sum(&gone)).clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// Each port's account, and what of it does not agree with what the wires saw.
fn ports(
    options: &RunOptions,
    image: &ImageReport,
    wires: &[(u64, u64)],
    problems: &mut Vec<String>,
) -> Vec<PortSummary> {
    let mut ports = Vec::new();
    for (index, _) in options.ports.iter().enumerate() {
        let lines = image.ports.get(&index).cloned().unwrap_or_default();
        let name = if lines.name.is_empty() { format!("i40e{index}") } else { lines.name };
        let stats = lines.stats.clone().unwrap_or_default();
        let link = match (lines.rx_path.is_empty(), lines.link_down) {
            (true, _) => "",
            (_, true) => "down",
            _ => "up",
        };
        let kept = ["rx-missed", "rx-bad"].iter().filter_map(|reason| stats.drops.get(*reason));
        let came_in = kept.fold(stats.rx_frames, |sum, count| sum.saturating_add(*count));
        if let (Some((to_card, from_card)), true) = (wires.get(index), lines.stats.is_some()) {
            if came_in != *to_card {
                problems
                    .push(format!("{name} received {came_in} frames, and {to_card} were put on its wire"));
            }
            if stats.tx_frames != *from_card {
                let tx = stats.tx_frames;
                problems.push(format!("{name} sent {tx} frames, and {from_card} came out of its wire"));
            }
        }
        ports.push(PortSummary {
            name,
            link,
            rx_frames: stats.rx_frames,
            rx_bytes: stats.rx_bytes,
            tx_frames: stats.tx_frames,
            tx_bytes: stats.tx_bytes,
            drops: stats.drops,
            rx_path: lines.rx_path,
            tx_path: lines.tx_path,
            xstats: lines.xstats,
        });
    }
    ports
}

/// Each core's account, and what of it does not agree with the ports'.
fn cores(options: &RunOptions, image: &ImageReport, problems: &mut Vec<String>) -> Vec<CoreSummary> {
    if image.ready && image.cores != u32::from(options.cpus) {
        problems.push(format!("{} of {} cores run", image.cores, options.cpus));
    }
    let sum = |of: fn(&PortCounts) -> u64| {
        let ports = image.ports.values().filter_map(|port| port.stats.as_ref());
        let cores = image.by_core.values().map(|core| &core.counts);
        let add = |sum: u64, count: &PortCounts| sum.saturating_add(of(count));
        (ports.fold(0, add), cores.fold(0, add))
    };
    // A frame that a card took and did not send, its link being down, was sent as far as a core knows.
    let not_sent = |counts: &PortCounts| counts.drops.get("tx-link-down").copied().unwrap_or(0);
    let (received, sent) = (sum(|counts| counts.rx_frames), sum(|counts| counts.tx_frames));
    let not_sent: u64 = image
        .ports
        .values()
        .filter_map(|port| port.stats.as_ref())
        .fold(0, |sum, counts| sum.saturating_add(not_sent(counts)));
    if image.ended_well && (received.0 != received.1 || sent.0.saturating_add(not_sent) != sent.1) {
        let (by_core, by_port) = ((received.1, sent.1), (received.0, sent.0));
        problems.push(format!("cores received and sent {by_core:?} frames, ports {by_port:?}"));
    }
    image
        .by_core
        .iter()
        .map(|(core, CoreCounts { streams, counts })| CoreSummary {
            core: *core,
            streams: *streams,
            rx_frames: counts.rx_frames,
            rx_bytes: counts.rx_bytes,
            tx_frames: counts.tx_frames,
            tx_bytes: counts.tx_bytes,
            drops: counts.drops.clone(),
        })
        .collect()
}

fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

impl Summary {
    fn figures(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cores = if self.lcores == 1 { "1 core".into() } else { format!("{} cores", self.lcores) };
        write!(
            f,
            "{} for {:.1} s with {} on {cores} under {}: {:.3} Mpps; ",
            self.forward, self.seconds, self.isa, self.accel, self.mpps
        )?;
        match self.first_frame_ms {
            Some(ms) => write!(f, "first frame back {ms:.0} ms after QEMU's start; ")?,
            None if Forward::from_name(self.forward).is_some_and(Forward::takes) => {}
            None => write!(f, "no frame came back; ")?,
        }
        writeln!(f, "booted in {:.0} ms", self.boot_ms)
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<8} {:>12} {:>14} {:>12} {:>14}  drops",
            "port", "rx frames", "rx bytes", "tx frames", "tx bytes"
        )?;
        for port in &self.ports {
            let drops = port.drops.iter().fold(String::new(), |mut text, (reason, count)| {
                let _ = write!(text, "{reason} {count} ");
                text
            });
            writeln!(
                f,
                "{:<8} {:>12} {:>14} {:>12} {:>14}  {}",
                port.name,
                port.rx_frames,
                port.rx_bytes,
                port.tx_frames,
                port.tx_bytes,
                if drops.is_empty() { "none" } else { drops.trim_end() }
            )?;
        }
        if self.cores.len() > 1 {
            writeln!(f)?;
            for core in &self.cores {
                writeln!(
                    f,
                    "core {:<3} {:>12} {:>14} {:>12} {:>14}",
                    core.core, core.rx_frames, core.rx_bytes, core.tx_frames, core.tx_bytes
                )?;
            }
        }
        for port in &self.ports {
            for (index, (name, count)) in port.xstats.iter().enumerate() {
                let before = if index == 0 { "\n" } else { "" };
                writeln!(f, "{before}{:<8} {name} {count}", port.name)?;
            }
        }
        writeln!(f)?;
        writeln!(
            f,
            "offered {}, returned {}, dropped {}, lost {}, wrong {}",
            self.offered, self.returned, self.dropped, self.lost, self.wrong
        )?;
        if self.generated > 0 {
            writeln!(f, "generated {}", self.generated)?;
        }
        if self.unfit > 0 {
            let reasons: Vec<String> =
                self.unfit_reasons.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
            writeln!(f, "unfit {} (records that no card carries: {})", self.unfit, reasons.join(", "))?;
        }
        if self.unsent > 0 {
            writeln!(f, "unsent {}: the time did not suffice for the whole capture", self.unsent)?;
        }
        if self.isa.is_empty() {
            writeln!(f, "{}: nothing was run", self.forward)?;
        } else {
            self.figures(f)?;
        }
        for port in self.ports.iter().filter(|port| port.link == "down") {
            writeln!(f, "{}: the link is down", port.name)?;
        }
        for event in &self.events {
            writeln!(f, "told: {event}")?;
        }
        for problem in &self.problems {
            writeln!(f, "problem: {problem}")?;
        }
        write!(f, "{}", if self.good() { "every frame is accounted for" } else { "FAILED" })
    }
}
