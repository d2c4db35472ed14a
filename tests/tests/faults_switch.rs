//! Counters, switch, firmware agents and registers: what a card does on its own, and what a driver must keep off.

use std::sync::{Arc, Mutex};

use drivers::i40e::{I40e, Options};
use hal::hosted::{FakeBar, Registers};
use hal::{Bar, Machine};
use kernel::port::PortControl;
use model::{Allowed, Watch};
use rig::faulty::{FaultyPort, Shape, bring_up, options, play};
use rig::stepped::SteppedMachine;
use rig::{TestPort, frames};

/// Registers that see each access, and pass it on.
struct Seen {
    inner: FakeBar,
    reads: Arc<Mutex<Vec<(u32, usize)>>>,
}

impl Registers for Seen {
    fn read(&mut self, offset: u32, data: &mut [u8]) {
        self.reads.lock().unwrap().push((offset, data.len()));
        match data.len() {
            8 => data.copy_from_slice(&self.inner.read64(offset).to_le_bytes()),
            _ => data.copy_from_slice(&self.inner.read32(offset).to_le_bytes()),
        }
    }
    fn write(&mut self, offset: u32, value: u32) {
        self.inner.write32(offset, value);
    }
}

/// Datasheet offsets of the first and last of the 48-bit counters, 0x20 apart, that extended statistics read besides:
/// GLPRT_PRC64 to PRC9522 and PTC64 to PTC9522 of port 0.
const SIZE_COUNTERS: [(u32, u32); 2] = [(0x30_0480, 0x30_0540), (0x30_06a0, 0x30_0760)];
/// GLV_UPRC, MPRC, BPRC, UPTC, MPTC, BPTC of every VSI, and GL_RXERR1: 8 bytes apart.
const VSI_COUNTERS: [u32; 7] = [0x36_c000, 0x36_cc00, 0x36_d800, 0x33_c000, 0x33_cc00, 0x33_d800, 0x31_8000];

fn is_long(offset: u32) -> bool {
    let sized = |(first, last): &(u32, u32)| {
        (*first..=*last).contains(&offset) && (offset - first).is_multiple_of(0x20)
    };
    let of_vsi = |first: &u32| (*first..first + 384 * 8).contains(&offset) && offset.is_multiple_of(8);
    LONG_COUNTERS.contains(&offset) || SIZE_COUNTERS.iter().any(sized) || VSI_COUNTERS.iter().any(of_vsi)
}

/// Datasheet offsets of GLV_GORC, UPRC, MPRC, BPRC of VSI 16, and GLPRT_GOTC, UPTC, MPTC, BPTC of port 0.
const LONG_COUNTERS: [u32; 8] =
    [0x35_8080, 0x36_c080, 0x36_cc80, 0x36_d880, 0x30_0680, 0x30_09c0, 0x30_09e0, 0x30_0a00];

/// B35: counters that are not 0 at the start, wrap in their low half and as a whole, and are read in one access; bytes
/// are those of the frames, both ways; a frame that is too long is an error and no frame.
#[test]
fn b35_counters_start_anywhere_wrap_and_are_read_whole() {
    for (low, high) in [
        (0, 0),
        (0xffff_fff0, 0),
        (0xffff_fff0, 0xffff),
        (1, 0xffff),
        (0xffff_ffff, 0xfffe),
        (0xffff_ffff, 0),
    ] {
        let port = TestPort::new();
        for offset in LONG_COUNTERS {
            port.card().bar_write(0, offset.into(), &u32::to_le_bytes(low));
            port.card().bar_write(0, u64::from(offset) + 4, &u32::to_le_bytes(high));
        }
        let reads = Arc::<Mutex<Vec<_>>>::default();
        let bar = FakeBar::new(8 << 20, Seen { inner: port.bar.clone(), reads: reads.clone() });
        let driver = I40e::new(SteppedMachine::new(port.machine.clone()), bar, options(true)).unwrap();
        let mut port = FaultyPort::of(port, driver, Shape { txd: 1056, ..Shape::default() });
        port.start_queues().unwrap();
        let offered: Vec<_> = (0..1000).map(|n| frames::numbered(n, 60)).collect();
        port.pass(&offered);
        assert_eq!(port.exchange(&[vec![2; 9729]]).len(), 0);
        let stats = port.driver.stats();
        assert_eq!(
            (stats.rx_frames, stats.rx_bytes, stats.rx_errors),
            (1000, 60_000, 1),
            "{low:#x} {high:#x}"
        );
        assert_eq!(
            (stats.tx_frames, stats.tx_bytes, stats.tx_errors),
            (1000, 60_000, 0),
            "{low:#x} {high:#x}"
        );
        for (offset, len) in reads.lock().unwrap().iter() {
            let wanted = if is_long(*offset) { 8 } else { 4 };
            assert_eq!(*len, wanted, "{offset:#x}");
            assert!(!is_long(offset.wrapping_sub(4)), "{offset:#x} alone");
        }
        port.finish();
    }
}

