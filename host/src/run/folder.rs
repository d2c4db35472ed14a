//! The folder with a run's sockets, which goes with the run, and if that was killed, with the next one.

use std::fs::{self, File};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

use crate::Failure;

const PREFIX: &str = "barewire-";
/// Locked as long as its run lives.
const LOCK: &str = "lock";

/// A folder that belongs to this process.
pub struct Folder {
    folder: TempDir,
    _lock: File,
}

impl Folder {
    /// A new one; those that nobody holds any more are taken away.
    ///
    /// # Errors
    /// It can't be made.
    pub fn new() -> Result<Self, Failure> {
        let place = std::env::temp_dir();
        remove_left(&place);
        let failed = |error: &dyn std::fmt::Display| Failure::usage(format!("folder for sockets: {error}"));
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&place);
        let folder = folder.map_err(|error| failed(&error))?;
        let lock = File::create(folder.path().join(LOCK)).map_err(|error| failed(&error))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|error| failed(&error))?;
        Ok(Self { folder, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Takes away what runs that were killed have left: their locks can be had.
fn remove_left(place: &Path) {
    let Ok(entries) = fs::read_dir(place) else { return };
    for entry in entries.flatten() {
        let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        let folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !ours || !folder {
            continue;
        }
        // One without a lock is not a run's, or a run is making it just now.
        let Ok(lock) = File::open(entry.path().join(LOCK)) else { continue };
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_holds_is_taken_away() {
        let place = tempfile::tempdir().unwrap();
        let make = |name: &str, lock: bool| {
            let folder = place.path().join(name);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("i40e0"), "").unwrap();
            lock.then(|| File::create(folder.join(LOCK)).unwrap())
        };
        let held = make("barewire-held", true).unwrap();
        flock(&held, FlockOperation::NonBlockingLockExclusive).unwrap();
        drop(make("barewire-left", true));
        make("barewire-else", false);
        drop(make("other-left", true));
        remove_left(place.path());
        let mut names: Vec<String> = fs::read_dir(place.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["barewire-else", "barewire-held", "other-left"]);
    }
}
