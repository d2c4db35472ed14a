//! Addresses of ports, and what `5tswap` makes of a frame.

/// Addresses of the machine's ports.
#[derive(Debug, Clone)]
pub struct Macs(pub Vec<[u8; 6]>);

impl Macs {
    /// testpmd's address of whoever is at the other end of a port's cable.
    pub const fn peer(port: usize) -> [u8; 6] {
        [0x02, 0, 0, 0, 0, port as u8]
    }

    /// The address of a port.
    pub fn own(&self, port: usize) -> [u8; 6] {
        self.0.get(port).copied().unwrap_or_default()
    }
}

/// `frame` with source and destination exchanged in each layer that is there: behind any tags, the first IP header, and the
/// ports where there are some.
pub fn five_tuple_swapped(frame: &[u8]) -> Vec<u8> {
    let mut swapped = frame.to_vec();
    let mut exchange = |at: usize, len: usize| {
        if let Some(pair) = swapped.get_mut(at..at + 2 * len) {
            pair.rotate_left(len);
        }
    };
    exchange(0, 6);
    let kind = |at: usize| frame.get(at..at + 2);
    let mut at = 12;
    while matches!(kind(at), Some([0x81, 0x00] | [0x88, 0xa8])) {
        at += 4;
    }
    let ip = frame.get(at + 2..).unwrap_or_default();
    let (protocol, ports) = match kind(at) {
        Some([0x08, 0x00]) if ip.len() >= 20 && ip[0] & 0xf >= 5 => {
            exchange(at + 14, 4);
            let first = ip[6] & 0x1f == 0 && ip[7] == 0;
            (ip[9], first.then_some(usize::from(ip[0] & 0xf) * 4))
        }
        Some([0x86, 0xdd]) if ip.len() >= 40 => {
            exchange(at + 10, 16);
            (ip[6], Some(40))
        }
        _ => return swapped,
    };
    if let (6 | 17, Some(ports)) = (protocol, ports) {
        exchange(at + 2 + ports, 2);
    }
    swapped
}
