//! The card as a device of its own process: the vfio-user protocol, version 0.0 (QEMU `docs/interop/vfio-user.rst`).

mod message;
mod server;
mod session;

pub use server::{Handle, PortStatus, ServeError, Server};
