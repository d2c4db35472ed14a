//! `icmpecho`: answers ARP requests and ICMP echo requests with the frames in which they came; the rest is dropped.
//!
//! As testpmd does it, for any address, behind at most one 802.1Q tag. What differs: an IP header with options, or of
//! version other than 4, and a fragment but the first are no requests, since there is no ICMP header where one is looked for;
//! nothing is read behind the frame's end; and the reply to a request of nothing but zeros (checksum 0xf7ff) has 0xffff,
//! the checksum of zeros, where testpmd's update comes to 0x0000. A request's checksum that is wrong stays wrong.

use super::checksum::ipv4_header_checksum;
use super::frame::Frame;
use super::{Route, Work};
use crate::burst::Burst;
use crate::drops::DropReason;

const TYPE_AT: usize = 12;
const VLAN: u16 = 0x8100;
const ARP: u16 = 0x0806;
const IPV4: u16 = 0x0800;
const ICMP: u8 = 1;

/// Turns requests of `burst` into replies and drops what is none.
pub fn reply(work: &mut Work<'_>, burst: &mut Burst) {
    let (memory, route) = (work.memory, work.route);
    work.sift(burst, |buffers, metas| {
        let (Some(buffer), Some(meta)) = (buffers.first(), metas.first()) else {
            return Some(DropReason::NoEcho);
        };
        reply_to(Frame::new(memory, *buffer, *meta), route).map_or(Some(DropReason::NoEcho), |()| None)
    });
}

/// Makes a reply of `frame`; `None` if it is no request, and then it is as it was.
fn reply_to(frame: Frame<'_>, route: &Route) -> Option<()> {
    let (mut kind, mut at) = (frame.load_word(TYPE_AT)?, TYPE_AT + 2);
    if kind == VLAN {
        (kind, at) = (frame.load_word(at + 2)?, at + 4);
    }
    match kind {
        ARP => reply_to_arp(frame, at, route),
        IPV4 => reply_to_echo(frame, at),
        _ => None,
    }
}

fn reply_to_arp(frame: Frame<'_>, at: usize, route: &Route) -> Option<()> {
    /// Ethernet, IPv4, lengths 6 and 4, request.
    const REQUEST: [u8; 8] = [0, 1, 0x08, 0x00, 6, 4, 0, 1];
    const REPLY: [u8; 2] = [0, 2];
    let packet: [u8; 28] = frame.load(at)?;
    if packet[..8] != REQUEST {
        return None;
    }
    let source: [u8; 6] = frame.load(6)?;
    frame.store(0, [source, route.mac.0])?;
    frame.store(at + 6, REPLY)?;
    // Sender: this port, at the address that was asked for. Target: whoever asked.
    let (sender, address): ([u8; 6], [u8; 4]) = (frame.load(at + 8)?, frame.load(at + 14)?);
    let asked: [u8; 4] = frame.load(at + 24)?;
    frame.store(at + 8, route.mac.0)?;
    frame.store(at + 14, asked)?;
    frame.store(at + 18, sender)?;
    frame.store(at + 24, address)
}

fn reply_to_echo(frame: Frame<'_>, at: usize) -> Option<()> {
    const ECHO_REQUEST: [u8; 2] = [8, 0];
    const ECHO_REPLY: [u8; 2] = [0, 0];
    /// What the type takes away from the sum, which goes to the checksum.
    const DIFFERENCE: u32 = 0x0800;
    let mut ip: [u8; 20] = frame.load(at)?;
    let fragment = u16::from_be_bytes([ip[6], ip[7]]) & 0x1fff;
    if ip[0] != 0x45 || ip[9] != ICMP || fragment != 0 {
        return None;
    }
    let [kind, code, high, low]: [u8; 4] = frame.load(at + 20)?;
    if [kind, code] != ECHO_REQUEST {
        return None;
    }
    let (destination, source): ([u8; 6], [u8; 6]) = (frame.load(0)?, frame.load(6)?);
    frame.store(0, [source, destination])?;
    let (from, to) = ([ip[12], ip[13], ip[14], ip[15]], [ip[16], ip[17], ip[18], ip[19]]);
    if to[0] >> 4 == 0xe {
        ip[12..16].copy_from_slice(&neighbour(from));
        ip[16..].copy_from_slice(&from);
        [ip[10], ip[11]] = [0, 0];
        [ip[10], ip[11]] = ipv4_header_checksum(&ip).to_be_bytes();
        frame.store(at, ip)?;
    } else {
        frame.store(at + 12, [to, from])?;
    }
    let sum = u32::from(u16::from_be_bytes([high, low])) + DIFFERENCE;
    let [high, low] = (((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes();
    let [kind, code] = ECHO_REPLY;
    frame.store(at + 20, [kind, code, high, low])
}

/// An address beside `address`, which answers in place of a group: the first of its four, or else the second.
fn neighbour(address: [u8; 4]) -> [u8; 4] {
    let number = u32::from_be_bytes(address);
    let place = if number & 3 == 1 { 2 } else { 1 };
    (number & !3 | place).to_be_bytes()
}

#[cfg(test)]
mod tests;
