//! Which frames a port receives, its flow control, and what it counts.

use drivers::i40e::{FlowControl, MAX_ADDRESSES, Options};
use kernel::MacAddr;
use kernel::port::PortControl;
use model::AdminFault as ModelFault;
use rig::direct::Direct;
use rig::flows::tagged;
use rig::{TestPort, frames};

const OTHERS_TOO: Options = Options { wide_descriptors: true, promiscuous: true };
const OWN: Options = Options { wide_descriptors: true, promiscuous: false };
const GROUP: [u8; 6] = [1, 0, 0x5e, 0, 0, 1];
const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 9];

fn to(mac: [u8; 6]) -> Vec<u8> {
    [&mac[..], &[2, 0, 0, 0, 0, 5], &[0x88, 0xb5], &[7; 46]].concat()
}

/// The frames of `offered` that arrive.
fn arriving(ring: &mut Direct, offered: &[Vec<u8>]) -> Vec<Vec<u8>> {
    ring.receive(offered).remove(0).into_iter().map(|(bytes, _)| bytes).collect()
}

#[test]
fn addresses_are_let_in_one_by_one() {
    let mut ring = Direct::start(1, 64, 64, OWN);
    let offered = [to(TestPort::MAC), to([0xff; 6]), to(GROUP), to(OTHER), to([1, 0, 0x5e, 0, 0, 2])];
    assert_eq!(arriving(&mut ring, &offered), offered[..2]);
    ring.driver.add_address(MacAddr(GROUP)).unwrap();
    ring.driver.add_address(MacAddr(OTHER)).unwrap();
    assert_eq!(arriving(&mut ring, &offered), offered[..4]);
    ring.driver.set_all_multicast(true).unwrap();
    assert_eq!(arriving(&mut ring, &offered), offered);
    ring.driver.set_all_multicast(false).unwrap();
    ring.driver.remove_address(MacAddr(OTHER)).unwrap();
    assert_eq!(arriving(&mut ring, &offered), offered[..3]);
    ring.driver.set_promiscuous(true).unwrap();
    assert_eq!(arriving(&mut ring, &offered), offered);
    ring.driver.set_promiscuous(false).unwrap();
    assert_eq!(arriving(&mut ring, &offered), offered[..3]);
    assert!(ring.driver.remove_address(MacAddr(TestPort::MAC)).is_err());
    ring.finish();
}

#[test]
fn tags_are_let_in_one_by_one() {
    let mut ring = Direct::start(1, 64, 64, OWN);
    let plain = to(TestPort::MAC);
    let offered = [
        plain.clone(),
        tagged(&plain, 0x6005),
        tagged(&plain, 6),
        tagged(&to([0xff; 6]), 5),
        tagged(&to([0xff; 6]), 6),
    ];
    assert_eq!(arriving(&mut ring, &offered), offered);
    ring.driver.set_vlan(5, true).unwrap();
    assert_eq!(arriving(&mut ring, &offered), offered);
    ring.driver.set_vlan_filter(true).unwrap();
    assert_eq!(arriving(&mut ring, &offered), [offered[0].clone(), offered[1].clone(), offered[3].clone()]);
    ring.driver.set_vlan(6, true).unwrap();
    ring.driver.set_vlan(5, false).unwrap();
    assert_eq!(arriving(&mut ring, &offered), [offered[0].clone(), offered[2].clone(), offered[4].clone()]);
    ring.driver.set_vlan_filter(false).unwrap();
    assert_eq!(arriving(&mut ring, &offered), offered);
    assert!(ring.driver.set_vlan(4095, true).is_err());
    ring.finish();
}

/// What was set holds after a reset, too.
#[test]
fn filters_hold_after_a_reset() {
    let mut ring = Direct::start(1, 64, 64, OWN);
    ring.driver.set_vlan(5, true).unwrap();
    ring.driver.set_vlan_filter(true).unwrap();
    ring.driver.add_address(MacAddr(GROUP)).unwrap();
    let plain = to(TestPort::MAC);
    let offered = [plain.clone(), tagged(&plain, 5), tagged(&plain, 6), to(GROUP), to(OTHER)];
    let wanted = [plain.clone(), tagged(&plain, 5), to(GROUP)];
    assert_eq!(arriving(&mut ring, &offered), wanted);
    let rx = ring.rx.pop().unwrap();
    ring.driver.stop_rx(rx, &mut ring.pool).unwrap();
    ring.driver.reset().unwrap();
    ring.start_rx(0, 64);
    assert_eq!(arriving(&mut ring, &offered), wanted);
}

