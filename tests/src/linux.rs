//! Debian's Linux with its own i40e driver and ethtool, in a small initramfs.

use std::fs;
use std::path::{Path, PathBuf};

use barewire::packages::Packages;

/// A kernel and what goes into an initramfs for it.
pub struct Linux {
    /// The kernel.
    pub kernel: PathBuf,
    root: PathBuf,
}

/// Modules, each after those that it needs: the driver's, and VLAN interfaces'.
const MODULES: [&str; 7] = ["libie", "i40e", "llc", "stp", "garp", "mrp", "8021q"];

/// Programs and libraries: where they lie in the packages, and in the guest.
const FILES: [(&str, &str); 6] = [
    ("usr/bin/busybox", "bin/busybox"),
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
        Ok(Self { kernel: kernel.ok_or("the package holds no kernel")?, root })
    }

    /// Writes an initramfs with busybox, ethtool, the modules, and `init`.
    ///
    /// # Errors
    /// A file is missing or can't be written.
    pub fn initramfs(&self, init: &str, to: &Path) -> Result<(), String> {
        let read = |path: &Path| fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
        let mut archive = Cpio::default();
        for folder in ["bin", "dev", "lib", "lib64", "proc", "sys"] {
            archive.folder(folder);
        }
        for (from, to) in FILES {
            archive.file(to, 0o755, &read(&self.root.join(from))?);
        }
        for module in MODULES {
            let name = format!("{module}.ko.xz");
            let path = find(&self.root.join("usr/lib/modules"), &name).ok_or(format!("no {name}"))?;
            archive.file(&name, 0o644, &read(&path)?);
        }
        archive.file("init", 0o755, init.as_bytes());
        fs::write(to, archive.finish()).map_err(|error| format!("{}: {error}", to.display()))
    }
}

fn find(folder: &Path, name: &str) -> Option<PathBuf> {
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

/// An archive as the kernel reads it: cpio, "newc" (Documentation/driver-api/early-userspace/buffer-format.rst).
#[derive(Default)]
struct Cpio {
    bytes: Vec<u8>,
    files: u32,
}

impl Cpio {
    fn folder(&mut self, name: &str) {
        self.entry(name, 0o040_755, &[]);
    }

    fn file(&mut self, name: &str, mode: u32, data: &[u8]) {
        self.entry(name, 0o100_000 | mode, data);
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

    fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }
}
