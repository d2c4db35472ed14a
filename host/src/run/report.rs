//! What the image says of itself on its console.

use std::collections::BTreeMap;

/// Errors, ports and cores that are kept: a guest may say anything.
const MOST_ERRORS: usize = 20;
const MOST_PORTS: usize = 16;
/// Names of a port with its queues.
const MOST_XSTATS: usize = 512;
const MOST_CORES: usize = 64;

/// Everything that was said so far.
#[derive(Debug, Default)]
pub struct ImageReport {
    /// It forwards.
    pub ready: bool,
    /// It ended, and everything was in order.
    pub ended_well: bool,
    /// Lines that begin with `barewire: error:`.
    pub errors: Vec<String>,
    /// What happened that is no error: links that changed, troubles that were over, what is known of a card's firmware.
    pub events: Vec<String>,
    /// Milliseconds from entry to ready.
    pub boot_ms: f64,
    /// Instruction set of its loops.
    pub isa: String,
    /// Cores that run.
    pub cores: u32,
    /// Cores that forward.
    pub lcores: u32,
    /// By port.
    pub ports: BTreeMap<usize, PortLines>,
    /// Counts by core, if it came so far.
    pub by_core: BTreeMap<usize, CoreCounts>,
}

/// What was said of a port.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct PortLines {
    /// Its name.
    pub name: String,
    /// Loop of its receive queue.
    pub rx_path: String,
    /// Loop of its transmit queue.
    pub tx_path: String,
    /// Its link was down when it was told last.
    pub link_down: bool,
    /// Counts, if it came so far.
    pub stats: Option<PortCounts>,
    /// Extended statistics, if they were asked for.
    pub xstats: BTreeMap<String, u64>,
}

/// A core's counts at the end.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct CoreCounts {
    /// Queue pairs that it polled.
    pub streams: u64,
    /// What went through it.
    pub counts: PortCounts,
}

/// Counts at the end, of a port or of a core.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct PortCounts {
    /// Frames that came in.
    pub rx_frames: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Frames sent.
    pub tx_frames: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Frames made.
    pub made_frames: u64,
    /// Frames dropped, by reason.
    pub drops: BTreeMap<String, u64>,
}

impl ImageReport {
    /// Takes in a line. What is not understood is passed over: a later image may say more.
    pub fn line(&mut self, line: &str) {
        if line.starts_with("barewire ready: ") {
            self.ready = true;
        }
        let Some(rest) = line.strip_prefix("barewire: ") else { return };
        if let Some(error) = rest.strip_prefix("error: ") {
            if self.errors.len() < MOST_ERRORS {
                self.errors.push(error.to_owned());
            }
            return;
        }
        let pairs = pairs(rest);
        let value = |key: &str| pairs.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
        let number = |key: &str| value(key).and_then(|value| value.parse::<u64>().ok());
        match rest.split(' ').next() {
            Some(word @ ("link" | "remark")) => {
                self.event(rest);
                let known = number("port").and_then(|index| self.ports.get_mut(&(index as usize)));
                if let (Some(port), "link", Some(link)) = (known, word, value("link")) {
                    port.link_down = link == "down";
                }
            }
            Some(word) if word.ends_with(':') => self.event(rest),
            Some("port") => {
                let mut words = rest.split(' ').skip(1);
                let index =
                    words.next().and_then(|word| word.parse().ok()).filter(|index| *index < MOST_PORTS);
                let Some(index) = index else { return };
                let port = self.ports.entry(index).or_default();
                port.name = words.next().unwrap_or_default().to_owned();
                port.rx_path = value("rx_path").unwrap_or_default().to_owned();
                port.tx_path = value("tx_path").unwrap_or_default().to_owned();
                port.link_down = value("link") == Some("down");
            }
            Some("stats") => {
                let Some(index) = number("port").filter(|index| *index < MOST_PORTS as u64) else { return };
                self.ports.entry(index as usize).or_default().stats = Some(PortCounts::of(&pairs));
            }
            Some("xstat") => {
                let Some(index) = number("port").filter(|index| *index < MOST_PORTS as u64) else { return };
                let xstats = &mut self.ports.entry(index as usize).or_default().xstats;
                let told = pairs.iter().filter(|(key, _)| *key != "port" && xstats.len() < MOST_XSTATS);
                let told: Vec<(String, u64)> =
                    told.filter_map(|(key, value)| Some(((*key).to_owned(), value.parse().ok()?))).collect();
                xstats.extend(told);
            }
            Some("lcore") => {
                let Some(index) = number("core").filter(|index| *index < MOST_CORES as u64) else { return };
                let streams = number("streams").unwrap_or(0);
                let counts = PortCounts::of(&pairs);
                self.by_core.insert(index as usize, CoreCounts { streams, counts });
            }
            Some("cpu") => {
                self.isa = value("isa").unwrap_or_default().to_owned();
                let count = |key| number(key).and_then(|number| u32::try_from(number).ok()).unwrap_or(1);
                (self.cores, self.lcores) = (count("cores"), count("lcores"));
            }
            Some("end") => self.ended_well = value("status") == Some("ok"),
            _ => {
                if let Some(ms) = value("boot_ms").and_then(|value| value.parse().ok()) {
                    self.boot_ms = ms;
                }
            }
        }
    }

    /// What it said of an option that it does not take, if that is why it ended.
    pub fn refused_option(&self) -> Option<&str> {
        self.errors.iter().map(String::as_str).find(|error| error.starts_with("option "))
    }

    fn event(&mut self, what: &str) {
        if self.events.len() < MOST_ERRORS && !self.events.iter().any(|known| known == what) {
            self.events.push(what.to_owned());
        }
    }

