//! The byte channel to whoever looks after this machine on its host: a port of a virtio console, or a second UART.

use alloc::boxed::Box;
use alloc::format;

use drivers::byte_channel::ByteChannel;
use drivers::virtio::console::is_console;
use drivers::virtio::{Console, Error, Layout, Transport};
use hal::bare::BareMachine;
use hal::pci::Tree;

use super::console::println;
use super::machine::BootMachine;
use super::serial::{self, Serial};
use super::{BringUpError, PciDevice};

/// The port that the host's side has.
pub const CHANNEL_NAME: &str = "barewire.memif";

/// A channel, of whichever kind this machine has.
pub enum Channel {
    /// A port of a virtio console.
    Console(Box<Console<BareMachine>>),
    /// The second UART.
    Uart(Serial),
}

impl Channel {
    /// What the other side did that makes no sense, if it did.
    pub fn fault(&self) -> Option<Error> {
        match self {
            Self::Console(console) => console.fault(),
            Self::Uart(_) => None,
        }
    }
}

impl ByteChannel for Channel {
    fn try_read(&mut self, to: &mut [u8]) -> usize {
        match self {
            Self::Console(console) => console.try_read(to),
            Self::Uart(uart) => {
                let mut read = 0;
                for to in to {
                    let Some(byte) = uart.get() else { break };
                    *to = byte;
                    read += 1;
                }
                read
            }
        }
    }

    fn try_write(&mut self, from: &[u8]) -> usize {
        match self {
            Self::Console(console) => console.try_write(from),
            Self::Uart(uart) => uart.put_some(from),
        }
    }

    fn openings(&mut self) -> u32 {
        match self {
            Self::Console(console) => console.openings(),
            Self::Uart(_) => 1,
        }
    }

    fn is_open(&mut self) -> bool {
        match self {
            Self::Console(console) => console.is_open(),
            Self::Uart(_) => true,
        }
    }
}

impl BootMachine {
    /// The channel to the host: the port [`CHANNEL_NAME`] of the first virtio console that has it, else the second UART.
    /// Called once.
    ///
    /// # Errors
    /// There is neither.
    pub fn channel(&mut self) -> Result<Channel, BringUpError> {
        let tree = Tree::scan(&self.config);
        for function in tree.functions.iter().filter(|found| is_console(found.vendor, found.device)) {
            let at = function.at;
            match self.console(&tree, at) {
                Ok(console) => {
                    println!("{at} channel {CHANNEL_NAME}, port {}", console.port());
                    return Ok(Channel::Console(Box::new(console)));
                }
                Err(error) => println!("{at} is not the channel: {error}"),
            }
        }
        match serial::second() {
            Some(uart) => {
                println!("channel {CHANNEL_NAME} by the second UART");
                Ok(Channel::Uart(uart))
            }
            None => {
                Err(format!("no channel: no virtio console has a port {CHANNEL_NAME}, and no second UART")
                    .into())
            }
        }
    }

    fn console(&mut self, tree: &Tree, at: hal::pci::Address) -> Result<Console<BareMachine>, BringUpError> {
        let layout = Layout::find(&self.config, at)?;
        let mut device = PciDevice { machine: self, tree, at };
        let transport = Transport::new(device.machine(), &layout, |index| device.bar(index))?;
        Ok(Console::start(transport, CHANNEL_NAME)?)
    }
}
