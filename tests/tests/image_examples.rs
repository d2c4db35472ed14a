//! Images that others make of barewire's parts: the crates of `examples/`, each built as its workspace says, booted, and
//! fed with frames.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use barewire::image::{self, Profile, Source};
use barewire::qemu::{Accel, DEBUG_EXIT_FAILURE, DEBUG_EXIT_SUCCESS, Machine};
use barewire::run::RunOptions;
use barewire::traffic::Forward;
use libtest_mimic::Failed;
use rig::datagrams::Datagrams;
use rig::guest::Guest;
use rig::image_rig::{End, ImageRig, dropped, lines, number};
use rig::machine::{Ground, case, ensure, run};
use rig::{captures, frames};
use smoltcp::wire::Ipv4Packet;

const FRAMES: usize = 1200;

fn main() -> ExitCode {
    run(vec![
        case("a_mode_from_outside_forwards_as_it_says", custom_mode),
        case("an_image_with_a_mode_from_outside_keeps_the_others", other_modes),
        case("a_mode_that_no_image_has_is_refused_with_all_names", unknown_mode),
        case("a_run_accounts_for_a_mode_that_it_does_not_know", run_of_a_custom_mode),
        case("a_driver_from_outside_forwards_between_its_cards", custom_driver),
        case("what_a_driver_from_outside_can_not_do_is_told", custom_driver_refuses),
        case("an_image_without_a_driver_for_its_cards_says_so", no_driver),
    ])
}

/// The image of `examples/NAME`, with checks.
fn example(name: &str) -> Result<PathBuf, Failed> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let source = Source { workspace, package: name.into(), program: name.into() };
    Ok(image::build_source(&source, Profile::Dev)?)
}

fn machine(image: PathBuf, options: &str) -> Machine {
    Machine::new(Accel::Tcg, image, options.into(), Vec::new())
}

/// Frame `n`: most are IPv4 packets, of every time to live, others are something else.
fn frame(n: usize) -> Vec<u8> {
    let mut frame = frames::numbered(n as u32, 60 + n * 7 % 1455);
    let number = frame[14..18].to_vec();
    match n % 8 {
        // ARP, IPv6, a tag in front of IPv4.
        0 => frame[12..14].copy_from_slice(&[0x08, 0x06]),
        1 => frame[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]),
        2 => frame[12..19].copy_from_slice(&[0x81, 0x00, 0, 1, 0x08, 0x00, 0x45]),
        _ => {
            frame[12..14].copy_from_slice(&[0x08, 0x00]);
            let len = frame.len() as u16 - 14;
            let mut packet = Ipv4Packet::new_unchecked(&mut frame[14..]);
            packet.set_version(4);
            packet.set_header_len(20);
            packet.set_total_len(len);
            packet.set_ident(u16::from_be_bytes([number[2], number[3]]));
            packet.set_hop_limit((n / 8) as u8);
            packet.fill_checksum();
        }
    }
    frame
}

/// What a router's rule makes of it, by another program's code: the header written anew.
fn aged(mut frame: Vec<u8>) -> Option<Vec<u8>> {
    if frame[12..14] == [0x08, 0x00] {
        let mut packet = Ipv4Packet::new_unchecked(&mut frame[14..]);
        let left = packet.hop_limit().checked_sub(1).filter(|left| *left > 0)?;
        packet.set_hop_limit(left);
        packet.fill_checksum();
    }
    Some(frame)
}

