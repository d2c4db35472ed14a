//! Options and their ranges.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use super::bench::BenchArgs;
use super::image_line;
use super::ports::{Port, parse_port, parse_served_port};
use super::rfc2544::Rfc2544Args;
use crate::Failure;
use crate::qemu::Accel;
use crate::run::RunOptions;
use crate::serve::ServedPort;
use crate::traffic::Forward;

/// barewire: a bare-metal dataplane in a virtual machine.
///
/// Without a command: builds the image, boots it in QEMU with two software XL710 ports, sends traffic in at each port,
/// checks that every frame is accounted for and right, and prints a summary.
#[derive(Debug, Parser)]
#[command(name = "barewire", version, args_conflicts_with_subcommands = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub run: RunArgs,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// The main job, also without a command: boot, traffic, account
    Run(Box<RunArgs>),
    /// The software XL710 alone, for any VMM that speaks vfio-user
    #[command(after_long_help = crate::faults::HELP)]
    Model(ModelArgs),
    /// What the loops cost a frame: times and instructions, beside testpmd where it is installed
    Bench(BenchArgs),
    /// The QEMU that the runner uses, with its paths set
    Qemu(QemuArgs),
}

#[derive(Debug, Args)]
pub struct RunArgs {
    /// A port, several times for several: i40e[,pcap=IN][,out=OUT][,device=1572|1583][,socket=PATH][,faults=FILE|,seed=N].
    /// Without any: two i40e ports. faults and seed: what the card does wrong, see barewire model --help.
    /// Or i40e,pci=ADDRESS: a card of this machine, until Ctrl-C or --seconds; see docs/real-card.md
    #[arg(long = "port", value_name = "PORT", value_parser = parse_port)]
    port: Vec<Port>,
    /// Capture (pcap or pcapng) for every port that has none of its own; without any, an Internet mix
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Send captures again from the start until the time is up
    #[arg(long = "loop")]
    repeat: bool,
    /// Bytes of each frame without FCS, 60 to 9728 (with flowgen to 2044), instead of the Internet mix
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(60..=9728))]
    frame_size: Option<u16>,
    /// Forwarding mode: io, mac, macswap, 5tswap, rxonly, txonly, flowgen, csum, icmpecho, noisy, recycle_mbufs, shared_rxq or ieee1588.
    /// Options of a mode go to the image by --append, see docs/modes.md. With --image also a mode that only this image has:
    /// then frames are counted and not compared
    #[arg(long, value_name = "MODE", default_value = "macswap", value_parser = parse_forward)]
    forward: Forward,
    /// Cores of the machine, 1 to 64
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    cpus: u16,
    /// Cores that forward, 1 to 64; without it all of them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    nb_cores: Option<u16>,
    /// Receive queues of a port, 1 to 64; without it as many as give each forwarding core one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    rxq: Option<u16>,
    /// Transmit queues of a port, likewise; as many pairs are used as there are of both
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    txq: Option<u16>,
    /// Which core polls which queue, instead of the three above: (PORT,QUEUE,CORE),...
    #[arg(long, value_name = "MAP", value_parser = parse_map, conflicts_with_all = ["nb_cores", "rxq", "txq"])]
    config: Option<Map>,
    /// Most frames of a poll, 1 to 512
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=512))]
    burst: u16,
    /// Descriptors of a receive ring, a multiple of 32 from 64 to 8160
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = parse_ring)]
    rxd: u16,
    /// Descriptors of a transmit ring, a multiple of 32 from 64 to 8160
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = parse_ring)]
    txd: u16,
    /// Bytes of a receive descriptor: 16 or 32
    #[arg(long, value_name = "N", default_value = "32", value_parser = ["16", "32"])]
    rx_desc: String,
    /// Instruction set of the image's loops: auto, scalar, ssse3, avx2 or avx512
    #[arg(long, value_name = "ISA", default_value = "auto", value_parser = ["auto", "scalar", "ssse3", "avx2", "avx512"])]
    isa: String,
    /// Accelerator: auto, kvm or tcg; auto takes KVM where it can run the image
    #[arg(long, value_name = "ACCEL", default_value = "auto", value_parser = ["auto", "kvm", "tcg"])]
    accel: String,
    /// How long traffic is sent, in seconds, 0.1 to 86400: without it 5, and captures that are sent once to their end
    #[arg(long, value_name = "S", value_parser = parse_seconds)]
    seconds: Option<f64>,
    /// Frames of a direction that may be under way, 1 to 4096; fewer where the transmit ring holds fewer
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=4096))]
    in_flight: u16,
    /// More options for the image, as its command line has them
    #[arg(
        long,
        value_name = "OPTIONS",
        default_value = "",
        allow_hyphen_values = true,
        hide_default_value = true
    )]
    append: String,
    /// An image that is there already
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
    /// Print the summary as one JSON object, and nothing else on standard output
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub rfc2544: Rfc2544Args,
}

