//! ethtool on the software XL710: what it tells, and traffic after each thing that it sets.

use std::process::ExitCode;

use libtest_mimic::Failed;
use model::wire::EchoWire;
use rig::Watch;
use rig::linux::Linux;
use rig::linux_guest::{LinuxGuest, Outcome};
use rig::machine::{Ground, case, ensure, run_with};
use rig::watch::Flow;

fn main() -> ExitCode {
    let missing = Linux::obtain().err().map(|why| format!("no Debian kernel can be had: {why}"));
    run_with(vec![case("ethtool_tells_and_sets_what_the_card_has", ethtool)], missing)
}

const SCRIPT: &str = r#"
ip addr add 10.0.0.1/24 dev eth0; ip link set eth0 up; carrier
pings() { wait_for 'ping -c 1 -W 1 10.0.0.77 > /dev/null'; ping -A -c 20 10.0.0.77 | sed -n "s/.*transmitted/$1: &/p"; }
show() { echo "show $1"; shift; "$@"; echo; }
pings "at first"
show settings ethtool eth0
show driver ethtool -i eth0
show rings ethtool -g eth0
show channels ethtool -l eth0
ask statistics; reach eth0 tx_packets $answer; show statistics ethtool -S eth0
show coalescing ethtool -c eth0
show "udp hash" ethtool -n eth0 rx-flow-hash udp4
show "tcp6 hash" ethtool -n eth0 rx-flow-hash tcp6
show nvm ethtool -e eth0 offset 48 length 4
show "online test" ethtool -t eth0 online
for size in 64 96 4096 8160; do
    ethtool -G eth0 rx $size tx $size; carrier; pings "ring of $size"
    show "rings $size" ethtool -g eth0
done
for queues in 1 2; do
    ethtool -L eth0 combined $queues; carrier; pings "$queues queues"
    show "channels $queues" ethtool -l eth0
done
# The driver gives an interrupt 1 ms, which is not always enough on a busy machine.
for n in $(seq 20); do ethtool -t eth0 offline > /tmp/tested && break; done
show "offline test" cat /tmp/tested
carrier; pings "after the test"
ethtool -K eth0 ntuple off
for feature in rx tx sg gso gro rxvlan txvlan rxhash; do
    for state in off on; do
        ethtool -K eth0 $feature $state > /dev/null; show "$feature $state" ethtool -k eth0; pings "$feature $state"
    done
done
ethtool -C eth0 adaptive-rx off adaptive-tx off rx-usecs 50 tx-usecs 60
show "coalescing set" ethtool -c eth0
ip link set eth0 mtu 9702; carrier
ping -A -c 20 -s 9674 10.0.0.77 | sed -n 's/.*transmitted/longest: &/p'
ip link set eth0 address 02:00:00:00:00:55; pings "other address"
errors eth0
"#;

/// What `show NAME` gave, one entry a line, with single spaces.
fn shown(outcome: &Outcome, name: &str) -> Result<Vec<String>, Failed> {
    let begin = format!("show {name}");
    let lines = outcome.said.lines().skip_while(|line| *line != begin).skip(1);
    let lines = lines.take_while(|line| !line.starts_with("show "));
    let lines: Vec<String> =
        lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    ensure(!lines.is_empty(), || format!("{name} was not shown:\n{}", outcome.said))?;
    Ok(lines)
}

fn shows(outcome: &Outcome, name: &str, wanted: &[&str]) -> Result<(), Failed> {
    let lines = shown(outcome, name)?;
    for want in wanted {
        ensure(lines.iter().any(|line| line == want), || format!("{name} has no {want:?}: {lines:#?}"))?;
    }
    Ok(())
}

fn ethtool(ground: &Ground) -> Result<(), Failed> {
    let (wire, watch) = Watch::over(Box::<EchoWire>::default());
    let mut guest = LinuxGuest::boot(ground, SCRIPT, 2, vec![wire])?;
    guest.asked("statistics")?;
    let (given, sent) = (watch.to_card(), watch.from_card());
    guest.answer(&sent.frames.to_string())?;
    let outcome = guest.finish()?;
    identity(&outcome)?;
    statistics(&outcome, &given, &sent)?;
    for size in [64, 96, 4096, 8160] {
        let (rx, tx) = (format!("RX: {size}"), format!("TX: {size}"));
        shows(&outcome, &format!("rings {size}"), &["RX: 8160", "TX: 8160", &rx, &tx])?;
        let lines = shown(&outcome, &format!("rings {size}"))?;
        let current = lines.iter().skip_while(|line| *line != "Current hardware settings:");
        ensure(current.filter(|line| **line == rx || **line == tx).count() == 2, || format!("{lines:#?}"))?;
    }
    for queues in [1, 2] {
        let lines = shown(&outcome, &format!("channels {queues}"))?;
        let want = format!("Combined: {queues}");
        ensure(lines.iter().rfind(|line| line.starts_with("Combined: ")) == Some(&want), || {
            format!("{lines:#?}")
        })?;
    }
    let passed = ["The test result is PASS", "Link test (on/offline) 0"];
    shows(&outcome, "online test", &passed)?;
    shows(&outcome, "offline test", &passed)?;
    let offline = ["Register test (offline) 0", "Eeprom test (offline) 0", "Interrupt test (offline) 0"];
    shows(&outcome, "offline test", &offline)?;
    shows(&outcome, "coalescing set", &["Adaptive RX: off TX: off", "rx-usecs: 50", "tx-usecs: 60"])?;
    // Two settings of channels, four of rings, eight features off and on, and four more.
    let pings = outcome.said.matches("20 packets transmitted, 20 packets received, 0% packet loss").count();
    ensure(pings == 2 + 4 + 16 + 4, || format!("{pings} times:\n{}", outcome.said))?;
    features(&outcome)?;
    outcome.no_errors()
}

