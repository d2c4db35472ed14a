//! The console device (5.3), as a channel of bytes: a port with a name, or the only port of a device that has no more.
//!
//! A port tells by a control queue when somebody opens or closes it on the host. What is written while it is closed, the host
//! throws away.

use core::time::Duration;

use hal::{Clock, Machine, NarrowBar};

use super::console_buffers::{Receive, Send};
use super::console_control::{Control, Event};
use super::{Device, Error, Transport, console_control, device_type};
use crate::byte_channel::ByteChannel;

/// The device type of a console.
const CONSOLE: u16 = 3;
/// VIRTIO_CONSOLE_F_MULTIPORT.
const MULTIPORT: u64 = 1 << 1;
/// max_nr_ports in the configuration.
const MAX_NR_PORTS: u32 = 4;
/// Ports whose queues are made. A port behind them is not found.
const MOST_PORTS: u32 = 8;
/// Descriptors of a port's queue.
const QUEUE: u16 = 16;
/// How long the device may take to tell of its ports.
const LIMIT: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_micros(100);

/// It is a console that can be driven.
pub fn is_console(vendor: u16, device: u16) -> bool {
    device_type(vendor, device) == Some(CONSOLE)
}

/// A port of a console device.
pub struct Console<M: Machine> {
    device: Device<M>,
    /// `None` of a device with one port.
    control: Option<Control<M::Bar>>,
    port: u32,
    receive: Receive<M::Bar>,
    send: Send<M::Bar>,
    open: bool,
    openings: u32,
    fault: Option<Error>,
}

impl<M: Machine<Bar: NarrowBar>> Console<M> {
    /// Starts the device and opens its port `name`, or its only port if it has no more.
    ///
    /// # Errors
    /// The step that failed; [`Error::Timeout`] when the device tells of no port with that name.
    pub fn start(transport: Transport<M>, name: &str) -> Result<Self, Error> {
        let mut setup = transport.negotiate(MULTIPORT, 0)?;
        let machine = setup.transport().machine().clone();
        if setup.features & MULTIPORT == 0 {
            let queues = (setup.queue(0, QUEUE)?, setup.queue(1, QUEUE)?);
            let device = setup.run()?;
            return Self::with_port(device, None, 0, queues);
        }
        let ports = u32::from_le_bytes(setup.transport().config(MAX_NR_PORTS)?);
        let ports = ports.clamp(1, MOST_PORTS);
        // All before the device runs: afterwards none may be made.
        let mut pairs: heapless::Vec<_, { MOST_PORTS as usize }> = heapless::Vec::new();
        for port in 0..ports as u16 {
            let first = if port == 0 { 0 } else { 2 + 2 * port };
            let pair = (setup.queue(first, QUEUE)?, setup.queue(first + 1, QUEUE)?);
            let _ = pairs.push(pair);
        }
        let mut control = Control::new(
            &machine,
            setup.queue(2, console_control::QUEUE)?,
            setup.queue(3, console_control::QUEUE)?,
        )?;
        let device = setup.run()?;
        control.start();
        let port = Self::find(&machine, &mut control, name)?;
        let wrong = Error::Device { step: "finding the port", what: "its number", value: port.into() };
        if port as usize >= pairs.len() {
            return Err(wrong);
        }
        let queues = pairs.swap_remove(port as usize);
        Self::with_port(device, Some(control), port, queues)
    }

    fn find(machine: &M, control: &mut Control<M::Bar>, name: &str) -> Result<u32, Error> {
        let mut told = 0;
        let found = machine.clock().poll(LIMIT, PAUSE, || match control.next(name) {
            Ok(Some(Event::Named(port))) => Some(Ok(port)),
            Ok(Some(Event::Added)) => {
                told += 1;
                None
            }
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        });
        let millis = LIMIT.as_millis() as u32;
        found.unwrap_or(Err(Error::Timeout {
            step: "waiting for the port's name, ports",
            value: told,
            millis,
        }))
    }

    fn with_port(
        device: Device<M>,
        mut control: Option<Control<M::Bar>>,
        port: u32,
        (rx, tx): (super::Queue<M::Bar>, super::Queue<M::Bar>),
    ) -> Result<Self, Error> {
        let machine = device.transport().machine().clone();
        let receive = Receive::new(&machine, rx)?;
        let send = Send::new(&machine, tx)?;
        let alone = control.is_none();
        if let Some(control) = &mut control {
            control.open(port, true);
        }
        Ok(Self {
            device,
            control,
            port,
            receive,
            send,
            open: alone,
            openings: u32::from(alone),
            fault: None,
        })
    }

    /// What the device did that makes no sense. Nothing is read or written any more then.
    pub fn fault(&self) -> Option<Error> {
        self.fault
    }

    /// The number of the port.
    pub fn port(&self) -> u32 {
        self.port
    }

    /// Closes the port and gives the device back.
    ///
    /// # Errors
    /// The device does not come out of reset.
    pub fn shut_down(mut self) -> Result<(), Error> {
        if let Some(control) = &mut self.control {
            control.open(self.port, false);
        }
        self.device.transport().reset()
    }

    /// Takes in what the device tells of the port.
    fn look(&mut self) -> Result<(), Error> {
        let Some(control) = &mut self.control else { return Ok(()) };
        while let Some(event) = control.next("")? {
            match event {
                Event::Open(port, open) if port == self.port => {
                    self.openings = self.openings.wrapping_add(u32::from(open));
                    self.open = open;
                }
                Event::Removed(port) if port == self.port => self.open = false,
                _ => {}
            }
        }
        Ok(())
    }

    /// Does `work`, unless the device is not believed any more.
    fn guarded(&mut self, work: impl FnOnce(&mut Self) -> Result<usize, Error>) -> usize {
        if self.fault.is_some() {
            return 0;
        }
        let done = self.look().and_then(|()| work(self));
        done.unwrap_or_else(|error| {
            self.fault = Some(error);
            self.open = false;
            0
        })
    }
}

impl<M: Machine<Bar: NarrowBar>> ByteChannel for Console<M> {
    fn try_read(&mut self, to: &mut [u8]) -> usize {
        self.guarded(|console| console.receive.read(to))
    }

    fn try_write(&mut self, from: &[u8]) -> usize {
        self.guarded(|console| console.send.write(from))
    }

    fn openings(&mut self) -> u32 {
        self.guarded(|_| Ok(0));
        self.openings
    }

    fn is_open(&mut self) -> bool {
        self.guarded(|_| Ok(0));
        self.open
    }
}
