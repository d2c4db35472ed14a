//! The image's configuration from its command line: testpmd's option names, `--name=value` or `--name value`.

use core::fmt;
use core::ops::RangeInclusive;
use hal::simd::Level;

use heapless::{String, Vec};

use crate::burst::BURST_MAX;
use crate::card::CardOptions;
use crate::forward::{Mode, ModeOptions};
use crate::port::MacAddr;
use crate::topology::Topology;

/// Ports that an image can have.
pub const MAX_PORTS: usize = 16;

/// Cores that an image can use; more are left alone.
pub const MAX_CORES: usize = 64;
/// Queue pairs that a port can have.
pub const MAX_QUEUES: u16 = 64;
/// Entries of `--config`.
pub const MAX_MAPPED: usize = 128;

/// Longest value that an error repeats; more is cut.
const SHOWN: usize = 32;

/// How the machine is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Exit {
    /// Stand still.
    #[default]
    Halt,
    /// Start again.
    Reboot,
    /// Tell QEMU's isa-debug-exit device at this I/O port.
    DebugExit(u16),
}

/// Width of receive descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RxDesc {
    /// 16 bytes.
    B16,
    /// 32 bytes.
    #[default]
    B32,
}

/// An entry of `--config`: who polls a receive queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapped {
    /// The port that receives.
    pub port: usize,
    /// Its queue pair.
    pub queue: u16,
    /// The core, counted from the boot core, which is 0.
    pub core: usize,
}

impl fmt::Display for Mapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({},{},{})", self.port, self.queue, self.core)
    }
}

/// Everything that the command line can say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// `--forward-mode`
    pub mode: Mode,
    /// `--forward-mode` where it names a mode that the image adds to the built-in ones; `mode` is as by default then.
    pub added_mode: Option<String<32>>,
    /// `--burst`: most frames a poll, 1 to 512.
    pub burst: u16,
    /// `--rxd`: descriptors of a receive ring, 64 to 8160, a multiple of 32.
    pub rxd: u16,
    /// `--txd`: descriptors of a transmit ring, likewise.
    pub txd: u16,
    /// `--rx-desc`: bytes of a receive descriptor, 16 or 32.
    pub rx_desc: RxDesc,
    /// `--nb-cores`: cores that forward, 1 to 64. testpmd's default is 1.
    pub nb_cores: Option<u16>,
    /// `--rxq`: receive queues of a port, 1 to 64. testpmd's default is 1.
    pub rxq: Option<u16>,
    /// `--txq`: transmit queues of a port, likewise.
    pub txq: Option<u16>,
    /// `--config=(PORT,QUEUE,CORE),...` as l3fwd has it: instead of the three above. Empty where nothing is said.
    pub map: Vec<Mapped, MAX_MAPPED>,
    /// `--total-num-mbufs`: buffers of a core; by default as many as rings and a burst can hold.
    pub total_num_mbufs: Option<u32>,
    /// `--port-topology`
    pub topology: Topology,
    /// `--eth-peer=PORT,MAC`: 02:00:00:00:00:PORT where nothing is said.
    pub eth_peers: [MacAddr; MAX_PORTS],
    /// What modes are told.
    pub modes: ModeOptions,
    /// `--tx-first` or `--tx-first=BURSTS`: bursts of `txonly`'s frames that are sent on each stream before forwarding
    /// starts, 0 to 1000.
    pub tx_first: u16,
    /// `--retry`: frames that find no room are tried again, as testpmd's `set fwd MODE retry` says.
    pub retry: bool,
    /// `--burst-tx-retry-num`: so many times, 1 to 65535.
    pub burst_tx_retry_num: u16,
    /// `--burst-tx-delay-time`: microseconds between two tries, 0 to 65535.
    pub burst_tx_delay_us: u16,
    /// `--isa=auto|scalar|ssse3|avx2|avx512`: `None` is the best that the CPU has.
    pub isa: Option<Level>,
    /// `--no-promiscuous`: only frames for the port's own address and broadcasts.
    pub promiscuous: bool,
    /// What cards are told.
    pub card: CardOptions,
    /// `--exit=halt|reboot|isa-debug-exit:PORT`
    pub exit: Exit,
    /// `--self-test=NAME`: a test of the image itself instead of forwarding.
    pub self_test: Option<String<32>>,
}

