//! The image's forwarding modes, as a run sees them.

/// A forwarding mode.
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
    /// Nothing comes back.
    RxOnly,
    /// The image makes frames of its own.
    TxOnly,
    /// Nothing comes back, and the image makes frames of its own.
    FlowGen,
    /// As `mac`, with right checksums.
    Csum,
    /// Requests come back as replies.
    IcmpEcho,
    /// As in another of the first four, later.
    Noisy,
    /// As they were.
    RecycleMbufs,
    /// Nothing comes back.
    SharedRxq,
    /// PTP messages come back where they came from, with their addresses exchanged.
    Ieee1588,
    /// A mode that only another image has: what comes back is anybody's guess.
    Other(&'static str),
}

impl Forward {
    /// All modes of the stock image.
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

    /// testpmd's name, or the other image's.
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
            Self::Other(name) => name,
        }
    }

    /// The mode of that name. A name may have `-` for `_`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name || mode.name() == name.replace('-', "_"))
    }

    /// Whether only another image has it.
    pub const fn is_other(self) -> bool {
        matches!(self, Self::Other(_))
    }

    /// Frames that are offered come back, or some of them do.
    pub const fn returns(self) -> bool {
        !self.takes() && !matches!(self, Self::TxOnly)
    }

    /// Frames that are offered are taken, and none comes back.
    pub const fn takes(self) -> bool {
        matches!(self, Self::RxOnly | Self::SharedRxq | Self::FlowGen)
    }

    /// The image makes frames.
    pub const fn makes(self) -> bool {
        matches!(self, Self::TxOnly | Self::FlowGen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The image knows the same modes.
    #[test]
    fn the_names_are_the_images() {
        let own = Forward::ALL.map(Forward::name);
        let images = kernel::forward::Mode::ALL.map(kernel::forward::Mode::name);
        assert_eq!(own[..], images[..own.len()]);
        assert_eq!(Forward::from_name("shared-rxq"), Some(Forward::SharedRxq));
        assert_eq!(Forward::from_name("mac-swap"), None);
    }
}
