//! The image: e1000 ports and the built-in modes.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use boot::image::{App, BringUpError, PciDevice, PciDriver};
use custom_driver::E1000;
use hal::bare::BareMachine;
use kernel::config::Config;
use kernel::forward::Forwarder;

/// What this image is made of.
enum Image {}

impl App for Image {
    type Driver = E1000Driver;
    type Modes = Forwarder;
}

boot::image!(Image);

/// Finds 82540EM cards.
enum E1000Driver {}

impl PciDriver for E1000Driver {
    const NAME: &'static str = "e1000_";
    type Port = E1000<BareMachine>;

    fn card(vendor: u16, device: u16) -> Option<&'static str> {
        ((vendor, device) == (0x8086, 0x100e)).then_some("Intel 82540EM")
    }

    fn bring_up(mut device: PciDevice<'_>, config: &Config) -> Result<Self::Port, BringUpError> {
        let registers = device.bar(0)?;
        Ok(E1000::new(device.machine(), registers, config.promiscuous)?)
    }
}
