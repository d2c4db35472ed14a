//! Two ports of the software XL710 under Linux, joined by a cable: TCP with everything that the driver leaves to the
//! card, and with nothing of it.

use std::process::ExitCode;

use libtest_mimic::Failed;
use model::wire::PeerWire;
use rig::Watch;
use rig::linux::Linux;
use rig::linux_guest::LinuxGuest;
use rig::machine::{Ground, case, ensure, full, run_with};
use rig::watch::Flow;

fn main() -> ExitCode {
    let missing = Linux::obtain().err().map(|why| format!("no Debian kernel can be had: {why}"));
    let mut cases = vec![case("linux_sends_100_mb_in_a_vlan_between_two_ports", |ground| {
        linux_transfers(ground, 2, 100)
    })];
    if full() {
        cases.push(case("linux_sends_100_mb_with_one_cpu", |ground| linux_transfers(ground, 1, 100)));
    }
    run_with(cases, missing)
}

/// eth1 goes into a network namespace of its own, so that what is sent to it crosses the wire. Each port has an address
/// without tag, and one on an interface for VLAN 5.
const TRANSFER: &str = r#"
load llc stp garp mrp 8021q
plug='ip link set $0 mtu 9000 up; ip link add link $0 name $0.5 type vlan id 5; ip addr add 10.0.0.$1/24 dev $0
    ip addr add 10.0.5.$1/24 dev $0.5; ip link set $0.5 up'
far() { nsenter -t $(cat /tmp/pid) -n "$@"; }
wait_for '[ -e /sys/class/net/eth1 ]'
unshare -n sh -c 'for all in /proc/sys/net/ipv6/conf/*; do echo 1 > $all/disable_ipv6; done; echo $$ > /tmp/pid
    exec sleep 9999' &
wait_for '[ -s /tmp/pid ]'
ip link set eth1 netns $(cat /tmp/pid)
sh -c "$plug" eth0 1; far sh -c "$plug" eth1 2
# Turning it off resets the function, after which Linux counts from 0 again, so it is done at the start.
ethtool -K eth0 ntuple off; far ethtool -K eth1 ntuple off
carrier
for to in 10.0.0.2 10.0.5.2; do wait_for "ping -c 1 -W 1 $to > /dev/null"; done
for size in 56 1400 8000; do ping -A -c 300 -s $size 10.0.0.2 | grep transmitted; done
# What both network devices count, once it is what was on the wire: packets and bytes in and out.
near_net() { for c in rx_packets rx_bytes tx_packets tx_bytes; do count eth0 $c; done; }
far_net() { far ethtool -S eth1 | sed -n -e 's/^ *[rt]x_packets: /p /p' -e 's/^ *[rt]x_bytes: /b /p'; }
books() {
    for i in $(seq 100); do
        ask books $1
        set -- $1 $(near_net) $(far_net | grep p | cut -c3-) $(far_net | grep b | cut -c3-)
        if [ "$2 $4 $6 $7" = "$answer" ]; then
            echo "book $1 eth0 $2 $3 $4 $5"; echo "book $1 eth1 $6 $8 $7 $9"; ask settled; return
        fi
        sleep 0.1
    done
    echo "gave up on: books $1: $*, wire $answer"
}
send() {
    dd if=/dev/urandom of=/tmp/part bs=1M count=2 2>/dev/null
    for n in $(seq $(($2 / 2))); do echo $n; cat /tmp/part; done > /tmp/sent
    rm -f /tmp/f; mkfifo /tmp/f; (exec 3<>/tmp/f; far nc -l -p 5000 <&3 > /tmp/got; echo > /tmp/end) &
    wait_for 'far netstat -ltn | grep -q :5000'
    nc 10.0.5.2 5000 < /tmp/sent &
    for i in $(seq 2000); do [ -e /tmp/end ] && break; sleep 0.1; done
    echo "$1: $(wc -c < /tmp/got) bytes, hashes $(md5sum /tmp/sent /tmp/got | cut -d' ' -f1 | uniq | wc -l)"
    rm -f /tmp/end /tmp/sent /tmp/got; kill %2 %3 2> /dev/null
}
# From here on only VLAN 5 is used, and no address is asked for again.
ip addr flush dev eth0; far ip addr flush dev eth1
books begin
send everything $megabytes
books end
off="rx off tx off tso off gso off gro off rxvlan off txvlan off rxhash off"
ethtool -K eth0 $off; far ethtool -K eth1 $off; carrier; wait_for "ping -c 1 -W 1 10.0.5.2 > /dev/null"
books plain-begin
send nothing 4
books plain-end
errors eth0
"#;

