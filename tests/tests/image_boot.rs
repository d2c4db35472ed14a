//! The image by itself: how it is built, where it boots, and what it says when something breaks.

use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use barewire::qemu::{Accel, DEBUG_EXIT_FAILURE, DEBUG_EXIT_SUCCESS, Machine};
use libtest_mimic::Failed;
use model::{PortConfig, Server, Wire, Xl710};
use rig::frames;
use rig::guest::Guest;
use rig::machine::{Ground, case, ensure, run};

fn main() -> ExitCode {
    let mut cases = vec![
        case("note_and_size", note_and_size),
        case("wrong_option_is_named", wrong_option),
        case("no_port_is_named", no_port),
        case("a_machine_without_qemus_way_out_reboots_or_halts", other_ways_out),
        case("loops_that_are_not_there_are_refused", no_such_loops),
        case("command_line_of_4000_bytes_is_read_to_its_end", long_command_line),
    ];
    for (cpu, vectors) in [
        ("qemu64", "scalar"),
        ("Nehalem", "ssse3"),
        ("Haswell", "avx2"),
        ("Haswell,-avx2", "ssse3"),
        ("Haswell,-xsave", "ssse3"),
        ("Skylake-Server", "avx2"),
        ("EPYC", "avx2"),
        ("max", "avx2"),
    ] {
        cases.push(case(format!("cpu_{cpu}"), move |ground| {
            boots(ground, vectors, |machine| machine.cpu = cpu.into())
        }));
    }
    cases.push(case("memory_64_mib", |ground| boots(ground, "avx2", |machine| machine.memory = 64)));
    cases.push(case("memory_6_gib", |ground| boots(ground, "avx2", |machine| machine.memory = 6144)));
    for kind in ["pc", "microvm,pit=off", "microvm"] {
        cases.push(case(format!("machine_{kind}"), move |ground| {
            boots(ground, "avx2", |machine| machine.kind = kind.into())
        }));
    }
    cases.push(case("image_with_checks", |ground| {
        let dev_image = ground.dev_image.clone();
        boots(ground, "avx2", |machine| machine.image = dev_image)
    }));
    for (name, report) in EXCEPTIONS {
        cases.push(case(format!("exception_{name}"), move |ground| raises(ground, name, report)));
    }
    cases.push(case("link_changes_are_told", link_changes));
    cases.push(case("forwards_without_a_console", |ground| {
        forwards(ground, |machine| machine.console = false)
    }));
    cases.push(case("forwards_on_the_root_bus", |ground| {
        forwards(ground, |machine| machine.root_ports = false)
    }));
    cases.push(case("forwards_with_configuration_space_by_ports", |ground| {
        forwards(ground, |machine| (machine.kind, machine.root_ports) = ("pc".into(), false))
    }));
    cases.push(case("forwards_with_bars_far_above_4_gib", |ground| {
        forwards(ground, |machine| machine.memory = 6144)
    }));
    cases.push(case("forwards_on_a_cpu_without_large_pages", |ground| {
        forwards(ground, |machine| machine.cpu = "qemu64,-pdpe1gb".into())
    }));
    cases.push(case("forwards_with_checks", |ground| {
        let dev_image = ground.dev_image.clone();
        forwards(ground, |machine| machine.image = dev_image)
    }));
    run(cases)
}

fn machine(ground: &Ground, options: &str) -> Machine {
    Machine::new(Accel::Tcg, ground.image.clone(), options.into(), Vec::new())
}

fn run_to_end(ground: &Ground, machine: &Machine) -> Result<(Option<i32>, String), Failed> {
    Guest::start(machine.command(&ground.qemu))?.end()
}

/// The note that a PVH loader looks for, read from the file by hand: in a PT_NOTE of its own, type 18, owner Xen, four
/// bytes that are the address of the entry. And the file is small.
fn note_and_size(ground: &Ground) -> Result<(), Failed> {
    const PT_NOTE: u32 = 4;
    for (image, most) in [(&ground.image, 1 << 20), (&ground.dev_image, usize::MAX)] {
        let elf = std::fs::read(image)?;
        ensure(elf.len() <= most, || format!("{} bytes", elf.len()))?;
        let u64_at =
            |at: usize| elf[at..at + 8].iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte)) as usize;
        let u32_at = |at: usize| elf[at..at + 4].iter().rev().fold(0, |n, byte| n << 8 | u32::from(*byte));
        let (entry, headers, count) = (u64_at(24), u64_at(32), usize::from(elf[56]));
        let notes: Vec<usize> =
            (0..count).map(|i| headers + 56 * i).filter(|header| u32_at(*header) == PT_NOTE).collect();
        let [note] = notes[..] else { return Err(format!("{} notes", notes.len()).into()) };
        let (at, len) = (u64_at(note + 8), u64_at(note + 32));
        let fields = (
            len,
            u32_at(at),
            u32_at(at + 4),
            u32_at(at + 8),
            &elf[at + 12..at + 16],
            u32_at(at + 16) as usize,
        );
        ensure(fields == (20, 4, 4, 18, &b"Xen\0"[..], entry), || format!("{fields:?}, entry {entry:#x}"))?;
    }
    Ok(())
}

