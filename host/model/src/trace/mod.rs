//! What a driver does to the card, as lines of text: register accesses, admin commands, events, resets.
//!
//! A card without a trace pays one test of an `Option` an access.

mod names;

use std::io::{self, BufWriter, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::adminq::FLAG_BUF;
use crate::stats::Lost;

/// Where the lines of all ports go, in the order in which things happen.
#[derive(Clone)]
pub struct TraceLog(Arc<Mutex<Sink>>);

struct Sink {
    out: BufWriter<Box<dyn Write + Send>>,
    started: Instant,
    failed: Option<io::Error>,
}

impl TraceLog {
    /// Lines go to `out`; their times are seconds from now on.
    pub fn new(out: impl Write + Send + 'static) -> Self {
        let out = BufWriter::new(Box::new(out) as Box<dyn Write + Send>);
        Self(Arc::new(Mutex::new(Sink { out, started: Instant::now(), failed: None })))
    }

    /// Writes out what is held back.
    ///
    /// # Errors
    /// The first line that could not be written; nothing was written after it.
    pub fn finish(&self) -> io::Result<()> {
        let mut sink = self.sink();
        sink.flush();
        sink.failed.take().map_or(Ok(()), Err)
    }

    fn sink(&self) -> MutexGuard<'_, Sink> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink {
    fn line(&mut self, port: &str, what: std::fmt::Arguments<'_>) {
        if self.failed.is_none() {
            let seconds = self.started.elapsed().as_secs_f64();
            self.failed = writeln!(self.out, "{seconds:12.6} {port} {what}").err();
        }
    }

    fn flush(&mut self) {
        if self.failed.is_none() {
            self.failed = self.out.flush().err();
        }
    }
}

/// A read and what it gave.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Read {
    offset: u64,
    len: usize,
    value: u64,
}

/// The trace of one port.
pub struct Trace {
    log: TraceLog,
    port: String,
    /// The read that was told last, and how often it came again since.
    last: Option<(Read, u64)>,
}

impl Trace {
    pub fn new(log: TraceLog, port: String) -> Self {
        Self { log, port, last: None }
    }

    /// A register was read. The same read with the same value is told once, and then how often it came again.
    pub fn read(&mut self, offset: u64, data: &[u8]) {
        let read = Read { offset, len: data.len(), value: number(data) };
        if let Some((last, again)) = &mut self.last
            && *last == read
        {
            *again += 1;
            return;
        }
        self.settle();
        self.last = Some((read, 0));
        self.put(format_args!("read  {}", told(&read)));
    }

    /// A register is written.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let write = Read { offset, len: data.len(), value: number(data) };
        self.line(format_args!("write {}", told(&write)));
    }

    /// An admin command was carried out: its descriptor before and after, `None` where it was not completed.
    pub fn command(&mut self, asked: &[u8; 32], answer: Option<&[u8; 32]>) {
        let word = |desc: &[u8; 32], at: usize| u16::from_le_bytes([desc[at], desc[at + 1]]);
        let opcode = word(asked, 2);
        let buffer = if word(asked, 0) & FLAG_BUF != 0 { word(asked, 4) } else { 0 };
        let name = names::command(opcode);
        match answer {
            Some(answer) => {
                let code = word(answer, 6);
                let code_name = names::code(code);
                self.line(format_args!("admin {opcode:#06x} {name}: {code} {code_name}, buffer {buffer}"));
            }
            None => self.line(format_args!("admin {opcode:#06x} {name}: not completed, buffer {buffer}")),
        }
    }

    /// An event for the driver; `posted`: there was room for it.
    pub fn event(&mut self, opcode: u16, posted: bool) {
        let name = names::command(opcode);
        let fate = if posted { "posted" } else { "no room for it" };
        self.line(format_args!("event {opcode:#06x} {name}: {fate}"));
    }

    /// A frame from the wire did not reach the driver: why, its length, and its first 16 bytes, in which the addresses
    /// and a tag are.
    pub fn lost(&mut self, why: Lost, frame: &[u8]) {
        let head: String = frame.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        self.line(format_args!("lost  {why:?}, {} bytes, {head}", frame.len()));
    }

    /// Something else that happened to the card.
    pub fn note(&mut self, what: &str) {
        self.line(format_args!("{what}"));
    }

    /// Hands lines on to whoever reads the log while the card is served.
    pub fn flush(&self) {
        self.log.sink().flush();
    }

    fn line(&mut self, what: std::fmt::Arguments<'_>) {
        self.settle();
        self.put(what);
    }

    fn put(&self, what: std::fmt::Arguments<'_>) {
        self.log.sink().line(&self.port, what);
    }

    /// Tells of repeated reads before anything else is told.
    fn settle(&mut self) {
        if let Some((read, again)) = self.last.take()
            && again > 0
        {
            self.put(format_args!("read  {}, {again} times more", told(&read)));
        }
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        self.settle();
    }
}

