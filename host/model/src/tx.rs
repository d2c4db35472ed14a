//! Transmit queues: from descriptors to frames. Datasheet: "LAN Transmit".

use crate::dma::{DmaFault, GuestMemory};
use crate::faults::{Direction, Marks};
use crate::flow_director::Program;
use crate::hmc::field;
use crate::offload::{self, Offloads};

/// Bytes of a transmit context.
pub const CONTEXT: usize = 128;
const MAX_FRAME: usize = 9728;
const MIN_FRAME: usize = 17;
const MAX_BUFFERS: u32 = 8;
/// Bytes of one send with segmentation.
const MAX_SEGMENTED: usize = 262_144;
const DESC: u64 = 16;
/// Bytes of a frame that a filter may be made from.
const HEADERS: usize = 512;
/// Descriptors worked off in one go, so that one queue does not keep the card from everything else.
const BUDGET: usize = 1024;

const TYPE_DATA: u64 = 0;
const TYPE_CONTEXT: u64 = 1;
const TYPE_FILTER: u64 = 8;
const EOP: u64 = 1 << 4;
const RS: u64 = 1 << 5;

/// A transmit queue that runs.
pub struct TxQueue {
    base: u64,
    len: u32,
    head: u32,
    /// Where the head is written to instead of into descriptors.
    head_write_back: Option<u64>,
    frame: Vec<u8>,
    buffers: u32,
    context: Option<(u64, u64)>,
    /// Frames may be stamped.
    stamps: bool,
    /// The flow director may be programmed from here.
    programs: bool,
    program: Option<Program>,
    /// A buffer of the frame could not be read: the frame is not sent.
    unreadable: bool,
    /// Stopped by the card after an illegal request, until it is enabled again.
    stopped: bool,
}

/// What became of a run over the ring.
#[derive(Debug, Default)]
pub struct TxRun {
    /// Something was completed.
    pub progress: bool,
    /// The budget ran out before the ring.
    pub unfinished: bool,
    /// Flow director filters to program, each with its frame.
    pub programs: Vec<(Program, Vec<u8>)>,
    /// A frame was sent that is to be stamped.
    pub stamp: bool,
    /// Frames that were made by segmentation.
    pub segments: u64,
    /// What the driver did wrong.
    pub violation: Option<String>,
    /// The ring or a buffer could not be reached.
    pub fault: Option<DmaFault>,
}

impl TxQueue {
    /// The queue of a context; `None` for one that makes no sense.
    pub fn new(context: &[u8; CONTEXT]) -> Option<Self> {
        let len = field(context, 161, 13) as u32;
        let head_write_back = (field(context, 160, 1) != 0).then(|| field(context, 192, 64));
        if !(8..=8160).contains(&len) {
            return None;
        }
        Some(Self {
            base: field(context, 32, 57) << 7,
            len,
            head: field(context, 0, 13) as u32 % len,
            head_write_back,
            frame: Vec::new(),
            buffers: 0,
            context: None,
            stamps: field(context, 90, 1) != 0,
            programs: field(context, 91, 1) != 0,
            program: None,
            unreadable: false,
            stopped: false,
        })
    }

    /// The next descriptor that is looked at.
    pub fn head(&self) -> u32 {
        self.head
    }

    /// Works off everything before `tail`; each frame goes to `out`.
    pub fn run(
        &mut self,
        memory: &GuestMemory,
        tail: u32,
        marks: &mut Marks,
        out: &mut dyn FnMut(&[u8]),
    ) -> TxRun {
        let mut run = TxRun::default();
        if self.stopped {
            return run;
        }
        if tail >= self.len {
            self.stop(&mut run, format!("tail {tail} of a ring of {}", self.len));
            return run;
        }
        for _ in 0..BUDGET {
            if self.head == tail || self.stopped {
                break;
            }
            let addr = self.base.wrapping_add(u64::from(self.head) * DESC);
            let mut words = [0; 16];
            if let Err(fault) = memory.read(addr, &mut words) {
                run.fault = Some(fault);
                break;
            }
            let word = |at: usize| u64::from_le_bytes(words[at..at + 8].try_into().unwrap_or_default());
            self.descriptor(memory, word(0), word(8), &mut run, out);
            self.head = (self.head + 1) % self.len;
            run.progress = true;
            let report = word(8) & RS != 0 && word(8) & 0xf != TYPE_FILTER;
            if report && self.head_write_back.is_none() && !self.stopped {
                let (at, done) = (addr.wrapping_add(8), word(8) | 0xf);
                let written = match marks.idle(Direction::Tx) {
                    true => memory.publish_u64(at, done),
                    false => marks.transmit(memory, at, done),
                };
                run.fault = written.err().or(run.fault);
            }
        }
        run.unfinished = self.head != tail && !self.stopped && run.fault.is_none();
        if let (true, Some(addr)) = (run.progress, self.head_write_back) {
            run.fault = memory.publish_u32(addr, self.head).err().or(run.fault);
        }
        run
    }

