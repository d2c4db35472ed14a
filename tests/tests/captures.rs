//! Real captures through the image in QEMU, in and out, compared byte for byte by a reader of the tests' own.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use barewire::qemu::Accel;
use barewire::run::{PortOptions, RunOptions};
use barewire::traffic::Forward;
use libtest_mimic::Failed;
use rig::machine::{Ground, case, ensure, run};
use rig::{captures, frames};

fn main() -> ExitCode {
    let mut cases = vec![
        case("made_capture_io", |ground| made(ground, Forward::Io, 32)),
        case("made_capture_recycle_mbufs", |ground| made(ground, Forward::RecycleMbufs, 32)),
        case("made_capture_macswap_16_byte_descriptors", |ground| made(ground, Forward::MacSwap, 16)),
        case("nothing_to_offer_is_no_failure", nothing_to_offer),
        case("rxonly_accounts_for_every_frame", rxonly),
        case("mac_writes_the_ports_addresses", mac),
        case("txonly_makes_testpmds_frames", txonly),
        case("one_port_sends_to_itself", one_port),
    ];
    for path in captures::shared() {
        let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        for (mode, forward) in
            [("io", Forward::Io), ("macswap", Forward::MacSwap), ("5tswap", Forward::FiveTupleSwap)]
        {
            let path = path.clone();
            cases.push(case(format!("{name}_{mode}"), move |ground| through(ground, &path, forward, 32)));
        }
    }
    run(cases)
}

fn options(ground: &Ground, forward: Forward) -> RunOptions {
    RunOptions {
        forward,
        accel: Some(Accel::Tcg),
        image: Some(ground.image.clone()),
        // A bound: a capture is over as soon as its last frame is back.
        duration: Some(Duration::from_secs(60)),
        ..RunOptions::default()
    }
}

/// What comes out of each port is, to the byte and in order, what went into the other.
fn through(ground: &Ground, path: &Path, forward: Forward, rx_desc: u8) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let outs: Vec<PathBuf> = (0..2).map(|port| folder.path().join(format!("{port}.pcap"))).collect();
    let port = |out: &PathBuf| PortOptions { out: Some(out.clone()), ..PortOptions::default() };
    let options = RunOptions {
        pcap: Some(path.to_owned()),
        ports: outs.iter().map(port).collect(),
        rx_desc,
        ..options(ground, forward)
    };
    let summary = barewire::run::run(&options)?;
    let records = captures::records(path);
    let carried = captures::carried(&records);
    let want: Vec<Vec<u8>> = match forward {
        Forward::MacSwap => carried.iter().map(|frame| frames::swapped(frame)).collect(),
        Forward::FiveTupleSwap => carried.iter().map(|frame| frames::five_tuple_swapped(frame)).collect(),
        _ => carried.clone(),
    };
    ensure(summary.good(), || summary.to_string())?;
    let (each, both) = (carried.len() as u64, 2 * carried.len() as u64);
    let unfit = 2 * (records.len() as u64 - each);
    let books = (summary.offered, summary.returned, summary.dropped, summary.unfit);
    ensure(books == (both, both, 0, unfit), || format!("{books:?}, {both} frames, {unfit} unfit"))?;
    for out in outs.iter().filter(|_| each > 0) {
        let got: Vec<Vec<u8>> = captures::records(out).into_iter().map(|(data, _)| data).collect();
        ensure(got == want, || format!("{} differs from what went in", out.display()))?;
    }
    let bytes: u64 = carried.iter().map(|frame| frame.len() as u64).sum();
    for port in &summary.ports {
        let counts = (port.rx_frames, port.rx_bytes, port.tx_frames, port.tx_bytes);
        ensure(counts == (each, bytes, each, bytes), || format!("{port:?}"))?;
    }
    Ok(())
}

