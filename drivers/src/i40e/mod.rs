//! Intel X710, XL710 and XXV710 (i40e): the physical function, polled.
//!
//! Who writes what: the driver writes descriptors and then the tail; the card reads up to the tail, not
//! including it, writes back what it has finished, and owns everything between head and tail. A receive
//! descriptor is finished when DD is set in its second quadword; a transmit descriptor that asked for it
//! (RS) when the type in its second quadword is 0xF.
//!
//! What the register names, layouts and sequences are taken from: the X710/XXV710/XL710 datasheet where its
//! section is named, otherwise what the public drivers of Linux and DPDK do, marked "by drivers".

mod adminq;
mod capability;
mod command;
mod context;
mod desc;
mod descriptor;
mod error;
mod features;
mod filters;
mod flow;
mod hmc;
mod ids;
mod link;
mod nvm;
mod port;
mod ptp;
mod queue;
mod recovery;
mod regs;
mod reset;
mod rss;
mod rx;
mod rx_ring;
mod stats;
mod switch;
#[cfg(test)]
mod tests;
mod tx;
mod tx_request;
mod vector;
mod xstats;

pub use descriptor::{Descriptor, State};
pub use error::{AdminFault, Error};
pub use filters::{Filters, MAX_ADDRESSES};
pub use flow::FlowControl;
pub use ids::{Device, device};
pub use nvm::NvmVersion;
pub use port::{FirmwareVersion, I40e, Options};
pub use ptp::TimeSync;
pub use recovery::{RingWatch, Trouble};
pub use rss::{Flows, KEY_BYTES, Key, Rss, TABLE_ENTRIES, TABLE_QUEUES};
pub use rx::Rx;
pub use tx::Tx;

/// Shortest frame that the card may be given, without FCS (by drivers: shorter ones stop the queue).
pub const MIN_FRAME: u32 = 17;
/// Longest frame, without FCS.
pub const MAX_FRAME: u32 = 9728;
/// Most buffers of a transmitted frame.
pub const MAX_TX_BUFFERS: usize = 8;
/// Most buffers that a received frame is spread over.
pub const MAX_RX_BUFFERS: usize = 5;