/// One admin command by hand, with a buffer.
fn command(port: &TestPort, opcode: u16, first: u16, data: &[u8]) {
    let memory = port.machine.dma_alloc(8192, 4096).unwrap();
    let (ring, buffer) = (memory.addr(), memory.addr_at(4096).unwrap());
    memory.copy_in(4096, data).unwrap();
    // RD and BUF; opcode; length.
    memory.store(0, 0x1400 | u64::from(opcode) << 16 | (data.len() as u64) << 32).unwrap();
    memory.store(16, u64::from(first)).unwrap();
    memory.store(24, u64::from(buffer.high()) | u64::from(buffer.low()) << 32).unwrap();
    let mut card = port.card();
    for (offset, value) in [
        (0x08_0300, 0),
        (0x08_0200, 1 << 31 | 32),
        (0x08_0000, ring.low()),
        (0x08_0100, ring.high()),
        (0x08_0400, 1),
    ] {
        card.bar_write(0, offset, &u32::to_le_bytes(value));
    }
}

/// B36: frames that bear the port's own address as source are forwarded like all others. The card drops them unless its
/// VSI says otherwise: as soon as somebody takes that back, and until the driver's next reset.
#[test]
fn b36_frames_with_the_ports_own_address_pass() {
    let own: Vec<_> = (0..200)
        .map(|n| {
            let mut frame = frames::numbered(n, 100);
            frame[6..12].copy_from_slice(&TestPort::MAC);
            frame
        })
        .collect();
    let mut port = FaultyPort::start("");
    port.pass(&own);
    assert_eq!(port.port.card().counters().rx_filtered, 0);
    // Update VSI: its switch section, without the flag for local loopback.
    let mut data = [0; 128];
    data[0] = 1;
    command(&port.port, 0x0211, 0x186, &data);
    assert_eq!(port.exchange(&own).len(), 0);
    assert_eq!(port.port.card().counters().rx_filtered, 200);
    port.check_buffers();
    port.reset();
    port.start_queues().unwrap();
    port.pass(&own);
    port.finish();
}

/// B37: an LLDP agent that stops when it is told to: LLDP frames are forwarded, and none is on the wire but its last
/// words. After a reset of the card it runs again, and is stopped again.
#[test]
fn b37_the_lldp_agent_is_stopped() {
    let mut port = FaultyPort::start("lldp on");
    assert!(port.driver.lldp_stopped());
    // The farewell: a time to live of 0.
    port.settle();
    let said = port.port.wire.take();
    assert!(
        said.iter().all(|frame| frame[12..14] == [0x88, 0xcc] && frame[32..36] == [6, 2, 0, 0]),
        "{said:?}"
    );
    port.pass(&lldp());
    port.play("card-reset 3");
    assert!(port.recover());
    assert!(port.driver.lldp_stopped());
    port.settle();
    port.port.wire.take();
    port.pass(&lldp());
    // Nothing more, however long the port is idle.
    for _ in 0..10_000 {
        port.round();
    }
    assert_eq!(port.port.wire.take().len(), 0);
    port.finish();
}

/// B37: one that does not: the port comes up and says so; LLDP frames are lost, counted by the card, and all others pass.
#[test]
fn b37_an_agent_that_runs_on_is_told() {
    for how in ["code 1", "code 3", "code 14"] {
        let mut port = FaultyPort::start(&format!("lldp on\n admin 0x0a05 {how} times always"));
        assert!(!port.driver.lldp_stopped(), "{how}");
        port.settle();
        port.port.wire.take();
        assert_eq!(port.exchange(&lldp()).len(), 0);
        assert_eq!(port.port.card().counters().rx_filtered, 100);
        port.finish();
    }
}

fn lldp() -> Vec<Vec<u8>> {
    (0..100)
        .map(|n| {
            let mut frame = frames::numbered(n, 60);
            frame[..6].copy_from_slice(&[0x01, 0x80, 0xc2, 0, 0, 0x0e]);
            frame[12..14].copy_from_slice(&[0x88, 0xcc]);
            frame
        })
        .collect()
}

const fn row(name: &'static str, first: u32, count: u32, stride: u32, write: u32) -> Allowed {
    Allowed { name, first, count, stride, read: true, write }
}

const fn one(name: &'static str, first: u32, write: u32) -> Allowed {
    row(name, first, 1, 4, write)
}

