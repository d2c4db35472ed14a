//! The image on machines with several cores: all come up, each reports its own exceptions, and together they forward and
//! account for every frame.

use std::collections::BTreeMap;
use std::process::ExitCode;

use barewire::qemu::{Accel, DEBUG_EXIT_FAILURE, DEBUG_EXIT_SUCCESS, Machine};
use libtest_mimic::Failed;
use rig::frames;
use rig::guest::Guest;
use rig::image_rig::{End, ImageRig, dropped, lines, number};
use rig::machine::{Ground, case, ensure, run};

fn main() -> ExitCode {
    let mut cases = Vec::new();
    // Machine, CPU model, cores, how many come up, by which kind of local APIC. Identifiers with gaps, places for cores
    // that are not plugged in, and more than an image can have.
    for (kind, cpu, smp, count, apic) in [
        ("q35", "max", "1", 1, "x2apic"),
        ("q35", "max", "2", 2, "x2apic"),
        ("q35", "qemu64", "4", 4, "xapic"),
        ("q35", "max,-x2apic", "3", 3, "xapic"),
        ("pc", "qemu64", "2", 2, "xapic"),
        ("microvm", "max", "2", 2, "x2apic"),
        ("q35", "max", "2,maxcpus=4", 2, "x2apic"),
        ("q35", "max", "6,sockets=2,cores=3", 6, "x2apic"),
        ("q35", "max", "66", 64, "x2apic"),
    ] {
        cases.push(case(format!("cores_{kind}_{cpu}_{smp}"), move |ground| {
            come_up(ground, kind, cpu, smp, count, apic)
        }));
    }
    cases.push(case("a_core_that_does_not_come_up_is_named", dead_core));
    for (name, report) in EXCEPTIONS {
        cases.push(case(format!("exception_on_core_3_{name}"), move |ground| raises(ground, name, report)));
    }
    for (name, options, said) in REFUSED {
        cases.push(case(format!("refused_{name}"), move |ground| refuses(ground, options, said)));
    }
    for cpus in [1, 2, 4] {
        cases.push(case(format!("forwards_on_{cpus}_cores"), move |ground| {
            let options = format!("--forward-mode=macswap --nb-cores={cpus} --rxq=2 --txq=2");
            forwards(ground, cpus, &options, &testpmds(cpus))
        }));
    }
    cases.push(case("forwards_by_a_map_without_the_boot_core", |ground| {
        let map = [(0, 0, 3), (1, 0, 1), (1, 1, 3)];
        forwards(ground, 4, "--forward-mode=macswap --config=(0,0,3),(1,0,1),(1,1,3)", &map)
    }));
    cases.push(case("makes_frames_on_2_cores", makes_frames));
    run(cases)
}

/// Port, queue and core of each stream, as testpmd spreads two queues of two ports over so many cores.
fn testpmds(cpus: u16) -> [(usize, u16, usize); 4] {
    match cpus {
        1 => [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0)],
        2 => [(0, 0, 0), (1, 0, 0), (0, 1, 1), (1, 1, 1)],
        _ => [(0, 0, 0), (1, 0, 1), (0, 1, 2), (1, 1, 3)],
    }
}

fn machine(ground: &Ground, cpus: u16, options: &str) -> Machine {
    let mut machine = Machine::new(Accel::Tcg, ground.image.clone(), options.into(), Vec::new());
    machine.cpus = cpus;
    machine
}

fn run_to_end(ground: &Ground, machine: &Machine) -> Result<(Option<i32>, String), Failed> {
    Guest::start(machine.command(&ground.qemu))?.end()
}

/// Every core comes up and sums in its vector registers.
fn come_up(
    ground: &Ground,
    kind: &str,
    cpu: &str,
    smp: &str,
    count: usize,
    apic: &str,
) -> Result<(), Failed> {
    let mut machine = machine(ground, 1, "--self-test=simd");
    (machine.kind, machine.cpu) = (kind.into(), cpu.into());
    machine.extra = vec!["-smp".into(), smp.into()];
    let (status, said) = run_to_end(ground, &machine)?;
    let good = status == Some(DEBUG_EXIT_SUCCESS)
        && said.lines().any(|line| line == format!("cores {count}, {apic}"))
        && said.lines().any(|line| line.ends_with(&format!("on {count} cores")));
    ensure(good, || format!("{status:?}\n{said}"))
}

