//! `ieee1588`: answers Sync messages of PTP version 2 over Ethernet by sending them back, and tells when each came and
//! left by the card's clock; the rest is dropped.
//!
//! As testpmd does it, in its words. What differs: nobody waits for the time of a sent frame before there is another
//! frame; times of frames that are dropped or lost are fetched, so that they don't keep the card from stamping; in a
//! burst of several messages the first one's sending is stamped, since the card keeps one time. Given single frames, each
//! is.

use core::fmt;

use super::Work;
use super::frame::{Frame, ranges};
use crate::burst::Burst;
use crate::drops::DropReason;
use crate::packet::Meta;
use crate::port::time_stamp::TimeStamper;
use crate::request::TxRequest;

const ETHERTYPE: u16 = 0x88f7;
const ETHERTYPE_AT: usize = 12;
const HEADER: usize = 14;
const VERSION: u8 = 2;
const SYNC: u8 = 0;
/// The card's packet type of a PTP message over Ethernet.
const PTYPE_TIMESYNC: u8 = 2;

/// What is told of a frame. Displayed without the port in front.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Of this type, not PTP, with so many bytes in its first buffer.
    NotPtp(u16, usize),
    /// PTP that the card did not know.
    NotFiltered,
    /// Not PTP, though the card said so.
    WrongFilter,
    /// Another version of PTP.
    Version(u8),
    /// Another message.
    Message(u8),
    /// A Sync message without its time.
    NotStamped,
    /// A Sync message came at this time, in nanoseconds.
    Received(u64),
    /// The register that it named had no time.
    NoReceiveTime,
    /// It left at this time, in nanoseconds.
    Sent(u64),
    /// There was no time of its sending within [`Ieee1588::WAIT_MICROS`].
    NoSendTime,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SECOND: u64 = 1_000_000_000;
        let wait = Ieee1588::WAIT_MICROS;
        match self {
            Self::NotPtp(kind, len) => write!(f, "Received non PTP packet type={kind:#06x} len={len}"),
            Self::NotFiltered => f.write_str("Received PTP packet not filtered by hardware"),
            Self::WrongFilter => f.write_str("Received NON PTP packet incorrectly detected by hardware"),
            Self::Version(version) => write!(f, "Received PTP frame with wrong version {version:#x}"),
            Self::Message(id) => write!(f, "Received PTP frame with unexpected message ID {id:#x}"),
            Self::NotStamped => f.write_str("Received PTP packet not timestamped by hardware"),
            Self::Received(at) => write!(f, "RX timestamp value {} s {} ns", at / SECOND, at % SECOND),
            Self::NoReceiveTime => f.write_str("RX timestamp registers not valid"),
            Self::Sent(at) => write!(f, "TX timestamp value {} s {} ns", at / SECOND, at % SECOND),
            Self::NoSendTime => {
                write!(f, "TX timestamp registers not valid after {wait} micro-seconds")
            }
        }
    }
}

/// The mode's state in one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ieee1588 {
    wait_ticks: u64,
    /// Since when the time of a sent frame is awaited.
    asked: Option<u64>,
}

impl Ieee1588 {
    /// How long the time of a sent frame is awaited.
    pub const WAIT_MICROS: u64 = 1000;

    /// Nothing is awaited.
    pub const fn new(ticks_per_second: u64) -> Self {
        Self { wait_ticks: ticks_per_second / 1_000_000 * Self::WAIT_MICROS, asked: None }
    }

    /// The time of a sent frame is awaited: call [`Ieee1588::forward`] with an empty burst, too.
    pub const fn awaits(&self) -> bool {
        self.asked.is_some()
    }

    /// Turns the Sync messages of `burst` round, with a request for the time of the first one's sending, and drops the
    /// rest. `ticks` is the core's clock. What the time of an earlier frame's sending was is told first: with frames in
    /// the burst it is waited for, at most [`Ieee1588::WAIT_MICROS`].
    pub fn forward(
        &mut self,
        work: &mut Work<'_>,
        burst: &mut Burst,
        stamper: &mut impl TimeStamper,
        ticks: impl Fn() -> u64,
        mut tell: impl FnMut(Event),
    ) {
        while self.look(stamper, &ticks, &mut tell) && !burst.is_empty() {
            core::hint::spin_loop();
        }
        let memory = work.memory;
        work.sift(burst, |buffers, metas| {
            let (Some(buffer), Some(meta), Some(last)) = (buffers.first(), metas.first(), metas.last())
            else {
                return Some(DropReason::NoPtp);
            };
            let frame = Frame::new(memory, *buffer, *meta);
            let judged = judge(frame, *last);
            if let Some(index) = last.time_stamp() {
                let event = stamper.receive_stamp(index).map_or(Event::NoReceiveTime, Event::Received);
                tell(judged.err().unwrap_or(event));
            } else if let Err(event) = judged {
                if event == Event::NotStamped {
                    stamper.release();
                }
                tell(event);
            }
            let turned = judged.ok().and_then(|()| frame.exchange::<6>(0));
            if turned.is_none() { Some(DropReason::NoPtp) } else { None }
        });
        self.ask(burst, stamper, ticks);
    }

    /// Looks for the time that is awaited; says whether it still is.
    fn look(
        &mut self,
        stamper: &mut impl TimeStamper,
        ticks: &impl Fn() -> u64,
        tell: &mut impl FnMut(Event),
    ) -> bool {
        let Some(since) = self.asked else { return false };
        let late = ticks().wrapping_sub(since) >= self.wait_ticks;
        let event = match stamper.transmit_stamp() {
            Some(at) => Event::Sent(at),
            None if late => Event::NoSendTime,
            None => return true,
        };
        self.asked = None;
        tell(event);
        false
    }

    /// The first frame's sending is to be stamped.
    fn ask(&mut self, burst: &mut Burst, stamper: &mut impl TimeStamper, ticks: impl Fn() -> u64) {
        const STAMP: TxRequest =
            TxRequest { vlan: None, outer_vlan: None, checksums: None, segmentation: None, time_stamp: true };
        let Some(first) = ranges(burst.metas()).next() else { return };
        let (_, metas) = burst.entries_mut();
        if let Some(meta) = metas.get_mut(first.end - 1)
            && let Ok(asking) = STAMP.put(*meta)
        {
            // One that came too late would be taken for this one's.
            let _ = stamper.transmit_stamp();
            *meta = asking;
            self.asked = Some(ticks());
        }
    }
}

/// The frame is a Sync message that the card knew and stamped; else what is told of it.
fn judge(frame: Frame<'_>, last: Meta) -> Result<(), Event> {
    let kind = frame.load_word(ETHERTYPE_AT).unwrap_or(0);
    match (last.ptype() == PTYPE_TIMESYNC, kind == ETHERTYPE) {
        (true, true) => {}
        (true, false) => return Err(Event::WrongFilter),
        (false, true) => return Err(Event::NotFiltered),
        (false, false) => return Err(Event::NotPtp(kind, frame.len())),
    }
    // Of a frame that ends here, what is missing is no version.
    let [message, version] = frame.load(HEADER).unwrap_or([0, 0]);
    match (version, message) {
        (VERSION, SYNC) => last.time_stamp().map(drop).ok_or(Event::NotStamped),
        (VERSION, message) => Err(Event::Message(message)),
        (version, _) => Err(Event::Version(version)),
    }
}

#[cfg(test)]
mod tests;
