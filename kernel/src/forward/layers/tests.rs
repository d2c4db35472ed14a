use super::*;
use crate::forward::examples::{Ground, OWN, PEER, ipv4, with};

/// The layers of a frame that lies in buffers of `room` bytes.
fn layers_in(frame: &[u8], room: usize, tunnels: bool) -> Option<Layers> {
    let mut ground = Ground::new();
    ground.arrive_in(frame, room);
    let first = Frame::new(&ground.memory, ground.burst.buffers()[0], ground.burst.metas()[0]);
    Layers::find(first, frame.len(), tunnels)
}

fn layers(frame: &[u8], tunnels: bool) -> Option<Layers> {
    layers_in(frame, 2048, tunnels)
}

fn ipv6(next: u8, len: usize) -> std::vec::Vec<u8> {
    let [high, low] = (len as u16).to_be_bytes();
    with(&[&[0x60, 0, 0, 0, high, low, next, 64], &[0xfe; 16], &[0xfd; 16]])
}

const UDP: [u8; 12] = [0x30, 0x39, 0x12, 0xb5, 0, 12, 0, 0, 1, 2, 3, 4];

#[test]
fn each_layer_by_its_own_type() {
    for tags in [&[][..], &[0x81, 0, 0, 5], &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6], &[0x81, 0, 0, 7].repeat(9)] {
        let l2 = 14 + tags.len();
        let frame = with(&[&OWN, &PEER, tags, &[8, 0], &ipv4(17, [10, 0, 0, 1], 12), &UDP, &[0; 6]]);
        let found = layers(&frame, true).unwrap();
        assert_eq!((found.ip.at, found.ip.len, found.ip.end, found.outer), (l2, 20, l2 + 32, None));
        let udp = Transport { kind: Kind::Udp, at: l2 + 20, len: 8, end: l2 + 32 };
        assert_eq!(found.transport, Some(udp));
        let frame = with(&[&OWN, &PEER, tags, &[0x86, 0xdd], &ipv6(17, 12), &UDP]);
        let found = layers(&frame, false).unwrap();
        assert_eq!((found.ip.version, found.ip.len, found.transport.unwrap().at), (Version::V6, 40, l2 + 40));
    }
    assert_eq!(layers(&with(&[&OWN, &PEER, &[0x08, 0x06], &[0; 28]]), true), None);
    assert_eq!(layers(&with(&[&OWN, &PEER, &[0x81, 0, 0, 5].repeat(300)]), true), None);
}