fn boots(ground: &Ground, vectors: &str, change: impl FnOnce(&mut Machine)) -> Result<(), Failed> {
    let mut machine = machine(ground, "--self-test=simd");
    change(&mut machine);
    let (status, said) = run_to_end(ground, &machine)?;
    let want = format!("barewire: self-test simd ok ({vectors})");
    ensure(status == Some(DEBUG_EXIT_SUCCESS) && said.contains(&want), || format!("{status:?}\n{said}"))
}

/// Each exception that ring 0 can raise, and what the report begins with.
const EXCEPTIONS: [(&str, &str); 18] = [
    ("de", "exception 0 (#DE divide error), error code 0x0, on core 0, at 0x"),
    ("db", "exception 1 (#DB debug), error code 0x0"),
    ("nmi", "exception 2 (NMI), error code 0x0"),
    ("bp", "exception 3 (#BP breakpoint), error code 0x0"),
    ("of", "exception 4 (#OF overflow), error code 0x0"),
    ("br", "exception 5 (#BR bound range exceeded), error code 0x0"),
    ("ud", "exception 6 (#UD invalid opcode), error code 0x0"),
    ("nm", "exception 7 (#NM device not available), error code 0x0"),
    ("df", "exception 8 (#DF double fault), error code 0x0"),
    ("np", "exception 11 (#NP segment not present), error code 0x18"),
    ("ss", "exception 12 (#SS stack fault), error code 0x18"),
    ("gp", "exception 13 (#GP general protection), error code 0x0"),
    ("pf", "exception 14 (#PF page fault), error code 0x0"),
    ("mf", "exception 16 (#MF x87 floating point), error code 0x0"),
    ("xm", "exception 19 (#XM SIMD floating point), error code 0x0"),
    ("stack-overflow", "exception 14 (#PF page fault), error code 0x2"),
    ("panic", "asked for by --self-test"),
    ("alloc-after-close", "allocation of 16 bytes after start-up"),
];

fn raises(ground: &Ground, name: &str, report: &str) -> Result<(), Failed> {
    let (status, said) = run_to_end(ground, &machine(ground, &format!("--self-test=exception:{name}")))?;
    let reported = said.lines().any(|line| line.starts_with("barewire: error: ") && line.contains(report));
    ensure(status == Some(DEBUG_EXIT_FAILURE) && reported, || format!("{status:?}\n{said}"))?;
    if name == "pf" {
        for part in ["rax 0", "cr2 0000000000000008", "backtrace: 0x1"] {
            ensure(said.contains(part), || format!("no {part:?} in\n{said}"))?;
        }
    }
    Ok(())
}

fn fails_with(ground: &Ground, options: &str, text: &str) -> Result<(), Failed> {
    let (status, said) = run_to_end(ground, &machine(ground, options))?;
    let told = said.lines().any(|line| line.starts_with("barewire: error: ") && line.contains(text));
    ensure(status == Some(DEBUG_EXIT_FAILURE) && told, || format!("{status:?}\n{said}"))
}

fn wrong_option(ground: &Ground) -> Result<(), Failed> {
    fails_with(ground, "--burst=0", "option --burst=0: a number from 1 to 512")
}

fn no_port(ground: &Ground) -> Result<(), Failed> {
    fails_with(ground, "", "no port: ")
}

/// By configuration: after the report of an exception a machine starts again, which ends a QEMU that must not reboot, or
/// stands still.
fn other_ways_out(ground: &Ground) -> Result<(), Failed> {
    let (status, said) = run_to_end(ground, &machine(ground, "--exit=reboot --self-test=exception:gp"))?;
    ensure(status == Some(0) && said.contains("#GP general protection"), || format!("{status:?}\n{said}"))?;
    let machine = machine(ground, "--exit=halt --self-test=exception:gp");
    let mut guest = Guest::start(machine.command(&ground.qemu))?;
    guest.wait_for("backtrace: ")?;
    ensure(guest.is_running()?, || "it did not stand still".into())
}

fn no_such_loops(ground: &Ground) -> Result<(), Failed> {
    fails_with(ground, "--isa=avx512", "option --isa=avx512: the best of this machine is avx2")
}

