//! Shadow RAM: 2048 words of settings, read a word at a time through GLNVM_SRCTL.

use crate::regs::{self, Registers};

/// Words; GLNVM_GENS says as many.
const WORDS: usize = 2048;
const CHECKSUM: usize = 0x3f;

/// The words.
pub struct ShadowRam {
    words: Vec<u16>,
}

impl ShadowRam {
    /// Settings that drivers look at, and a checksum that makes the sum of all words 0xBABA (by drivers).
    pub fn new() -> Self {
        let mut words = vec![0; WORDS];
        for (word, value) in [
            (0x00, 0x0040), // valid
            (0x17, 0x0200), // boot configuration
            (0x18, 0x6008), // version
            (0x19, 0x000f), // no wake on LAN
            (0x1b, 0xffff), // no OEM block
            (0x2d, 0x0001), // image
            (0x2e, 0x8000),
            (0x2f, 0xffff), // no vital product data to leave out of the checksum
            (0x3e, 0xffff),
            (0x48, 0x0300), // firmware settings
        ] {
            words[word] = value;
        }
        let sum = words.iter().fold(0_u16, |sum, word| sum.wrapping_add(*word));
        words[CHECKSUM] = 0xbaba_u16.wrapping_sub(sum);
        Self { words }
    }

    /// The word at `address`, for a command of the firmware.
    pub fn word(&self, address: usize) -> u16 {
        self.words.get(address).copied().unwrap_or(0xffff)
    }

    /// A write of GLNVM_SRCTL: bits 28:14 address, 30 start.
    pub fn control(&self, registers: &mut Registers, value: u32) {
        const DONE: u32 = 1 << 31;
        const START: u32 = 1 << 30;
        if value & START != 0 {
            let word = self.word((value >> 14 & 0x7fff) as usize);
            registers.set(regs::GLNVM_SRDATA, u32::from(word) << 16);
        }
        registers.set(regs::GLNVM_SRCTL, value & !START | DONE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_words_sum_to_baba() {
        let ram = ShadowRam::new();
        let mut registers = Registers::new();
        let mut sum = 0_u16;
        for address in 0..2048_u32 {
            ram.control(&mut registers, address << 14 | 1 << 30);
            assert_ne!(registers.get(regs::GLNVM_SRCTL) & 1 << 31, 0);
            sum = sum.wrapping_add((registers.get(regs::GLNVM_SRDATA) >> 16) as u16);
        }
        assert_eq!(sum, 0xbaba);
    }
}
