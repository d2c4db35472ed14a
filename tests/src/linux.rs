//! Debian's Linux with its own i40e driver and ethtool, in a small initramfs.

use std::fs;
use std::path::{Path, PathBuf};

use barewire::packages::Packages;

use crate::initramfs::{self, Initramfs};

/// A kernel and what goes into an initramfs for it.
pub struct Linux {
    /// The kernel.
    pub kernel: PathBuf,
    root: PathBuf,
    /// More programs: where they lie, and their places in the guest.
    programs: Vec<(PathBuf, &'static str)>,
}

/// Modules, each after those that it needs: the driver's, and VLAN interfaces'.
const MODULES: [&str; 7] = ["libie", "i40e", "llc", "stp", "garp", "mrp", "8021q"];

/// Programs and libraries: where they lie in the packages, and in the guest.
const FILES: [(&str, &str); 5] = [
    ("usr/sbin/ethtool", "bin/ethtool"),
    ("usr/lib64/ld-linux-x86-64.so.2", "lib64/ld-linux-x86-64.so.2"),
    ("usr/lib/x86_64-linux-gnu/libc.so.6", "lib/libc.so.6"),
    ("usr/lib/x86_64-linux-gnu/libm.so.6", "lib/libm.so.6"),
    ("usr/lib/x86_64-linux-gnu/libmnl.so.0", "lib/libmnl.so.0"),
];

impl Linux {
    /// Gets Debian's kernel, busybox and ethtool into the cache folder.
    ///
    /// # Errors
    /// They can't be had.
    pub fn obtain() -> Result<Self, String> {
        let packages = Packages {
            label: "linux-tools",
            suites: &["trixie"],
            names: &["linux-image-amd64*", "busybox-static", "ethtool", "libmnl0", "libc6"],
            with_dependencies: false,
        };
        let root = packages.obtain(&mut |step| eprintln!("Linux: {step}"))?;
        let kernel = fs::read_dir(root.join("boot")).map_err(|error| error.to_string())?;
        let kernel = kernel
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz")));
        Ok(Self { kernel: kernel.ok_or("the package holds no kernel")?, root, programs: Vec::new() })
    }

    /// As [`Linux::obtain`], with Debian's ptp4l and phc_ctl.
    ///
    /// # Errors
    /// They can't be had.
    pub fn with_ptp() -> Result<Self, String> {
        let mut linux = Self::obtain()?;
        // The last release whose programs need no library but libc.
        let packages = Packages {
            label: "linuxptp",
            suites: &["bookworm"],
            names: &["linuxptp"],
            with_dependencies: false,
        };
        let root = packages.obtain(&mut |step| eprintln!("linuxptp: {step}"))?;
        linux.programs = ["ptp4l", "phc_ctl"].map(|name| (root.join("usr/sbin").join(name), name)).to_vec();
        Ok(linux)
    }

    /// Writes an initramfs with busybox, ethtool, the modules, and `init`.
    ///
    /// # Errors
    /// A file is missing or can't be written.
    pub fn initramfs(&self, init: &str, to: &Path) -> Result<(), String> {
        let mut archive = self.begin(init)?;
        for folder in ["lib", "lib64"] {
            archive.folder(folder);
        }
        for (from, to) in FILES {
            archive.copy(to, 0o755, &self.root.join(from))?;
        }
        for (from, name) in &self.programs {
            archive.copy(&format!("bin/{name}"), 0o755, from)?;
        }
        for module in MODULES {
            self.module(&mut archive, module)?;
        }
        archive.write(to)
    }

    /// An initramfs with busybox and `init` and nothing else yet.
    ///
    /// # Errors
    /// A file is missing.
    pub fn begin(&self, init: &str) -> Result<Initramfs, String> {
        let mut archive = Initramfs::default();
        for folder in ["bin", "dev", "proc", "sys"] {
            archive.folder(folder);
        }
        archive.copy("bin/busybox", 0o755, &self.root.join("usr/bin/busybox"))?;
        archive.file("init", 0o755, init.as_bytes());
        Ok(archive)
    }

    /// Adds `/NAME.ko.xz`, a module of the kernel.
    ///
    /// # Errors
    /// The kernel has no such module.
    pub fn module(&self, archive: &mut Initramfs, name: &str) -> Result<(), String> {
        let file = format!("{name}.ko.xz");
        let path = initramfs::find(&self.root.join("usr/lib/modules"), &file).ok_or(format!("no {file}"))?;
        archive.copy(&file, 0o644, &path)
    }
}
