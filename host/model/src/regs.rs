//! The register file: 8 MiB of 32-bit words, by offset.
//!
//! A register that nothing here gives a meaning to keeps what is written to it (datasheet: reserved registers aside).
//! Offsets from the datasheet's "Device Registers".

use crate::filter::fields;

// Reset and identity.
pub const PFGEN_CTRL: u32 = 0x09_2400;
pub const PFGEN_CTRL_PFSWR: u32 = 1;
pub const GLGEN_RTRIG: u32 = 0x0b_8190;
pub const GLNVM_ULD: u32 = 0x0b_6008;
pub const GLNVM_GENS: u32 = 0x0b_6100;
pub const GLNVM_FLA: u32 = 0x0b_6108;
pub const GLNVM_SRCTL: u32 = 0x0b_6110;
pub const GLNVM_SRDATA: u32 = 0x0b_6114;
pub const GLVFGEN_TIMER: u32 = 0x08_81bc;
pub const GLPCI_CNF2: u32 = 0x0b_e494;
pub const GLGEN_PCIFCNCNT: u32 = 0x1c_0ab4;
pub const PFLAN_QALLOC: u32 = 0x1c_0400;
pub const PRTGEN_CNF: u32 = 0x0b_8120;
pub const GLLAN_RCTL_0: u32 = 0x12_a500;

// Admin queues.
pub const PF_ATQBAL: u32 = 0x08_0000;
pub const PF_ATQBAH: u32 = 0x08_0100;
pub const PF_ATQLEN: u32 = 0x08_0200;
pub const PF_ATQH: u32 = 0x08_0300;
pub const PF_ATQT: u32 = 0x08_0400;
pub const PF_ARQBAL: u32 = 0x08_0080;
pub const PF_ARQBAH: u32 = 0x08_0180;
pub const PF_ARQLEN: u32 = 0x08_0280;
pub const PF_ARQH: u32 = 0x08_0380;
pub const PF_ARQT: u32 = 0x08_0480;
pub const AQLEN_ENABLE: u32 = 1 << 31;
pub const AQLEN_CRITICAL: u32 = 1 << 30;

// Host memory cache.
pub const GLHMC_LANTXOBJSZ: u32 = 0x0c_2004;
pub const GLHMC_LANRXOBJSZ: u32 = 0x0c_200c;
pub const GLHMC_LANQMAX: u32 = 0x0c_2008;
pub const GLHMC_FCOEMAX: u32 = 0x0c_2014;
pub const GLHMC_FCOEDDPOBJSZ: u32 = 0x0c_2010;
pub const GLHMC_FCOEFOBJSZ: u32 = 0x0c_2018;
pub const GLHMC_FCOEFMAX: u32 = 0x0c_20d0;
pub const GLHMC_LANTXBASE: u32 = 0x0c_6200;
pub const GLHMC_LANRXBASE: u32 = 0x0c_6400;
pub const PFHMC_SDCMD: u32 = 0x0c_0000;
pub const PFHMC_SDDATALOW: u32 = 0x0c_0100;
pub const PFHMC_SDDATAHIGH: u32 = 0x0c_0200;

// Queues.
pub const QUEUES: u32 = 1536;
pub const QTX_ENA: u32 = 0x10_0000;
pub const QRX_ENA: u32 = 0x12_0000;
pub const QENA_REQ: u32 = 1 << 0;
pub const QENA_STAT: u32 = 1 << 2;
pub const QTX_HEAD: u32 = 0x0e_4000;
pub const QTX_TAIL: u32 = 0x10_8000;
pub const QRX_TAIL: u32 = 0x12_8000;
pub const QINT_RQCTL: u32 = 0x03_a000;
pub const QINT_TQCTL: u32 = 0x03_c000;

// Interrupts.
pub const PFINT_ICR0: u32 = 0x03_8780;
pub const PFINT_ICR0_ENA: u32 = 0x03_8800;
pub const PFINT_DYN_CTL0: u32 = 0x03_8480;
pub const PFINT_DYN_CTLN: u32 = 0x03_4800;
pub const GLINT_CTL: u32 = 0x03_f800;

