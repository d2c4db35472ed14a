//! Programs from Debian's packages, as a private copy in the user's cache folder: no root, nothing installed.
//!
//! apt works on lists, a cache and a status file of its own, and checks signatures and hashes as always. The mirror is
//! the one that the machine's own apt is set to.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use crate::{child, signals};

/// What to copy.
pub struct Packages<'a> {
    /// Name of the copy in the cache folder.
    pub label: &'a str,
    /// Debian releases, the preferred one last.
    pub suites: &'a [&'a str],
    /// Packages; a name that ends in `*` stands for what the meta package without the star depends on first.
    pub names: &'a [&'a str],
    /// What they depend on as well.
    pub with_dependencies: bool,
}

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// `$XDG_CACHE_HOME/barewire`, or `~/.cache/barewire`.
pub fn cache_folder() -> Result<PathBuf, String> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    base.map(|base| base.join("barewire")).ok_or_else(|| "neither XDG_CACHE_HOME nor HOME is set".into())
}

impl Packages<'_> {
    /// The root of the copy, made if there is none yet. Another process that makes the same copy is waited for.
    ///
    /// # Errors
    /// What could not be had, in one line.
    pub fn obtain(&self, progress: &mut dyn FnMut(&str)) -> Result<PathBuf, String> {
        let cache = cache_folder()?;
        let told = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
        fs::create_dir_all(&cache).map_err(|error| told(&cache, error))?;
        let lock_path = cache.join(format!("{}.lock", self.label));
        let lock = File::create(&lock_path).map_err(|error| told(&lock_path, error))?;
        wait_for_lock(&lock, progress).map_err(|error| told(&lock_path, error))?;
        let current = cache.join(self.label);
        if let Ok(root) = fs::canonicalize(current.join("root")) {
            return Ok(root);
        }
        let work = tempfile::tempdir_in(&cache).map_err(|error| told(&cache, error))?;
        let apt = Apt::prepare(work.path(), self.suites)?;
        progress("reading package lists");
        apt.run("apt-get", &["update"])?;
        let names = self.resolve(&apt)?;
        progress("fetching packages");
        self.download(&apt, &names)?;
        let first = names.first().map(String::as_str).unwrap_or_default();
        let version = apt.unpack(first, progress)?;
        let copy = format!("{}-{version}", self.label);
        // By version and hash; the name without them points to the newest.
        let target = cache.join(&copy);
        let _ = fs::remove_dir_all(&target);
        fs::create_dir(&target).map_err(|error| told(&target, error))?;
        fs::rename(apt.dir.join("root"), target.join("root")).map_err(|error| told(&target, error))?;
        let _ = fs::remove_file(&current);
        std::os::unix::fs::symlink(&copy, &current).map_err(|error| told(&current, error))?;
        fs::canonicalize(current.join("root")).map_err(|error| told(&current, error))
    }

    /// Forgets the copy, so that the next [`Packages::obtain`] makes another.
    pub fn discard(&self) {
        if let Ok(cache) = cache_folder() {
            let _ = fs::remove_file(cache.join(self.label));
        }
    }

    fn resolve(&self, apt: &Apt) -> Result<Vec<String>, String> {
        let mut names = Vec::new();
        for name in self.names {
            let Some(meta) = name.strip_suffix('*') else {
                names.push((*name).to_owned());
                continue;
            };
            let suite = self.suites.first().copied().unwrap_or_default();
            let output = apt.run("apt-cache", &["depends", &format!("{meta}/{suite}")])?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let first =
                text.lines().find_map(|line| line.trim().strip_prefix("Depends: ")).map(str::to_owned);
            names.push(first.ok_or_else(|| format!("package {meta} depends on nothing"))?);
        }
        Ok(names)
    }

    fn download(&self, apt: &Apt, names: &[String]) -> Result<(), String> {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        if self.with_dependencies {
            apt.run("apt-get", &[&["-y", "--download-only", "install"], &names[..]].concat())?;
        } else {
            apt.run("apt-get", &[&["download"], &names[..]].concat())?;
        }
        Ok(())
    }
}