/// A longer one than 4 KiB overwrites the loader's own data in QEMU, before the image runs.
fn long_command_line(ground: &Ground) -> Result<(), Failed> {
    let options = format!("{} --self-test=boot", "--promiscuous ".repeat(283));
    ensure(options.len() > 3950, || options.len().to_string())?;
    let (status, said) = run_to_end(ground, &machine(ground, &options))?;
    let good = status == Some(DEBUG_EXIT_SUCCESS) && said.contains("barewire: self-test boot ok");
    ensure(good, || format!("{status:?}\n{said}"))
}

/// A wire that offers frames once and keeps what comes back.
#[derive(Clone, Default)]
struct Counting(Arc<(Mutex<Counts>, Condvar)>);

#[derive(Default)]
struct Counts {
    offered: u32,
    back: Vec<Vec<u8>>,
}

struct End {
    counting: Counting,
    frame: Vec<u8>,
}

const FRAMES: u32 = 2000;

impl Wire for End {
    fn transmit(&mut self, frame: &[u8]) {
        let (counts, changed) = &*self.counting.0;
        counts.lock().expect("no test panics with the wire").back.push(frame.to_vec());
        changed.notify_all();
    }

    fn receive(&mut self) -> Option<&[u8]> {
        let mut counts = self.counting.0.0.lock().expect("no test panics with the wire");
        if counts.offered == FRAMES {
            return None;
        }
        self.frame = frames::numbered(counts.offered, 60 + counts.offered as usize % 1454);
        counts.offered += 1;
        Some(&self.frame)
    }
}

impl Counting {
    fn all_back(&self, limit: Duration) -> Vec<Vec<u8>> {
        let (counts, changed) = &*self.0;
        let counts = counts.lock().expect("no test panics with the wire");
        let waited = changed.wait_timeout_while(counts, limit, |counts| counts.back.len() < FRAMES as usize);
        waited.expect("no test panics with the wire").0.back.clone()
    }
}

/// A port that starts without a link, and whose link comes, goes and comes: each change is told, and the end is in order.
fn link_changes(ground: &Ground) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("card");
    let config = PortConfig { device_id: 0x1583, mac: [0x68, 5, 0xca, 0, 0, 1], name: "test".into() };
    let mut card = Xl710::new(config, Box::new(model::wire::SinkWire));
    card.set_link(false);
    card.faults().mac_config_needs_link = true;
    let server = Server::bind(vec![(socket.clone(), card)])?;
    let handle = server.handle();
    let thread = std::thread::spawn(move || server.run());
    let mut machine = machine(ground, "--forward-mode=io");
    machine.cards = vec![socket];
    let mut guest = Guest::start(machine.command(&ground.qemu))?;
    guest.wait_for("barewire: port 0 i40e0 mac=68:05:ca:00:00:01 link=down speed=0")?;
    guest.wait_for("barewire ready: 1 ports")?;
    for (up, told) in
        [(true, "link=up speed=40000"), (false, "link=down speed=0"), (true, "link=up speed=40000")]
    {
        handle.set_link(0, up);
        guest.wait_for(&format!("barewire: link port=0 name=i40e0 {told}"))?;
    }
    guest.say("quit\n")?;
    let (status, said) = guest.end()?;
    thread.join().map_err(|_| "the model panicked")??;
    let good = status == Some(DEBUG_EXIT_SUCCESS) && said.contains("barewire: end status=ok");
    ensure(good, || format!("{status:?}\n{said}"))
}

/// One port, macswap, frames that the wire has from the start: they come back once the image forwards, whatever it
/// can say of it.
fn forwards(ground: &Ground, change: impl FnOnce(&mut Machine)) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("card");
    let counting = Counting::default();
    let end = End { counting: counting.clone(), frame: Vec::new() };
    let config = PortConfig { device_id: 0x1572, mac: [0x68, 5, 0xca, 0, 0, 1], name: "test".into() };
    let server = Server::bind(vec![(socket.clone(), Xl710::new(config, Box::new(end)))])?;
    let handle = server.handle();
    let thread = std::thread::spawn(move || server.run());
    let mut machine = machine(ground, "--forward-mode=macswap");
    machine.cards = vec![Path::new(&socket).to_owned()];
    change(&mut machine);
    let guest = Guest::start(machine.command(&ground.qemu))?;
    let back = counting.all_back(Duration::from_secs(60));
    drop(guest);
    handle.stop();
    thread.join().map_err(|_| "the model panicked")??;
    let want: Vec<Vec<u8>> =
        (0..FRAMES).map(|n| frames::swapped(&frames::numbered(n, 60 + n as usize % 1454))).collect();
    let violations = &handle.status()[0].violations;
    ensure(violations.is_empty(), || format!("{violations:?}"))?;
    ensure(back == want, || format!("{} of {FRAMES} frames came back, or wrong ones", back.len()))
}
