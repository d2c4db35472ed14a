//! List Function and Device Capabilities.

use super::{Reply, Request, code};

const ELEMENT: usize = 32;

/// Identifier, number, logical id. Flow director, SR-IOV, VMDq and DCB are left out: their mere presence makes drivers
/// use them.
const CAPABILITIES: [(u16, u32, u32); 7] = [
    (0x01, 0, 0),   // switch mode: none
    (0x05, 1, 0),   // functions
    (0x17, 64, 0),  // VSIs
    (0x40, 512, 6), // RSS table entries and their width
    (0x41, 128, 0), // receive queues
    (0x42, 128, 0), // transmit queues
    (0x43, 129, 0), // MSI-X vectors
];

pub fn list(request: &Request) -> Reply {
    let needed = CAPABILITIES.len() * ELEMENT;
    if request.buffer.len() < needed {
        return Reply { data_len: Some(needed as u16), ..Reply::error(code::ENOMEM) };
    }
    let mut buffer = vec![0; request.buffer.len()];
    for (element, (id, number, logical)) in buffer.chunks_exact_mut(ELEMENT).zip(CAPABILITIES) {
        element[..2].copy_from_slice(&id.to_le_bytes());
        element[2] = 1;
        element[4..8].copy_from_slice(&number.to_le_bytes());
        element[8..12].copy_from_slice(&logical.to_le_bytes());
    }
    let count = CAPABILITIES.len() as u32;
    let mut reply = Reply::params(request, &[(4, &count.to_le_bytes())]).with_buffer(buffer);
    reply.data_len = Some(needed as u16);
    reply
}