#[derive(Debug, Args)]
pub struct ModelArgs {
    /// A port, several times for several: socket=PATH[,wire=echo|sink|peer|pcap:IN:OUT|tap:NAME][,faults=FILE|,seed=N]
    #[arg(long = "port", value_name = "PORT", required = true, value_parser = parse_served_port)]
    pub port: Vec<ServedPort>,
    /// PCI device id of the cards: 1572 (X710, 10G) or 1583 (XL710, 40G)
    #[arg(long, value_name = "ID", default_value = "1572", value_parser = super::ports::parse_device)]
    pub device: u16,
    /// Write down what drivers do to the cards, and which frames did not reach them: register accesses, admin commands,
    /// events, resets
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct QemuArgs {
    /// Arguments for QEMU
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub args: Vec<OsString>,
}

fn parse_forward(text: &str) -> Result<Forward, String> {
    const LONGEST: usize = 32;
    let fits = (1..=LONGEST).contains(&text.len()) && text.bytes().all(|c| c.is_ascii_graphic());
    match Forward::from_name(text) {
        Some(forward) => Ok(forward),
        // It lives as long as the program, of which it is one argument.
        None if fits => Ok(Forward::Other(text.to_owned().leak())),
        None => Err(kernel::forward::Mode::NAMES.into()),
    }
}

fn parse_ring(text: &str) -> Result<u16, String> {
    let size = text.parse().ok().filter(|size| (64..=8160).contains(size) && size % 32 == 0);
    size.ok_or_else(|| "a multiple of 32 from 64 to 8160".into())
}

/// Entries of `--config`: port, queue, core.
#[derive(Debug, Clone)]
struct Map(Vec<[u16; 3]>);

/// `(PORT,QUEUE,CORE),...`, as l3fwd has it.
fn parse_map(text: &str) -> Result<Map, String> {
    let entry = |text: &str| -> Option<[u16; 3]> {
        let numbers: Option<Vec<u16>> = text.split(',').map(|number| number.parse().ok()).collect();
        numbers?.try_into().ok()
    };
    let inner = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
    let entries: Option<Vec<[u16; 3]>> = inner.and_then(|inner| inner.split("),(").map(entry).collect());
    entries.map(Map).ok_or_else(|| "(PORT,QUEUE,CORE),... in numbers".into())
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.1..=86_400.0).contains(seconds));
    seconds.ok_or_else(|| "a number from 0.1 to 86400".into())
}

