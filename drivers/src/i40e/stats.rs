//! What the card counts. Datasheet: "Statistics".
//!
//! Counters run freely: they have 48 or 32 bits, start anywhere, and wrap. Each is read in one access, so that
//! its halves belong together, and extended to 64 bits from the port's start on.

use hal::{Bar, BarAccess, Reg, RegArray, Ro};
use kernel::port::PortStats;

use super::regs;

/// Bytes of FCS, which the card's byte counters include.
const FCS: u64 = 4;

/// A counter of `bits` bits, extended.
#[derive(Debug, Clone, Copy)]
pub struct Extended {
    /// `None`: the card has no such counter.
    offset: Option<u32>,
    bits: u32,
    last: u64,
    total: u64,
}

impl Extended {
    /// The counter at `offset`, counted from here on.
    pub fn at<B: Bar>(bar: &B, offset: u32, bits: u32) -> Self {
        let mut counter = Self { offset: Some(offset), bits, last: 0, total: 0 };
        counter.last = counter.read(bar);
        counter
    }

    fn start<B: Bar, const N: usize>(bar: &B, array: RegArray<u32, Ro, N>, index: usize, bits: u32) -> Self {
        match array.get(index) {
            Some(register) => Self::at(bar, register.offset(), bits),
            None => Self { offset: None, bits, last: 0, total: 0 },
        }
    }

    fn read<B: Bar>(&self, bar: &B) -> u64 {
        match self.offset {
            None => 0,
            Some(offset) if self.bits > 32 => bar.read64(offset) & ((1 << self.bits) - 1),
            Some(offset) => u64::from(bar.read(Reg::<u32, Ro>::at(offset))),
        }
    }

    /// The counter may have begun again at 0.
    pub fn restarted<B: Bar>(&mut self, bar: &B) {
        if self.read(bar) < self.last {
            self.last = 0;
        }
    }

    /// The count since the start. The counter wraps at most once between two calls.
    pub fn update<B: Bar>(&mut self, bar: &B) -> u64 {
        let now = self.read(bar);
        // A card that is gone reads as all ones. A counter that really stands there is caught up with next time.
        if now == (1 << self.bits) - 1 {
            return self.total;
        }
        self.total += now.wrapping_sub(self.last) & ((1 << self.bits) - 1);
        self.last = now;
        self.total
    }
}

/// Frames that reached the VSI, those among them that it had no descriptor for, and those that were too long for their
/// queue (by drivers: DPDK's `i40e_dev_stats_get`). The port's own counters have frames for others, too.
const RX_FRAMES: [RegArray<u32, Ro, 384>; 3] = [regs::GLV_UPRCL, regs::GLV_MPRCL, regs::GLV_BPRCL];
const TX_FRAMES: [RegArray<u32, Ro, 4>; 3] = [regs::GLPRT_UPTCL, regs::GLPRT_MPTCL, regs::GLPRT_BPTCL];
const RX_ERRORS: [RegArray<u32, Ro, 4>; 7] = [
    regs::GLPRT_CRCERRS,
    regs::GLPRT_ILLERRC,
    regs::GLPRT_RLEC,
    regs::GLPRT_RUC,
    regs::GLPRT_RFC,
    regs::GLPRT_ROC,
    regs::GLPRT_RJC,
];

/// Counters of one port.
pub struct Statistics {
    rx_bytes: Extended,
    rx_frames: [Extended; 3],
    rx_errors: [Extended; 7],
    rx_too_long: Extended,
    rx_missed: [Extended; 2],
    tx_bytes: Extended,
    tx_frames: [Extended; 3],
    tx_errors: Extended,
}

impl Statistics {
    /// Counts from here on, for port `port` and the VSI with statistics index `vsi`.
    pub fn start<B: Bar>(bar: &B, port: usize, vsi: usize) -> Self {
        Self {
            rx_bytes: Extended::start(bar, regs::GLV_GORCL, vsi, 48),
            rx_frames: RX_FRAMES.map(|array| Extended::start(bar, array, vsi, 48)),
            rx_too_long: Extended::start(bar, regs::GL_RXERR1L, port, 48),
            rx_errors: RX_ERRORS.map(|array| Extended::start(bar, array, port, 32)),
            rx_missed: [
                Extended::start(bar, regs::GLPRT_RDPC, port, 32),
                Extended::start(bar, regs::GLV_RDPC, vsi, 32),
            ],
            tx_bytes: Extended::start(bar, regs::GLPRT_GOTCL, port, 48),
            tx_frames: TX_FRAMES.map(|array| Extended::start(bar, array, port, 48)),
            tx_errors: Extended::start(bar, regs::GLPRT_TDOLD, port, 32),
        }
    }

