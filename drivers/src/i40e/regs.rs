//! Registers that this driver touches, by their datasheet names; any other offset is never read or written.
//!
//! Offsets: datasheet section "Device Registers". Indexes of queue registers are relative to the physical
//! function, except for GLLAN_TXPRE_QDIS.

use bitflags::bitflags;
use hal::{Reg, RegArray, Ro, Rw, Wo, register_flags};

/// Queues of a card; registers exist for each.
pub const QUEUES: usize = 1536;

bitflags! {
    /// PFGEN_CTRL
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct PfGenCtrl: u32 {
        /// Start a reset of the physical function; clears itself when done.
        const PFSWR = 1 << 0;
    }

    /// GLNVM_ULD: which parts have loaded their settings after a reset.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct NvmUld: u32 {
        /// Core.
        const CORE_DONE = 1 << 3;
        /// Global.
        const GLOBAL_DONE = 1 << 4;
    }

    /// PF_ATQLEN and PF_ARQLEN; bits 9:0 are the length.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct AqLen: u32 {
        /// Error of a virtual function.
        const VFE = 1 << 28;
        /// Overflow.
        const OVFL = 1 << 29;
        /// Critical error.
        const CRIT = 1 << 30;
        /// The queue runs.
        const ENABLE = 1 << 31;
    }

    /// QTX_ENA and QRX_ENA
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct QueueEnable: u32 {
        /// The driver wants the queue to run.
        const REQ = 1 << 0;
        /// The queue runs.
        const STAT = 1 << 2;
    }

    /// GLLAN_TXPRE_QDIS; bits 10:0 are the queue within its group of 128.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct TxPreQdis: u32 {
        /// The queue is about to be disabled.
        const SET_QDIS = 1 << 30;
        /// The queue is about to be enabled.
        const CLEAR_QDIS = 1 << 31;
    }

    /// PFLAN_QALLOC; bits 10:0 first queue, 26:16 last queue.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct QAlloc: u32 {
        /// The function has queues.
        const VALID = 1 << 31;
    }

    /// PFQF_CTL_0
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct PfqfCtl0: u32 {
        /// The RSS table has 512 entries.
        const HASHLUTSIZE_512 = 1 << 16;
        /// Ethertype filters work.
        const ETYPE_ENA = 1 << 18;
        /// MAC and VLAN filters work.
        const MACVLAN_ENA = 1 << 19;
    }
}

register_flags!(PfGenCtrl, NvmUld, AqLen, QueueEnable, TxPreQdis, QAlloc, PfqfCtl0);

// Reset and identity.
pub const PFGEN_CTRL: Reg<PfGenCtrl, Rw> = Reg::at(0x09_2400);
/// Bits 1:0: a reset is under way.
pub const GLGEN_RSTAT: Reg<u32, Ro> = Reg::at(0x0b_8188);
/// Bits 5:0: longest reset, in units of 100 ms.
pub const GLGEN_RSTCTL: Reg<u32, Ro> = Reg::at(0x0b_8180);
pub const GLNVM_ULD: Reg<NvmUld, Ro> = Reg::at(0x0b_6008);
/// Bits 23:16: not 0 while the firmware is in recovery mode.
pub const GL_FWSTS: Reg<u32, Ro> = Reg::at(0x08_3048);
/// Bits 2:0: number of the physical function.
pub const PF_FUNC_RID: Reg<u32, Ro> = Reg::at(0x09_c000);
/// Bits 1:0: number of the port.
pub const PFGEN_PORTNUM: Reg<u32, Ro> = Reg::at(0x1c_0480);
pub const PFLAN_QALLOC: Reg<QAlloc, Ro> = Reg::at(0x1c_0400);
/// Bit 0: write 1 to leave PXE mode.
pub const GLLAN_RCTL_0: Reg<u32, Rw> = Reg::at(0x12_a500);

