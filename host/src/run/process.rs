//! QEMU as a child: its console by line, its last words, and no way for it to outlive the run.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Pid, Signal, kill_process};

use super::{Event, ImageReport};
use crate::Failure;

/// Lines that are shown when something went wrong.
const LAST_LINES: usize = 12;
/// Longest line that is kept; a guest may write anything.
const LONGEST_LINE: u64 = 4096;

type Lines = Arc<Mutex<VecDeque<String>>>;

/// A QEMU that runs.
pub struct Process {
    pid: Option<Pid>,
    stdin: Option<ChildStdin>,
    waiter: Option<std::thread::JoinHandle<()>>,
    console: VecDeque<String>,
    errors: Lines,
}

impl Process {
    /// Starts `command`; what it says and that it ends is told to `events`.
    pub fn start(mut command: Command, events: &Sender<Event>) -> Result<Self, Failure> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own: a Ctrl-C at the terminal is ours to handle.
        command.process_group(0);
        crate::child::dies_with_us(&mut command);
        let mut child = command.spawn().map_err(|error| Failure::usage(format!("QEMU: {error}")))?;
        let errors = Lines::default();
        let readers = [
            child.stdout.take().map(|stdout| {
                let events = events.clone();
                std::thread::spawn(move || read_lines(stdout, |line| drop(events.send(Event::Line(line)))))
            }),
            child.stderr.take().map(|stderr| {
                let errors = errors.clone();
                std::thread::spawn(move || {
                    read_lines(stderr, |line| {
                        keep(&mut errors.lock().unwrap_or_else(PoisonError::into_inner), line)
                    });
                })
            }),
        ];
        let (pid, stdin) = (Pid::from_raw(child.id() as i32), child.stdin.take());
        let events = events.clone();
        let waiter = std::thread::spawn(move || wait(child, readers, &events));
        Ok(Self { pid, stdin, waiter: Some(waiter), console: VecDeque::new(), errors })
    }

    /// Writes to the image's console.
    pub fn say(&mut self, text: &str) {
        if let Some(stdin) = &mut self.stdin {
            // A machine that is gone is told by its waiter.
            let _ = stdin.write_all(text.as_bytes()).and_then(|()| stdin.flush());
        }
    }

    /// Keeps a line for when something goes wrong.
    pub fn remember(&mut self, line: String) {
        keep(&mut self.console, line);
    }

    /// `what`, and the last lines of what it said.
    pub fn tell(&self, what: &str) -> String {
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = self.console.iter().chain(errors.iter());
        lines.fold(what.to_owned(), |text, line| text + "\n  | " + line)
    }

    /// What it means that it ended with `status`.
    pub fn ended_with(&self, status: Option<i32>, image: &ImageReport) -> String {
        let what = match status {
            _ if !image.errors.is_empty() => format!("the image: {}", image.errors.join("; ")),
            Some(status) => format!("QEMU ended with status {status}"),
            None => "QEMU was killed".to_owned(),
        };
        self.tell(&what)
    }

    /// Kills it if it still runs, and waits until it is gone.
    pub fn end(&mut self) {
        self.stdin = None;
        if let Some(waiter) = self.waiter.take() {
            if let (false, Some(pid)) = (waiter.is_finished(), self.pid) {
                // The waiter has not reaped it, so the number is still its own.
                let _ = kill_process(pid, Signal::KILL);
            }
            let _ = waiter.join();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

fn wait(mut child: Child, readers: [Option<std::thread::JoinHandle<()>>; 2], events: &Sender<Event>) {
    // Everything that it said comes before the news of its end.
    readers.into_iter().flatten().for_each(|reader| drop(reader.join()));
    let status = child.wait().ok();
    let code = status.and_then(|status| status.code().or(status.signal().map(|signal| 128 + signal)));
    let _ = events.send(Event::Exited(code));
}

fn keep(lines: &mut VecDeque<String>, line: String) {
    if lines.len() == LAST_LINES {
        lines.pop_front();
    }
    lines.push_back(line);
}

/// Hands on each line, without control characters.
fn read_lines(from: impl Read, mut line: impl FnMut(String)) {
    let mut reader = BufReader::new(from);
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        match reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut bytes) {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                let text: String =
                    String::from_utf8_lossy(&bytes).chars().filter(|c| !c.is_control()).collect();
                if !text.is_empty() {
                    line(text);
                }
            }
        }
    }
}