/// As many addresses as there is room for; a refusal leaves everything as it was.
#[test]
fn a_list_that_is_full_and_firmware_that_refuses_change_nothing() {
    let mut ring = Direct::start(1, 256, 64, OWN);
    let group = |n: usize| [1, 0, 0x5e, 0, (n >> 8) as u8, n as u8];
    for n in 0..MAX_ADDRESSES - 2 {
        ring.driver.add_address(MacAddr(group(n))).unwrap();
    }
    let error = ring.driver.add_address(MacAddr(group(500))).unwrap_err().to_string();
    assert!(error.contains("number of addresses"), "{error}");
    let offered: Vec<_> = (0..MAX_ADDRESSES).map(|n| to(group(n))).collect();
    assert_eq!(arriving(&mut ring, &offered), offered[..MAX_ADDRESSES - 2]);
    // 128 addresses times 9 tags are more pairs than this driver asks for.
    for vlan in 1..9 {
        ring.driver.set_vlan(vlan, true).unwrap();
    }
    assert!(ring.driver.set_vlan_filter(true).is_err());
    ring.driver.remove_address(MacAddr(group(0))).unwrap();
    ring.port.card().faults().admin.push((0x0250, ModelFault::Code(16), 1));
    let error = ring.driver.add_address(MacAddr(OTHER)).unwrap_err().to_string();
    assert!(error.contains("ENOSPC"), "{error}");
    assert_eq!(arriving(&mut ring, &[to(OTHER), to(group(1))]), [to(group(1))]);
    ring.driver.add_address(MacAddr(OTHER)).unwrap();
    assert_eq!(arriving(&mut ring, &[to(OTHER)]), [to(OTHER)]);
    ring.finish();
}

/// A change that fails in its last command, or in the middle of many, is taken back: card and driver say the same, and
/// the next change works.
#[test]
fn a_change_that_fails_halfway_is_undone() {
    let fail = |ring: &Direct, opcode| {
        ring.port.card().faults().admin.push((opcode, ModelFault::Code(5), 1));
    };
    let mut ring = Direct::start(1, 256, 64, OWN);
    let tags = [to(TestPort::MAC), tagged(&to(TestPort::MAC), 100)];
    fail(&ring, 0x0254);
    assert!(ring.driver.set_vlan_filter(true).is_err() && !ring.driver.filters().vlan_filter());
    assert_eq!(arriving(&mut ring, &tags), tags);
    fail(&ring, 0x0254);
    assert!(ring.driver.add_address(MacAddr(OTHER)).is_err());
    assert!(arriving(&mut ring, &[to(OTHER)]).is_empty());
    ring.driver.add_address(MacAddr(OTHER)).unwrap();
    fail(&ring, 0x0254);
    assert!(ring.driver.remove_address(MacAddr(OTHER)).is_err());
    assert_eq!(arriving(&mut ring, &[to(OTHER)]), [to(OTHER)]);
    // With 102 addresses and 9 tags several commands are needed.
    for n in 0..100 {
        ring.driver.add_address(MacAddr([2, 0, 0, 0, 1, n])).unwrap();
    }
    for vlan in 1..9 {
        ring.driver.set_vlan(vlan, true).unwrap();
    }
    ring.driver.set_vlan_filter(true).unwrap();
    assert_eq!(arriving(&mut ring, &tags), tags[..1]);
    fail(&ring, 0x0251);
    assert!(ring.driver.set_vlan_filter(false).is_err() && ring.driver.filters().vlan_filter());
    assert_eq!(arriving(&mut ring, &tags), tags[..1]);
    ring.driver.set_vlan_filter(false).unwrap();
    assert_eq!(arriving(&mut ring, &tags), tags);
    ring.finish();
}

