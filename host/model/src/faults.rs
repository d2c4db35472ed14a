//! Misbehaviour on demand, and the record of what a driver did wrong.

/// How an admin command misbehaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdminFault {
    /// The command fails with this code.
    Code(u16),
    /// The command is never completed.
    Never,
    /// PF_ATQH reads this value afterwards.
    Head(u32),
    /// The head moves on, the descriptor isn't written.
    NotDone,
}

/// What to do wrong.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// For a command: opcode, how, how many times.
    pub admin: Vec<(u16, AdminFault, u32)>,
    /// Reads of QRX_ENA and QTX_ENA that pass before QENA_STAT follows a request; `u32::MAX`: never.
    pub queue_delay: u32,
    /// Reads of PFGEN_CTRL that pass before PFSWR clears; `u32::MAX`: never.
    pub reset_delay: u32,
    /// A register that reads as this value, whatever it holds.
    pub registers: Vec<(u32, u32)>,
    /// Set MAC Config fails while the link is down, as with some firmware.
    pub mac_config_needs_link: bool,
}

impl Faults {
    /// Takes the fault that is due for `opcode`.
    pub(crate) fn admin_fault(&mut self, opcode: u16) -> Option<AdminFault> {
        let (_, fault, times) =
            self.admin.iter_mut().find(|(code, _, times)| *code == opcode && *times > 0)?;
        *times -= 1;
        Some(*fault)
    }

    pub(crate) fn register(&self, offset: u32) -> Option<u32> {
        self.registers.iter().find(|(at, _)| *at == offset).map(|(_, value)| *value)
    }
}

/// Things that a real card answers by stopping a queue, or that no driver may do. Kept to the first hundred.
#[derive(Debug, Default)]
pub(crate) struct Violations {
    list: Vec<String>,
}

impl Violations {
    pub fn record(&mut self, what: String) {
        if self.list.len() < 100 {
            self.list.push(what);
        }
    }

    pub fn list(&self) -> &[String] {
        &self.list
    }
}