/// RFC 8200, section 4: hop-by-hop options, a routing header, a fragment header, destination options, UDP.
#[test]
fn extension_headers_are_walked_within_the_packet() {
    let hop = [43, 1, 5, 2, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let routing = |left| [44, 0, 4, left, 0, 0, 0, 0];
    let fragment = |offset: [u8; 2]| [60, 0, offset[0], offset[1], 0, 0, 0, 9];
    let destination = [17, 0, 1, 4, 0, 0, 0, 0];
    for (left, offset, whole) in
        [(0, [0, 0], true), (1, [0, 0], false), (0, [0, 1], false), (0, [0, 8], false), (0, [0, 6], true)]
    {
        let rest = with(&[&hop, &routing(left), &fragment(offset), &destination, &UDP]);
        let frame = with(&[&OWN, &PEER, &[0x86, 0xdd], &ipv6(0, rest.len()), &rest]);
        let found = layers(&frame, false).unwrap();
        assert_eq!((found.ip.len, found.ip.protocol, found.ip.whole), (40 + 40, 17, whole));
        assert_eq!(found.transport.map(|udp| udp.at), whole.then_some(14 + 80));
    }
    // One that says it is longer than the packet.
    let frame = with(&[&OWN, &PEER, &[0x86, 0xdd], &ipv6(0, 20), &[17, 9, 1, 4, 0, 0, 0, 0], &UDP]);
    let found = layers(&frame, false).unwrap();
    assert_eq!((found.ip.len, found.ip.protocol, found.transport), (40, 0, None));
}

/// B44: a tunnel of each kind, IPv4 in IPv6 and the other way, options of several lengths.
#[test]
fn b44_tunnels_are_read_by_what_they_say() {
    let inner = [with(&[&ipv4(17, [10, 1, 1, 1], 12), &UDP]), with(&[&ipv6(17, 12), &UDP])];
    let kinds = [[0x08, 0x00], [0x86, 0xdd]];
    for (index, packet) in inner.iter().enumerate() {
        let kind = kinds[index];
        let ether = with(&[&[3; 12], &[0x81, 0, 0, 9], &kind, packet]);
        let udp = |port: u16, payload: &[u8]| {
            let len = (8 + payload.len()) as u16;
            with(&[&[0x11, 0x11], &port.to_be_bytes(), &len.to_be_bytes(), &[0, 0], payload])
        };
        let in_ip = [4, 41][index];
        let tunnels = [
            (17, udp(4789, &with(&[&[8, 0, 0, 0, 0, 0, 1, 0], &ether]))),
            (17, udp(4790, &with(&[&[12, 0, 0, 3, 0, 0, 1, 0], &ether]))),
            (17, udp(4790, &with(&[&[12, 0, 0, index as u8 + 1, 0, 0, 1, 0], packet]))),
            (17, udp(6081, &with(&[&[0, 0, 0x65, 0x58, 0, 0, 1, 0], &ether]))),
            (17, udp(6081, &with(&[&[2, 0, 0x65, 0x58, 0, 0, 1, 0], &[9; 8], &ether]))),
            (17, udp(2152, &with(&[&[0x30, 0xff, 0, 40, 0, 0, 0, 1], packet]))),
            (17, udp(2152, &with(&[&[0x32, 0xff, 0, 44, 0, 0, 0, 1], &[0, 1, 0, 0], packet]))),
            (
                17,
                udp(
                    2152,
                    &with(&[&[0x34, 0xff, 0, 44, 0, 0, 0, 1], &[0, 0, 0, 0x85], &[1, 0, 5, 0], packet]),
                ),
            ),
            (47, with(&[&[0, 0, kind[0], kind[1]], packet])),
            (47, with(&[&[0x30, 0, 0x65, 0x58], &[0; 8], &ether])),
            (in_ip, packet.clone()),
        ];
        for (number, (protocol, payload)) in tunnels.iter().enumerate() {
            for (outer, kind) in [
                (ipv4(*protocol, [10, 0, 0, 1], payload.len()), kinds[0]),
                (ipv6(*protocol, payload.len()), kinds[1]),
            ] {
                let frame = with(&[&OWN, &PEER, &kind, &outer, payload]);
                let found = layers(&frame, true).unwrap();
                assert_eq!(found.outer.map(|(ip, _)| ip.len), Some(outer.len()), "{number}");
                assert_eq!(found.ip.version, [Version::V4, Version::V6][index], "{number}");
                assert_eq!(found.ip.at, frame.len() - packet.len(), "{number}");
                assert_eq!(found.transport.map(|udp| udp.at), Some(frame.len() - UDP.len()), "{number}");
                let plain = layers(&frame, false).unwrap();
                assert_eq!((plain.outer, plain.ip.at), (None, 14), "{number}");
                // Cut off anywhere, nothing is found behind the end.
                for len in 14..frame.len() {
                    let cut = layers(&frame[..len], true);
                    assert!(
                        cut.is_none_or(
                            |cut| cut.ip.end <= len && cut.transport.is_none_or(|l4| l4.end <= len)
                        )
                    );
                }
            }
        }
    }
}

/// RFC 2784, section 2.4: GRE's own checksum is about all that it carries, and would not be right any more.
#[test]
fn gre_with_a_checksum_is_no_tunnel() {
    let inner = with(&[&ipv4(17, [10, 1, 1, 1], 12), &UDP]);
    for (flags, found) in [(0, true), (0x80, false), (0x40, false)] {
        let gre = with(&[&[flags, 0, 8, 0], &[0; 4][..usize::from(flags > 0) * 4], &inner]);
        let frame = with(&[&OWN, &PEER, &[8, 0], &ipv4(47, [10, 0, 0, 1], gre.len()), &gre]);
        assert_eq!(layers(&frame, true).unwrap().outer.is_some(), found, "{flags:#x}");
    }
}

/// RFC 791, section 3.1: with a route that has a way to go the destination is not the last one, whose address layer 4 has
/// summed up. The pointer is above the length at the end.
#[test]
fn a_source_route_changes_the_pseudo_header() {
    for (options, whole) in [
        ([1, 1, 1, 1, 1, 1, 1, 0], true),
        ([131, 7, 4, 10, 0, 0, 9, 0], false),
        ([137, 7, 4, 10, 0, 0, 9, 0], false),
        ([131, 7, 8, 10, 0, 0, 9, 0], true),
        ([1, 137, 7, 4, 10, 0, 0, 9], false),
        ([0, 131, 7, 4, 10, 0, 0, 9], true),
        // A record of the route, a time stamp, and lengths that are none.
        ([7, 7, 4, 0, 0, 0, 0, 0], true),
        ([68, 8, 5, 0, 0, 0, 0, 0], true),
        ([7, 0, 4, 0, 0, 0, 0, 0], false),
        ([7, 1, 4, 0, 0, 0, 0, 0], false),
        ([7, 9, 4, 0, 0, 0, 0, 0], false),
        ([1, 1, 1, 1, 1, 1, 1, 7], false),
    ] {
        let mut ip = ipv4(17, [10, 0, 0, 1], 20);
        ip[0] = 0x47;
        let frame = with(&[&OWN, &PEER, &[8, 0], &ip, &options, &UDP]);
        let found = layers(&frame, false).unwrap();
        assert_eq!((found.ip.len, found.ip.whole), (28, whole), "{options:?}");
        assert_eq!(found.transport.is_some(), whole, "{options:?}");
    }
}

/// RFC 6275, section 6.3: the address in the option stands for the source.
#[test]
fn a_home_address_changes_the_pseudo_header() {
    let home = with(&[&[17, 2, 1, 2, 0, 0, 0xc9, 16], &[0xfc; 16]]);
    let padded = with(&[&[17, 2, 0, 0, 0, 1, 16], &[0xc9; 16], &[0]]);
    let cut = with(&[&[17, 2, 1, 255], &[0; 20]]);
    for (options, whole) in [(home, false), (padded, true), (cut, false)] {
        let rest = with(&[&options, &UDP]);
        let frame = with(&[&OWN, &PEER, &[0x86, 0xdd], &ipv6(60, rest.len()), &rest]);
        assert_eq!(layers(&frame, false).unwrap().transport.is_some(), whole, "{options:x?}");
    }
}

#[test]
fn lengths_that_the_frame_does_not_bear_out_are_not_believed() {
    let good = with(&[&OWN, &PEER, &[8, 0], &ipv4(6, [10, 0, 0, 1], 24), &[0x50; 24]]);
    assert!(layers(&good, false).unwrap().transport.is_some());
    // Version, header length, total length.
    for (at, value) in [(14, 0x65), (14, 0x44), (14, 0x4f), (16, 1), (17, 19), (17, 45)] {
        let mut other = good.clone();
        other[at] = value;
        assert_eq!(layers(&other, false), None, "{at} {value}");
    }
    // TCP's own header: shorter than it can be, longer than the packet.
    for offset in [0x40, 0x70, 0xf0] {
        let mut other = good.clone();
        other[34 + 12] = offset;
        assert_eq!(layers(&other, false).unwrap().transport, None, "{offset:#x}");
    }
    // UDP's length: shorter than its header, longer than the packet.
    let udp = |len: u8| {
        let mut udp = UDP;
        udp[5] = len;
        layers(&with(&[&OWN, &PEER, &[8, 0], &ipv4(17, [10, 0, 0, 1], 12), &udp]), false).unwrap().transport
    };
    assert_eq!(
        [0, 7, 8, 12, 13].map(|len| udp(len).map(|udp| udp.end)),
        [None, None, Some(42), Some(46), None]
    );
    // Headers that lie in two buffers.
    for room in 15..54 {
        let found = layers_in(&good, room, false);
        assert_eq!(found.is_some(), room >= 34, "{room}");
        assert_eq!(found.and_then(|found| found.transport).is_some(), room >= 54, "{room}");
    }
}

/// Any bytes: what is found lies within them.
#[test]
fn any_bytes_at_all() {
    let mut random = crate::forward::random::Random::new(7);
    let mut tunnels = 0;
    for _ in 0..20_000 {
        let len = 40 + random.below(200) as usize;
        let mut frame: std::vec::Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
        let starts: [&[u8]; 4] =
            [&[8, 0, 0x45], &[0x86, 0xdd, 0x60], &[0x81, 0, 0, 1, 8, 0, 0x46], &[8, 0, 0x45]];
        let start = starts[random.below(4) as usize];
        frame.truncate(12);
        frame.extend(start);
        frame.extend((0..len).map(|_| random.next() as u8));
        if start.len() == 3 && start[2] == 0x45 {
            // A length that is right, and a protocol that is looked at.
            let ip_len = (frame.len() - 14) as u16;
            frame[16..18].copy_from_slice(&ip_len.to_be_bytes());
            frame[20..22].fill(0);
            frame[23] = [4, 41, 47, 17][random.below(4) as usize];
            let inner_len = (frame.len() - 34) as u16;
            frame[36..38].copy_from_slice(&inner_len.to_be_bytes());
            frame[34] = [0x45, 0x60, 0, 0x20][random.below(4) as usize];
        }
        if let Some(found) = layers(&frame, true) {
            tunnels += u32::from(found.outer.is_some());
            assert!(found.ip.at + found.ip.len <= found.ip.end && found.ip.end <= frame.len());
            if let Some(l4) = found.transport {
                assert!(l4.at + l4.len <= l4.end && l4.end <= found.ip.end);
            }
        }
    }
    assert!(tunnels > 10, "{tunnels}");
}
