//! What can go wrong, with the step and the value.

use core::fmt;

use hal::{DmaError, OutOfBounds};

/// Why a step failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// A register did not take the value that the step waits for.
    Timeout {
        /// What was being done.
        step: &'static str,
        /// The register's name in the datasheet.
        register: &'static str,
        /// Its last value.
        value: u32,
        /// How long was waited.
        millis: u32,
    },
    /// An admin command failed.
    Admin {
        /// The command's name in the datasheet.
        name: &'static str,
        /// Its opcode.
        opcode: u16,
        /// How it failed.
        fault: AdminFault,
    },
    /// A value that the card gave makes no sense.
    Card {
        /// What was being done.
        step: &'static str,
        /// What the value is.
        what: &'static str,
        /// The value.
        value: u64,
    },
    /// No memory for the device.
    Memory {
        /// What it was for.
        step: &'static str,
        /// How much was asked for.
        error: DmaError,
    },
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

/// How an admin command failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdminFault {
    /// The firmware answered with this code.
    Code(u16),
    /// The firmware did not answer in time; the queue is not used again.
    Timeout {
        /// PF_ATQH at the end.
        head: u32,
        /// How long was waited.
        millis: u32,
    },
    /// The firmware reported a critical error in PF_ATQLEN.
    Critical(u32),
    /// PF_ATQH holds no index of the queue.
    Head(u32),
    /// The head moved on and the descriptor isn't marked done.
    NotDone(u16),
    /// The queue has not been started, or failed before.
    NotRunning,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout { step, register, value, millis } => {
                write!(f, "{step}: {register} is still {value:#x} after {millis} ms")
            }
            Self::Admin { name, opcode, fault } => write!(f, "admin command {opcode:#06x} ({name}): {fault}"),
            Self::Card { step, what, value } => write!(f, "{step}: the card says {what} is {value:#x}"),
            Self::Memory { step, error } => write!(f, "{step}: {error}"),
            Self::Request { step, what, value } => write!(f, "{step}: {what} can't be {value}"),
        }
    }
}

impl fmt::Display for AdminFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "the firmware answers {code} ({})", code_name(*code)),
            Self::Timeout { head, millis } => write!(f, "no answer within {millis} ms, PF_ATQH is {head:#x}"),
            Self::Critical(len) => write!(f, "critical error, PF_ATQLEN is {len:#x}"),
            Self::Head(head) => write!(f, "PF_ATQH is {head:#x}, which is no index of the queue"),
            Self::NotDone(flags) => write!(f, "completed without DD, flags are {flags:#x}"),
            Self::NotRunning => write!(f, "the admin queue is not running"),
        }
    }
}

impl core::error::Error for Error {}

/// Names of the firmware's return codes (by drivers: `i40e_admin_queue_err`).
fn code_name(code: u16) -> &'static str {
    const NAMES: [&str; 22] = [
        "OK", "EPERM", "ENOENT", "ESRCH", "EINTR", "EIO", "ENXIO", "E2BIG", "EAGAIN", "ENOMEM", "EACCES",
        "EFAULT", "EBUSY", "EEXIST", "EINVAL", "ENOTTY", "ENOSPC", "ENOSYS", "ERANGE", "EFLUSHED",
        "BAD_ADDR", "EMODE",
    ];
    NAMES.get(usize::from(code)).copied().unwrap_or("unknown")
}

/// Turns an [`OutOfBounds`] of our own layout into an error of the step.
pub(super) fn layout(step: &'static str) -> impl Fn(OutOfBounds) -> Error {
    move |error| Error::Request { step, what: "offset", value: error.offset as u64 }
}

/// Turns a [`DmaError`] into an error of the step.
pub(super) fn memory(step: &'static str) -> impl Fn(DmaError) -> Error {
    move |error| Error::Memory { step, error }
}
