//! The layers of a frame, as far as the frame itself bears them out: every length is checked against what is there, each
//! layer is read by its own type, and nothing is carried from one frame to the next.
//!
//! Headers are looked for in the frame's first buffer; what they speak of may lie in all of them.

use super::frame::Frame;

const TYPE_AT: usize = 12;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TRANSPARENT_ETHERNET: u16 = 0x6558;
const TAGS: [u16; 2] = [0x8100, 0x88a8];

/// IP version 4 or 6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// With a header checksum.
    V4,
    /// Without one.
    V6,
}

/// An IP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ip {
    /// Its version.
    pub version: Version,
    /// Its first byte.
    pub at: usize,
    /// Bytes, with options or extension headers.
    pub len: usize,
    /// The byte behind its packet, by the length in the header.
    pub end: usize,
    /// What follows the header.
    pub protocol: u8,
    /// What follows is all of it, and its pseudo-header has the addresses of this header: no fragment, no route that has a
    /// way to go, no home address.
    pub whole: bool,
}

/// Kinds of layer 4 with a checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// TCP
    Tcp,
    /// UDP
    Udp,
    /// SCTP
    Sctp,
}

impl Kind {
    /// Its number in IP.
    pub const fn protocol(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
            Self::Sctp => 132,
        }
    }

    /// Where its checksum lies in its header.
    pub const fn checksum_at(self) -> usize {
        match self {
            Self::Tcp => 16,
            Self::Udp => 6,
            Self::Sctp => 8,
        }
    }
}

/// A header of layer 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transport {
    /// Its kind.
    pub kind: Kind,
    /// Its first byte.
    pub at: usize,
    /// Bytes of the header.
    pub len: usize,
    /// The byte behind what its checksum is about.
    pub end: usize,
}

/// What a frame is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layers {
    /// IP and layer 4 of the tunnel, if there is one.
    pub outer: Option<(Ip, Option<Transport>)>,
    /// IP, in the tunnel if there is one.
    pub ip: Ip,
    /// Layer 4, likewise.
    pub transport: Option<Transport>,
}

impl Layers {
    /// Those of a frame of `total` bytes, with what is in tunnels if `tunnels` says so. `None` without IP.
    pub fn find(frame: Frame<'_>, total: usize, tunnels: bool) -> Option<Self> {
        let (kind, at) = skip_tags(frame, TYPE_AT)?;
        let ip = find_ip(frame, kind, at, total)?;
        let transport = find_transport(frame, &ip);
        let inner = tunnels.then(|| find_inner(frame, &ip, transport)).flatten();
        Some(match inner {
            Some(inner) => {
                Self { outer: Some((ip, transport)), ip: inner, transport: find_transport(frame, &inner) }
            }
            None => Self { outer: None, ip, transport },
        })
    }
}

/// The first type from `at` on that is no tag's, and where its header begins. Each step goes on by four bytes within the
/// frame.
pub fn skip_tags(frame: Frame<'_>, mut at: usize) -> Option<(u16, usize)> {
    loop {
        let kind = frame.load_word(at)?;
        if !TAGS.contains(&kind) {
            return Some((kind, at + 2));
        }
        at += 4;
    }
}

fn find_ip(frame: Frame<'_>, kind: u16, at: usize, limit: usize) -> Option<Ip> {
    match kind {
        IPV4 => find_ipv4(frame, at, limit),
        IPV6 => find_ipv6(frame, at, limit),
        _ => None,
    }
}

fn find_ipv4(frame: Frame<'_>, at: usize, limit: usize) -> Option<Ip> {
    let header: [u8; 20] = frame.load(at)?;
    let (version, len) = (header[0] >> 4, usize::from(header[0] & 0xf) * 4);
    let end = at + usize::from(u16::from_be_bytes([header[2], header[3]]));
    if version != 4 || len < 20 || at + len > end || end > limit || at + len > frame.len() {
        return None;
    }
    // More fragments, and an offset.
    let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff;
    let whole = fragment == 0 && !has_source_route(frame, at + 20, at + len);
    Some(Ip { version: Version::V4, at, len, end, protocol: header[9], whole })
}

