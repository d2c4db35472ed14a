use std::vec::Vec;

use super::*;
use crate::forward::examples::{Ground, OWN, PEER, ipv4, sums_to_ones, with};
use crate::forward::segments::Split;

/// A frame through the mode, with the requests that came with it.
fn through(frames: &[&[u8]], tell: impl FnOnce(&mut ModeOptions)) -> (Vec<Vec<u8>>, Vec<TxRequest>) {
    let mut options = ModeOptions::default();
    options.csum.mac_swap = false;
    tell(&mut options);
    let mut csum = Csum::new(&options, &CoreShare::default());
    let mut ground = Ground::new();
    frames.iter().for_each(|frame| ground.arrive(frame));
    assert_eq!(ground.work(|work, burst| csum.forward(Isa::best(), work, burst)), Verdict::Send);
    assert!(ground.has_all_buffers() && ground.drops.total() == 0);
    let last = ground.burst.metas().iter().filter(|meta| meta.is_last());
    (ground.frames(), last.map(|meta| meta.request().unwrap()).collect())
}

fn fixed(frame: &[u8]) -> Vec<u8> {
    through(&[frame], |_| {}).0.remove(0)
}

fn in_tunnels(options: &mut ModeOptions) {
    options.csum.parse_tunnel = true;
}

fn ipv6(next: u8, len: usize) -> Vec<u8> {
    let [high, low] = (len as u16).to_be_bytes();
    with(&[&[0x60, 0, 0, 0, high, low, next, 64], &[0xfe; 15], &[1], &[0xfd; 16]])
}

/// A TCP or UDP segment with this checksum and some payload; `len` bytes.
fn segment(protocol: u8, len: usize, checksum: u16) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len).map(|i| (i * 7 % 251) as u8).collect();
    let at = if protocol == 6 { 16 } else { 6 };
    bytes[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    if protocol == 6 {
        bytes[12] = 0x50;
    } else {
        bytes[4..6].copy_from_slice(&(len as u16).to_be_bytes());
    }
    bytes
}

/// Whether layer 4 at `at` to the end is right, by the book, for the IP header at `ip`.
fn l4_is_right(frame: &[u8], ip: usize, at: usize, protocol: u8) -> bool {
    let addresses = if frame[ip] >> 4 == 4 { ip + 12..ip + 20 } else { ip + 8..ip + 40 };
    let len = (frame.len() - at) as u16;
    sums_to_ones(&with(&[&frame[addresses], &[0, protocol], &len.to_be_bytes(), &frame[at..]]))
}

/// B43: a checksum of 0 is none for UDP over IPv4 alone; each other one is made, whatever stood there.
#[test]
fn b43_zero_is_no_checksum_only_for_udp_over_ipv4() {
    for checksum in [0, 1, 0x1234, 0xffff] {
        for (protocol, len) in [(6, 20), (6, 21), (6, 1400), (17, 8), (17, 9), (17, 1400)] {
            let l4 = segment(protocol, len, checksum);
            let mut ip = ipv4(protocol, [10, 0, 0, 1], len);
            [ip[10], ip[11]] = checksum.to_be_bytes();
            let frame = with(&[&OWN, &PEER, &[8, 0], &ip, &l4]);
            let back = fixed(&frame);
            assert!(sums_to_ones(&back[14..34]));
            if protocol == 17 && checksum == 0 {
                assert_eq!(back[34..], frame[34..]);
            } else {
                assert!(l4_is_right(&back, 14, 34, protocol), "{protocol} {len} {checksum}");
            }
            let frame = with(&[&OWN, &PEER, &[0x86, 0xdd], &ipv6(protocol, len), &l4]);
            let back = fixed(&frame);
            assert!(l4_is_right(&back, 14, 54, protocol), "{protocol} {len} {checksum}");
            let at = 54 + if protocol == 6 { 16 } else { 6 };
            assert_eq!((&back[..at], &back[at + 2..]), (&frame[..at], &frame[at + 2..]));
        }
    }
}

