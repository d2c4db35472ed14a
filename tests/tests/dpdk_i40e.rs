//! The software XL710 under DPDK's own i40e driver: Debian's testpmd in a guest with two cards.
//!
//! Every frame must come back as the forwarding mode has it, and testpmd's account must be the wires'. The loops for AVX2
//! are not among what runs: the driver takes them on CPUs with AVX-512 only, which QEMU does not have.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use drivers::i40e::Options;
use libtest_mimic::Failed;
use rig::TestPort;
use rig::dpdk::Dpdk;
use rig::exchange::{Pair, Round, Tally};
use rig::frames::{numbered, swapped};
use rig::machine::{Ground, case, ensure, full, run_with};
use rig::rounds::{csum, io, macs, macswap, packet, tso, wrong_ip, wrong_l4};
use rig::testpmd::{Testpmd, numbers};

fn main() -> ExitCode {
    let missing = Dpdk::obtain().err().map(|why| format!("no Debian DPDK can be had: {why}"));
    let mut cases = vec![
        case("testpmd_forwards_by_vector_and_scalar_paths", forwards),
        case("testpmd_sees_hashes_checksums_filters_and_links", offloads),
        case("testpmd_comes_and_goes", comings_and_goings),
    ];
    if full() {
        cases.push(case("testpmd_forwards_every_size_with_rings_of_many_sizes", every_size));
    }
    run_with(cases, missing)
}

/// Forwards a round with `mode`; testpmd must have seen what the wires have. Returns what `stop` says.
fn forward(testpmd: &mut Testpmd, mode: &str, round: Round) -> Result<String, Failed> {
    testpmd.answer(&format!("set fwd {mode}"))?;
    testpmd.answer("clear port stats all")?;
    testpmd.answer("clear port xstats all")?;
    testpmd.answer("start")?;
    let before = testpmd.exchange.tallies();
    testpmd.exchange(round)?;
    let after = testpmd.exchange.tallies();
    for port in 0..2 {
        let (own, partner) = ((after[port], before[port]), (after[port ^ 1], before[port ^ 1]));
        compare_books(testpmd, port, own, partner).map_err(|why| format!("{mode}: {why:?}"))?;
    }
    let said = testpmd.expect("stop", &["Done."])?;
    let books = numbers(&said);
    let dropped = [books.get("RX-dropped"), books.get("TX-dropped")];
    ensure(dropped == [Some(&0); 2], || format!("{mode}: testpmd dropped: {said}"))?;
    Ok(said)
}

/// A port's statistics and extended statistics against the wires: what the port received and what it sent.
fn compare_books(
    testpmd: &mut Testpmd,
    port: usize,
    own: (Tally, Tally),
    partner: (Tally, Tally),
) -> Result<(), Failed> {
    let stats = testpmd.stats(port)?;
    let wanted = [
        ("RX-packets", own.0.offered - own.1.offered),
        ("RX-bytes", own.0.offered_bytes - own.1.offered_bytes),
        ("TX-packets", partner.0.returned - partner.1.returned),
        ("TX-bytes", partner.0.returned_bytes - partner.1.returned_bytes),
        ("rx_good_packets", own.0.offered - own.1.offered),
        ("rx_good_bytes", own.0.offered_bytes - own.1.offered_bytes),
        ("tx_good_packets", partner.0.returned - partner.1.returned),
        ("tx_good_bytes", partner.0.returned_bytes - partner.1.returned_bytes),
        ("rx_unicast_packets", own.0.offered - own.1.offered),
    ];
    for (name, value) in wanted {
        ensure(stats.get(name) == Some(&value), || format!("port {port}: {name} is not {value}: {stats:?}"))?;
    }
    for name in
        ["RX-missed", "RX-errors", "RX-nombuf", "TX-errors", "rx_dropped_packets", "rx_oversize_errors"]
    {
        ensure(stats.get(name) == Some(&0), || format!("port {port}: {name} is not 0: {stats:?}"))?;
    }
    for way in ["rx", "tx"] {
        let sizes = stats
            .iter()
            .filter(|(name, _)| name.starts_with(&format!("{way}_size_")) && name.ends_with("_packets"));
        let (sum, all) = (sizes.map(|(_, value)| value).sum::<u64>(), stats[&format!("{way}_good_packets")]);
        ensure(sum == all, || format!("port {port}: {way} sizes sum to {sum} of {all}: {stats:?}"))?;
    }
    Ok(())
}

