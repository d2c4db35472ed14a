//! Watching the links.

use kernel::Link;
use kernel::config::MAX_PORTS;
use kernel::port::PortControl;

use crate::console::println;
use crate::ports::Ports;

/// The links, as they were told last.
pub struct Links {
    known: heapless::Vec<Option<Link>, MAX_PORTS>,
    waited: u32,
}

impl Links {
    /// Services between two looks.
    const PERIOD: u32 = 10;

    /// The links as they were when the ports were announced.
    pub fn new(ports: &Ports) -> Self {
        Self { known: ports.iter().map(|port| Some(port.link)).collect(), waited: 0 }
    }

    /// Tells each change; a port whose firmware does not answer is told once and not asked again.
    pub fn look(&mut self, ports: &mut Ports) {
        self.waited += 1;
        if self.waited < Self::PERIOD {
            return;
        }
        self.waited = 0;
        for ((index, port), known) in ports.iter_mut().enumerate().zip(&mut self.known) {
            let Some(before) = *known else { continue };
            match port.control.link() {
                Ok(link) if link != before => {
                    println!("barewire: link port={index} name={} {link}", port.name);
                    *known = Some(link);
                }
                Ok(_) => {}
                Err(error) => {
                    println!("barewire: error: {}: {error}", port.name);
                    *known = None;
                }
            }
        }
    }
}