/// A computed 0 is sent as 0xffff for UDP, and as it is for TCP.
#[test]
fn b43_a_sum_of_ones() {
    for protocol in [6, 17] {
        let mut frame =
            with(&[&OWN, &PEER, &[8, 0], &ipv4(protocol, [10, 0, 0, 1], 22), &segment(protocol, 22, 1)]);
        // The last word makes the sum of everything else all ones.
        let fits = (0..=0xffff_u16).find(|guess| {
            frame[54..56].copy_from_slice(&guess.to_be_bytes());
            let at = 34 + if protocol == 6 { 16 } else { 6 };
            let mut zeroed = frame.clone();
            zeroed[at..at + 2].fill(0);
            l4_is_right(&zeroed, 14, 34, protocol)
        });
        assert!(fits.is_some());
        let back = fixed(&frame);
        let at = 34 + if protocol == 6 { 16 } else { 6 };
        assert_eq!(back[at..at + 2], if protocol == 6 { [0, 0] } else { [0xff, 0xff] });
    }
}

/// A frame of each kind, and what it is when it stands alone.
fn templates() -> Vec<Vec<u8>> {
    let mut templates = Vec::new();
    let l4 = |protocol: u8| segment(protocol, 30, 0x5555);
    let inner: Vec<Vec<u8>> = [6, 17]
        .into_iter()
        .flat_map(|protocol| {
            let v4 = with(&[&[3; 12], &[8, 0], &ipv4(protocol, [1, 2, 3, 4], 30), &l4(protocol)]);
            let v6 = with(&[&[3; 12], &[0x86, 0xdd], &ipv6(protocol, 30), &l4(protocol)]);
            [v4, v6]
        })
        .collect();
    for inner in &inner {
        let mut udp = |port: u16, head: &[u8]| {
            let len = (8 + head.len() + inner.len()) as u16;
            let udp = with(&[&[9, 9], &port.to_be_bytes(), &len.to_be_bytes(), &[0x77, 0x77], head, inner]);
            let ip = ipv4(17, [10, 0, 0, 1], udp.len());
            templates.push(with(&[&OWN, &PEER, &[8, 0], &ip, &udp]));
            templates.push(with(&[&OWN, &PEER, &[0x86, 0xdd], &ipv6(17, udp.len()), &udp]));
        };
        udp(4789, &[8, 0, 0, 0, 0, 0, 1, 0]);
        udp(6081, &[2, 0, 0x65, 0x58, 0, 0, 1, 0, 1, 1, 1, 1, 2, 2, 2, 2]);
        let gre = with(&[&[0x20, 0, 0x65, 0x58, 1, 2, 3, 4], inner]);
        templates.push(with(&[&OWN, &PEER, &[8, 0], &ipv4(47, [10, 0, 0, 1], gre.len()), &gre]));
        templates.push(with(&[&OWN, &PEER, &inner[12..]]));
    }
    let hop = with(&[&[17, 0, 1, 4, 0, 0, 0, 0], &l4(17)]);
    templates.push(with(&[&OWN, &PEER, &[0x86, 0xdd], &ipv6(0, hop.len()), &hop]));
    templates.push(with(&[&OWN, &PEER, &[0x08, 0x06], &[1; 46]]));
    templates
}

