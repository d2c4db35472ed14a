//! Options of the command line that are about what a card does by itself: tags, filters, flow control, the flow hash.
//! Names are testpmd's where it has such an option; what its console sets has an option of its own here.

use heapless::Vec;

/// Tags that `--rx-vlan` can name.
pub const MAX_VLANS: usize = 64;
/// Bytes of a key for the flow hash.
pub const RSS_KEY_BYTES: usize = 52;

/// The key of the flow hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RssKey {
    /// The driver's own.
    #[default]
    Default,
    /// Both directions of a flow go to the same queue.
    Symmetric,
    /// These bytes.
    Bytes([u8; RSS_KEY_BYTES]),
}

/// Pause frames that are offered to the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pause {
    /// They are heeded.
    pub rx: bool,
    /// They are sent.
    pub tx: bool,
}

/// What every card of the machine is told.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CardOptions {
    /// `--enable-hw-vlan-strip`: tags are taken out of received frames.
    pub vlan_strip: bool,
    /// `--enable-hw-qinq-strip`: where tags are stripped, a second one is, too; needs `--rx-desc=32`.
    pub qinq_strip: bool,
    /// `--enable-hw-vlan-filter`: frames with a tag are received only if `--rx-vlan` names it.
    pub vlan_filter: bool,
    /// `--rx-vlan=ID,...`
    pub rx_vlans: Vec<u16, MAX_VLANS>,
    /// `--allmulti`: every multicast frame is received, with `--no-promiscuous` too.
    pub all_multicast: bool,
    /// `--flow-ctrl=none|rx|tx|full`; where nothing is said, the card is left as it is.
    pub flow_control: Option<Pause>,
    /// `--rss-key=default|symmetric|HEX`
    pub rss_key: RssKey,
    /// `--xstats`: at the end every extended statistic that is not 0 is told.
    pub xstats: bool,
}

impl CardOptions {
    /// Options that take a value.
    pub const WITH_VALUE: [&str; 3] = ["--rx-vlan", "--flow-ctrl", "--rss-key"];

    /// Sets an option without a value; says whether there is such a one.
    pub fn set_flag(&mut self, option: &str) -> bool {
        match option {
            "--enable-hw-vlan-strip" => self.vlan_strip = true,
            "--enable-hw-qinq-strip" => self.qinq_strip = true,
            "--enable-hw-vlan-filter" => self.vlan_filter = true,
            "--allmulti" => self.all_multicast = true,
            "--xstats" => self.xstats = true,
            _ => return false,
        }
        true
    }

    /// Sets one of [`CardOptions::WITH_VALUE`].
    ///
    /// # Errors
    /// What was expected.
    pub fn set(&mut self, option: &str, value: &str) -> Result<(), &'static str> {
        match option {
            "--rx-vlan" => self.rx_vlans = vlans(value).ok_or("tags from 1 to 4094, at most 64 of them")?,
            "--flow-ctrl" => {
                let (rx, tx) = match value {
                    "none" => (false, false),
                    "rx" => (true, false),
                    "tx" => (false, true),
                    "full" => (true, true),
                    _ => return Err("none, rx, tx or full"),
                };
                self.flow_control = Some(Pause { rx, tx });
            }
            "--rss-key" => {
                self.rss_key = match value {
                    "default" => RssKey::Default,
                    "symmetric" => RssKey::Symmetric,
                    digits => {
                        RssKey::Bytes(key(digits).ok_or("default, symmetric or 104 hexadecimal digits")?)
                    }
                };
            }
            _ => return Err("is not known"),
        }
        Ok(())
    }
}

fn vlans(value: &str) -> Option<Vec<u16, MAX_VLANS>> {
    let mut vlans = Vec::new();
    for word in value.split(',') {
        let vlan = word.parse().ok().filter(|vlan| (1..4095).contains(vlan))?;
        vlans.push(vlan).ok()?;
    }
    Some(vlans)
}

fn key(digits: &str) -> Option<[u8; RSS_KEY_BYTES]> {
    let mut key = [0; RSS_KEY_BYTES];
    let good = digits.len() == 2 * RSS_KEY_BYTES && digits.bytes().all(|c| c.is_ascii_hexdigit());
    if !good {
        return None;
    }
    for (byte, at) in key.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_refused() {
        let mut options = CardOptions::default();
        options.set("--rx-vlan", "1,4094").unwrap();
        assert_eq!(options.rx_vlans, [1, 4094]);
        options.set("--flow-ctrl", "rx").unwrap();
        assert_eq!(options.flow_control, Some(Pause { rx: true, tx: false }));
        options.set("--rss-key", "symmetric").unwrap();
        assert_eq!(options.rss_key, RssKey::Symmetric);
        let digits = "0aFf".repeat(26);
        options.set("--rss-key", &digits).unwrap();
        assert!(matches!(options.rss_key, RssKey::Bytes([0x0a, 0xff, 0x0a, ..])));
        for (option, value) in [
            ("--rx-vlan", ""),
            ("--rx-vlan", "0"),
            ("--rx-vlan", "4095"),
            ("--rx-vlan", "1,,2"),
            ("--flow-ctrl", "all"),
            ("--rss-key", "0a"),
            ("--rss-key", &digits[1..]),
            ("--mtu", "1"),
        ] {
            assert!(options.set(option, value).is_err(), "{option} {value}");
        }
        assert!(options.set_flag("--xstats") && options.xstats);
        assert!(!options.set_flag("--rx-vlan"));
    }
}
