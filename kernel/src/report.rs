//! Lines for the console: what a run counted, for people and for programs.
//!
//! Lines for programs begin with `barewire: ` and hold `key=value` pairs, so that a later version can add some.

use core::fmt::{self, Write};

use heapless::String;

use crate::drops::Drops;
use crate::port::QueueCounters;

/// A port's name, such as `i40e0`.
pub type PortName = String<16>;

/// What one port received, sent and dropped, summed over its queues.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PortReport {
    /// Its name.
    pub name: PortName,
    /// Frames that came in.
    pub rx: QueueCounters,
    /// Frames that were sent.
    pub tx: QueueCounters,
    /// Frames that the forwarding mode made to be sent here.
    pub made: u64,
    /// Frames that came in here and were dropped, wherever that was.
    pub drops: Drops,
}

/// Writes `barewire: stats port=N ...` for one port.
///
/// # Errors
/// What `out` said.
pub fn stats_line(out: &mut impl Write, port: usize, report: &PortReport) -> fmt::Result {
    write!(
        out,
        "barewire: stats port={port} name={} rx_frames={} rx_bytes={} tx_frames={} tx_bytes={}",
        report.name, report.rx.frames, report.rx.bytes, report.tx.frames, report.tx.bytes
    )?;
    rest(out, report.made, &report.drops)
}

/// What one core received, sent and dropped, summed over its streams.
///
/// The cores' sums are the ports' sums, but for what no core saw: frames that a card kept, and those that it took and
/// did not send because its link was down, which count as sent here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CoreReport {
    /// Its streams.
    pub streams: usize,
    /// Frames that came in.
    pub rx: QueueCounters,
    /// Frames that were sent.
    pub tx: QueueCounters,
    /// Frames that its forwarding mode made.
    pub made: u64,
    /// Frames that it dropped.
    pub drops: Drops,
}

/// Writes `barewire: lcore core=N ...` for one core.
///
/// # Errors
/// What `out` said.
pub fn core_line(out: &mut impl Write, core: usize, report: &CoreReport) -> fmt::Result {
    write!(
        out,
        "barewire: lcore core={core} streams={} rx_frames={} rx_bytes={} tx_frames={} tx_bytes={}",
        report.streams, report.rx.frames, report.rx.bytes, report.tx.frames, report.tx.bytes
    )?;
    rest(out, report.made, &report.drops)
}

fn rest(out: &mut impl Write, made: u64, drops: &Drops) -> fmt::Result {
    if made > 0 {
        write!(out, " made_frames={made}")?;
    }
    for (reason, count) in drops.iter() {
        write!(out, " drop.{}={count}", reason.name())?;
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use std::string::String as StdString;

    use super::*;
    use crate::drops::DropReason;

    #[test]
    fn a_line_holds_every_count() {
        let mut report = PortReport {
            name: PortName::try_from("i40e1").unwrap(),
            rx: QueueCounters { frames: 10, bytes: 600 },
            tx: QueueCounters { frames: 7, bytes: 420 },
            ..Default::default()
        };
        report.drops.add(DropReason::TxFull, 2);
        report.drops.add(DropReason::RxError, 1);
        report.made = 3;
        let mut line = StdString::new();
        stats_line(&mut line, 1, &report).unwrap();
        assert_eq!(
            line,
            "barewire: stats port=1 name=i40e1 rx_frames=10 rx_bytes=600 tx_frames=7 tx_bytes=420 made_frames=3 \
             drop.rx-error=1 drop.tx-full=2\n"
        );
        let report = CoreReport { streams: 2, rx: report.rx, tx: report.tx, drops: report.drops, made: 0 };
        let mut line = StdString::new();
        core_line(&mut line, 3, &report).unwrap();
        assert_eq!(
            line,
            "barewire: lcore core=3 streams=2 rx_frames=10 rx_bytes=600 tx_frames=7 tx_bytes=420 \
             drop.rx-error=1 drop.tx-full=2\n"
        );
    }
}
