//! The other side for integration tests: a driver against the software XL710 in one process, machines in QEMU.

pub mod captures;
pub mod frames;
pub mod guest;
pub mod linux;
pub mod linux_guest;
pub mod machine;
pub mod port;
pub mod rss;
pub mod watch;

pub use port::{TestPort, TestWire};
pub use watch::Watch;
