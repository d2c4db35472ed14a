//! What of the frames on the wire the software XL710 gives to Linux, and to which of its queues: VLANs, multicast,
//! promiscuous mode, RSS.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use rig::linux::Linux;
use rig::linux_guest::{LinuxGuest, Outcome};
use rig::machine::{Ground, case, ensure, run_with};
use rig::{TestWire, rss};

fn main() -> ExitCode {
    let missing = Linux::obtain().err().map(|why| format!("no Debian kernel can be had: {why}"));
    run_with(vec![case("linux_gets_the_frames_that_it_asked_for_in_its_queues", linux_filters)], missing)
}

/// A bound for what the card or the guest should do at once.
const LIMIT: Duration = Duration::from_secs(30);
/// Frames of a kind in a step.
const BATCH: usize = 10;

const OWN: [u8; 6] = LinuxGuest::mac(0);
const OTHER: [u8; 6] = [0x02, 0, 0, 0, 0, 0x99];
const BROADCAST: [u8; 6] = [0xff; 6];
/// All hosts of a network (RFC 1112), which every host joins; and a group that nobody joins.
const ALL_HOSTS: [u8; 6] = [0x01, 0, 0x5e, 0, 0, 1];
const NO_GROUP: [u8; 6] = [0x01, 0, 0x5e, 0, 0, 0x99];
/// The group of an IPv6 address that ends in aa:bbcc (RFC 4291, 2.7.1; RFC 2464).
const SOLICITED: [u8; 6] = [0x33, 0x33, 0xff, 0xaa, 0xbb, 0xcc];

/// Destination, tag, and whether Linux is to get it.
type Kind = ([u8; 6], Option<u16>, bool);

/// A guest and the wire of its only card.
struct Bench {
    guest: LinuxGuest,
    wire: TestWire,
}

/// An Ethernet frame of 64 bytes with a tag or without, of a type for experiments (IEEE 802, 0x88b5).
fn frame(to: [u8; 6], tag: Option<u16>) -> Vec<u8> {
    let mut frame = [&to[..], &[0x02, 0, 0, 0, 0, 1]].concat();
    if let Some(tag) = tag {
        frame.extend([[0x81, 0x00], tag.to_be_bytes()].concat());
    }
    frame.extend([0x88, 0xb5]);
    frame.resize(64, 0x5a);
    frame
}

/// One guest for both, since it is its boot that takes the time.
fn linux_filters(ground: &Ground) -> Result<(), Failed> {
    let wire = TestWire::default();
    let guest = LinuxGuest::boot(ground, &[FILTERS, SPREAD].concat(), 2, vec![wire.card_end()])?;
    let mut bench = Bench { guest, wire };
    filters(&mut bench)?;
    let wanted = spread(&mut bench)?;
    let outcome = bench.guest.finish()?;
    filters_were_counted(&outcome)?;
    flows_were_spread(&outcome, &wanted)
}

impl Bench {
    /// Sends frames to the card; says how many it gave to the guest.
    fn send(&mut self, frames: &[Vec<u8>]) -> Result<u64, Failed> {
        let looked_at = |guest: &LinuxGuest| {
            let counters = guest.cards.status()[0].counters;
            (counters.rx_frames + counters.rx_filtered + counters.rx_missed, counters.rx_frames)
        };
        let (before, taken_before) = looked_at(&self.guest);
        frames.iter().for_each(|frame| self.wire.offer(frame.clone()));
        self.guest.cards.kick();
        let until = Instant::now() + LIMIT;
        loop {
            let (now, taken) = looked_at(&self.guest);
            if now == before + frames.len() as u64 {
                return Ok(taken - taken_before);
            }
            ensure(Instant::now() < until, || format!("the card looked at {} frames", now - before))?;
            std::thread::yield_now();
        }
    }

    /// Sends a frame again and again until the card takes it, or does not any more: the driver sets its filters when it
    /// gets round to it.
    fn settle(&mut self, frame: &[u8], wanted: bool) -> Result<(), Failed> {
        let until = Instant::now() + LIMIT;
        while (self.send(&[frame.to_vec()])? == 1) != wanted {
            ensure(Instant::now() < until, || format!("taken is never {wanted}: {frame:02x?}"))?;
        }
        Ok(())
    }

