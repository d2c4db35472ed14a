//! A guest in QEMU: what it says, how it ends, and a bound on how long it may take.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use libtest_mimic::Failed;

/// How long any guest of a test may take: a bound for a machine that hangs, far above what one needs.
const LIMIT: Duration = Duration::from_secs(300);

/// A guest that runs.
pub struct Guest {
    child: Child,
    lines: Receiver<String>,
    said: String,
    until: Instant,
}

impl Guest {
    /// Starts it.
    ///
    /// # Errors
    /// QEMU does not start.
    pub fn start(mut command: Command) -> Result<Self, Failed> {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn()?;
        let (sender, lines) = channel();
        let stdout = child.stdout.take().ok_or("QEMU has no standard output")?;
        std::thread::spawn(move || {
            let mut reader = BufReader::new(stdout);
            let mut bytes = Vec::new();
            while reader.read_until(b'\n', &mut bytes).is_ok_and(|count| count > 0) {
                let _ = sender.send(String::from_utf8_lossy(&bytes).trim_end().to_owned());
                bytes.clear();
            }
        });
        Ok(Self { child, lines, said: String::new(), until: Instant::now() + LIMIT })
    }

    /// Waits for a line that contains `text`; returns it.
    ///
    /// # Errors
    /// The guest ended or hung before; everything that it said is in the message.
    pub fn wait_for(&mut self, text: &str) -> Result<String, Failed> {
        loop {
            let left = self.until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    self.said += &line;
                    self.said.push('\n');
                    if line.contains(text) {
                        return Ok(line);
                    }
                }
                Err(_) => return Err(format!("no line with {text:?} in:\n{}", self.said).into()),
            }
        }
    }

    /// Everything that it has said so far.
    pub fn said(&self) -> &str {
        &self.said
    }

    /// Writes to its console.
    ///
    /// # Errors
    /// It is gone.
    pub fn say(&mut self, text: &str) -> Result<(), Failed> {
        self.child.stdin.as_mut().ok_or("the console is closed")?.write_all(text.as_bytes())?;
        Ok(())
    }

    /// It has not ended.
    ///
    /// # Errors
    /// The system does not say.
    pub fn is_running(&mut self) -> Result<bool, Failed> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Waits for its end; returns the exit status and everything that it said.
    ///
    /// # Errors
    /// It hung.
    pub fn end(mut self) -> Result<(Option<i32>, String), Failed> {
        while let Ok(line) = self.lines.recv_timeout(self.until.saturating_duration_since(Instant::now())) {
            self.said += &line;
            self.said.push('\n');
        }
        // Its output has ended, or the time is up.
        if Instant::now() >= self.until {
            return Err(format!("the guest hung after:\n{}", self.said).into());
        }
        Ok((self.child.wait()?.code(), std::mem::take(&mut self.said)))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
