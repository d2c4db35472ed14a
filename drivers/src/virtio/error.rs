//! What can go wrong, with the step and the value.

use core::fmt;

use hal::pci::Address;
use hal::{DmaError, OutOfBounds};

/// Why a step failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// The function has no such structure in a BAR: it is not modern, or broken.
    Missing {
        /// The function.
        at: Address,
        /// The structure's name in the standard.
        what: &'static str,
    },
    /// A value that the device gave makes no sense.
    Device {
        /// What was being done.
        step: &'static str,
        /// What the value is.
        what: &'static str,
        /// The value.
        value: u64,
    },
    /// The device did not do in time what it was asked.
    Timeout {
        /// What was being done.
        step: &'static str,
        /// The last value seen.
        value: u64,
        /// How long was waited.
        millis: u32,
    },
    /// No memory for the device.
    Memory(&'static str, DmaError),
    /// Something that the caller asked for is out of range.
    Request {
        /// What was being done.
        step: &'static str,
        /// What the value is.
        what: &'static str,
        /// The value.
        value: u64,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { at, what } => write!(f, "virtio: {at} has no usable {what}"),
            Self::Device { step, what, value } => {
                write!(f, "virtio: {step}: the device says {what} is {value:#x}")
            }
            Self::Timeout { step, value, millis } => {
                write!(f, "virtio: {step}: still {value:#x} after {millis} ms")
            }
            Self::Memory(step, error) => write!(f, "virtio: {step}: {error}"),
            Self::Request { step, what, value } => write!(f, "virtio: {step}: {what} can't be {value}"),
        }
    }
}

impl core::error::Error for Error {}

/// Turns an [`OutOfBounds`] of our own layout into an error of the step.
pub(super) fn layout(step: &'static str) -> impl Fn(OutOfBounds) -> Error {
    move |error| Error::Request { step, what: "offset", value: error.offset as u64 }
}
