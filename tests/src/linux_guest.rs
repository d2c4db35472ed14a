//! A guest with Debian's Linux and a card for each wire.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::JoinHandle;

use libtest_mimic::Failed;
use model::vfio_user::PortStatus;
use model::{Handle, PortConfig, ServeError, Server, TraceLog, Wire, Xl710};

use crate::guest::Guest;
use crate::linux::Linux;
use crate::machine::{Ground, ensure};

/// Before what a test does: devices, the driver, eth0. IPv6 is off, so that no frame is sent that nobody asked for.
const BEGIN: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
mkdir -p /tmp; mount -t tmpfs -o size=700m tmp /tmp
echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6; echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6
load() { for m in "$@"; do [ -e /tmp/$m.ko ] || xzcat /$m.ko.xz > /tmp/$m.ko; insmod /tmp/$m.ko; done; }
wait_for() { for i in $(seq 300); do eval "$1" && return; sleep 0.05; done; echo "gave up on: $1"; return 1; }
carrier() { wait_for "[ \"\$(cat /sys/class/net/${1:-eth0}/carrier 2>/dev/null)\" = 1 ]"; }
count() { cat /sys/class/net/$1/statistics/$2; }
# Waits until a counter is no longer below a number.
reach() { wait_for "[ \$(count $1 $2) -ge $3 ]"; }
# Says a line and waits until the test has done its part; it may answer with words.
ask() { echo "ask $*"; read answer; }
# What the network device counts: packets and bytes in and out.
book() { echo "book $1 $(count $2 rx_packets) $(count $2 rx_bytes) $(count $2 tx_packets) $(count $2 tx_bytes)"; }
errors() { for c in rx_errors tx_errors rx_dropped tx_dropped rx_missed_errors; do echo "$c $(count $1 $c)"; done; }
load libie i40e
wait_for '[ -e /sys/class/net/eth0 ]'
"#;

/// After it: what the driver complained of, with the level in front.
const END: &str = r#"
dmesg -r | grep -E 'i40e|eth0|eth1|BUG|WARNING|Oops' | sed 's/^/log /'
echo "guest done"
poweroff -f
"#;

/// A guest that runs.
pub struct LinuxGuest {
    guest: Guest,
    server: JoinHandle<Result<(), ServeError>>,
    /// The way to its cards.
    pub cards: Handle,
    _folder: tempfile::TempDir,
}

/// What a guest said and what its cards saw.
pub struct Outcome {
    /// Everything on its console.
    pub said: String,
    /// Its cards, at the end.
    pub ports: Vec<PortStatus>,
}

impl Outcome {
    /// It said `text`.
    ///
    /// # Errors
    /// It did not; everything that it said is in the message.
    pub fn has(&self, text: &str) -> Result<(), Failed> {
        ensure(self.said.contains(text), || format!("no {text:?} in:\n{}", self.said))
    }

    /// No counter of `errors` in the guest has counted.
    ///
    /// # Errors
    /// One has, or is not there.
    pub fn no_errors(&self) -> Result<(), Failed> {
        ["rx_errors 0", "tx_errors 0", "rx_dropped 0", "tx_dropped 0", "rx_missed_errors 0"]
            .iter()
            .try_for_each(|line| self.has(&format!("{line}\n")))
    }

    /// The numbers of the guest's last line that begins with `name`.
    ///
    /// # Errors
    /// There is no such line.
    pub fn numbers(&self, name: &str) -> Result<Vec<u64>, Failed> {
        let rest = self.said.lines().rev().find_map(|line| line.trim().strip_prefix(name));
        let rest = rest.ok_or_else(|| format!("no line {name:?} in:\n{}", self.said))?;
        Ok(rest.split([' ', ':', '\t']).filter_map(|word| word.parse().ok()).collect())
    }
}

impl LinuxGuest {
    /// Boots a machine with `cpus` CPUs and a card for each wire, which runs `script`.
    ///
    /// # Errors
    /// Something can't be had or does not start.
    pub fn boot(ground: &Ground, script: &str, cpus: u32, wires: Vec<Box<dyn Wire>>) -> Result<Self, Failed> {
        Self::boot_with(&Linux::obtain()?, ground, script, cpus, wires)
    }

