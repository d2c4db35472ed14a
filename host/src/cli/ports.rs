//! Ports on the command line: a kind and `key=value` pairs, with commas between them.

use crate::faults::{FaultSource, parse_seed};
use crate::pci::Bdf;
use crate::run::PortOptions;
use crate::serve::{ServedPort, WireKind};

/// A port of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Port {
    /// A software XL710.
    I40e(PortOptions),
    /// A card of this machine.
    Real(Bdf),
    /// Something that a later version has.
    NotYet(String),
}

/// `1572` or `1583`.
pub fn parse_device(text: &str) -> Result<u16, String> {
    match text {
        "1572" => Ok(0x1572),
        "1583" => Ok(0x1583),
        _ => Err("device 1572 or 1583".into()),
    }
}

/// `i40e[,pcap=IN][,out=OUT][,device=1572|1583][,socket=PATH][,faults=FILE|,seed=N]`, or `i40e,pci=ADDRESS`
pub fn parse_port(text: &str) -> Result<Port, String> {
    let mut words = text.split(',');
    match words.next() {
        Some("i40e") => {}
        Some("memif" | "vhost-user") => return Ok(Port::NotYet(text.to_owned())),
        _ => return Err("the kind of port is i40e".into()),
    }
    let mut port = PortOptions::default();
    for word in words {
        match word.split_once('=').unwrap_or((word, "")) {
            (key, "") => return Err(format!("{key} needs a value")),
            ("pcap", path) => port.pcap = Some(path.into()),
            ("out", path) => port.out = Some(path.into()),
            ("socket", path) => port.socket = Some(path.into()),
            ("device", id) => port.device = parse_device(id)?,
            ("faults", path) => set_faults(&mut port.faults, FaultSource::File(path.into()))?,
            ("seed", seed) => set_faults(&mut port.faults, parse_seed(seed)?)?,
            ("pci", at) if text == format!("i40e,pci={at}") => {
                let at =
                    Bdf::parse(at).ok_or_else(|| format!("pci={at}: an address such as 0000:01:00.0"))?;
                return Ok(Port::Real(at));
            }
            ("pci", _) => return Err("a port with pci= has nothing else".into()),
            (key, _) => {
                return Err(format!(
                    "a port i40e has no {key}: it has pcap, out, device, socket, faults, seed and pci"
                ));
            }
        }
    }
    Ok(Port::I40e(port))
}

/// Faults come from one place.
fn set_faults(faults: &mut Option<FaultSource>, source: FaultSource) -> Result<(), String> {
    match faults.replace(source) {
        None => Ok(()),
        Some(_) => Err("a port has faults= or seed=, and once".into()),
    }
}

/// `socket=PATH[,wire=echo|sink|peer|pcap:IN:OUT|tap:NAME][,faults=FILE|,seed=N]`
pub fn parse_served_port(text: &str) -> Result<ServedPort, String> {
    let (mut socket, mut wire, mut faults) = (None, WireKind::Echo, None);
    for word in text.split(',') {
        match word.split_once('=') {
            Some(("socket", path)) if !path.is_empty() => socket = Some(path.into()),
            Some(("wire", kind)) => wire = parse_wire(kind)?,
            Some(("faults", path)) if !path.is_empty() => {
                set_faults(&mut faults, FaultSource::File(path.into()))?;
            }
            Some(("seed", seed)) => set_faults(&mut faults, parse_seed(seed)?)?,
            _ => {
                let what = if word.is_empty() { "nothing" } else { word };
                return Err(format!("{what}: a port has socket=PATH, wire=WIRE, faults=FILE and seed=N"));
            }
        }
    }
    Ok(ServedPort { socket: socket.ok_or("a port needs socket=PATH")?, wire, faults })
}

fn parse_wire(text: &str) -> Result<WireKind, String> {
    match text {
        "echo" => return Ok(WireKind::Echo),
        "sink" => return Ok(WireKind::Sink),
        "peer" => return Ok(WireKind::Peer),
        _ => {}
    }
    if let Some(name) = text.strip_prefix("tap:") {
        // The kernel's rule for names; a % would let it choose one.
        let good = (1..=15).contains(&name.len())
            && !matches!(name, "." | "..")
            && name.bytes().all(|byte| byte.is_ascii_graphic() && !b"/:%".contains(&byte));
        return good.then(|| WireKind::Tap(name.into())).ok_or("a tap has a name of 1 to 15 letters".into());
    }
    let files = text.strip_prefix("pcap:").and_then(|files| files.split_once(':'));
    match files {
        Some((from, to)) if !from.is_empty() && !to.is_empty() => Ok(WireKind::Pcap(from.into(), to.into())),
        _ => Err("a wire is echo, sink, peer, pcap:IN:OUT or tap:NAME".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_a_machine() {
        assert_eq!(parse_port("i40e"), Ok(Port::I40e(PortOptions::default())));
        let want = PortOptions {
            device: 0x1583,
            pcap: Some("a.pcap".into()),
            out: Some("b.pcap".into()),
            socket: Some("/run/s".into()),
            faults: Some(FaultSource::File("f.txt".into())),
        };
        assert_eq!(
            parse_port("i40e,pcap=a.pcap,out=b.pcap,device=1583,socket=/run/s,faults=f.txt"),
            Ok(Port::I40e(want))
        );
        assert!(matches!(parse_port("memif,socket=/run/m"), Ok(Port::NotYet(_))));
        assert_eq!(parse_port("i40e,pci=01:00.0"), Ok(Port::Real(Bdf::parse("0000:01:00.0").unwrap())));
        assert!(parse_port("i40e,pci=1").is_err() && parse_port("i40e,pci=01:00.0,out=f").is_err());
        for wrong in [
            "",
            "e1000",
            "i40e,",
            "i40e,pcap",
            "i40e,pcap=",
            "i40e,device=1533",
            "i40e,speed=1",
            "i40e,seed=x",
            "i40e,seed=1,faults=f",
            "i40e,seed=1,seed=2",
        ] {
            assert!(parse_port(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn served_ports() {
        let port = parse_served_port("socket=/run/s,wire=pcap:in.pcap:out.pcap").unwrap();
        assert_eq!(port.wire, WireKind::Pcap("in.pcap".into(), "out.pcap".into()));
        assert_eq!(parse_served_port("wire=peer,socket=/run/s").unwrap().wire, WireKind::Peer);
        let tap = parse_served_port("socket=/run/s,wire=tap:tap0").unwrap();
        assert_eq!(tap.wire, WireKind::Tap("tap0".into()));
        for wrong in ["tap:", "tap:a/b", "tap:tap%d", "tap:a b", "tap:sixteen-letters-"] {
            assert!(parse_served_port(&format!("socket=/run/s,wire={wrong}")).is_err(), "{wrong}");
        }
        let port = parse_served_port("socket=/run/s,seed=7").unwrap();
        assert_eq!(port.faults, Some(FaultSource::Seed(7)));
        for wrong in [
            "",
            "socket=/run/s,seed=1,faults=f",
            "socket=",
            "wire=echo",
            "socket=/run/s,wire=pcap:in",
            "socket=/run/s,x=1",
        ] {
            assert!(parse_served_port(wrong).is_err(), "{wrong}");
        }
    }
}