/// Sends frames in at both ports, and checks that `want` of each comes out at the other, in order. Returns what the image
/// said.
fn exchange(
    ground: &Ground,
    machine: Machine,
    want: fn(Vec<u8>) -> Option<Vec<u8>>,
) -> Result<String, Failed> {
    let ends = vec![End::default(), End::default()];
    let mut rig = ImageRig::start(ground, machine, ends.clone())?;
    let sent: Vec<Vec<u8>> = (0..FRAMES).map(frame).collect();
    let wanted: Vec<Vec<u8>> = sent.iter().cloned().filter_map(want).collect();
    // They are taken from the back.
    let offered: Vec<Vec<u8>> = sent.into_iter().rev().collect();
    rig.offer(&ends, vec![offered.clone(), offered])?;
    let back: Vec<_> = ends.iter().map(|end| end.back(wanted.len())).collect();
    let said = rig.quit()?;
    for back in back {
        ensure(back == wanted, || {
            format!("{} of {} frames came back, or not as they should", back.len(), wanted.len())
        })?;
    }
    for line in lines(&said, "stats") {
        let (rx, tx, gone) = (number(&line, "rx_frames"), number(&line, "tx_frames"), dropped(&line));
        let right = (rx, tx, gone) == (FRAMES as u64, wanted.len() as u64, (FRAMES - wanted.len()) as u64);
        ensure(right, || format!("{line:?}"))?;
    }
    Ok(said)
}

fn custom_mode(ground: &Ground) -> Result<(), Failed> {
    let said = exchange(ground, machine(example("custom-mode")?, "--forward-mode=ttl"), aged)?;
    let gone = (0..FRAMES).filter(|n| aged(frame(*n)).is_none()).count() as u64;
    for line in lines(&said, "stats") {
        ensure(gone > 0 && number(&line, "drop.by-mode") == gone, || format!("{line:?}"))?;
    }
    Ok(())
}

fn other_modes(ground: &Ground) -> Result<(), Failed> {
    let swapped = |frame: Vec<u8>| Some(frames::swapped(&frame));
    exchange(ground, machine(example("custom-mode")?, "--forward-mode=macswap"), swapped).map(drop)
}

fn unknown_mode(ground: &Ground) -> Result<(), Failed> {
    let said = |image, told: &str| {
        let machine = machine(image, "--forward-mode=tll");
        let (status, said) = Guest::start(machine.command(&ground.qemu))?.end()?;
        let good = status == Some(DEBUG_EXIT_FAILURE) && said.contains(told);
        ensure(good, || format!("no {told:?} in {status:?}\n{said}"))
    };
    said(example("custom-mode")?, "barewire: error: option --forward-mode=tll: io, mac, ")?;
    said(example("custom-mode")?, "shared_rxq or ieee1588, or ttl\n")?;
    said(ground.dev_image.clone(), "shared_rxq or ieee1588\n")
}

/// `barewire run --image ... --forward ttl`: a capture of which more is dropped than may be under way.
fn run_of_a_custom_mode(ground: &Ground) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("in.pcap");
    let last_hop = |n: usize| {
        let mut frame = frame(n);
        let mut packet = Ipv4Packet::new_unchecked(&mut frame[14..]);
        packet.set_hop_limit(1);
        packet.fill_checksum();
        frame
    };
    let sent: Vec<Vec<u8>> =
        (0..400).map(|n| if n % 8 < 3 || n % 16 == 9 { frame(n) } else { last_hop(n) }).collect();
    let left = sent.iter().cloned().filter_map(aged).count() as u64;
    let records: Vec<captures::Record> =
        sent.iter().map(|frame| (frame.clone(), frame.len() as u32)).collect();
    captures::write(&path, &records);
    let run = |forward| RunOptions {
        forward: Forward::Other(forward),
        pcap: Some(path.clone()),
        accel: Some(Accel::Tcg),
        in_flight: 64,
        ..RunOptions::default()
    };
    let image = Some(example("custom-mode")?);
    let summary = barewire::run::run(&RunOptions { image, ..run("ttl") })?;
    let books = (summary.offered, summary.returned, summary.dropped, summary.lost, summary.wrong);
    let right = (800, 2 * left, 800 - 2 * left, 0, 0);
    ensure(summary.good() && books == right, || format!("{books:?}, not {right:?}\n{summary}"))?;
    // Who has no such mode says so.
    let image = Some(ground.dev_image.clone());
    let refused =
        barewire::run::run(&RunOptions { image, ..run("ttl") }).err().map(|error| error.to_string());
    let told = "option --forward-mode=ttl: io, mac, macswap";
    ensure(refused.as_ref().is_some_and(|error| error.contains(told)), || format!("{refused:?}"))
}