/// Burst functions that testpmd must have chosen.
fn bursts(testpmd: &mut Testpmd, rx: &str, tx: &str) -> Result<(), Failed> {
    testpmd.expect("show rxq info 0 0", &[&format!("Burst mode: {rx}")])?;
    testpmd.expect("show txq info 0 0", &[&format!("Burst mode: {tx}")])?;
    Ok(())
}

/// `io`, `macswap` with two queues, and scattered frames, with SSE and without.
fn forwards(ground: &Ground) -> Result<(), Failed> {
    let mut testpmd = Testpmd::boot(ground)?;
    for (bits, rx, tx) in [(128, "Vector SSE", "Vector SSE"), (64, "Scalar Bulk Alloc", "Scalar Simple")] {
        let eal = format!("--force-max-simd-bitwidth={bits}");
        testpmd.start(&eal, "--rss-udp")?;
        bursts(&mut testpmd, rx, tx)?;
        forward(&mut testpmd, "io", io(3000, 60..1519))?;
        testpmd.configure(&["port config all rxq 2", "port config all txq 2"])?;
        forward(&mut testpmd, "macswap", macswap(3000, 78))?;
        testpmd.quit()?;
        testpmd
            .start(&eal, "--max-pkt-len=9018 --enable-scatter --tx-offloads=0x8000 --rxd=1024 --txd=1024")?;
        let rx = if bits == 64 { "Scalar Scattered" } else { "Vector SSE Scattered" };
        bursts(&mut testpmd, rx, "Scalar")?;
        forward(&mut testpmd, "io", io(600, 60..9015))?;
        testpmd.configure(&["csum set ip hw PORT", "csum set tcp hw PORT", "tso set 800 PORT"])?;
        forward(&mut testpmd, "csum", tso(300))?;
        testpmd.quit()?;
    }
    testpmd.end().map(|_| ())
}

/// What the card finds out about frames, as testpmd prints it or acts upon it.
fn offloads(ground: &Ground) -> Result<(), Failed> {
    let mut testpmd = Testpmd::boot(ground)?;
    testpmd.start("", "--rxq=2 --txq=2 --rxd=256 --txd=256 --rss-udp --enable-rx-cksum")?;
    for hardware in [false, true] {
        let place = if hardware { "hw" } else { "sw" };
        let set = ["ip", "udp", "tcp"].map(|what| format!("csum set {what} {place} PORT"));
        testpmd.configure(&set.each_ref().map(String::as_str))?;
        let said = forward(&mut testpmd, "csum", csum(2000, 90))?;
        // Packets of version 6 have odd numbers, and no checksum of their header. Both ports get the same.
        let wrong = |is: fn(u32) -> bool| (0..2000).filter(|n| is(*n)).count() as u64;
        let expected = [wrong(|n| wrong_ip(n) && n % 2 == 0), wrong(wrong_l4)];
        let books = numbers(&said);
        let found = ["Bad-ipcsum", "Bad-l4csum"].map(|name| books.get(name).copied().unwrap_or(0));
        ensure(found == expected, || format!("wrong checksums are not {expected:?}: {said}"))?;
    }
    names(&mut testpmd)?;
    testpmd.answer("set fwd io")?;
    hashes(&mut testpmd)?;
    filters(&mut testpmd)?;
    addresses(&mut testpmd)?;
    tags(&mut testpmd)?;
    testpmd.handle.set_link(0, false);
    testpmd.until("show port info 0", "Link status: down")?;
    testpmd.handle.set_link(0, true);
    testpmd.until("show port info 0", "Link status: up\nLink speed: 10 Gbps")?;
    testpmd.until("show port info 1", "Link status: up\nLink speed: 40 Gbps")?;
    testpmd.expect("show port 0 module_eeprom", &["03 04 07 10", "BAREWIRE"])?;
    testpmd.expect("show port 1 module_eeprom", &["0D 00 0C 04", "BAREWIRE"])?;
    losses(&mut testpmd)?;
    forward(&mut testpmd, "macswap", macswap(500, 78))?;
    testpmd.quit()?;
    testpmd.end().map(|_| ())
}