/// Waits until no other process makes the same copy, or the process is asked to stop.
fn wait_for_lock(lock: &File, progress: &mut dyn FnMut(&str)) -> io::Result<()> {
    let mut told = false;
    loop {
        match flock(lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(_) if signals::stop_asked() => return Err(io::ErrorKind::Interrupted.into()),
            Err(Errno::WOULDBLOCK | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if !std::mem::replace(&mut told, true) {
            progress("waiting for another process that fetches it");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// apt with everything of its own.
struct Apt {
    dir: PathBuf,
    preferred: String,
}

impl Apt {
    fn prepare(dir: &Path, suites: &[&str]) -> Result<Self, String> {
        let told = |error: io::Error| format!("{}: {error}", dir.display());
        let mirror = debian_mirror()?;
        if !Path::new(KEYRING).exists() {
            return Err(format!("{KEYRING} is missing: install debian-archive-keyring"));
        }
        for folder in ["lists/partial", "archives/partial", "root"] {
            fs::create_dir_all(dir.join(folder)).map_err(told)?;
        }
        let sources: String =
            suites.iter().map(|suite| format!("deb [signed-by={KEYRING}] {mirror} {suite} main\n")).collect();
        fs::write(dir.join("sources.list"), sources).map_err(told)?;
        fs::write(dir.join("status"), "").map_err(told)?;
        let preferred = suites.last().copied().unwrap_or_default().to_owned();
        Ok(Self { dir: dir.to_owned(), preferred })
    }

    fn run(&self, program: &str, args: &[&str]) -> Result<Output, String> {
        let at = |name: &str| self.dir.join(name).display().to_string();
        let options = [
            format!("Dir::Etc::sourcelist={}", at("sources.list")),
            "Dir::Etc::sourceparts=/dev/null".into(),
            "Dir::Etc::preferences=/dev/null".into(),
            "Dir::Etc::preferencesparts=/dev/null".into(),
            format!("Dir::State::lists={}", at("lists")),
            format!("Dir::State::status={}", at("status")),
            format!("Dir::Cache::archives={}", at("archives")),
            "Dir::Cache::pkgcache=".into(),
            "Dir::Cache::srcpkgcache=".into(),
            "APT::Install-Recommends=false".into(),
            "APT::Sandbox::User=".into(),
            "Acquire::Languages=none".into(),
            "Acquire::Retries=2".into(),
            "APT::Update::Error-Mode=any".into(),
            "Debug::NoLocking=1".into(),
            format!("APT::Default-Release={}", self.preferred),
        ];
        let mut command = Command::new(program);
        command.current_dir(self.dir.join("archives"));
        command.env("DEBIAN_FRONTEND", "noninteractive").env("LC_ALL", "C");
        options.iter().for_each(|option| {
            command.arg("-o").arg(option);
        });
        let output = child::output(command.args(args)).map_err(|error| format!("{program}: {error}"))?;
        if output.status.success() {
            return Ok(output);
        }
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let line =
            text.lines().find(|line| line.starts_with("E:")).or(text.lines().last()).unwrap_or("failed");
        Err(format!("{program} {}: {line}", args.first().copied().unwrap_or_default()))
    }

    /// Unpacks everything that was fetched; returns the version of package `name` and a hash over all of them.
    fn unpack(&self, name: &str, progress: &mut dyn FnMut(&str)) -> Result<String, String> {
        let told = |error: io::Error| format!("{}: {error}", self.dir.display());
        let mut packages: Vec<PathBuf> = fs::read_dir(self.dir.join("archives"))
            .map_err(told)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "deb"))
            .collect();
        packages.sort();
        if packages.is_empty() {
            return Err("apt fetched nothing".into());
        }
        let root = self.dir.join("root");
        let mut hash = Sha256::new();
        progress(&format!("unpacking {} packages", packages.len()));
        for package in &packages {
            let output = child::output(Command::new("dpkg-deb").arg("-x").arg(package).arg(&root));
            let output = output.map_err(|error| format!("dpkg-deb: {error}"))?;
            if !output.status.success() {
                return Err(format!("dpkg-deb can't unpack {}", package.display()));
            }
            hash.update(fs::read(package).map_err(told)?);
        }
        let hash: String = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Ok(format!("{}-{hash}", version_of(&packages, name)))
    }
}

/// Version of package `name`, from the names of files such as `qemu-system-x86_1%3a11.1.3+ds-1_amd64.deb`.
fn version_of(packages: &[PathBuf], name: &str) -> String {
    let names = packages.iter().filter_map(|path| path.file_name()?.to_str());
    let version =
        names.filter_map(|file| file.strip_prefix(name)?.strip_prefix('_')?.split('_').next()).next();
    let version = version.unwrap_or("0").rsplit("%3a").next().unwrap_or("0");
    version.chars().filter(|c| c.is_ascii_alphanumeric() || ".+-~".contains(*c)).collect()
}

/// The Debian mirror that the machine's apt uses.
fn debian_mirror() -> Result<String, String> {
    let mut command = Command::new("apt-get");
    command.args(["indextargets", "--format", "$(REPO_URI) $(ORIGIN) $(COMPONENT)", "Created-By: Packages"]);
    let output = child::output(&mut command).map_err(|error| format!("apt-get: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    parse_mirror(&text).or_else(mirror_in_sources).ok_or_else(|| {
        "apt names no Debian mirror (on another system, install the package by its own means)".into()
    })
}

fn parse_mirror(index_targets: &str) -> Option<String> {
    index_targets.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let (uri, origin, component) = (words.next()?, words.next()?, words.next()?);
        let good = origin == "Debian" && component == "main" && !uri.contains("security");
        good.then(|| uri.to_owned())
    })
}

/// Before the first `apt-get update` there are no index targets with an origin: the configuration is read instead.
fn mirror_in_sources() -> Option<String> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    files.extend(fs::read_dir("/etc/apt/sources.list.d").ok()?.filter_map(|entry| Some(entry.ok()?.path())));
    files.iter().find_map(|file| parse_sources(&fs::read_to_string(file).ok()?))
}