/// Two e1000 cards of QEMU's own exchange frames of all lengths, through rings that go round many times.
fn custom_driver(ground: &Ground) -> Result<(), Failed> {
    const BATCH: usize = 16;
    let options = "--forward-mode=macswap --rxd=64 --txd=96";
    let mut machine = machine(example("custom-driver")?, options);
    let mut plug = |mac| Datagrams::plug(&mut machine, "e1000", mac);
    let wires = [plug("52:54:00:00:00:01")?, plug("52:54:00:00:00:02")?];
    let mut guest = Guest::start(machine.command(&ground.qemu))?;
    guest.wait_for("barewire ready: 2 ports")?;
    // Up to a tagged frame of 1518 bytes.
    let sent = |port: usize, n: usize| frames::numbered((n * 2 + port) as u32, 60 + (n * 7 + port) % 1459);
    let mut bytes = [0; 2];
    for batch in 0..FRAMES / BATCH {
        let batch = batch * BATCH..(batch + 1) * BATCH;
        for n in batch.clone() {
            wires.iter().enumerate().try_for_each(|(port, wire)| wire.send(&sent(port, n)))?;
        }
        for (port, wire) in wires.iter().enumerate() {
            for n in batch.clone() {
                let want = frames::swapped(&sent(port ^ 1, n));
                let back = wire.receive()?;
                bytes[port] += want.len();
                ensure(back == want, || format!("frame {n} of port {}:\n{back:?}\n{want:?}", port ^ 1))?;
            }
        }
    }
    guest.say("quit\n")?;
    let (status, said) = guest.end()?;
    let good = status == Some(DEBUG_EXIT_SUCCESS) && said.contains("barewire: end status=ok");
    ensure(good, || format!("{status:?}\n{said}"))?;
    let all = FRAMES / BATCH * BATCH;
    for told in [
        "barewire: port 0 e1000_0 mac=52:54:00:00:00:01 link=up speed=1000 rx_path=\"scalar\"".to_owned(),
        format!("rx_frames={all} rx_bytes={} tx_frames={all} tx_bytes={}", bytes[1], bytes[0]),
        format!("rx_frames={all} rx_bytes={} tx_frames={all} tx_bytes={}", bytes[0], bytes[1]),
    ] {
        ensure(said.lines().any(|line| line.contains(&told)), || format!("no {told:?} in\n{said}"))?;
    }
    Ok(())
}

/// More queues than the card has, and longer rings.
fn custom_driver_refuses(ground: &Ground) -> Result<(), Failed> {
    for (options, told) in [
        ("--rxq=2 --txq=2", "barewire: error: e1000_0: queue 1: the card has queue 0 alone"),
        (
            "--rxd=4128",
            "barewire: error: e1000_0: ring of 4128 descriptors: a multiple of 32 to 4096 is needed",
        ),
    ] {
        let mut machine = machine(example("custom-driver")?, options);
        let _wire = Datagrams::plug(&mut machine, "e1000", "52:54:00:00:00:01")?;
        let (status, said) = Guest::start(machine.command(&ground.qemu))?.end()?;
        let good = status == Some(DEBUG_EXIT_FAILURE) && said.contains(told);
        ensure(good, || format!("no {told:?} in {status:?}\n{said}"))?;
    }
    Ok(())
}

/// The stock image has no driver for that card.
fn no_driver(ground: &Ground) -> Result<(), Failed> {
    let mut machine = machine(ground.dev_image.clone(), "");
    let _wire = Datagrams::plug(&mut machine, "e1000", "52:54:00:00:00:01")?;
    let (status, said) = Guest::start(machine.command(&ground.qemu))?.end()?;
    let told = "barewire: error: no port: ";
    ensure(status == Some(DEBUG_EXIT_FAILURE) && said.contains(told), || format!("{status:?}\n{said}"))
}
