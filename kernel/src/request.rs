//! What a transmit queue is asked to do to a frame: insert tags, fill checksums in, cut it into segments.
//!
//! A request lies in the first quadword of the metadata of a frame's **last** buffer, in bits that a received frame
//! needs no more once it is sent. It takes the place of the flow hash:
//!
//! | word | bits  | field |
//! |------|-------|-------|
//! | lo   | 0     | insert the tag in lo 31:16 behind the addresses |
//! | lo   | 1     | insert the tag in lo 63:48 in front of that; not together with segmentation |
//! | lo   | 2     | cut into segments |
//! | lo   | 4:3   | 0 no IP, 1 IPv6, 2 IPv4, 3 IPv4 whose header checksum is filled in |
//! | lo   | 6:5   | checksum to fill in: 0 none, 1 TCP, 2 SCTP, 3 UDP |
//! | lo   | 7     | keep the time at which the frame is sent; not together with segmentation |
//! | lo   | 38:32 | bytes in front of the IP header, divided by 2 |
//! | lo   | 45:39 | bytes of the IP header, divided by 4 |
//! | lo   | 49:46 | with segmentation: bytes of the layer 4 header, divided by 4 |
//! | lo   | 63:50 | with segmentation: payload bytes of a segment |
//!
//! As the card wants it, whoever asks for a TCP or UDP checksum has put the sum of the pseudo-header into the field:
//! with the length of layer 4 for a single frame, without it for one that is cut.

use core::fmt;

use crate::packet::Meta;

/// The IP header of a frame that something is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IpHeader {
    /// IPv6.
    V6,
    /// IPv4 whose header checksum stays as it is.
    V4,
    /// IPv4 whose header checksum is filled in.
    V4Checksum,
}

/// A checksum of layer 4 that is filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum L4Checksum {
    /// Over TCP and the pseudo-header.
    Tcp,
    /// CRC-32C over SCTP.
    Sctp,
    /// Over UDP and the pseudo-header.
    Udp,
}

/// Where the headers of a frame lie, and what is to be filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checksums {
    /// Bytes in front of the IP header: even, at most 254.
    pub l2_len: u16,
    /// Bytes of the IP header with options or extension headers: a multiple of 4, at most 508.
    pub l3_len: u16,
    /// The kind of IP.
    pub ip: IpHeader,
    /// The checksum of layer 4, if one is wanted.
    pub l4: Option<L4Checksum>,
}

/// How a frame is cut: each segment gets the headers, and their lengths, numbers and checksums are made right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segmentation {
    /// Payload bytes of each segment but the last, 64 to 9674.
    pub mss: u16,
    /// Bytes of the TCP or UDP header: a multiple of 4, 8 to 60.
    pub l4_len: u16,
}

/// Everything that can be asked for with one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TxRequest {
    /// A tag, 802.1Q with priority, that is inserted.
    pub vlan: Option<u16>,
    /// A second tag in front of it, an S-tag.
    pub outer_vlan: Option<u16>,
    /// Checksums.
    pub checksums: Option<Checksums>,
    /// Segmentation; needs `checksums` with TCP or UDP.
    pub segmentation: Option<Segmentation>,
    /// The port's clock keeps the time at which the frame is sent, if it keeps none yet
    /// ([`TimeStamper`](crate::port::time_stamp::TimeStamper)); not together with segmentation.
    pub time_stamp: bool,
}

/// Something that can't be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestError {
    what: &'static str,
    value: u16,
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "transmit request: {} can't be {}", self.what, self.value)
    }
}

impl core::error::Error for RequestError {}

const VLAN: u64 = 1 << 0;
const OUTER_VLAN: u64 = 1 << 1;
const SEGMENT: u64 = 1 << 2;
const TIME_STAMP: u64 = 1 << 7;
const IP_SHIFT: u32 = 3;
const L4_SHIFT: u32 = 5;
const L2_LEN_SHIFT: u32 = 32;
const L3_LEN_SHIFT: u32 = 39;
const L4_LEN_SHIFT: u32 = 46;
const MSS_SHIFT: u32 = 50;
const OUTER_SHIFT: u32 = 48;
const TAG: u64 = 0xffff << 16;