/// B44: nothing is carried from one frame to the next.
#[test]
fn b44_a_mix_comes_out_as_each_alone() {
    let templates = templates();
    assert!(templates.len() >= 12);
    let alone: Vec<Vec<u8>> =
        templates.iter().map(|frame| through(&[frame], in_tunnels).0.remove(0)).collect();
    let mut random = Random::new(3);
    for _ in 0..50 {
        let picks: Vec<usize> = (0..64).map(|_| random.below(templates.len() as u64) as usize).collect();
        let frames: Vec<&[u8]> = picks.iter().map(|pick| &templates[*pick][..]).collect();
        for (back, pick) in through(&frames, in_tunnels).0.iter().zip(&picks) {
            assert_eq!(back, &alone[*pick], "{pick}");
        }
    }
    // All of them are right: the innermost layer 4, which lies at the end, and the outer UDP.
    for (frame, back) in templates.iter().zip(&alone) {
        assert_eq!(frame.len(), back.len());
        let l4 = back.len() - 30;
        if back[12..14] == [0x08, 0x06] {
            assert_eq!(frame, back);
            continue;
        }
        let extended = back[12] == 0x86 && back[20] == 0;
        let ip = [l4 - 20, l4.saturating_sub(40), 14]
            [if extended { 2 } else { usize::from(back[l4 - 20] != 0x45) }];
        let protocol =
            [back[ip + 9], back[ip + 6], 17][if extended { 2 } else { usize::from(back[ip] != 0x45) }];
        assert!(l4_is_right(back, ip, l4, protocol), "{back:02x?}");
        let (outer_l4, v4) = if back[12] == 8 { (34, back[23] == 17) } else { (54, back[20] == 17) };
        if v4 {
            assert!(l4_is_right(back, 14, outer_l4, 17), "{back:02x?}");
        }
        if back[12] == 8 {
            assert!(sums_to_ones(&back[14..34]));
        }
    }
}

#[test]
fn fragments_and_what_is_cut_off_keep_their_bytes() {
    let whole = with(&[&OWN, &PEER, &[8, 0], &ipv4(17, [10, 0, 0, 1], 40), &segment(17, 40, 0x1111)]);
    for fragment in [[0x20, 0], [0, 5], [0x20, 5]] {
        let mut frame = whole.clone();
        frame[20..22].copy_from_slice(&fragment);
        let back = fixed(&frame);
        assert!(sums_to_ones(&back[14..34]));
        assert_eq!((&back[..24], &back[26..]), (&frame[..24], &frame[26..]));
    }
    for len in 17..whole.len() {
        assert_eq!(fixed(&whole[..len]), whole[..len], "{len}");
    }
}

/// A checksum over several buffers, cut at odd places.
#[test]
fn a_frame_in_several_buffers() {
    let mut frame = with(&[&OWN, &PEER, &[8, 0], &ipv4(6, [10, 0, 0, 1], 5001), &segment(6, 5001, 7)]);
    frame.extend([9; 3]);
    for room in [61, 333, 1000, 2047] {
        let mut ground = Ground::new();
        ground.arrive_in(&frame, room);
        let mut csum = Csum::new(&ModeOptions::default(), &CoreShare::default());
        ground.work(|work, burst| csum.forward(Isa::best(), work, burst));
        let back = ground.frames().remove(0);
        // Addresses are those of `mac`; what lies behind the packet does not count.
        assert_eq!((&back[..6], &back[6..12], &back[5035..]), (&PEER[..], &OWN[..], &[9; 3][..]));
        assert!(l4_is_right(&back[..5035], 14, 34, 6), "{room}");
    }
}

/// RFC 9260, appendix A, over 12 bytes of header and a chunk.
#[test]
fn sctp_is_made_in_software() {
    let sctp = [0x30, 0x39, 0, 80, 1, 2, 3, 4, 0, 0, 0, 0, 0, 3, 0, 4];
    let frame = with(&[&OWN, &PEER, &[8, 0], &ipv4(132, [10, 0, 0, 1], sctp.len()), &sctp]);
    let back = fixed(&frame);
    // By bits, as the polynomial is written: reflected 0x1edc6f41.
    let mut crc = u32::MAX;
    for byte in sctp {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
        }
    }
    assert_eq!(back[42..46], (!crc).to_le_bytes());
    assert_eq!((&back[34..42], &back[46..]), (&sctp[..8], &sctp[12..]));
}

fn by_card(options: &mut ModeOptions) {
    ["ip", "udp", "tcp", "sctp"].into_iter().for_each(|what| {
        options.csum.set("--csum-set", &std::format!("{what},hw")).unwrap();
    });
    options.csum.parse_tunnel = true;
}

