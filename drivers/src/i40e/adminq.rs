//! The admin queues: commands to the firmware (ATQ) and events from it (ARQ). Datasheet: "Admin Queue".
//!
//! ATQ: the driver writes a descriptor and PF_ATQT; the firmware carries it out, writes the descriptor back and
//! moves PF_ATQH. One command is under way at a time. ARQ: the driver posts buffers up to PF_ARQT; the
//! firmware fills the one at PF_ARQH. Nothing that the firmware writes is used as an index unchecked.

use core::time::Duration;

use hal::{Bar, BarAccess, Clock, DescRing, DmaMemory, Machine, Reg, Rw};

use super::error::{self, AdminFault, Error};
use super::regs::{self, AqLen};

/// Descriptors in each queue.
const ENTRIES: usize = 32;
/// Bytes of a command's or an event's buffer.
pub const BUFFER: usize = 4096;
const DESC_BYTES: usize = 32;
/// The firmware usually answers within microseconds; drivers allow 250 ms.
const LIMIT: Duration = Duration::from_millis(1000);
const PAUSE: Duration = Duration::from_micros(20);
/// How often a command is given to firmware that says that it is busy, and the pause between.
const TRIES: u32 = 5;
const BUSY_PAUSE: Duration = Duration::from_millis(10);
const EAGAIN: u16 = 8;
const EBUSY: u16 = 12;

/// Flags of a descriptor, in bits 15:0 of its first quadword.
mod flags {
    pub const DD: u16 = 1 << 0;
    /// The buffer is larger than 512 bytes.
    pub const LB: u16 = 1 << 9;
    /// The firmware reads the buffer.
    pub const RD: u16 = 1 << 10;
    /// There is a buffer.
    pub const BUF: u16 = 1 << 12;
    /// No interrupt when done.
    pub const SI: u16 = 1 << 13;
}

/// A command.
#[derive(Debug, Clone, Copy)]
pub struct Command {
    /// Name in the datasheet, for errors.
    pub name: &'static str,
    /// Opcode.
    pub opcode: u16,
    /// The 16 bytes of parameters; with a buffer the last 8 are its address, which the queue fills in.
    pub params: [u8; 16],
}

impl Command {
    /// A command without parameters.
    pub const fn new(name: &'static str, opcode: u16) -> Self {
        Self { name, opcode, params: [0; 16] }
    }

    /// With `value`, little-endian, at byte `at` of the parameters.
    pub fn u16(mut self, at: usize, value: u16) -> Self {
        if let Some(bytes) = self.params.get_mut(at..at + 2) {
            bytes.copy_from_slice(&value.to_le_bytes());
        }
        self
    }

    /// With `value`, little-endian, at byte `at` of the parameters.
    pub fn u32(mut self, at: usize, value: u32) -> Self {
        if let Some(bytes) = self.params.get_mut(at..at + 4) {
            bytes.copy_from_slice(&value.to_le_bytes());
        }
        self
    }

    fn failed(&self, fault: AdminFault) -> Error {
        Error::Admin { name: self.name, opcode: self.opcode, fault }
    }
}

/// An answer or an event: 16 bytes of parameters and the length of the buffer's content.
#[derive(Debug, Clone, Copy)]
pub struct Reply {
    /// The 16 bytes of parameters.
    pub params: [u8; 16],
    /// Bytes in the buffer.
    pub len: usize,
}

impl Reply {
    /// Little-endian value at byte `at` of the parameters.
    pub fn u16(&self, at: usize) -> u16 {
        self.params.get(at..at + 2).map_or(0, |bytes| u16::from_le_bytes([bytes[0], bytes[1]]))
    }

    /// Little-endian value at byte `at` of the parameters.
    pub fn u32(&self, at: usize) -> u32 {
        u32::from(self.u16(at)) | u32::from(self.u16(at + 2)) << 16
    }

    /// Byte `at` of the parameters.
    pub fn u8(&self, at: usize) -> u8 {
        self.params.get(at).copied().unwrap_or(0)
    }
}