/// Our driver's extended statistics have the names of DPDK's, in its order. Those of queues stand with the queues.
fn names(testpmd: &mut Testpmd) -> Result<(), Failed> {
    let said = testpmd.answer("show port xstats 0")?;
    let of_queue = |name: &str| name.as_bytes().get(3) == Some(&b'q') && name.contains("x_q");
    let named = said.lines().filter_map(|line| Some(line.split_once(": ")?.0.trim()));
    let theirs: Vec<&str> = named.filter(|name| name.contains("x_") || name.starts_with("mac_")).collect();
    let theirs: Vec<&str> = theirs.into_iter().filter(|name| !of_queue(name)).collect();
    let mut driver = TestPort::new().bring_up(Options { wide_descriptors: true, promiscuous: true })?;
    let ours: Vec<&str> = driver.xstats().map(|(name, _)| name).collect();
    let other = ours.iter().zip(&theirs).find(|(ours, theirs)| ours != theirs);
    ensure(ours == theirs, || format!("{other:?}, {} of ours and {} of theirs", ours.len(), theirs.len()))
}

/// One frame for each port; what testpmd prints about it.
fn look_at(testpmd: &mut Testpmd, frame: Vec<u8>) -> Result<String, Failed> {
    look_at_pair(testpmd, Pair::same(frame))
}

/// As [`look_at`], for a frame that comes back as another one.
fn look_at_pair(testpmd: &mut Testpmd, pair: Pair) -> Result<String, Failed> {
    testpmd.verbose = true;
    // The level is told before it takes effect: one command more than that has to be answered.
    testpmd.answer("")?;
    testpmd.answer("start")?;
    let make = move |_, _| pair.clone();
    testpmd.exchange(Round { count: 1, in_flight: 1, in_order: true, make: Arc::new(make) })?;
    let said = testpmd.answer("stop");
    testpmd.verbose = false;
    testpmd.answer("")?;
    said
}

/// Key and flow of Microsoft's "Verifying the RSS Hash Calculation": 66.9.149.187:2794 to 161.142.100.80:1766, with
/// ports and without. A rule may choose what is hashed.
fn hashes(testpmd: &mut Testpmd) -> Result<(), Failed> {
    let key = "6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa";
    testpmd.each(&format!("port config PORT rss-hash-key ipv4-udp {key}{}", "0".repeat(24)))?;
    // The key's command leaves that class alone enabled.
    testpmd.answer("port config all rss all")?;
    let mut frame = packet(0, 60).frame(macs(0), 1);
    frame[26..34].copy_from_slice(&[66, 9, 149, 187, 161, 142, 100, 80]);
    frame[34..38].copy_from_slice(&[0x0a, 0xea, 0x06, 0xe6]);
    let said = look_at(testpmd, frame.clone())?;
    for text in ["RSS hash=0x51ccc178", "RSS queue=0x0", "L3_IPV4", "L4_UDP"] {
        ensure(said.contains(text), || format!("no {text:?} in:\n{said}"))?;
    }
    let mut other = frame.clone();
    other[23] = 99;
    let said = look_at(testpmd, other)?;
    for text in ["RSS hash=0x323e8fc2", "RSS queue=0x0", "L4_NONFRAG"] {
        ensure(said.contains(text), || format!("no {text:?} in:\n{said}"))?;
    }
    let rule =
        "ingress pattern eth / ipv4 / udp / end actions rss types ipv4-udp l3-src-only end queues end / end";
    for port in 0..2 {
        testpmd.expect(&format!("flow create {port} {rule}"), &["Flow rule #0 created"])?;
    }
    let mut hash = |at: usize| {
        let mut frame = frame.clone();
        frame[at] ^= 1;
        let said = look_at(testpmd, frame)?;
        let hash = said.split("RSS hash=").nth(1).and_then(|rest| rest.split(' ').next());
        hash.map(str::to_owned).ok_or_else(|| Failed::from(format!("no hash in:\n{said}")))
    };
    // Destination, source port, destination port; then the source.
    let [destination, from, to, source] = [hash(33)?, hash(35)?, hash(37)?, hash(29)?];
    let right = destination == from && from == to && to != source;
    ensure(right, || format!("{destination} {from} {to} {source}"))?;
    testpmd.each("flow flush PORT").map(|_| ())
}

