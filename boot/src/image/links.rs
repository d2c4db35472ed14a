//! Watching the ports: their links, and whether their cards still do what they were told.

use kernel::Link;
use kernel::config::MAX_PORTS;
use kernel::port::PortControl;

use super::App;
use super::console::println;
use super::ports::{PortOf, Ports};
use crate::port::ImagePort;

/// The ports, as they were told last.
pub struct Links<A: App> {
    known: heapless::Vec<Known<TroubleOf<A>>, MAX_PORTS>,
    waited: u32,
}

type TroubleOf<A> = <PortOf<A> as ImagePort>::Trouble;

struct Known<T> {
    /// `None`: its firmware does not answer.
    link: Option<Link>,
    trouble: Option<T>,
}

impl<A: App> Links<A> {
    /// Services between two looks.
    const PERIOD: u32 = 10;

    /// The links as they were when the ports were announced.
    pub fn new(ports: &Ports<A>) -> Self {
        let known = |link| Known { link: Some(link), trouble: None };
        Self { known: ports.iter().map(|port| known(port.link)).collect(), waited: 0 }
    }

    /// Tells each change; a port whose firmware does not answer is told once and not asked for its link again.
    pub fn look(&mut self, ports: &mut Ports<A>) {
        self.waited += 1;
        if self.waited < Self::PERIOD {
            return;
        }
        self.waited = 0;
        for ((index, port), known) in ports.iter_mut().enumerate().zip(&mut self.known) {
            let trouble = port.control.trouble();
            if trouble != known.trouble {
                match &trouble {
                    Some(trouble) => println!("barewire: error: {}: {trouble}", port.name),
                    None => println!("barewire: {}: the trouble is over", port.name),
                }
                known.trouble = trouble;
            }
            let Some(before) = known.link else { continue };
            match port.control.link() {
                Ok(link) if link != before => {
                    println!("barewire: link port={index} name={} {link}", port.name);
                    known.link = Some(link);
                }
                Ok(_) => {}
                Err(error) => {
                    println!("barewire: error: {}: {error}", port.name);
                    known.link = None;
                }
            }
        }
    }
}
