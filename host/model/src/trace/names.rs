//! Names of registers, admin commands and return codes, as the datasheet has them.

/// Registers of one name: first offset; how many and how far apart; for two indices the same for the second.
struct Array(&'static str, u32, (u32, u32), (u32, u32));

const fn one(name: &'static str, first: u32) -> Array {
    Array(name, first, (1, 4), (1, 4))
}

const fn row(name: &'static str, first: u32, count: u32, stride: u32) -> Array {
    Array(name, first, (count, stride), (1, 4))
}

const QUEUES: u32 = 1536;
const VECTORS: u32 = 511;

/// Datasheet: "Device Registers".
const REGISTERS: &[Array] = &[
    one("PFGEN_CTRL", 0x09_2400),
    one("GLGEN_RSTAT", 0x0b_8188),
    one("GLGEN_RSTCTL", 0x0b_8180),
    one("GLGEN_RTRIG", 0x0b_8190),
    one("GLGEN_STAT", 0x0b_612c),
    one("GLGEN_PCIFCNCNT", 0x1c_0ab4),
    one("GLNVM_ULD", 0x0b_6008),
    one("GLNVM_GENS", 0x0b_6100),
    one("GLNVM_FLA", 0x0b_6108),
    one("GLNVM_SRCTL", 0x0b_6110),
    one("GLNVM_SRDATA", 0x0b_6114),
    one("GL_FWSTS", 0x08_3048),
    one("GLVFGEN_TIMER", 0x08_81bc),
    one("GLPCI_CNF2", 0x0b_e494),
    one("GLPCI_CAPSUP", 0x0b_e4a8),
    one("GLPCI_LBARCTRL", 0x0b_e484),
    one("PRTGEN_STATUS", 0x0b_8100),
    one("PF_FUNC_RID", 0x09_c000),
    one("PFGEN_PORTNUM", 0x1c_0480),
    one("PFPCI_SUBSYSID", 0x0b_e100),
    one("PFLAN_QALLOC", 0x1c_0400),
    one("PF_VT_PFALLOC", 0x1c_0500),
    row("PRTGEN_CNF", 0x0b_8120, 4, 4),
    one("GLLAN_RCTL_0", 0x12_a500),
    row("PFPM_APM", 0x0b_8080, 16, 4),
    row("PFPM_WUFC", 0x06_b400, 16, 4),
    one("PF_ATQBAL", 0x08_0000),
    one("PF_ATQBAH", 0x08_0100),
    one("PF_ATQLEN", 0x08_0200),
    one("PF_ATQH", 0x08_0300),
    one("PF_ATQT", 0x08_0400),
    one("PF_ARQBAL", 0x08_0080),
    one("PF_ARQBAH", 0x08_0180),
    one("PF_ARQLEN", 0x08_0280),
    one("PF_ARQH", 0x08_0380),
    one("PF_ARQT", 0x08_0480),
    one("GLHMC_LANTXOBJSZ", 0x0c_2004),
    one("GLHMC_LANQMAX", 0x0c_2008),
    one("GLHMC_LANRXOBJSZ", 0x0c_200c),
    one("GLHMC_FCOEDDPOBJSZ", 0x0c_2010),
    one("GLHMC_FCOEMAX", 0x0c_2014),
    one("GLHMC_FCOEFOBJSZ", 0x0c_2018),
    one("GLHMC_FCOEFMAX", 0x0c_20d0),
    row("GLHMC_LANTXBASE", 0x0c_6200, 16, 4),
    row("GLHMC_LANTXCNT", 0x0c_6300, 16, 4),
    row("GLHMC_LANRXBASE", 0x0c_6400, 16, 4),
    row("GLHMC_LANRXCNT", 0x0c_6500, 16, 4),
    row("GLHMC_FCOEDDPBASE", 0x0c_6600, 16, 4),
    row("GLHMC_FCOEDDPCNT", 0x0c_6700, 16, 4),
    row("GLHMC_FCOEFBASE", 0x0c_6800, 16, 4),
    row("GLHMC_FCOEFCNT", 0x0c_6900, 16, 4),
    one("PFHMC_SDCMD", 0x0c_0000),
    one("PFHMC_SDDATALOW", 0x0c_0100),
    one("PFHMC_SDDATAHIGH", 0x0c_0200),
    one("PFHMC_PDINV", 0x0c_0300),
    one("PFHMC_ERRORINFO", 0x0c_0400),
    one("PFHMC_ERRORDATA", 0x0c_0500),
    row("QTX_ENA", 0x10_0000, QUEUES, 4),
    row("QRX_ENA", 0x12_0000, QUEUES, 4),
    row("QTX_CTL", 0x10_4000, QUEUES, 4),
    row("QTX_HEAD", 0x0e_4000, QUEUES, 4),
    row("QTX_TAIL", 0x10_8000, QUEUES, 4),
    row("QRX_TAIL", 0x12_8000, QUEUES, 4),
    row("GLLAN_TXPRE_QDIS", 0x0e_6500, 12, 4),
    row("QINT_RQCTL", 0x03_a000, QUEUES, 4),
    row("QINT_TQCTL", 0x03_c000, QUEUES, 4),
    one("PFINT_ICR0", 0x03_8780),
    one("PFINT_ICR0_ENA", 0x03_8800),
    one("PFINT_DYN_CTL0", 0x03_8480),
    row("PFINT_DYN_CTLN", 0x03_4800, VECTORS, 4),
    one("PFINT_STAT_CTL0", 0x03_8400),
    one("PFINT_LNKLST0", 0x03_8500),
    row("PFINT_LNKLSTN", 0x03_5000, VECTORS, 4),
    row("PFINT_ITR0", 0x03_8000, 3, 128),
    Array("PFINT_ITRN", 0x03_0000, (3, 2048), (VECTORS, 4)),
    one("PFINT_RATE0", 0x03_8580),
    row("PFINT_RATEN", 0x03_5800, VECTORS, 4),
    one("GLINT_CTL", 0x03_f800),
    row("VPINT_LNKLST0", 0x02_a800, 128, 4),
    row("VPINT_LNKLSTN", 0x02_5000, 512, 4),
    one("PFQF_CTL_0", 0x1c_0ac0),
    one("PFQF_CTL_1", 0x24_5d80),
    row("PFQF_HENA", 0x24_5900, 2, 128),
    row("PFQF_HKEY", 0x24_4800, 13, 128),
    row("PFQF_HLUT", 0x24_0000, 128, 128),
    row("PFQF_HREGION", 0x24_5400, 8, 128),
    one("PFQF_FDALLOC", 0x24_6280),
    one("PFQF_FDSTAT", 0x24_6380),
    one("PRTQF_CTL_0", 0x25_6e60),
    Array("PRTQF_FD_INSET", 0x25_0000, (64, 64), (2, 32)),
    row("GLQF_HKEY", 0x27_0140, 13, 4),
    one("GLQF_CTL", 0x26_9ba4),
    one("GLQF_FDCNT_0", 0x26_9bac),
    row("GLQF_HSYM", 0x26_9d00, 64, 4),
    row("GLQF_ORT", 0x26_8900, 64, 4),
    row("GLQF_PIT", 0x26_8c80, 24, 4),
    row("GLQF_L3_MAP", 0x26_c700, 64, 4),
    Array("GLQF_HASH_INSET", 0x26_7600, (64, 8), (2, 4)),
    Array("GLQF_HASH_MSK", 0x26_7a00, (64, 8), (2, 4)),
    Array("GLQF_FD_MSK", 0x26_7200, (64, 8), (2, 4)),
    row("GLQF_PCNT", 0x26_6800, 512, 4),
    one("PRTGL_SAL", 0x1e_2120),
    one("PRTGL_SAH", 0x1e_2140),
    one("PRTMAC_LINKSTA", 0x1e_2420),
    one("PRTMAC_MACC", 0x1e_24e0),
    one("PRTDCB_MFLCN", 0x1e_2400),
    one("PRTDCB_FCCFG", 0x1e_4640),
    one("PRTDCB_FCRTV", 0x1e_4600),
    row("PRTDCB_FCTTVN", 0x1e_4580, 4, 32),
    one("PRTDCB_GENS", 0x08_3020),
    one("PRT_L2TAGSEN", 0x1c_0b20),
    row("GL_SWT_L2TAGCTRL", 0x1c_0a70, 8, 4),
    row("VSI_TSR", 0x05_0800, 384, 4),
    row("VSI_L2TAGSTXVALID", 0x04_2800, 384, 4),
    one("GLLAN_TSOMSK_F", 0x04_42d8),
    one("GLLAN_TSOMSK_M", 0x04_42dc),
    one("GLLAN_TSOMSK_L", 0x04_42e0),
    one("GL_MDET_TX", 0x0e_6480),
    one("GL_MDET_RX", 0x12_a510),
    one("PF_MDET_TX", 0x0e_6400),
    one("PF_MDET_RX", 0x12_a400),
    one("PRTTSYN_CTL0", 0x1e_4200),
    one("PRTTSYN_CTL1", 0x08_5020),
    one("PRTTSYN_INC_L", 0x1e_4040),
    one("PRTTSYN_INC_H", 0x1e_4060),
    one("PRTTSYN_TIME_L", 0x1e_4100),
    one("PRTTSYN_TIME_H", 0x1e_4120),
    one("PRTTSYN_TXTIME_L", 0x1e_41c0),
    one("PRTTSYN_TXTIME_H", 0x1e_41e0),
    one("PRTTSYN_STAT_0", 0x1e_4220),
    one("PRTTSYN_STAT_1", 0x08_5140),
    one("PRTTSYN_ADJ", 0x1e_4280),
    row("PRTTSYN_RXTIME_L", 0x08_50c0, 4, 32),
    row("PRTTSYN_RXTIME_H", 0x08_5040, 4, 32),
    one("PRTPM_EEE_STAT", 0x1e_4320),
    one("PRTPM_TLPIC", 0x1e_43c0),
    one("PRTPM_RLPIC", 0x1e_43a0),
    row("GLPRT_CRCERRS", 0x30_0080, 4, 8),
    row("GLPRT_ILLERRC", 0x30_00e0, 4, 8),
    row("GLPRT_MLFC", 0x30_0020, 4, 8),
    row("GLPRT_MRFC", 0x30_0040, 4, 8),
    row("GLPRT_RLEC", 0x30_00a0, 4, 8),
    row("GLPRT_RUC", 0x30_0100, 4, 8),
    row("GLPRT_ROC", 0x30_0120, 4, 8),
    row("GLPRT_RFC", 0x30_0560, 4, 8),
    row("GLPRT_RJC", 0x30_0580, 4, 8),
    row("GLPRT_RDPC", 0x30_0600, 4, 8),
    row("GLPRT_RUPP", 0x30_0660, 4, 8),
    row("GLPRT_TDOLD", 0x30_0a20, 4, 8),
    row("GLPRT_LXONRXC", 0x30_0140, 4, 8),
    row("GLPRT_LXOFFRXC", 0x30_0160, 4, 8),
    row("GLPRT_LXONTXC", 0x30_0980, 4, 8),
    row("GLPRT_LXOFFTXC", 0x30_09a0, 4, 8),
    Array("GLPRT_PXONRXC", 0x30_0180, (8, 32), (4, 8)),
    Array("GLPRT_PXOFFRXC", 0x30_0280, (8, 32), (4, 8)),
    Array("GLPRT_RXON2OFFCNT", 0x30_0380, (8, 32), (4, 8)),
    Array("GLPRT_PXONTXC", 0x30_0780, (8, 32), (4, 8)),
    Array("GLPRT_PXOFFTXC", 0x30_0880, (8, 32), (4, 8)),
    row("GLV_RDPC", 0x31_0000, 384, 8),
    row("GLV_RUPP", 0x36_e400, 384, 8),
    row("GLV_TEPC", 0x34_4000, 384, 8),
];

/// Counters of 48 bits: an `L` register, and the `H` register 4 bytes on; 8 bytes from one to the next.
const COUNTERS: &[(&str, u32, u32)] = &[
    ("GLPRT_GORC", 0x30_0000, 4),
    ("GLPRT_GOTC", 0x30_0680, 4),
    ("GLPRT_UPRC", 0x30_05a0, 4),
    ("GLPRT_MPRC", 0x30_05c0, 4),
    ("GLPRT_BPRC", 0x30_05e0, 4),
    ("GLPRT_UPTC", 0x30_09c0, 4),
    ("GLPRT_MPTC", 0x30_09e0, 4),
    ("GLPRT_BPTC", 0x30_0a00, 4),
    ("GLPRT_PRC64", 0x30_0480, 4),
    ("GLPRT_PRC127", 0x30_04a0, 4),
    ("GLPRT_PRC255", 0x30_04c0, 4),
    ("GLPRT_PRC511", 0x30_04e0, 4),
    ("GLPRT_PRC1023", 0x30_0500, 4),
    ("GLPRT_PRC1522", 0x30_0520, 4),
    ("GLPRT_PRC9522", 0x30_0540, 4),
    ("GLPRT_PTC64", 0x30_06a0, 4),
    ("GLPRT_PTC127", 0x30_06c0, 4),
    ("GLPRT_PTC255", 0x30_06e0, 4),
    ("GLPRT_PTC511", 0x30_0700, 4),
    ("GLPRT_PTC1023", 0x30_0720, 4),
    ("GLPRT_PTC1522", 0x30_0740, 4),
    ("GLPRT_PTC9522", 0x30_0760, 4),
    ("GL_RXERR1_", 0x31_8000, 144),
    ("GLV_GORC", 0x35_8000, 384),
    ("GLV_UPRC", 0x36_c000, 384),
    ("GLV_MPRC", 0x36_cc00, 384),
    ("GLV_BPRC", 0x36_d800, 384),
    ("GLV_GOTC", 0x32_8000, 384),
    ("GLV_UPTC", 0x33_c000, 384),
    ("GLV_MPTC", 0x33_cc00, 384),
    ("GLV_BPTC", 0x33_d800, 384),
];

/// The register at a byte offset of BAR 0, with its indices; the offset where it has no name here.
pub fn register(offset: u32) -> String {
    for (name, first, count) in COUNTERS {
        let at = offset.wrapping_sub(*first);
        if at < count * 8 && at.is_multiple_of(4) {
            let half = if at.is_multiple_of(8) { 'L' } else { 'H' };
            return format!("{name}{half}[{}]", at / 8);
        }
    }
    for Array(name, first, (count, stride), (inner, step)) in REGISTERS {
        let at = offset.wrapping_sub(*first);
        let (index, rest) = (at / stride, at % stride);
        if index < *count && rest / step < *inner && rest.is_multiple_of(*step) {
            return match (*count, *inner) {
                (1, 1) => (*name).to_owned(),
                (_, 1) => format!("{name}[{index}]"),
                _ => format!("{name}[{index},{}]", rest / step),
            };
        }
    }
    format!("{offset:#08x}")
}

/// Datasheet: "Admin Commands".
const COMMANDS: &[(u16, &str)] = &[
    (0x0001, "Get Version"),
    (0x0002, "Driver Version"),
    (0x0003, "Queue Shutdown"),
    (0x0008, "Request Resource"),
    (0x0009, "Release Resource"),
    (0x000a, "List Function Capabilities"),
    (0x000b, "List Device Capabilities"),
    (0x0104, "Set Proxy Config"),
    (0x0107, "MAC Address Read"),
    (0x0108, "MAC Address Write"),
    (0x0110, "Clear PXE Mode"),
    (0x0200, "Get Switch Configuration"),
    (0x0201, "Add Statistics"),
    (0x0202, "Remove Statistics"),
    (0x0203, "Set Port Parameters"),
    (0x0204, "Get Switch Resource Allocation"),
    (0x0205, "Set Switch Configuration"),
    (0x0206, "RX Control Register Read"),
    (0x0207, "RX Control Register Write"),
    (0x0210, "Add VSI"),
    (0x0211, "Update VSI Parameters"),
    (0x0212, "Get VSI Parameters"),
    (0x0230, "Add VEB"),
    (0x0231, "Update VEB Parameters"),
    (0x0232, "Get VEB Parameters"),
    (0x0243, "Delete Element"),
    (0x0250, "Add MAC, VLAN Pair"),
    (0x0251, "Remove MAC, VLAN Pair"),
    (0x0252, "Add VLAN"),
    (0x0253, "Remove VLAN"),
    (0x0254, "Set VSI Promiscuous Modes"),
    (0x0255, "Add Tag"),
    (0x0256, "Remove Tag"),
    (0x025a, "Add Control Packet Filter"),
    (0x025b, "Remove Control Packet Filter"),
    (0x025c, "Add Cloud Filters"),
    (0x025d, "Remove Cloud Filters"),
    (0x0260, "Add Mirror Rule"),
    (0x0261, "Delete Mirror Rule"),
    (0x0270, "Write Personalization Profile"),
    (0x0271, "Get Personalization Profile List"),
    (0x0303, "Set DCB Parameters"),
    (0x0400, "Configure VSI Bandwidth Limit"),
    (0x0406, "Configure VSI Bandwidth Limit per Traffic Type"),
    (0x0407, "Configure VSI Bandwidth Allocation per Traffic Class"),
    (0x0408, "Query VSI Bandwidth Configuration"),
    (0x040a, "Query VSI Bandwidth Allocation per Traffic Class"),
    (0x0418, "Query Switching Component Bandwidth Configuration"),
    (0x041a, "Query Port ETS Configuration"),
    (0x041b, "Suspend Port Transmit Traffic"),
    (0x041c, "Resume Port Transmit Traffic"),
    (0x0600, "Get PHY Abilities"),
    (0x0601, "Set PHY Config"),
    (0x0603, "Set MAC Config"),
    (0x0605, "Setup Link and Restart Auto-negotiation"),
    (0x0607, "Get Link Status"),
    (0x0613, "Set Event Mask"),
    (0x0614, "Get Local Advertised Technology Abilities"),
    (0x0616, "Get Link Partner Advertised Abilities"),
    (0x0618, "Set Loopback Modes"),
    (0x0622, "Set PHY Debug"),
    (0x0628, "Set PHY Register"),
    (0x0629, "Get PHY Register"),
    (0x0701, "NVM Read"),
    (0x0702, "NVM Erase"),
    (0x0703, "NVM Update"),
    (0x0704, "NVM Config Read"),
    (0x0801, "Send to PF"),
    (0x0802, "Send to VF"),
    (0x0900, "Alternate Write"),
    (0x0902, "Alternate Read"),
    (0x0a00, "Get LLDP MIB"),
    (0x0a01, "Configure LLDP MIB Change Event"),
    (0x0a05, "Stop LLDP Agent"),
    (0x0a06, "Start LLDP Agent"),
    (0x0a07, "Get CEE DCBX Operational Configuration"),
    (0x0a08, "Set Local LLDP MIB"),
    (0x0a09, "Stop or Start Specific LLDP Agent"),
    (0x0b00, "Add UDP Tunnel"),
    (0x0b01, "Delete UDP Tunnel"),
    (0x0b02, "Set RSS Key"),
    (0x0b03, "Set RSS Lookup Table"),
    (0x0b04, "Get RSS Key"),
    (0x0b05, "Get RSS Lookup Table"),
    (0x1001, "LAN Overflow"),
    (0xff03, "Debug Read Register"),
    (0xff04, "Debug Write Register"),
];

/// The name of an admin command or event.
pub fn command(opcode: u16) -> &'static str {
    COMMANDS.iter().find(|(code, _)| *code == opcode).map_or("(unknown)", |(_, name)| name)
}