/// Rules of rte_flow that the driver makes flow director filters of: to a queue with a mark, and to nowhere.
fn filters(testpmd: &mut Testpmd) -> Result<(), Failed> {
    let flow = packet(8, 90);
    let frame = flow.frame(macs(0), 8);
    let rule = "ingress pattern eth / ipv4 src is 198.18.0.9 dst is 198.18.0.200 / udp src is 1032 dst is 9 / end actions";
    for queue in [0, 1] {
        for port in 0..2 {
            let command = format!("flow create {port} {rule} queue index {queue} / mark id 0x1234 / end");
            testpmd.expect(&command, &["Flow rule #0 created"])?;
        }
        let said = look_at(testpmd, frame.clone())?;
        for text in ["FDIR matched ID=0x1234".to_owned(), format!("Receive queue=0x{queue}")] {
            ensure(said.contains(&text), || format!("no {text:?} in:\n{said}"))?;
        }
        let stats = testpmd.stats(0)?;
        ensure(stats.get("rx_flow_director_sb_match_packets") >= Some(&1), || format!("{stats:?}"))?;
        testpmd.each("flow flush PORT")?;
    }
    for port in 0..2 {
        testpmd.expect(&format!("flow create {port} {rule} drop / end"), &["Flow rule #0 created"])?;
    }
    let make = move |port, n| {
        let frame = packet(n, 90).frame(macs(port), n);
        Pair::same_if(n != 8, frame)
    };
    pass(testpmd, Round { count: 64, in_flight: 8, in_order: false, make: Arc::new(make) })?;
    testpmd.each("flow flush PORT")?;
    let said = look_at(testpmd, frame)?;
    ensure(!said.contains("FDIR matched"), || format!("a filter that was removed matches: {said}"))
}

/// Sends a round through testpmd as it is set.
fn pass(testpmd: &mut Testpmd, round: Round) -> Result<(), Failed> {
    testpmd.answer("start")?;
    testpmd.exchange(round)?;
    testpmd.expect("stop", &["Done."]).map(|_| ())
}

/// Frames with these destinations and tags, by their number; those of which `wanted` says so come back.
fn chosen(destinations: [[u8; 6]; 2], tags: [u16; 2], wanted: fn(u32) -> bool) -> Round {
    let make = move |port, n: u32| {
        let mut frame = numbered(n, 90);
        frame[..6].copy_from_slice(&destinations[n as usize & 1]);
        if frame[5] == Testpmd::mac(0)[5] && frame[0] == 0x68 {
            frame[5] = port as u8;
        }
        frame.splice(12..12, [[0x81, 0], tags[n as usize >> 1 & 1].to_be_bytes()].concat());
        Pair::same_if(wanted(n), frame)
    };
    Round { count: 64, in_flight: 8, in_order: false, make: Arc::new(make) }
}

/// Without promiscuous mode, the port's own address comes through and others do not; of the tags, those that were
/// named.
fn addresses(testpmd: &mut Testpmd) -> Result<(), Failed> {
    let foreign = [2, 0, 0, 0, 0x77, 0x77];
    testpmd.answer("set promisc all off")?;
    pass(testpmd, chosen([Testpmd::mac(0), foreign], [5, 6], |n| n & 1 == 0))?;
    for command in ["mac_addr add PORT 02:00:00:00:77:77", "vlan set filter on PORT", "rx_vlan add 5 PORT"] {
        testpmd.each(command)?;
    }
    pass(testpmd, chosen([Testpmd::mac(0), foreign], [5, 6], |n| n & 2 == 0))?;
    testpmd.each("vlan set filter off PORT")?;
    testpmd.each("mac_addr remove PORT 02:00:00:00:77:77")?;
    pass(testpmd, chosen([Testpmd::mac(0), foreign], [5, 6], |n| n & 1 == 0))?;
    testpmd.answer("set promisc all on").map(|_| ())
}