    /// As [`LinuxGuest::boot`], with the programs of `linux`.
    ///
    /// # Errors
    /// As for that.
    pub fn boot_with(
        linux: &Linux,
        ground: &Ground,
        script: &str,
        cpus: u32,
        wires: Vec<Box<dyn Wire>>,
    ) -> Result<Self, Failed> {
        let folder = tempfile::tempdir()?;
        let initramfs = folder.path().join("initramfs");
        linux.initramfs(&[BEGIN, script, END].concat(), &initramfs)?;
        let (mut cards, mut sockets) = (Vec::new(), Vec::new());
        // For whoever looks for a fault: what the driver does to the cards, as `barewire model --log` writes it down.
        let log =
            std::env::var_os("BAREWIRE_MODEL_LOG").map(std::fs::File::create).transpose()?.map(TraceLog::new);
        for (index, wire) in wires.into_iter().enumerate() {
            let config =
                PortConfig { device_id: 0x1583, mac: Self::mac(index), name: format!("linux{index}") };
            sockets.push(folder.path().join(format!("card{index}")));
            let mut card = Xl710::new(config, wire);
            if let Some(log) = &log {
                card.trace(log, &format!("port{index}"));
            }
            cards.push((sockets[index].clone(), card));
        }
        let server = Server::bind(cards)?;
        let cards = server.handle();
        let server = std::thread::spawn(move || server.run());
        let guest = Guest::start(command(ground, linux, &initramfs, &sockets, cpus))?;
        Ok(Self { guest, server, cards, _folder: folder })
    }

    /// Address of the card with that index.
    pub const fn mac(index: usize) -> [u8; 6] {
        [0x68, 5, 0xca, 0, 0, 7 + index as u8]
    }

    /// Everything that it has said so far.
    pub fn said(&self) -> &str {
        self.guest.said()
    }

    /// Waits for the guest's `ask WHAT` and returns what it asks; it goes on with [`LinuxGuest::answer`].
    ///
    /// # Errors
    /// The guest ended or hung before.
    pub fn asked(&mut self, what: &str) -> Result<String, Failed> {
        let line = self.guest.wait_for(&format!("ask {what}"))?;
        Ok(line.trim_start().trim_start_matches("ask ").to_owned())
    }

    /// The test's part is done; the script has `words` in `$answer`.
    ///
    /// # Errors
    /// The guest is gone.
    pub fn answer(&mut self, words: &str) -> Result<(), Failed> {
        self.guest.say(&format!("{words}\n"))
    }

    /// Waits for the end of the script. No line of the driver may have the level of a warning or above, and the cards
    /// must have nothing to complain of.
    ///
    /// # Errors
    /// One of these.
    pub fn finish(mut self) -> Result<Outcome, Failed> {
        self.guest.wait_for("guest done")?;
        let (_, said) = self.guest.end()?;
        self.cards.stop();
        self.server.join().map_err(|_| "the model panicked")??;
        ensure(!said.contains("gave up on: "), || format!("the guest waited in vain:\n{said}"))?;
        for line in said.lines().filter_map(|line| line.strip_prefix("log ")) {
            // `<4>` is a warning; what the driver says in passing is `<6>`.
            let level = line.strip_prefix('<').and_then(|rest| rest.split('>').next()?.parse::<u32>().ok());
            ensure(level.is_some_and(|level| level % 8 > 4), || format!("the driver complains: {line}"))?;
        }
        let ports = self.cards.status();
        for port in &ports {
            ensure(port.violations.is_empty() && port.counters.dma_faults == 0, || format!("{port:?}"))?;
        }
        Ok(Outcome { said, ports })
    }
}

/// Boots a guest and waits for its end.
///
/// # Errors
/// As [`LinuxGuest::boot`] and [`LinuxGuest::finish`].
pub fn run(ground: &Ground, script: &str, cpus: u32, wires: Vec<Box<dyn Wire>>) -> Result<Outcome, Failed> {
    LinuxGuest::boot(ground, script, cpus, wires)?.finish()
}

fn command(ground: &Ground, linux: &Linux, initramfs: &Path, sockets: &[PathBuf], cpus: u32) -> Command {
    let mut command = ground.qemu.command();
    command.args(["-nodefaults", "-display", "none", "-monitor", "none", "-no-reboot", "-serial", "stdio"]);
    command.args(["-accel", "tcg", "-cpu", "max", "-M", "q35,memory-backend=mem", "-m", "1G"]);
    command.args(["-smp", &cpus.to_string()]);
    command.args(["-object", "memory-backend-memfd,id=mem,size=1G,share=on"]);
    command.arg("-kernel").arg(&linux.kernel).arg("-initrd").arg(initramfs);
    // On a busy machine the kernel's check of its timer fails, though the timer works.
    command.args(["-append", "console=ttyS0 quiet panic=-1 no_timer_check"]);
    for (index, socket) in sockets.iter().enumerate() {
        let chassis = index + 1;
        command
            .args(["-device", &format!("pcie-root-port,id=up{index},chassis={chassis},x-speed=8,x-width=8")]);
        let device = format!(
            r#"{{"driver":"vfio-user-pci","bus":"up{index}","rombar":0,"x-msg-timeout":60000,"socket":{{"type":"unix","path":"{}"}}}}"#,
            socket.display()
        );
        command.args(["-device", &device]);
    }
    command
}
