//! Forwarding modes in QEMU, beside `io`, `mac`, `macswap` and `5tswap`: each frame that came back, was made or was
//! dropped is what testpmd's mode of that name would make of it, by a reading of the host's own.

use std::path::PathBuf;
use std::time::Duration;

use barewire::faults::FaultSource;
use barewire::qemu::{Accel, Machine};
use barewire::run::{PortOptions, RunOptions, Summary};
use barewire::traffic::Forward;
use libtest_mimic::Failed;
use rig::captures;
use rig::image_rig::{End, ImageRig};
use rig::machine::{Ground, case, ensure, run};

fn main() -> std::process::ExitCode {
    let mut cases = vec![
        case("flowgen_makes_and_drops", flowgen),
        case("shared_rxq_counts_and_drops", shared_rxq),
        case("icmpecho_answers", icmpecho),
        case("icmpecho_drops_what_is_no_request", icmpecho_drops),
        case("csum_changes_nothing_that_is_right", |ground| returns(ground, Forward::Csum, "")),
        case("csum_by_the_card", |ground| {
            returns(ground, Forward::Csum, "--csum-set=ip,hw --csum-set=udp,hw --csum-set=tcp,hw")
        }),
        case("csum_in_segments", |ground| {
            returns(ground, Forward::Csum, "--txpkts=64,100,1500 --txsplit=rand --csum-mac-swap=off")
        }),
        case("noisy_as_io", |ground| returns(ground, Forward::Noisy, "")),
        case("noisy_with_a_queue_and_memory", noisy_queue),
        case("txonly_in_segments", |ground| makes(ground, Forward::TxOnly, "--txpkts=20,470")),
        case("txonly_in_any_segments_and_flows", |ground| {
            makes(
                ground,
                Forward::TxOnly,
                "--txpkts=64,1,2000,100 --txsplit=rand --txonly-multi-flow --retry",
            )
        }),
        case("io_begins_with_a_burst", tx_first),
        case("ieee1588_sends_sync_messages_back", |ground| returns(ground, Forward::Ieee1588, "")),
        case("ieee1588_tells_times", times),
        case("a_run_without_link_fails_and_names_the_port", link_down),
    ];
    for path in captures::shared() {
        let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        for (what, forward, options) in [
            ("csum_in_tunnels", Forward::Csum, "--csum-parse-tunnel=on"),
            ("icmpecho", Forward::IcmpEcho, ""),
        ] {
            // Hardly one of the captures asks for an echo.
            if forward == Forward::IcmpEcho && !rig::machine::full() {
                continue;
            }
            let path = path.clone();
            cases.push(case(format!("{name}_{what}"), move |ground| {
                capture(ground, path.clone(), forward, options)
            }));
        }
    }
    run(cases)
}

/// What is sent to a port whose link is down is dropped under that name, and nothing is forwarded.
fn link_down(ground: &Ground) -> Result<(), Failed> {
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), "link down")?;
    let faulty =
        PortOptions { faults: Some(FaultSource::File(file.path().into())), ..PortOptions::default() };
    let ports = vec![PortOptions::default(), faulty];
    let summary = barewire::run::run(&RunOptions { ports, ..options(ground, Forward::MacSwap, "") })?;
    ensure(summary.problems == ["no frame was forwarded; without link: i40e1"], || summary.to_string())?;
    let links: Vec<&str> = summary.ports.iter().map(|port| port.link).collect();
    ensure(links == ["up", "down"] && !summary.good(), || summary.to_string())?;
    ensure(summary.lost == 0 && summary.to_string().contains("i40e1: the link is down"), || {
        summary.to_string()
    })
}

fn options(ground: &Ground, forward: Forward, append: &str) -> RunOptions {
    RunOptions {
        forward,
        append: append.into(),
        accel: Some(Accel::Tcg),
        image: Some(ground.image.clone()),
        duration: Some(Duration::from_millis(300)),
        ..RunOptions::default()
    }
}

fn checked(options: &RunOptions) -> Result<Summary, Failed> {
    let summary = barewire::run::run(options)?;
    ensure(summary.good(), || summary.to_string())?;
    Ok(summary)
}

/// Every frame comes back as the mode makes it.
fn returns(ground: &Ground, forward: Forward, append: &str) -> Result<(), Failed> {
    let summary = checked(&options(ground, forward, append))?;
    let all = summary.returned > 0 && summary.returned == summary.offered && summary.dropped == 0;
    ensure(all, || summary.to_string())
}

/// Frames are made, and nothing else happens.
fn makes(ground: &Ground, forward: Forward, append: &str) -> Result<(), Failed> {
    let summary = checked(&options(ground, forward, append))?;
    ensure(summary.generated > 0 && summary.offered == 0, || summary.to_string())
}

fn named(summary: &Summary, reason: &str) -> u64 {
    summary.ports.iter().filter_map(|port| port.drops.get(reason)).sum()
}

