//! Finding the cards and bringing their ports up.

use drivers::i40e::{self, FlowControl, I40e, Key, Options};
use hal::bare::BareMachine;
use hal::pci::{Address, Tree, bars};
use kernel::Link;
use kernel::card::{CardOptions, Pause, RssKey};
use kernel::config::{Config, MAX_PORTS, RxDesc};
use kernel::port::PortControl;
use kernel::report::PortName;

use crate::console::println;
use crate::exit;
use crate::machine::BootMachine;

/// A port that is up; its queues don't run yet.
pub struct Port {
    /// Its name on the console.
    pub name: PortName,
    /// Its control.
    pub control: I40e<BareMachine>,
    /// Its link when it was told last.
    pub link: Link,
}

/// The ports of the machine, in the order of their PCI addresses.
pub type Ports = heapless::Vec<Port, MAX_PORTS>;

/// Brings up every card that there is a driver for. A card that does not come up ends the machine: a forwarder with
/// a port missing sends frames where they don't belong.
pub fn bring_up(machine: &mut BootMachine, config: &Config) -> Ports {
    let tree = Tree::scan(&machine.config);
    let mut ports = Ports::new();
    for function in &tree.functions {
        let Some(card) = i40e::device(function.vendor, function.device) else { continue };
        println!("pci {} {:04x}:{:04x} {}", function.at, function.vendor, function.device, card.name);
        let control = bring_up_port(machine, &tree, function.at, config)
            .unwrap_or_else(|()| exit::fatal(format_args!("{}: the port did not come up", function.at)));
        let mut name = PortName::new();
        let _ = core::fmt::Write::write_fmt(&mut name, format_args!("i40e{}", ports.len()));
        if ports.push(Port { name, control, link: Link::default() }).is_err() {
            exit::fatal(format_args!("more than {MAX_PORTS} ports"));
        }
    }
    if ports.is_empty() {
        exit::fatal(format_args!("no port: {} PCI functions, none with a driver", tree.functions.len()));
    }
    ports
}

fn bring_up_port(
    machine: &mut BootMachine,
    tree: &Tree,
    at: Address,
    config: &Config,
) -> Result<I40e<BareMachine>, ()> {
    const REGISTERS: u8 = 0;
    let told = |error: &dyn core::fmt::Display| println!("barewire: error: {at}: {error}");
    let mut info = bars::probe(&mut machine.config, at, REGISTERS).map_err(|error| told(&error))?;
    if info.base.as_u64() == 0 {
        if at.bus != 0 {
            told(&format_args!("BAR0 has no address, and the bridges in front of it are not configured"));
            return Err(());
        }
        let place = machine.place_for_bar(info.size);
        info = bars::place(&mut machine.config, at, REGISTERS, &info, place).map_err(|error| told(&error))?;
    }
    if !tree.enable(&mut machine.config, at) {
        told(&"memory decoding and bus mastering can't be turned on");
        return Err(());
    }
    // SAFETY: BAR 0 of the card that the driver below drives.
    let bar = unsafe { machine.map_bar(info.base, info.size) }.map_err(|error| told(&error))?;
    let options =
        Options { wide_descriptors: config.rx_desc == RxDesc::B32, promiscuous: config.promiscuous };
    let mut port = I40e::new(machine.machine.clone(), bar, options).map_err(|error| told(&error))?;
    set_up(&mut port, &config.card).map_err(|error| told(&error))?;
    let version = port.firmware();
    println!(
        "{at} mac {} firmware {}.{} api {}.{} nvm {}{}",
        port.mac(),
        version.firmware.0,
        version.firmware.1,
        version.api.0,
        version.api.1,
        port.nvm(),
        if port.lldp_stopped() { "" } else { ", its LLDP agent runs on and eats LLDP frames" }
    );
    port.remarks().for_each(|remark| println!("barewire: remark {at}: {remark}"));
    Ok(port)
}

/// What the command line says of cards.
fn set_up(port: &mut I40e<BareMachine>, options: &CardOptions) -> Result<(), i40e::Error> {
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