/// Options with a source route that has a way to go: then the destination is not the last one (RFC 791, section 3.1).
/// Options that can't be read are taken for one.
fn has_source_route(frame: Frame<'_>, mut at: usize, end: usize) -> bool {
    const END: u8 = 0;
    const NOTHING: u8 = 1;
    const LOOSE: u8 = 131;
    const STRICT: u8 = 137;
    while at < end {
        match frame.load(at) {
            Some([END]) => return false,
            Some([NOTHING]) => at += 1,
            Some([kind]) => {
                let Some([len]) = frame.load(at + 1) else { return true };
                let pointer = frame.load::<1>(at + 2);
                if len < 2 || at + usize::from(len) > end {
                    return true;
                }
                // The pointer is above the length when all of the route has been taken.
                if matches!(kind, LOOSE | STRICT) && pointer.is_none_or(|[pointer]| pointer <= len) {
                    return true;
                }
                at += usize::from(len);
            }
            None => return true,
        }
    }
    false
}

/// A destination option with the home address, which stands for the source (RFC 6275, section 6.3). Options that can't be
/// read are taken for one.
fn has_home_address(frame: Frame<'_>, mut at: usize, end: usize) -> bool {
    const PAD1: u8 = 0;
    const HOME_ADDRESS: u8 = 0xc9;
    while at < end {
        match frame.load(at) {
            Some([PAD1]) => at += 1,
            Some([HOME_ADDRESS]) | None => return true,
            Some(_) => {
                let Some([len]) = frame.load(at + 1) else { return true };
                at += 2 + usize::from(len);
            }
        }
    }
    at > end
}

fn find_ipv6(frame: Frame<'_>, at: usize, limit: usize) -> Option<Ip> {
    let header: [u8; 8] = frame.load(at)?;
    let end = at + 40 + usize::from(u16::from_be_bytes([header[4], header[5]]));
    if header[0] >> 4 != 6 || end > limit || at + 40 > frame.len() {
        return None;
    }
    let mut ip = Ip { version: Version::V6, at, len: 40, end, protocol: header[6], whole: true };
    skip_extensions(frame, &mut ip);
    Some(ip)
}

/// Goes on over extension headers within the packet (RFC 8200, section 4); one that is cut off is where it ends.
fn skip_extensions(frame: Frame<'_>, ip: &mut Ip) {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT: u8 = 44;
    const DESTINATION: u8 = 60;
    while let HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION = ip.protocol {
        let at = ip.at + ip.len;
        let Some([next, units, offset_high, offset_low]) = frame.load::<4>(at) else { return };
        let len = if ip.protocol == FRAGMENT { 8 } else { (usize::from(units) + 1) * 8 };
        if at + len > ip.end.min(frame.len()) {
            return;
        }
        match ip.protocol {
            // An offset, or more fragments.
            FRAGMENT => ip.whole &= u16::from_be_bytes([offset_high, offset_low]) & 0xfff9 == 0,
            // Segments left.
            ROUTING => ip.whole &= offset_low == 0,
            DESTINATION => ip.whole &= !has_home_address(frame, at + 2, at + len),
            _ => {}
        }
        ip.len += len;
        ip.protocol = next;
    }
}

fn find_transport(frame: Frame<'_>, ip: &Ip) -> Option<Transport> {
    if !ip.whole {
        return None;
    }
    let at = ip.at + ip.len;
    let kind = [Kind::Tcp, Kind::Udp, Kind::Sctp].into_iter().find(|kind| kind.protocol() == ip.protocol)?;
    let (len, end) = match kind {
        Kind::Tcp => {
            let [offset] = frame.load(at + 12)?;
            (usize::from(offset >> 4) * 4, ip.end)
        }
        Kind::Udp => (8, at + usize::from(frame.load_word(at + 4)?)),
        Kind::Sctp => (12, ip.end),
    };
    let least = if kind == Kind::Tcp { 20 } else { len };
    let good = len >= least && at + len <= end && end <= ip.end && at + len <= frame.len();
    good.then_some(Transport { kind, at, len, end })
}