impl Segmentation {
    /// Smallest payload of a segment that the card takes without stopping the queue (by drivers).
    pub const MSS_MIN: u16 = 64;
    /// Largest one (by drivers: `I40E_MAX_TSO_MSS`).
    pub const MSS_MAX: u16 = 9674;
}

fn check(what: &'static str, value: u16, good: bool) -> Result<u64, RequestError> {
    if good { Ok(u64::from(value)) } else { Err(RequestError { what, value }) }
}

impl Checksums {
    fn encode(&self) -> Result<u64, RequestError> {
        let (kind, least) = match self.ip {
            IpHeader::V6 => (1, 40),
            IpHeader::V4 => (2, 20),
            IpHeader::V4Checksum => (3, 20),
        };
        let l4 = self.l4.map_or(0, |l4| match l4 {
            L4Checksum::Tcp => 1,
            L4Checksum::Sctp => 2,
            L4Checksum::Udp => 3,
        });
        let (l2_len, l3_len) = (self.l2_len, self.l3_len);
        let l2 = check("the length in front of IP", l2_len, l2_len % 2 == 0 && (14..=254).contains(&l2_len))?;
        let l3 = check("the length of IP", l3_len, l3_len % 4 == 0 && (least..=508).contains(&l3_len))?;
        Ok(kind << IP_SHIFT | l4 << L4_SHIFT | (l2 / 2) << L2_LEN_SHIFT | (l3 / 4) << L3_LEN_SHIFT)
    }
}

impl TxRequest {
    /// The metadata of a frame's last buffer with this request in place of the flow hash.
    ///
    /// # Errors
    /// What can't be asked for.
    pub fn put(&self, meta: Meta) -> Result<Meta, RequestError> {
        let mut lo = meta.lo & TAG;
        if let Some(tag) = self.vlan {
            lo = VLAN | u64::from(tag) << 16;
        }
        if let Some(checksums) = &self.checksums {
            lo |= checksums.encode()?;
        }
        if let Some(tag) = self.outer_vlan {
            check("an outer tag without an inner one", tag, self.vlan.is_some())?;
            check("an outer tag with segmentation", tag, self.segmentation.is_none())?;
            lo |= OUTER_VLAN | u64::from(tag) << OUTER_SHIFT;
        }
        if self.time_stamp {
            lo |= TIME_STAMP;
        }
        if let Some(Segmentation { mss, l4_len }) = self.segmentation {
            check("the segment size of a frame to be stamped", mss, !self.time_stamp)?;
            let least = match self.checksums.and_then(|checksums| checksums.l4) {
                Some(L4Checksum::Tcp) => 20,
                Some(L4Checksum::Udp) => 8,
                _ => return Err(RequestError { what: "segmentation of neither TCP nor UDP", value: mss }),
            };
            let good = l4_len % 4 == 0 && (least..=60).contains(&l4_len);
            let l4 = check("the length of the layer 4 header", l4_len, good)?;
            let mss = check(
                "the segment size",
                mss,
                (Segmentation::MSS_MIN..=Segmentation::MSS_MAX).contains(&mss),
            )?;
            lo |= SEGMENT | (l4 / 4) << L4_LEN_SHIFT | mss << MSS_SHIFT;
        }
        Ok(Meta { lo, hi: meta.hi })
    }
}

impl Meta {
    /// Bits of the first quadword that are not 0 if something is asked for.
    pub const REQUEST: u64 = 0xffff;

