use std::vec::Vec;

use super::*;
use crate::forward::examples::{Ground, OWN, PEER, ipv4, sums_to_ones, with};

const ASKER: [u8; 6] = PEER;

/// The reply to a frame, or nothing when it was dropped under its name.
fn answered(frame: &[u8]) -> Option<Vec<u8>> {
    let mut ground = Ground::new();
    ground.arrive(frame);
    ground.work(reply);
    let back = ground.frames();
    let dropped = (ground.drops.get(DropReason::NoEcho), ground.drops.total());
    assert_eq!(dropped, if back.is_empty() { (1, 1) } else { (0, 0) });
    assert!(ground.has_all_buffers());
    back.into_iter().next()
}

/// B40: sender is this port, target whoever asked; with a tag, and as short as ARP is.
#[test]
fn b40_an_arp_reply_names_this_port() {
    for tag in [&[][..], &[0x81, 0, 0x60, 5]] {
        for padding in [0, 18] {
            let arp = |op: u8, from: (&[u8], [u8; 4]), to: (&[u8], [u8; 4])| {
                let head = [0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, op];
                with(&[tag, &head, from.0, &from.1, to.0, &to.1, &std::vec![0; padding]])
            };
            let (me, you) = ([192, 168, 1, 1], [192, 168, 1, 2]);
            let request = with(&[&[0xff; 6], &ASKER, &arp(1, (&ASKER, you), (&[0; 6], me))]);
            let reply = with(&[&ASKER, &OWN, &arp(2, (&OWN, me), (&ASKER, you))]);
            assert_eq!(answered(&request), Some(reply));
            for (at, value) in [(0, 1), (1, 6), (2, 9), (4, 5), (5, 16), (7, 3), (7, 2), (7, 0), (6, 1)] {
                let mut other = request.clone();
                other[14 + tag.len() + at] = value;
                assert_eq!(answered(&other), None, "{at} {value}");
            }
            for len in 17..14 + tag.len() + 28 {
                assert_eq!(answered(&request[..len]), None, "{len}");
            }
        }
    }
}

/// B41: whatever the request's checksum is, the reply's is right.
#[test]
fn b41_a_replys_checksum_is_right_for_every_request() {
    let ip = ipv4(1, [10, 0, 0, 1], 9);
    for number in 0..=0xffff_u16 {
        let mut icmp = std::vec![8, 0, 0, 0, 0, 0, 0, 0, 0];
        icmp[4..6].copy_from_slice(&number.to_be_bytes());
        // 8 in the first byte, and the number, are all that is summed.
        let sum = 0x0800 + u32::from(number);
        let checksum = !(((sum & 0xffff) + (sum >> 16)) as u16);
        icmp[2..4].copy_from_slice(&checksum.to_be_bytes());
        assert!(sums_to_ones(&icmp));
        let frame = with(&[&OWN, &ASKER, &[8, 0], &ip, &icmp]);
        let reply = answered(&frame).unwrap();
        assert!(sums_to_ones(&reply[34..]), "{number:#x}");
        assert_eq!((&reply[34..36], &reply[38..]), (&[0, 0][..], &icmp[4..]), "{number:#x}");
    }
}

#[test]
fn an_echo_reply_goes_back_whole() {
    for tag in [&[][..], &[0x81, 0, 0, 5]] {
        for len in [8, 9, 1472, 5000] {
            let mut icmp: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
            icmp[..4].copy_from_slice(&[8, 0, 0, 0]);
            let guess = (0..=0xffff_u16).find(|guess| {
                icmp[2..4].copy_from_slice(&guess.to_be_bytes());
                sums_to_ones(&icmp)
            });
            assert!(guess.is_some());
            let frame = with(&[&OWN, &ASKER, tag, &[8, 0], &ipv4(1, [10, 0, 0, 1], len), &icmp]);
            let reply = answered(&frame).unwrap();
            let ip = 14 + tag.len();
            assert_eq!((&reply[..6], &reply[6..12]), (&ASKER[..], &OWN[..]));
            assert_eq!(reply[ip + 12..ip + 20], [10, 0, 0, 1, 10, 0, 0, 9]);
            assert!(sums_to_ones(&reply[ip..ip + 20]) && sums_to_ones(&reply[ip + 20..]));
            assert_eq!(reply[ip + 24..], icmp[4..]);
        }
    }
    // Asked as a group: a neighbour of the asker answers, and the sum of the header is made again.
    let frame = with(&[&OWN, &ASKER, &[8, 0], &ipv4(1, [224, 0, 0, 1], 8), &[8, 0, 0xf7, 0xff, 0, 0, 0, 0]]);
    let reply = answered(&frame).unwrap();
    assert_eq!(reply[26..34], [10, 0, 0, 10, 10, 0, 0, 9]);
    assert!(sums_to_ones(&reply[14..34]) && sums_to_ones(&reply[34..]));
}

#[test]
fn what_is_no_request_is_dropped_under_its_name() {
    let icmp = [8, 0, 0xf7, 0xff, 0, 0, 0, 0];
    let good = with(&[&OWN, &ASKER, &[8, 0], &ipv4(1, [10, 0, 0, 1], 8), &icmp]);
    assert!(answered(&good).is_some());
    // No IPv4, IPv6, options, UDP, a later fragment, a reply, another code.
    for (at, value) in [(12, 9), (12, 0x86), (14, 0x46), (14, 0x65), (23, 17), (21, 1), (34, 0), (35, 1)] {
        let mut other = good.clone();
        other[at] = value;
        assert_eq!(answered(&other), None, "{at}");
    }
    for len in 17..38 {
        assert_eq!(answered(&good[..len]), None, "{len}");
    }
}