/// IP inside of a tunnel.
fn find_inner(frame: Frame<'_>, ip: &Ip, transport: Option<Transport>) -> Option<Ip> {
    const IP_IN_IP: u8 = 4;
    const IPV6_IN_IP: u8 = 41;
    const GRE: u8 = 47;
    let at = ip.at + ip.len;
    let (kind, at, limit) = match (ip.protocol, transport) {
        _ if !ip.whole => return None,
        (IP_IN_IP, _) => (IPV4, at, ip.end),
        (IPV6_IN_IP, _) => (IPV6, at, ip.end),
        (GRE, _) => {
            let (kind, at) = skip_gre(frame, at)?;
            (kind, at, ip.end)
        }
        (_, Some(udp)) if udp.kind == Kind::Udp => {
            let (kind, at) = skip_udp_tunnel(frame, udp.at)?;
            (kind, at, udp.end)
        }
        _ => return None,
    };
    let (kind, at) = if kind == TRANSPARENT_ETHERNET { skip_tags(frame, at + TYPE_AT)? } else { (kind, at) };
    find_ip(frame, kind, at, limit)
}

/// The type of what a GRE header carries, and where that begins (RFC 2784, RFC 2890); no version but 0, no routing, and no
/// checksum, which is about every byte of what it carries.
fn skip_gre(frame: Frame<'_>, at: usize) -> Option<(u16, usize)> {
    const KEY_SEQUENCE: [u16; 2] = [0x2000, 0x1000];
    let (flags, kind) = (frame.load_word(at)?, frame.load_word(at + 2)?);
    if flags & 0xc007 != 0 {
        return None;
    }
    let options = KEY_SEQUENCE.iter().filter(|flag| flags & *flag != 0).count();
    Some((kind, at + 4 + options * 4))
}

/// The same for tunnels that are known by their UDP port, with the UDP header at `udp`.
fn skip_udp_tunnel(frame: Frame<'_>, udp: usize) -> Option<(u16, usize)> {
    const GTP_U: u16 = 2152;
    const VXLAN: u16 = 4789;
    const VXLAN_GPE: u16 = 4790;
    const GENEVE: u16 = 6081;
    let at = udp + 8;
    match frame.load_word(udp + 2)? {
        VXLAN => Some((TRANSPARENT_ETHERNET, at + 8)),
        // draft-ietf-nvo3-vxlan-gpe: the next protocol is in the fourth byte.
        VXLAN_GPE => match frame.load(at + 3)? {
            [1] => Some((IPV4, at + 8)),
            [2] => Some((IPV6, at + 8)),
            [3] => Some((TRANSPARENT_ETHERNET, at + 8)),
            _ => None,
        },
        // RFC 8926: length of the options in units of four bytes.
        GENEVE => {
            let [first] = frame.load(at)?;
            let (version, options) = (first >> 6, usize::from(first & 0x3f) * 4);
            (version == 0).then_some((frame.load_word(at + 2)?, at + 8 + options))
        }
        GTP_U => skip_gtp(frame, at),
        _ => None,
    }
}

/// 3GPP TS 29.281, section 5: a T-PDU, whose kind is told by its first bits.
fn skip_gtp(frame: Frame<'_>, at: usize) -> Option<(u16, usize)> {
    const T_PDU: u8 = 0xff;
    let [flags, message]: [u8; 2] = frame.load(at)?;
    let (version, extended) = (flags >> 5, flags & 4 != 0);
    if version != 1 || message != T_PDU {
        return None;
    }
    let mut inner = at + if flags & 7 != 0 { 12 } else { 8 };
    // Each extension header is a multiple of four bytes, and its last one tells the next.
    let [mut next] = if extended { frame.load(at + 11)? } else { [0] };
    while next != 0 {
        let [units] = frame.load(inner)?;
        if units == 0 {
            return None;
        }
        inner += usize::from(units) * 4;
        [next] = frame.load(inner - 1)?;
    }
    let [first] = frame.load(inner)?;
    match first >> 4 {
        4 => Some((IPV4, inner)),
        6 => Some((IPV6, inner)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
