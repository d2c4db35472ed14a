//! What a forwarding mode must do to a frame.

/// The image's forwarding modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forward {
    /// Frames come back as they were.
    Io,
    /// With the sending port's address as source and its peer's as destination.
    Mac,
    /// With their addresses exchanged.
    MacSwap,
    /// With source and destination of Ethernet, IP, and UDP or TCP exchanged.
    FiveTupleSwap,
    /// As they were.
    RecycleMbufs,
    /// Nothing comes back.
    RxOnly,
    /// The image makes frames of its own.
    TxOnly,
}

impl Forward {
    /// All modes.
    pub const ALL: [Self; 7] = [
        Self::Io,
        Self::Mac,
        Self::MacSwap,
        Self::FiveTupleSwap,
        Self::RecycleMbufs,
        Self::RxOnly,
        Self::TxOnly,
    ];

    /// testpmd's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Io => "io",
            Self::Mac => "mac",
            Self::MacSwap => "macswap",
            Self::FiveTupleSwap => "5tswap",
            Self::RecycleMbufs => "recycle_mbufs",
            Self::RxOnly => "rxonly",
            Self::TxOnly => "txonly",
        }
    }

    /// The mode of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// Frames come back.
    pub const fn returns(self) -> bool {
        !matches!(self, Self::RxOnly | Self::TxOnly)
    }
}

/// Addresses of the machine's ports.
#[derive(Debug, Clone)]
pub struct Macs(pub Vec<[u8; 6]>);

impl Macs {
    /// testpmd's address of whoever is at the other end of a port's cable.
    pub const fn peer(port: usize) -> [u8; 6] {
        [0x02, 0, 0, 0, 0, port as u8]
    }

    fn own(&self, port: usize) -> [u8; 6] {
        self.0.get(port).copied().unwrap_or_default()
    }
}

/// Whether `back`, which port `port` sent, is what `forward` makes of `offered`.
pub fn is_right(forward: Forward, macs: &Macs, port: usize, offered: &[u8], back: &[u8]) -> bool {
    if back.len() != offered.len() || back.len() < 12 {
        return false;
    }
    if forward == Forward::FiveTupleSwap {
        return back == five_tuple_swapped(offered);
    }
    let (addresses, rest) = back.split_at(12);
    let (destination, source) = addresses.split_at(6);
    let good = match forward {
        Forward::Io | Forward::RecycleMbufs => addresses == &offered[..12],
        Forward::MacSwap => destination == &offered[6..12] && source == &offered[..6],
        Forward::Mac => destination == Macs::peer(port) && source == macs.own(port),
        Forward::FiveTupleSwap | Forward::RxOnly | Forward::TxOnly => false,
    };
    good && rest == &offered[12..]
}

/// `frame` with source and destination exchanged in each layer that is there: behind any tags, the first IP header, and the
/// ports where there are some.
fn five_tuple_swapped(frame: &[u8]) -> Vec<u8> {
    let mut swapped = frame.to_vec();
    let mut exchange = |at: usize, len: usize| {
        if let Some(pair) = swapped.get_mut(at..at + 2 * len) {
            pair.rotate_left(len);
        }
    };
    exchange(0, 6);
    let kind = |at: usize| frame.get(at..at + 2);
    let mut at = 12;
    while matches!(kind(at), Some([0x81, 0x00] | [0x88, 0xa8])) {
        at += 4;
    }
    let ip = frame.get(at + 2..).unwrap_or_default();
    let (protocol, ports) = match kind(at) {
        Some([0x08, 0x00]) if ip.len() >= 20 && ip[0] & 0xf >= 5 => {
            exchange(at + 14, 4);
            let first = ip[6] & 0x1f == 0 && ip[7] == 0;
            (ip[9], first.then_some(usize::from(ip[0] & 0xf) * 4))
        }
        Some([0x86, 0xdd]) if ip.len() >= 40 => {
            exchange(at + 10, 16);
            (ip[6], Some(40))
        }
        _ => return swapped,
    };
    if let (6 | 17, Some(ports)) = (protocol, ports) {
        exchange(at + 2 + ports, 2);
    }
    swapped
}

/// Whether a frame that port `port` sent is one of `txonly`: testpmd's UDP frame, here of `len` bytes, 198.18.0.1 to
/// 198.18.0.2.
pub fn is_generated(macs: &Macs, port: usize, len: usize, frame: &[u8]) -> bool {
    let [ip_high, ip_low] = (len as u16).wrapping_sub(14).to_be_bytes();
    let [udp_high, udp_low] = (len as u16).wrapping_sub(34).to_be_bytes();
    let sum = 0x4500 + 0x4011 + 0xc612 + 0x0001 + 0xc612 + 0x0002 + (len as u32).wrapping_sub(14);
    let [sum_high, sum_low] = (!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes();
    let from_type_on = [
        0x08, 0x00, 0x45, 0, ip_high, ip_low, 0, 0, 0, 0, 64, 17, sum_high, sum_low, 198, 18, 0, 1, 198, 18,
        0, 2, 0, 9, 0, 9, udp_high, udp_low, 0, 0,
    ];
    let addresses = [Macs::peer(port), macs.own(port)].concat();
    frame.len() == len
        && len >= 42
        && frame[..12] == addresses
        && frame[12..42] == from_type_on
        && frame[42..].iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(addresses: [u8; 12], last: u8) -> Vec<u8> {
        let mut frame = addresses.to_vec();
        frame.resize(60, 7);
        frame[59] = last;
        frame
    }

    /// The frame that testpmd sends by default, with its checksum.
    #[test]
    fn a_generated_frame_is_testpmds() {
        let macs = Macs(vec![[9; 6]]);
        let mut frame =
            vec![2, 0, 0, 0, 0, 0, 9, 9, 9, 9, 9, 9, 8, 0, 0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17, 0xee, 0x93];
        frame.extend([198, 18, 0, 1, 198, 18, 0, 2, 0, 9, 0, 9, 0, 30, 0, 0]);
        frame.resize(64, 0);
        assert!(is_generated(&macs, 0, 64, &frame));
        assert!(!is_generated(&macs, 0, 65, &frame) && !is_generated(&macs, 1, 64, &frame));
        frame[63] = 1;
        assert!(!is_generated(&macs, 0, 64, &frame));
    }

    #[test]
    fn each_mode_has_its_own_right_frame() {
        let macs = Macs(vec![[9; 6], [8; 6]]);
        let offered = frame([1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2], 5);
        let swapped = frame([2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1], 5);
        let routed = frame([2, 0, 0, 0, 0, 1, 8, 8, 8, 8, 8, 8], 5);
        for (mode, right) in [(Forward::Io, &offered), (Forward::MacSwap, &swapped), (Forward::Mac, &routed)]
        {
            for back in [&offered, &swapped, &routed] {
                assert_eq!(is_right(mode, &macs, 1, &offered, back), back == right, "{mode:?}");
            }
            let mut wrong = right.clone();
            wrong[59] ^= 1;
            assert!(!is_right(mode, &macs, 1, &offered, &wrong));
            assert!(!is_right(mode, &macs, 1, &offered, &right[..59]));
        }
        assert!(!is_right(Forward::RxOnly, &macs, 1, &offered, &offered));
    }
}
