//! The control queues of a console with several ports (5.3.6.2).

use hal::{DmaMemory, Machine, NarrowBar};

use super::console_buffers::Slots;
use super::queue::Queue;
use super::{Error, error};

/// id, event, value.
const HEAD: usize = 8;
/// A head and a name; of a longer name, the beginning.
const MESSAGE: usize = 128;

/// Events.
mod event {
    pub const DEVICE_READY: u16 = 0;
    pub const PORT_ADD: u16 = 1;
    pub const PORT_REMOVE: u16 = 2;
    pub const PORT_READY: u16 = 3;
    pub const PORT_OPEN: u16 = 6;
    pub const PORT_NAME: u16 = 7;
}

/// What the device tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// There is another port; it has been answered.
    Added,
    /// This port is gone.
    Removed(u32),
    /// This port has the name that was asked for.
    Named(u32),
    /// Somebody on the host has opened or closed this port.
    Open(u32, bool),
    /// Something else.
    Other,
}

/// Descriptors of each: the host throws away what it can't tell, and tells of all its ports, 31 in QEMU, at once.
pub(super) const QUEUE: u16 = 64;

/// Both queues.
pub(super) struct Control<B> {
    rx: Queue<B>,
    tx: Queue<B>,
    heard: Slots,
    said: Slots,
    /// Openings of ports, which may be told before the port's name.
    early: heapless::Deque<Event, 16>,
    named: bool,
}

impl<B: NarrowBar> Control<B> {
    pub fn new<M: Machine<Bar = B>>(machine: &M, rx: Queue<B>, tx: Queue<B>) -> Result<Self, Error> {
        let heard = Slots::new(machine, rx.size(), MESSAGE)?;
        let said = Slots::new(machine, tx.size(), HEAD)?;
        Ok(Self { rx, tx, heard, said, early: heapless::Deque::new(), named: false })
    }

    /// Lets the device tell of its ports. It runs already.
    pub fn start(&mut self) {
        while let Some(slot) = self.heard.take() {
            if self.heard.lend(&mut self.rx, slot, MESSAGE, true).is_none() {
                break;
            }
        }
        self.rx.publish();
        self.say(0, event::DEVICE_READY, 1);
    }

    /// Says that this side has opened or closed a port.
    pub fn open(&mut self, port: u32, open: bool) {
        self.say(port, event::PORT_OPEN, open.into());
    }

    /// What the device tells next. Nothing is heard while there is no room for an answer.
    pub fn next(&mut self, name: &str) -> Result<Option<Event>, Error> {
        if self.named
            && let Some(event) = self.early.pop_front()
        {
            return Ok(Some(event));
        }
        while let Some(used) = self.tx.take()? {
            self.said.free(used.chain);
        }
        if self.tx.room() == 0 {
            return Ok(None);
        }
        let Some(used) = self.rx.take()? else { return Ok(None) };
        let mut bytes = [0; MESSAGE];
        let len = (used.len as usize).min(MESSAGE);
        if let Some(slot) = self.heard.back(used.chain) {
            let message = self.heard.memory(slot);
            message.copy_out(0, &mut bytes).map_err(error::layout("hearing of ports"))?;
            self.heard.lend(&mut self.rx, slot, MESSAGE, true);
        }
        self.rx.publish();
        let event = self.answer(&bytes[..len], name)?;
        // Whoever waits for a name does not look at openings.
        if !self.named && matches!(event, Event::Open(..)) {
            let _ = self.early.push_back(event);
        }
        self.named |= matches!(event, Event::Named(_));
        Ok(Some(event))
    }

    fn answer(&mut self, message: &[u8], name: &str) -> Result<Event, Error> {
        let short =
            Error::Device { step: "hearing of ports", what: "message length", value: message.len() as u64 };
        let (head, rest) = message.split_first_chunk::<HEAD>().ok_or(short)?;
        let [i0, i1, i2, i3, e0, e1, v0, v1] = *head;
        let (port, value) = (u32::from_le_bytes([i0, i1, i2, i3]), u16::from_le_bytes([v0, v1]));
        Ok(match u16::from_le_bytes([e0, e1]) {
            event::PORT_ADD => {
                self.say(port, event::PORT_READY, 1);
                Event::Added
            }
            event::PORT_REMOVE => Event::Removed(port),
            event::PORT_OPEN => Event::Open(port, value != 0),
            event::PORT_NAME => {
                let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
                if !name.is_empty() && &rest[..end] == name.as_bytes() {
                    Event::Named(port)
                } else {
                    Event::Other
                }
            }
            _ => Event::Other,
        })
    }

    fn say(&mut self, port: u32, event: u16, value: u16) {
        let Some(slot) = self.said.take() else { return };
        let mut message = [0; HEAD];
        message[..4].copy_from_slice(&port.to_le_bytes());
        message[4..6].copy_from_slice(&event.to_le_bytes());
        message[6..].copy_from_slice(&value.to_le_bytes());
        let memory: &DmaMemory = self.said.memory(slot);
        // A slot is as long as a message.
        let _ = memory.copy_in(0, &message);
        self.said.lend(&mut self.tx, slot, HEAD, false);
        self.tx.publish();
    }
}
