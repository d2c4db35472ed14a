//! What every forwarder does, whatever its ports are: packets and their metadata, pools, bursts, the port
//! traits, forwarding modes, the loop of a core, counters and configuration.
//!
//! Names no driver. Nothing here is shared between cores: a core owns its pool, its queues, its burst and its
//! counters, and no packet crosses from one core to another.
#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod assign;
pub mod burst;
pub mod card;
pub mod config;
pub mod drops;
pub mod forward;
pub mod lcore;
pub mod packet;
pub mod pool;
pub mod port;
pub mod ptype;
pub mod report;
pub mod request;
pub mod topology;

pub use burst::Burst;
pub use drops::{DropReason, Drops};
pub use packet::{Checksum, Meta, Packet};
pub use pool::{BLOCK, BufferLayout, Buffers, Pool};
pub use port::{Link, MacAddr, RxQueue, TxQueue};
pub use request::TxRequest;
