//! Which port sends what another received: testpmd's `--port-topology`.

/// How ports are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Topology {
    /// 0 with 1, 2 with 3, ...; a last port without a partner sends to itself.
    #[default]
    Paired,
    /// Each to the next, the last to the first.
    Chained,
    /// Each to itself.
    Loop,
}

impl Topology {
    /// testpmd's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Paired => "paired",
            Self::Chained => "chained",
            Self::Loop => "loop",
        }
    }

    /// The topology of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Paired, Self::Chained, Self::Loop].into_iter().find(|topology| topology.name() == name)
    }

    /// The port, of `ports`, that sends what `port` received.
    pub const fn tx_port(self, port: usize, ports: usize) -> usize {
        match self {
            Self::Paired if port ^ 1 < ports => port ^ 1,
            Self::Chained if port + 1 < ports => port + 1,
            Self::Chained => 0,
            Self::Paired | Self::Loop => port,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(topology: Topology, ports: usize) -> std::vec::Vec<usize> {
        (0..ports).map(|port| topology.tx_port(port, ports)).collect()
    }

    /// What testpmd prints for 1 to 4 ports in each topology.
    #[test]
    fn as_testpmd_joins_them() {
        assert_eq!(all(Topology::Paired, 1), [0]);
        assert_eq!(all(Topology::Paired, 2), [1, 0]);
        assert_eq!(all(Topology::Paired, 3), [1, 0, 2]);
        assert_eq!(all(Topology::Paired, 4), [1, 0, 3, 2]);
        assert_eq!(all(Topology::Chained, 3), [1, 2, 0]);
        assert_eq!(all(Topology::Chained, 1), [0]);
        assert_eq!(all(Topology::Loop, 3), [0, 1, 2]);
    }
}
