//! Which loops the image runs: those of the CPU or those that it is told to, and frames that come through each.

use barewire::qemu::{Accel, Machine};
use libtest_mimic::Failed;
use rig::frames;
use rig::image_rig::{End, ImageRig};
use rig::machine::{Ground, case, ensure, run};

const FRAMES: usize = 3000;

fn main() -> std::process::ExitCode {
    let mut cases = Vec::new();
    for (cpu, isa) in [("qemu64", "scalar"), ("Nehalem", "ssse3"), ("Haswell", "avx2"), ("max", "avx2")] {
        cases.push(case(format!("cpu_{cpu}_runs_{isa}"), move |ground| forwards(ground, cpu, "", isa)));
    }
    for isa in ["scalar", "ssse3", "avx2"] {
        let option = format!("--isa={isa}");
        cases.push(case(format!("told_to_run_{isa}"), move |ground| forwards(ground, "max", &option, isa)));
    }
    cases.push(case("two_tags_are_stripped_without_vectors", two_tags));
    run(cases)
}

fn machine(ground: &Ground, cpu: &str, options: &str) -> Machine {
    let mut machine = Machine::new(Accel::Tcg, ground.image.clone(), options.into(), Vec::new());
    machine.cpu = cpu.into();
    machine
}

/// Two ports exchange addresses of frames of every length, a few at a time and many at a time.
fn forwards(ground: &Ground, cpu: &str, option: &str, isa: &str) -> Result<(), Failed> {
    let ends = vec![End::default(), End::default()];
    let machine = machine(ground, cpu, &format!("--forward-mode=macswap {option}"));
    let mut rig = ImageRig::start(ground, machine, ends.clone())?;
    let sent: Vec<Vec<u8>> = (0..FRAMES).map(|n| frames::numbered(n as u32, 60 + n * 7 % 1455)).collect();
    // They are taken from the back.
    rig.offer(&ends, vec![sent.iter().rev().cloned().collect(), Vec::new()])?;
    let back = ends[1].back(FRAMES);
    let said = rig.quit()?;
    let swapped = |frame: &Vec<u8>| [&frame[6..12], &frame[..6], &frame[12..]].concat();
    let want: Vec<Vec<u8>> = sent.iter().map(swapped).collect();
    ensure(back == want, || format!("{} of {FRAMES} frames came back, or not as they should", back.len()))?;
    for told in [
        format!("rx_path=\"{isa} 32B\" tx_path=\"{isa}\""),
        format!("barewire: cpu isa={isa} "),
        format!("reason=\"{}\"", if option.is_empty() { "the best of this CPU" } else { "--isa" }),
    ] {
        ensure(said.contains(&told), || format!("no {told:?} in\n{said}"))?;
    }
    Ok(())
}

/// A queue that can't run the loops that it could says why.
fn two_tags(ground: &Ground) -> Result<(), Failed> {
    let options = "--forward-mode=io --enable-hw-vlan-strip --enable-hw-qinq-strip";
    let mut rig = ImageRig::start(ground, machine(ground, "max", options), vec![End::default(); 2])?;
    rig.guest.wait_for("barewire ready: ")?;
    let said = rig.quit()?;
    let told = "rx_path=\"scalar 32B\" rx_reason=\"two tags are stripped\" tx_path=\"avx2\"";
    ensure(said.contains(told), || format!("no {told:?} in\n{said}"))
}
