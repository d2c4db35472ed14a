//! The script of faults: one a line, what is due when, and how often.
//!
//! ```text
//! # Comments and empty lines are passed over. Numbers are decimal or 0x.
//! admin 0x0603 code 8 times 3
//! after 1000 frames rx-writeback torn 5
//! pf-reset after 2000 frames
//! ```

use std::fmt;
use std::str::FromStr;

use super::{ALWAYS, ANY_OPCODE, AdminFault, Direction, MarkFault, NEVER, QueueFault};

/// Something to go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// `admin OPCODE|any code N|never|late N|head N|not-done|critical`: so many commands.
    Admin(u16, AdminFault, u32),
    /// `register OFFSET reads VALUE`: so many reads.
    Register(u32, u32, u32),
    /// `rx-queue|tx-queue enable|disable never|late N`: so many requests.
    Queue(QueueFault),
    /// `reset never|late N`: reads of PFGEN_CTRL that a reset by the driver takes.
    Reset(u32),
    /// `rx-writeback|tx-writeback late [N]|missing|torn [N]|swapped [N] [skip N]`: marks that are skipped, and so many
    /// after them.
    Marks(Direction, MarkFault, u32, u32),
    /// `tx-fetch late [N]`: doorbells are looked at N events later, and memory must not have changed by then.
    Fetch(u32),
    /// `rx-ring empty [N]`: for N events no receive descriptor is found.
    RxEmpty(u32),
    /// `link down|up`
    Link(bool),
    /// `link flap N`: down and up N times, a change every 8 events.
    Flap(u32),
    /// `pf-reset`: the function is reset, and not by the driver.
    PfReset,
    /// `card-reset [N]`: the whole card is reset, statistics too; GLGEN_RSTAT says so for N reads.
    CardReset(u32),
    /// `firmware X.Y [api A.B]`
    Firmware((u16, u16), Option<(u16, u16)>),
    /// `lldp on|off`: the firmware's agent runs, which eats and sends LLDP frames.
    Lldp(bool),
    /// `queues N`: the function has N queue pairs, 1 to 1536.
    Queues(u32),
    /// `mac-config needs-link`: Set MAC Config fails while the link is down, and without it no frame of more than 1522
    /// bytes is received.
    MacConfigNeedsLink,
    /// `event OPCODE length N`: so many events come whose buffer is said to hold N bytes.
    Event(u16, u16, u32),
}

/// A fault and when it is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// Frames through the MAC, either way, since the script was given to the card.
    pub after: u64,
    /// What goes wrong.
    pub fault: Fault,
}

/// Faults in the order of a script.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Script {
    /// Its lines.
    pub faults: Vec<Planned>,
}

/// A line that is no fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptError {
    /// Its number, from 1 on.
    pub line: usize,
    /// The word that was found; empty at the end of the line.
    pub found: String,
    /// What could have stood there.
    pub expected: &'static str,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, found, expected } = self;
        match found.as_str() {
            "" => write!(f, "line {line}: it ends where {expected} is expected"),
            _ => write!(f, "line {line}: {found:?} where {expected} is expected"),
        }
    }
}

impl std::error::Error for ScriptError {}

impl FromStr for Script {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Self, ScriptError> {
        let mut faults = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            if !words.is_empty() {
                faults.push(Words { line: number, words: &words }.planned()?);
            }
        }
        Ok(Self { faults })
    }
}

/// The words of a line that have not been read.
struct Words<'a> {
    line: usize,
    words: &'a [&'a str],
}

const FAULTS: &str = "admin, register, rx-queue, tx-queue, reset, rx-writeback, tx-writeback, tx-fetch, rx-ring, link, \
                      pf-reset, card-reset, firmware, queues, lldp, mac-config or event";

impl<'a> Words<'a> {
    fn fail<T>(&self, found: &str, expected: &'static str) -> Result<T, ScriptError> {
        Err(ScriptError { line: self.line, found: found.to_owned(), expected })
    }