/// A tag is taken out of what comes in and another put into what goes out.
fn tags(testpmd: &mut Testpmd) -> Result<(), Failed> {
    testpmd.configure(&["vlan set strip on PORT", "tx_vlan set PORT 100"])?;
    let make = move |port, n| {
        let mut sent = packet(n, 90).frame(macs(port), n);
        sent.splice(12..12, [0x81, 0, 0x20, 5]);
        let mut back = swapped(&sent);
        back[14..16].copy_from_slice(&[0, 100]);
        Pair::new(sent, back)
    };
    testpmd.answer("set fwd macswap")?;
    pass(testpmd, Round { count: 200, in_flight: 64, in_order: false, make: Arc::new(make) })?;
    testpmd.configure(&["vlan set strip off PORT", "tx_vlan reset PORT"])?;
    // Two tags: testpmd tells both, the outer one apart.
    testpmd.configure(&[
        "vlan set extend on PORT",
        "vlan set qinq_strip on PORT",
        "vlan set strip on PORT",
    ])?;
    testpmd.answer("set fwd io")?;
    let plain = packet(1, 90).frame(macs(0), 1);
    let mut sent = plain.clone();
    sent.splice(12..12, [0x81, 0, 0x20, 5, 0x81, 0, 0x60, 7]);
    let said = look_at_pair(testpmd, Pair::new(sent, plain))?;
    ensure(said.contains("QinQ VLAN tci=0x6007, VLAN tci outer=0x2005"), || said.clone())?;
    testpmd.configure(&[
        "vlan set qinq_strip off PORT",
        "vlan set strip off PORT",
        "tx_vlan set PORT 100 200",
    ])?;
    testpmd.answer("set fwd macswap")?;
    let make = move |port, n| {
        let sent = packet(n, 90).frame(macs(port), n);
        let tags = [0x88, 0xa8, 0, 200, 0x81, 0, 0, 100];
        let back = swapped(&sent);
        Pair::new(sent, [&back[..12], &tags, &back[12..]].concat())
    };
    pass(testpmd, Round { count: 200, in_flight: 64, in_order: false, make: Arc::new(make) })?;
    testpmd.configure(&["tx_vlan reset PORT"])?;
    testpmd.configure(&[
        "vlan set extend off PORT",
        "vlan set qinq_strip off PORT",
        "vlan set strip off PORT",
    ])
}

/// While testpmd does not forward, the rings fill up: what finds no descriptor, and what is longer than a ring takes, is
/// counted, and nothing else.
fn losses(testpmd: &mut Testpmd) -> Result<(), Failed> {
    testpmd.answer("clear port stats all")?;
    testpmd.exchange.lose_frames(true);
    let make = |_, n: u32| Pair::same_if(false, numbered(n, if n < 10 { 1600 } else { 100 }));
    testpmd.exchange(Round { count: 1000, in_flight: 1000, in_order: true, make: Arc::new(make) })?;
    // An answer comes after what the cards were given before it.
    testpmd.answer("")?;
    for port in 0..2 {
        let stats = testpmd.stats(port)?;
        let [packets, missed, errors] = ["RX-packets", "RX-missed", "RX-errors"].map(|name| stats[name]);
        let right = packets + missed == 990 && (1..=512).contains(&packets) && errors == 10;
        ensure(right, || format!("port {port}: {stats:?}"))?;
    }
    testpmd.exchange.lose_frames(false);
    Ok(())
}

