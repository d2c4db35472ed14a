//! The ports of the machine.

use kernel::Link;
use kernel::config::{Config, MAX_PORTS};
use kernel::report::PortName;

use super::machine::BootMachine;
use super::{App, Driver, exit};

/// A port of an [`App`].
pub type PortOf<A> = <<A as App>::Driver as Driver>::Port;

/// A port that is up; its queues don't run yet.
pub struct Port<P> {
    /// Its name on the console.
    pub name: PortName,
    /// Its control.
    pub control: P,
    /// Its link when it was told last.
    pub link: Link,
}

/// The ports of the machine, in the order of their numbers.
pub type Ports<A> = heapless::Vec<Port<PortOf<A>>, MAX_PORTS>;

/// Brings up every port that there is a driver for.
pub fn bring_up<A: App>(machine: &mut BootMachine, config: &Config) -> Ports<A> {
    let found = <A::Driver as Driver>::bring_up(machine, config);
    let found = found.unwrap_or_else(|error| exit::fatal(format_args!("{error}")));
    if found.is_empty() {
        exit::fatal(format_args!("no port"));
    }
    let port = |(index, (driver, control))| {
        let mut name = PortName::new();
        // A name that is too long is cut.
        let _ = core::fmt::Write::write_fmt(&mut name, format_args!("{driver}{index}"));
        Port { name, control, link: Link::default() }
    };
    found.into_iter().enumerate().map(port).collect()
}
