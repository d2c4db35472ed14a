//! What the function may use: List Function Capabilities (0x000A).

use hal::Machine;

use super::adminq::{AdminQueue, BUFFER, Command, Data};
use super::error::Error;

const ELEMENT: usize = 32;
const RXQ: u16 = 0x41;
const TXQ: u16 = 0x42;

/// Resources of the physical function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// Receive queues.
    pub rx_queues: u32,
    /// Transmit queues.
    pub tx_queues: u32,
}

/// Asks the firmware.
///
/// # Errors
/// The command's failure, or a function without queues.
pub fn discover<M: Machine>(queue: &mut AdminQueue<M>) -> Result<Capabilities, Error> {
    let mut data = [0; BUFFER];
    let command = Command::new("List Function Capabilities", 0x000a);
    let reply = queue.send(&command, Data::Read(&mut data))?;
    let count = (reply.u32(4) as usize).min(BUFFER / ELEMENT);
    let capabilities = parse(&data[..count * ELEMENT]);
    for (what, value) in
        [("receive queues", capabilities.rx_queues), ("transmit queues", capabilities.tx_queues)]
    {
        if value == 0 {
            return Err(Error::Card { step: "List Function Capabilities (0x000a)", what, value: 0 });
        }
    }
    Ok(capabilities)
}

fn parse(elements: &[u8]) -> Capabilities {
    let mut capabilities = Capabilities::default();
    for element in elements.chunks_exact(ELEMENT) {
        let number = u32::from_le_bytes([element[4], element[5], element[6], element[7]]);
        match u16::from_le_bytes([element[0], element[1]]) {
            RXQ => capabilities.rx_queues = number,
            TXQ => capabilities.tx_queues = number,
            _ => {}
        }
    }
    capabilities
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_found_among_what_is_not_known() {
        let mut data = [0; 3 * ELEMENT];
        data[..8].copy_from_slice(&[0x99, 0x09, 1, 0, 7, 0, 0, 0]);
        data[32..40].copy_from_slice(&[0x41, 0, 1, 0, 0x80, 0, 0, 0]);
        data[64..72].copy_from_slice(&[0x42, 0, 1, 0, 0x40, 1, 0, 0]);
        assert_eq!(parse(&data), Capabilities { rx_queues: 128, tx_queues: 320 });
        assert_eq!(parse(&data[..40]), Capabilities::default());
    }
}
