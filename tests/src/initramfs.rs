//! An initramfs: an archive as the kernel reads it, cpio "newc"
//! (Documentation/driver-api/early-userspace/buffer-format.rst).

use std::fs;
use std::path::{Path, PathBuf};

/// An archive that grows.
#[derive(Default)]
pub struct Initramfs {
    bytes: Vec<u8>,
    files: u32,
}

impl Initramfs {
    /// Adds a folder.
    pub fn folder(&mut self, name: &str) {
        self.entry(name, 0o040_755, &[]);
    }

    /// Adds a file with these access bits.
    pub fn file(&mut self, name: &str, mode: u32, data: &[u8]) {
        self.entry(name, 0o100_000 | mode, data);
    }

    /// Adds a symbolic link to `to`.
    pub fn link(&mut self, name: &str, to: &str) {
        self.entry(name, 0o120_777, to.as_bytes());
    }

    /// Adds a copy of the file at `from`.
    ///
    /// # Errors
    /// It can't be read.
    pub fn copy(&mut self, name: &str, mode: u32, from: &Path) -> Result<(), String> {
        let data = fs::read(from).map_err(|error| format!("{}: {error}", from.display()))?;
        self.file(name, mode, &data);
        Ok(())
    }

    /// Ends the archive and writes it.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn write(mut self, to: &Path) -> Result<(), String> {
        self.entry("TRAILER!!!", 0, &[]);
        fs::write(to, self.bytes).map_err(|error| format!("{}: {error}", to.display()))
    }

    fn entry(&mut self, name: &str, mode: u32, data: &[u8]) {
        self.files += 1;
        let fields = [self.files, mode, 0, 0, 1, 0, data.len() as u32, 0, 0, 0, 0, name.len() as u32 + 1, 0];
        self.bytes.extend(b"070701");
        fields.iter().for_each(|field| self.bytes.extend(format!("{field:08x}").bytes()));
        self.bytes.extend(name.bytes().chain([0]));
        self.pad();
        self.bytes.extend(data);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

/// The file of that name in `folder` or below.
pub fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    for entry in fs::read_dir(folder).ok()?.filter_map(Result::ok) {
        let path = entry.path();
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let found = if is_folder { find(&path, name) } else { (entry.file_name() == name).then_some(path) };
        if found.is_some() {
            return found;
        }
    }
    None
}