/// Lengths at every edge: what is padded, what fits one buffer, what needs several, what no card carries.
fn made(ground: &Ground, forward: Forward, rx_desc: u8) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("in.pcap");
    let lengths = [
        0, 13, 16, 17, 42, 59, 60, 61, 64, 1514, 1518, 2047, 2048, 2049, 4096, 6145, 8192, 9727, 9728, 9729,
        65_000,
    ];
    let records: Vec<captures::Record> = (0..40)
        .flat_map(|lap| lengths.map(|len| (frames::numbered(lap, len), len as u32)))
        .chain([(frames::numbered(99, 60), 61)])
        .collect();
    captures::write(&path, &records);
    through(ground, &path, forward, rx_desc)
}

fn nothing_to_offer(ground: &Ground) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("in.pcap");
    captures::write(&path, &[(vec![1; 16], 16), (vec![1; 9729], 9729)]);
    let summary = barewire::run::run(&RunOptions { pcap: Some(path), ..options(ground, Forward::Io) })?;
    ensure(summary.good() && summary.offered == 0 && summary.unfit == 4, || summary.to_string())
}

fn made_frames(folder: &Path) -> Result<(PathBuf, u64), Failed> {
    let path = folder.join("in.pcap");
    let records: Vec<captures::Record> = (0..1000)
        .map(|n| frames::numbered(n, 60 + n as usize % 3000))
        .map(|frame| (frame.clone(), frame.len() as u32))
        .collect();
    captures::write(&path, &records);
    Ok((path, records.len() as u64))
}

fn rxonly(ground: &Ground) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let (path, count) = made_frames(folder.path())?;
    let summary = barewire::run::run(&RunOptions { pcap: Some(path), ..options(ground, Forward::RxOnly) })?;
    let books = (summary.offered, summary.returned, summary.dropped, summary.lost);
    ensure(summary.good() && books == (2 * count, 0, 2 * count, 0), || summary.to_string())?;
    let named =
        summary.ports.iter().all(|port| port.drops.len() == 1 && port.drops.get("rxonly") == Some(&count));
    ensure(named, || summary.to_string())
}

/// Source: the sending port's own; destination: testpmd's address of its peer, 02:00:00:00:00:PORT.
fn mac(ground: &Ground) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let (path, count) = made_frames(folder.path())?;
    let out = folder.path().join("out.pcap");
    let ports = vec![
        PortOptions { pcap: Some(path.clone()), ..PortOptions::default() },
        PortOptions { out: Some(out.clone()), ..PortOptions::default() },
    ];
    let summary = barewire::run::run(&RunOptions { ports, ..options(ground, Forward::Mac) })?;
    ensure(summary.good() && summary.returned == count, || summary.to_string())?;
    let want: Vec<Vec<u8>> = captures::carried(&captures::records(&path))
        .iter()
        .map(|frame| [&[2, 0, 0, 0, 0, 1, 0x68, 0x05, 0xca, 0, 0, 1], &frame[12..]].concat())
        .collect();
    let got: Vec<Vec<u8>> = captures::records(&out).into_iter().map(|(data, _)| data).collect();
    ensure(got == want, || "frames differ".into())
}

fn txonly(ground: &Ground) -> Result<(), Failed> {
    let options = RunOptions {
        duration: Some(Duration::from_millis(300)),
        frame_size: Some(1001),
        ..options(ground, Forward::TxOnly)
    };
    let summary = barewire::run::run(&options)?;
    ensure(summary.good() && summary.offered == 0 && summary.generated > 0, || summary.to_string())?;
    let sent: u64 = summary.ports.iter().map(|port| port.tx_frames).sum();
    ensure(sent == summary.generated, || summary.to_string())
}

fn one_port(ground: &Ground) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let (path, count) = made_frames(folder.path())?;
    let ports = vec![PortOptions { device: 0x1583, ..PortOptions::default() }];
    let options = RunOptions {
        ports,
        pcap: Some(path),
        rxd: 64,
        txd: 96,
        burst: 512,
        ..options(ground, Forward::MacSwap)
    };
    let summary = barewire::run::run(&options)?;
    ensure(summary.good() && summary.returned == count, || summary.to_string())
}
