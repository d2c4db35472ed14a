//! Which core polls which queue: testpmd's rules, or a map.
//!
//! testpmd's (`rss_fwd_config_setup`, `simple_fwd_config_setup` and `setup_fwd_config_of_each_lcore` in its `config.c`):
//! as many queue pairs of each port are used as there are both receive and transmit queues; what queue `q` of a port
//! received, queue `q` of its partner sends. Streams are numbered by queue first and port second, and each core gets
//! the same number of neighbours, the last cores one more where that does not come out even. No more cores are used
//! than there are streams.
//!
//! One thing differs: testpmd's main core runs its console and forwards nothing. An image has no core to spare for
//! that, so core 0, which looks after the console and the links, is the first that forwards.

use alloc::vec::Vec;
use core::fmt;

use crate::config::{Config, Mapped};
use crate::lcore::MAX_STREAMS;

/// A stream and its core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Assigned {
    /// Port that receives.
    pub rx_port: usize,
    /// Port that sends.
    pub tx_port: usize,
    /// The queue pair: its receive queue at the one port, its transmit queue at the other.
    pub queue: u16,
    /// The core that polls both, counted from the boot core, which is 0.
    pub core: usize,
}

/// Every stream of the machine, in testpmd's order or in that of the map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment(Vec<Assigned>);

/// Why queues can't be given to cores as the command line asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AssignError {
    /// `--nb-cores` asks for more cores than run.
    Cores {
        /// What it asks for.
        asked: usize,
        /// Cores that run.
        cores: usize,
    },
    /// `--config` names a core that does not run.
    NoCore {
        /// The entry.
        entry: Mapped,
        /// Cores that run.
        cores: usize,
    },
    /// `--config` names a port that is not there.
    NoPort {
        /// The entry.
        entry: Mapped,
        /// Ports that are there.
        ports: usize,
    },
    /// Queues of a port in `--config` do not count up from 0: this entry should have queue `expected`.
    Sequence {
        /// The entry.
        entry: Mapped,
        /// The queue that should be there.
        expected: u16,
    },
    /// `--config` has no queue for a port, whose frames nobody would take.
    Unmapped(usize),
    /// A core would get more streams than it can have.
    TooMany {
        /// The core.
        core: usize,
        /// Its streams.
        streams: usize,
    },
}

impl fmt::Display for AssignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cores { asked, cores } => write!(f, "option --nb-cores={asked}: {cores} run"),
            Self::NoCore { entry, cores } => write!(f, "option --config={entry}: {cores} cores run"),
            Self::NoPort { entry, ports } => write!(f, "option --config={entry}: there are {ports} ports"),
            Self::Sequence { entry, expected } => {
                write!(
                    f,
                    "option --config={entry}: a port's queues count up from 0, this should be {expected}"
                )
            }
            Self::Unmapped(port) => write!(f, "option --config: no queue of port {port}"),
            Self::TooMany { core, streams } => {
                write!(f, "core {core} would have {streams} streams: at most {MAX_STREAMS}")
            }
        }
    }
}

impl core::error::Error for AssignError {}

impl Assignment {
    /// Gives the queues of `ports` ports to some of `cores` cores.
    ///
    /// # Errors
    /// What can't be done with as many ports and cores.
    pub fn new(config: &Config, ports: usize, cores: usize) -> Result<Self, AssignError> {
        let this = if config.map.is_empty() {
            Self::by_testpmds_rules(config, ports, cores)?
        } else {
            Self::by_map(config, ports, cores)?
        };
        for core in 0..cores {
            let streams = this.of_core(core).count();
            if streams > MAX_STREAMS {
                return Err(AssignError::TooMany { core, streams });
            }
        }
        Ok(this)
    }

    fn by_testpmds_rules(config: &Config, ports: usize, cores: usize) -> Result<Self, AssignError> {
        let asked = usize::from(config.nb_cores.unwrap_or(1));
        if asked > cores {
            return Err(AssignError::Cores { asked, cores });
        }
        let pairs = config.rxq.unwrap_or(1).min(config.txq.unwrap_or(1));
        let count = usize::from(pairs) * ports;
        let cores = asked.min(count).max(1);
        let (each, extra) = (count / cores, count % cores);
        // The first `cores - extra` cores have `each` streams, the others one more.
        let even = (cores - extra) * each;
        let core_of = |stream: usize| match stream.checked_sub(even) {
            Some(beyond) => cores - extra + beyond / (each + 1),
            None => stream / each,
        };
        let pairs = (0..pairs).flat_map(|queue| (0..ports).map(move |port| (queue, port)));
        let streams = pairs.enumerate().map(|(stream, (queue, rx_port))| {
            let tx_port = config.topology.tx_port(rx_port, ports);
            Assigned { rx_port, tx_port, queue, core: core_of(stream) }
        });
        Ok(Self(streams.collect()))
    }

    fn by_map(config: &Config, ports: usize, cores: usize) -> Result<Self, AssignError> {
        let mut this = Self(Vec::new());
        for entry in &config.map {
            let Mapped { port: rx_port, queue, core } = *entry;
            let expected = this.queues(rx_port);
            if rx_port >= ports {
                return Err(AssignError::NoPort { entry: *entry, ports });
            }
            if core >= cores {
                return Err(AssignError::NoCore { entry: *entry, cores });
            }
            if queue != expected {
                return Err(AssignError::Sequence { entry: *entry, expected });
            }
            let tx_port = config.topology.tx_port(rx_port, ports);
            this.0.push(Assigned { rx_port, tx_port, queue, core });
        }
        match (0..ports).find(|port| this.queues(*port) == 0) {
            Some(port) => Err(AssignError::Unmapped(port)),
            None => Ok(this),
        }
    }

