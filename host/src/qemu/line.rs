//! The command line of a machine that runs the image.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Accel, Qemu};

/// The image's option that names the way out.
pub const DEBUG_EXIT_OPTION: &str = "--exit=isa-debug-exit:0xf4";
/// QEMU's exit status after the image left well: twice the value written, plus one.
pub const DEBUG_EXIT_SUCCESS: i32 = 0x10 * 2 + 1;
/// QEMU's exit status after the image left otherwise.
pub const DEBUG_EXIT_FAILURE: i32 = 0x11 * 2 + 1;

/// A machine.
#[derive(Debug, Clone)]
pub struct Machine {
    /// What runs its instructions.
    pub accel: Accel,
    /// The image.
    pub image: PathBuf,
    /// Its command line, without the way out.
    pub options: String,
    /// A socket for each XL710.
    pub cards: Vec<PathBuf>,
    /// Cards sit behind root ports, as in a real machine, rather than on the root bus.
    pub root_ports: bool,
    /// The machine's type.
    pub kind: String,
    /// It has a serial port, on QEMU's standard input and output.
    pub console: bool,
    /// Cores.
    pub cpus: u16,
    /// MiB of memory.
    pub memory: u32,
    /// The CPU model.
    pub cpu: String,
    /// More arguments for QEMU.
    pub extra: Vec<String>,
}

impl Machine {
    /// A machine with one core, 512 MiB and all that its accelerator can do.
    pub fn new(accel: Accel, image: PathBuf, options: String, cards: Vec<PathBuf>) -> Self {
        Self {
            accel,
            image,
            options,
            cards,
            root_ports: true,
            kind: "q35".into(),
            console: true,
            cpus: 1,
            memory: 512,
            cpu: "max".into(),
            extra: Vec::new(),
        }
    }

    /// The command that runs it.
    pub fn command(&self, qemu: &Qemu) -> Command {
        let mut command = qemu.command();
        let memory = self.memory;
        command.args(["-nodefaults", "-display", "none", "-monitor", "none", "-no-reboot"]);
        command.args(["-accel", self.accel.name(), "-cpu", &self.cpu]);
        command.args(["-smp", &self.cpus.to_string()]);
        command.args(["-M", &format!("{},memory-backend=mem", self.kind), "-m", &format!("{memory}M")]);
        // The card reaches the machine's memory through the file behind it.
        command.args(["-object", &format!("memory-backend-memfd,id=mem,size={memory}M,share=on")]);
        if self.console {
            command.args(["-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"]);
        }
        command.args(["-device", "isa-debug-exit,iobase=0xf4,iosize=0x04"]);
        command.arg("-kernel").arg(&self.image);
        command.args(["-append", &format!("{DEBUG_EXIT_OPTION} {}", self.options)]);
        for (index, card) in self.cards.iter().enumerate() {
            let slot = format!("slot{index}");
            let bus = self.root_ports.then_some(slot.as_str());
            if self.root_ports {
                let port = format!("pcie-root-port,id={slot},chassis={},x-speed=8,x-width=8", index + 1);
                command.args(["-device", &port]);
            }
            command.arg("-device").arg(vfio_user(card, bus));
        }
        command.args(&self.extra);
        command
    }
}

/// The device in JSON, since its socket has parts of its own.
fn vfio_user(socket: &Path, bus: Option<&str>) -> String {
    let mut device = serde_json::json!({
        "driver": "vfio-user-pci",
        "rombar": 0,
        "x-msg-timeout": 60000,
        "socket": { "type": "unix", "path": socket.to_string_lossy() },
    });
    if let (Some(device), Some(bus)) = (device.as_object_mut(), bus) {
        device.insert("bus".into(), bus.into());
    }
    device.to_string()
}