    /// Inserts again, when the frame is sent, the tag that was stripped from it, or the two.
    #[must_use]
    pub const fn with_tag_back(self) -> Self {
        let Some(outer) = self.stripped_vlan() else { return self };
        if let Some(inner) = self.stripped_inner_vlan() {
            let lo = VLAN | OUTER_VLAN | (inner as u64) << 16 | (outer as u64) << OUTER_SHIFT;
            return Self { lo, hi: self.hi & !Self::VLAN_STRIPPED & (u64::MAX >> 1) };
        }
        Self { lo: self.lo & TAG | VLAN, hi: self.hi & !Self::VLAN_STRIPPED }
    }

    /// Something is asked for.
    #[inline]
    pub const fn has_request(self) -> bool {
        self.lo & Self::REQUEST != 0
    }

    /// Everything that is asked for.
    ///
    /// # Errors
    /// The bits say something that can't be asked for.
    pub fn request(self) -> Result<TxRequest, RequestError> {
        let request = TxRequest {
            vlan: self.insert_vlan(),
            outer_vlan: self.insert_outer_vlan(),
            checksums: self.request_checksums(),
            segmentation: self.request_segmentation(),
            time_stamp: self.asks_for_time(),
        };
        request.put(self).map(|_| request)
    }

    /// The tag to insert.
    pub const fn insert_vlan(self) -> Option<u16> {
        if self.lo & VLAN != 0 { Some((self.lo >> 16) as u16) } else { None }
    }

    /// The tag to insert in front of [`Meta::insert_vlan`].
    pub const fn insert_outer_vlan(self) -> Option<u16> {
        if self.lo & (OUTER_VLAN | SEGMENT) == OUTER_VLAN {
            Some((self.lo >> OUTER_SHIFT) as u16)
        } else {
            None
        }
    }

    /// The time at which it is sent is asked for.
    pub const fn asks_for_time(self) -> bool {
        self.lo & TIME_STAMP != 0
    }

    /// The headers and checksums that are asked for.
    pub const fn request_checksums(self) -> Option<Checksums> {
        let ip = match self.lo >> IP_SHIFT & 3 {
            1 => IpHeader::V6,
            2 => IpHeader::V4,
            3 => IpHeader::V4Checksum,
            _ => return None,
        };
        let l4 = match self.lo >> L4_SHIFT & 3 {
            1 => Some(L4Checksum::Tcp),
            2 => Some(L4Checksum::Sctp),
            3 => Some(L4Checksum::Udp),
            _ => None,
        };
        let l2_len = (self.lo >> L2_LEN_SHIFT & 0x7f) as u16 * 2;
        let l3_len = (self.lo >> L3_LEN_SHIFT & 0x7f) as u16 * 4;
        Some(Checksums { l2_len, l3_len, ip, l4 })
    }

