//! What runs a machine's instructions.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::{DEBUG_EXIT_SUCCESS, Machine, Qemu};
use crate::{Failure, signals};

/// An accelerator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accel {
    /// The CPU itself.
    Kvm,
    /// A translator.
    Tcg,
}

impl Accel {
    /// QEMU's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        }
    }
}

/// A guest that runs vector instructions ends within milliseconds; one that can't never ends.
const PROBE_LIMIT: Duration = Duration::from_secs(2);

/// The accelerator to use: `wanted`, or KVM where it can run the image and TCG elsewhere.
///
/// That /dev/kvm opens says little: a nested hypervisor may stop a guest at its first vector instruction. So the image
/// is run once with its vector test.
///
/// # Errors
/// KVM was asked for and can't run the image.
pub fn choose(
    qemu: &Qemu,
    image: &Path,
    wanted: Option<Accel>,
    progress: &mut dyn FnMut(&str),
) -> Result<Accel, Failure> {
    let mut probe = |qemu, image| {
        let kvm = std::fs::File::options().read(true).write(true).open("/dev/kvm");
        kvm.map_err(|error| format!("/dev/kvm: {error}"))?;
        progress("trying KVM, for two seconds at most");
        probe(qemu, image)
    };
    match wanted {
        Some(Accel::Tcg) => Ok(Accel::Tcg),
        Some(Accel::Kvm) => probe(qemu, image)
            .map(|()| Accel::Kvm)
            .map_err(|why| Failure::usage(format!("--accel kvm: KVM can't run the image here: {why}"))),
        None => Ok(if probe(qemu, image).is_ok() { Accel::Kvm } else { Accel::Tcg }),
    }
}

fn probe(qemu: &Qemu, image: &Path) -> Result<(), String> {
    let mut machine = Machine::new(Accel::Kvm, image.to_owned(), "--self-test=simd".into(), Vec::new());
    machine.memory = 64;
    let mut command = machine.command(qemu);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    crate::child::dies_with_us(&mut command);
    let mut child = command.spawn().map_err(|error| format!("QEMU: {error}"))?;
    let start = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.code() == Some(DEBUG_EXIT_SUCCESS) => return Ok(()),
            Ok(Some(status)) => return Err(format!("its vector test ended with {status}")),
            Ok(None) if start.elapsed() < PROBE_LIMIT && !signals::stop_asked() => {
                std::thread::sleep(Duration::from_millis(5))
            }
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("its vector test did not end within {} s", PROBE_LIMIT.as_secs()));
            }
            Err(error) => return Err(format!("QEMU: {error}")),
        }
    }
}