impl Default for Config {
    fn default() -> Self {
        let mut eth_peers = [MacAddr::default(); MAX_PORTS];
        for (port, peer) in (0..).zip(&mut eth_peers) {
            *peer = MacAddr([2, 0, 0, 0, 0, port]);
        }
        Self {
            mode: Mode::default(),
            added_mode: None,
            burst: 32,
            rxd: 1024,
            txd: 1024,
            rx_desc: RxDesc::default(),
            nb_cores: None,
            rxq: None,
            txq: None,
            map: Vec::new(),
            total_num_mbufs: None,
            topology: Topology::default(),
            eth_peers,
            modes: ModeOptions::default(),
            tx_first: 0,
            retry: false,
            burst_tx_retry_num: 64,
            burst_tx_delay_us: 1,
            isa: None,
            promiscuous: true,
            card: CardOptions::default(),
            exit: Exit::default(),
            self_test: None,
        }
    }
}

/// An option that can't be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    option: String<SHOWN>,
    value: String<SHOWN>,
    expected: &'static str,
}

impl ConfigError {
    fn new(option: &str, value: &str, expected: &'static str) -> Self {
        Self { option: cut(option), value: cut(value), expected }
    }

    /// The option, such as `--burst`.
    pub fn option(&self) -> &str {
        &self.option
    }

    fn of_number(option: &str, number: u32, expected: &'static str) -> Self {
        let mut value = String::new();
        // Ten digits fit.
        let _ = fmt::Write::write_fmt(&mut value, format_args!("{number}"));
        Self { option: cut(option), value, expected }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.value.is_empty() {
            write!(f, "option {}: {}", self.option, self.expected)
        } else {
            write!(f, "option {}={}: {}", self.option, self.value, self.expected)
        }
    }
}

impl core::error::Error for ConfigError {}

fn cut(text: &str) -> String<SHOWN> {
    let mut out = String::new();
    for c in text.chars() {
        let shown = if c.is_control() { '?' } else { c };
        if out.push(shown).is_err() {
            break;
        }
    }
    out
}

impl Config {
    /// Reads a command line. Words before the first option, such as a program's name, are passed over.
    ///
    /// # Errors
    /// The first option that is unknown, lacks its value, or has one out of range.
    pub fn parse(command_line: &str) -> Result<Self, ConfigError> {
        Self::parse_with(command_line, |_| false)
    }