/// The two ends of the cable.
struct Ends {
    guest: LinuxGuest,
    watches: [Watch; 2],
}

impl Ends {
    /// The guest asks again and again for what was on the wire, until its network devices have counted as much; that is
    /// returned.
    fn books(&mut self) -> Result<[[Flow; 2]; 2], Failed> {
        let mut flows = [[Flow::default(); 2]; 2];
        loop {
            let settled = self.guest.asked("")?.starts_with("settled");
            if settled {
                self.guest.answer("done")?;
                return Ok(flows);
            }
            flows = self.watches.each_ref().map(|watch| [watch.to_card(), watch.from_card()]);
            let ports = self.guest.cards.status();
            let taken = |port: usize| flows[port][0].frames.wrapping_sub(ports[port].counters.rx_filtered);
            let words = [taken(0), flows[0][1].frames, taken(1), flows[1][1].frames].map(|n| n.to_string());
            self.guest.answer(&words.join(" "))?;
        }
    }
}

fn linux_transfers(ground: &Ground, cpus: u32, megabytes: usize) -> Result<(), Failed> {
    let (near, far) = PeerWire::pair();
    let (near, near_watch) = Watch::over(Box::new(near));
    let (far, far_watch) = Watch::over(Box::new(far));
    let script = format!("megabytes={megabytes}\n{TRANSFER}");
    let guest = LinuxGuest::boot(ground, &script, cpus, vec![near, far])?;
    let mut ends = Ends { guest, watches: [near_watch, far_watch] };
    let [begin, end, plain_begin, plain_end] = [ends.books()?, ends.books()?, ends.books()?, ends.books()?];
    let outcome = ends.guest.finish()?;
    let pings = outcome.said.matches("300 packets transmitted, 300 packets received, 0% packet loss").count();
    ensure(pings == 3, || outcome.said.clone())?;
    // Parts of 2 MiB, each behind its number in a line.
    let size = |parts: usize| (1..=parts).map(|n| n.to_string().len() + 1 + (2 << 20)).sum::<usize>();
    outcome.has(&format!("everything: {} bytes, hashes 1\n", size(megabytes / 2)))?;
    outcome.has(&format!("nothing: {} bytes, hashes 1\n", size(2)))?;
    outcome.no_errors()?;
    // Linux programs a flow director filter for each TCP connection.
    let directed = [0, 1].map(|port: usize| outcome.ports[port].counters.rx_directed);
    ensure(directed.iter().all(|count| *count > 100), || format!("directed {directed:?}"))?;
    for (name, before, after) in [("", begin, end), ("plain-", plain_begin, plain_end)] {
        for port in 0..2 {
            let [given, sent] = [0, 1].map(|way| difference(&after[port][way], &before[port][way]));
            // Every frame of the transfer was tagged on the wire, whoever put the tag there.
            ensure(sent.frames > 0 && sent.tagged == sent.frames, || format!("{name}{port}: {sent:?}"))?;
            // A tag that the card puts in and takes out is not in what the network device counts.
            let wire = if name.is_empty() {
                [given.frames, given.stripped_bytes, sent.frames, sent.net_bytes]
            } else {
                [given.frames, given.bytes, sent.frames, sent.net_bytes + 4 * sent.tagged]
            };
            let book = |when: &str| outcome.numbers(&format!("book {name}{when} eth{port}"));
            let net: Vec<u64> =
                book("end")?.iter().zip(book("begin")?).map(|(end, begin)| end - begin).collect();
            ensure(net == wire, || format!("{name}{port}: net {net:?}, wire {wire:?}"))?;
        }
    }
    // The card cut most of what was sent out of longer pieces, and nothing any more once that was switched off.
    let segments = outcome.ports[0].counters.tx_segments;
    let sent = difference(&end[0][1], &begin[0][1]).frames;
    ensure(segments > sent / 2 && segments <= end[0][1].frames, || {
        format!("{segments} segments, {sent} frames")
    })?;
    // What one card put on the wire the other took in.
    let [a, b] = [outcome.ports[0].counters, outcome.ports[1].counters];
    ensure(a.tx_frames == b.rx_frames + b.rx_filtered, || format!("{a:?} {b:?}"))?;
    ensure(b.tx_frames == a.rx_frames + a.rx_filtered, || format!("{a:?} {b:?}"))
}

fn difference(after: &Flow, before: &Flow) -> Flow {
    Flow {
        frames: after.frames - before.frames,
        bytes: after.bytes - before.bytes,
        tagged: after.tagged - before.tagged,
        stripped_bytes: after.stripped_bytes - before.stripped_bytes,
        net_bytes: after.net_bytes - before.net_bytes,
    }
}