/// What the card is asked for, and what it finds in the fields: the sum of the pseudo-header (datasheet, section 8.4.4).
#[test]
fn the_card_is_asked_where_it_can() {
    let pseudo = |protocol: u8, len: u16| {
        let mut sum = 0x0a00_u32 + 0x0009 + 0x0a00 + 0x0001 + u32::from(protocol) + u32::from(len);
        sum = (sum & 0xffff) + (sum >> 16);
        (sum as u16).to_be_bytes()
    };
    let tcp = with(&[&OWN, &PEER, &[8, 0], &ipv4(6, [10, 0, 0, 1], 100), &segment(6, 100, 7)]);
    let (back, requests) = through(&[&tcp], by_card);
    let asked = Checksums { l2_len: 14, l3_len: 20, ip: IpHeader::V4Checksum, l4: Some(L4Checksum::Tcp) };
    assert_eq!(requests[0], TxRequest { checksums: Some(asked), ..TxRequest::default() });
    assert_eq!((&back[0][24..26], &back[0][50..52]), (&[0, 0][..], &pseudo(6, 100)[..]));
    // Cut: without the length.
    let (back, requests) = through(&[&tcp, &tcp[..93]], |options| options.csum.tso = 70);
    assert_eq!(requests[0].segmentation, Some(Segmentation { mss: 70, l4_len: 20 }));
    assert_eq!((requests[0].checksums, &back[0][50..52]), (Some(asked), &pseudo(6, 0)[..]));
    assert_eq!(requests[1], TxRequest::default());
    // No checksum, and none is asked for.
    let udp = with(&[&OWN, &PEER, &[8, 0], &ipv4(17, [10, 0, 0, 1], 30), &segment(17, 30, 0)]);
    let (back, requests) = through(&[&udp], by_card);
    assert_eq!((requests[0].checksums.unwrap().l4, &back[0][34..]), (None, &udp[34..]));
    // An outer checksum is about the inner bytes: all is software's.
    for frame in
        templates().iter().filter(|frame| frame[12..14] == [8, 0] && frame[23] == 17 && frame.len() > 80)
    {
        let (back, requests) = through(&[frame], by_card);
        assert_eq!((requests[0], &back), (TxRequest::default(), &through(&[frame], in_tunnels).0));
        let mut without = frame.clone();
        without[40..42].fill(0);
        let (back, requests) = through(&[&without], by_card);
        let l2_len = requests[0].checksums.unwrap().l2_len;
        assert_eq!((usize::from(l2_len) > 60, &back[0][40..42]), (true, &[0, 0][..]));
    }
}

/// The vector forms change what the scalar one changes, and nothing else: frames of the usual kinds, and those in which a
/// byte or the end is not what it should be.
#[test]
fn each_instruction_set_makes_the_same_of_every_frame() {
    let mut random = crate::forward::random::Random::new(11);
    let mut frames = Vec::new();
    for number in 0..3000 {
        let protocol = [6, 17, 17, 132][random.below(4) as usize];
        let len = 8 + random.below(if number % 10 == 0 { 1472 } else { 90 }) as usize;
        let checksum = [0, 0xffff, random.next() as u16][random.below(3) as usize];
        let l4 = segment(if protocol == 132 { 17 } else { protocol }, len.max(20), checksum);
        let mut ip = ipv4(protocol, [10, 0, 0, random.next() as u8], l4.len());
        [ip[10], ip[11]] = (random.next() as u16).to_be_bytes();
        let padding = std::vec![0xa5; random.below(8) as usize];
        let mut frame = with(&[&OWN, &PEER, &[8, 0], &ip, &l4, &padding]);
        if random.below(2) == 0 {
            let at = 12 + random.below(50.min(frame.len() as u64 - 12)) as usize;
            frame[at] ^= 1 << random.below(8);
        }
        if random.below(8) == 0 {
            frame.truncate(14 + random.below(frame.len() as u64 - 14) as usize);
        }
        frames.push(frame);
    }
    let made_by = |isa: Isa| -> Vec<Vec<u8>> {
        let mut options = ModeOptions::default();
        options.csum.mac_swap = false;
        let mut csum = Csum::new(&options, &CoreShare::default());
        let made = frames.chunks(32).flat_map(|some| {
            let mut ground = Ground::new();
            some.iter().for_each(|frame| ground.arrive(frame));
            ground.work(|work, burst| csum.forward(isa, work, burst));
            ground.frames()
        });
        made.collect()
    };
    let wanted = made_by(Isa::Scalar);
    let changed = wanted.iter().zip(&frames).filter(|(made, frame)| made != frame).count();
    assert!(changed > 1000, "{changed}");
    for isa in hal::simd::Level::ALL.into_iter().filter_map(Isa::exactly) {
        assert!(made_by(isa) == wanted, "{isa:?}");
    }
}