    /// The next word; an empty one at the end.
    fn word(&mut self) -> &'a str {
        let Some((first, rest)) = self.words.split_first() else { return "" };
        self.words = rest;
        first
    }

    fn accept(&mut self, word: &str) -> bool {
        let here = self.words.first() == Some(&word);
        if here {
            self.word();
        }
        here
    }

    fn number<T: TryFrom<u64>>(&mut self, expected: &'static str) -> Result<T, ScriptError> {
        let word = self.word();
        let number = match word.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => word.parse(),
        };
        match number.ok().and_then(|number| T::try_from(number).ok()) {
            Some(number) => Ok(number),
            None => self.fail(word, expected),
        }
    }

    /// A number, if the next word begins like one; else `default`.
    fn number_or(&mut self, default: u32) -> Result<u32, ScriptError> {
        match self.words.first() {
            Some(word) if word.starts_with(|c: char| c.is_ascii_digit()) => self.number("a number"),
            _ => Ok(default),
        }
    }

    fn after(&mut self) -> Result<Option<u64>, ScriptError> {
        if !self.accept("after") {
            return Ok(None);
        }
        let frames = self.number("a number of frames")?;
        let word = self.word();
        if word == "frames" { Ok(Some(frames)) } else { self.fail(word, "frames") }
    }

    fn times(&mut self, default: u32) -> Result<u32, ScriptError> {
        match () {
            () if !self.accept("times") => Ok(default),
            () if self.accept("always") => Ok(ALWAYS),
            () => self.number("a number or always"),
        }
    }

    fn planned(mut self) -> Result<Planned, ScriptError> {
        let before = self.after()?;
        let fault = self.fault()?;
        let after = match before {
            Some(after) => after,
            None => self.after()?.unwrap_or(0),
        };
        match self.word() {
            "" => Ok(Planned { after, fault }),
            word if before.is_some() => self.fail(word, "the end of the line"),
            word => self.fail(word, "after N frames, or the end of the line,"),
        }
    }

    fn fault(&mut self) -> Result<Fault, ScriptError> {
        match self.word() {
            "admin" => self.admin(),
            "register" => self.register(),
            "rx-queue" => self.queue(Direction::Rx),
            "tx-queue" => self.queue(Direction::Tx),
            "reset" => Ok(Fault::Reset(self.delay()?)),
            "rx-writeback" => self.marks(Direction::Rx),
            "tx-writeback" => self.marks(Direction::Tx),
            "tx-fetch" => match self.word() {
                "late" => Ok(Fault::Fetch(self.number_or(10)?)),
                word => self.fail(word, "late"),
            },
            "rx-ring" => match self.word() {
                "empty" => Ok(Fault::RxEmpty(self.number_or(100)?)),
                word => self.fail(word, "empty"),
            },
            "link" => match self.word() {
                "down" => Ok(Fault::Link(false)),
                "up" => Ok(Fault::Link(true)),
                "flap" => Ok(Fault::Flap(self.number_or(1)?)),
                word => self.fail(word, "down, up or flap"),
            },
            "pf-reset" => Ok(Fault::PfReset),
            "card-reset" => Ok(Fault::CardReset(self.number_or(10)?)),
            "firmware" => self.firmware(),
            "queues" => match self.number("a number from 1 to 1536")? {
                queues @ 1..=1536 => Ok(Fault::Queues(queues)),
                other => self.fail(&other.to_string(), "a number from 1 to 1536"),
            },
            "lldp" => match self.word() {
                "on" => Ok(Fault::Lldp(true)),
                "off" => Ok(Fault::Lldp(false)),
                word => self.fail(word, "on or off"),
            },
            "mac-config" => match self.word() {
                "needs-link" => Ok(Fault::MacConfigNeedsLink),
                word => self.fail(word, "needs-link"),
            },
            "event" => {
                let opcode = self.number("an opcode")?;
                let length = if self.accept("length") { self.number("a number up to 65535")? } else { 0 };
                Ok(Fault::Event(opcode, length, self.times(1)?))
            }
            word => self.fail(word, FAULTS),
        }
    }

    fn admin(&mut self) -> Result<Fault, ScriptError> {
        let opcode = if self.accept("any") { ANY_OPCODE } else { self.number("an opcode or any")? };
        let how = match self.word() {
            "code" => AdminFault::Code(self.number("a code up to 65535")?),
            "never" => AdminFault::Never,
            "late" => AdminFault::Late(self.number_or(10)?.max(1)),
            "head" => AdminFault::Head(self.number("a value of PF_ATQH")?),
            "not-done" => AdminFault::NotDone,
            "critical" => AdminFault::Critical,
            word => return self.fail(word, "code, never, late, head, not-done or critical"),
        };
        Ok(Fault::Admin(opcode, how, self.times(1)?))
    }

    fn register(&mut self) -> Result<Fault, ScriptError> {
        let offset = self.number("an offset")?;
        match self.word() {
            "reads" => Ok(Fault::Register(offset, self.number("a value of 32 bits")?, self.times(ALWAYS)?)),
            word => self.fail(word, "reads"),
        }
    }

    /// `never` or `late N`.
    fn delay(&mut self) -> Result<u32, ScriptError> {
        match self.word() {
            "never" => Ok(NEVER),
            "late" => self.number_or(10),
            word => self.fail(word, "late or never"),
        }
    }

    fn queue(&mut self, direction: Direction) -> Result<Fault, ScriptError> {
        let enable = match self.word() {
            "enable" => true,
            "disable" => false,
            word => return self.fail(word, "enable or disable"),
        };
        let reads = self.delay()?;
        Ok(Fault::Queue(QueueFault { direction, enable, reads, times: self.times(1)? }))
    }

    fn marks(&mut self, direction: Direction) -> Result<Fault, ScriptError> {
        let (how, times) = match self.word() {
            "late" => (MarkFault::Late(self.number_or(10)?), 1),
            "missing" => (MarkFault::Missing, 1),
            "torn" => (MarkFault::Torn(self.number_or(1)?), 1),
            "swapped" => (MarkFault::Swapped(self.number_or(1)?), 4),
            word => return self.fail(word, "late, missing, torn or swapped"),
        };
        let skip = if self.accept("skip") { self.number("a number")? } else { 0 };
        Ok(Fault::Marks(direction, how, skip, self.times(times)?))
    }

    fn firmware(&mut self) -> Result<Fault, ScriptError> {
        let version = self.version()?;
        let api = if self.accept("api") { Some(self.version()?) } else { None };
        Ok(Fault::Firmware(version, api))
    }

    /// `MAJOR.MINOR`
    fn version(&mut self) -> Result<(u16, u16), ScriptError> {
        let word = self.word();
        let parts =
            word.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
        match parts {
            Some(version) => Ok(version),
            None => self.fail(word, "a version such as 6.0"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_with_everything() {
        let text = "# a comment\n\n\
            admin 0x0603 code 8 times 3   # three times busy\n\
            after 1000 frames rx-writeback torn skip 2\n\
            tx-writeback late 10 times always after 5 frames\n\
            firmware 4.22 api 1.4\n\
            pf-reset after 2000 frames\n\
            register 0x80380 reads 0xffffffff times 2\n\
            tx-queue disable never\n\
            link flap 5\n";
        let planned = |after, fault| Planned { after, fault };
        let queue = QueueFault { direction: Direction::Tx, enable: false, reads: NEVER, times: 1 };
        let want = [
            planned(0, Fault::Admin(0x0603, AdminFault::Code(8), 3)),
            planned(1000, Fault::Marks(Direction::Rx, MarkFault::Torn(1), 2, 1)),
            planned(5, Fault::Marks(Direction::Tx, MarkFault::Late(10), 0, ALWAYS)),
            planned(0, Fault::Firmware((4, 22), Some((1, 4)))),
            planned(2000, Fault::PfReset),
            planned(0, Fault::Register(0x8_0380, u32::MAX, 2)),
            planned(0, Fault::Queue(queue)),
            planned(0, Fault::Flap(5)),
        ];
        assert_eq!(text.parse::<Script>().unwrap().faults, want);
    }

    #[test]
    fn errors_name_the_line_and_what_was_expected() {
        for (text, error) in [
            (
                "pf-reset\nrx-writeback torm",
                "line 2: \"torm\" where late, missing, torn or swapped is expected",
            ),
            ("after some frames pf-reset", "line 1: \"some\" where a number of frames is expected"),
            ("after 5 pf-reset", "line 1: \"pf-reset\" where frames is expected"),
            ("admin", "line 1: it ends where an opcode or any is expected"),
            ("admin 0x10000 never", "line 1: \"0x10000\" where an opcode or any is expected"),
            ("link up now", "line 1: \"now\" where after N frames, or the end of the line, is expected"),
            (
                "after 1 frames link up after 2 frames",
                "line 1: \"after\" where the end of the line is expected",
            ),
            ("firmware 5", "line 1: \"5\" where a version such as 6.0 is expected"),
        ] {
            assert_eq!(text.parse::<Script>().unwrap_err().to_string(), error, "{text}");
        }
        assert!("fly".parse::<Script>().unwrap_err().to_string().contains("\"fly\" where admin, register"));
    }
}