fn flowgen(ground: &Ground) -> Result<(), Failed> {
    let append = "--flowgen-flows=5 --flowgen-clones=3";
    let summary =
        checked(&RunOptions { frame_size: Some(200), ..options(ground, Forward::FlowGen, append) })?;
    let good = summary.generated > 0 && summary.offered > 0 && named(&summary, "flowgen") == summary.offered;
    ensure(good, || summary.to_string())
}

fn shared_rxq(ground: &Ground) -> Result<(), Failed> {
    let summary = checked(&options(ground, Forward::SharedRxq, ""))?;
    ensure(summary.offered > 0 && named(&summary, "shared_rxq") == summary.offered, || summary.to_string())
}

fn icmpecho(ground: &Ground) -> Result<(), Failed> {
    returns(ground, Forward::IcmpEcho, "")
}

fn icmpecho_drops(ground: &Ground) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("in.pcap");
    let records: Vec<captures::Record> = (0..500).map(|n| (rig::frames::numbered(n, 60), 60)).collect();
    captures::write(&path, &records);
    let summary = checked(&RunOptions {
        pcap: Some(path),
        duration: Some(Duration::from_secs(60)),
        ..options(ground, Forward::IcmpEcho, "")
    })?;
    ensure(summary.offered == 1000 && named(&summary, "no-echo") == 1000, || summary.to_string())
}

/// Frames wait, and all of them come back, the last ones when the image is told to end.
fn noisy_queue(ground: &Ground) -> Result<(), Failed> {
    let append = "--noisy-forward-mode=macswap --noisy-tx-sw-buffer-size=700 --noisy-lkup-memory=2 \
                  --noisy-lkup-num-writes=2 --noisy-lkup-num-reads=3 --noisy-lkup-num-reads-writes=1";
    returns(ground, Forward::Noisy, append)?;
    returns(ground, Forward::Noisy, &format!("{append} --noisy-tx-sw-buffer-flushtime=20"))
}

/// `--tx-first`: bursts that nobody sent come out first, as testpmd makes them.
fn tx_first(ground: &Ground) -> Result<(), Failed> {
    let summary = checked(&options(ground, Forward::Io, "--tx-first=3"))?;
    ensure(summary.generated == 2 * 3 * 32 && summary.returned == summary.offered, || summary.to_string())
}

/// Each Sync message gets two times, which go up; anything else is dropped.
fn times(ground: &Ground) -> Result<(), Failed> {
    let ends = vec![End::default()];
    let machine =
        Machine::new(Accel::Tcg, ground.image.clone(), "--forward-mode=ieee1588".into(), Vec::new());
    let mut rig = ImageRig::start(ground, machine, ends.clone())?;
    let sync = |number: u8| {
        let start = [1, 0x1b, 0x19, 0, 0, 0, 2, 0, 0, 0, 0, 9, 0x88, 0xf7, 0, 2, 0, 44];
        [&start[..], &[0; 26], &[0, number], &[0; 14]].concat()
    };
    // A card keeps four times of received frames. They are taken from the back.
    let mut frames: Vec<Vec<u8>> = (0..4).map(sync).collect();
    frames.push(rig::frames::numbered(1, 60));
    frames.reverse();
    rig.offer(&ends, vec![frames])?;
    let back = ends[0].back(4);
    rig.guest.wait_for("Received non PTP packet")?;
    let said = rig.quit()?;
    let swapped = |frame: Vec<u8>| [&frame[6..12], &frame[..6], &frame[12..]].concat();
    ensure(back == (0..4).map(|number| swapped(sync(number))).collect::<Vec<_>>(), || {
        "frames differ".into()
    })?;
    let stamps = |way: &str| {
        let told = said.lines().filter(|line| line.starts_with(&format!("Port 0 {way} ")));
        told.filter_map(stamp).collect::<Vec<u64>>()
    };
    let (came, left) = (stamps("RX"), stamps("TX"));
    let in_order =
        came.is_sorted() && left.is_sorted() && came.iter().zip(&left).all(|(came, left)| came < left);
    ensure(came.len() == 4 && left.len() == 4 && in_order, || said.clone())?;
    ensure(said.contains("drop.no-ptp=1"), || said.clone())
}

/// Nanoseconds of a line such as `Port 0 RX timestamp value 1 s 5 ns`.
fn stamp(line: &str) -> Option<u64> {
    let (seconds, rest) = line.split_once(" timestamp value ")?.1.split_once(" s ")?;
    let nanos = rest.split_once(" ns")?.0;
    Some(seconds.parse::<u64>().ok()? * 1_000_000_000 + nanos.parse::<u64>().ok()?)
}

/// A capture through the mode; each frame is compared as it comes back.
fn capture(ground: &Ground, path: PathBuf, forward: Forward, append: &str) -> Result<(), Failed> {
    let summary = checked(&RunOptions {
        ports: vec![PortOptions::default(); 2],
        pcap: Some(path),
        duration: Some(Duration::from_secs(60)),
        ..options(ground, forward, append)
    })?;
    let settled = summary.returned + named(&summary, "no-echo");
    ensure(settled == summary.offered, || summary.to_string())
}
