//! What the card counts, in its registers. Datasheet: "Statistics". The byte counters of the port include the FCS.
//!
//! The port's counters have every good frame from the wire, the VSI's every frame that its filters let through, with
//! those that found no descriptor or were longer than the queue takes (by drivers: DPDK subtracts these two).

use crate::regs::Registers;

/// The VSI's index in the GLV registers: not a port's number, which drivers take for internal traffic.
pub const VSI_INDEX: u32 = 16;

const GLPRT_GORC: u32 = 0x30_0000;
const GLPRT_GOTC: u32 = 0x30_0680;
const GLPRT_UPRC: [u32; 3] = [0x30_05a0, 0x30_05c0, 0x30_05e0];
const GLPRT_UPTC: [u32; 3] = [0x30_09c0, 0x30_09e0, 0x30_0a00];
const GLPRT_PRC64: [u32; 7] = [0x30_0480, 0x30_04a0, 0x30_04c0, 0x30_04e0, 0x30_0500, 0x30_0520, 0x30_0540];
const GLPRT_PTC64: [u32; 7] = [0x30_06a0, 0x30_06c0, 0x30_06e0, 0x30_0700, 0x30_0720, 0x30_0740, 0x30_0760];
const GLPRT_RUC: u32 = 0x30_0100;
const GLPRT_ROC: u32 = 0x30_0120;
const GLPRT_RUPP: u32 = 0x30_0660;
const GLPRT_TDOLD: u32 = 0x30_0a20;
const GLV_GORC: u32 = 0x35_8000;
const GLV_GOTC: u32 = 0x32_8000;
const GLV_UPRC: [u32; 3] = [0x36_c000, 0x36_cc00, 0x36_d800];
const GLV_UPTC: [u32; 3] = [0x33_c000, 0x33_cc00, 0x33_d800];
const GLV_RDPC: u32 = 0x31_0000;
/// Frames longer than their queue takes, of function 0 (by drivers: `I40E_GL_RXERR1L`).
const GL_RXERR1: u32 = 0x31_8000 + 8 * 128;
const FCS: u64 = 4;

/// What the MAC saw, for whoever owns the model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames from the wire that a descriptor was written for.
    pub rx_frames: u64,
    /// Their bytes, without FCS.
    pub rx_bytes: u64,
    /// Frames that found no descriptor.
    pub rx_missed: u64,
    /// Frames that were too short, too long, or for somebody else.
    pub rx_filtered: u64,
    /// Frames that a flow director filter matched, whatever became of them.
    pub rx_directed: u64,
    /// Frames put on the wire.
    pub tx_frames: u64,
    /// Their bytes, without FCS, padding included.
    pub tx_bytes: u64,
    /// Frames that were cut out of longer ones by segmentation.
    pub tx_segments: u64,
    /// Frames that were not sent because the link was down.
    pub tx_link_down: u64,
    /// Interrupts sent.
    pub interrupts: u64,
    /// Accesses to memory that failed.
    pub dma_faults: u64,
    /// Things that no driver may do.
    pub violations: u64,
}

/// Why a frame from the wire reached no descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// Shorter than 60 bytes.
    Short,
    /// Longer than the card takes.
    Oversize,
    /// Longer than the queue takes.
    Long,
    /// No filter matches.
    Filtered,
    /// A flow director filter drops it, or sends it to a VSI that receives nothing.
    Directed,
    /// No descriptor.
    NoDescriptor,
}

/// 0 unicast, 1 multicast, 2 broadcast.
pub fn kind(frame: &[u8]) -> usize {
    match frame.get(..6) {
        Some([0xff, 0xff, 0xff, 0xff, 0xff, 0xff]) => 2,
        Some([first, ..]) if first & 1 != 0 => 1,
        _ => 0,
    }
}

fn size_bin(len: u64) -> usize {
    match len {
        0..=64 => 0,
        65..=127 => 1,
        128..=255 => 2,
        256..=511 => 3,
        512..=1023 => 4,
        1024..=1522 => 5,
        _ => 6,
    }
}

impl Counters {
    /// A frame came in and was handed to the driver.
    pub fn received(&mut self, registers: &mut Registers, frame: &[u8]) {
        Self::count_port(registers, frame);
        Self::count_vsi(registers, frame);
        self.rx_frames += 1;
        self.rx_bytes += frame.len() as u64;
    }

