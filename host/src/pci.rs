//! Cards of this machine that are given to the image: what has to be true before QEMU can take one.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Address of a PCI function: domain, bus, device, function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bdf {
    domain: u16,
    bus: u8,
    device: u8,
    function: u8,
}

impl Bdf {
    /// From `0000:01:00.0` or `01:00.0`.
    pub fn parse(text: &str) -> Option<Self> {
        let (rest, function) = text.rsplit_once('.')?;
        let (rest, device) = rest.rsplit_once(':')?;
        let (domain, bus) = rest.rsplit_once(':').unwrap_or(("0", rest));
        let digits = |text: &str, most: usize| {
            let good = (1..=most).contains(&text.len()) && text.bytes().all(|c| c.is_ascii_hexdigit());
            if good { u16::from_str_radix(text, 16).ok() } else { None }
        };
        let (device, function) = (digits(device, 2)? as u8, digits(function, 1)? as u8);
        (device < 32 && function < 8).then_some(Self {
            domain: digits(domain, 4)?,
            bus: digits(bus, 2)? as u8,
            device,
            function,
        })
    }
}

impl fmt::Display for Bdf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.{}", self.domain, self.bus, self.device, self.function)
    }
}

/// Where the kernel shows devices and their groups.
#[derive(Debug, Clone)]
pub struct Host {
    devices: PathBuf,
    groups: PathBuf,
}

impl Default for Host {
    fn default() -> Self {
        Self { devices: "/sys/bus/pci/devices".into(), groups: "/dev/vfio".into() }
    }
}

impl Host {
    /// Whether QEMU can give the function to a machine: one that this image has a driver for, in the hands of vfio-pci,
    /// with a group that may be opened.
    ///
    /// # Errors
    /// What stands in the way, and what helps.
    pub fn check(&self, at: Bdf) -> Result<(), String> {
        let device = self.devices.join(at.to_string());
        if !device.exists() {
            return Err(format!("{at}: no such PCI function in {}", self.devices.display()));
        }
        let (vendor, id) = (read_id(&device.join("vendor"))?, read_id(&device.join("device"))?);
        if drivers::i40e::device(vendor, id).is_none() {
            return Err(format!("{at} is {vendor:04x}:{id:04x}, which the image has no driver for"));
        }
        let driver = link_name(&device.join("driver"));
        if driver.as_deref() != Some("vfio-pci") {
            let now = driver.map_or("no driver has it".to_owned(), |driver| format!("{driver} has it"));
            return Err(format!("{at}: vfio-pci must have it, and {now}; docs/real-card.md says how"));
        }
        let group = link_name(&device.join("iommu_group"));
        let group = group.ok_or_else(|| format!("{at} is behind no IOMMU: turn it on in the firmware"))?;
        let node = self.groups.join(&group);
        fs::File::options()
            .read(true)
            .write(true)
            .open(&node)
            .map(drop)
            .map_err(|error| format!("{at}: {}: {error}", node.display()))
    }
}

fn read_id(path: &Path) -> Result<u16, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let digits = text.trim().trim_start_matches("0x");
    u16::from_str_radix(digits, 16).map_err(|_| format!("{}: {}", path.display(), text.trim()))
}

/// The last part of what a link points to.
fn link_name(path: &Path) -> Option<String> {
    Some(fs::read_link(path).ok()?.file_name()?.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn addresses_are_read_as_lspci_writes_them() {
        assert_eq!(Bdf::parse("0000:01:00.1").unwrap().to_string(), "0000:01:00.1");
        assert_eq!(Bdf::parse("af:1f.7").unwrap().to_string(), "0000:af:1f.7");
        for wrong in ["", "01:00", "01:20.0", "01:00.8", "1:2:3:4.5", "x1:00.0", "00000:01:00.0", "01:00.0 "]
        {
            assert_eq!(Bdf::parse(wrong), None, "{wrong}");
        }
    }

    /// Folders as the kernel makes them (Documentation/ABI/testing/sysfs-bus-pci).
    #[test]
    fn what_stands_in_the_way_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let host = Host { devices: folder.path().join("devices"), groups: folder.path().join("vfio") };
        let at = Bdf::parse("01:00.0").unwrap();
        let device = host.devices.join("0000:01:00.0");
        let said = |text: &str| {
            let error = host.check(at).unwrap_err();
            assert!(error.contains(text), "{error}");
        };
        said("no such PCI function");
        fs::create_dir_all(&device).unwrap();
        fs::write(device.join("vendor"), "0x8086\n").unwrap();
        fs::write(device.join("device"), "0x1533\n").unwrap();
        said("is 8086:1533, which the image has no driver for");
        fs::write(device.join("device"), "0x1572\n").unwrap();
        said("no driver has it");
        symlink("../../../bus/pci/drivers/i40e", device.join("driver")).unwrap();
        said("i40e has it; docs/real-card.md");
        fs::remove_file(device.join("driver")).unwrap();
        symlink("../../../bus/pci/drivers/vfio-pci", device.join("driver")).unwrap();
        said("behind no IOMMU");
        symlink("../../../kernel/iommu_groups/17", device.join("iommu_group")).unwrap();
        said("vfio/17: No such file");
        fs::create_dir_all(&host.groups).unwrap();
        fs::write(host.groups.join("17"), "").unwrap();
        assert_eq!(host.check(at), Ok(()));
    }
}
