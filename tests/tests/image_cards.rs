//! Options of the image that are about what cards do by themselves.

use std::process::ExitCode;

use barewire::qemu::{Accel, Machine};
use libtest_mimic::Failed;
use rig::flows::tagged;
use rig::image_rig::{End, ImageRig, lines, number};
use rig::machine::{Ground, case, ensure, run};

fn main() -> ExitCode {
    run(vec![
        case("options_of_cards_reach_the_card", options_reach_the_card),
        case("two_tags_are_stripped", two_tags_are_stripped),
        case("extended_statistics_are_told", statistics_are_told),
    ])
}

const OWN: [u8; 6] = [0x68, 5, 0xca, 0, 0, 0];
const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 9];
const GROUP: [u8; 6] = [1, 0, 0x5e, 0, 0, 1];

fn to(mac: [u8; 6], number: u8) -> Vec<u8> {
    [&mac[..], &[2, 0, 0, 0, 0, 5], &[0x88, 0xb5], &[number; 60]].concat()
}

fn boot(ground: &Ground, options: &str, ends: &[End]) -> Result<ImageRig, Failed> {
    let machine = Machine::new(Accel::Tcg, ground.image.clone(), options.into(), Vec::new());
    ImageRig::start(ground, machine, ends.to_vec())
}

/// Of frames to the port, to others, to a group, with a tag that is let in and with one that is not, those arrive that
/// should, and the tag is gone from one.
fn options_reach_the_card(ground: &Ground) -> Result<(), Failed> {
    let ends = [End::default(), End::default()];
    let options = "--forward-mode=io --no-promiscuous --allmulti --enable-hw-vlan-strip --enable-hw-vlan-filter \
                   --rx-vlan=5,7 --flow-ctrl=full --rss-key=symmetric";
    let mut rig = boot(ground, options, &ends)?;
    let offered = [
        tagged(&to(OWN, 1), 5),
        tagged(&to(OWN, 2), 6),
        to(OWN, 3),
        to(OTHER, 4),
        to(GROUP, 5),
        tagged(&to(OWN, 6), 0x6007),
    ];
    // Taken from the end.
    rig.offer(&ends, vec![offered.iter().rev().cloned().collect(), Vec::new()])?;
    let back = ends[1].back(4);
    let said = rig.quit()?;
    let want = [to(OWN, 1), to(OWN, 3), to(GROUP, 5), to(OWN, 6)];
    ensure(back == want, || format!("{back:02x?}\n{said}"))
}

/// Both tags of a frame are gone, and one where there is one.
fn two_tags_are_stripped(ground: &Ground) -> Result<(), Failed> {
    let ends = [End::default(), End::default()];
    let mut rig = boot(ground, "--forward-mode=io --enable-hw-vlan-strip --enable-hw-qinq-strip", &ends)?;
    let offered = vec![tagged(&to(OTHER, 2), 6), tagged(&tagged(&to(OTHER, 1), 6), 5)];
    rig.offer(&ends, vec![offered, Vec::new()])?;
    let back = ends[1].back(2);
    let said = rig.quit()?;
    ensure(back == [to(OTHER, 1), to(OTHER, 2)], || format!("{back:02x?}\n{said}"))
}

/// What the wires saw stands under DPDK's names, by port and by queue.
fn statistics_are_told(ground: &Ground) -> Result<(), Failed> {
    let ends = [End::default(), End::default()];
    let mut rig = boot(ground, "--forward-mode=io --xstats", &ends)?;
    let offered: Vec<_> = (0..7).map(|n| to([OWN, GROUP][usize::from(n % 2)], n)).collect();
    rig.offer(&ends, vec![offered, Vec::new()])?;
    let back = ends[1].back(7).len();
    let said = rig.quit()?;
    ensure(back == 7, || format!("{back} frames came back\n{said}"))?;
    for (port, name, want) in [
        (0, "rx_good_packets", 7),
        (0, "rx_good_bytes", 7 * 74),
        (0, "rx_unicast_packets", 4),
        (0, "rx_multicast_packets", 3),
        (0, "rx_size_65_to_127_packets", 7),
        (0, "rx_q0_packets", 7),
        (1, "tx_good_packets", 7),
        (1, "tx_size_65_to_127_packets", 7),
        (1, "tx_q0_bytes", 7 * 74),
    ] {
        let told = lines(&said, "xstat")
            .into_iter()
            .find(|line| number(line, "port") == port && line.contains_key(name));
        let count = told.map(|line| number(&line, name));
        ensure(count == Some(want), || format!("port {port}: {name} is {count:?}, not {want}\n{said}"))?;
    }
    Ok(())
}