impl RunArgs {
    /// What is asked for, as far as it can be done.
    ///
    /// # Errors
    /// Something that this version can't do yet.
    pub fn options(&self) -> Result<RunOptions, Failure> {
        let (mut ports, mut real) = (Vec::new(), Vec::new());
        for port in &self.port {
            match port {
                Port::I40e(options) => ports.push(options.clone()),
                Port::Real(at) => real.push(*at),
                Port::NotYet(what) => {
                    return Err(Failure::usage(format!("--port {what}: not in this version")));
                }
            }
        }
        if !real.is_empty() && (!ports.is_empty() || self.pcap.is_some() || self.frame_size.is_some()) {
            return Err(Failure::usage(
                "pci= cards forward what their own wires bring: no software port, --pcap or --frame-size with them",
            ));
        }
        let defaults = RunOptions::default();
        let options = RunOptions {
            ports: if ports.is_empty() { defaults.ports } else { ports },
            real,
            pcap: self.pcap.clone(),
            repeat: self.repeat,
            frame_size: self.frame_size.map(usize::from),
            forward: self.forward,
            burst: self.burst,
            rxd: self.rxd,
            txd: self.txd,
            rx_desc: if self.rx_desc == "16" { 16 } else { 32 },
            cpus: self.cpus,
            nb_cores: self.nb_cores,
            rxq: self.rxq,
            txq: self.txq,
            map: self.config.clone().map_or_else(Vec::new, |map| map.0),
            isa: self.isa.clone(),
            accel: match self.accel.as_str() {
                "kvm" => Some(Accel::Kvm),
                "tcg" => Some(Accel::Tcg),
                _ => None,
            },
            duration: self.seconds.map(Duration::from_secs_f64),
            in_flight: usize::from(self.in_flight),
            append: self.append.clone(),
            image: self.image.clone(),
        };
        check_together(&options)?;
        check_files(&options)?;
        image_line::check(&options)?;
        Ok(options)
    }
}

/// A file that is written and read, or written twice.
fn check_files(options: &RunOptions) -> Result<(), Failure> {
    // Two names of one file are the same file; one that does not exist yet is known by its folder and its name.
    let place = |path: &Path| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        (std::fs::canonicalize(folder).ok(), path.file_name().map(ToOwned::to_owned))
    };
    let same = |a: &Path, b: &Path| match (std::fs::metadata(a), std::fs::metadata(b)) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => a == b || place(a) == place(b),
    };
    let outs: Vec<&Path> = options.ports.iter().filter_map(|port| port.out.as_deref()).collect();
    let own = options.ports.iter().filter_map(|port| port.pcap.as_deref());
    let ins: Vec<&Path> = own.chain(options.pcap.as_deref()).collect();
    for (index, out) in outs.iter().enumerate() {
        if ins.iter().any(|input| same(input, out)) {
            return Err(Failure::usage(format!("out={}: it is read, too", out.display())));
        }
        if outs.iter().take(index).any(|other| same(other, out)) {
            return Err(Failure::usage(format!("out={}: given to two ports", out.display())));
        }
    }
    Ok(())
}

/// Options that can't go together, or with this many ports.
fn check_together(options: &RunOptions) -> Result<(), Failure> {
    const MAX_PORTS: usize = 16;
    let refuse = |what: String| Err(Failure::usage(what));
    let (generates, capture) = (options.forward == Forward::TxOnly, options.has_capture());
    let cpus = options.cpus;
    if options.forward.is_other() && options.image.is_none() {
        let (name, names) = (options.forward.name(), kernel::forward::Mode::NAMES);
        return refuse(format!("--forward {name}: {names}, or a mode of an image of your own, with --image"));
    }
    if let Some(cores) = options.nb_cores.filter(|cores| *cores > cpus) {
        return refuse(format!("--nb-cores {cores}: the machine has --cpus {cpus}"));
    }
    if let Some([port, queue, core]) = options.map.iter().find(|[_, _, core]| *core >= cpus) {
        return refuse(format!("--config ({port},{queue},{core}): the machine has --cpus {cpus}"));
    }
    match options.frame_size {
        _ if options.ports.len() > MAX_PORTS => {
            refuse(format!("{} ports: an image has at most {MAX_PORTS}", options.ports.len()))
        }
        _ if generates && capture => refuse("--forward txonly sends frames of its own and no capture".into()),
        _ if options.repeat && !capture => refuse("--loop is for captures, and there is none".into()),
        Some(_) if capture => refuse("--frame-size is for made frames, and there is a capture".into()),
        Some(len) if options.forward == Forward::FlowGen && len > 2044 => {
            refuse(format!("--frame-size {len}: with --forward flowgen at most 2044"))
        }
        _ => Ok(()),
    }
}
