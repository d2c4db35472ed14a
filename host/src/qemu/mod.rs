//! The QEMU that machines run in: the system's where it is new enough, else a private copy.

mod accel;
mod line;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::packages::Packages;
use crate::{Failure, child, signals};

pub use accel::{Accel, choose};
pub use line::{DEBUG_EXIT_FAILURE, DEBUG_EXIT_OPTION, DEBUG_EXIT_SUCCESS, Machine};

/// vfio-user-pci came with this version.
const NEEDED: (u32, u32) = (10, 1);
const PROGRAM: &str = "qemu-system-x86_64";
/// Names a QEMU to use instead of any other; of no effect when it is empty.
pub const OVERRIDE: &str = "BAREWIRE_QEMU";

/// A QEMU that can be run.
#[derive(Debug, Clone)]
pub struct Qemu {
    program: OsString,
    /// Arguments that come before all others.
    args: Vec<OsString>,
}

impl Qemu {
    /// Finds or gets one.
    ///
    /// # Errors
    /// There is none and no way to get one.
    pub fn obtain(progress: &mut dyn FnMut(&str)) -> Result<Self, Failure> {
        if let Some(program) = std::env::var_os(OVERRIDE).filter(|program| !program.is_empty()) {
            let qemu = Self { program, args: Vec::new() };
            let shown = Path::new(&qemu.program).display().to_string();
            return match qemu.check() {
                Ok(()) => Ok(qemu),
                Err(why) => Err(Failure::usage(format!("{OVERRIDE}={shown}: {why}"))),
            };
        }
        let system = Self { program: PROGRAM.into(), args: Vec::new() };
        if system.check().is_ok() {
            return Ok(system);
        }
        let no_way = |why: String| {
            let (major, minor) = NEEDED;
            Failure::usage(format!("no QEMU {major}.{minor} or newer, and none can be had: {why}"))
        };
        let packages = Packages {
            label: "qemu",
            suites: &["trixie", "trixie-backports"],
            names: &["qemu-system-x86", "seabios"],
            with_dependencies: true,
        };
        let mut obtain = || packages.obtain(&mut |step| progress(&format!("QEMU: {step}")));
        let qemu = Self::in_root(&obtain().map_err(no_way)?);
        match qemu.check() {
            Ok(()) => return Ok(qemu),
            // A check that was broken off says nothing of the copy.
            Err(why) if signals::stop_asked() => return Err(no_way(why)),
            Err(_) => {}
        }
        // A copy that was damaged since it was made.
        packages.discard();
        let qemu = Self::in_root(&obtain().map_err(no_way)?);
        qemu.check().map_err(no_way)?;
        Ok(qemu)
    }

    /// The copy in `root`, run by its own loader with its own libraries.
    fn in_root(root: &Path) -> Self {
        let libraries = root.join("usr/lib/x86_64-linux-gnu");
        let path =
            [libraries.clone(), libraries.join("pulseaudio")].map(PathBuf::into_os_string).join(":".as_ref());
        let args = vec![
            "--library-path".into(),
            path,
            root.join("usr/bin").join(PROGRAM).into(),
            "-L".into(),
            root.join("usr/share/qemu").into(),
            "-L".into(),
            root.join("usr/share/seabios").into(),
        ];
        Self { program: root.join("usr/lib64/ld-linux-x86-64.so.2").into(), args }
    }

    /// A command that runs it; arguments can be added.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args);
        command
    }

    fn check(&self) -> Result<(), String> {
        let output = self.answer(&["--version"])?;
        let version = parse_version(&output).ok_or("it does not tell its version")?;
        if version < NEEDED {
            return Err(format!("its version is {}.{}", version.0, version.1));
        }
        if self.answer(&["-device", "help"])?.contains("vfio-user-pci") {
            Ok(())
        } else {
            Err("it has no vfio-user-pci".into())
        }
    }

    fn answer(&self, args: &[&str]) -> Result<String, String> {
        let output = child::output(self.command().args(args));
        let output = output.map_err(|error| error.to_string())?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

fn parse_version(text: &str) -> Option<(u32, u32)> {
    let version = text.strip_prefix("QEMU emulator version ")?;
    let mut numbers = version.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        let text = "QEMU emulator version 11.1.3 (Debian 1:11.1.3+ds-1~bpo13+1)\nCopyright";
        assert_eq!(parse_version(text), Some((11, 1)));
        assert_eq!(parse_version("QEMU emulator version 7.2.22"), Some((7, 2)));
        assert_eq!(parse_version("something else"), None);
    }
}
