//! A port of the driver on a port of the model, in one process: registers by function call, memory by a shared file.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use drivers::i40e::{I40e, Options};
use hal::Bar;
use hal::hosted::{FakeBar, HostedMachine, Registers};
use model::{PortConfig, Wire, Xl710};

/// A cable whose other end is in the test's hands.
#[derive(Clone, Default)]
pub struct TestWire(Arc<Mutex<Ends>>);

#[derive(Default)]
struct Ends {
    to_card: VecDeque<Vec<u8>>,
    from_card: Vec<Vec<u8>>,
    loses: bool,
}

impl TestWire {
    /// The other end, for a card.
    pub fn card_end(&self) -> Box<dyn Wire> {
        Box::new(CardEnd { wire: self.clone(), current: Vec::new() })
    }

    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.0.lock().expect("no test panics while it holds the wire")
    }

    /// Puts a frame on the wire toward the card.
    pub fn offer(&self, frame: Vec<u8>) {
        self.ends().to_card.push_back(frame);
    }

    /// Frames that the card has not taken yet.
    pub fn waiting(&self) -> usize {
        self.ends().to_card.len()
    }

    /// Everything that the card has sent since the last call.
    pub fn take(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.ends().from_card)
    }

    /// From now on frames that find no descriptor are lost.
    pub fn lose_frames(&self) {
        self.ends().loses = true;
    }
}

/// The card's end.
struct CardEnd {
    wire: TestWire,
    current: Vec<u8>,
}

impl Wire for CardEnd {
    fn transmit(&mut self, frame: &[u8]) {
        self.wire.ends().from_card.push(frame.to_vec());
    }

    fn receive(&mut self) -> Option<&[u8]> {
        self.current = self.wire.ends().to_card.pop_front()?;
        Some(&self.current)
    }

    fn waits(&self) -> bool {
        !self.wire.ends().loses
    }
}

/// Register accesses become calls.
struct Calls(Arc<Mutex<Xl710>>);

impl Registers for Calls {
    fn read(&mut self, offset: u32, data: &mut [u8]) {
        self.0.lock().expect("the model does not panic").bar_read(0, offset.into(), data);
    }
    fn write(&mut self, offset: u32, value: u32) {
        let data = value.to_le_bytes();
        self.0.lock().expect("the model does not panic").bar_write(0, offset.into(), &data);
    }
}

/// Plugs a card into `machine`: it is powered on, may reach the machine's memory, and has this address and this wire.
pub fn plug<B: Bar>(
    machine: &HostedMachine<B>,
    mac: [u8; 6],
    wire: Box<dyn Wire>,
) -> (Arc<Mutex<Xl710>>, FakeBar) {
    let config = PortConfig { device_id: 0x1572, mac, name: "test".into() };
    let mut card = Xl710::new(config, wire);
    let (base, len) = (HostedMachine::<B>::DMA_BASE, machine.dma_len() as u64);
    card.map_dma(base, len, Some((machine.dma_fd(), 0)), true, true).expect("the card maps the memory");
    // Memory decoding and bus mastering, as a PCI layer turns them on.
    card.config_write(4, &[6, 0]);
    let card = Arc::new(Mutex::new(card));
    let bar = FakeBar::new(8 << 20, Calls(card.clone()));
    (card, bar)
}

/// A card, its wire, and a machine that it is plugged into.
pub struct TestPort {
    /// The machine; its memory is mapped for the card.
    pub machine: HostedMachine<FakeBar>,
    /// The test's end of the wire; of no use if the wire is the caller's own.
    pub wire: TestWire,
    /// The card's registers.
    pub bar: FakeBar,
    card: Arc<Mutex<Xl710>>,
}

impl TestPort {
    /// The card's address.
    pub const MAC: [u8; 6] = [0x68, 0x05, 0xca, 0x00, 0x00, 0x01];
    const MEMORY: usize = 64 << 20;

    /// A card that is powered on and may reach the machine's memory.
    pub fn new() -> Self {
        let wire = TestWire::default();
        Self::plugged_into(wire.card_end(), wire.clone())
    }

    /// As [`TestPort::new`], with a wire of the caller's own.
    pub fn with_wire(wire: Box<dyn Wire>) -> Self {
        Self::plugged_into(wire, TestWire::default())
    }

    fn plugged_into(end: Box<dyn Wire>, wire: TestWire) -> Self {
        let machine = HostedMachine::new(Self::MEMORY).expect("memory for the machine");
        let (card, bar) = plug(&machine, Self::MAC, end);
        Self { machine, wire, bar, card }
    }

    /// The card.
    pub fn card(&self) -> MutexGuard<'_, Xl710> {
        self.card.lock().expect("the model does not panic")
    }

    /// Brings the driver up.
    ///
    /// # Errors
    /// The driver's.
    pub fn bring_up(&self, options: Options) -> Result<I40e<HostedMachine<FakeBar>>, drivers::i40e::Error> {
        I40e::new(self.machine.clone(), self.bar.clone(), options)
    }
}

impl Default for TestPort {
    fn default() -> Self {
        Self::new()
    }
}