    /// Frames that the image dropped under a name.
    pub fn dropped(&self) -> u64 {
        let stats = self.ports.values().filter_map(|port| port.stats.as_ref());
        stats.flat_map(|stats| stats.drops.values()).fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Frames that the image made.
    pub fn made(&self) -> u64 {
        let stats = self.ports.values().filter_map(|port| port.stats.as_ref());
        stats.fold(0, |sum, stats| sum.saturating_add(stats.made_frames))
    }

    /// The loops of the first port, which are those of all.
    pub fn paths(&self) -> String {
        let port = self.ports.values().next().cloned().unwrap_or_default();
        format!("receive {}, transmit {}", port.rx_path, port.tx_path)
    }
}

impl PortCounts {
    fn of(pairs: &[(&str, &str)]) -> Self {
        let count = |key: &str| {
            pairs.iter().find(|(name, _)| *name == key).and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
        };
        let drops = pairs
            .iter()
            .filter_map(|(key, value)| Some((key.strip_prefix("drop.")?.to_owned(), value.parse().ok()?)));
        Self {
            rx_frames: count("rx_frames"),
            rx_bytes: count("rx_bytes"),
            tx_frames: count("tx_frames"),
            tx_bytes: count("tx_bytes"),
            made_frames: count("made_frames"),
            drops: drops.collect(),
        }
    }
}

/// `key=value` and `key="a value"` pairs of a line.
fn pairs(line: &str) -> Vec<(&str, &str)> {
    let mut pairs = Vec::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('=') {
        let key = before.rsplit(' ').next().unwrap_or_default();
        let (value, left) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => after.split_once(' ').unwrap_or((after, "")),
        };
        pairs.push((key, value));
        rest = left;
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_what_was_told_last() {
        let mut report = ImageReport::default();
        for (line, down) in [
            ("barewire: port 0 i40e0 mac=68:05:ca:00:00:00 link=down speed=0 rx_path=\"scalar 32B\"", true),
            ("barewire: link port=0 name=i40e0 link=up speed=10000", false),
            ("barewire: link port=1 name=i40e1 link=down speed=0", false),
            ("barewire: link port=0 name=i40e0 link=down speed=0", true),
            ("barewire: remark port=0 link=up", true),
        ] {
            report.line(line);
            assert_eq!(report.ports[&0].link_down, down, "{line}");
        }
        assert_eq!(report.ports.len(), 1);
    }

    #[test]
    fn extended_statistics_are_kept_by_port() {
        let mut report = ImageReport::default();
        report.line("barewire: xstat port=1 rx_q0_packets=7");
        report.line("barewire: xstat port=1 tx_good_bytes=x");
        report.line("barewire: xstat port=99 rx_good_packets=7");
        assert_eq!(report.ports.len(), 1);
        assert_eq!(report.ports[&1].xstats, BTreeMap::from([("rx_q0_packets".to_owned(), 7)]));
    }

    #[test]
    fn lines_of_a_whole_run() {
        let mut report = ImageReport::default();
        for line in [
            "SeaBIOS (version 1.17.0)",
            "barewire: port 1 i40e1 mac=68:05:ca:00:00:01 link=up speed=10000 rx_path=\"scalar 32B\" tx_path=\"scalar\"",
            "barewire: cpu isa=scalar vectors=avx2 tsc_khz=2809903 cores=4 lcores=2",
            "barewire: boot_ms=127.171",
            "barewire ready: 2 ports",
            "barewire: stats port=1 name=i40e1 rx_frames=10 rx_bytes=600 tx_frames=8 tx_bytes=480 drop.tx-full=2 drop.x=1",
            "barewire: lcore core=3 streams=2 rx_frames=10 rx_bytes=600 tx_frames=8 tx_bytes=480 drop.tx-full=2",
            "barewire: something new=1",
            "barewire: end status=ok",
        ] {
            report.line(line);
        }
        assert!(report.ready && report.ended_well && report.errors.is_empty());
        assert_eq!((report.boot_ms, report.isa.as_str(), report.dropped()), (127.171, "scalar", 3));
        let port = &report.ports[&1];
        assert_eq!(
            (port.name.as_str(), port.rx_path.as_str(), port.tx_path.as_str()),
            ("i40e1", "scalar 32B", "scalar")
        );
        let stats = port.stats.as_ref().unwrap();
        assert_eq!((stats.rx_frames, stats.rx_bytes, stats.tx_frames, stats.tx_bytes), (10, 600, 8, 480));
        assert_eq!(stats.drops["tx-full"], 2);
        assert_eq!((report.cores, report.lcores), (4, 2));
        let core = &report.by_core[&3];
        assert_eq!((core.streams, core.counts.rx_frames, core.counts.drops["tx-full"]), (2, 10, 2));
    }

    #[test]
    fn errors_are_kept_and_nonsense_is_passed_over() {
        let mut report = ImageReport::default();
        for line in [
            "barewire: error: no port",
            "barewire: port x",
            "barewire: stats",
            "barewire: lcore core=64",
            "barewire: =",
            "barewire: ",
        ] {
            report.line(line);
        }
        assert_eq!(report.errors, ["no port"]);
        report.line("barewire: stats port=0 drop.a=18446744073709551615 drop.b=1");
        assert_eq!(report.dropped(), u64::MAX);
        report.ports.clear();
        (0..1000).for_each(|_| report.line("barewire: error: again"));
        assert_eq!(report.errors.len(), 20);
        assert!(report.ports.is_empty() && report.by_core.is_empty() && !report.ready);
    }
}
