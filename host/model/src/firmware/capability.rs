//! List Function and Device Capabilities.

use super::{Reply, Request, code};
use crate::flow_director;

const ELEMENT: usize = 32;

/// Identifier, number, logical id, physical id. SR-IOV and VMDq are left out: their mere presence makes drivers use
/// them. DCB, with one traffic class, and flow director are there: DPDK does not come up without.
const CAPABILITIES: [(u16, u32, u32, u32); 9] = [
    (0x01, 0, 0, 0),   // switch mode: none
    (0x05, 1, 0, 0),   // functions
    (0x17, 64, 0, 0),  // VSIs
    (0x18, 1, 1, 8),   // traffic classes: enabled ones, most
    (0x40, 512, 6, 0), // RSS table entries and their width
    (0x41, 128, 0, 0), // receive queues
    (0x42, 128, 0, 0), // transmit queues
    (0x43, 129, 0, 0), // MSI-X vectors
    // Flow director filters: guaranteed, shared with the functions of other ports.
    (0x45, flow_director::GUARANTEED, flow_director::BEST_EFFORT, 0),
];

pub fn list(request: &Request, queues: u32) -> Reply {
    let needed = CAPABILITIES.len() * ELEMENT;
    if request.buffer.len() < needed {
        return Reply { data_len: Some(needed as u16), ..Reply::error(code::ENOMEM) };
    }
    let mut buffer = vec![0; request.buffer.len()];
    for (element, (id, number, logical, physical)) in buffer.chunks_exact_mut(ELEMENT).zip(CAPABILITIES) {
        let number = if matches!(id, 0x41 | 0x42) { queues } else { number };
        element[..2].copy_from_slice(&id.to_le_bytes());
        element[2] = 1;
        element[4..8].copy_from_slice(&number.to_le_bytes());
        element[8..12].copy_from_slice(&logical.to_le_bytes());
        element[12..16].copy_from_slice(&physical.to_le_bytes());
    }
    let count = CAPABILITIES.len() as u32;
    let mut reply = Reply::params(request, &[(4, &count.to_le_bytes())]).with_buffer(buffer);
    reply.data_len = Some(needed as u16);
    reply
}
