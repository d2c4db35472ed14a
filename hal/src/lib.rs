//! What hardware looks like to a driver.
//!
//! A driver is generic over a [`Machine`]: a register window ([`Bar`]), memory that a device may read and
//! write ([`DmaMemory`]) and a [`Clock`]. Two machines exist: the bare one, which the image uses, and the
//! hosted one (feature `std`), in which the device is another part of the same process or another process.
//!
//! Nearly all of the unsafe code of barewire is in this crate and in `boot`. What it offers upward is safe:
//! offsets are checked, values are copied in and out, and no reference to memory that a device or a peer
//! writes is ever made.
#![no_std]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod addr;
#[cfg(target_arch = "x86_64")]
pub mod bare;
pub mod clock;
pub mod dma;
pub mod lines;
pub mod narrow;
pub mod pci;
pub mod reg;
pub mod ring;
pub mod shared;
#[cfg(target_arch = "x86_64")]
pub mod simd;
pub mod words;

#[cfg(feature = "std")]
pub mod hosted;
#[cfg(feature = "std")]
pub mod shared_file;

pub use addr::{DmaAddr, PhysAddr};
pub use clock::{Clock, Timeout};
pub use dma::{DmaError, DmaMemory, OutOfBounds};
pub use lines::{LINE, Line, LineHeap};
pub use narrow::NarrowBar;
pub use reg::{Bar, BarAccess, Doorbell, Reg, RegArray, RegValue, Ro, Rw, Wo};
pub use ring::{BufferRing, DescRing};
pub use shared::SharedU16;
pub use words::Word;

/// The world that a driver runs in.
///
/// Held by value and cheap to clone; a clone speaks of the same machine.
pub trait Machine: Clone {
    /// A window of device registers.
    type Bar: Bar;
    /// Time, for bounded waits and for rates.
    type Clock: Clock;

    /// The clock of this machine.
    fn clock(&self) -> &Self::Clock;

    /// Memory that a device can reach: zeroed, contiguous in device addresses, `len` bytes, at a device
    /// address that is a multiple of `align` (a power of two, at most 2 MiB).
    ///
    /// A bare machine never takes memory back, so a driver allocates once and keeps it over stop and start.
    ///
    /// # Errors
    /// [`DmaError`] names the length that could not be had.
    fn dma_alloc(&self, len: usize, align: usize) -> Result<DmaMemory, DmaError>;
}
