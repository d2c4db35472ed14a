//! The software XL710 under a driver that others wrote, Debian's Linux with its own i40e: probe, link, restarts.

use std::process::ExitCode;

use libtest_mimic::Failed;
use model::wire::EchoWire;
use rig::Watch;
use rig::linux::Linux;
use rig::linux_guest::{LinuxGuest, Outcome, run};
use rig::machine::{Ground, case, ensure, full, run_with};
use rig::watch::Flow;

fn main() -> ExitCode {
    let missing = Linux::obtain().err().map(|why| format!("no Debian kernel can be had: {why}"));
    let mut cases = vec![
        case("linux_probes_pings_and_follows_the_link", |ground| linux_probes(ground, 1)),
        case("linux_takes_a_port_down_and_up", linux_restarts),
    ];
    if full() {
        cases.push(case("linux_pings_with_two_cpus", |ground| linux_probes(ground, 2)));
    }
    run_with(cases, missing)
}

const PROBE: &str = r#"
ip addr add 10.0.0.1/24 dev eth0; ip link set eth0 mtu 9000 up; carrier
echo "address $(cat /sys/class/net/eth0/address) speed $(cat /sys/class/net/eth0/speed)"
for size in 56 1400 8000; do ping -A -c 300 -s $size 10.0.0.77 | grep transmitted; done
ask counters; reach eth0 tx_packets $answer
book end eth0; ethtool -S eth0 | grep -v ': 0$'
for n in $(seq 10); do
    ask pull; wait_for '[ "$(cat /sys/class/net/eth0/carrier)" = 0 ]' && echo "saw down $n"
    ask plug; carrier && ping -c 1 -W 5 10.0.0.77 > /dev/null && echo "saw up $n"
done
errors eth0
ip link set eth0 down
rmmod i40e
"#;

/// Probe, link, address, speed, 900 of 900 pings, 10 changes of the link, an orderly removal.
fn linux_probes(ground: &Ground, cpus: u32) -> Result<(), Failed> {
    let (wire, watch) = Watch::over(Box::<EchoWire>::default());
    let mut guest = LinuxGuest::boot(ground, PROBE, cpus, vec![wire])?;
    guest.asked("counters")?;
    let (given, sent) = (watch.to_card(), watch.from_card());
    guest.answer(&sent.frames.to_string())?;
    for _ in 0..10 {
        for (what, up) in [("pull", false), ("plug", true)] {
            guest.asked(what)?;
            guest.cards.set_link(0, up);
            guest.answer("done")?;
        }
    }
    let outcome = guest.finish()?;
    outcome.has("address 68:05:ca:00:00:07 speed 40000")?;
    let pings = outcome.said.matches("300 packets transmitted, 300 packets received, 0% packet loss").count();
    ensure(pings == 3, || outcome.said.clone())?;
    outcome.no_errors()?;
    books_agree(&outcome, &given, &sent)?;
    link_was_followed(&outcome)?;
    let counters = outcome.ports[0].counters;
    ensure(counters.rx_missed == 0 && counters.rx_filtered == 0, || format!("{counters:?}"))
}

/// What Linux and the card's own registers count is what was on the wire, to the byte.
fn books_agree(outcome: &Outcome, given: &Flow, sent: &Flow) -> Result<(), Failed> {
    let book = [given.frames, given.stripped_bytes, sent.frames, sent.net_bytes];
    ensure(outcome.numbers("book end")? == book, || format!("{book:?} on the wire:\n{}", outcome.said))?;
    // The port's own counters have the FCS in them.
    for (name, value) in [
        ("port.rx_bytes:", given.bytes + 4 * given.frames),
        ("port.tx_bytes:", sent.bytes + 4 * sent.frames),
        ("port.rx_unicast:", given.frames),
        ("port.tx_broadcast:", 1),
        ("port.tx_unicast:", sent.frames - 1),
    ] {
        ensure(outcome.numbers(name)? == [value], || format!("{name} {value}? {}", outcome.said))?;
    }
    // Nothing is told of what this card has not.
    ensure(!outcome.said.contains("_match: "), || outcome.said.clone())
}

/// The carrier follows the cable, the log tells each change, and traffic goes on.
fn link_was_followed(outcome: &Outcome) -> Result<(), Failed> {
    for n in 1..=10 {
        outcome.has(&format!("saw down {n}\n"))?;
        outcome.has(&format!("saw up {n}\n"))?;
    }
    // Once more up than down: the first time when the driver was loaded.
    for (text, times) in [("eth0: NIC Link is Down", 10), ("eth0: NIC Link is Up, 40 Gbps Full Duplex", 11)] {
        let told = outcome.said.matches(text).count();
        ensure(told == times, || format!("{text:?} {told} times:\n{}", outcome.said))?;
    }
    Ok(())
}

const RESTARTS: &str = r#"
ip addr add 10.0.0.1/24 dev eth0
for n in $(seq $restarts); do
    ip link set eth0 up; carrier; ping -c 1 -W 5 10.0.0.77 > /dev/null && echo "up $n"; ip link set eth0 down
done
for n in $(seq $loads); do
    rmmod i40e; insmod /tmp/i40e.ko; wait_for '[ -e /sys/class/net/eth0 ]'
    ip addr add 10.0.0.1/24 dev eth0; ip link set eth0 up; carrier; ping -c 1 -W 5 10.0.0.77 > /dev/null && echo "loaded $n"
done
"#;

/// Down and up 20 times, the driver unloaded and loaded 5 times; a ping gets
/// through each time.
fn linux_restarts(ground: &Ground) -> Result<(), Failed> {
    let (restarts, loads) = (20, 5);
    let script = format!("restarts={restarts}; loads={loads}\n{RESTARTS}");
    let outcome = run(ground, &script, 1, vec![Box::<EchoWire>::default()])?;
    for n in 1..=restarts {
        outcome.has(&format!("up {n}\n"))?;
    }
    for n in 1..=loads {
        outcome.has(&format!("loaded {n}\n"))?;
    }
    Ok(())
}
