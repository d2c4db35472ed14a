//! A forwarding mode from outside: `ttl` takes one off the time to live of every IPv4 packet, as a router does (RFC
//! 1812, 5.3.1), and drops those whose time has come, under the name `by-mode`. Everything else passes as it is.
//!
//! It is a mode that decides frame by frame. It believes nothing that is in a frame: what does not look like an IPv4
//! header is not touched.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;
#[cfg(test)]
mod tests;

use boot::modes::{CoreGround, CustomMode};
use hal::{DmaError, DmaMemory};
use kernel::config::Config;
use kernel::forward::{ForwardMode, Verdict, Work};
use kernel::{Burst, DropReason, Meta};

/// The mode `ttl`.
#[derive(Debug, Default)]
pub struct Ttl;

impl CustomMode for Ttl {
    const NAME: &'static str = "ttl";

    fn new(_: &Config, _: &CoreGround<'_>) -> Result<Self, DmaError> {
        Ok(Self)
    }
}

impl ForwardMode for Ttl {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn forward(&mut self, work: &mut Work<'_>, burst: &mut Burst) -> Verdict {
        let memory = work.memory;
        work.sift(burst, |buffers, metas| {
            let (buffer, meta) = buffers.first().zip(metas.first())?;
            age(memory, *buffer, *meta)
        });
        Verdict::Send
    }
}

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
/// Of an IPv4 header without options.
const IPV4: u32 = 20;
/// Offsets in the frame.
const ETHER_TYPE: usize = 12;
const VERSION: usize = ETHERNET;
const TTL: usize = ETHERNET + 8;
const CHECKSUM: usize = ETHERNET + 10;

/// Takes one off the time to live of the frame that begins in `buffer`; says why it is to be dropped, if it is.
fn age(memory: &DmaMemory, buffer: u32, meta: Meta) -> Option<DropReason> {
    if meta.len() < ETHERNET as u32 + IPV4 {
        return None;
    }
    let at = buffer as usize + meta.start() as usize;
    let ether_type: [u8; 2] = memory.load(at + ETHER_TYPE).ok()?;
    let version: u8 = memory.load(at + VERSION).ok()?;
    if ether_type != [0x08, 0x00] || version >> 4 != 4 {
        return None;
    }
    // The protocol lies beside it, in the same word of the checksum.
    let [ttl, protocol]: [u8; 2] = memory.load(at + TTL).ok()?;
    if ttl <= 1 {
        return Some(DropReason::Mode);
    }
    let checksum = u16::from_be_bytes(memory.load(at + CHECKSUM).ok()?);
    let (before, after) = ([ttl, protocol], [ttl - 1, protocol]);
    let checksum = updated(checksum, u16::from_be_bytes(before), u16::from_be_bytes(after));
    // Both lie where the loads above have been.
    let _ = memory.store(at + TTL, after);
    let _ = memory.store(at + CHECKSUM, checksum.to_be_bytes());
    None
}

/// The checksum of a header in which one word has changed: RFC 1624, equation 3.
fn updated(checksum: u16, before: u16, after: u16) -> u16 {
    let sum = u32::from(!checksum) + u32::from(!before) + u32::from(after);
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}
