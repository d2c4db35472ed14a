//! What one image has that another has not.

use drivers::i40e::I40e;
use hal::bare::BareMachine;
use kernel::config::Config;
use kernel::forward::Forwarder;

use super::driver::{find_cards, none_found};
use super::{BootMachine, BringUpError, Driver, Found, I40eDriver};
use crate::any_port::any_port;
use crate::modes::Modes;

/// The parts of an image. Types only: the loop of a core is compiled for them.
pub trait App: 'static {
    /// Finds the ports and brings them up.
    type Driver: Driver;
    /// The forwarding modes.
    type Modes: Modes + Send + 'static;
}

/// The stock image: i40e ports and the built-in modes.
pub enum Stock {}

impl App for Stock {
    type Driver = StockDriver;
    type Modes = Forwarder;
}

any_port! {
    port StockPort, rx StockRx, tx StockTx, error StockError, trouble StockTrouble, watch StockWatch;
    i40e: I40e(I40e<BareMachine>),
}

/// Every kind of port that barewire has: cards first, in the order of their PCI addresses.
pub enum StockDriver {}

impl Driver for StockDriver {
    type Port = StockPort;

    fn bring_up(machine: &mut BootMachine, config: &Config) -> Result<Found<StockPort>, BringUpError> {
        let cards = find_cards::<I40eDriver>(machine, config)?;
        let ports: Found<StockPort> =
            cards.into_iter().map(|(name, port)| (name, StockPort::I40e(port))).collect();
        if ports.is_empty() { Err(none_found(machine)) } else { Ok(ports) }
    }
}
