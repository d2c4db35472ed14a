//! Runs that do not end by themselves: somebody stops them, or a part of them dies.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};

use barewire::capture::{self, CaptureWriter};
use barewire::image::{self, Profile};
use barewire::qemu::{Accel, DEBUG_EXIT_SUCCESS, Machine, Qemu};
use libtest_mimic::{Arguments, Failed, Trial};
use rustix::process::{Pid, Signal, kill_process};

type Case = (&'static str, fn(&Path) -> Result<(), Failed>);

const CASES: [Case; 6] = [
    ("ctrl_c_ends_in_order_and_sums_up", ctrl_c),
    ("ctrl_c_ends_rfc2544_with_what_was_measured", ctrl_c_in_rfc2544),
    ("qemu_dies_in_the_middle", qemu_dies),
    ("the_command_dies_and_takes_qemu_with_it", command_dies),
    ("a_card_is_served_alone_until_it_is_stopped", served_alone),
    ("cards_are_served_to_a_machine_with_captures_on_their_wires", served_to_a_machine),
];

fn main() -> ExitCode {
    let mut args = Arguments::from_args();
    args.test_threads.get_or_insert(1);
    if args.list {
        let trials = CASES.iter().map(|(name, _)| Trial::test(*name, || Ok(()))).collect();
        return libtest_mimic::run(&args, trials).exit_code();
    }
    let missing = Qemu::obtain(&mut |step| eprintln!("{step}")).err();
    if let Some(missing) = &missing {
        println!("skipped: {missing}");
    }
    let image = match image::build(Profile::Release) {
        Ok(image) => image,
        Err(failure) => panic!("{failure}"),
    };
    let trials = CASES.iter().map(|(name, run)| {
        let (image, run) = (image.clone(), *run);
        Trial::test(*name, move || run(&image)).with_ignored_flag(missing.is_some())
    });
    libtest_mimic::run(&args, trials.collect()).exit_code()
}

/// A bound for what should take a fraction of a second.
const LIMIT: Duration = Duration::from_secs(60);

/// A run of a minute, with a folder of its own for its sockets.
struct Run {
    child: Child,
    folder: tempfile::TempDir,
}

impl Run {
    fn start(image: &Path, more: &[&str]) -> Result<Self, Failed> {
        let folder = tempfile::tempdir()?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_barewire"));
        command
            .args(["--accel", "tcg", "--seconds", "60", "--image"])
            .arg(image)
            .args(more)
            .env("TMPDIR", folder.path());
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        Ok(Self { child, folder })
    }

    /// The process id of its QEMU, once it forwards.
    fn wait_forwarding(&mut self) -> Result<i32, Failed> {
        // The second line of figures: frames have come back.
        self.wait_for("offered")
    }

    /// The process id of its QEMU, once it has said `text`.
    fn wait_for(&mut self, text: &str) -> Result<i32, Failed> {
        let stderr = self.child.stderr.as_mut().ok_or("no standard error")?;
        let mut said = String::new();
        let mut byte = [0];
        while !said.contains(text) {
            if std::io::Read::read(stderr, &mut byte)? == 0 {
                return Err(format!("it ended early: {said}").into());
            }
            said.push(char::from(byte[0]));
        }
        self.qemu().first().copied().ok_or_else(|| "no QEMU runs".into())
    }

    /// Processes that have the run's folder on their command line.
    fn qemu(&self) -> Vec<i32> {
        let folder = self.folder.path().to_string_lossy().into_owned();
        let entries = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
        entries
            .filter_map(|entry| {
                let pid = entry.file_name().to_str()?.parse().ok()?;
                let line = fs::read(entry.path().join("cmdline")).ok()?;
                String::from_utf8_lossy(&line).contains(&folder).then_some(pid)
            })
            .collect()
    }

    fn signal(pid: i32, signal: Signal) -> Result<(), Failed> {
        Ok(kill_process(Pid::from_raw(pid).ok_or("no process")?, signal)?)
    }

    /// Waits for its end and checks that nothing of it is left.
    fn end(self) -> Result<Output, Failed> {
        let Self { child, folder } = self;
        let output = child.wait_with_output()?;
        let left: Vec<PathBuf> =
            fs::read_dir(folder.path())?.filter_map(|entry| Some(entry.ok()?.path())).collect();
        ensure(left.is_empty(), || format!("left behind: {left:?}"))?;
        Ok(output)
    }
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(what().into()) }
}

fn ctrl_c(image: &Path) -> Result<(), Failed> {
    let mut run = Run::start(image, &[])?;
    let qemu = run.wait_forwarding()?;
    Run::signal(run.child.id() as i32, Signal::INT)?;
    let output = run.end()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure(output.status.code() == Some(0), || format!("{:?}: {text}", output.status))?;
    ensure(text.contains("lost 0, wrong 0") && text.contains("every frame is accounted for"), || {
        text.clone()
    })?;
    ensure(!Path::new(&format!("/proc/{qemu}")).exists(), || "QEMU still runs".into())
}

