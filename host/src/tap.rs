//! A TAP interface of the host as a port's wire: its kernel is at the other end.
//!
//! A thread reads the interface, since the model waits for its own sockets only. It holds a bounded number of frames;
//! while they wait for descriptors the kernel's own queue fills up, and what that drops it counts at the interface.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use model::Wire;
use rustix::io::Errno;
use tun_rs::{DeviceBuilder, InterruptEvent, Layer, SyncDevice};

use crate::Failure;

/// Frames that wait between the interface and the card.
const WAITING: usize = 1024;
/// Longer than any frame of an interface whose MTU has 16 bits.
const LONGEST: usize = 65_536 + 18;
/// What a MAC pads to, without FCS.
const SHORTEST: usize = 60;

/// What went through an interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TapAccount {
    /// Frames that the kernel took from the card.
    pub to_host: u64,
    /// Frames from it that the card was given; some may still wait.
    pub from_host: u64,
    /// Frames from the card that it did not take, as it does not while the interface is down.
    pub refused: u64,
    /// Why the last one was refused, or the interface can't be read any more.
    pub why: Option<String>,
}

struct Shared {
    name: String,
    device: SyncDevice,
    stop: InterruptEvent,
    to_host: AtomicU64,
    from_host: AtomicU64,
    refused: AtomicU64,
    why: Mutex<Option<String>>,
}

/// An interface, as long as it is the wire of a port.
pub struct Tap {
    shared: Arc<Shared>,
    sender: Option<SyncSender<Vec<u8>>>,
}

/// The card's end.
pub struct TapWire {
    shared: Arc<Shared>,
    frames: Receiver<Vec<u8>>,
    current: Vec<u8>,
}

impl Tap {
    /// Attaches to the interface `name`, or makes it and switches it on. One that was there keeps its state, and stays
    /// if it is persistent; one that was made goes with the process.
    ///
    /// # Errors
    /// The interface can't be had, in one line.
    pub fn open(name: &str) -> Result<(Self, TapWire), Failure> {
        let failed = |error: io::Error| Failure::usage(format!("wire=tap:{name}: {}", reason(&error)));
        std::fs::metadata("/dev/net/tun")
            .map_err(|error| Failure::usage(format!("wire=tap:{name}: /dev/net/tun: {error}")))?;
        let is_new = !Path::new("/sys/class/net").join(name).exists();
        let builder = DeviceBuilder::new().name(name).layer(Layer::L2).inherit_enable_state();
        let device = builder.build_sync().map_err(failed)?;
        device.set_nonblocking(true).map_err(failed)?;
        if is_new {
            device.enabled(true).map_err(failed)?;
        }
        let shared = Arc::new(Shared {
            name: name.to_owned(),
            device,
            stop: InterruptEvent::new().map_err(failed)?,
            to_host: AtomicU64::default(),
            from_host: AtomicU64::default(),
            refused: AtomicU64::default(),
            why: Mutex::default(),
        });
        let (sender, frames) = sync_channel(WAITING);
        let wire = TapWire { shared: shared.clone(), frames, current: Vec::new() };
        Ok((Self { shared, sender: Some(sender) }, wire))
    }

    /// Begins to read; `kick` lets the card ask its wire for frames.
    pub fn start(&mut self, kick: impl Fn() + Send + 'static) {
        let shared = self.shared.clone();
        if let Some(sender) = self.sender.take() {
            thread::spawn(move || shared.read(&sender, &kick));
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// What went through it.
    pub fn account(&self) -> TapAccount {
        let shared = &self.shared;
        TapAccount {
            to_host: shared.to_host.load(Ordering::Relaxed),
            from_host: shared.from_host.load(Ordering::Relaxed),
            refused: shared.refused.load(Ordering::Relaxed),
            why: shared.why.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        // The reader ends by itself, at the latest when the card's end is gone.
        let _ = self.shared.stop.trigger();
    }
}

impl Shared {
    fn read(&self, sender: &SyncSender<Vec<u8>>, kick: &dyn Fn()) {
        let mut buffer = vec![0; LONGEST];
        loop {
            match self.device.recv_intr(&mut buffer, &self.stop) {
                Ok(len) => {
                    let mut frame = buffer[..len].to_vec();
                    frame.resize(len.max(SHORTEST), 0);
                    if sender.send(frame).is_err() {
                        return;
                    }
                    kick();
                }
                // Asked to stop; a signal does not end the wait.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return,
                Err(error) => {
                    eprintln!("barewire: tap {}: reading: {error}", self.name);
                    return self.tell(&error);
                }
            }
        }
    }

    fn tell(&self, error: &io::Error) {
        *self.why.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
    }
}

impl Wire for TapWire {
    fn transmit(&mut self, frame: &[u8]) {
        match self.shared.device.send(frame) {
            Ok(_) => _ = self.shared.to_host.fetch_add(1, Ordering::Relaxed),
            Err(error) => {
                self.shared.refused.fetch_add(1, Ordering::Relaxed);
                self.shared.tell(&error);
            }
        }
    }

    fn receive(&mut self) -> Option<&[u8]> {
        self.current = self.frames.try_recv().ok()?;
        self.shared.from_host.fetch_add(1, Ordering::Relaxed);
        Some(&self.current)
    }
}

/// What the kernel's answer means here.
fn reason(error: &io::Error) -> String {
    let meaning = match Errno::from_io_error(error) {
        Some(Errno::ACCESS) => return format!("/dev/net/tun: {error}"),
        Some(Errno::PERM) => {
            "needs CAP_NET_ADMIN, or a tap interface that belongs to this user (ip tuntap add NAME mode tap user USER)"
        }
        Some(Errno::BUSY) => "another process uses it",
        Some(Errno::INVAL) => "an interface of that name is no tap of one queue",
        _ => return error.to_string(),
    };
    format!("{error}: {meaning}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_of_the_kernel_are_explained() {
        for (errno, text) in [
            (Errno::PERM, "Operation not permitted (os error 1): needs CAP_NET_ADMIN"),
            (Errno::BUSY, "another process uses it"),
            (Errno::NODEV, "No such device"),
        ] {
            let said = reason(&errno.into());
            assert!(said.contains(text) && !said.contains('\n'), "{said}");
        }
    }
}
