//! Who makes which checksum.

use crate::forward::layers::{Kind, Transport};
use crate::forward::options::number;
use crate::request::Segmentation;

/// Who makes a checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum By {
    /// The core.
    #[default]
    Sw,
    /// The card.
    Hw,
}

/// testpmd's `csum set`, `csum parse-tunnel`, `csum mac-swap` and `tso set`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// `--csum-set=ip,hw|sw`
    pub ip: By,
    /// `--csum-set=udp,hw|sw`
    pub udp: By,
    /// `--csum-set=tcp,hw|sw`
    pub tcp: By,
    /// `--csum-set=sctp,hw|sw`
    pub sctp: By,
    /// `--csum-parse-tunnel=on|off`
    pub parse_tunnel: bool,
    /// `--csum-mac-swap=on|off`: addresses become those of `mac`.
    pub mac_swap: bool,
    /// `--tso-set=BYTES`: TCP payload of a segment, 64 to 9674; 0 cuts nothing.
    pub tso: u16,
}

impl Default for Options {
    fn default() -> Self {
        let sw = By::Sw;
        Self { ip: sw, udp: sw, tcp: sw, sctp: sw, parse_tunnel: false, mac_swap: true, tso: 0 }
    }
}

const WHO: &str = "ip, udp, tcp or sctp, a comma, and hw or sw";

impl Options {
    /// Sets an option.
    ///
    /// # Errors
    /// What was expected.
    pub fn set(&mut self, option: &str, value: &str) -> Result<(), &'static str> {
        match option {
            "--csum-set" => self.set_who(value)?,
            "--csum-parse-tunnel" => self.parse_tunnel = on_or_off(value)?,
            "--csum-mac-swap" => self.mac_swap = on_or_off(value)?,
            "--tso-set" => {
                let (least, most) = (Segmentation::MSS_MIN.into(), Segmentation::MSS_MAX.into());
                let size = number(value, least, most).or_else(|| number(value, 0, 0));
                self.tso = size.ok_or("0, or a number from 64 to 9674")? as u16;
            }
            _ => return Err("is not known"),
        }
        Ok(())
    }

    fn set_who(&mut self, value: &str) -> Result<(), &'static str> {
        let (what, who) = value.split_once(',').ok_or(WHO)?;
        let by = match who {
            "sw" => By::Sw,
            "hw" => By::Hw,
            _ => return Err(WHO),
        };
        match what {
            "ip" => self.ip = by,
            "udp" => self.udp = by,
            "tcp" => self.tcp = by,
            "sctp" => self.sctp = by,
            "outer-ip" | "outer-udp" if by == By::Hw => return Err("no port makes outer checksums"),
            "outer-ip" | "outer-udp" => {}
            _ => return Err(WHO),
        }
        Ok(())
    }

    /// Something is left for the card.
    pub fn asks_card(&self) -> bool {
        self.tso > 0 || [self.ip, self.udp, self.tcp, self.sctp].contains(&By::Hw)
    }

    /// The card makes this checksum; SCTP's only over multiples of four bytes, as testpmd has it.
    pub fn of_card(&self, transport: &Transport) -> bool {
        let by = match transport.kind {
            Kind::Tcp => self.tcp,
            Kind::Udp => self.udp,
            Kind::Sctp if (transport.end - transport.at).is_multiple_of(4) => self.sctp,
            Kind::Sctp => By::Sw,
        };
        by == By::Hw
    }
}

fn on_or_off(value: &str) -> Result<bool, &'static str> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("on or off"),
    }
}
