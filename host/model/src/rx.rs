//! Receive queues: from frames to descriptors. Datasheet: "LAN Receive".

use crate::dma::{DmaFault, GuestMemory};
use crate::faults::{Direction, Marks};
use crate::hmc::field;
use crate::parse;
use crate::stats::{self, Lost};

/// Bytes of a receive context.
pub const CONTEXT: usize = 32;
/// Most buffers of a frame.
const MAX_BUFFERS: usize = 5;

/// A receive queue that runs.
pub struct RxQueue {
    base: u64,
    len: u32,
    head: u32,
    buffer: usize,
    wide: bool,
    strip_crc: bool,
    tag_to_first: bool,
    max_frame: usize,
    frame: Vec<u8>,
}

/// What goes with a frame besides its bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct RxMeta {
    /// Flow hash, if one was made.
    pub hash: Option<u32>,
    /// A flow director filter matches; its identifier, where that is to be told.
    pub filter: Option<Option<u32>>,
    /// Register in which the time of arrival is kept.
    pub stamp: Option<u8>,
    /// Tags are taken out of frames.
    pub strip_tag: bool,
    /// Two of them, if there are two.
    pub double: bool,
}

impl RxQueue {
    /// The queue of a context; `None` for one that makes no sense.
    pub fn new(context: &[u8; CONTEXT]) -> Option<Self> {
        let len = field(context, 89, 13) as u32;
        let buffer = field(context, 102, 7) as usize * 128;
        if !(8..=8160).contains(&len) || buffer == 0 || field(context, 114, 2) != 0 {
            return None;
        }
        Some(Self {
            base: field(context, 32, 57) << 7,
            len,
            head: field(context, 0, 13) as u32 % len,
            buffer,
            wide: field(context, 116, 1) != 0,
            strip_crc: field(context, 117, 1) != 0,
            tag_to_first: field(context, 119, 1) != 0,
            max_frame: field(context, 174, 14) as usize,
            frame: Vec::new(),
        })
    }

    /// Descriptors that the card may fill.
    pub fn free(&self, tail: u32) -> usize {
        if tail >= self.len { 0 } else { ((tail + self.len - self.head) % self.len) as usize }
    }

    /// There are descriptors for the longest frame of this queue.
    pub fn ready(&self, tail: u32) -> bool {
        self.free(tail) >= self.max_frame.div_ceil(self.buffer).clamp(1, MAX_BUFFERS)
    }

    /// Writes a frame into the ring. `Ok(Some(..))` says why it was not written.
    pub fn receive(
        &mut self,
        memory: &GuestMemory,
        tail: u32,
        frame: &[u8],
        meta: RxMeta,
        marks: &mut Marks,
    ) -> Result<Option<Lost>, DmaFault> {
        let mut status = Status::of(frame, meta.hash);
        if let Some(id) = meta.filter {
            status.filter(id, self.wide);
        }
        if let Some(index) = meta.stamp {
            status.second |= Status::TSYNVALID | u64::from(index) << Status::TSYNINDX;
        }
        let mut bytes = std::mem::take(&mut self.frame);
        bytes.clear();
        bytes.extend_from_slice(frame);
        if meta.strip_tag {
            // A descriptor of 16 bytes has no place for a second tag.
            let both = meta.double && self.wide && status.strip_two(&mut bytes);
            if !both {
                status.strip_tag(&mut bytes, self.tag_to_first);
            }
        }
        if !self.strip_crc {
            let crc = crc32fast::hash(&bytes);
            bytes.extend_from_slice(&crc.to_le_bytes());
        }
        let outcome = self.place(memory, tail, &bytes, &status, marks);
        self.frame = bytes;
        outcome
    }

    fn place(
        &mut self,
        memory: &GuestMemory,
        tail: u32,
        bytes: &[u8],
        status: &Status,
        marks: &mut Marks,
    ) -> Result<Option<Lost>, DmaFault> {
        let count = bytes.len().div_ceil(self.buffer);
        if bytes.len() > self.max_frame || count > MAX_BUFFERS {
            return Ok(Some(Lost::Long));
        }
        if self.free(tail) < count {
            return Ok(Some(Lost::NoDescriptor));
        }
        for (index, piece) in bytes.chunks(self.buffer).enumerate() {
            self.fill(memory, piece, status, index + 1 == count, marks)?;
        }
        Ok(None)
    }

    /// Writes a descriptor that is no frame. Without a free one, nothing.
    pub fn report(&mut self, memory: &GuestMemory, tail: u32, words: (u64, u64)) -> Result<(), DmaFault> {
        if self.free(tail) == 0 {
            return Ok(());
        }
        let width = if self.wide { 32 } else { 16 };
        let at = self.base.wrapping_add(u64::from(self.head) * width);
        memory.publish_u64(at, words.0)?;
        memory.publish_u64(at.wrapping_add(8), words.1)?;
        self.head = (self.head + 1) % self.len;
        Ok(())
    }

