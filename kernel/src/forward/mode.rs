//! The names of the built-in modes.

/// The modes of this image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Sends frames as they came.
    #[default]
    Io,
    /// Writes the sending port's address as source and its peer's as destination.
    Mac,
    /// Exchanges source and destination address.
    MacSwap,
    /// Exchanges source and destination of Ethernet, IP, and UDP or TCP.
    FiveTupleSwap,
    /// Receives and drops.
    RxOnly,
    /// Makes frames and sends them, receives nothing.
    TxOnly,
    /// Makes frames of many flows and sends them, receives and drops.
    FlowGen,
    /// As `mac`, and makes checksums right.
    Csum,
    /// Answers ARP requests and echo requests, drops the rest.
    IcmpEcho,
    /// As another mode, with a queue and memory accesses on the way.
    Noisy,
    /// As `io`: sent buffers always go straight back to the receive ring.
    RecycleMbufs,
    /// Receives, counts and drops.
    SharedRxq,
    /// Sends PTP messages back and tells when they came and left; drops the rest.
    Ieee1588,
}

impl Mode {
    /// All modes, in the order in which they are listed.
    pub const ALL: [Self; 13] = [
        Self::Io,
        Self::Mac,
        Self::MacSwap,
        Self::FiveTupleSwap,
        Self::RxOnly,
        Self::TxOnly,
        Self::FlowGen,
        Self::Csum,
        Self::IcmpEcho,
        Self::Noisy,
        Self::RecycleMbufs,
        Self::SharedRxq,
        Self::Ieee1588,
    ];

    /// Their names, as an error tells them.
    pub const NAMES: &'static str = "io, mac, macswap, 5tswap, rxonly, txonly, flowgen, csum, icmpecho, noisy, recycle_mbufs, shared_rxq or ieee1588";

    /// testpmd's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Io => "io",
            Self::Mac => "mac",
            Self::MacSwap => "macswap",
            Self::FiveTupleSwap => "5tswap",
            Self::RxOnly => "rxonly",
            Self::TxOnly => "txonly",
            Self::FlowGen => "flowgen",
            Self::Csum => "csum",
            Self::IcmpEcho => "icmpecho",
            Self::Noisy => "noisy",
            Self::RecycleMbufs => "recycle_mbufs",
            Self::SharedRxq => "shared_rxq",
            Self::Ieee1588 => "ieee1588",
        }
    }

    /// The mode of that name. A name may have `-` for `_`.
    pub fn from_name(name: &str) -> Option<Self> {
        let same = |known: &str| {
            known.len() == name.len()
                && known.bytes().zip(name.bytes()).all(|(a, b)| a == b || (a == b'_' && b == b'-'))
        };
        Self::ALL.into_iter().find(|mode| same(mode.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_its_modes_and_listed() {
        for mode in Mode::ALL {
            assert_eq!(Mode::from_name(mode.name()), Some(mode));
            assert!(Mode::NAMES.contains(mode.name()));
        }
        assert_eq!(Mode::from_name("shared-rxq"), Some(Mode::SharedRxq));
        assert_eq!(Mode::from_name("recycle-mbufs"), Some(Mode::RecycleMbufs));
        assert_eq!((Mode::from_name("mac_swap"), Mode::from_name("")), (None, None));
    }
}