fn parse_sources(text: &str) -> Option<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let uris = lines.filter_map(|line| {
        let line = line.strip_prefix("URIs:").or(line.strip_prefix("deb "))?;
        line.split_whitespace().find(|word| word.contains("://"))
    });
    uris.map(|uri| uri.trim_end_matches('/').to_owned()).find(|uri| uri.ends_with("/debian"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_comes_from_the_name_of_a_file() {
        let files = ["libc6_2.41-12_amd64.deb", "qemu-system-x86_1%3a11.1.3+ds-1~bpo13+1_amd64.deb"]
            .map(PathBuf::from);
        assert_eq!(version_of(&files, "qemu-system-x86"), "11.1.3+ds-1~bpo13+1");
        assert_eq!(version_of(&files, "qemu"), "0");
    }

    #[test]
    fn the_mirror_is_the_one_that_apt_names() {
        let targets = "http://security.example.org/debian-security/ Debian main\n\
                       http://apt.example.com/tools Example main\n\
                       http://deb.example.org/debian/ Debian main\n";
        assert_eq!(parse_mirror(targets).as_deref(), Some("http://deb.example.org/debian/"));
        assert_eq!(parse_mirror("http://archive.example.com/ubuntu/ Ubuntu main\n"), None);
    }

    #[test]
    fn sources_of_both_formats_are_read() {
        let deb822 = "Types: deb\n# http://old.example.org/debian\nURIs: http://deb.example.org/debian\n";
        assert_eq!(parse_sources(deb822).as_deref(), Some("http://deb.example.org/debian"));
        let line = "deb [arch=amd64] https://deb.example.org/debian/ bookworm main\n";
        assert_eq!(parse_sources(line).as_deref(), Some("https://deb.example.org/debian"));
        assert_eq!(parse_sources("deb http://archive.example.com/ubuntu jammy main\n"), None);
    }
}
