//! The two ways into configuration space.

use super::{Address, ConfigSpace};
use crate::Bar;
#[cfg(target_arch = "x86_64")]
use crate::bare::ports;

/// By memory (ECAM): 4 KiB a function, from the base that ACPI's MCFG table gives.
pub struct Ecam<B> {
    window: B,
    first_bus: u8,
}

impl<B: Bar> Ecam<B> {
    /// `window` begins with function 0 of device 0 of bus `first_bus`.
    pub fn new(window: B, first_bus: u8) -> Self {
        Self { window, first_bus }
    }

    fn offset(&self, at: Address, offset: u16) -> Option<u32> {
        let bus = u32::from(at.bus.checked_sub(self.first_bus)?);
        let function = bus << 20 | u32::from(at.device & 0x1f) << 15 | u32::from(at.function & 7) << 12;
        Some(function | u32::from(offset & 0xffc))
    }
}

impl<B: Bar> ConfigSpace for Ecam<B> {
    fn read(&self, at: Address, offset: u16) -> u32 {
        self.offset(at, offset).map_or(u32::MAX, |offset| self.window.read32(offset))
    }

    fn write(&mut self, at: Address, offset: u16, value: u32) {
        if let Some(offset) = self.offset(at, offset) {
            self.window.write32(offset, value);
        }
    }
}

/// By I/O ports 0xCF8 and 0xCFC: the first 256 bytes of each function.
#[cfg(target_arch = "x86_64")]
pub struct Ports(());

#[cfg(target_arch = "x86_64")]
impl Ports {
    const ADDRESS: u16 = 0xcf8;
    const DATA: u16 = 0xcfc;

    /// The way by ports.
    ///
    /// # Safety
    /// The only one, on a machine whose configuration space may be read and written by this program; what is
    /// written to a device is up to the safety of whoever drives it.
    pub unsafe fn new() -> Self {
        Self(())
    }

    fn select(at: Address, offset: u16) -> u32 {
        1 << 31
            | u32::from(at.bus) << 16
            | u32::from(at.device & 0x1f) << 11
            | u32::from(at.function & 7) << 8
            | u32::from(offset & 0xfc)
    }
}

#[cfg(target_arch = "x86_64")]
impl ConfigSpace for Ports {
    fn read(&self, at: Address, offset: u16) -> u32 {
        if offset > 0xff {
            return u32::MAX;
        }
        // SAFETY: selects a register and reads it; `new` promised that this is the only user of the ports.
        unsafe {
            ports::outl(Self::ADDRESS, Self::select(at, offset));
            ports::inl(Self::DATA)
        }
    }

    fn write(&mut self, at: Address, offset: u16, value: u32) {
        if offset > 0xff {
            return;
        }
        // SAFETY: as in `read`.
        unsafe {
            ports::outl(Self::ADDRESS, Self::select(at, offset));
            ports::outl(Self::DATA, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::hosted::{FakeBar, Registers};

    struct Log(Arc<Mutex<std::vec::Vec<u32>>>);
    impl Registers for Log {
        fn read(&mut self, offset: u32, _data: &mut [u8]) {
            self.0.lock().unwrap().push(offset);
        }
        fn write(&mut self, offset: u32, _value: u32) {
            self.0.lock().unwrap().push(offset);
        }
    }

    /// PCI Express Base 3.0, 7.2.2: bus in 27:20, device in 19:15, function in 14:12, register in 11:2.
    #[test]
    fn ecam_offsets() {
        let log = Arc::new(Mutex::new(std::vec::Vec::new()));
        let mut ecam = Ecam::new(FakeBar::new(256 << 20, Log(log.clone())), 1);
        ecam.read(Address { bus: 1, device: 0, function: 0 }, 0);
        ecam.write(Address { bus: 3, device: 31, function: 7 }, 0xffc, 0);
        assert_eq!(ecam.read(Address { bus: 0, device: 0, function: 0 }, 0), u32::MAX);
        assert_eq!(*log.lock().unwrap(), [0, 2 << 20 | 31 << 15 | 7 << 12 | 0xffc]);
    }
}
