//! The module in the port's cage: what its memory says of it. SFP+ by SFF-8472, QSFP+ by SFF-8636; neither has
//! diagnostics.

use super::{Reply, Request, code};

/// A module with optics for short distances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Module {
    /// SFP+, 10GBASE-SR.
    Sfp,
    /// QSFP+, 40GBASE-SR4.
    Qsfp,
}

/// Device address of an SFP's own memory.
const SFP_DEVICE: u8 = 0xa0;
const VENDOR: &[u8; 16] = b"BAREWIRE        ";

impl Module {
    /// Identifier and speeds, as the PHY commands tell them.
    pub const fn kind(self) -> [u8; 3] {
        match self {
            Self::Sfp => [0x03, 0x10, 0x00],
            Self::Qsfp => [0x0d, 0x04, 0x00],
        }
    }

    fn memory(self) -> [u8; 256] {
        let mut memory = [0; 256];
        let mut put = |at: usize, bytes: &[u8]| memory[at..at + bytes.len()].copy_from_slice(bytes);
        match self {
            Self::Sfp => {
                // Identifier, LC, 10GBASE-SR, 64B/66B, 10.3 Gb/s, 80 m and 300 m of fibre, 850 nm.
                put(0, &[0x03, 0x04, 0x07, 0x10]);
                put(11, &[0x06, 103]);
                put(16, &[8, 0, 0, 30]);
                put(20, VENDOR);
                put(40, b"SOFTWARE SR     1   ");
                put(60, &850_u16.to_be_bytes());
                put(68, b"1               260101  ");
                memory[63] = sum(&memory[..63]);
                memory[95] = sum(&memory[64..95]);
            }
            Self::Qsfp => {
                // Identifier, revision, one page only; MPO, 40GBASE-SR4, 64B/66B, 10.3 Gb/s a lane, 850 nm.
                put(0, &[0x0d, 0x07, 0x04]);
                put(128, &[0x0d, 0x00, 0x0c, 0x04]);
                put(139, &[0x05, 103]);
                put(148, VENDOR);
                put(168, b"SOFTWARE SR4    1 ");
                put(186, &(850_u16 * 20).to_be_bytes());
                put(196, b"1               260101  ");
                memory[191] = sum(&memory[128..191]);
                memory[223] = sum(&memory[192..223]);
            }
        }
        memory
    }

    /// Get PHY Register, for the memory of the module: one byte. A QSFP's device address is a page, and without others
    /// every page is the first.
    pub fn command(self, request: &Request) -> Reply {
        const MODULE: u8 = 2;
        if request.u8(0) != MODULE || self == Self::Sfp && request.u8(1) != SFP_DEVICE {
            return Reply::error(code::ENXIO);
        }
        match self.memory().get(request.u32(4) as usize) {
            Some(byte) => Reply::params(request, &[(8, &u32::from(*byte).to_le_bytes())]),
            None => Reply::error(code::EINVAL),
        }
    }
}

/// Check codes are the low bytes of sums.
fn sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum: u8, byte| sum.wrapping_add(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(module: Module, device: u8, at: u32) -> Option<u32> {
        let mut request = Request { opcode: 0x0629, params: [0; 16], buffer: Vec::new() };
        request.params[..2].copy_from_slice(&[2, device]);
        request.params[4..8].copy_from_slice(&at.to_le_bytes());
        let params = module.command(&request).params?;
        Some(u32::from_le_bytes([params[8], params[9], params[10], params[11]]))
    }

    /// SFF-8472, 3 and 5: identifier, 10GBASE-SR, and the vendor. SFF-8636, 6.3: the same of a QSFP+.
    #[test]
    fn a_module_says_what_it_is() {
        let bytes =
            |module, device, at: [u32; 4]| at.map(|at| read(module, device, at).unwrap_or(u32::MAX) as u8);
        assert_eq!(bytes(Module::Sfp, 0xa0, [0, 3, 20, 60]), [3, 0x10, b'B', 0x03]);
        assert_eq!(bytes(Module::Qsfp, 0, [0, 128, 131, 148]), [0x0d, 0x0d, 0x04, b'B']);
        assert_eq!(read(Module::Sfp, 0xa2, 0), None);
        assert_eq!(read(Module::Qsfp, 0, 256), None);
        assert_eq!(read(Module::Sfp, 0xa0, u32::MAX), None);
    }
}