/// A table that lists two cores which are not there, one of them by an identifier that only an x2APIC can name.
fn dead_core(ground: &Ground) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let table = folder.path().join("madt");
    let head = [0, 0, 0xe0, 0xfe, 1, 0, 0, 0];
    let entries = [0, 8, 9, 9, 1, 0, 0, 0, 9, 16, 0, 0, 0x34, 0x12, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0];
    std::fs::write(&table, [&head[..], &entries].concat())?;
    for (cpu, reason) in [
        ("max", "core with APIC id 0x1234 did not come up and is left out"),
        ("qemu64", "core with APIC id 0x1234 can't be started: local APIC: an xAPIC can't name core 0x1234"),
    ] {
        let mut machine = machine(ground, 2, "--self-test=simd");
        machine.cpu = cpu.into();
        machine.extra = vec!["-acpitable".into(), format!("sig=APIC,rev=3,data={}", table.display())];
        let (status, said) = run_to_end(ground, &machine)?;
        let good = status == Some(DEBUG_EXIT_SUCCESS)
            && said.contains("core with APIC id 0x9 did not come up and is left out")
            && said.contains(reason)
            && said.contains("on 2 cores");
        ensure(good, || format!("{status:?}\n{said}"))?;
    }
    Ok(())
}

const EXCEPTIONS: [(&str, &str); 6] = [
    ("nmi", "exception 2 (NMI), error code 0x0, on core 3, at 0x"),
    ("df", "exception 8 (#DF double fault), error code 0x0, on core 3, at 0x"),
    ("pf", "exception 14 (#PF page fault), error code 0x0, on core 3, at 0x"),
    ("stack-overflow", "exception 14 (#PF page fault), error code 0x2, on core 3, at 0x"),
    ("panic", "panic on core 3 at "),
    ("alloc-after-close", "allocation of 16 bytes after start-up"),
];

fn raises(ground: &Ground, name: &str, report: &str) -> Result<(), Failed> {
    let (status, said) = run_to_end(ground, &machine(ground, 4, &format!("--self-test=exception:{name}@3")))?;
    let reports: Vec<&str> = said.lines().filter(|line| line.starts_with("barewire: error: ")).collect();
    let good = status == Some(DEBUG_EXIT_FAILURE) && reports.len() == 1 && reports[0].contains(report);
    ensure(good, || format!("{status:?}\n{said}"))
}

/// On a machine with two cores and one port.
const REFUSED: [(&str, &str, &str); 6] = [
    ("cores", "--nb-cores=3", "option --nb-cores=3: 2 run"),
    ("map_core", "--config=(0,0,2)", "option --config=(0,0,2): 2 cores run"),
    ("map_port", "--config=(0,0,0),(1,0,1)", "option --config=(1,0,1): there are 1 ports"),
    ("map_order", "--config=(0,1,0)", "this should be 0"),
    ("both", "--txq=2 --config=(0,0,0)", "option --txq=2: --config says already"),
    ("mbufs", "--rxq=2 --txq=2 --total-num-mbufs=4000", "core 0 needs 4224 for its 2 queue pairs"),
];

fn refuses(ground: &Ground, options: &str, text: &str) -> Result<(), Failed> {
    let rig = ImageRig::start(ground, machine(ground, 2, options), vec![End::default()])?;
    let (status, said) = rig.guest.end()?;
    let told = said.lines().any(|line| line.starts_with("barewire: error: ") && line.contains(text));
    ensure(status == Some(DEBUG_EXIT_FAILURE) && told, || format!("{status:?}\n{said}"))
}