    /// All streams.
    pub fn streams(&self) -> &[Assigned] {
        &self.0
    }

    /// The streams of a core.
    pub fn of_core(&self, core: usize) -> impl Iterator<Item = &Assigned> {
        self.0.iter().filter(move |stream| stream.core == core)
    }

    /// Receive queues of a port.
    pub fn queues(&self, port: usize) -> u16 {
        self.0.iter().filter(|stream| stream.rx_port == port).count() as u16
    }

    /// Cores that have a stream.
    pub fn cores(&self) -> usize {
        let most = self.0.iter().map(|stream| stream.core + 1).max().unwrap_or(0);
        (0..most).filter(|core| self.of_core(*core).next().is_some()).count()
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;
    use std::vec;
    use std::vec::Vec;

    use super::*;

    /// Each core's streams as port and queue, for `cores` cores and a command line.
    fn assigned(line: &str, ports: usize, cores: usize) -> Vec<Vec<(usize, u16)>> {
        let assignment = Assignment::new(&Config::parse(line).unwrap(), ports, cores).unwrap();
        let of = |core| assignment.of_core(core).map(|stream| (stream.rx_port, stream.queue)).collect();
        (0..cores).map(of).collect()
    }

    /// What testpmd's `show config fwd` lists with 2 ports for these options.
    #[test]
    fn as_testpmd_gives_streams_to_cores() {
        assert_eq!(assigned("", 2, 2), [vec![(0, 0), (1, 0)], vec![]]);
        assert_eq!(assigned("--nb-cores=2", 2, 2), [[(0, 0)], [(1, 0)]]);
        assert_eq!(assigned("--nb-cores=2 --rxq=2 --txq=2", 2, 2), [[(0, 0), (1, 0)], [(0, 1), (1, 1)]]);
        assert_eq!(
            assigned("--nb-cores=3 --rxq=2 --txq=2", 2, 4),
            [vec![(0, 0)], vec![(1, 0)], vec![(0, 1), (1, 1)], vec![]]
        );
        assert_eq!(assigned("--nb-cores=4 --rxq=4 --txq=4", 1, 4), [[(0, 0)], [(0, 1)], [(0, 2)], [(0, 3)]]);
        assert_eq!(
            assigned("--nb-cores=2 --rxq=3 --txq=3", 3, 2),
            [vec![(0, 0), (1, 0), (2, 0), (0, 1)], vec![(1, 1), (2, 1), (0, 2), (1, 2), (2, 2)]]
        );
    }

    #[test]
    fn no_more_pairs_than_there_are_of_either_kind_and_no_more_cores_than_streams() {
        assert_eq!(assigned("--rxq=4", 1, 1), [[(0, 0)]]);
        assert_eq!(assigned("--rxq=3 --txq=2", 1, 1), [[(0, 0), (0, 1)]]);
        assert_eq!(assigned("--nb-cores=8", 2, 8)[..3], [vec![(0, 0)], vec![(1, 0)], vec![]]);
    }

    #[test]
    fn each_transmit_queue_has_one_stream() {
        for topology in ["paired", "chained", "loop"] {
            let line = std::format!("--rxq=4 --txq=4 --nb-cores=3 --port-topology={topology}");
            let assignment = Assignment::new(&Config::parse(&line).unwrap(), 5, 3).unwrap();
            let mut sends: Vec<_> = assignment.streams().iter().map(|s| (s.tx_port, s.queue)).collect();
            sends.sort_unstable();
            sends.dedup();
            assert_eq!((sends.len(), assignment.queues(4), assignment.cores()), (20, 4, 3));
        }
    }

    #[test]
    fn a_map_is_followed() {
        let line = "--config=(0,0,3),(1,0,1),(0,1,1)";
        assert_eq!(assigned(line, 2, 4), [vec![], vec![(1, 0), (0, 1)], vec![], vec![(0, 0)]]);
        let assignment = Assignment::new(&Config::parse(line).unwrap(), 2, 4).unwrap();
        assert_eq!((assignment.queues(0), assignment.queues(1), assignment.cores()), (2, 1, 2));
        assert_eq!(assignment.streams()[0], Assigned { rx_port: 0, tx_port: 1, queue: 0, core: 3 });
    }

    #[test]
    fn what_can_not_be_done_is_named_with_its_value() {
        for (line, message) in [
            ("--nb-cores=5", "option --nb-cores=5: 4 run"),
            ("--config=(0,0,4),(1,0,0)", "option --config=(0,0,4): 4 cores run"),
            ("--config=(0,0,0),(2,0,0)", "option --config=(2,0,0): there are 2 ports"),
            ("--config=(0,0,0)", "option --config: no queue of port 1"),
            (
                "--config=(0,0,0),(1,1,0)",
                "option --config=(1,1,0): a port's queues count up from 0, this should be 0",
            ),
            (
                "--config=(0,0,0),(0,0,1)",
                "option --config=(0,0,1): a port's queues count up from 0, this should be 1",
            ),
            ("--rxq=33 --txq=33", "core 0 would have 66 streams: at most 64"),
        ] {
            let error = Assignment::new(&Config::parse(line).unwrap(), 2, 4).unwrap_err();
            assert_eq!(error.to_string(), message, "{line}");
        }
    }
}
