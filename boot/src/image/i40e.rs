//! i40e cards as the ports of an image.

use drivers::i40e::{self, Error, FlowControl, I40e, Key, Options};
use hal::bare::BareMachine;
use kernel::card::{CardOptions, Pause, RssKey};
use kernel::config::{Config, RxDesc};
use kernel::port::PortControl;

use super::{BringUpError, PciDevice, PciDriver};

/// Intel X710, XL710 and XXV710.
pub enum I40eDriver {}

impl PciDriver for I40eDriver {
    const NAME: &'static str = "i40e";
    type Port = I40e<BareMachine>;

    fn card(vendor: u16, device: u16) -> Option<&'static str> {
        Some(i40e::device(vendor, device)?.name)
    }

    fn bring_up(mut device: PciDevice<'_>, config: &Config) -> Result<Self::Port, BringUpError> {
        const REGISTERS: u8 = 0;
        let bar = device.bar(REGISTERS)?;
        let options =
            Options { wide_descriptors: config.rx_desc == RxDesc::B32, promiscuous: config.promiscuous };
        let mut port = I40e::new(device.machine(), bar, options)?;
        set_up(&mut port, &config.card)?;
        let version = port.firmware();
        device.tell(format_args!(
            "mac {} firmware {}.{} api {}.{} nvm {}{}",
            port.mac(),
            version.firmware.0,
            version.firmware.1,
            version.api.0,
            version.api.1,
            port.nvm(),
            if port.lldp_stopped() { "" } else { ", its LLDP agent runs on and eats LLDP frames" }
        ));
        port.remarks().for_each(|remark| device.remark(remark));
        Ok(port)
    }
}

/// What the command line says of cards.
fn set_up(port: &mut I40e<BareMachine>, options: &CardOptions) -> Result<(), Error> {
    match options.rss_key {
        RssKey::Default => {}
        RssKey::Symmetric => port.set_rss_key(Key::SYMMETRIC)?,
        RssKey::Bytes(bytes) => port.set_rss_key(Key(bytes))?,
    }
    if options.qinq_strip {
        port.set_qinq(true)?;
    }
    if options.vlan_strip {
        port.set_vlan_strip(true)?;
    }
    for vlan in &options.rx_vlans {
        port.set_vlan(*vlan, true)?;
    }
    if options.vlan_filter {
        port.set_vlan_filter(true)?;
    }
    if options.all_multicast {
        port.set_all_multicast(true)?;
    }
    if let Some(Pause { rx, tx }) = options.flow_control {
        port.set_flow_control(FlowControl { rx, tx })?;
    }
    Ok(())
}
