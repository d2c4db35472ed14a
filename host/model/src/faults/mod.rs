//! Misbehaviour on demand, by calls, by a script or by a seed; and the record of what a driver did wrong.
//!
//! Time is counted in events and frames, never by a clock, so that a run can be repeated. An event is an access to a
//! register, or a time that the owner lets the card work; a frame is one that went through the MAC either way.

mod fetch;
mod marks;
mod play;
mod script;
mod seed;
mod violations;
mod watch;

pub use marks::{Direction, MarkFault};
pub use script::{Fault, Planned, Script, ScriptError};
pub use watch::{Allowed, Watch};

pub(crate) use fetch::Fetch;
pub(crate) use marks::Marks;
pub(crate) use violations::Violations;

/// How an admin command misbehaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdminFault {
    /// The command fails with this code.
    Code(u16),
    /// The command is never completed.
    Never,
    /// The command is carried out and completed this many events later.
    Late(u32),
    /// PF_ATQH reads this value afterwards.
    Head(u32),
    /// The head moves on, the descriptor isn't written.
    NotDone,
    /// PF_ATQLEN says critical error, and the command is never completed.
    Critical,
}

/// Stands for every opcode.
pub const ANY_OPCODE: u16 = 0;
/// As a number of times: always.
pub const ALWAYS: u32 = u32::MAX;
/// As a number of reads or events: for ever.
pub const NEVER: u32 = u32::MAX;

/// A queue that is slow to follow a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueFault {
    /// Receive or transmit.
    pub direction: Direction,
    /// Requests to enable it, or requests to disable it.
    pub enable: bool,
    /// Reads of its register that pass before it follows; [`NEVER`]: it does not.
    pub reads: u32,
    /// Requests that this happens to; [`ALWAYS`].
    pub times: u32,
}

/// What to do wrong.
#[derive(Default)]
pub struct Faults {
    /// For a command: opcode or [`ANY_OPCODE`], how, how many times.
    pub admin: Vec<(u16, AdminFault, u32)>,
    /// Reads of QRX_ENA and QTX_ENA that pass before QENA_STAT follows a request; `u32::MAX`: never.
    pub queue_delay: u32,
    /// Queues that are slower than the others.
    pub queues: Vec<QueueFault>,
    /// Reads of PFGEN_CTRL that pass before PFSWR clears; `u32::MAX`: never.
    pub reset_delay: u32,
    /// A register that reads as this value, whatever it holds.
    pub registers: Vec<(u32, u32)>,
    /// Set MAC Config fails while the link is down, as with some firmware.
    pub mac_config_needs_link: bool,
    /// Registers that the driver may touch; every other access is a violation.
    pub watch: Option<Watch>,
    /// As `registers`, for this many reads.
    pub(crate) reads: Vec<(u32, u32, u32)>,
    pub(crate) marks: Marks,
    pub(crate) fetch: Fetch,
    /// Events for which the card finds no receive descriptor.
    pub(crate) rx_empty: u32,
    /// Changes of the link that are left, events between two, events until the next.
    pub(crate) flap: (u32, u32, u32),
    /// Events until the admin command at the head is carried out; 0 when none waits.
    pub(crate) admin_late: u32,
    /// That command is no longer to be delayed.
    pub(crate) admin_now: bool,
    /// Something waits for events.
    pub(crate) busy: bool,
    /// What the script still holds, with the frame after which it comes; the next one last.
    pub(crate) plan: Vec<(u64, Fault)>,
    /// The frame after which the next one comes, less one; `None` without a script.
    pub(crate) due: Option<u64>,
}

impl Faults {
    /// Faults of scripts that are not due yet.
    pub fn planned(&self) -> usize {
        self.plan.len()
    }

    /// Takes the fault that is due for `opcode`.
    pub(crate) fn admin_fault(&mut self, opcode: u16) -> Option<AdminFault> {
        if std::mem::take(&mut self.admin_now) {
            return None;
        }
        let due = |code: u16, times: u32| (code == opcode || code == ANY_OPCODE) && times > 0;
        let (_, fault, times) = self.admin.iter_mut().find(|(code, _, times)| due(*code, *times))?;
        *times -= u32::from(*times != ALWAYS);
        Some(*fault)
    }

    /// Reads that pass before a queue follows this request.
    pub(crate) fn queue_reads(&mut self, direction: Direction, enable: bool) -> u32 {
        let due = |fault: &&mut QueueFault| {
            fault.direction == direction && fault.enable == enable && fault.times > 0
        };
        let Some(fault) = self.queues.iter_mut().find(due) else { return self.queue_delay };
        fault.times -= u32::from(fault.times != ALWAYS);
        fault.reads
    }

    /// What a register reads as, if that is not what it holds.
    pub(crate) fn register(&mut self, offset: u32) -> Option<u32> {
        if let Some((_, value, times)) =
            self.reads.iter_mut().find(|(at, _, times)| *at == offset && *times > 0)
        {
            *times -= u32::from(*times != ALWAYS);
            return Some(*value);
        }
        self.registers.iter().find(|(at, _)| *at == offset).map(|(_, value)| *value)
    }

    /// The function was reset: what waited for it is over, what was planned is not.
    pub(crate) fn reset(&mut self) {
        self.marks.forget();
        self.fetch.forget(None);
        self.admin_late = 0;
    }
}