/// Datasheet: "Admin Command Return Codes".
pub fn code(code: u16) -> &'static str {
    const NAMES: [&str; 24] = [
        "OK", "EPERM", "ENOENT", "ESRCH", "EINTR", "EIO", "ENXIO", "E2BIG", "EAGAIN", "ENOMEM", "EACCES",
        "EFAULT", "EBUSY", "EEXIST", "EINVAL", "ENOTTY", "ENOSPC", "ENOSYS", "ERANGE", "EFLUSHED",
        "BAD_ADDR", "EMODE", "EFBIG", "ESBCOMP",
    ];
    NAMES.get(usize::from(code)).copied().unwrap_or("(unknown)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regs;

    #[test]
    fn registers_bear_their_indices() {
        for (offset, name) in [
            (regs::PFGEN_CTRL, "PFGEN_CTRL"),
            (regs::QTX_TAIL + 4 * 1535, "QTX_TAIL[1535]"),
            (regs::QTX_TAIL + 4 * 1536, "0x109800"),
            (0x03_0000 + 2048 + 4 * 7, "PFINT_ITRN[1,7]"),
            (regs::PFQF_HLUT + 128 * 127, "PFQF_HLUT[127]"),
            (regs::PFQF_HKEY + 4, "0x244804"),
            (0x30_0004, "GLPRT_GORCH[0]"),
            (0x36_c000 + 8 * 16, "GLV_UPRCL[16]"),
            (0x31_0000 + 8 * 16, "GLV_RDPC[16]"),
            (0x30_0180 + 32 * 3, "GLPRT_PXONRXC[3,0]"),
            (0x7f_fffc, "0x7ffffc"),
        ] {
            assert_eq!(register(offset), name);
        }
    }

    /// No offset has two names.
    #[test]
    fn names_do_not_overlap() {
        let mut seen = std::collections::HashMap::new();
        for Array(name, first, (count, stride), (inner, step)) in REGISTERS {
            for at in (0..*count).flat_map(|i| (0..*inner).map(move |j| first + i * stride + j * step)) {
                assert_eq!(seen.insert(at, *name), None, "{name} at {at:#x}");
            }
        }
        for (name, first, count) in COUNTERS {
            for at in (0..count * 2).map(|i| first + 4 * i) {
                assert_eq!(seen.insert(at, *name), None, "{name} at {at:#x}");
            }
        }
    }
}