    /// The segmentation that is asked for.
    pub const fn request_segmentation(self) -> Option<Segmentation> {
        if self.lo & SEGMENT == 0 {
            return None;
        }
        let l4_len = (self.lo >> L4_LEN_SHIFT & 0xf) as u16 * 4;
        Some(Segmentation { mss: (self.lo >> MSS_SHIFT) as u16, l4_len })
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    const TCP: Checksums =
        Checksums { l2_len: 18, l3_len: 24, ip: IpHeader::V4Checksum, l4: Some(L4Checksum::Tcp) };

    #[test]
    fn what_is_asked_for_is_read_back() {
        let meta = Meta { lo: 0xdead_beef_6123_0000, hi: Meta::frame(1514).hi };
        let segmentation = Some(Segmentation { mss: 9674, l4_len: 60 });
        for request in [
            TxRequest::default(),
            TxRequest { vlan: Some(0xffff), ..Default::default() },
            TxRequest {
                vlan: Some(5),
                outer_vlan: Some(0xe001),
                checksums: Some(TCP),
                segmentation: None,
                time_stamp: true,
            },
            TxRequest { vlan: Some(5), checksums: Some(TCP), segmentation, ..Default::default() },
            TxRequest { time_stamp: true, ..Default::default() },
            TxRequest {
                checksums: Some(Checksums { l2_len: 254, l3_len: 508, ip: IpHeader::V6, l4: None }),
                ..Default::default()
            },
        ] {
            let meta = request.put(meta).unwrap();
            assert_eq!(meta.insert_vlan(), request.vlan);
            assert_eq!(meta.insert_outer_vlan(), request.outer_vlan);
            assert_eq!(meta.request_checksums(), request.checksums);
            assert_eq!(meta.request_segmentation(), request.segmentation);
            assert_eq!(meta.asks_for_time(), request.time_stamp);
            assert_eq!((meta.has_request(), meta.len()), (request != TxRequest::default(), 1514));
        }
    }

    #[test]
    fn what_the_card_can_not_do_is_refused_by_name() {
        let refused = |request: TxRequest| request.put(Meta::frame(60)).unwrap_err().to_string();
        let checksums = |checksums| TxRequest { checksums: Some(checksums), ..Default::default() };
        let text = refused(checksums(Checksums { l2_len: 15, ..TCP }));
        assert_eq!(text, "transmit request: the length in front of IP can't be 15");
        for wrong in [256, 0, 12] {
            refused(checksums(Checksums { l2_len: wrong, ..TCP }));
        }
        for wrong in [16, 22, 512] {
            refused(checksums(Checksums { l3_len: wrong, ..TCP }));
        }
        refused(checksums(Checksums { l3_len: 20, ip: IpHeader::V6, ..TCP }));
        let cut = |mss, l4_len| TxRequest {
            checksums: Some(TCP),
            segmentation: Some(Segmentation { mss, l4_len }),
            ..Default::default()
        };
        for (mss, l4_len) in [(63, 20), (9675, 20), (1460, 16), (1460, 22), (1460, 64)] {
            refused(cut(mss, l4_len));
        }
        refused(TxRequest { outer_vlan: Some(1), vlan: Some(1), ..cut(1460, 20) });
        refused(TxRequest { outer_vlan: Some(1), ..Default::default() });
        refused(TxRequest { checksums: None, ..cut(1460, 20) });
        refused(TxRequest { time_stamp: true, ..cut(1460, 20) });
    }

    #[test]
    fn bits_that_nobody_can_ask_for_are_no_request() {
        let (segment, tcp, ip) = (1 << 2, 1 << 5, 3 << 3 | 7 << 32 | 5 << 39);
        let of = |lo: u64| Meta { lo, hi: Meta::frame(60).hi }.request();
        assert!(of(segment | tcp | ip | 5 << 46 | 1460 << 50).is_ok());
        for lo in [
            segment | tcp | ip | 5 << 46,
            segment | tcp | ip | 5 << 46 | 63 << 50,
            segment | tcp | ip | 4 << 46 | 1460 << 50,
            segment | 2 << 5 | ip | 5 << 46 | 1460 << 50,
            segment | tcp | 5 << 46 | 1460 << 50,
            segment | 1460 << 50,
            3 << 3 | 6 << 32 | 5 << 39,
            1 << 3 | 7 << 32 | 9 << 39,
            2,
        ] {
            assert!(of(lo).is_err(), "{lo:#x}");
        }
    }

    #[test]
    fn a_stripped_tag_goes_back_in() {
        let stripped = Meta { lo: 0xdead_beef_6123_0000, hi: Meta::frame(60).hi | Meta::VLAN_STRIPPED };
        assert_eq!(stripped.insert_vlan(), None);
        assert_eq!(stripped.with_tag_back().insert_vlan(), Some(0x6123));
        assert!(!Meta::frame(60).with_tag_back().has_request());
        let both = stripped.with_inner_stripped(7);
        assert_eq!((both.stripped_vlan(), both.stripped_inner_vlan()), (Some(0x6123), Some(7)));
        let both = both.with_tag_back();
        assert_eq!((both.insert_outer_vlan(), both.insert_vlan(), both.len()), (Some(0x6123), Some(7), 60));
    }
}