    /// As [`Config::parse`], for an image that has modes beside the built-in ones: those whose name is `added`.
    ///
    /// # Errors
    /// As there.
    pub fn parse_with(command_line: &str, added: impl Fn(&str) -> bool) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        let mut words = command_line.split_ascii_whitespace().skip_while(|word| !word.starts_with("--"));
        while let Some(word) = words.next() {
            let (option, value) = match word.split_once('=') {
                Some((option, value)) => (option, Some(value)),
                None => (word, None),
            };
            match option {
                "--no-promiscuous" if value.is_none() => config.promiscuous = false,
                "--promiscuous" if value.is_none() => config.promiscuous = true,
                "--retry" if value.is_none() => config.retry = true,
                "--tx-first" if value.is_none() => config.tx_first = 1,
                _ if value.is_none() && (config.card.set_flag(option) || config.modes.set_flag(option)) => {}
                _ if !Self::is_known(option) => {
                    return Err(ConfigError::new(option, value.unwrap_or(""), "is not known"));
                }
                _ => {
                    let value = value.or_else(|| words.next()).unwrap_or("");
                    match String::try_from(value) {
                        Ok(name) if option == "--forward-mode" && added(value) => {
                            (config.mode, config.added_mode) = (Mode::default(), Some(name));
                        }
                        _ => config.set(option, value)?,
                    }
                }
            }
        }
        if config.mode == Mode::Ieee1588 {
            // As testpmd has it: a frame at a time, back where it came from.
            (config.topology, config.burst) = (Topology::Loop, 1);
        }
        config.check_together()?;
        Ok(config)
    }

    /// How the machine is left, as far as the line says so, even if the rest of it can't be taken: an error must be
    /// able to end the machine.
    pub fn exit_option(command_line: &str) -> Exit {
        let mut found = Exit::default();
        let mut words = command_line.split_ascii_whitespace();
        while let Some(word) = words.next() {
            let value = if word == "--exit" { words.next() } else { word.strip_prefix("--exit=") };
            found = value.and_then(exit).unwrap_or(found);
        }
        found
    }

    fn is_known(option: &str) -> bool {
        const WITH_VALUE: [&str; 18] = [
            "--forward-mode",
            "--burst",
            "--rxd",
            "--txd",
            "--rx-desc",
            "--nb-cores",
            "--rxq",
            "--txq",
            "--config",
            "--total-num-mbufs",
            "--port-topology",
            "--eth-peer",
            "--tx-first",
            "--burst-tx-retry-num",
            "--burst-tx-delay-time",
            "--isa",
            "--exit",
            "--self-test",
        ];
        let tables: [&[&str]; 3] = [&WITH_VALUE, &CardOptions::WITH_VALUE, &ModeOptions::WITH_VALUE];
        tables.iter().any(|table| table.contains(&option))
    }

    fn set(&mut self, option: &str, value: &str) -> Result<(), ConfigError> {
        let wrong = |expected| ConfigError::new(option, value, expected);
        match option {
            "--forward-mode" => {
                self.mode = Mode::from_name(value).ok_or(wrong(Mode::NAMES))?;
                self.added_mode = None;
            }
            "--burst" => {
                self.burst =
                    number(value, 1..=BURST_MAX as u32).ok_or(wrong("a number from 1 to 512"))? as u16;
            }
            "--rxd" => self.rxd = ring_size(value).ok_or(wrong(RING_SIZE))?,
            "--txd" => self.txd = ring_size(value).ok_or(wrong(RING_SIZE))?,
            "--rx-desc" => {
                self.rx_desc = match value {
                    "16" => RxDesc::B16,
                    "32" => RxDesc::B32,
                    _ => return Err(wrong("16 or 32")),
                };
            }
            "--nb-cores" => self.nb_cores = Some(small(value).ok_or(wrong(UP_TO_64))?),
            "--rxq" => self.rxq = Some(small(value).ok_or(wrong(UP_TO_64))?),
            "--txq" => self.txq = Some(small(value).ok_or(wrong(UP_TO_64))?),
            "--config" => self.map = map(value).ok_or(wrong("(PORT,QUEUE,CORE),..., at most 128 of them"))?,
            "--total-num-mbufs" => {
                let count = number(value, 1..=262_144).ok_or(wrong("a number from 1 to 262144"))?;
                self.total_num_mbufs = Some(count);
            }
            "--port-topology" => {
                self.topology = Topology::from_name(value).ok_or(wrong("paired, chained or loop"))?;
            }
            "--eth-peer" => self.set_eth_peer(value).ok_or(wrong("PORT,xx:xx:xx:xx:xx:xx, port 0 to 15"))?,
            "--tx-first" => {
                self.tx_first =
                    number(value, 0..=1000).ok_or(wrong("a number of bursts from 0 to 1000"))? as u16;
            }
            "--burst-tx-retry-num" => {
                let times = number(value, 1..=65_535).ok_or(wrong("a number from 1 to 65535"))?;
                self.burst_tx_retry_num = times as u16;
            }
            "--burst-tx-delay-time" => {
                let micros = number(value, 0..=65_535).ok_or(wrong("microseconds from 0 to 65535"))?;
                self.burst_tx_delay_us = micros as u16;
            }
            "--isa" => {
                let level = Level::ALL.into_iter().find(|level| level.name() == value);
                if level.is_none() && value != "auto" {
                    return Err(wrong("auto, scalar, ssse3, avx2 or avx512"));
                }
                self.isa = level;
            }
            "--exit" => self.exit = exit(value).ok_or(wrong("halt, reboot or isa-debug-exit:PORT"))?,
            "--self-test" => {
                let name = String::try_from(value).ok().filter(|name: &String<32>| !name.is_empty());
                self.self_test = Some(name.ok_or(wrong("a name of 1 to 32 characters"))?);
            }
            _ if ModeOptions::WITH_VALUE.contains(&option) => self.modes.set(option, value).map_err(wrong)?,
            _ => self.card.set(option, value).map_err(wrong)?,
        }
        Ok(())
    }

    /// Two ways to say who polls what don't go together, nor some options of a mode.
    fn check_together(&self) -> Result<(), ConfigError> {
        let modes = self.modes.check(self.mode, self.tx_first > 0, self.burst);
        modes.map_err(|(option, value, expected)| ConfigError::of_number(option, value, expected))?;
        let counts = [("--nb-cores", self.nb_cores), ("--rxq", self.rxq), ("--txq", self.txq)];
        let counted = counts.iter().find_map(|(option, count)| Some((*option, (*count)?)));
        match counted {
            Some((option, count)) if !self.map.is_empty() => {
                let expected = "--config says already which core polls which queue";
                Err(ConfigError::of_number(option, count.into(), expected))
            }
            _ => Ok(()),
        }
    }

    fn set_eth_peer(&mut self, value: &str) -> Option<()> {
        let (port, mac) = value.split_once(',')?;
        let port = number(port, 0..=MAX_PORTS as u32 - 1)?;
        *self.eth_peers.get_mut(port as usize)? = MacAddr::parse(mac)?;
        Some(())
    }

    /// Buffers that a core with `pairs` queue pairs needs: what every ring can hold, and a burst for each.
    pub fn buffers_needed(&self, pairs: usize) -> u32 {
        let kept = if self.mode == Mode::Noisy { u32::from(self.modes.noisy.fifo) } else { 0 };
        let pair = u32::from(self.rxd) + u32::from(self.txd) + u32::from(self.burst) + kept;
        pair * pairs as u32 + 2 * crate::pool::BLOCK as u32
    }
}