    /// The guest is ready for `step`. Kinds of frames are sent, once the driver has set all filters for them:
    /// destination, tag, and whether the guest is to get them. It goes on when it has counted every frame that the card
    /// gave it.
    fn step(&mut self, step: &str, kinds: &[Kind]) -> Result<(), Failed> {
        self.guest.asked(step)?;
        for (to, tag, wanted) in kinds {
            self.settle(&frame(*to, *tag), *wanted)?;
        }
        for (to, tag, wanted) in kinds {
            let taken = self.send(&vec![frame(*to, *tag); BATCH])?;
            let want = if *wanted { BATCH as u64 } else { 0 };
            ensure(taken == want, || {
                format!("{step}: {taken} of {BATCH} frames to {to:02x?} tag {tag:?}, not {want}")
            })?;
        }
        self.go_on()
    }

    fn go_on(&mut self) -> Result<(), Failed> {
        let taken = self.guest.cards.status()[0].counters.rx_frames;
        self.guest.answer(&taken.to_string())
    }
}

const FILTERS: &str = r#"
load llc stp garp mrp 8021q
step() { ask $1; reach eth0 rx_packets $answer; echo "taken $1 $answer $(count eth0 rx_packets)"; }
ip link set eth0 up; carrier
step no-vlan
for v in 5 7; do vconfig add eth0 $v > /dev/null; ip link set eth0.$v up; done
step vlan
echo "vlans $(count eth0.5 rx_packets) $(count eth0.7 rx_packets)"
vconfig rem eth0.7 > /dev/null
step one-vlan
ip link set eth0 promisc on
step promiscuous
ip link set eth0 promisc off
step not-promiscuous
vconfig rem eth0.5 > /dev/null
step no-vlan-again
echo 0 > /proc/sys/net/ipv6/conf/eth0/disable_ipv6; ip addr add fd00::aa:bbcc/64 dev eth0
step member
echo "groups joined $(ethtool -S eth0 | sed -n 's/^ *port.rx_multicast: //p')"
ifconfig eth0 allmulti
step all-multicast
echo "groups all $(ethtool -S eth0 | sed -n 's/^ *port.rx_multicast: //p')"
ifconfig eth0 -allmulti
step not-all-multicast
ip addr del fd00::aa:bbcc/64 dev eth0
step no-member
for c in rx_errors tx_errors rx_missed_errors; do echo "$c $(count eth0 $c)"; done
"#;

/// Frames for others, for other VLANs and for groups that nobody joined stay outside, unless Linux wants them.
fn filters(bench: &mut Bench) -> Result<(), Failed> {
    let always = [(OWN, None, true), (BROADCAST, None, true), (ALL_HOSTS, None, true)];
    let with = |more: &[Kind]| [&always[..], more].concat();
    let strangers = [(OTHER, None, false), (NO_GROUP, None, false)];
    // A tag with VLAN 0 bears a priority only (IEEE 802.1Q).
    let vlan_5 = [
        (OWN, Some(0x6000), true),
        (OWN, Some(0x2005), true),
        (BROADCAST, Some(5), true),
        (OWN, Some(6), false),
        (BROADCAST, Some(6), false),
        (OTHER, Some(5), false),
    ];
    let vlan_7 = |wanted| [(OWN, Some(7), wanted), (BROADCAST, Some(7), wanted)];
    let one_vlan = with(&[&vlan_5[..], &vlan_7(false), &strangers].concat());
    // Broadcast stays as it is: promiscuous mode is about the rest.
    let all = [(OWN, Some(6), true), (OTHER, Some(5), true), (OTHER, None, true), (NO_GROUP, None, true)];
    let group = |joined, other| [(SOLICITED, None, joined), (NO_GROUP, None, other), (OTHER, None, false)];

    bench.step("no-vlan", &with(&strangers))?;
    bench.step("vlan", &with(&[&vlan_5[..], &vlan_7(true), &strangers].concat()))?;
    bench.step("one-vlan", &one_vlan)?;
    bench.step("promiscuous", &with(&all))?;
    bench.step("not-promiscuous", &one_vlan)?;
    bench.step("no-vlan-again", &with(&[&strangers[..], &[(OWN, Some(6), true)]].concat()))?;
    bench.step("member", &with(&group(true, false)))?;
    bench.step("all-multicast", &with(&group(true, true)))?;
    bench.step("not-all-multicast", &with(&group(true, false)))?;
    bench.step("no-member", &with(&group(false, false)))
}

