//! RFC 2544 through the image in QEMU: the books of source, wires and image agree. No rate is expected of this host.

use std::process::ExitCode;
use std::time::Duration;

use barewire::faults::FaultSource;
use barewire::qemu::Accel;
use barewire::rfc2544::{self, Plan, Purpose, Report};
use barewire::run::{PortOptions, RunOptions};
use barewire::traffic::Forward;
use libtest_mimic::Failed;
use rig::machine::{Ground, case, ensure, run};

fn main() -> ExitCode {
    run(vec![
        case("a_search_ends_with_figures_that_agree", search),
        case("a_low_rate_one_way_loses_nothing_that_is_not_told", one_way),
        case("a_link_that_is_down_is_told_and_nothing_is_measured", link_down),
        case("a_link_that_goes_down_ends_the_measurement", link_goes_down),
    ])
}

fn measure(ground: &Ground, options: RunOptions, plan: &Plan) -> Result<Report, Failed> {
    let options = RunOptions { accel: Some(Accel::Tcg), image: Some(ground.image.clone()), ..options };
    Ok(rfc2544::run(&options, plan)?)
}

/// What holds whatever the host can do: no frame is unaccounted for, and latencies are in order.
fn agree(report: &Report, repeats: usize) -> Result<(), Failed> {
    ensure(report.good(), || report.to_string())?;
    let dropped: u64 = report.drops.values().sum();
    ensure(report.sent == report.out + dropped, || report.to_string())?;
    let trials = || report.frames.iter().flat_map(|frame| &frame.trials);
    let sum = |of: fn(&rfc2544::Trial) -> u64| trials().map(of).sum::<u64>();
    ensure(sum(|trial| trial.sent) == report.sent, || format!("{report:?}"))?;
    // What came out after its trial was counted as lost in it.
    let came = sum(|trial| trial.back) + sum(|trial| trial.late);
    ensure(came <= report.out && report.out - came <= sum(|trial| trial.lost), || format!("{report:?}"))?;
    for trial in trials() {
        ensure(trial.sent == trial.back + trial.lost && trial.wrong == 0, || format!("{trial:?}"))?;
        let Some(latency) = trial.latency_us else { continue };
        let times = [latency.min, latency.median, latency.p99, latency.p99_9, latency.max];
        ensure(times.is_sorted() && latency.frames == trial.back, || format!("{trial:?}"))?;
    }
    for frame in &report.frames {
        let repeated = || frame.trials.iter().filter(|trial| trial.purpose == Purpose::Repeat);
        let found = frame.ndr.is_some() || frame.pdr.is_some();
        ensure(repeated().count() == if found { repeats } else { 0 }, || format!("{frame:?}"))?;
        let repeated_back: u64 = repeated().map(|trial| trial.back).sum();
        ensure(frame.histogram.total() == repeated_back, || format!("{frame:?}"))?;
        if let (Some(ndr), Some(pdr)) = (frame.ndr, frame.pdr) {
            ensure(ndr.fps <= frame.line_fps * 1.001 && pdr.fps > 0.0, || format!("{frame:?}"))?;
        }
    }
    Ok(())
}

fn search(ground: &Ground) -> Result<(), Failed> {
    let plan = Plan {
        sizes: vec![64, 1518],
        resolution: 0.3,
        repeats: 2,
        trial: Duration::from_millis(100),
        ..Plan::default()
    };
    let report = measure(ground, RunOptions::default(), &plan)?;
    let sizes: Vec<usize> = report.frames.iter().map(|frame| frame.size).collect();
    ensure(sizes == [64, 1518] && report.ways == 2, || format!("{report:?}"))?;
    agree(&report, 2)
}

/// Ports 2 and 3 of four, frames of several buffers, two queues, an IP header that is changed.
fn one_way(ground: &Ground) -> Result<(), Failed> {
    let options = RunOptions {
        ports: vec![PortOptions::default(); 4],
        forward: Forward::FiveTupleSwap,
        rxq: Some(2),
        txq: Some(2),
        ..RunOptions::default()
    };
    let plan = Plan {
        sizes: vec![9000],
        pair: (3, 2),
        one_way: true,
        highest: Some(1000.0),
        repeats: 1,
        trial: Duration::from_millis(200),
        ..Plan::default()
    };
    let report = measure(ground, options, &plan)?;
    ensure(report.ways == 1 && report.pair == [3, 2], || format!("{report:?}"))?;
    agree(&report, 1)
}

/// Two ports, the second one with a script of faults, and one rate.
fn with_faults(ground: &Ground, script: &str) -> Result<Report, Failed> {
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), script)?;
    let faulty =
        PortOptions { faults: Some(FaultSource::File(file.path().into())), ..PortOptions::default() };
    let options = RunOptions { ports: vec![PortOptions::default(), faulty], ..RunOptions::default() };
    let plan = Plan {
        sizes: vec![64, 128],
        highest: Some(1000.0),
        repeats: 1,
        trial: Duration::from_millis(100),
        ..Plan::default()
    };
    measure(ground, options, &plan)
}

fn link_down(ground: &Ground) -> Result<(), Failed> {
    let report = with_faults(ground, "link down")?;
    ensure(report.frames.is_empty() && report.sent == 0, || report.to_string())?;
    ensure(report.problems == ["the link of port 1 is down: nothing can be measured over it"], || {
        report.to_string()
    })
}

/// The warm-up is 500 frames each way, so the link goes down in it or soon after; no size is called measured.
fn link_goes_down(ground: &Ground) -> Result<(), Failed> {
    let report = with_faults(ground, "link down after 400 frames")?;
    let down = |problem: &String| problem.starts_with("the link of port 1 is down");
    ensure(report.problems.iter().any(down), || report.to_string())?;
    let searched = |frame: &rfc2544::Frame| frame.ndr_searched || frame.ndr.is_some();
    ensure(!report.frames.is_empty() && !report.frames.iter().any(searched), || report.to_string())?;
    ensure(report.unaccounted == 0 && report.to_string().contains("not measured to the end"), || {
        report.to_string()
    })
}