const FRAMES: u32 = 1500;
/// The books of the cores: each one's frames were sent or dropped, and all together they are the ports'.
fn check_books(said: &str, cores: &[usize]) -> Result<(), Failed> {
    let (by_port, by_core) = (lines(said, "stats"), lines(said, "lcore"));
    let numbers: Vec<usize> = by_core.iter().map(|line| number(line, "core") as usize).collect();
    ensure(numbers == cores, || format!("cores {numbers:?}, not {cores:?}\n{said}"))?;
    for line in &by_core {
        let sum = number(line, "tx_frames") + dropped(line);
        ensure(number(line, "rx_frames") == sum, || format!("{line:?}"))?;
    }
    for key in ["rx_frames", "rx_bytes", "tx_frames", "tx_bytes"] {
        let sum =
            |lines: &[BTreeMap<String, String>]| lines.iter().map(|line| number(line, key)).sum::<u64>();
        ensure(sum(&by_port) == sum(&by_core), || format!("{key} by port and by core:\n{said}"))?;
    }
    Ok(())
}

/// Two ports, frames of many flows into both: every one comes back at the other port, and the streams are where they
/// should be.
fn forwards(
    ground: &Ground,
    cpus: u16,
    options: &str,
    streams: &[(usize, u16, usize)],
) -> Result<(), Failed> {
    let offered = |port: u32| -> Vec<Vec<u8>> {
        (0..FRAMES).map(|n| frames::flow(n * 2 + port, 60 + n as usize % 1400)).collect()
    };
    let ends = [End::default(), End::default()];
    let mut rig = ImageRig::start(ground, machine(ground, cpus, options), ends.to_vec())?;
    rig.offer(&ends, vec![offered(0), offered(1)])?;
    let back = [ends[1].back(FRAMES as usize), ends[0].back(FRAMES as usize)];
    let said = rig.quit()?;
    for (port, mut back) in back.into_iter().enumerate() {
        let mut want: Vec<Vec<u8>> =
            offered(port as u32).iter().map(|frame| frames::swapped(frame)).collect();
        back.sort_unstable();
        want.sort_unstable();
        ensure(back == want, || {
            format!("port {port}: {} of {FRAMES} frames came back, or wrong ones\n{said}", back.len())
        })?;
    }
    let told: Vec<(usize, u16, usize)> = lines(&said, "stream")
        .iter()
        .map(|line| {
            (number(line, "port") as usize, number(line, "rxq") as u16, number(line, "core") as usize)
        })
        .collect();
    ensure(told == streams, || format!("{told:?}, not {streams:?}"))?;
    let idle = lines(&said, "lcore").iter().any(|line| number(line, "rx_frames") == 0);
    ensure(!idle, || format!("a core with queues received nothing\n{said}"))?;
    let mut cores: Vec<usize> = streams.iter().map(|(_, _, core)| *core).collect();
    cores.sort_unstable();
    cores.dedup();
    check_books(&said, &cores)?;
    let received: u64 = lines(&said, "lcore").iter().map(|line| number(line, "rx_frames")).sum();
    ensure(received == u64::from(2 * FRAMES), || format!("{received} frames received\n{said}"))
}

/// Each core sends frames of its own on its own queue of each port, and the wires saw as many as the cores counted.
fn makes_frames(ground: &Ground) -> Result<(), Failed> {
    let ends = [End::default(), End::default()];
    let options = "--forward-mode=txonly --nb-cores=2 --rxq=2 --txq=2";
    let rig = ImageRig::start(ground, machine(ground, 2, options), ends.to_vec())?;
    for end in &ends {
        end.back(5000);
    }
    let said = rig.quit()?;
    let by_core = lines(&said, "lcore");
    let sent: Vec<u64> = by_core.iter().map(|line| number(line, "tx_frames")).collect();
    let seen: usize = ends.iter().map(|end| end.back(0).len()).sum();
    let good =
        sent.len() == 2 && sent.iter().all(|sent| *sent > 0) && sent.iter().sum::<u64>() == seen as u64;
    ensure(good, || format!("cores sent {sent:?}, wires saw {seen}\n{said}"))
}