/// Registers of an XL710 that its driver has business with, and the bits of them that are not reserved, by the names and
/// masks of the datasheet and of Linux' `i40e_register.h`.
const REGISTERS: [Allowed; 78] = [
    one("PRTTSYN_CTL0", 0x1e_4200, 0),
    one("PFGEN_CTRL", 0x09_2400, 0x1),
    one("GLGEN_RSTAT", 0x0b_8188, 0),
    one("GLGEN_RSTCTL", 0x0b_8180, 0),
    one("GLNVM_ULD", 0x0b_6008, 0),
    one("GL_FWSTS", 0x08_3048, 0),
    one("PF_FUNC_RID", 0x09_c000, 0),
    one("PFGEN_PORTNUM", 0x1c_0480, 0),
    one("PFLAN_QALLOC", 0x1c_0400, 0),
    one("GLLAN_RCTL_0", 0x12_a500, 0x1),
    one("PF_ATQBAL", 0x08_0000, 0xffff_ffff),
    one("PF_ATQBAH", 0x08_0100, 0xffff_ffff),
    one("PF_ATQLEN", 0x08_0200, 0xf000_03ff),
    one("PF_ATQH", 0x08_0300, 0x3ff),
    one("PF_ATQT", 0x08_0400, 0x3ff),
    one("PF_ARQBAL", 0x08_0080, 0xffff_ffff),
    one("PF_ARQBAH", 0x08_0180, 0xffff_ffff),
    one("PF_ARQLEN", 0x08_0280, 0xf000_03ff),
    one("PF_ARQH", 0x08_0380, 0x3ff),
    one("PF_ARQT", 0x08_0480, 0x3ff),
    one("GLHMC_LANTXOBJSZ", 0x0c_2004, 0),
    one("GLHMC_LANRXOBJSZ", 0x0c_200c, 0),
    one("GLHMC_LANQMAX", 0x0c_2008, 0),
    row("GLHMC_LANTXBASE", 0x0c_6200, 16, 4, 0x00ff_ffff),
    row("GLHMC_LANTXCNT", 0x0c_6300, 16, 4, 0x7ff),
    row("GLHMC_LANRXBASE", 0x0c_6400, 16, 4, 0x00ff_ffff),
    row("GLHMC_LANRXCNT", 0x0c_6500, 16, 4, 0x7ff),
    row("GLHMC_FCOEDDPCNT", 0x0c_6700, 16, 4, 0x000f_ffff),
    row("GLHMC_FCOEFCNT", 0x0c_6900, 16, 4, 0x007f_ffff),
    Allowed { name: "PFHMC_SDCMD", first: 0x0c_0000, count: 1, stride: 4, read: false, write: 0x8000_8fff },
    one("PFHMC_SDDATALOW", 0x0c_0100, 0xffff_ffff),
    one("PFHMC_SDDATAHIGH", 0x0c_0200, 0xffff_ffff),
    row("QTX_ENA", 0x10_0000, 1536, 4, 0x7),
    row("QRX_ENA", 0x12_0000, 1536, 4, 0x7),
    row("QTX_CTL", 0x10_4000, 1536, 4, 0xffbf),
    row("QTX_HEAD", 0x0e_4000, 1536, 4, 0x1fff),
    row("QTX_TAIL", 0x10_8000, 1536, 4, 0x1fff),
    row("QRX_TAIL", 0x12_8000, 1536, 4, 0x1fff),
    row("GLLAN_TXPRE_QDIS", 0x0e_6500, 12, 4, 0xc001_07ff),
    row("QINT_RQCTL", 0x03_a000, 1536, 4, 0xdfff_f8ff),
    row("QINT_TQCTL", 0x03_c000, 1536, 4, 0xdfff_f8ff),
    one("PFINT_ICR0_ENA", 0x03_8800, 0x7fff_0000),
    one("PFINT_DYN_CTL0", 0x03_8480, 0xc701_ffff),
    one("PFINT_LNKLST0", 0x03_8500, 0x1fff),
    one("PFQF_CTL_0", 0x1c_0ac0, 0x000f_ffff),
    row("PFQF_HENA", 0x24_5900, 2, 128, 0xffff_ffff),
    row("PFQF_HKEY", 0x24_4800, 13, 128, 0xffff_ffff),
    row("PFQF_HLUT", 0x24_0000, 128, 128, 0x3f3f_3f3f),
    one("PF_MDET_TX", 0x0e_6400, 0x1),
    one("PF_MDET_RX", 0x12_a400, 0x1),
    one("GLPRT_GOTCL", 0x30_0680, 0),
    row("GLV_GORC", 0x35_8000, 384, 8, 0),
    row("GLPRT_UPTCL, MPTCL, BPTCL", 0x30_09c0, 3, 0x20, 0),
    one("GLPRT_RDPC", 0x30_0600, 0),
    one("GLPRT_TDOLD", 0x30_0a20, 0),
    one("GLPRT_CRCERRS", 0x30_0080, 0),
    one("GLPRT_ILLERRC", 0x30_00e0, 0),
    row("GLPRT_RLEC", 0x30_00a0, 1, 4, 0),
    row("GLPRT_RUC, ROC", 0x30_0100, 2, 0x20, 0),
    row("GLPRT_RFC, RJC", 0x30_0560, 2, 0x20, 0),
    row("GLV_RDPC", 0x31_0000, 384, 8, 0),
    one("GLNVM_SRCTL", 0x0b_6110, 0x7fff_c000),
    one("GLNVM_SRDATA", 0x0b_6114, 0),
    row("GLPRT_PRC64 to PRC9522", 0x30_0480, 7, 0x20, 0),
    row("GLPRT_PTC64 to PTC9522", 0x30_06a0, 7, 0x20, 0),
    row("GLPRT_MLFC, MRFC", 0x30_0020, 2, 0x20, 0),
    row("GLPRT_LXONRXC, LXOFFRXC", 0x30_0140, 2, 0x20, 0),
    row("GLPRT_LXONTXC, LXOFFTXC", 0x30_0980, 2, 0x20, 0),
    row("GLPRT_PXONRXC, PXOFFRXC, RXON2OFFCNT", 0x30_0180, 24, 0x20, 0),
    row("GLPRT_PXONTXC, PXOFFTXC", 0x30_0780, 16, 0x20, 0),
    row("GLV_UPRC", 0x36_c000, 384, 8, 0),
    row("GLV_MPRC", 0x36_cc00, 384, 8, 0),
    row("GLV_BPRC", 0x36_d800, 384, 8, 0),
    row("GLV_RUPP", 0x36_e400, 384, 8, 0),
    row("GLV_UPTC", 0x33_c000, 384, 8, 0),
    row("GLV_MPTC", 0x33_cc00, 384, 8, 0),
    row("GLV_BPTC", 0x33_d800, 384, 8, 0),
    row("GL_RXERR1", 0x31_8000, 144, 8, 0),
];