const RING_SIZE: &str = "a multiple of 32 from 64 to 8160";

fn ring_size(value: &str) -> Option<u16> {
    number(value, 64..=8160).filter(|size| size % 32 == 0).map(|size| size as u16)
}

const UP_TO_64: &str = "a number from 1 to 64";

fn small(value: &str) -> Option<u16> {
    number(value, 1..=64).map(|number| number as u16)
}

/// `(PORT,QUEUE,CORE),(PORT,QUEUE,CORE),...`, in quotes or not.
fn map(value: &str) -> Option<Vec<Mapped, MAX_MAPPED>> {
    let inner = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
    let inner = inner.strip_prefix('(')?.strip_suffix(')')?;
    let mut map = Vec::new();
    for entry in inner.split("),(") {
        let mut numbers = entry.splitn(3, ',');
        let mut next = |most| numbers.next().and_then(|text| number(text, 0..=most));
        let port = next(MAX_PORTS as u32 - 1)? as usize;
        let queue = next(u32::from(MAX_QUEUES) - 1)? as u16;
        let core = next(MAX_CORES as u32 - 1)? as usize;
        map.push(Mapped { port, queue, core }).ok()?;
    }
    Some(map)
}

fn number(value: &str, range: RangeInclusive<u32>) -> Option<u32> {
    let digits = value.bytes().all(|byte| byte.is_ascii_digit());
    value.parse().ok().filter(|number| digits && range.contains(number))
}

