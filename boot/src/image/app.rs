//! What one image has that another has not.

use kernel::forward::Forwarder;

use super::{Driver, I40eDriver};
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
    type Driver = I40eDriver;
    type Modes = Forwarder;
}