/// A card sums up to the frame's end: where the packet ends before it, software does.
#[test]
fn the_card_is_not_asked_to_sum_what_lies_behind_the_packet() {
    for (protocol, at) in [(6, 16), (17, 6)] {
        let l4 = segment(protocol, 26, 0x1234);
        let whole = with(&[&OWN, &PEER, &[8, 0], &ipv4(protocol, [10, 0, 0, 1], 26), &l4]);
        // Padding; and a datagram that is shorter than its packet.
        let mut cases = std::vec![with(&[&whole, &[0xaa; 7]])];
        if protocol == 17 {
            let mut short = whole.clone();
            short[38..40].copy_from_slice(&20_u16.to_be_bytes());
            cases.push(short);
        }
        for frame in cases {
            let (back, requests) = through(&[&frame], by_card);
            let asked = requests[0].checksums.unwrap();
            assert_eq!((asked.ip, asked.l4), (IpHeader::V4Checksum, None), "{protocol}");
            let end = 34 + if protocol == 17 { usize::from(frame[39]) } else { 26 };
            assert!(l4_is_right(&back[0][..end], 14, 34, protocol));
            assert_eq!((&back[0][end..], at), (&frame[end..], at));
        }
    }
}

#[test]
fn frames_are_copied_into_segments() {
    for (txpkts, split, lens) in [
        ("64", Split::Off, &[1000][..]),
        ("64", Split::On, &[1000]),
        ("64,100,200", Split::On, &[64, 100, 836]),
        ("999,1,1", Split::On, &[999, 1]),
        ("2000", Split::On, &[1000]),
    ] {
        let mut options = ModeOptions::default();
        options.set("--txpkts", txpkts).unwrap();
        options.segments.split = split;
        let mut csum = Csum::new(&options, &CoreShare::default());
        let mut ground = Ground::new();
        let frames: Vec<Vec<u8>> = (0..3).map(|n| with(&[&PEER, &OWN, &[n; 988]])).collect();
        frames.iter().for_each(|frame| ground.arrive_in(frame, 300));
        let before = ground.burst.len();
        ground.work(|work, burst| csum.forward(Isa::best(), work, burst));
        assert_eq!(ground.frames(), frames, "{txpkts}");
        let now: Vec<u32> = ground.burst.metas().iter().map(|meta| meta.len()).collect();
        if split == Split::Off {
            assert_eq!(now.len(), before);
        } else {
            assert_eq!(now, lens.repeat(3), "{txpkts}");
        }
        assert!(ground.has_all_buffers());
    }
    // A last segment that no buffer holds: the frame stays as it is.
    let mut options = ModeOptions::default();
    options.set("--txsplit", "on").unwrap();
    let mut ground = Ground::new();
    ground.arrive(&with(&[&PEER, &OWN, &[5; 2900]]));
    ground.work(|work, burst| Csum::new(&options, &CoreShare::default()).forward(Isa::best(), work, burst));
    assert_eq!((ground.burst.len(), ground.frames()[0].len()), (2, 2912));
    assert!(ground.has_all_buffers());
}
