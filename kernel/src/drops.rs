//! Why a frame was not sent: each reason has a name and a counter.

/// The named reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum DropReason {
    /// The forwarding mode is `rxonly`.
    RxOnly,
    /// The forwarding mode is `flowgen`, which keeps nothing that it receives.
    FlowGen,
    /// `icmpecho`: neither an ARP request nor an echo request.
    NoEcho,
    /// The forwarding mode is `shared_rxq`, which counts by port and sends nothing.
    SharedRxq,
    /// `ieee1588`: no PTP message that is to be answered.
    NoPtp,
    /// A forwarding mode from outside dropped it.
    Mode,
    /// The card had no receive descriptor for the frame (testpmd: RX-missed).
    RxMissed,
    /// The card found the frame bad and kept it: FCS, illegal bytes, length.
    RxBad,
    /// The card handed the frame over marked as bad, or longer than its buffer (testpmd: RX-errors).
    RxError,
    /// A frame in more buffers than the largest frame needs.
    RxSegments,
    /// A peer's descriptor is none: outside of its memory, empty, or of a chain that does not end.
    RxDescriptor,
    /// Longer than 9728 bytes.
    RxTooLong,
    /// Still in the receive ring when the queue was stopped.
    RxStopped,
    /// The transmit ring was full (testpmd: TX-dropped).
    TxFull,
    /// Shorter than 17 bytes: an XL710 must not be given it.
    TxTooShort,
    /// Longer than 9728 bytes.
    TxTooLong,
    /// In more than 8 buffers.
    TxSegments,
    /// With an empty buffer, or one outside of the packet memory.
    TxBuffer,
    /// With a request that the card can't carry out: headers outside of the frame, a segment in too many buffers.
    TxRequest,
    /// The peer's descriptor for it is none, or its buffers are too small for it.
    TxDescriptor,
    /// The transmit queue was stopped with the frame in it.
    TxStopped,
    /// The link was down: the card took the frame and discarded it, or there was nobody to take it.
    TxLinkDown,
}

impl DropReason {
    /// All reasons, in the order in which they are shown.
    pub const ALL: [Self; 22] = [
        Self::RxOnly,
        Self::FlowGen,
        Self::NoEcho,
        Self::SharedRxq,
        Self::NoPtp,
        Self::Mode,
        Self::RxMissed,
        Self::RxBad,
        Self::RxError,
        Self::RxSegments,
        Self::RxDescriptor,
        Self::RxTooLong,
        Self::RxStopped,
        Self::TxFull,
        Self::TxTooShort,
        Self::TxTooLong,
        Self::TxSegments,
        Self::TxBuffer,
        Self::TxRequest,
        Self::TxDescriptor,
        Self::TxStopped,
        Self::TxLinkDown,
    ];

    /// The name on the console and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RxOnly => "rxonly",
            Self::FlowGen => "flowgen",
            Self::NoEcho => "no-echo",
            Self::SharedRxq => "shared_rxq",
            Self::NoPtp => "no-ptp",
            Self::Mode => "by-mode",
            Self::RxMissed => "rx-missed",
            Self::RxBad => "rx-bad",
            Self::RxError => "rx-error",
            Self::RxSegments => "rx-segments",
            Self::RxDescriptor => "rx-descriptor",
            Self::RxTooLong => "rx-too-long",
            Self::RxStopped => "rx-stopped",
            Self::TxFull => "tx-full",
            Self::TxTooShort => "tx-too-short",
            Self::TxTooLong => "tx-too-long",
            Self::TxSegments => "tx-segments",
            Self::TxBuffer => "tx-buffer",
            Self::TxRequest => "tx-request",
            Self::TxDescriptor => "tx-descriptor",
            Self::TxStopped => "tx-stopped",
            Self::TxLinkDown => "tx-link-down",
        }
    }
}

/// Frames dropped, by reason. One core writes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Drops([u64; DropReason::ALL.len()]);

impl Drops {
    /// Counts `frames` frames under `reason`.
    #[inline]
    pub fn add(&mut self, reason: DropReason, frames: u64) {
        if let Some(count) = self.0.get_mut(reason as usize) {
            *count += frames;
        }
    }

    /// Frames under `reason`.
    pub fn get(&self, reason: DropReason) -> u64 {
        self.0.get(reason as usize).copied().unwrap_or(0)
    }

    /// All frames.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }

    /// The reasons with a count above 0.
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL.into_iter().map(|reason| (reason, self.get(reason))).filter(|(_, count)| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_own_counter_and_name() {
        let mut drops = Drops::default();
        for (i, reason) in DropReason::ALL.into_iter().enumerate() {
            drops.add(reason, i as u64 + 1);
        }
        for (i, reason) in DropReason::ALL.into_iter().enumerate() {
            assert_eq!(drops.get(reason), i as u64 + 1, "{}", reason.name());
        }
        let mut names = DropReason::ALL.map(DropReason::name);
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
        assert_eq!(drops.total(), 253);
    }
}
