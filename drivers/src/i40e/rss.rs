//! Receive side scaling: a hash over the addresses and ports of a flow chooses one of 512 table entries, and that a
//! receive queue. Datasheet: "Receive Side Scaling (RSS)"; the hash is Toeplitz's, as in Microsoft's specification.

use bitflags::bitflags;
use hal::{BarAccess, Machine};

use super::adminq::AdminQueue;
use super::command;
use super::error::Error;
use super::regs;

/// Bytes of the key. The hash of the longest input, two IPv6 addresses and ports, uses the first 40.
pub const KEY_BYTES: usize = 52;
/// Entries of the table.
pub const TABLE_ENTRIES: usize = 512;
/// Entries have 6 bits: queues that a table can name.
pub const TABLE_QUEUES: usize = 64;

const STEP: &str = "receive side scaling";

bitflags! {
    /// Kinds of packets that a hash is made of (by drivers: `i40e_filter_pctype`). All but fragments and what is neither
    /// TCP, UDP nor SCTP are hashed with their ports.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Flows: u64 {
        /// UDP over IPv4.
        const IPV4_UDP = 1 << 31;
        /// TCP over IPv4.
        const IPV4_TCP = 1 << 33;
        /// SCTP over IPv4.
        const IPV4_SCTP = 1 << 34;
        /// Anything else over IPv4.
        const IPV4_OTHER = 1 << 35;
        /// Fragments of IPv4.
        const IPV4_FRAGMENT = 1 << 36;
        /// UDP over IPv6.
        const IPV6_UDP = 1 << 41;
        /// TCP over IPv6.
        const IPV6_TCP = 1 << 43;
        /// SCTP over IPv6.
        const IPV6_SCTP = 1 << 44;
        /// Anything else over IPv6.
        const IPV6_OTHER = 1 << 45;
        /// Fragments of IPv6.
        const IPV6_FRAGMENT = 1 << 46;
    }
}

/// A key: which bits of a flow decide on its queue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key(pub [u8; KEY_BYTES]);

impl Key {
    /// The key of Microsoft's "Verifying the RSS Hash Calculation", with 0 behind its 40 bytes.
    pub const SPECIFICATION: Self = Self([
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0,
        0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42,
        0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ]);

    /// A key that repeats after 16 bits: both directions of a flow have the same hash (Woo and Park, "Scalable TCP
    /// Session Monitoring with Symmetric Receive-side Scaling", 2012).
    pub const SYMMETRIC: Self = {
        let mut key = [0; KEY_BYTES];
        let mut at = 0;
        while at < KEY_BYTES {
            key[at] = if at % 2 == 0 { 0x6d } else { 0x5a };
            at += 1;
        }
        Self(key)
    };
}

/// What decides on the queue of a frame.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Rss {
    /// The key.
    pub key: Key,
    /// Packets of other kinds go to queue 0, without a hash.
    pub flows: Flows,
    /// For each value of the hash's low 9 bits a queue below [`TABLE_QUEUES`].
    pub table: [u8; TABLE_ENTRIES],
}

impl Rss {
    /// Flows of every kind, spread evenly over queues 0 to `queues` - 1.
    pub fn spread(queues: u16, key: Key) -> Self {
        let queues = usize::from(queues).clamp(1, TABLE_QUEUES);
        Self { key, flows: Flows::all(), table: core::array::from_fn(|entry| (entry % queues) as u8) }
    }

    /// Everything to queue 0, and no hash.
    pub const OFF: Self = Self { key: Key::SPECIFICATION, flows: Flows::empty(), table: [0; TABLE_ENTRIES] };
}

/// Programs the card. Frames that arrive meanwhile may go by the old or the new rule; none is lost.
pub fn program<M: Machine>(
    queue: &mut AdminQueue<M>,
    bar: &M::Bar,
    rss: &Rss,
    queues: usize,
) -> Result<(), Error> {
    if let Some(entry) = rss.table.iter().find(|entry| usize::from(**entry) >= queues.min(TABLE_QUEUES)) {
        return Err(Error::Request { step: STEP, what: "queue", value: u64::from(*entry) });
    }
    for (register, word) in (0..).map(|index| regs::PFQF_HKEY.get(index)).zip(words(&rss.key.0)) {
        if let Some(register) = register {
            bar.write(register, word);
        }
    }
    for (register, word) in (0..).map(|index| regs::PFQF_HLUT.get(index)).zip(words(&rss.table)) {
        if let Some(register) = register {
            bar.write(register, word);
        }
    }
    let flows = rss.flows.bits();
    for (register, word) in
        (0..).map(|index| regs::PFQF_HENA.get(index)).zip([flows as u32, (flows >> 32) as u32])
    {
        if let Some(register) = register
            && command::write_rx_control(queue, register.offset(), word).is_err()
        {
            // Firmware that has no such command leaves the register to the driver.
            bar.write(register, word);
        }
    }
    Ok(())
}

/// The table as the card has it.
pub fn table<B: hal::Bar>(bar: &B) -> [u8; TABLE_ENTRIES] {
    let mut table = [0; TABLE_ENTRIES];
    for (index, entries) in table.chunks_exact_mut(4).enumerate() {
        if let Some(register) = regs::PFQF_HLUT.get(index) {
            entries.copy_from_slice(&bar.read(register).to_le_bytes());
        }
    }
    table
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    bytes.chunks_exact(4).map(|word| word.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux's default for a card without flow director: 0x80000000 and 0x00007a1e, the latter without the class of
    /// layer 2 frames (bit 63).
    #[test]
    fn all_flows_are_those_that_linux_enables() {
        assert_eq!(Flows::all().bits(), 0x0000_7a1e_8000_0000);
    }

    #[test]
    fn entries_and_key_go_four_to_a_register_the_first_lowest() {
        let rss = Rss::spread(3, Key::SYMMETRIC);
        let table: std::vec::Vec<u32> = words(&rss.table).collect();
        assert_eq!((table.len(), table[0], table[1]), (128, 0x0002_0100, 0x0100_0201));
        assert_eq!(words(&Key::SPECIFICATION.0).next(), Some(0xda56_5a6d));
        assert!(words(&Key::SYMMETRIC.0).all(|word| word == 0x5a6d_5a6d));
    }

    #[test]
    fn a_table_never_names_more_than_it_can() {
        assert_eq!(Rss::spread(0, Key::SYMMETRIC).table, [0; TABLE_ENTRIES]);
        assert_eq!(Rss::spread(1000, Key::SYMMETRIC).table.iter().max(), Some(&63));
    }
}