// Admin queues: transmit (ATQ, commands) and receive (ARQ, events).
pub const PF_ATQBAL: Reg<u32, Rw> = Reg::at(0x08_0000);
pub const PF_ATQBAH: Reg<u32, Rw> = Reg::at(0x08_0100);
pub const PF_ATQLEN: Reg<AqLen, Rw> = Reg::at(0x08_0200);
pub const PF_ATQH: Reg<u32, Rw> = Reg::at(0x08_0300);
pub const PF_ATQT: Reg<u32, Rw> = Reg::at(0x08_0400);
pub const PF_ARQBAL: Reg<u32, Rw> = Reg::at(0x08_0080);
pub const PF_ARQBAH: Reg<u32, Rw> = Reg::at(0x08_0180);
pub const PF_ARQLEN: Reg<AqLen, Rw> = Reg::at(0x08_0280);
pub const PF_ARQH: Reg<u32, Rw> = Reg::at(0x08_0380);
pub const PF_ARQT: Reg<u32, Rw> = Reg::at(0x08_0480);

/// Bit 0: the card has stopped a queue of this function since a descriptor was illegal; writing 1 clears it.
pub const PF_MDET_TX: Reg<u32, Rw> = Reg::at(0x0e_6400);
/// Bit 0: likewise, a receive queue.
pub const PF_MDET_RX: Reg<u32, Rw> = Reg::at(0x12_a400);

// Host memory cache.
/// Bits 3:0: log2 of the bytes of a transmit context.
pub const GLHMC_LANTXOBJSZ: Reg<u32, Ro> = Reg::at(0x0c_2004);
/// Bits 3:0: log2 of the bytes of a receive context.
pub const GLHMC_LANRXOBJSZ: Reg<u32, Ro> = Reg::at(0x0c_200c);
/// Bits 10:0: most queues.
pub const GLHMC_LANQMAX: Reg<u32, Ro> = Reg::at(0x0c_2008);
/// Bits 23:0: where transmit contexts start, in 512 bytes; one a physical function.
pub const GLHMC_LANTXBASE: RegArray<u32, Rw, 16> = RegArray::at(0x0c_6200, 4);
pub const GLHMC_LANTXCNT: RegArray<u32, Rw, 16> = RegArray::at(0x0c_6300, 4);
pub const GLHMC_LANRXBASE: RegArray<u32, Rw, 16> = RegArray::at(0x0c_6400, 4);
pub const GLHMC_LANRXCNT: RegArray<u32, Rw, 16> = RegArray::at(0x0c_6500, 4);
pub const GLHMC_FCOEDDPCNT: RegArray<u32, Rw, 16> = RegArray::at(0x0c_6700, 4);
pub const GLHMC_FCOEFCNT: RegArray<u32, Rw, 16> = RegArray::at(0x0c_6900, 4);
/// Bits 11:0: segment descriptor; bit 31: write it.
pub const PFHMC_SDCMD: Reg<u32, Wo> = Reg::at(0x0c_0000);
/// Bit 0 valid, 1 direct, 11:2 pages, 31:12 address.
pub const PFHMC_SDDATALOW: Reg<u32, Rw> = Reg::at(0x0c_0100);
pub const PFHMC_SDDATAHIGH: Reg<u32, Rw> = Reg::at(0x0c_0200);

// Queues.
pub const QTX_ENA: RegArray<QueueEnable, Rw, QUEUES> = RegArray::at(0x10_0000, 4);
pub const QRX_ENA: RegArray<QueueEnable, Rw, QUEUES> = RegArray::at(0x12_0000, 4);
/// Bits 1:0: 2 for a physical function; 5:2 its number.
pub const QTX_CTL: RegArray<u32, Rw, QUEUES> = RegArray::at(0x10_4000, 4);
pub const QTX_HEAD: RegArray<u32, Rw, QUEUES> = RegArray::at(0x0e_4000, 4);
pub const QTX_TAIL: RegArray<u32, Rw, QUEUES> = RegArray::at(0x10_8000, 4);
pub const QRX_TAIL: RegArray<u32, Rw, QUEUES> = RegArray::at(0x12_8000, 4);
/// One for each 128 queues of the card.
pub const GLLAN_TXPRE_QDIS: RegArray<TxPreQdis, Rw, 12> = RegArray::at(0x0e_6500, 4);
pub const QINT_RQCTL: RegArray<u32, Rw, QUEUES> = RegArray::at(0x03_a000, 4);
pub const QINT_TQCTL: RegArray<u32, Rw, QUEUES> = RegArray::at(0x03_c000, 4);