    fn count_port(registers: &mut Registers, frame: &[u8]) {
        let len = frame.len() as u64 + FCS;
        registers.count48(GLPRT_GORC, len);
        registers.count48(GLPRT_UPRC[kind(frame)], 1);
        registers.count48(GLPRT_PRC64[size_bin(len)], 1);
    }

    /// The switch gave a frame to the VSI. Frames that find no descriptor there are among these (DPDK takes GLV_RDPC off
    /// them to get what it received).
    fn count_vsi(registers: &mut Registers, frame: &[u8]) {
        registers.count48(GLV_GORC + 8 * VSI_INDEX, frame.len() as u64 + FCS);
        registers.count48(GLV_UPRC[kind(frame)] + 8 * VSI_INDEX, 1);
    }

    /// A frame went out.
    pub fn sent(&mut self, registers: &mut Registers, frame: &[u8]) {
        let (len, kind) = (frame.len() as u64, kind(frame));
        registers.count48(GLPRT_GOTC, len + FCS);
        registers.count48(GLPRT_UPTC[kind], 1);
        registers.count48(GLPRT_PTC64[size_bin(len + FCS)], 1);
        registers.count48(GLV_GOTC + 8 * VSI_INDEX, len);
        registers.count48(GLV_UPTC[kind] + 8 * VSI_INDEX, 1);
        self.tx_frames += 1;
        self.tx_bytes += len;
    }

    /// A frame could not go out.
    pub fn not_sent(&mut self, registers: &mut Registers) {
        registers.count32(GLPRT_TDOLD, 1);
        self.tx_link_down += 1;
    }

    /// A frame came in and was not handed on.
    pub fn lost(&mut self, registers: &mut Registers, frame: &[u8], why: Lost) {
        if !matches!(why, Lost::Short | Lost::Oversize) {
            Self::count_port(registers, frame);
        }
        if matches!(why, Lost::NoDescriptor | Lost::Long) {
            Self::count_vsi(registers, frame);
        }
        match why {
            Lost::Short => registers.count32(GLPRT_RUC, 1),
            Lost::Oversize => registers.count32(GLPRT_ROC, 1),
            Lost::Long => registers.count48(GL_RXERR1, 1),
            Lost::Filtered => registers.count32(GLPRT_RUPP, 1),
            Lost::Directed => {}
            Lost::NoDescriptor => registers.count32(GLV_RDPC + 8 * VSI_INDEX, 1),
        }
        match why {
            Lost::NoDescriptor => self.rx_missed += 1,
            _ => self.rx_filtered += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_counted_by_kind_and_size_with_fcs() {
        let mut registers = Registers::new();
        let mut counters = Counters::default();
        counters.received(&mut registers, &[0xff; 60]);
        counters.received(&mut registers, &[0x01; 61]);
        counters.sent(&mut registers, &[0x02; 1518]);
        assert_eq!((registers.get(GLPRT_GORC), registers.get(GLPRT_GOTC)), (64 + 65, 1522));
        assert_eq!([0x30_05e0, 0x30_05c0, 0x30_05a0].map(|at| registers.get(at)), [1, 1, 0]);
        assert_eq!([0x30_0480, 0x30_04a0, 0x30_0740].map(|at| registers.get(at)), [1, 1, 1]);
        assert_eq!(registers.get(GLV_GOTC + 8 * VSI_INDEX), 1518);
    }

    /// A frame that found no descriptor is among the frames of port and VSI; one that no filter wants among the port's
    /// only.
    #[test]
    fn frames_that_are_lost_are_counted_where_they_came_by() {
        let mut registers = Registers::new();
        let mut counters = Counters::default();
        let frame = [0x02; 60];
        for why in [Lost::NoDescriptor, Lost::Long, Lost::Filtered, Lost::Short, Lost::Oversize] {
            counters.lost(&mut registers, &frame, why);
        }
        let vsi = |at: u32| at + 8 * VSI_INDEX;
        let read = [0x30_05a0, vsi(0x36_c000), vsi(0x31_0000), 0x31_8400].map(|at| registers.get(at));
        assert_eq!(read, [3, 2, 1, 1]);
        assert_eq!([GLPRT_RUC, GLPRT_ROC, GLPRT_RUPP].map(|at| registers.get(at)), [1, 1, 1]);
        assert_eq!((counters.rx_frames, counters.rx_missed, counters.rx_filtered), (0, 1, 4));
    }
}