    /// One descriptor: data first, then the words, the one with DD last.
    fn fill(
        &mut self,
        memory: &GuestMemory,
        piece: &[u8],
        status: &Status,
        last: bool,
        marks: &mut Marks,
    ) -> Result<(), DmaFault> {
        let width = if self.wide { 32 } else { 16 };
        let at = self.base.wrapping_add(u64::from(self.head) * width);
        let mut addr = [0; 8];
        memory.read(at, &mut addr)?;
        memory.write(u64::from_le_bytes(addr), piece)?;
        let length = (piece.len() as u64) << 38;
        let first = if last { status.first } else { 0 };
        let second = length | if last { status.second | Status::EOF } else { 0 } | Status::DD;
        let (third, fourth) = if last { (status.third, status.fourth) } else { (0, 0) };
        if !marks.idle(Direction::Rx) {
            let words = [first, second, third, fourth];
            marks.receive(memory, at, words.get(..width as usize / 8).unwrap_or_default())?;
        } else {
            if self.wide {
                memory.publish_u64(at.wrapping_add(16), third)?;
                memory.publish_u64(at.wrapping_add(24), fourth)?;
            }
            memory.publish_u64(at, first)?;
            memory.publish_u64(at + 8, second)?;
        }
        self.head = (self.head + 1) % self.len;
        Ok(())
    }
}

/// Words of the last descriptor of a frame, length aside.
struct Status {
    first: u64,
    second: u64,
    third: u64,
    fourth: u64,
}

impl Status {
    const DD: u64 = 1 << 0;
    const EOF: u64 = 1 << 1;
    const L2TAG1P: u64 = 1 << 2;
    const L3L4P: u64 = 1 << 3;
    const CRCP: u64 = 1 << 4;
    /// Lowest bit of the register's index.
    const TSYNINDX: u32 = 5;
    const TSYNVALID: u64 = 1 << 7;
    const IPE: u64 = 1 << 22;
    const L4E: u64 = 1 << 23;

    fn of(frame: &[u8], hash: Option<u32>) -> Self {
        let parsed = parse::parse(frame);
        let mut second = u64::from(parsed.ptype) << 30 | Self::CRCP | (stats::kind(frame) as u64) << 9;
        if let Some(ip) = &parsed.ip {
            let (ip_wrong, l4_wrong) = parse::checksum_errors(frame, ip);
            second |= Self::L3L4P;
            second |= if ip_wrong { Self::IPE } else { 0 };
            second |= if l4_wrong { Self::L4E } else { 0 };
        }
        if hash.is_some() {
            second |= 3 << 12;
        }
        Self { first: u64::from(hash.unwrap_or(0)) << 32, second, third: 0, fourth: 0 }
    }

    /// A narrow descriptor has room for a filter's identifier in the place of the hash only.
    fn filter(&mut self, id: Option<u32>, wide: bool) {
        const MATCH: u64 = 1 << 11;
        const KIND: u64 = 3 << 12;
        const KIND_ID: u64 = 1 << 12;
        const EXTENDED_ID: u64 = 1 << 4;
        self.second |= MATCH;
        match id.map(u64::from) {
            Some(id) if wide => {
                self.third |= EXTENDED_ID;
                self.fourth = id << 32;
            }
            Some(id) => {
                self.first = id << 32;
                self.second = self.second & !KIND | KIND_ID;
            }
            None => {}
        }
    }

    /// The outer tag, an S-tag or another C-tag, goes to the first place and the inner one to the second (by drivers:
    /// DPDK's `i40e_rxd_to_vlan_tci`). Says whether there were two.
    fn strip_two(&mut self, bytes: &mut Vec<u8>) -> bool {
        let Some([0x81 | 0x88, kind, a, b, 0x81, 0x00, c, d]) = bytes.get(12..20) else { return false };
        if ![[0x81, 0x00], [0x88, 0xa8]].contains(&[bytes[12], *kind]) {
            return false;
        }
        self.first |= u64::from(u16::from_be_bytes([*a, *b])) << 16;
        self.second |= Self::L2TAG1P;
        self.third |= u64::from(u16::from_be_bytes([*c, *d])) << 48 | 1;
        bytes.drain(12..20);
        true
    }

    fn strip_tag(&mut self, bytes: &mut Vec<u8>, to_first: bool) {
        if let Some([0x81, 0x00, high, low]) = bytes.get(12..16) {
            let tag = u64::from(u16::from_be_bytes([*high, *low]));
            if to_first {
                self.first |= tag << 16;
                self.second |= Self::L2TAG1P;
            } else {
                // The second tag's place, with its own mark in the extended status.
                self.third |= tag << 48 | 1;
            }
            bytes.drain(12..16);
        }
    }
}
