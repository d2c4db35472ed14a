//! The other side for integration tests: a driver against the software XL710 in one process.

pub mod frames;
pub mod port;

pub use port::{TestPort, TestWire};
