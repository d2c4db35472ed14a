//! Transport, queue and console against a device that is played by hand: offsets and layouts are those of the standard,
//! written out here once more.

mod console;
mod device;
mod pci;
mod queue;
mod transport;

use std::sync::{Arc, Mutex};

use hal::hosted::{FakeBar, HostClock, HostedMachine};
use hal::{DmaError, DmaMemory, Machine};

use super::pci::{Layout, Window};
use super::{Error, Transport};
use device::{Card, Play};

/// A machine all of whose memory the device can see.
#[derive(Clone)]
struct Whole {
    hosted: HostedMachine<FakeBar>,
    all: DmaMemory,
    used: Arc<Mutex<usize>>,
}

impl Whole {
    fn new() -> Self {
        let hosted = HostedMachine::new(4 << 20).unwrap();
        let all = hosted.dma_alloc(4 << 20, 4096).unwrap();
        Self { hosted, all, used: Arc::default() }
    }
}

impl Machine for Whole {
    type Bar = FakeBar;
    type Clock = HostClock;

    fn clock(&self) -> &HostClock {
        self.hosted.clock()
    }

    fn dma_alloc(&self, len: usize, align: usize) -> Result<DmaMemory, DmaError> {
        let mut used = self.used.lock().unwrap();
        let start = used.next_multiple_of(align);
        *used = start + len;
        self.all.part(start, len).map_err(|_| DmaError { len })
    }
}

/// As QEMU lays it out, but notify addresses 4 apart and all in one BAR of 16 KiB.
const LAYOUT: Layout = Layout {
    common: Window { bar: 4, offset: 0, len: 0x38 },
    notify: Window { bar: 4, offset: 0x3000, len: 0x1000 },
    multiplier: 4,
    isr: None,
    device: Some(Window { bar: 4, offset: 0x2000, len: 0x10 }),
};

/// A transport in front of the device, and the device.
fn transport(change: impl FnOnce(&mut Card)) -> (Transport<Whole>, Play) {
    let machine = Whole::new();
    let play = Play::new(machine.all.clone());
    change(&mut play.card());
    let bar = FakeBar::new(0x4000, play.clone());
    let transport = Transport::new(machine, &LAYOUT, |index| {
        assert_eq!(index, 4);
        Ok::<_, Error>(bar.clone())
    });
    (transport.unwrap(), play)
}
