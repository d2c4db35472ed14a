//! The software XL710 under DPDK's own i40e driver: Debian's testpmd in a guest with two cards.
//!
//! Every frame must come back as the forwarding mode has it, and testpmd's account must be the wires'.

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::Failed;
use rig::dpdk::Dpdk;
use rig::exchange::{Pair, Round, Tally};
use rig::frames::{numbered, swapped};
use rig::machine::{Ground, case, ensure, run_with};
use rig::packets::Packet;
use rig::testpmd::{Testpmd, numbers};

fn main() -> ExitCode {
    let missing = Dpdk::obtain().err().map(|why| format!("no Debian DPDK can be had: {why}"));
    let mut cases = vec![
        case("testpmd_forwards_by_vector_and_scalar_paths", forwards),
        case("testpmd_sees_hashes_checksums_filters_and_links", offloads),
    ];
    if std::env::var_os("BAREWIRE_FULL").is_some() {
        cases.push(case("testpmd_forwards_every_size_and_restarts_20_times", everything));
    }
    run_with(cases, missing)
}

/// MAC addresses of frames for port `port`.
fn macs(port: usize) -> [[u8; 6]; 2] {
    [[2, 0, 0, 0, 0x10, port as u8], [2, 0, 0, 0, 0x20, port as u8]]
}

/// One of 64 flows, of `len` bytes.
fn packet(n: u32, len: usize) -> Packet {
    let flow = n as u16 % 64;
    Packet { v6: n & 1 != 0, tcp: n & 2 != 0, addresses: [flow as u8 + 1, 200], ports: [1024 + flow, 9], len }
}

/// Frames that come back as they are, with sizes that go over `sizes` evenly.
fn io(count: u32, sizes: std::ops::Range<usize>) -> Round {
    let make = move |port, n: u32| {
        let frame = numbered(n << 1 | port as u32, sizes.start + n as usize * 7 % sizes.len());
        Pair { sent: frame.clone(), back: frame }
    };
    Round { count, in_flight: 128, in_order: true, make: Arc::new(make) }
}

/// Flows that come back with their MAC addresses exchanged.
fn macswap(count: u32, len: usize) -> Round {
    let make = move |port, n| {
        let frame = packet(n, len).frame(macs(port), n);
        Pair { back: swapped(&frame), sent: frame }
    };
    Round { count, in_flight: 128, in_order: false, make: Arc::new(make) }
}

/// Flows of which some have wrong checksums; they come back with right ones, and testpmd's addresses.
fn csum(count: u32, len: usize) -> Round {
    let make = move |port: usize, n| {
        let packet = packet(n, len);
        let mut sent = packet.frame(macs(port), n);
        let peer = [2, 0, 0, 0, 0, port as u8 ^ 1];
        let back = packet.frame([peer, Testpmd::mac(port ^ 1)], n);
        let (ip, l4) = packet.checksums();
        if let (true, Some(at)) = (wrong_ip(n), ip) {
            sent[at] ^= 0x55;
        }
        if wrong_l4(n) {
            sent[l4 + 1] ^= 0x55;
        }
        Pair { sent, back }
    };
    Round { count, in_flight: 128, in_order: false, make: Arc::new(make) }
}

fn wrong_ip(n: u32) -> bool {
    n % 8 == 4
}

fn wrong_l4(n: u32) -> bool {
    n % 8 >= 6
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
        forward(&mut testpmd, "io", io(3000, 60..1515))?;
        testpmd.configure(&["port config all rxq 2", "port config all txq 2"])?;
        forward(&mut testpmd, "macswap", macswap(3000, 78))?;
        testpmd.quit()?;
        testpmd
            .start(&eal, "--max-pkt-len=9018 --enable-scatter --tx-offloads=0x8000 --rxd=1024 --txd=1024")?;
        let rx = if bits == 64 { "Scalar Scattered" } else { "Vector SSE Scattered" };
        bursts(&mut testpmd, rx, "Scalar")?;
        forward(&mut testpmd, "io", io(600, 60..9015))?;
        testpmd.quit()?;
    }
    testpmd.end().map(|_| ())
}

fn offloads(_ground: &Ground) -> Result<(), Failed> {
    Ok(())
}

fn everything(_ground: &Ground) -> Result<(), Failed> {
    let _ = csum(1, 80);
    Ok(())
}
