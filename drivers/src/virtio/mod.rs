//! virtio 1.2: the transport over PCI, a virtqueue for control, and the console device. Names are those of the standard.
//!
//! Only what is called modern: little endian, structures found by capabilities, VIRTIO_F_VERSION_1.

pub mod console;
mod console_buffers;
mod console_control;
pub mod error;
pub mod pci;
pub mod queue;
pub mod transport;

pub use console::Console;
pub use error::Error;
pub use pci::Layout;
pub use queue::{Piece, Queue, Used};
pub use transport::{Device, Notifier, Setup, Transport};

#[cfg(test)]
mod tests;

/// VIRTIO_F_VERSION_1.
pub const VERSION_1: u64 = 1 << 32;

/// Red Hat's, of all virtio devices.
const VENDOR: u16 = 0x1af4;

/// The device type of a modern or transitional virtio function (4.1.2), such as 1 for a network card and 3 for a console.
pub fn device_type(vendor: u16, device: u16) -> Option<u16> {
    match device {
        _ if vendor != VENDOR => None,
        0x1040..=0x107f => Some(device - 0x1040),
        // Transitional ids. What is not modern as well is found out by its capabilities.
        0x1000 => Some(1),
        0x1001 => Some(2),
        0x1003 => Some(3),
        _ => None,
    }
}
