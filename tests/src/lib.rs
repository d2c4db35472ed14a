//! The other side for integration tests: a driver against the software XL710 in one process, machines in QEMU.

pub mod captures;
pub mod cores;
pub mod datagrams;
pub mod direct;
pub mod dpdk;
pub mod exchange;
pub mod faulty;
pub mod flows;
pub mod frames;
pub mod guest;
pub mod image_rig;
pub mod initramfs;
pub mod linux;
pub mod linux_guest;
pub mod machine;
pub mod memif;
pub mod packets;
pub mod port;
pub mod rounds;
pub mod rss;
pub mod stepped;
pub mod testpmd;
pub mod watch;

pub use port::{TestPort, TestWire};
pub use watch::Watch;
