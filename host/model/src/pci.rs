//! Configuration space of the function.
//!
//! A VMM emulates the BARs and the MSI-X table; what is seen here is command, status and capabilities.

const COMMAND: usize = 0x04;
const COMMAND_BUS_MASTER: u16 = 1 << 2;
const PM_STATUS: usize = 0x44;
const MSIX_CONTROL: usize = 0x72;
const DEVICE_CONTROL: usize = 0xa8;
const DEVICE_CONTROL_FLR: u16 = 1 << 15;

/// MSI-X vectors of the function.
pub const VECTORS: u32 = 129;

/// The 4096 bytes, and which bits of them can be written.
pub struct ConfigSpace {
    bytes: Box<[u8; 4096]>,
    writable: Box<[u8; 4096]>,
}

impl ConfigSpace {
    pub fn new(device_id: u16, serial: [u8; 6]) -> Self {
        let mut this = Self { bytes: Box::new([0; 4096]), writable: Box::new([0; 4096]) };
        this.header(device_id);
        this.capabilities();
        this.extended_capabilities(serial);
        this
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn put16(&mut self, at: usize, value: u16) {
        self.put(at, &value.to_le_bytes());
    }

    fn put32(&mut self, at: usize, value: u32) {
        self.put(at, &value.to_le_bytes());
    }

    fn allow(&mut self, at: usize, mask: &[u8]) {
        self.writable[at..at + mask.len()].copy_from_slice(mask);
    }

    fn header(&mut self, device_id: u16) {
        self.put16(0x00, 0x8086);
        self.put16(0x02, device_id);
        self.put16(0x06, 0x0010); // a list of capabilities
        self.put(0x08, &[0x02, 0x00, 0x00, 0x02]); // revision 2, Ethernet controller
        self.put32(0x10, 0x0000_000c); // BAR 0: 64 bits, prefetchable
        self.put32(0x1c, 0x0000_000c); // BAR 3 likewise
        self.put16(0x2c, 0x8086);
        self.put16(0x2e, 0x0006);
        self.put(0x34, &[0x40]);
        self.put(0x3d, &[0x01]);
        self.allow(COMMAND, &[0x47, 0x05]);
        self.allow(0x0c, &[0xff]);
        self.allow(0x10, &[0xff; 24]);
        self.allow(0x3c, &[0xff]);
    }

    fn capabilities(&mut self) {
        // Power management, version 3, no soft reset.
        self.put(0x40, &[0x01, 0x50, 0x03, 0x00, 0x08, 0x00]);
        self.allow(PM_STATUS, &[0x03, 0x01]);
        // MSI, one vector, 64-bit address.
        self.put(0x50, &[0x05, 0x70, 0x80, 0x00]);
        self.allow(0x52, &[0x71, 0x00]);
        self.allow(0x54, &[0xfc, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        // MSI-X: table at the start of BAR 3, pending bits at 0x1000.
        self.put(0x70, &[0x11, 0xa0]);
        self.put16(MSIX_CONTROL, VECTORS as u16 - 1);
        self.put32(0x74, 0x0000_0003);
        self.put32(0x78, 0x0000_1003);
        self.allow(MSIX_CONTROL + 1, &[0xc0]);
        // PCI Express 2 endpoint: function level reset, extended tags, 8 GT/s, 8 lanes.
        self.put(0xa0, &[0x10, 0x00, 0x02, 0x00]);
        self.put32(0xa4, 0x1000_8fe2 | 1 << 5);
        self.put16(DEVICE_CONTROL, 0x2810);
        self.put32(0xac, 0x0043_dc83);
        self.put16(0xb2, 0x1083);
        self.put32(0xc4, 0x0000_001f);
        self.allow(DEVICE_CONTROL, &[0xff, 0xff]);
        self.allow(0xb0, &[0xc3, 0x01]);
        self.allow(0xc8, &[0x1f, 0x00]);
    }

    fn extended_capabilities(&mut self, serial: [u8; 6]) {
        // Advanced error reporting, then the serial number.
        self.put32(0x100, 0x1402_0001);
        self.put32(0x140, 0x0001_0003);
        let [a, b, c, d, e, f] = serial;
        self.put(0x144, &[f, e, d, 0xff, 0xff, c, b, a]);
        for register in [0x108, 0x10c, 0x114, 0x118] {
            self.allow(register, &[0xff; 4]);
        }
    }

    pub fn read(&self, offset: u64, data: &mut [u8]) {
        data.fill(0xff);
        let Ok(offset) = usize::try_from(offset) else { return };
        for (to, from) in data.iter_mut().zip(self.bytes.get(offset..).unwrap_or_default()) {
            *to = *from;
        }
    }

    /// Writes what can be written; says whether a function level reset was asked for.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> bool {
        let Ok(offset) = usize::try_from(offset) else { return false };
        let bytes = self.bytes.iter_mut().zip(self.writable.iter()).skip(offset);
        for ((byte, mask), value) in bytes.zip(data) {
            *byte = *byte & !mask | value & mask;
        }
        let control = u16::from_le_bytes([self.bytes[DEVICE_CONTROL], self.bytes[DEVICE_CONTROL + 1]]);
        self.put16(DEVICE_CONTROL, control & !DEVICE_CONTROL_FLR);
        control & DEVICE_CONTROL_FLR != 0
    }

    /// The function may reach memory.
    pub fn bus_master(&self) -> bool {
        u16::from_le_bytes([self.bytes[COMMAND], self.bytes[COMMAND + 1]]) & COMMAND_BUS_MASTER != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_capabilities_ends_and_names_msix_and_pci_express() {
        let config = ConfigSpace::new(0x1583, [2, 0, 0, 0, 0, 1]);
        let byte = |at: usize| config.bytes[at];
        let (mut at, mut found) = (usize::from(byte(0x34)), Vec::new());
        while at != 0 && found.len() < 10 {
            found.push((at, byte(at)));
            at = usize::from(byte(at + 1));
        }
        assert_eq!(found, [(0x40, 0x01), (0x50, 0x05), (0x70, 0x11), (0xa0, 0x10)]);
    }

    #[test]
    fn only_what_can_be_written_is_written() {
        let mut config = ConfigSpace::new(0x1572, [0; 6]);
        assert!(!config.write(0, &[0xff; 8]));
        let mut head = [0; 8];
        config.read(0, &mut head);
        assert_eq!(head, [0x86, 0x80, 0x72, 0x15, 0x47, 0x05, 0x10, 0x00]);
        assert!(config.bus_master());
        assert!(config.write(0xa8, &[0x10, 0xa8]));
        assert!(!config.write(0xa8, &[0x10, 0x28]));
        assert!(!config.write(0xffc, &[1, 2, 3, 4, 5, 6, 7, 8]));
        assert!(!config.write(u64::MAX, &[1]));
    }
}
