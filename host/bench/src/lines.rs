//! Cache lines that a frame takes by design: those of memory that goes round, so that each comes anew.

use crate::case::{Bench, Case};

const LINE: f64 = 64.0;
/// The receive ring's own word of a descriptor: which buffer it has.
const RX_SHADOW: f64 = 4.0;
/// The transmit ring's, likewise.
const TX_SHADOW: f64 = 4.0;
/// Bytes of a transmit descriptor.
const TX_DESC: f64 = 16.0;

/// Lines a frame: descriptors, the rings' lists of buffers, and the header where it is touched. What stays in the first
/// cache whatever comes, such as the burst, does not count.
pub fn by_design(case: &Case) -> f64 {
    let rx = (f64::from(case.desc) + RX_SHADOW) / LINE;
    let tx = (TX_DESC + TX_SHADOW) / LINE;
    let header = 1.0;
    let lines = match case.bench {
        Bench::Rx => rx,
        Bench::Tx => tx,
        Bench::Io => rx + tx,
        Bench::Mac | Bench::MacSwap => rx + tx + header,
        Bench::IoAlone => 0.0,
        Bench::MacAlone | Bench::MacSwapAlone | Bench::FiveTupleAlone => header,
        Bench::CsumAlone => (f64::from(case.size) / LINE).ceil(),
    };
    (lines * 100.0).round() / 100.0
}
