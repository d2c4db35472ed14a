//! `csum`: as `mac`, and makes the checksums of IP, UDP, TCP and SCTP right, in software or by the card.
//!
//! As testpmd does it: checksums of the innermost IP and what it carries, with `--csum-parse-tunnel=on` those in VXLAN,
//! VXLAN-GPE, GENEVE, GTP-U, GRE and IP in IP, and the outer ones then, too; a UDP checksum of 0 over IPv4 says that there
//! is none and stays. What differs: a UDP checksum of 0 over IPv6, which says nothing there but in a tunnel's own header,
//! is made; SCTP's is made in software, too; fragments keep theirs, since it is about more than is here; a layer whose
//! lengths the frame does not bear out is left as it is; where the card can't do what it is asked for, software does.

use hal::simd::Isa;

use super::checksum::{Span, Sum};
use super::forwarder::CoreShare;
use super::frame::{Frame, ranges};
use super::layers::{Ip, Kind, Layers, Transport, Version};
use super::segments::Segments;
use super::{ModeOptions, Verdict, Work, random::Random, vector};
use crate::burst::Burst;
use crate::packet::{Checksum, Meta};
use crate::request::{Checksums, IpHeader, L4Checksum, Segmentation, TxRequest};

mod options;
mod split;
mod usual;
pub use options::{By, Options};

/// Checksums that cards found wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bad {
    /// Of IPv4 (testpmd: Bad-ipcsum).
    pub ip: u64,
    /// Of UDP, TCP or SCTP (testpmd: Bad-l4csum).
    pub l4: u64,
}

/// The mode of one core.
pub struct Csum {
    options: Options,
    segments: Segments,
    random: Random,
    bad: Bad,
}

impl Csum {
    /// The mode of core `share.core`.
    pub fn new(options: &ModeOptions, share: &CoreShare) -> Self {
        let (csum, segments) = (options.csum, options.segments.clone());
        Self { options: csum, segments, random: Random::new(share.core.into()), bad: Bad::default() }
    }

    /// What cards found wrong so far.
    pub const fn bad(&self) -> Bad {
        self.bad
    }

    /// Makes the checksums of all frames right.
    pub fn forward(&mut self, isa: Isa, work: &mut Work<'_>, burst: &mut Burst) -> Verdict {
        if self.options.mac_swap {
            vector::mac(isa, work.memory, work.route, burst);
        }
        burst.metas().iter().filter(|meta| meta.is_last()).for_each(|meta| self.count(*meta));
        if self.options.asks_card() {
            let (buffers, metas) = burst.entries_mut();
            // Frames end where they end; what is asked for is written into their last entries.
            let mut from = 0;
            while let Some(range) = metas.get(from..).and_then(|rest| ranges(rest).next()) {
                let range = from..from + range.end;
                from = range.end;
                let Some(metas) = metas.get_mut(range.clone()) else { break };
                let request = self.fix(work, buffers.get(range).unwrap_or_default(), metas);
                if let (Some(request), Some(last)) = (request, metas.last_mut()) {
                    *last = request.put(*last).unwrap_or(*last);
                }
            }
        } else {
            // What is usual has no tunnel in it, or one that nobody looks into.
            let usual = if self.options.parse_tunnel { Isa::Scalar } else { isa };
            for range in ranges(burst.metas()) {
                if range.len() == 1
                    && let (Some(buffer), Some(meta)) =
                        (burst.buffers().get(range.start), burst.metas().get(range.start))
                    && usual::fix(usual, work.memory, *buffer, *meta).is_some()
                {
                    continue;
                }
                let of = |range: &core::ops::Range<usize>| {
                    Some((burst.buffers().get(range.clone())?, burst.metas().get(range.clone())?))
                };
                if let Some((buffers, metas)) = of(&range) {
                    self.fix(work, buffers, metas);
                }
            }
        }
        split::split(&self.segments, &mut self.random, work, burst);
        Verdict::Send
    }

    #[inline]
    fn count(&mut self, meta: Meta) {
        if meta.errors() == 0 {
            return;
        }
        self.bad.ip += u64::from(meta.ip_checksum() == Checksum::Bad);
        self.bad.l4 += u64::from(meta.l4_checksum() == Checksum::Bad);
    }

    /// Makes a frame's checksums right; returns what is left for the card.
    fn fix(&self, work: &Work<'_>, buffers: &[u32], metas: &[Meta]) -> Option<TxRequest> {
        let frame = Frame::new(work.memory, *buffers.first()?, *metas.first()?);
        let total = metas.iter().map(|meta| meta.len() as usize).sum();
        let layers = Layers::find(frame, total, self.options.parse_tunnel)?;
        let whole = Span { memory: work.memory, buffers, metas, start: 0, len: total };
        let fixer = Fixer { frame, whole };
        let request =
            self.request(&layers, total, &fixer).filter(|request| request.put(Meta::default()).is_ok());
        let of_card = request.and_then(|request| request.checksums);
        if let (Some(request), Some(transport)) = (&request, &layers.transport)
            && of_card.is_some_and(|checksums| checksums.l4.is_some())
        {
            fixer.prepare(&layers.ip, transport, request.segmentation.is_some())?;
        }
        if of_card.is_none_or(|checksums| checksums.l4.is_none()) {
            // A UDP checksum of 0 over IPv4 is none.
            let may_be_none = layers.ip.version == Version::V4;
            layers.transport.and_then(|transport| fixer.fix_transport(&layers.ip, &transport, may_be_none));
        }
        if of_card.is_some_and(|checksums| checksums.ip == IpHeader::V4Checksum) {
            frame.store(layers.ip.at + 10, [0_u8; 2])?;
        } else {
            fixer.fix_ip(&layers.ip);
        }
        if let Some((ip, transport)) = layers.outer {
            // A tunnel may do without over IPv6, too (RFC 6935). SCTP or TCP are no tunnels.
            transport.and_then(|transport| fixer.fix_transport(&ip, &transport, true));
            fixer.fix_ip(&ip);
        }
        request
    }

