//! What the card does to frames for the driver: checksums, segments, tags, and what it says of received ones. Frames are
//! made and judged by another program's code.

use drivers::i40e::Options;
use kernel::port::PortControl;
use kernel::ptype::{Ip, L4};
use kernel::request::{Checksums, IpHeader, L4Checksum, Segmentation};
use kernel::{Checksum, DropReason, TxQueue, TxRequest};
use rig::direct::Direct;
use rig::flows::{Flow, Kind, frame, judge, l4_at, tagged};
use rig::frames;
use smoltcp::wire::IpAddress;

const WIDE: Options = Options { wide_descriptors: true, promiscuous: true };
const NARROW: Options = Options { wide_descriptors: false, promiscuous: true };

fn flows() -> [(Flow, Kind); 4] {
    [(Flow::v4(1), Kind::Tcp), (Flow::v4(2), Kind::Udp), (Flow::v6(3), Kind::Tcp), (Flow::v6(4), Kind::Udp)]
}

/// The sum that whoever asks for a checksum leaves in its field (RFC 1071 over RFC 9293's pseudo-header).
fn pseudo_header_sum(flow: Flow, kind: Kind, len: usize) -> u16 {
    let octets = |address: IpAddress| match address {
        IpAddress::Ipv4(address) => address.octets().to_vec(),
        IpAddress::Ipv6(address) => address.octets().to_vec(),
    };
    let bytes = [octets(flow.from.0), octets(flow.to.0)].concat();
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let sum = words.sum::<u32>() + if kind == Kind::Tcp { 6 } else { 17 } + len as u32;
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

fn checksum_at(flow: Flow, kind: Kind) -> usize {
    l4_at(flow) + if kind == Kind::Tcp { 16 } else { 6 }
}

/// The frame with checksums wrong and the pseudo-header's sum in place, and the request that makes them right.
fn unfinished(flow: Flow, kind: Kind, frame: &[u8], len: usize) -> (Vec<u8>, Checksums) {
    let mut frame = frame.to_vec();
    let at = checksum_at(flow, kind);
    frame[at..at + 2].copy_from_slice(&pseudo_header_sum(flow, kind, len).to_be_bytes());
    let v4 = matches!(flow.from.0, IpAddress::Ipv4(_));
    if v4 {
        frame[24..26].copy_from_slice(&[0xde, 0xad]);
    }
    let checksums = Checksums {
        l2_len: 14,
        l3_len: if v4 { 20 } else { 40 },
        ip: if v4 { IpHeader::V4Checksum } else { IpHeader::V6 },
        l4: Some(if kind == Kind::Tcp { L4Checksum::Tcp } else { L4Checksum::Udp }),
    };
    (frame, checksums)
}

/// Right checksums are called good, one wrong bit in each makes it bad, and the type is right.
#[test]
fn received_checksums_and_types_are_told() {
    for options in [WIDE, NARROW] {
        let mut ring = Direct::start(1, 64, 64, options);
        for (flow, kind) in flows() {
            let good = frame(flow, kind, &[7; 100]);
            let v4 = matches!(flow.from.0, IpAddress::Ipv4(_));
            let mut bad_l4 = good.clone();
            *bad_l4.last_mut().unwrap() ^= 1;
            let mut bad_ip = good.clone();
            bad_ip[24] ^= 1;
            let offered = if v4 { vec![good, bad_l4, bad_ip] } else { vec![good, bad_l4] };
            let received = ring.receive(&offered).remove(0);
            let found: Vec<_> =
                received.iter().map(|(_, meta)| (meta.ip_checksum(), meta.l4_checksum())).collect();
            use Checksum::{Bad, Good, Unknown};
            let want = [(Good, Good), (Good, Bad), (Bad, Good)];
            if v4 {
                assert_eq!(found, want, "{kind:?}");
            } else {
                assert_eq!(found, [(Unknown, Good), (Unknown, Bad)], "{kind:?}");
            }
            let ptype = received[0].1.packet_type();
            assert_eq!(ptype.ip, Some(if v4 { Ip::V4 } else { Ip::V6 }));
            assert_eq!(ptype.l4, Some(if kind == Kind::Tcp { L4::Tcp } else { L4::Udp }));
        }
        let other = ring.receive(&[frames::numbered(0, 60)]).remove(0);
        assert_eq!(other[0].1.l4_checksum(), Checksum::Unknown);
        ring.finish();
    }
}

/// TCP and UDP over IPv4 and IPv6, every payload length of 0 to 64 and some long ones, in one and in three buffers: what
/// comes out has the right checksums and is otherwise what went in.
#[test]
fn checksums_are_filled_in() {
    let mut ring = Direct::start(1, 64, 128, WIDE);
    for (flow, kind) in flows() {
        for len in (0..65).chain([1399, 1400, 1460, 9000]) {
            let payload: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
            let whole = frame(flow, kind, &payload);
            let l4_len = whole.len() - l4_at(flow);
            let (broken, checksums) = unfinished(flow, kind, &whole, l4_len);
            let request = TxRequest { checksums: Some(checksums), ..Default::default() };
            let middle = broken.len() / 2;
            for pieces in [vec![&broken[..]], vec![&broken[..14], &broken[14..middle], &broken[middle..]]] {
                if pieces.iter().any(|piece| piece.is_empty() || piece.len() > 2048) {
                    continue;
                }
                let (taken, out) = ring.send(&pieces, &request);
                assert_eq!((taken, out.len()), (1, 1));
                assert_eq!(out[0][..whole.len()], whole, "{kind:?} {len}");
                let judged = judge(&out[0]);
                assert!(judged.ip_good && judged.l4_good && judged.payload == payload);
            }
        }
    }
    ring.finish();
}

/// One send of up to 200 KB becomes segments that another program's TCP finds right: the payload in order, checksums,
/// PSH on the last one only.
#[test]
fn segments_are_cut() {
    for (flow, kind) in flows() {
        let l4_len = if kind == Kind::Tcp { 20 } else { 8 };
        let mut ring = Direct::start(1, 64, 512, WIDE);
        for (len, mss) in [(1, 1460), (1460, 1460), (1461, 1460), (60_000, 1448), (200_000, 8948), (5000, 64)]
        {
            let payload: Vec<u8> = (0..len).map(|i| ((i * 31) >> 3) as u8).collect();
            // smoltcp can't write an IPv4 header for more than 64 KB; the card makes the length right anyway.
            let head = frame(flow, kind, &payload[..len.min(1000)]);
            let payload_at = l4_at(flow) + usize::from(l4_len);
            let (head, checksums) = unfinished(flow, kind, &head[..payload_at], 0);
            let mut pieces = vec![&head[..]];
            pieces.extend(payload.chunks(2048));
            let segmentation = Some(Segmentation { mss, l4_len });
            let request = TxRequest { checksums: Some(checksums), segmentation, ..Default::default() };
            let (taken, out) = ring.send(&pieces, &request);
            assert_eq!((taken, out.len()), (1, len.div_ceil(usize::from(mss))), "{len} {mss}");
            let mut joined = Vec::new();
            for (index, segment) in out.iter().enumerate() {
                let judged = judge(segment);
                assert!(judged.ip_good && judged.l4_good, "{len} {mss} {index}");
                if kind == Kind::Tcp {
                    assert_eq!(judged.sequence, Some(0x7fff_ff00 + joined.len() as u32));
                    assert_eq!(judged.push, index + 1 == out.len());
                }
                joined.extend(judged.payload);
            }
            assert_eq!(joined, payload, "{len} {mss}");
        }
        ring.finish();
    }
}

/// SCTP's checksum is a CRC-32C, least significant byte first (RFC 9260, 6.8 and appendix A).
#[test]
fn checksums_of_sctp_are_filled_in() {
    let mut ring = Direct::start(1, 64, 64, WIDE);
    let (flow, kind) = flows()[1];
    for len in [4, 48, 1400] {
        let mut whole = frame(flow, kind, &vec![7; len + 4]);
        let at = l4_at(flow);
        // An SCTP header in the place of UDP's and the first bytes behind it.
        whole[23] = 132;
        whole[at..at + 12].copy_from_slice(&[0x1f, 0x40, 0x1f, 0x41, 1, 2, 3, 4, 0, 0, 0, 0]);
        let crc = crc::Crc::<u32>::new(&crc::CRC_32_ISCSI).checksum(&whole[at..]);
        let checksums =
            Checksums { l2_len: 14, l3_len: 20, ip: IpHeader::V4Checksum, l4: Some(L4Checksum::Sctp) };
        let request = TxRequest { checksums: Some(checksums), ..Default::default() };
        let out = ring.send(&[&whole], &request).1.remove(0);
        assert_eq!(out[at + 8..at + 12], crc.to_le_bytes(), "{len}");
        assert_eq!((&out[at + 12..whole.len()], &out[..24]), (&whole[at + 12..], &whole[..24]));
    }
    ring.finish();
}

/// A length that no descriptor can name is refused by name, not cut.
#[test]
fn pieces_longer_than_a_descriptor_takes_are_refused() {
    let mut ring = Direct::start(1, 64, 64, WIDE);
    for len in [16_384, 16_444, 20_000, 70_000, u32::MAX] {
        let mut burst = kernel::Burst::new();
        let buffer = kernel::Buffers::take(&mut ring.pool).unwrap();
        burst.push(kernel::Packet { buffer, meta: kernel::Meta::frame(len) }).unwrap();
        let before = ring.tx.drops().get(DropReason::TxBuffer);
        assert_eq!(ring.tx.tx_burst(&mut ring.pool, &mut burst), 0);
        assert_eq!((burst.len(), ring.tx.drops().get(DropReason::TxBuffer)), (0, before + 1), "{len}");
    }
    ring.port.card().pump();
    assert!(ring.port.wire.take().is_empty());
    ring.finish();
}

/// Bits of a request that nobody could have asked for, written by hand: a segment size of 0 or 1, segments of SCTP or
/// without IP, headers that are too short. They are dropped by name, and soon.
#[test]
fn nonsense_is_refused() {
    let mut ring = Direct::start(1, 64, 64, WIDE);
    let (segment, headers) = (1 << 2, 3 << 3 | 7 << 32 | 5 << 39 | 5 << 46);
    for lo in [
        segment | headers | 1 << 5,
        segment | headers | 1 << 5 | 1 << 50,
        segment | headers | 2 << 5 | 1000 << 50,
        segment | 1000 << 50,
        segment,
        3 << 3 | 6 << 32 | 5 << 39,
        2,
    ] {
        let buffer = kernel::Buffers::take(&mut ring.pool).unwrap();
        let mut burst = kernel::Burst::new();
        let meta = kernel::Meta { lo, hi: kernel::Meta::frame(200).hi };
        burst.push(kernel::Packet { buffer, meta }).unwrap();
        let before = ring.tx.drops().get(DropReason::TxRequest);
        assert_eq!(ring.tx.tx_burst(&mut ring.pool, &mut burst), 0, "{lo:#x}");
        assert_eq!(ring.tx.drops().get(DropReason::TxRequest), before + 1, "{lo:#x}");
    }
    ring.finish();
}

/// The card inserts the tag behind the addresses, and a second one in front of it.
#[test]
fn tags_are_inserted() {
    let mut ring = Direct::start(1, 64, 128, WIDE);
    let plain = frames::numbered(1, 100);
    for tag in [0, 1, 0x6123, 0xffff] {
        let request = TxRequest { vlan: Some(tag), ..Default::default() };
        let (_, out) = ring.send(&[&plain], &request);
        assert_eq!(out, [tagged(&plain, tag)]);
        let request = TxRequest { vlan: Some(tag), outer_vlan: Some(0x2abc), ..Default::default() };
        let (_, out) = ring.send(&[&plain[..50], &plain[50..]], &request);
        let want = [&plain[..12], &[0x88, 0xa8, 0x2a, 0xbc], &tagged(&plain, tag)[12..]].concat();
        assert_eq!(out, [want]);
    }
    // With checksums at once.
    let (flow, kind) = flows()[0];
    let whole = frame(flow, kind, &[9; 40]);
    let (broken, checksums) = unfinished(flow, kind, &whole, whole.len() - l4_at(flow));
    let request = TxRequest { vlan: Some(5), checksums: Some(checksums), ..Default::default() };
    assert_eq!(ring.send(&[&broken], &request).1, [tagged(&whole, 5)]);
    ring.finish();
}

/// Tags come in as they are, or apart: then a frame that is sent with its tag back is what it was.
#[test]
fn tags_are_stripped_and_put_back() {
    for options in [WIDE, NARROW] {
        let mut ring = Direct::start(1, 64, 64, options);
        let plain = frames::numbered(1, 100);
        let offered = [tagged(&plain, 0x6123), plain.clone(), tagged(&plain, 0)];
        let left: Vec<_> = ring.receive(&offered).remove(0);
        assert!(
            left.iter()
                .zip(&offered)
                .all(|((bytes, meta), offered)| { bytes == offered && meta.stripped_vlan().is_none() })
        );
        ring.driver.set_vlan_strip(true).unwrap();
        let apart = ring.receive(&offered).remove(0);
        assert!(apart.iter().all(|(bytes, _)| *bytes == plain));
        let tags: Vec<_> = apart.iter().map(|(_, meta)| meta.stripped_vlan()).collect();
        assert_eq!(tags, [Some(0x6123), None, Some(0)]);
        let back = apart[0].1.with_tag_back();
        let request = TxRequest { vlan: back.insert_vlan(), ..Default::default() };
        assert_eq!(ring.send(&[&apart[0].0], &request).1, offered[..1]);
        ring.driver.set_vlan_strip(false).unwrap();
        assert_eq!(ring.receive(&offered).remove(0)[0].0, offered[0]);
        ring.finish();
    }
}

/// Two tags come in as they are, or both apart; sent with them back, a frame with an S-tag outside is what it was.
#[test]
fn two_tags_are_stripped_and_put_back() {
    let port = rig::TestPort::new();
    assert!(port.bring_up(NARROW).unwrap().set_qinq(true).is_err());
    let mut ring = Direct::start(1, 64, 64, WIDE);
    ring.driver.set_qinq(true).unwrap();
    ring.driver.set_vlan_strip(true).unwrap();
    let rx = ring.rx.pop().unwrap();
    ring.driver.stop_rx(rx, &mut ring.pool).unwrap();
    ring.start_rx(0, 64);
    let plain = frames::numbered(1, 100);
    let inner = tagged(&plain, 0x2007);
    let s_tag = [&inner[..12], &[0x88, 0xa8, 0x60, 0x05], &inner[12..]].concat();
    let offered = [s_tag.clone(), tagged(&inner, 9), inner.clone(), plain.clone()];
    let apart = ring.receive(&offered).remove(0);
    assert!(apart.iter().all(|(bytes, _)| *bytes == plain));
    let tags: Vec<_> =
        apart.iter().map(|(_, meta)| (meta.stripped_vlan(), meta.stripped_inner_vlan())).collect();
    let want = [(Some(0x6005), Some(0x2007)), (Some(9), Some(0x2007)), (Some(0x2007), None), (None, None)];
    assert_eq!(tags, want);
    let request = apart[0].1.with_tag_back().request().unwrap();
    assert_eq!(ring.send(&[&plain], &request).1, [s_tag]);
    ring.driver.set_qinq(false).unwrap();
    assert_eq!(ring.receive(&[tagged(&inner, 9)]).remove(0)[0].0, inner);
    ring.finish();
}

/// What stops a queue of a card never reaches it: each is dropped under its name, and the next frame passes.
#[test]
fn sends_that_stop_a_card_are_dropped_by_name() {
    let mut ring = Direct::start(1, 64, 64, WIDE);
    let (flow, kind) = flows()[0];
    let (head, checksums) = unfinished(flow, kind, &frame(flow, kind, &[])[..54], 0);
    let bytes = [5; 2048];
    let cut = |mss| TxRequest {
        checksums: Some(checksums),
        segmentation: Some(Segmentation { mss, l4_len: 20 }),
        ..Default::default()
    };
    let nothing = TxRequest::default();
    let vlan = TxRequest { vlan: Some(1), ..Default::default() };
    let sums = TxRequest { checksums: Some(checksums), ..Default::default() };
    let long = [&bytes[..], &bytes, &bytes, &bytes, &bytes[..1536]];
    let many = [&bytes[..100]; 9];
    let mut nine = vec![&head[..]];
    nine.extend([&bytes[..100]; 8]);
    let mut flood = vec![&head[..]];
    flood.extend([&bytes[..]; 40]);
    let cases: [(&[&[u8]], TxRequest, DropReason); 10] = [
        (&[&bytes[..16]], nothing, DropReason::TxTooShort),
        (&[&bytes, &bytes, &bytes, &bytes, &bytes[..1537]], nothing, DropReason::TxTooLong),
        (&long, vlan, DropReason::TxTooLong),
        (&many, nothing, DropReason::TxSegments),
        (&[&bytes[..53]], sums, DropReason::TxRequest),
        (&[&head], cut(1460), DropReason::TxRequest),
        (&[&head, &bytes], TxRequest { vlan: Some(1), ..cut(9674) }, DropReason::TxTooLong),
        (&nine, cut(800), DropReason::TxSegments),
        (&flood, cut(1460), DropReason::TxSegments),
        (&[&bytes[..10]], vlan, DropReason::TxTooShort),
    ];
    let plain = frames::numbered(1, 60);
    for (index, (pieces, request, reason)) in cases.into_iter().enumerate() {
        let before = ring.tx.drops().get(reason);
        let (taken, out) = ring.send(pieces, &request);
        assert_eq!((taken, out.len(), ring.tx.drops().get(reason)), (0, 0, before + 1), "case {index}");
        assert_eq!(ring.send(&[&plain], &nothing).1.len(), 1, "after case {index}");
    }
    ring.finish();
}
