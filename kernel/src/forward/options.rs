//! Options of the command line that are about forwarding modes. Names are testpmd's; what only its console sets has an
//! option of its own here.

use super::csum;
use super::noisy;
use super::segments::{FRAME_MAX, SEGMENT_MAX, Segments, Split};
use crate::burst::BURST_MAX;

/// What the modes are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModeOptions {
    /// `--txpkts=LEN[,LEN]...`: segments of a made frame, without FCS. `--txsplit=off|on|rand`
    pub segments: Segments,
    /// `--tx-ip=SRC,DST`: addresses of `txonly`.
    pub tx_ip: [[u8; 4]; 2],
    /// `--tx-udp=SRC[,DST]`: ports of `txonly`.
    pub tx_udp: [u16; 2],
    /// `--txonly-multi-flow`: `txonly`'s source port changes from frame to frame.
    pub multi_flow: bool,
    /// `--txonly-nb-flows`: so many flows a core, 1 to 64.
    pub txonly_flows: u16,
    /// `--flowgen-flows`: addresses of `flowgen`.
    pub flowgen_flows: u32,
    /// `--flowgen-clones`: further frames like each, at most as many as a burst has.
    pub flowgen_clones: u16,
    /// What `noisy` does on the way.
    pub noisy: noisy::Options,
    /// What `csum` makes right, and who does it.
    pub csum: csum::Options,
}

impl Default for ModeOptions {
    fn default() -> Self {
        Self {
            segments: Segments::default(),
            tx_ip: [[198, 18, 0, 1], [198, 18, 0, 2]],
            tx_udp: [9, 9],
            multi_flow: false,
            txonly_flows: 64,
            flowgen_flows: 1024,
            flowgen_clones: 0,
            noisy: noisy::Options::default(),
            csum: csum::Options::default(),
        }
    }
}

impl ModeOptions {
    /// Options that take a value.
    pub const WITH_VALUE: [&str; 18] = [
        "--txpkts",
        "--txsplit",
        "--tx-ip",
        "--tx-udp",
        "--txonly-nb-flows",
        "--flowgen-flows",
        "--flowgen-clones",
        "--noisy-forward-mode",
        "--noisy-tx-sw-buffer-size",
        "--noisy-tx-sw-buffer-flushtime",
        "--noisy-lkup-memory",
        "--noisy-lkup-num-writes",
        "--noisy-lkup-num-reads",
        "--noisy-lkup-num-reads-writes",
        "--csum-set",
        "--csum-parse-tunnel",
        "--csum-mac-swap",
        "--tso-set",
    ];

    /// Sets an option without a value; says whether there is such a one.
    pub fn set_flag(&mut self, option: &str) -> bool {
        if option == "--txonly-multi-flow" {
            self.multi_flow = true;
        }
        option == "--txonly-multi-flow"
    }

    /// Sets one of [`ModeOptions::WITH_VALUE`].
    ///
    /// # Errors
    /// What was expected.
    pub fn set(&mut self, option: &str, value: &str) -> Result<(), &'static str> {
        match option {
            "--txpkts" => {
                let mut segments = Segments::parse(value)
                    .ok_or("1 to 8 lengths from 1 to 2048 with commas between, 42 to 9728 bytes together")?;
                segments.split = self.segments.split;
                self.segments = segments;
            }
            "--txsplit" => self.segments.split = Split::from_name(value).ok_or("off, on or rand")?,
            "--tx-ip" => self.tx_ip = addresses(value).ok_or("two IPv4 addresses with a comma between")?,
            "--tx-udp" => self.tx_udp = ports(value).ok_or("one or two ports from 0 to 65535")?,
            "--txonly-nb-flows" => {
                self.txonly_flows = number(value, 1, 64).ok_or("a number from 1 to 64")? as u16
            }
            "--flowgen-flows" => {
                self.flowgen_flows =
                    number(value, 1, i32::MAX as u32).ok_or("a number from 1 to 2147483647")?;
            }
            "--flowgen-clones" => {
                self.flowgen_clones = number(value, 0, 512).ok_or("a number from 0 to 512")? as u16;
            }
            _ if option.starts_with("--noisy-") => self.noisy.set(option, value)?,
            _ => self.csum.set(option, value)?,
        }
        Ok(())
    }

    /// What does not go together with what: the option, its value and what was expected. `tx_first` says that `txonly`'s
    /// frames are sent whatever the mode is; `burst` is the most frames of one.
    ///
    /// # Errors
    /// The first that doesn't.
    pub fn check(
        &self,
        mode: super::Mode,
        tx_first: bool,
        burst: u16,
    ) -> Result<(), (&'static str, u32, &'static str)> {
        let (first, total) = (self.segments.lens().first().copied().unwrap_or(0), self.segments.total());
        let varies = self.segments.split == Split::Random || self.multi_flow;
        if (mode == super::Mode::TxOnly || tx_first)
            && varies
            && usize::from(first) < super::segments::HEADERS
        {
            return Err((
                "--txpkts",
                first.into(),
                "headers lie in the first segment when frames differ: 42 or more",
            ));
        }
        let entries = usize::from(burst) * self.segments.lens().len();
        if mode == super::Mode::Csum && self.segments.split != Split::Off && entries > BURST_MAX {
            return Err((
                "--txsplit",
                entries as u32,
                "--burst times the segments of --txpkts is at most 512",
            ));
        }
        if mode == super::Mode::FlowGen && total > SEGMENT_MAX {
            return Err(("--txpkts", total.into(), "flowgen makes frames of one segment: at most 2048"));
        }
        self.noisy.check()
    }
}

