//! A software XL710: the physical function of an Intel card as its drivers see it.
//!
//! Served over vfio-user to a virtual machine, or used in one process by the tests of a driver. It shares no register
//! or descriptor code with any driver of barewire, so that one misreading can't confirm another. What it does is
//! taken from the X710/XXV710/XL710 datasheet's register and descriptor chapters and from what the drivers of Linux
//! and DPDK ask of a card; where only a driver is the source, "by drivers" says so.
//!
//! The guest is not trusted: descriptors, contexts, admin buffers and addresses are bounded, and nothing that a
//! guest writes panics or loops.

mod adminq;
mod card;
mod checksum;
mod device;
mod dma;
mod faults;
mod filter;
mod firmware;
mod flow_director;
mod hmc;
mod interrupt;
mod nvm;
mod offload;
mod parse;
mod pci;
mod ptp;
mod ptp_clock;
mod ptp_message;
mod regs;
mod rx;
mod stats;
mod trace;
mod tx;
pub mod vfio_user;
pub mod wire;

pub use device::{PortConfig, Xl710};
pub use faults::{
    ALWAYS, ANY_OPCODE, AdminFault, Allowed, Direction, Fault, Faults, MarkFault, NEVER, Planned, QueueFault,
    Script, ScriptError, Watch,
};
pub use stats::Counters;
pub use trace::TraceLog;
pub use vfio_user::{Handle, ServeError, Server};
pub use wire::Wire;