    /// What the card is asked for: nothing where it is software's, or the card could not do it.
    fn request(&self, layers: &Layers, total: usize, fixer: &Fixer<'_>) -> Option<TxRequest> {
        let Layers { outer, ip, transport } = *layers;
        // The outer checksum is about the inner bytes, which the card would change.
        if let Some((_, Some(udp))) = outer
            && fixer.frame.load_word(udp.at + Kind::Udp.checksum_at())? != 0
        {
            return None;
        }
        let segmentation = transport.and_then(|transport| self.segmentation(layers, &transport, total));
        // A card sums up to the frame's end, padding included.
        let l4 = transport.filter(|transport| {
            let by_card = self.options.of_card(transport) && transport.end == total;
            segmentation.is_some() || by_card && fixer.has_checksum(&ip, transport)
        });
        let header = match (ip.version, self.options.ip) {
            (Version::V4, By::Hw) => IpHeader::V4Checksum,
            (Version::V4, By::Sw) if segmentation.is_some() => IpHeader::V4Checksum,
            (Version::V4, By::Sw) => IpHeader::V4,
            (Version::V6, _) => IpHeader::V6,
        };
        if l4.is_none() && header != IpHeader::V4Checksum {
            return None;
        }
        let l4 = l4.map(|transport| match transport.kind {
            Kind::Tcp => L4Checksum::Tcp,
            Kind::Udp => L4Checksum::Udp,
            Kind::Sctp => L4Checksum::Sctp,
        });
        let checksums = Checksums { l2_len: ip.at as u16, l3_len: ip.len as u16, ip: header, l4 };
        Some(TxRequest { checksums: Some(checksums), segmentation, ..TxRequest::default() })
    }

    /// How a frame is cut, if it is: TCP outside of tunnels, with more payload than a segment takes.
    fn segmentation(&self, layers: &Layers, transport: &Transport, total: usize) -> Option<Segmentation> {
        let mss = self.options.tso;
        let payload = transport.end.checked_sub(transport.at + transport.len)?;
        // Padding behind the packet would become payload.
        let fits = layers.outer.is_none() && transport.kind == Kind::Tcp && layers.ip.end == total;
        (fits && mss > 0 && payload > usize::from(mss))
            .then_some(Segmentation { mss, l4_len: transport.len as u16 })
    }
}

/// A frame whose checksums are made.
struct Fixer<'a> {
    frame: Frame<'a>,
    whole: Span<'a>,
}

impl Fixer<'_> {
    /// There is a checksum to make: all but a UDP checksum of 0 over IPv4.
    fn has_checksum(&self, ip: &Ip, transport: &Transport) -> bool {
        let none = transport.kind == Kind::Udp
            && ip.version == Version::V4
            && self.frame.load_word(transport.at + transport.kind.checksum_at()) == Some(0);
        !none
    }

    /// The header checksum of IPv4.
    fn fix_ip(&self, ip: &Ip) -> Option<()> {
        if ip.version == Version::V6 {
            return None;
        }
        let mut sum = Sum::default();
        let header = Span { start: ip.at, len: ip.len, ..self.whole };
        // What stands in the field is taken off again.
        sum.add_word(!self.frame.load_word(ip.at + 10)?);
        header.add_to(&mut sum).then_some(())?;
        self.frame.store(ip.at + 10, sum.checksum().to_be_bytes())
    }

    /// The checksum of layer 4; a UDP checksum of 0 stays if it may be none.
    fn fix_transport(&self, ip: &Ip, transport: &Transport, may_be_none: bool) -> Option<()> {
        let at = transport.at + transport.kind.checksum_at();
        let span = Span { start: transport.at, len: transport.end - transport.at, ..self.whole };
        if transport.kind == Kind::Sctp {
            self.frame.store(at, [0_u8; 4])?;
            return self.frame.store(at, span.crc32c()?);
        }
        let old = self.frame.load_word(at)?;
        if transport.kind == Kind::Udp && old == 0 && may_be_none {
            return None;
        }
        let mut sum = self.pseudo_header(ip, transport, span.len as u64)?;
        sum.add_word(!old);
        span.add_to(&mut sum).then_some(())?;
        let mut checksum = sum.checksum();
        if transport.kind == Kind::Udp && checksum == 0 {
            checksum = 0xffff;
        }
        self.frame.store(at, checksum.to_be_bytes())
    }

    /// Leaves in the field what the card goes on from.
    fn prepare(&self, ip: &Ip, transport: &Transport, cut: bool) -> Option<()> {
        let at = transport.at + transport.kind.checksum_at();
        if transport.kind == Kind::Sctp {
            return self.frame.store(at, [0_u8; 4]);
        }
        let len = if cut { 0 } else { transport.end - transport.at };
        let sum = self.pseudo_header(ip, transport, len as u64)?.folded();
        self.frame.store(at, sum.to_be_bytes())
    }

    /// RFC 9293, section 3.1, and RFC 8200, section 8.1.
    fn pseudo_header(&self, ip: &Ip, transport: &Transport, len: u64) -> Option<Sum> {
        let (start, bytes) = match ip.version {
            Version::V4 => (ip.at + 12, 8),
            Version::V6 => (ip.at + 8, 32),
        };
        let mut sum = Sum::default();
        Span { start, len: bytes, ..self.whole }.add_to(&mut sum).then_some(())?;
        sum.add_word(transport.kind.protocol().into());
        sum.add_word(u16::try_from(len).ok()?);
        Some(sum)
    }
}

#[cfg(test)]
mod tests;