/// Frames that testpmd makes by itself, at its own pace: 64 bytes of UDP from and to well-known addresses.
fn txonly(testpmd: &mut Testpmd) -> Result<(), Failed> {
    let check = |port: usize, frame: &[u8]| {
        let macs = [[2, 0, 0, 0, 0, port as u8], Testpmd::mac(port)];
        let headers = [0x08, 0, 0x45, 0, 0, 50];
        frame.len() == 64 && frame[..12] == *macs.as_flattened() && frame[12..18] == headers
    };
    testpmd.answer("set fwd txonly")?;
    testpmd.answer("clear port stats all")?;
    testpmd.exchange.expect_made(Some(Arc::new(check)));
    testpmd.answer("start")?;
    testpmd.exchange.wait_made(100_000)?;
    testpmd.expect("stop", &["Done."])?;
    testpmd.exchange.expect_made(None);
    for port in 0..2 {
        let stats = testpmd.stats(port)?;
        let made = testpmd.exchange.tallies()[port ^ 1].made;
        let books = [stats.get("TX-packets"), stats.get("TX-errors")];
        ensure(books == [Some(&made), Some(&0)], || format!("port {port} made {made}: {stats:?}"))?;
    }
    Ok(())
}

/// Ports and queues that are stopped 20 times, reset, taken down and brought back; frames of testpmd's own.
fn comings_and_goings(ground: &Ground) -> Result<(), Failed> {
    let mut machine = Testpmd::boot(ground)?;
    let testpmd = &mut machine;
    testpmd.start("", "--rxq=2 --txq=2 --rss-udp")?;
    for _ in 0..20 {
        testpmd.configure(&[])?;
        forward(testpmd, "macswap", macswap(300, 90))?;
    }
    for queue in ["rxq 1", "txq 1"] {
        for (verb, state) in [("stop", "stopped"), ("start", "started")] {
            testpmd.each(&format!("port PORT {queue} {verb}"))?;
            let info = format!("show {} info 0 1", queue.split(' ').next().unwrap_or_default());
            testpmd.expect(&info, &[&format!("queue state: {state}")])?;
        }
        forward(testpmd, "macswap", macswap(300, 90))?;
    }
    testpmd.expect("port stop all", &["Done"])?;
    for port in 0..2 {
        testpmd.expect(&format!("port reset {port}"), &["Done"])?;
    }
    testpmd.expect("port start all", &["Done"])?;
    forward(testpmd, "macswap", macswap(300, 90))?;
    testpmd.each("set link-down port PORT")?;
    testpmd.until("show port info 0", "Link status: down")?;
    testpmd.each("set link-up port PORT")?;
    testpmd.until("show port info 0", "Link status: up")?;
    forward(testpmd, "macswap", macswap(300, 90))?;
    txonly(testpmd)?;
    testpmd.quit()?;
    machine.end().map(|_| ())
}

/// Every size in every mode by both paths, and rings of other sizes.
fn every_size(ground: &Ground) -> Result<(), Failed> {
    let mut testpmd = Testpmd::boot(ground)?;
    testpmd.allow(Duration::from_secs(1800));
    for bits in [128, 64] {
        for own in [
            "",
            "--rxq=2 --txq=2 --enable-rx-cksum",
            "--rxq=8 --txq=8 --rxd=512 --txd=512 --total-num-mbufs=20480",
            "--rxd=64 --txd=128 --burst=8",
            "--disable-crc-strip",
            "--rxd=4096 --txd=4096 --total-num-mbufs=20480",
        ] {
            testpmd.start(&format!("--force-max-simd-bitwidth={bits}"), &format!("--rss-udp {own}"))?;
            let small = |round: Round| Round { in_flight: 24, ..round };
            let limit = |round| if own.contains("rxd=64") { small(round) } else { round };
            forward(
                &mut testpmd,
                "io",
                limit(Round { in_order: !own.contains("rxq"), ..io(20_000, 60..1519) }),
            )?;
            for len in [78, 594, 1518] {
                forward(&mut testpmd, "macswap", limit(macswap(5_000, len)))?;
                forward(&mut testpmd, "csum", limit(csum(5_000, len)))?;
            }
            testpmd.quit()?;
        }
    }
    testpmd.end().map(|_| ())
}
