//! How ports are found: by a driver of PCI cards, or in whatever other way a driver has.

use alloc::boxed::Box;
use alloc::format;
use core::error::Error;
use core::fmt;

use hal::bare::{BareMachine, MmioBar};
use hal::pci::{Address, ConfigSpace, Tree};
use kernel::config::{Config, MAX_PORTS};

use super::console::println;
use super::machine::BootMachine;
use crate::port::ImagePort;

/// Why a port did not come up.
pub type BringUpError = Box<dyn Error>;

/// Ports that are up, each with the name of its driver, in the order of their numbers.
pub type Found<P> = heapless::Vec<(&'static str, P), MAX_PORTS>;

/// Finds the ports of the machine. [`PciDriver`] is the short way for cards.
pub trait Driver: 'static {
    /// Its ports.
    type Port: ImagePort<Rx: Send + 'static, Tx: Send + 'static>;

    /// Brings all ports up. A port is named after its driver and its number, such as `i40e0`.
    ///
    /// # Errors
    /// What ends the machine: a forwarder with a port missing sends frames where they don't belong.
    fn bring_up(machine: &mut BootMachine, config: &Config) -> Result<Found<Self::Port>, BringUpError>;
}

/// A driver of PCI cards.
pub trait PciDriver: 'static {
    /// Ports are named after it, as in `i40e0`: at most 13 bytes.
    const NAME: &'static str;
    /// Its ports.
    type Port: ImagePort<Rx: Send + 'static, Tx: Send + 'static>;

    /// The card's name, if it is one for this driver.
    fn card(vendor: u16, device: u16) -> Option<&'static str>;

    /// Brings the port of one card up.
    ///
    /// # Errors
    /// The step that failed; it ends the machine.
    fn bring_up(device: PciDevice<'_>, config: &Config) -> Result<Self::Port, BringUpError>;
}

impl<D: PciDriver> Driver for D {
    type Port = D::Port;

    fn bring_up(machine: &mut BootMachine, config: &Config) -> Result<Found<D::Port>, BringUpError> {
        let ports = find_cards::<D>(machine, config)?;
        if ports.is_empty() { Err(none_found(machine)) } else { Ok(ports) }
    }
}

/// Brings up the ports of every card that `D` has, in the order of their PCI addresses; there may be none.
pub(super) fn find_cards<D: PciDriver>(
    machine: &mut BootMachine,
    config: &Config,
) -> Result<Found<D::Port>, BringUpError> {
    let tree = Tree::scan(&machine.config);
    let mut ports = Found::new();
    for function in &tree.functions {
        let Some(card) = D::card(function.vendor, function.device) else { continue };
        println!("pci {} {:04x}:{:04x} {card}", function.at, function.vendor, function.device);
        let device = PciDevice { machine, tree: &tree, at: function.at };
        let port = D::bring_up(device, config).map_err(|error| {
            println!("barewire: error: {}: {error}", function.at);
            format!("{}: the port did not come up", function.at)
        })?;
        ports.push((D::NAME, port)).map_err(|_| format!("more than {MAX_PORTS} ports"))?;
    }
    Ok(ports)
}

/// That there is no port at all.
pub(super) fn none_found(machine: &BootMachine) -> BringUpError {
    let functions = Tree::scan(&machine.config).functions.len();
    format!("no port: {functions} PCI functions, none with a driver").into()
}

/// A PCI function that a driver has for itself.
pub struct PciDevice<'a> {
    pub(super) machine: &'a mut BootMachine,
    pub(super) tree: &'a Tree,
    pub(super) at: Address,
}

impl PciDevice<'_> {
    /// The machine as drivers see it: its clock, and memory that a card can reach.
    pub fn machine(&self) -> BareMachine {
        self.machine.machine.clone()
    }

    /// Tells something of the card on the console.
    pub fn tell(&self, what: fmt::Arguments<'_>) {
        println!("{} {what}", self.at);
    }

    /// Tells people and programs something that is worth knowing of the card.
    pub fn remark(&self, what: &str) {
        println!("barewire: remark {}: {what}", self.at);
    }

    /// The registers behind memory BAR `index`. The BAR gets a place if it has none, and the card is allowed to decode
    /// addresses and to reach memory.
    ///
    /// # Errors
    /// There is no such BAR, no place for it, or no way to map it.
    pub fn bar(&mut self, index: u8) -> Result<MmioBar, BringUpError> {
        let (tree, at) = (self.tree, self.at);
        self.check_first(index)?;
        let machine = &mut *self.machine;
        let info = machine.place_bar(at, index)?;
        if !tree.enable(&mut machine.config, at) {
            return Err("memory decoding and bus mastering can't be turned on".into());
        }
        // SAFETY: place and size are those of a memory BAR of this function, which is its driver's alone.
        Ok(unsafe { machine.map_bar(info.base, info.size) }?)
    }

    /// Register `index` begins a BAR, and is not the upper half of the one before.
    fn check_first(&self, index: u8) -> Result<(), BringUpError> {
        const BAR0: u16 = 0x10;
        const TYPE: u32 = 0b111;
        const MEMORY_64: u32 = 0b100;
        let mut first = 0;
        while first < index {
            let low = self.machine.config.read(self.at, BAR0 + 4 * u16::from(first));
            first += if low & TYPE == MEMORY_64 { 2 } else { 1 };
        }
        if first == index && index < 6 {
            Ok(())
        } else {
            Err(format!("BAR{index}: there is no such BAR").into())
        }
    }
}