    /// Descriptors from `from` up to `tail`: where they are, and their quadwords.
    fn descriptors<'a>(
        &'a self,
        memory: &'a GuestMemory,
        from: u32,
        tail: u32,
    ) -> impl Iterator<Item = (u64, u64, u64)> + 'a {
        let count = (tail + self.len - from % self.len) % self.len;
        (0..if tail < self.len { count } else { 0 }).map_while(move |index| {
            let at = (from + index) % self.len;
            let addr = self.base.wrapping_add(u64::from(at) * DESC);
            let mut words = [0; 16];
            memory.read(addr, &mut words).ok()?;
            let word = |at: usize| u64::from_le_bytes(words[at..at + 8].try_into().unwrap_or_default());
            Some((addr, word(0), word(8)))
        })
    }

    /// Descriptors from `from` up to `tail`, and the buffers of those with data: addresses and bytes.
    pub fn pieces(&self, memory: &GuestMemory, from: u32, tail: u32) -> Vec<(u64, usize)> {
        let mut pieces = Vec::new();
        for (addr, first, second) in self.descriptors(memory, from, tail) {
            pieces.push((addr, DESC as usize));
            if second & 0xf == TYPE_DATA {
                pieces.push((first, (second >> 34 & 0x3fff) as usize));
            }
        }
        pieces
    }

    /// The second quadwords, with their addresses, of those that ask for a mark.
    pub fn reports(&self, memory: &GuestMemory, from: u32, tail: u32) -> Vec<(u64, u64)> {
        let all = self.descriptors(memory, from, tail);
        let asking = all.filter(|(_, _, second)| second & RS != 0 && second & 0xf == TYPE_DATA);
        asking.map(|(addr, _, second)| (addr.wrapping_add(8), second)).collect()
    }

    fn stop(&mut self, run: &mut TxRun, what: String) {
        self.stopped = true;
        run.violation = Some(format!("transmit: {what}"));
    }

    fn descriptor(
        &mut self,
        memory: &GuestMemory,
        first: u64,
        second: u64,
        run: &mut TxRun,
        out: &mut dyn FnMut(&[u8]),
    ) {
        match second & 0xf {
            TYPE_DATA => self.data(memory, first, second, run, out),
            TYPE_CONTEXT if self.buffers == 0 => self.context = Some((first, second)),
            TYPE_CONTEXT => self.stop(run, "context descriptor inside of a frame".into()),
            TYPE_FILTER if self.programs => self.program = Some(Program(first, second)),
            TYPE_FILTER => {}
            kind => self.stop(run, format!("descriptor of type {kind:#x}")),
        }
    }

    fn data(
        &mut self,
        memory: &GuestMemory,
        addr: u64,
        word: u64,
        run: &mut TxRun,
        out: &mut dyn FnMut(&[u8]),
    ) {
        let size = (word >> 34 & 0x3fff) as usize;
        let mss = self.mss();
        self.buffers += 1;
        let limit = if mss.is_some() { MAX_SEGMENTED } else { MAX_FRAME };
        if size == 0 {
            return self.stop(run, "buffer of 0 bytes".into());
        }
        if mss.is_none() && self.buffers > MAX_BUFFERS {
            return self.stop(run, format!("frame in more than {MAX_BUFFERS} buffers"));
        }
        let start = self.frame.len();
        if start + size > limit {
            return self.stop(run, format!("frame of more than {limit} bytes"));
        }
        self.frame.resize(start + size, 0);
        if let Err(fault) = memory.read(addr, &mut self.frame[start..]) {
            run.fault = Some(fault);
            self.unreadable = true;
        }
        if word & EOP != 0 {
            self.finish(word, mss, run, out);
        }
    }

    fn mss(&self) -> Option<u16> {
        const TSO: u64 = 1 << 4;
        let (_, word) = self.context?;
        (word & TSO != 0).then_some((word >> 50 & 0x3fff) as u16)
    }

    /// The frame asks for its time, on a queue whose context lets it.
    fn asks_for_time(&self) -> bool {
        const TSYN: u64 = 2 << 4;
        self.stamps && self.context.is_some_and(|(_, word)| word & TSYN != 0)
    }

    fn outer_vlan(&self) -> Option<u16> {
        const INSERT_TAG_2: u64 = 4 << 4;
        let (first, second) = self.context?;
        (second & INSERT_TAG_2 != 0).then_some((first >> 32) as u16)
    }

    fn finish(&mut self, word: u64, mss: Option<u16>, run: &mut TxRun, out: &mut dyn FnMut(&[u8])) {
        const INSERT_TAG: u64 = 1 << 3;
        /// The frame only programs a filter.
        const DUMMY: u64 = 1 << 4;
        let command = word >> 4 & 0x3ff;
        let offloads = Offloads {
            command: command as u32,
            offset: (word >> 16 & 0x3_ffff) as u32,
            vlan: (command & INSERT_TAG != 0).then_some((word >> 48) as u16),
            outer_vlan: self.outer_vlan(),
            mss,
        };
        let stamp = self.asks_for_time();
        let mut frame = std::mem::take(&mut self.frame);
        let mut count = 0;
        let mut out = |frame: &[u8]| {
            count += 1;
            pad(frame, out);
        };
        (self.buffers, self.context) = (0, None);
        let unreadable = std::mem::replace(&mut self.unreadable, false);
        if let Some(program) = self.program.take().filter(|_| !unreadable) {
            run.programs.push((program, frame[..frame.len().min(HEADERS)].to_vec()));
        }
        if unreadable {
            self.stop(run, "buffer that can't be read".into());
        } else if frame.len() < MIN_FRAME {
            self.stop(run, format!("frame of {} bytes", frame.len()));
        } else if command & DUMMY != 0 {
            // Nothing of it leaves the card.
        } else if let Err(what) = offload::apply(&mut frame, &offloads, &mut out) {
            self.stop(run, what.into());
        }
        run.stamp |= stamp && count > 0;
        run.segments += if mss.is_some() { count } else { 0 };
        frame.clear();
        self.frame = frame;
    }
}

/// The MAC pads to 60 bytes.
fn pad(frame: &[u8], out: &mut dyn FnMut(&[u8])) {
    if frame.len() >= 60 {
        return out(frame);
    }
    let mut padded = [0; 60];
    padded[..frame.len()].copy_from_slice(frame);
    out(&padded);
}