    /// The card was reset, and with it perhaps its counters: one that is lower than before began again at 0.
    pub fn restarted<B: Bar>(&mut self, bar: &B) {
        let singles =
            [&mut self.rx_bytes, &mut self.rx_too_long, &mut self.tx_bytes, &mut self.tx_errors].into_iter();
        let rows = [&mut self.rx_frames[..], &mut self.rx_errors, &mut self.rx_missed, &mut self.tx_frames];
        for counter in singles.chain(rows.into_iter().flatten()) {
            counter.restarted(bar);
        }
    }

    /// The counts since the start.
    pub fn read<B: Bar>(&mut self, bar: &B) -> PortStats {
        fn sum<B: Bar>(bar: &B, counters: &mut [Extended]) -> u64 {
            counters.iter_mut().map(|counter| counter.update(bar)).sum()
        }
        let reached = sum(bar, &mut self.rx_frames);
        let no_descriptor = self.rx_missed.last_mut().map_or(0, |counter| counter.update(bar));
        let too_long = self.rx_too_long.update(bar);
        let tx_frames = sum(bar, &mut self.tx_frames);
        PortStats {
            rx_frames: reached.saturating_sub(no_descriptor + too_long),
            rx_bytes: self.rx_bytes.update(bar).saturating_sub(FCS * reached),
            rx_missed: sum(bar, &mut self.rx_missed),
            rx_errors: sum(bar, &mut self.rx_errors) + too_long,
            tx_frames,
            tx_bytes: self.tx_bytes.update(bar).saturating_sub(FCS * tx_frames),
            tx_errors: self.tx_errors.update(bar),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};

    use hal::hosted::{FakeBar, Registers};

    use super::*;

    #[derive(Clone, Default)]
    struct Counters(Arc<Mutex<BTreeMap<u32, u64>>>);

    impl Registers for Counters {
        fn read(&mut self, offset: u32, data: &mut [u8]) {
            let counters = self.0.lock().unwrap();
            let low = counters.get(&offset).copied().unwrap_or(0);
            data.copy_from_slice(&low.to_le_bytes()[..data.len()]);
        }
        fn write(&mut self, _offset: u32, _value: u32) {}
    }

    #[test]
    fn a_card_that_is_gone_counts_nothing() {
        let counters = Counters::default();
        counters.0.lock().unwrap().insert(0x30_0600, 7);
        let mut statistics = Statistics::start(&FakeBar::new(4 << 20, counters), 0, 5);
        assert_eq!(statistics.read(&FakeBar::new(0, Counters::default())), PortStats::default());
    }

    /// Offsets of GLV_GORC, GLV_UPRC and GLV_RDPC of VSI 5, of GLPRT_RDPC and GL_RXERR1 of port 1, as the datasheet has
    /// them; DPDK takes what found no descriptor, and what was too long, off the frames.
    #[test]
    fn counters_start_anywhere_and_wrap() {
        let counters = Counters::default();
        let set = |offset, value| counters.0.lock().unwrap().insert(offset, value);
        set(0x35_8028, 0xffff_ffff_ff00);
        set(0x36_c028, 0xffff_ffff);
        set(0x30_0608, 0xffff_fffe);
        set(0x31_0028, 7);
        set(0x31_8408, 2);
        let bar = FakeBar::new(4 << 20, counters.clone());
        let mut statistics = Statistics::start(&bar, 1, 5);
        assert_eq!(statistics.read(&bar), PortStats::default());
        // Eight frames of 60 bytes with FCS, and the counter of 48 bits wraps.
        set(0x35_8028, (0xffff_ffff_ff00 + 8 * 64) & 0xffff_ffff_ffff);
        set(0x36_c028, 0xffff_ffff + 8);
        set(0x30_0608, 3);
        set(0x31_0028, 9);
        set(0x31_8408, 3);
        let stats = statistics.read(&bar);
        assert_eq!((stats.rx_frames, stats.rx_bytes), (8 - 2 - 1, 8 * 60));
        assert_eq!((stats.rx_missed, stats.rx_errors), (5 + 2, 1));
    }
}