/// B38: from bring-up to farewell no register but those of the list is touched, and no reserved bit is set; on firmware
/// without receive control commands, too, and whatever the bits of registers were before.
#[test]
fn b38_no_register_is_touched_that_is_not_on_the_list() {
    for script in ["", "firmware 4.22 api 1.4"] {
        for wide_descriptors in [false, true] {
            let port = TestPort::new();
            play(&port, script);
            port.card().faults().watch = Some(Watch { allowed: REGISTERS.to_vec() });
            let options = Options { wide_descriptors, ..options(true) };
            let machine = SteppedMachine::new(port.machine.clone());
            let driver = I40e::new(machine, port.bar.clone(), options).unwrap();
            let mut port = FaultyPort::of(port, driver, Shape::default());
            for _ in 0..3 {
                port.start_queues().unwrap();
                port.ten_thousand();
                for up in [false, true] {
                    port.play(if up { "link up" } else { "link down" });
                    assert_eq!(port.driver.link().unwrap().up, up);
                }
                assert_eq!(port.driver.stats().rx_errors, 0);
                assert_eq!(port.look(), []);
                port.driver.set_promiscuous(true).unwrap();
                port.check_buffers();
                port.reset();
            }
            port.start_queues().unwrap();
            port.finish();
        }
    }
}

/// B38: the trap itself: registers of another MAC (GLQF_FDEVICTENA of an X722), a reserved bit, a counter that is
/// written.
#[test]
fn b38_the_trap_snaps() {
    let port = TestPort::new();
    let driver = bring_up(&port, true).unwrap();
    port.card().faults().watch = Some(Watch { allowed: REGISTERS.to_vec() });
    let mut word = [0; 4];
    port.card().bar_read(0, 0x27_0384, &mut word);
    port.card().bar_write(0, 0x10_4000, &0x40_u32.to_le_bytes());
    port.card().bar_write(0, 0x30_0680, &[0; 4]);
    let violations = port.card().violations().to_vec();
    assert_eq!(
        violations,
        [
            "0x270384: read, and it is no register of the list",
            "QTX_CTL (0x104000): 0x40 written, reserved bits are 0xffff0040",
            "GLPRT_GOTCL (0x300680): written, and it can only be read",
        ]
    );
    let mut port = FaultyPort::of(port, driver, Shape::default());
    port.start_queues().unwrap();
    port.ten_thousand();
    port.check_buffers();
    assert_eq!(port.port.card().violations().len(), violations.len());
}
