//! Extended statistics under the names that DPDK's i40e gives them (`rte_i40e_stats_strings`,
//! `rte_i40e_hw_port_strings`), in its order. Datasheet: "Statistics".
//!
//! Names that DPDK has and never counts are here, too, and 0: what reads a list of names finds them all. There are no
//! flow director filters, so that nothing matches them.

use alloc::vec::Vec;

use hal::Bar;

use super::stats::Extended;

/// Where a count comes from.
#[derive(Debug, Clone, Copy)]
enum Source {
    /// GLPRT: a counter of the port of this many bits, 8 bytes from one port to the next.
    Port(u32, u32),
    /// GLV: likewise of the VSI.
    Vsi(u32, u32),
    /// Never counted.
    Zero,
}

use Source::{Port, Vsi, Zero};

const TABLE: [(&str, Source); 47] = [
    ("rx_unicast_packets", Vsi(0x36_c000, 48)),
    ("rx_multicast_packets", Vsi(0x36_cc00, 48)),
    ("rx_broadcast_packets", Vsi(0x36_d800, 48)),
    ("rx_dropped_packets", Vsi(0x31_0000, 32)),
    ("rx_unknown_protocol_packets", Vsi(0x36_e400, 32)),
    // GL_RXERR1: frames longer than their queue takes.
    ("rx_size_error_packets", Port(0x31_8000 + 8 * 128, 48)),
    ("tx_unicast_packets", Vsi(0x33_c000, 48)),
    ("tx_multicast_packets", Vsi(0x33_cc00, 48)),
    ("tx_broadcast_packets", Vsi(0x33_d800, 48)),
    ("tx_dropped_packets", Zero),
    // Of DPDK's own check of buffers; what this driver refuses stands under the names of drops.
    ("tx_mbuf_error_packets", Zero),
    ("tx_link_down_dropped", Port(0x30_0a20, 32)),
    ("rx_crc_errors", Port(0x30_0080, 32)),
    ("rx_illegal_byte_errors", Port(0x30_00e0, 32)),
    ("rx_error_bytes", Zero),
    ("mac_local_errors", Port(0x30_0020, 32)),
    ("mac_remote_errors", Port(0x30_0040, 32)),
    ("rx_length_errors", Port(0x30_00a0, 32)),
    ("tx_xon_packets", Port(0x30_0980, 32)),
    ("rx_xon_packets", Port(0x30_0140, 32)),
    ("tx_xoff_packets", Port(0x30_09a0, 32)),
    ("rx_xoff_packets", Port(0x30_0160, 32)),
    ("rx_size_64_packets", Port(0x30_0480, 48)),
    ("rx_size_65_to_127_packets", Port(0x30_04a0, 48)),
    ("rx_size_128_to_255_packets", Port(0x30_04c0, 48)),
    ("rx_size_256_to_511_packets", Port(0x30_04e0, 48)),
    ("rx_size_512_to_1023_packets", Port(0x30_0500, 48)),
    ("rx_size_1024_to_1522_packets", Port(0x30_0520, 48)),
    ("rx_size_1523_to_max_packets", Port(0x30_0540, 48)),
    ("rx_undersized_errors", Port(0x30_0100, 32)),
    ("rx_oversize_errors", Port(0x30_0120, 32)),
    ("rx_mac_short_dropped", Zero),
    ("rx_fragmented_errors", Port(0x30_0560, 32)),
    ("rx_jabber_errors", Port(0x30_0580, 32)),
    ("tx_size_64_packets", Port(0x30_06a0, 48)),
    ("tx_size_65_to_127_packets", Port(0x30_06c0, 48)),
    ("tx_size_128_to_255_packets", Port(0x30_06e0, 48)),
    ("tx_size_256_to_511_packets", Port(0x30_0700, 48)),
    ("tx_size_512_to_1023_packets", Port(0x30_0720, 48)),
    ("tx_size_1024_to_1522_packets", Port(0x30_0740, 48)),
    ("tx_size_1523_to_max_packets", Port(0x30_0760, 48)),
    ("rx_flow_director_atr_match_packets", Zero),
    ("rx_flow_director_sb_match_packets", Zero),
    ("tx_low_power_idle_status", Zero),
    ("rx_low_power_idle_status", Zero),
    ("tx_low_power_idle_count", Zero),
    ("rx_low_power_idle_count", Zero),
];

/// A counter for each priority of priority flow control.
macro_rules! priorities {
    ($way:literal, $name:literal, $first:literal: $($number:literal)+) => {
        [$((concat!($way, "_priority", $number, "_", $name, "_packets"), Port($first + 32 * $number, 32))),+]
    };
}

const PRIORITIES: [[(&str, Source); 8]; 5] = [
    priorities!("rx", "xon", 0x30_0180: 0 1 2 3 4 5 6 7),
    priorities!("rx", "xoff", 0x30_0280: 0 1 2 3 4 5 6 7),
    priorities!("tx", "xon", 0x30_0780: 0 1 2 3 4 5 6 7),
    priorities!("tx", "xoff", 0x30_0880: 0 1 2 3 4 5 6 7),
    priorities!("tx", "xon_to_xoff", 0x30_0380: 0 1 2 3 4 5 6 7),
];

/// Statistics of one port and its VSI, from the port's start on.
pub struct ExtendedStatistics {
    counters: Vec<(&'static str, Option<Extended>)>,
}

impl ExtendedStatistics {
    /// Counts from here on.
    pub fn start<B: Bar>(bar: &B, port: usize, vsi: usize) -> Self {
        let at = |first: u32, index: usize| first + 8 * index as u32;
        let counters = TABLE
            .into_iter()
            .chain(PRIORITIES.into_iter().flatten())
            .map(|(name, source)| match source {
                Port(first, bits) => (name, Some(Extended::at(bar, at(first, port), bits))),
                Vsi(first, bits) => (name, Some(Extended::at(bar, at(first, vsi), bits))),
                Zero => (name, None),
            })
            .collect();
        Self { counters }
    }

    /// The function was reset: see [`Extended::restarted`].
    pub fn restarted<B: Bar>(&mut self, bar: &B) {
        self.counters.iter_mut().filter_map(|(_, counter)| counter.as_mut()).for_each(|counter| {
            counter.restarted(bar);
        });
    }

    /// Each name with its count since the start.
    pub fn read<B: Bar>(&mut self, bar: &B) -> impl Iterator<Item = (&'static str, u64)> {
        self.counters
            .iter_mut()
            .map(move |(name, counter)| (*name, counter.as_mut().map_or(0, |counter| counter.update(bar))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_as_short_as_dpdk_wants_them() {
        let mut names: Vec<&str> =
            TABLE.iter().chain(PRIORITIES.as_flattened()).map(|(name, _)| *name).collect();
        assert!(names.iter().all(|name| name.len() < 64));
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