// Interrupts: only to turn them off.
pub const PFINT_ICR0_ENA: Reg<u32, Rw> = Reg::at(0x03_8800);
pub const PFINT_DYN_CTL0: Reg<u32, Rw> = Reg::at(0x03_8480);
pub const PFINT_LNKLST0: Reg<u32, Rw> = Reg::at(0x03_8500);

/// Receive filters. Reached by admin command, or directly where firmware lacks it.
pub const PFQF_CTL_0: Reg<PfqfCtl0, Rw> = Reg::at(0x1c_0ac0);

/// Bits of kinds of packets for which a hash is made, 32 a register.
pub const PFQF_HENA: RegArray<u32, Rw, 2> = RegArray::at(0x24_5900, 128);
/// Bytes of the hash's key, 4 a register.
pub const PFQF_HKEY: RegArray<u32, Rw, 13> = RegArray::at(0x24_4800, 128);
/// Entries of the hash's table, 4 a register, 6 bits each.
pub const PFQF_HLUT: RegArray<u32, Rw, 128> = RegArray::at(0x24_0000, 128);

/// Shadow RAM: bits 28:14 the word's address, 30 start, 31 done.
pub const GLNVM_SRCTL: Reg<u32, Rw> = Reg::at(0x0b_6110);
/// Bits 31:16: the word.
pub const GLNVM_SRDATA: Reg<u32, Ro> = Reg::at(0x0b_6114);

/// Statistics of the port: 4 ports at a distance of 8 bytes, low word first.
pub const GLPRT_GOTCL: RegArray<u32, Ro, 4> = RegArray::at(0x30_0680, 8);
pub const GLPRT_UPTCL: RegArray<u32, Ro, 4> = RegArray::at(0x30_09c0, 8);
pub const GLPRT_MPTCL: RegArray<u32, Ro, 4> = RegArray::at(0x30_09e0, 8);
pub const GLPRT_BPTCL: RegArray<u32, Ro, 4> = RegArray::at(0x30_0a00, 8);
/// Frames for which the port had no buffer.
pub const GLPRT_RDPC: RegArray<u32, Ro, 4> = RegArray::at(0x30_0600, 8);
/// Frames that were not sent because the link was down.
pub const GLPRT_TDOLD: RegArray<u32, Ro, 4> = RegArray::at(0x30_0a20, 8);
pub const GLPRT_CRCERRS: RegArray<u32, Ro, 4> = RegArray::at(0x30_0080, 8);
pub const GLPRT_ILLERRC: RegArray<u32, Ro, 4> = RegArray::at(0x30_00e0, 8);
pub const GLPRT_RLEC: RegArray<u32, Ro, 4> = RegArray::at(0x30_00a0, 8);
pub const GLPRT_RUC: RegArray<u32, Ro, 4> = RegArray::at(0x30_0100, 8);
pub const GLPRT_RFC: RegArray<u32, Ro, 4> = RegArray::at(0x30_0560, 8);
pub const GLPRT_ROC: RegArray<u32, Ro, 4> = RegArray::at(0x30_0120, 8);
pub const GLPRT_RJC: RegArray<u32, Ro, 4> = RegArray::at(0x30_0580, 8);
/// What reached a VSI, by its statistics index.
pub const GLV_GORCL: RegArray<u32, Ro, 384> = RegArray::at(0x35_8000, 8);
pub const GLV_UPRCL: RegArray<u32, Ro, 384> = RegArray::at(0x36_c000, 8);
pub const GLV_MPRCL: RegArray<u32, Ro, 384> = RegArray::at(0x36_cc00, 8);
pub const GLV_BPRCL: RegArray<u32, Ro, 384> = RegArray::at(0x36_d800, 8);
/// Frames longer than their queue takes; by port, behind those of functions.
pub const GL_RXERR1L: RegArray<u32, Ro, 4> = RegArray::at(0x31_8400, 8);
/// Frames for which a VSI's queue had no descriptor; by the VSI's statistics index.
pub const GLV_RDPC: RegArray<u32, Ro, 384> = RegArray::at(0x31_0000, 8);