fn exit(value: &str) -> Option<Exit> {
    match value {
        "halt" => Some(Exit::Halt),
        "reboot" => Some(Exit::Reboot),
        _ => {
            let port = value.strip_prefix("isa-debug-exit:")?.strip_prefix("0x")?;
            let digits = port.bytes().all(|byte| byte.is_ascii_hexdigit());
            u16::from_str_radix(port, 16).ok().filter(|_| digits).map(Exit::DebugExit)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;
    use crate::forward::segments::Segments;

    #[test]
    fn nothing_said_is_testpmds_default() {
        let config = Config::parse("").unwrap();
        assert_eq!((config.mode, config.burst, config.topology), (Mode::Io, 32, Topology::Paired));
        assert_eq!(config.eth_peers[3].to_string(), "02:00:00:00:00:03");
        assert!(config.promiscuous);
    }

    #[test]
    fn modes_of_the_image_are_taken_by_name() {
        let parse = |line| Config::parse_with(line, |name| name == "ttl");
        let config = parse("--forward-mode=noisy --forward-mode ttl").unwrap();
        assert_eq!((config.mode, config.added_mode.as_deref()), (Mode::Io, Some("ttl")));
        let config = parse("--forward-mode=ttl --forward-mode=mac").unwrap();
        assert_eq!((config.mode, config.added_mode), (Mode::Mac, None));
        for line in ["--forward-mode=tt", "--forward-mode", "--burst=ttl"] {
            assert!(parse(line).is_err(), "{line}");
        }
        assert_eq!(Config::parse("--forward-mode=ttl").unwrap_err().option(), "--forward-mode");
    }

    #[test]
    fn every_option_in_both_spellings() {
        let line = "image --forward-mode=macswap --burst 64 --rxd=512 --txd 4096 --rx-desc=16 --total-num-mbufs=9000 \
                    --nb-cores=2 --rxq 3 --txq=64 \
                    --port-topology=chained --eth-peer=1,02:00:00:00:01:ff --txpkts=1500 --isa avx2 \
                    --tx-first=3 --retry --burst-tx-retry-num=9 --burst-tx-delay-time 0 \
                    --no-promiscuous --exit=isa-debug-exit:0xf4 --self-test=exception:gp";
        let config = Config::parse(line).unwrap();
        let want = Config {
            mode: Mode::MacSwap,
            added_mode: None,
            burst: 64,
            rxd: 512,
            txd: 4096,
            rx_desc: RxDesc::B16,
            nb_cores: Some(2),
            rxq: Some(3),
            txq: Some(64),
            map: Vec::new(),
            total_num_mbufs: Some(9000),
            topology: Topology::Chained,
            eth_peers: {
                let mut peers = Config::default().eth_peers;
                peers[1] = MacAddr([2, 0, 0, 0, 1, 0xff]);
                peers
            },
            modes: ModeOptions { segments: Segments::of(1500), ..ModeOptions::default() },
            tx_first: 3,
            retry: true,
            burst_tx_retry_num: 9,
            burst_tx_delay_us: 0,
            isa: Some(Level::Avx2),
            promiscuous: false,
            card: CardOptions::default(),
            exit: Exit::DebugExit(0xf4),
            self_test: Some(String::try_from("exception:gp").unwrap()),
        };
        assert_eq!(config, want);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_value() {
        for (line, message) in [
            ("--burst=0", "option --burst=0: a number from 1 to 512"),
            ("--burst=513", "option --burst=513: a number from 1 to 512"),
            ("--burst=+5", "option --burst=+5: a number from 1 to 512"),
            ("--burst", "option --burst: a number from 1 to 512"),
            ("--rxd=32", "option --rxd=32: a multiple of 32 from 64 to 8160"),
            ("--txd=100", "option --txd=100: a multiple of 32 from 64 to 8160"),
            (
                "--forward-mode=fly",
                "option --forward-mode=fly: io, mac, macswap, 5tswap, rxonly, txonly, flowgen, csum, icmpecho, noisy, \
                 recycle_mbufs, shared_rxq or ieee1588",
            ),
            ("--colour=red", "option --colour=red: is not known"),
            ("--eth-peer=16,02:00:00:00:00:00", "PORT,xx:xx:xx:xx:xx:xx, port 0 to 15"),
            ("--exit=isa-debug-exit:f4", "halt, reboot or isa-debug-exit:PORT"),
            ("--exit=isa-debug-exit:0x+f4", "halt, reboot or isa-debug-exit:PORT"),
            ("--total-num-mbufs=262145", "a number from 1 to 262144"),
            ("--nb-cores=0", "option --nb-cores=0: a number from 1 to 64"),
            ("--rxq=65", "option --rxq=65: a number from 1 to 64"),
            ("--txq=", "option --txq: a number from 1 to 64"),
            ("--config=(0,0)", "option --config=(0,0): (PORT,QUEUE,CORE),..., at most 128 of them"),
            ("--config=(0,0,64)", "(PORT,QUEUE,CORE),..., at most 128 of them"),
            ("--config=(0,0,0,0)", "(PORT,QUEUE,CORE),..., at most 128 of them"),
            ("--config=(0,0,0)(0,1,0)", "(PORT,QUEUE,CORE),..., at most 128 of them"),
            (
                "--rxq=2 --config=(0,0,0)",
                "option --rxq=2: --config says already which core polls which queue",
            ),
            ("--self-test=", "a name of 1 to 32 characters"),
            ("--burst=99999999999999999999", "a number from 1 to 512"),
            ("--no-promiscuous=1", "option --no-promiscuous=1: is not known"),
        ] {
            let error = Config::parse(line).unwrap_err().to_string();
            assert!(error.ends_with(message), "{line}: {error}");
        }
    }

    /// In l3fwd's spelling, with and without its quotes.
    #[test]
    fn a_map_in_l3fwds_form() {
        let want = [
            Mapped { port: 0, queue: 0, core: 1 },
            Mapped { port: 0, queue: 1, core: 2 },
            Mapped { port: 15, queue: 63, core: 63 },
        ];
        for line in ["--config=(0,0,1),(0,1,2),(15,63,63)", "--config \"(0,0,1),(0,1,2),(15,63,63)\""] {
            assert_eq!(Config::parse(line).unwrap().map, want);
        }
        let entries = |count| std::vec!["(0,0,0)"; count].join(",");
        assert_eq!(Config::parse(&std::format!("--config={}", entries(128))).unwrap().map.len(), 128);
        assert!(Config::parse(&std::format!("--config={}", entries(129))).is_err());
    }

    #[test]
    fn the_way_out_is_known_even_if_the_line_is_wrong() {
        assert_eq!(Config::exit_option("--burst=0 --exit=isa-debug-exit:0xf4 --x"), Exit::DebugExit(0xf4));
        assert_eq!(Config::exit_option("--exit=fly --exit=reboot"), Exit::Reboot);
        assert_eq!(Config::exit_option("--exit isa-debug-exit:0x501 --burst=0"), Exit::DebugExit(0x501));
        assert_eq!(Config::exit_option("--burst=0"), Exit::Halt);
    }

    #[test]
    fn a_long_value_is_cut_and_control_characters_do_not_reach_the_console() {
        let line = std::format!("--isa={}\u{1b}[2J", "x".repeat(4000));
        let error = Config::parse(&line).unwrap_err().to_string();
        assert!(error.len() < 200, "{error}");
        assert!(!Config::parse("--isa=\u{1b}[2J").unwrap_err().to_string().contains('\u{1b}'));
    }
}
