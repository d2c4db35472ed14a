//! Forwarding modes in QEMU, beside `io`, `mac`, `macswap` and `5tswap`: each frame that came back, was made or was
//! dropped is what testpmd's mode of that name would make of it, by a reading of the host's own.

use std::path::PathBuf;
use std::time::Duration;

use barewire::qemu::Accel;
use barewire::run::{PortOptions, RunOptions, Summary};
use barewire::traffic::Forward;
use libtest_mimic::Failed;
use rig::captures;
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