/// A card that was reset behind the driver's back counts from 0 again: no statistic jumps.
#[test]
fn statistics_of_a_card_that_was_reset_go_on() {
    for script in ["card-reset 3", "pf-reset"] {
        let mut ring = Direct::start(1, 256, 256, OTHERS_TOO);
        let offered: Vec<_> = (0..20).map(|n| frames::numbered(n, 60)).collect();
        assert_eq!(arriving(&mut ring, &offered).len(), 20);
        let before: Vec<_> = ring.driver.xstats().collect();
        ring.port.card().play(&script.parse().unwrap());
        (0..20).for_each(|_| ring.port.card().pump());
        let after: Vec<_> = ring.driver.xstats().collect();
        for ((name, after), (_, before)) in after.into_iter().zip(before) {
            assert!((before..before + 100).contains(&after), "{script}: {name} {before} {after}");
        }
    }
}

#[test]
fn flow_control_is_offered_and_agreed_on() {
    let mut ring = Direct::start(1, 64, 64, OTHERS_TOO);
    assert_eq!(ring.driver.flow_control().unwrap(), FlowControl::default());
    for (rx, tx) in [(true, false), (true, true), (false, true), (false, false)] {
        ring.driver.set_flow_control(FlowControl { rx, tx }).unwrap();
        assert_eq!(ring.driver.flow_control().unwrap(), FlowControl { rx, tx });
        assert!(ring.driver.link().unwrap().up);
    }
    ring.finish();
}

/// Every frame is found under its size and its kind, and nowhere else. The bins count the FCS, as the card's do.
#[test]
fn extended_statistics_count_by_size_and_kind() {
    let mut ring = Direct::start(1, 256, 256, OTHERS_TOO);
    let find = |ring: &mut Direct, name: &str| {
        ring.driver.xstats().find(|(found, _)| *found == name).unwrap_or_else(|| panic!("no {name}")).1
    };
    let bins = [
        ("64", 60),
        ("65_to_127", 61),
        ("65_to_127", 123),
        ("128_to_255", 124),
        ("128_to_255", 251),
        ("256_to_511", 252),
        ("256_to_511", 507),
        ("512_to_1023", 508),
        ("512_to_1023", 1019),
        ("1024_to_1522", 1020),
        ("1024_to_1522", 1518),
        ("1523_to_max", 1519),
        ("1523_to_max", 2048),
    ];
    for (bin, len) in bins {
        let (rx, tx) = (format!("rx_size_{bin}_packets"), format!("tx_size_{bin}_packets"));
        let before = (find(&mut ring, &rx), find(&mut ring, &tx));
        let offered = frames::numbered(1, len);
        assert_eq!(arriving(&mut ring, std::slice::from_ref(&offered)).len(), 1);
        ring.send(&[&offered], &kernel::TxRequest::default());
        assert_eq!((find(&mut ring, &rx), find(&mut ring, &tx)), (before.0 + 1, before.1 + 1), "{len}");
    }
    arriving(&mut ring, &[to(GROUP), to([0xff; 6]), to([0xff; 6])]);
    let names = ["rx_unicast_packets", "rx_multicast_packets", "rx_broadcast_packets", "tx_unicast_packets"];
    assert_eq!(names.map(|name| find(&mut ring, name)), [13, 1, 2, 13]);
    assert_eq!(["rx_good_packets", "tx_good_packets"].map(|name| find(&mut ring, name)), [16, 13]);
    let all: Vec<_> = ring.driver.xstats().collect();
    let sizes = all.iter().filter(|(name, _)| name.starts_with("rx_size_") && name.ends_with("_packets"));
    assert_eq!(sizes.map(|(_, count)| count).sum::<u64>(), 16);
    ring.finish();
}

/// Versions, as drivers print them, and what is said of old firmware.
#[test]
fn versions_are_read_and_judged() {
    let port = TestPort::new();
    let driver = port.bring_up(OTHERS_TOO).unwrap();
    assert_eq!(driver.nvm().to_string(), "6.08 0x80000001");
    assert_eq!(driver.firmware().firmware, (6, 1));
    assert_eq!(driver.remarks().count(), 0);
    let port = TestPort::new();
    port.card().play(&"firmware 6.0".parse().unwrap());
    let driver = port.bring_up(OTHERS_TOO).unwrap();
    let remarks: Vec<_> = driver.remarks().collect();
    assert_eq!(remarks.len(), 1);
    assert!(remarks[0].contains("slow with small frames"));
}
