//! Being asked to stop.

use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::Failure;

static ASKED: AtomicBool = AtomicBool::new(false);

/// The process has been asked to stop.
pub fn stop_asked() -> bool {
    ASKED.load(Ordering::Acquire)
}

/// Calls `stop` whenever the process is asked to stop, from a thread of its own.
///
/// # Errors
/// The system does not let signals be caught.
pub fn on_stop(mut stop: impl FnMut() + Send + 'static) -> Result<(), Failure> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT])
        .map_err(|error| Failure::run(format!("catching signals: {error}")))?;
    std::thread::spawn(move || {
        for _ in signals.forever() {
            ASKED.store(true, Ordering::Release);
            stop();
        }
    });
    Ok(())
}