/// What goes with a command besides its parameters.
pub enum Data<'a> {
    /// Nothing.
    None,
    /// The firmware reads these bytes, and may write them back.
    Write(&'a mut [u8]),
    /// The firmware fills these bytes.
    Read(&'a mut [u8]),
}

/// Registers of one admin queue.
struct Registers {
    bal: Reg<u32, Rw>,
    bah: Reg<u32, Rw>,
    len: Reg<AqLen, Rw>,
    head: Reg<u32, Rw>,
    tail: Reg<u32, Rw>,
}

const ATQ: Registers = Registers {
    bal: regs::PF_ATQBAL,
    bah: regs::PF_ATQBAH,
    len: regs::PF_ATQLEN,
    head: regs::PF_ATQH,
    tail: regs::PF_ATQT,
};
const ARQ: Registers = Registers {
    bal: regs::PF_ARQBAL,
    bah: regs::PF_ARQBAH,
    len: regs::PF_ARQLEN,
    head: regs::PF_ARQH,
    tail: regs::PF_ARQT,
};

/// Both queues of a physical function.
pub struct AdminQueue<M: Machine> {
    machine: M,
    bar: M::Bar,
    commands: DescRing<4>,
    buffer: DmaMemory,
    events: DescRing<4>,
    event_buffers: DmaMemory,
    next_command: usize,
    next_event: usize,
    running: bool,
}

impl<M: Machine> AdminQueue<M> {
    /// Memory for both queues; nothing is started.
    pub fn new(machine: M, bar: M::Bar) -> Result<Self, Error> {
        const STEP: &str = "admin queue memory";
        let ring = |_| machine.dma_alloc(ENTRIES * DESC_BYTES, 4096).map_err(error::memory(STEP));
        let unaligned = Error::Card { step: STEP, what: "alignment", value: 0 };
        let commands = DescRing::new(ring(())?, ENTRIES).ok_or(unaligned)?;
        let events = DescRing::new(ring(())?, ENTRIES).ok_or(unaligned)?;
        let buffer = machine.dma_alloc(BUFFER, 4096).map_err(error::memory(STEP))?;
        let event_buffers = machine.dma_alloc(BUFFER * ENTRIES, 4096).map_err(error::memory(STEP))?;
        Ok(Self {
            machine,
            bar,
            commands,
            buffer,
            events,
            event_buffers,
            next_command: 0,
            next_event: 0,
            running: false,
        })
    }

    /// Starts both queues, after a reset of the function.
    pub fn start(&mut self) -> Result<(), Error> {
        self.commands.fill(0);
        (self.next_command, self.next_event) = (0, 0);
        start_queue(&self.bar, &ATQ, &self.commands, "PF_ATQBAL")?;
        for entry in 0..ENTRIES {
            self.post_event_buffer(entry)?;
        }
        start_queue(&self.bar, &ARQ, &self.events, "PF_ARQBAL")?;
        self.bar.doorbell(ARQ.tail).ring(ENTRIES as u32 - 1);
        self.running = true;
        Ok(())
    }

    /// Commands can be sent: the queue was started, and no command has failed so that it can't be used.
    pub fn is_running(&self) -> bool {
        self.running
    }

    /// The card is about to be reset, or was: no command is sent until the next start.
    pub fn abandon(&mut self) {
        self.running = false;
    }

    /// Stops both queues. The caller has sent Queue Shutdown.
    pub fn stop(&mut self) {
        self.running = false;
        for queue in [&ATQ, &ARQ] {
            self.bar.write(queue.head, 0);
            self.bar.write(queue.tail, 0);
            self.bar.write(queue.len, AqLen::empty());
            self.bar.write(queue.bal, 0);
            self.bar.write(queue.bah, 0);
        }
    }

    /// Carries out `command` with `data` (at most [`BUFFER`] bytes, more is cut); again a few times where the firmware
    /// says that it is busy.
    ///
    /// # Errors
    /// The command's name, opcode and what went wrong. After anything but an answer with a code the queue is
    /// not used again.
    pub fn send(&mut self, command: &Command, mut data: Data<'_>) -> Result<Reply, Error> {
        let mut tries = TRIES;
        loop {
            tries -= 1;
            match self.attempt(command, &mut data) {
                Err(Error::Admin { fault: AdminFault::Code(EAGAIN | EBUSY), .. }) if tries > 0 => {
                    self.machine.clock().delay(BUSY_PAUSE);
                }
                other => return other,
            }
        }
    }

    fn attempt(&mut self, command: &Command, data: &mut Data<'_>) -> Result<Reply, Error> {
        if !self.running {
            return Err(command.failed(AdminFault::NotRunning));
        }
        let at = self.next_command;
        self.post(command, data)?;
        self.next_command = (at + 1) % ENTRIES;
        self.bar.doorbell(ATQ.tail).ring(self.next_command as u32);
        if let Err(fault) = self.wait() {
            self.running = false;
            return Err(command.failed(fault));
        }
        hal::ring::acquire();
        let words = [0, 1, 2, 3].map(|word| self.commands.read(at, word));
        let (done, code) = (words[0] as u16 & flags::DD != 0, (words[0] >> 48) as u16 & 0xff);
        if !done {
            self.running = false;
            return Err(command.failed(AdminFault::NotDone(words[0] as u16)));
        }
        // What a busy firmware was given is to be given again.
        if matches!(code, EAGAIN | EBUSY) {
            return Err(command.failed(AdminFault::Code(code)));
        }
        let reply = reply(words);
        if let Data::Write(bytes) | Data::Read(bytes) = data {
            let len = bytes.len().min(BUFFER);
            self.buffer.copy_out(0, &mut bytes[..len]).map_err(error::layout("admin command"))?;
        }
        if code == 0 { Ok(reply) } else { Err(command.failed(AdminFault::Code(code))) }
    }

    /// The next event, its buffer's content in `data`; `None` when there is none.
    pub fn event(&mut self, data: &mut [u8]) -> Option<(u16, Reply)> {
        if !self.running {
            return None;
        }
        let at = self.next_event;
        let head = self.bar.read(ARQ.head) & 0x3ff;
        if head as usize >= ENTRIES || head as usize == at {
            return None;
        }
        hal::ring::acquire();
        let words = [0, 1, 2, 3].map(|word| self.events.read(at, word));
        let mut reply = reply(words);
        reply.len = reply.len.min(BUFFER).min(data.len());
        data.fill(0);
        self.event_buffers.copy_out(at * BUFFER, &mut data[..reply.len]).ok()?;
        self.post_event_buffer(at).ok()?;
        self.bar.doorbell(ARQ.tail).ring(at as u32);
        self.next_event = (at + 1) % ENTRIES;
        Some(((words[0] >> 16) as u16, reply))
    }

    fn post(&mut self, command: &Command, data: &Data<'_>) -> Result<(), Error> {
        let half = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&command.params[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        let (mut flags, mut len, mut last) = (flags::SI, 0, half(8));
        if let Data::Write(bytes) | Data::Read(bytes) = data {
            len = bytes.len().min(BUFFER);
            flags |= flags::BUF | if len > 512 { flags::LB } else { 0 };
            let addr = self.buffer.addr();
            last = u64::from(addr.high()) | u64::from(addr.low()) << 32;
            self.buffer.fill(0);
        }
        if let Data::Write(bytes) = data {
            flags |= flags::RD;
            self.buffer.copy_in(0, &bytes[..len]).map_err(error::layout("admin command"))?;
        }
        let first = u64::from(flags) | u64::from(command.opcode) << 16 | (len as u64) << 32;
        self.commands.write_all(self.next_command, [first, 0, half(0), last]);
        Ok(())
    }

    /// Waits until the head has reached the tail.
    fn wait(&self) -> Result<(), AdminFault> {
        let mut head = 0;
        let done = self.machine.clock().poll(LIMIT, PAUSE, || {
            head = self.bar.read(ATQ.head);
            // The head is never trusted as an index: it is the one that was waited for, or the command failed.
            if head as usize >= ENTRIES {
                return Some(Err(AdminFault::Head(head)));
            }
            (head as usize == self.next_command).then_some(Ok(()))
        });
        done.unwrap_or_else(|timeout| {
            let len = self.bar.read(ATQ.len);
            if len.contains(AqLen::CRIT) {
                return Err(AdminFault::Critical(len.bits()));
            }
            Err(AdminFault::Timeout { head, millis: timeout.limit.as_millis() as u32 })
        })
    }

    fn post_event_buffer(&self, entry: usize) -> Result<(), Error> {
        let addr = self.event_buffers.addr_at(entry * BUFFER).map_err(error::layout("event buffer"))?;
        let first = u64::from(flags::BUF | flags::LB) | (BUFFER as u64) << 32;
        let last = u64::from(addr.high()) | u64::from(addr.low()) << 32;
        self.events.write_all(entry, [first, 0, 0, last]);
        Ok(())
    }
}

fn reply(words: [u64; 4]) -> Reply {
    let mut params = [0; 16];
    params[..8].copy_from_slice(&words[2].to_le_bytes());
    params[8..].copy_from_slice(&words[3].to_le_bytes());
    Reply { params, len: (words[0] >> 32) as u16 as usize }
}

fn start_queue<B: Bar>(
    bar: &B,
    queue: &Registers,
    ring: &DescRing<4>,
    register: &'static str,
) -> Result<(), Error> {
    bar.write(queue.head, 0);
    bar.write(queue.tail, 0);
    bar.write(queue.len, AqLen::from_bits_retain(ENTRIES as u32) | AqLen::ENABLE);
    bar.write(queue.bal, ring.addr().low());
    bar.write(queue.bah, ring.addr().high());
    // A function that is held in reset takes no writes.
    let value = bar.read(queue.bal);
    if value == ring.addr().low() {
        Ok(())
    } else {
        Err(Error::Card { step: "start of the admin queue", what: register, value: u64::from(value) })
    }
}
