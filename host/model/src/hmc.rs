//! The host memory cache: where queue contexts lie in the guest's memory. Datasheet: "Host Memory Cache".

use crate::dma::GuestMemory;
use crate::regs::{self, Registers};

const SEGMENTS: usize = 4096;
const SEGMENT: u64 = 2 << 20;
const DIRECT: u64 = 1 << 1;
const VALID: u64 = 1 << 0;

/// Segment descriptors: address and kind, 0 when not valid.
#[derive(Default)]
pub struct Hmc {
    segments: Vec<u64>,
}

impl Hmc {
    pub fn reset(&mut self) {
        self.segments.clear();
    }

    /// A write of PFHMC_SDCMD.
    pub fn command(&mut self, registers: &Registers, value: u32) {
        const WRITE: u32 = 1 << 31;
        let index = (value & 0xfff) as usize;
        if value & WRITE == 0 || index >= SEGMENTS {
            return;
        }
        let low = u64::from(registers.get(regs::PFHMC_SDDATALOW));
        let high = u64::from(registers.get(regs::PFHMC_SDDATAHIGH));
        if self.segments.len() <= index {
            self.segments.resize(index + 1, 0);
        }
        self.segments[index] = if low & VALID != 0 { high << 32 | low } else { 0 };
    }

    /// Context of `N` bytes of queue `queue`, from the base register at `base`.
    pub fn context<const N: usize>(
        &self,
        registers: &Registers,
        memory: &GuestMemory,
        base: u32,
        queue: u32,
    ) -> Option<[u8; N]> {
        let offset = u64::from(registers.get(base) & 0xff_ffff) * 512 + u64::from(queue) * N as u64;
        let segment = *self.segments.get((offset / SEGMENT) as usize)?;
        if segment & VALID == 0 {
            return None;
        }
        let (start, inside) = (segment & !0xfff, offset % SEGMENT);
        let addr = if segment & DIRECT != 0 {
            start.wrapping_add(inside)
        } else {
            let mut page = [0; 8];
            memory.read(start.wrapping_add(inside / 4096 * 8), &mut page).ok()?;
            let page = u64::from_le_bytes(page);
            if page & VALID == 0 {
                return None;
            }
            (page & !0xfff) + inside % 4096
        };
        let mut context = [0; N];
        memory.read(addr, &mut context).ok()?;
        Some(context)
    }
}

/// Bits `lsb..lsb + width` of a context, width at most 64.
pub fn field(context: &[u8], lsb: usize, width: usize) -> u64 {
    (0..width).fold(0, |value, bit| {
        let at = lsb + bit;
        let set = context.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 != 0);
        value | u64::from(set) << bit
    })
}
