//! DPDK's testpmd with its own i40e driver, from Debian's packages, in a small guest with an IOMMU.
//!
//! The cards are bound to vfio-pci behind QEMU's Intel IOMMU: uio_pci_generic refuses them, since Linux takes their INTx
//! masking for broken, and Debian's kernel has no VFIO without IOMMU.

use std::path::{Path, PathBuf};
use std::process::Command;

use barewire::packages::Packages;
use barewire::qemu::Qemu;

use crate::initramfs::{self, Initramfs};
use crate::linux::Linux;

/// Drivers that testpmd loads.
const DRIVERS: [&str; 3] = ["librte_bus_pci.so.25", "librte_mempool_ring.so.25", "librte_net_i40e.so.25"];
/// Modules of the kernel, in the order in which they are loaded.
const MODULES: [&str; 5] = ["irqbypass", "vfio", "vfio_iommu_type1", "vfio-pci-core", "vfio-pci"];

/// Prepares the machine, then runs testpmd with each line that the console gets, until one says `end`.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
mkdir -p /tmp /run /var /dev/hugepages; mount -t tmpfs tmp /tmp; mount -t tmpfs run /run; ln -s /run /var/run
for m in MODULES; do xzcat /$m.ko.xz > /tmp/$m.ko; insmod /tmp/$m.ko; done
echo 256 > /proc/sys/vm/nr_hugepages; mount -t hugetlbfs none /dev/hugepages
for d in /sys/bus/pci/devices/*; do
    case $(cat $d/vendor)$(cat $d/device) in
    0x80860x1572|0x80860x1583) echo vfio-pci > $d/driver_override; echo $(basename $d) > /sys/bus/pci/drivers_probe;;
    esac
done
echo "guest ready"
while read line; do
    [ "$line" = end ] && break
    dpdk-testpmd --main-lcore 0 -l 0-1 --iova-mode=va --no-telemetry DRIVERS $line 2>&1
    echo "testpmd ended with $?"
done
dmesg -r | grep -E 'vfio|DMAR|dpdk|BUG|WARNING|Oops' | sed 's/^/log /'
echo "guest done"
poweroff -f
"#;

/// testpmd, its libraries, and a kernel for them.
pub struct Dpdk {
    linux: Linux,
    root: PathBuf,
}

impl Dpdk {
    /// Gets Debian's DPDK 24.11 and kernel into the cache folder.
    ///
    /// # Errors
    /// They can't be had.
    pub fn obtain() -> Result<Self, String> {
        let linux = Linux::obtain()?;
        let packages =
            Packages { label: "dpdk", suites: &["trixie"], names: &["dpdk-dev"], with_dependencies: true };
        let root = packages.obtain(&mut |step| eprintln!("DPDK: {step}"))?;
        Ok(Self { linux, root })
    }

    /// Writes an initramfs that runs testpmd.
    ///
    /// # Errors
    /// A file is missing or can't be written.
    pub fn initramfs(&self, to: &Path) -> Result<(), String> {
        let drivers: String = DRIVERS.iter().map(|driver| format!("-d {driver} ")).collect();
        let mut archive =
            self.linux.begin(&INIT.replace("DRIVERS", &drivers).replace("MODULES", &MODULES.join(" ")))?;
        for module in MODULES {
            self.linux.module(&mut archive, module)?;
        }
        ["lib", "lib64"].iter().for_each(|folder| archive.folder(folder));
        let program = self.root.join("usr/bin/dpdk-testpmd");
        archive.copy("bin/dpdk-testpmd", 0o755, &program)?;
        archive.copy("lib64/ld-linux-x86-64.so.2", 0o755, &self.loader())?;
        self.libraries(&mut archive, &program)?;
        archive.write(to)
    }

    fn loader(&self) -> PathBuf {
        self.root.join("usr/lib64/ld-linux-x86-64.so.2")
    }

    /// Every library that the program, or a driver that it loads, needs: the loader names them.
    fn libraries(&self, archive: &mut Initramfs, program: &Path) -> Result<(), String> {
        let folder = self.root.join("usr/lib/x86_64-linux-gnu");
        let mut found = std::collections::BTreeMap::new();
        let drivers = DRIVERS.iter().map(|name| (*name, folder.join(name)));
        found.extend(drivers.map(|(name, path)| (name.to_owned(), path)));
        // glibc loads this one by itself when a thread ends.
        let late = "libgcc_s.so.1";
        found.insert(late.into(), initramfs::find(&folder, late).ok_or(format!("no {late}"))?);
        let mut targets = vec![program.to_owned()];
        targets.extend(DRIVERS.iter().map(|name| folder.join(name)));
        for target in targets {
            let mut command = Command::new(self.loader());
            command.arg("--library-path").arg(&folder).arg("--list").arg(&target);
            let output = command.output().map_err(|error| format!("{}: {error}", target.display()))?;
            for line in String::from_utf8_lossy(&output.stdout).lines() {
                if let Some((name, rest)) = line.trim().split_once(" => ") {
                    let path = rest.rsplit_once(" (").map_or(rest, |(path, _)| path);
                    found.insert(name.to_owned(), PathBuf::from(path));
                }
            }
        }
        found.iter().try_for_each(|(name, path)| archive.copy(&format!("lib/{name}"), 0o755, path))
    }

    /// The guest's command line: two CPUs, an IOMMU, the cards behind root ports.
    pub fn command(&self, qemu: &Qemu, initramfs: &Path, sockets: &[PathBuf]) -> Command {
        let mut command = qemu.command();
        command.args(["-nodefaults", "-display", "none", "-monitor", "none", "-no-reboot"]);
        command.args(["-serial", "stdio", "-accel", "tcg", "-cpu", "max", "-smp", "2", "-m", "1G"]);
        command.args(["-M", "q35,memory-backend=mem,kernel-irqchip=off"]);
        command.args(["-object", "memory-backend-memfd,id=mem,size=1G,share=on"]);
        command.args(["-device", "intel-iommu,caching-mode=on,device-iotlb=on"]);
        command.arg("-kernel").arg(&self.linux.kernel).arg("-initrd").arg(initramfs);
        // On a busy machine the kernel's check of its timer fails, though the timer works.
        let append = "console=ttyS0 quiet panic=-1 no_timer_check intel_iommu=on iommu=pt";
        command.args(["-append", append]);
        for (index, socket) in sockets.iter().enumerate() {
            let chassis = index + 1;
            let port = format!("pcie-root-port,id=up{index},chassis={chassis},x-speed=8,x-width=8");
            command.args(["-device", &port]);
            let device = format!(
                r#"{{"driver":"vfio-user-pci","bus":"up{index}","rombar":0,"x-msg-timeout":60000,"socket":{{"type":"unix","path":"{}"}}}}"#,
                socket.display()
            );
            command.args(["-device", &device]);
        }
        command
    }
}