fn filters_were_counted(outcome: &Outcome) -> Result<(), Failed> {
    for line in outcome.said.lines().filter_map(|line| line.strip_prefix("taken ")) {
        // The name of the step, what the card gave, what Linux counts.
        let words: Vec<&str> = line.split(' ').collect();
        ensure(words.len() == 3 && words[1] == words[2], || format!("{line}:\n{}", outcome.said))?;
    }
    let vlans = outcome.numbers("vlans ")?;
    // Frames to the own address and to all; a few more were sent until the driver had set its filters.
    ensure(vlans.iter().all(|count| *count >= 2 * BATCH as u64), || format!("VLANs {vlans:?}"))?;
    let (before, after) = (outcome.numbers("groups joined ")?, outcome.numbers("groups all ")?);
    ensure(after[0] >= before[0] + 3 * BATCH as u64, || format!("multicast {before:?}, then {after:?}"))?;
    ["rx_errors 0", "tx_errors 0", "rx_missed_errors 0"].iter().try_for_each(|line| outcome.has(line))
}

/// Names of the settings, in their order.
const SPREADS: [&str; 5] = ["by-default", "by-weight", "with-another-key", "to-one", "by-address"];

const SPREAD: &str = r#"
queues() { for q in 0 1; do ethtool -S eth0 | sed -n "s/^ *rx-$q.packets: //p"; done; }
spread() { ethtool -x eth0; b=$(queues); ask $1; reach eth0 rx_packets $answer; echo "queues $1" $b $(queues); }
spread by-default
ethtool -X eth0 weight 1 3; spread by-weight
ethtool -X eth0 hkey $(for i in $(seq 52); do printf "%02x:" $((i * 37 % 256)); done | sed 's/:$//'); spread with-another-key
ethtool -X eth0 equal 1; spread to-one
ethtool -X eth0 default; ethtool -N eth0 rx-flow-hash udp4 sd; spread by-address
"#;

/// 128 flows of UDP and TCP are sent for each setting; returns the queue of each, as the key and the table say that the
/// driver tells.
fn spread(bench: &mut Bench) -> Result<Vec<Vec<usize>>, Failed> {
    let flows: Vec<rss::Flow> = (0..128).map(rss::Flow::number).collect();
    let frames: Vec<Vec<u8>> = flows.iter().map(|flow| flow.frame(OWN)).collect();
    let mut wanted = Vec::new();
    for step in SPREADS {
        bench.guest.asked(step)?;
        let table = rss::Table::parse(bench.guest.said()).ok_or("ethtool shows no table")?;
        let queue = |flow: &rss::Flow| table.queue(&flow.input(step != "by-address" || flow.tcp));
        wanted.push(flows.iter().map(queue).collect());
        let taken = bench.send(&frames)?;
        ensure(taken == flows.len() as u64, || format!("{step}: {taken} frames were taken"))?;
        bench.go_on()?;
    }
    Ok(wanted)
}

fn flows_were_spread(outcome: &Outcome, wanted: &[Vec<usize>]) -> Result<(), Failed> {
    let count = |queues: &[usize], wanted| queues.iter().filter(|queue| **queue == wanted).count() as u64;
    for (step, want) in
        SPREADS.iter().zip(wanted).map(|(step, want)| (step, [0, 1].map(|queue| count(want, queue))))
    {
        let numbers = outcome.numbers(&format!("queues {step} "))?;
        let counts = [numbers[2] - numbers[0], numbers[3] - numbers[1]];
        ensure(counts == want, || format!("{step}: {counts:?}, not {want:?}:\n{}", outcome.said))?;
        // Both queues are used, where the table names both.
        ensure(*step == "to-one" || counts.iter().all(|count| *count > 0), || format!("{step}: {counts:?}"))?;
    }
    ensure(count(&wanted[3], 0) == 128 && wanted[1] != wanted[0] && wanted[2] != wanted[1], || {
        format!("{wanted:?}")
    })
}
