//! Reading captures: pcap with either byte order and resolution, and pcapng.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use pcap_file::DataLink;
use pcap_file::pcap::PcapParser;
use pcap_file::pcapng::{Block, PcapNgParser};

use super::Capture;
use crate::Failure;

/// First word of a pcapng file, in any byte order.
const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// Reads a capture of Ethernet frames.
///
/// # Errors
/// It is missing, no capture, not of Ethernet, or ends inside of a record.
pub fn read(path: &Path) -> Result<Capture, Failure> {
    let shown = path.display();
    let told = |error: std::io::Error| Failure::usage(format!("{shown}: {error}"));
    // A pipe ends; a device may not.
    let kind = fs::metadata(path).map_err(told)?.file_type();
    if kind.is_char_device() || kind.is_block_device() {
        return Err(Failure::usage(format!("{shown}: is a device and no capture")));
    }
    let bytes = fs::read(path).map_err(told)?;
    let capture = if bytes.starts_with(&PCAPNG) { read_pcapng(&bytes) } else { read_pcap(&bytes) };
    capture.map_err(|what| Failure::usage(format!("{shown}: {what}")))
}

fn check_link(link: DataLink) -> Result<(), String> {
    match link {
        DataLink::ETHERNET => Ok(()),
        other => Err(format!("holds no Ethernet frames (link type {other:?})")),
    }
}

const NO_CAPTURE: &str = "is neither pcap nor pcapng";
const ENDS_EARLY: &str = "ends inside of a record";

fn read_pcap(bytes: &[u8]) -> Result<Capture, String> {
    let (mut rest, parser) = PcapParser::new(bytes).map_err(|_| NO_CAPTURE)?;
    check_link(parser.header().datalink)?;
    let mut capture = Capture::default();
    while !rest.is_empty() {
        let (left, packet) = parser.next_raw_packet(rest).map_err(|_| ENDS_EARLY)?;
        capture.record(&packet.data, packet.orig_len);
        rest = left;
    }
    Ok(capture)
}

fn read_pcapng(bytes: &[u8]) -> Result<Capture, String> {
    let (mut rest, mut parser) = PcapNgParser::new(bytes).map_err(|_| NO_CAPTURE)?;
    let mut capture = Capture::default();
    while !rest.is_empty() {
        let (left, block) = parser.next_block(rest).map_err(|error| match error {
            pcap_file::PcapError::IncompleteBuffer => ENDS_EARLY.to_owned(),
            error => format!("is damaged: {error}"),
        })?;
        match block {
            Block::InterfaceDescription(interface) => check_link(interface.linktype)?,
            Block::EnhancedPacket(packet) => capture.record(&packet.data, packet.original_len),
            Block::Packet(packet) => capture.record(&packet.data, packet.original_len),
            Block::SimplePacket(packet) => {
                // The block is padded to a multiple of 4 and has no length of its own for what it holds.
                let len = packet.data.len().min(packet.original_len as usize);
                capture.record(packet.data.get(..len).unwrap_or_default(), packet.original_len);
            }
            _ => {}
        }
        rest = left;
    }
    Ok(capture)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pcap file by hand: big-endian, nanoseconds, link type, records of captured and original length.
    fn pcap(link: u32, records: &[(u32, u32)]) -> Vec<u8> {
        let mut bytes = vec![0xa1, 0xb2, 0x3c, 0x4d, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0];
        bytes.extend(65_535_u32.to_be_bytes());
        bytes.extend(link.to_be_bytes());
        for (captured, original) in records {
            bytes.extend([0; 8]);
            bytes.extend(captured.to_be_bytes());
            bytes.extend(original.to_be_bytes());
            bytes.extend((0..*captured).map(|i| i as u8));
        }
        bytes
    }

    /// A little-endian pcapng block by hand.
    fn block(kind: u32, body: &[u8]) -> Vec<u8> {
        let padded = body.len().next_multiple_of(4);
        let total = (12 + padded as u32).to_le_bytes();
        let mut bytes = [&kind.to_le_bytes(), &total[..], body].concat();
        bytes.resize(8 + padded, 0);
        bytes.extend(total);
        bytes
    }

    fn pcapng(link: u16) -> Vec<u8> {
        let mut section = vec![0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0];
        section.extend([0xff; 8]);
        let interface = [&link.to_le_bytes()[..], &[0; 6]].concat();
        let mut enhanced = vec![0; 12];
        enhanced.extend(61_u32.to_le_bytes());
        enhanced.extend(61_u32.to_le_bytes());
        enhanced.extend([1; 61]);
        let mut simple = 62_u32.to_le_bytes().to_vec();
        simple.extend([2; 62]);
        let blocks =
            [(0x0a0d_0d0a, section), (1, interface), (6, enhanced), (0x1234, vec![9; 5]), (3, simple)];
        blocks.iter().flat_map(|(kind, body)| block(*kind, body)).collect()
    }

    fn parse(bytes: &[u8]) -> Result<Capture, String> {
        if bytes.starts_with(&PCAPNG) { read_pcapng(bytes) } else { read_pcap(bytes) }
    }

    #[test]
    fn both_formats_are_read() {
        let capture = parse(&pcap(1, &[(60, 60), (70, 1514), (100, 100)])).unwrap();
        assert_eq!((capture.frames.len(), capture.unfit.truncated), (2, 1));
        assert_eq!(capture.frames[1][..3], [0, 1, 2]);
        let capture = parse(&pcapng(1)).unwrap();
        let lengths: Vec<usize> = capture.frames.iter().map(|frame| frame.len()).collect();
        assert_eq!((lengths, capture.unfit.total()), (vec![61, 62], 0));
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert!(parse(&pcap(101, &[])).unwrap_err().starts_with("holds no Ethernet frames"));
        assert!(parse(&pcapng(101)).unwrap_err().starts_with("holds no Ethernet frames"));
        assert_eq!(parse(b"not a capture at all, just text").unwrap_err(), NO_CAPTURE);
        assert_eq!(parse(b"").unwrap_err(), NO_CAPTURE);
        for cut in 1..76 {
            let bytes = pcap(1, &[(60, 60), (60, 60)]);
            assert_eq!(parse(&bytes[..bytes.len() - cut]).unwrap_err(), ENDS_EARLY, "{cut}");
        }
        let bytes = pcapng(1);
        assert_eq!(parse(&bytes[..bytes.len() - 1]).unwrap_err(), ENDS_EARLY);
        assert_eq!(parse(&pcap(1, &[])).unwrap(), Capture::default());
    }

    #[test]
    fn a_missing_file_is_named() {
        let failure = read(Path::new("/nonexistent/x.pcap")).unwrap_err();
        assert_eq!(failure.status(), 2);
        assert!(failure.to_string().starts_with("/nonexistent/x.pcap: "));
    }
}
