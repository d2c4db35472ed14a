//! Building the image: a cargo invocation of its own, with flags that a program without an operating system needs.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Failure, child};

const TARGET: &str = "x86_64-unknown-linux-gnu";
/// No red zone: an exception may come at any moment. Fixed addresses: nobody relocates the image. Frame pointers: for
/// backtraces.
const RUSTFLAGS: [&str; 3] = ["-Cno-redzone=yes", "-Crelocation-model=static", "-Cforce-frame-pointers=yes"];

/// How it is optimised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// For use.
    Release,
    /// With checks, for tests.
    Dev,
}

impl Profile {
    const fn name(self) -> &'static str {
        match self {
            Self::Release => "image",
            Self::Dev => "image-dev",
        }
    }
}

/// Bytes of an image that was built before.
///
/// # Errors
/// It can't be read, or is no ELF file.
pub fn check(image: &Path) -> Result<u64, Failure> {
    let told = |what: &dyn std::fmt::Display| Failure::usage(format!("{}: {what}", image.display()));
    let bytes = std::fs::read(image).map_err(|error| told(&error))?;
    if bytes.starts_with(b"\x7fELF") { Ok(bytes.len() as u64) } else { Err(told(&"is no ELF file")) }
}

/// A program that is an image: a binary of `package` with the feature `image`.
#[derive(Debug, Clone)]
pub struct Source {
    /// The folder of its workspace.
    pub workspace: PathBuf,
    /// The package.
    pub package: String,
    /// The binary.
    pub program: String,
}

/// Builds the stock image, or finds that it is up to date; returns its file.
///
/// # Errors
/// The sources are not there, or the compiler's last lines.
pub fn build(profile: Profile) -> Result<PathBuf, Failure> {
    let workspace = workspace();
    if !workspace.join("boot/image.ld").exists() {
        let place = workspace.display();
        return Err(Failure::usage(format!(
            "the sources of the image are not in {place}: give one with --image"
        )));
    }
    let source = Source {
        workspace: workspace.to_owned(),
        package: "barewire-boot".into(),
        program: "barewire-image".into(),
    };
    build_source(&source, profile)
}

/// As [`build`], any image.
///
/// # Errors
/// The compiler's last lines.
pub fn build_source(source: &Source, profile: Profile) -> Result<PathBuf, Failure> {
    build_with(source, &["--features", "image"], profile)
}

/// Builds the program that measures loops, with the flags and the optimisation of the image.
///
/// # Errors
/// The sources are not there, or the compiler's last lines.
pub fn build_bench() -> Result<PathBuf, Failure> {
    let workspace = workspace();
    if !workspace.join("host/bench/src").exists() {
        return Err(Failure::usage(format!("the sources of the bench are not in {}", workspace.display())));
    }
    let program = "barewire-bench".to_owned();
    let source = Source { workspace: workspace.to_owned(), package: program.clone(), program };
    build_with(&source, &[], Profile::Release)
}

fn build_with(source: &Source, features: &[&str], profile: Profile) -> Result<PathBuf, Failure> {
    // Its own target folder: other flags, other features, and no waiting for a build that waits for this one.
    let folder = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let folder = workspace().join(folder).join("image");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .current_dir(&source.workspace)
        .args([
            "build",
            "--quiet",
            "--profile",
            profile.name(),
            "-p",
            &source.package,
            "--bin",
            &source.program,
        ])
        .args(features)
        .args(["--target", TARGET, "--target-dir"])
        .arg(&folder)
        .env("CARGO_ENCODED_RUSTFLAGS", RUSTFLAGS.join("\x1f"))
        .env_remove("RUSTFLAGS");
    let output = child::output(&mut command).map_err(|error| Failure::usage(format!("cargo: {error}")))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        let last = lines.get(lines.len().saturating_sub(15)..).unwrap_or_default().join("\n");
        return Err(Failure::run(format!("{} does not build:\n{last}", source.program)));
    }
    Ok(folder.join(TARGET).join(profile.name()).join(&source.program))
}

/// The sources of barewire.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}