pub(super) fn number(value: &str, least: u32, most: u32) -> Option<u32> {
    let digits = value.bytes().all(|byte| byte.is_ascii_digit());
    value.parse().ok().filter(|number| digits && (least..=most).contains(number))
}

fn addresses(value: &str) -> Option<[[u8; 4]; 2]> {
    let (from, to) = value.split_once(',')?;
    let address = |text: &str| text.parse::<core::net::Ipv4Addr>().ok().map(|address| address.octets());
    Some([address(from)?, address(to)?])
}

fn ports(value: &str) -> Option<[u16; 2]> {
    let (from, to) = value.split_once(',').unwrap_or((value, value));
    let port = |text| number(text, 0, u16::MAX.into()).map(|port| port as u16);
    Some([port(from)?, port(to)?])
}

const _: () = assert!(FRAME_MAX as usize <= super::segments::MAX_SEGMENTS * SEGMENT_MAX as usize);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forward::Mode;

    fn told(options: &[(&str, &str)]) -> Result<ModeOptions, &'static str> {
        let mut told = ModeOptions::default();
        options.iter().try_for_each(|(option, value)| told.set(option, value)).map(|()| told)
    }

    #[test]
    fn values_are_kept_in_any_order() {
        let options = told(&[
            ("--txsplit", "rand"),
            ("--txpkts", "64,128"),
            ("--tx-ip", "10.0.0.1,10.0.0.2"),
            ("--tx-udp", "1000"),
            ("--flowgen-flows", "2147483647"),
        ])
        .unwrap();
        assert_eq!((options.segments.lens(), options.segments.split), (&[64, 128][..], Split::Random));
        assert_eq!(
            (options.tx_ip[1], options.tx_udp, options.flowgen_flows),
            ([10, 0, 0, 2], [1000, 1000], i32::MAX as u32)
        );
        for (option, value) in [
            ("--txsplit", "yes"),
            ("--tx-ip", "10.0.0.1"),
            ("--tx-ip", "10.0.0.1,10.0.0.256"),
            ("--tx-udp", "1,65536"),
            ("--tx-udp", "1,2,3"),
            ("--flowgen-flows", "0"),
            ("--txonly-nb-flows", "65"),
            ("--flowgen-clones", "513"),
        ] {
            assert!(told(&[(option, value)]).is_err(), "{option} {value}");
        }
    }

    /// As testpmd refuses it: a header that lies in two segments is written once, and not again for each frame.
    #[test]
    fn frames_that_differ_have_their_headers_in_one_segment() {
        for (extra, refused) in [(("--txsplit", "off"), false), (("--txsplit", "rand"), true)] {
            let options = told(&[("--txpkts", "20,470"), extra]).unwrap();
            assert_eq!(options.check(Mode::TxOnly, false, 32).is_err(), refused);
            assert!(options.check(Mode::Io, false, 32).is_ok());
            // What is sent first is `txonly`'s.
            assert_eq!(options.check(Mode::Io, true, 32).is_err(), refused);
        }
        let mut options = told(&[("--txpkts", "41,2")]).unwrap();
        assert!(options.set_flag("--txonly-multi-flow"));
        assert_eq!(options.check(Mode::TxOnly, false, 32).map_err(|error| error.1), Err(41));
        assert!(told(&[("--txpkts", "2048,1")]).unwrap().check(Mode::FlowGen, false, 32).is_err());
    }

    /// A burst has 512 places, and each segment takes one.
    #[test]
    fn a_burst_that_would_not_hold_its_segments_is_refused() {
        let options = told(&[("--txpkts", "64,64,64,64"), ("--txsplit", "on")]).unwrap();
        assert!(options.check(Mode::Csum, false, 128).is_ok());
        assert_eq!(options.check(Mode::Csum, false, 129).map_err(|error| error.1), Err(516));
        assert!(options.check(Mode::Io, false, 512).is_ok());
    }
}
