//! Programs that are run for their output, and end at once when the process is asked to stop.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, set_parent_process_death_signal};

use crate::signals;

/// Makes the program die with the thread that starts it, however that ends.
pub fn dies_with_us(command: &mut Command) {
    // SAFETY: between fork and exec only this one system call is made.
    unsafe {
        command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?));
    }
}

/// How long a stop may go unnoticed.
const PAUSE: Duration = Duration::from_millis(5);

/// Runs a program to its end, without input, in a process group of its own, so that a Ctrl-C at the terminal is ours
/// to handle.
///
/// # Errors
/// It can't be run; [`io::ErrorKind::Interrupted`] when the process was asked to stop, and then it is dead.
pub fn output(command: &mut Command) -> io::Result<Output> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    dies_with_us(command);
    let mut child = command.spawn()?;
    let readers = (read_all(child.stdout.take()), read_all(child.stderr.take()));
    let status = loop {
        match child.try_wait()? {
            Some(status) => break Some(status),
            None if signals::stop_asked() => {
                if let Some(group) = Pid::from_raw(child.id() as i32) {
                    let _ = kill_process_group(group, Signal::KILL);
                }
                child.wait()?;
                break None;
            }
            None => std::thread::sleep(PAUSE),
        }
    };
    let status = status.ok_or(io::ErrorKind::Interrupted)?;
    let read = |reader: std::thread::JoinHandle<Vec<u8>>| reader.join().unwrap_or_default();
    Ok(Output { status, stdout: read(readers.0), stderr: read(readers.1) })
}

fn read_all(from: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is still worth showing.
        let _ = from.map(|mut from| from.read_to_end(&mut bytes));
        bytes
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_and_status_are_those_of_the_program() {
        let output = output(Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"])).unwrap();
        assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"out\n"[..], &b"err\n"[..]));
        assert_eq!(output.status.code(), Some(3));
        assert!(super::output(&mut Command::new("/nonexistent")).is_err());
    }
}