/// The trial of a minute is broken off, and its frames are in the books.
fn ctrl_c_in_rfc2544(image: &Path) -> Result<(), Failed> {
    let mut run = Run::start(image, &["--rfc2544", "--frame-sizes", "64", "--max-rate", "10000"])?;
    run.wait_for("1 frame size,")?;
    Run::signal(run.child.id() as i32, Signal::INT)?;
    let output = run.end()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure(output.status.code() == Some(1), || format!("{:?}: {text}", output.status))?;
    let problems: Vec<&str> = text.lines().filter(|line| line.starts_with("problem:")).collect();
    ensure(problems == ["problem: stopped before everything was measured"], || text.clone())?;
    ensure(text.contains("all trials: sent"), || text.clone())
}

fn qemu_dies(image: &Path) -> Result<(), Failed> {
    let mut run = Run::start(image, &[])?;
    let qemu = run.wait_forwarding()?;
    Run::signal(qemu, Signal::KILL)?;
    let output = run.end()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure(output.status.code() == Some(1), || format!("{:?}: {text}", output.status))?;
    for part in ["offered", "problem:", "| barewire ready: 2 ports", "FAILED"] {
        ensure(text.contains(part), || format!("no {part:?} in {text}"))?;
    }
    Ok(())
}

fn command_dies(image: &Path) -> Result<(), Failed> {
    let mut run = Run::start(image, &[])?;
    let qemu = run.wait_forwarding()?;
    run.child.kill()?;
    run.child.wait()?;
    let gone = || !Path::new(&format!("/proc/{qemu}")).exists();
    let until = Instant::now() + LIMIT;
    while !gone() && Instant::now() < until {
        std::thread::yield_now();
    }
    ensure(gone(), || "QEMU outlives the command".into())
}

fn served_alone(_image: &Path) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("card");
    let mut command = Command::new(env!("CARGO_BIN_EXE_barewire"));
    command.args(["model", "--device", "1583", "--port", &format!("socket={},wire=echo", socket.display())]);
    let mut child = command.stderr(Stdio::piped()).spawn()?;
    let mut line = String::new();
    let stderr = child.stderr.take().ok_or("no standard error")?;
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stderr), &mut line)?;
    ensure(line.contains("serving 1583"), || line.clone())?;
    ensure(std::os::unix::net::UnixStream::connect(&socket).is_ok(), || "nobody listens".into())?;
    Run::signal(child.id() as i32, Signal::TERM)?;
    ensure(child.wait()?.code() == Some(0), || "it does not end well".into())?;
    ensure(!socket.exists(), || "its socket is left behind".into())
}

/// The command serves two cards, somebody else's QEMU has them; what the one wire brought came out of the other.
fn served_to_a_machine(image: &Path) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let at = |name: &str| folder.path().join(name);
    let frames: Vec<Vec<u8>> = (0..20).map(|n| vec![n; 60 + usize::from(n)]).collect();
    let mut writer = CaptureWriter::create(&at("in.pcap"))?;
    frames.iter().for_each(|frame| writer.frame(frame));
    ensure(writer.finish(), || "no capture to send".into())?;
    fs::copy(at("in.pcap"), at("in1.pcap"))?;
    let port = |n: usize, input: &str| {
        format!(
            "--port=socket={},wire=pcap:{}:{}",
            at(&format!("card{n}")).display(),
            at(input).display(),
            at(&format!("out{n}.pcap")).display()
        )
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_barewire"));
    command.args(["model", &port(0, "in.pcap"), &port(1, "in1.pcap")]);
    let mut model = command.stderr(Stdio::piped()).spawn()?;
    let stderr = model.stderr.take().ok_or("no standard error")?;
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stderr), &mut line)?;
    let cards = vec![at("card0"), at("card1")];
    let machine = Machine::new(Accel::Tcg, image.to_owned(), "--forward-mode=io".into(), cards);
    let qemu = Qemu::obtain(&mut |_| ())?;
    let mut guest = machine.command(&qemu).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut console = std::io::BufReader::new(guest.stdout.take().ok_or("no console")?);
    let mut said = String::new();
    while !said.contains("barewire ready") && std::io::BufRead::read_line(&mut console, &mut said)? > 0 {}
    let mut keyboard = guest.stdin.take().ok_or("no keyboard")?;
    std::io::Write::write_all(&mut keyboard, b"quit\n")?;
    std::io::Read::read_to_string(&mut console, &mut said)?;
    let status = guest.wait()?.code();
    Run::signal(model.id() as i32, Signal::TERM)?;
    ensure(model.wait()?.code() == Some(0), || "the model does not end well".into())?;
    ensure(status == Some(DEBUG_EXIT_SUCCESS), || format!("{status:?}: {said}"))?;
    for out in ["out0.pcap", "out1.pcap"] {
        let back: Vec<Vec<u8>> =
            capture::read(&at(out))?.frames.into_iter().map(|frame| frame.to_vec()).collect();
        ensure(back == frames, || format!("{out}: {} frames of {}\n{said}", back.len(), frames.len()))?;
    }
    Ok(())
}