/// The first 8 bytes as a little-endian number.
fn number(data: &[u8]) -> u64 {
    data.iter().take(8).rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn told(read: &Read) -> String {
    let width = 2 + 2 * read.len;
    format!("{} {:#0width$x}", names::register(read.offset as u32), read.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that a test can look at while the log holds them.
    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Lines without their times.
    fn lines(run: impl FnOnce(&mut Trace)) -> Vec<String> {
        let shared = Shared::default();
        let log = TraceLog::new(shared.clone());
        let mut trace = Trace::new(log.clone(), "port0".into());
        run(&mut trace);
        drop(trace);
        log.finish().unwrap();
        let bytes = shared.0.lock().unwrap().clone();
        let text = String::from_utf8(bytes).unwrap();
        text.lines().map(|line| line.trim_start().split_once(' ').unwrap().1.to_owned()).collect()
    }

    #[test]
    fn repeated_reads_are_told_once_and_counted() {
        let said = lines(|trace| {
            trace.read(0x0b_8188, &[0; 4]);
            trace.read(0x0b_8188, &[0; 4]);
            trace.read(0x0b_8188, &[0; 4]);
            trace.read(0x0b_8188, &[1, 0, 0, 0]);
            trace.write(0x10_8000 + 4 * 5, &[0x20, 0, 0, 0]);
            trace.read(0x30_0000, &[1, 2, 3, 4, 5, 6, 0, 0]);
            trace.read(0x30_0000, &[1, 2, 3, 4, 5, 6, 0, 0]);
        });
        let want = [
            "port0 read  GLGEN_RSTAT 0x00000000",
            "port0 read  GLGEN_RSTAT 0x00000000, 2 times more",
            "port0 read  GLGEN_RSTAT 0x00000001",
            "port0 write QTX_TAIL[5] 0x00000020",
            "port0 read  GLPRT_GORCL[0] 0x0000060504030201",
            "port0 read  GLPRT_GORCL[0] 0x0000060504030201, 1 times more",
        ];
        assert_eq!(said, want);
    }

    #[test]
    fn commands_and_events_bear_their_names() {
        let mut asked = [0; 32];
        asked[..6].copy_from_slice(&[0, 0x14, 0x11, 0x02, 128, 0]);
        let mut answer = asked;
        answer[6] = 2;
        let said = lines(|trace| {
            trace.command(&asked, Some(&answer));
            trace.command(&asked, None);
            trace.event(0x0607, true);
            trace.lost(Lost::Filtered, &[1; 60]);
            trace.note("reset");
        });
        let want = [
            "port0 admin 0x0211 Update VSI Parameters: 2 ENOENT, buffer 128",
            "port0 admin 0x0211 Update VSI Parameters: not completed, buffer 128",
            "port0 event 0x0607 Get Link Status: posted",
            "port0 lost  Filtered, 60 bytes, 01010101010101010101010101010101",
            "port0 reset",
        ];
        assert_eq!(said, want);
    }

    #[test]
    fn a_full_disk_is_told_at_the_end() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let log = TraceLog::new(Full);
        let mut trace = Trace::new(log.clone(), "port0".into());
        trace.note("reset");
        trace.flush();
        trace.note("reset");
        assert_eq!(log.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