// Receive filters.
pub const PFQF_HENA: u32 = 0x24_5900;
pub const PFQF_HKEY: u32 = 0x24_4800;
pub const PFQF_HLUT: u32 = 0x24_0000;
pub const GLQF_CTL: u32 = 0x26_9ba4;

// Port.
pub const PRTGL_SAH: u32 = 0x1e_2140;
pub const PRTMAC_LINKSTA: u32 = 0x1e_2420;
pub const PF_MDET_TX: u32 = 0x0e_6400;
pub const PF_MDET_RX: u32 = 0x12_a400;
pub const GL_MDET_TX: u32 = 0x0e_6480;

/// Bytes of the register window.
pub const BAR0_BYTES: u64 = 8 << 20;
/// Statistics: kept over a reset of the function.
const STATISTICS: std::ops::Range<u32> = 0x30_0000..0x37_1000;

/// Where `offset` is one of the per-queue registers from `first` on: the queue.
pub fn queue_of(offset: u32, first: u32) -> Option<u32> {
    let index = offset.checked_sub(first)? / 4;
    (index < QUEUES && offset.is_multiple_of(4)).then_some(index)
}

/// The words.
pub struct Registers {
    words: Vec<u32>,
}

impl Registers {
    pub fn new() -> Self {
        let mut registers = Self { words: vec![0; BAR0_BYTES as usize / 4] };
        registers.set_identity();
        registers
    }

    /// The word at `offset`; 0 outside.
    pub fn get(&self, offset: u32) -> u32 {
        self.words.get(offset as usize / 4).copied().unwrap_or(0)
    }

    /// Sets the word at `offset`; outside, nothing.
    pub fn set(&mut self, offset: u32, value: u32) {
        if let Some(word) = self.words.get_mut(offset as usize / 4) {
            *word = value;
        }
    }

    /// Adds to a counter of 48 bits, low word first.
    pub fn count48(&mut self, offset: u32, by: u64) {
        let old = u64::from(self.get(offset + 4)) << 32 | u64::from(self.get(offset));
        let new = old.wrapping_add(by) & 0xffff_ffff_ffff;
        self.set(offset, new as u32);
        self.set(offset + 4, (new >> 32) as u32);
    }

    /// Adds to a counter of 32 bits.
    pub fn count32(&mut self, offset: u32, by: u32) {
        self.set(offset, self.get(offset).wrapping_add(by));
    }

    /// All counters begin again.
    pub fn clear_statistics(&mut self) {
        STATISTICS.step_by(4).for_each(|offset| self.set(offset, 0));
    }

    /// Reset of the function: everything but statistics.
    pub fn reset(&mut self) {
        let kept = STATISTICS.start as usize / 4..STATISTICS.end as usize / 4;
        let statistics = self.words.get(kept.clone()).unwrap_or_default().to_vec();
        self.words.fill(0);
        if let Some(words) = self.words.get_mut(kept) {
            words.copy_from_slice(&statistics);
        }
        self.set_identity();
    }

    /// What a healthy card with one function and 128 queues says of itself (values by drivers).
    fn set_identity(&mut self) {
        for (offset, value) in [
            (GLNVM_ULD, 0x7ff),
            (GLNVM_GENS, 0x41),
            (GLNVM_FLA, 0x40),
            (GLNVM_SRCTL, 1 << 31),
            (GLPCI_CNF2, 128 << 2 | 5 << 13),
            (GLGEN_PCIFCNCNT, 1),
            (PFLAN_QALLOC, 1 << 31 | 127 << 16),
            (PRTGEN_CNF + 4, 1),
            (PRTGEN_CNF + 8, 1),
            (PRTGEN_CNF + 12, 1),
            (GLHMC_LANTXOBJSZ, 7),
            (GLHMC_LANRXOBJSZ, 5),
            (GLHMC_LANQMAX, QUEUES),
            (GLHMC_FCOEMAX, 0x1000),
            (GLHMC_FCOEDDPOBJSZ, 6),
            (GLHMC_FCOEFOBJSZ, 6),
            (GLHMC_FCOEFMAX, 0x8000),
            (PRTGL_SAH, 9728 << 16),
            // Hashes are Toeplitz's.
            (GLQF_CTL, 1 << 1),
        ] {
            self.set(offset, value);
        }
        fields::set_defaults(self);
    }
}