/// Each feature was really off and on again, by its long name in `ethtool -k`.
fn features(outcome: &Outcome) -> Result<(), Failed> {
    for (feature, name) in [
        ("rx", "rx-checksumming"),
        ("tx", "tx-checksumming"),
        ("sg", "scatter-gather"),
        ("gso", "generic-segmentation-offload"),
        ("gro", "generic-receive-offload"),
        ("rxvlan", "rx-vlan-offload"),
        ("txvlan", "tx-vlan-offload"),
        ("rxhash", "receive-hashing"),
    ] {
        for state in ["off", "on"] {
            shows(outcome, &format!("{feature} {state}"), &[&format!("{name}: {state}")])?;
        }
    }
    shows(outcome, "rxhash on", &["tcp-segmentation-offload: on"])
}

/// Names, versions, sizes, and what is hashed.
fn identity(outcome: &Outcome) -> Result<(), Failed> {
    shows(
        outcome,
        "settings",
        &[
            "Supported link modes: 40000baseSR4/Full",
            "Speed: 40000Mb/s",
            "Duplex: Full",
            "Link detected: yes",
        ],
    )?;
    shows(
        outcome,
        "driver",
        &["driver: i40e", "firmware-version: 6.08 0x80000001 0.0.0", "bus-info: 0000:01:00.0"],
    )?;
    shows(outcome, "rings", &["RX: 512", "TX: 512"])?;
    shows(outcome, "channels", &["Combined: 2"])?;
    shows(outcome, "coalescing", &["Adaptive RX: on TX: on", "rx-usecs: 50"])?;
    // What a card hashes before anybody has chosen.
    let fields = ["IP SA", "IP DA", "L4 bytes 0 & 1 [TCP/UDP src port]", "L4 bytes 2 & 3 [TCP/UDP dst port]"];
    shows(outcome, "udp hash", &fields)?;
    shows(outcome, "tcp6 hash", &fields)?;
    // Words 0x18 and 0x19: the version, and no wake on LAN.
    shows(outcome, "nvm", &["0x0030: 08 60 0f 00"])
}

/// What was on the wire so far: echo requests after an ARP request, and the answers; in the network device's books, the
/// queues' and the port's.
fn statistics(outcome: &Outcome, given: &Flow, sent: &Flow) -> Result<(), Failed> {
    let lines = shown(outcome, "statistics")?;
    let number = |name: &str| {
        let value: Option<u64> =
            lines.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")?.parse().ok());
        value.ok_or_else(|| format!("no {name} in {lines:#?}"))
    };
    let sum = |names: &[&str]| names.iter().map(|name| number(name)).sum::<Result<u64, _>>();
    for (names, value) in [
        (&["rx_packets"][..], given.frames),
        (&["tx_packets"], sent.frames),
        (&["rx_bytes"], given.stripped_bytes),
        (&["tx_bytes"], sent.net_bytes),
        (&["rx-0.packets", "rx-1.packets"], given.frames),
        (&["tx-0.packets", "tx-1.packets"], sent.frames),
        (&["port.rx_unicast"], given.frames),
        (&["port.tx_unicast", "port.tx_broadcast"], sent.frames),
        (&["port.tx_broadcast"], 1),
        // The FCS is counted at the port.
        (&["port.rx_bytes"], given.bytes + 4 * given.frames),
        (&["port.tx_bytes"], sent.bytes + 4 * sent.frames),
        (&["port.rx_size_64"], 1),
        (&["port.rx_size_127"], given.frames - 1),
        (&["port.fdir_atr_match", "port.fdir_sb_match", "port.rx_crc_errors", "rx_errors", "rx_dropped"], 0),
    ] {
        ensure(sum(names)? == value, || format!("{names:?} is not {value}: {lines:#?}"))?;
    }
    Ok(())
}
