//! Writing a capture of what a port sent.

use std::borrow::Cow;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::{DataLink, TsResolution};

use crate::Failure;

/// A pcap file that is being written, nanosecond time stamps.
pub struct CaptureWriter {
    writer: PcapWriter<BufWriter<File>>,
    failed: bool,
}

impl CaptureWriter {
    /// Creates the file.
    ///
    /// # Errors
    /// It can't be written.
    pub fn create(path: &Path) -> Result<Self, Failure> {
        let told = |error: &dyn std::fmt::Display| Failure::usage(format!("{}: {error}", path.display()));
        let file = File::create(path).map_err(|error| told(&error))?;
        let header = PcapHeader {
            datalink: DataLink::ETHERNET,
            ts_resolution: TsResolution::NanoSecond,
            ..PcapHeader::default()
        };
        let writer = PcapWriter::with_header(BufWriter::new(file), header).map_err(|error| told(&error))?;
        Ok(Self { writer, failed: false })
    }

    /// Adds a frame with the time of now. After an error nothing more is written.
    pub fn frame(&mut self, frame: &[u8]) {
        let timestamp = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let packet = PcapPacket { timestamp, orig_len: frame.len() as u32, data: Cow::Borrowed(frame) };
        if !self.failed {
            self.failed = self.writer.write_packet(&packet).is_err();
        }
    }

    /// Ends the file; says whether everything was written.
    pub fn finish(self) -> bool {
        let flushed = self.writer.into_writer().into_inner().is_ok();
        flushed && !self.failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.pcap");
        let mut writer = CaptureWriter::create(&path).unwrap();
        writer.frame(&[5; 60]);
        writer.frame(&[6; 9728]);
        assert!(writer.finish());
        let bytes = std::fs::read(&path).unwrap();
        // libpcap: nanosecond magic, version 2.4, and after 20 bytes link type 1.
        assert!(bytes[..4] == [0xa1, 0xb2, 0x3c, 0x4d] || bytes[..4] == [0x4d, 0x3c, 0xb2, 0xa1]);
        let capture = super::super::read(&path).unwrap();
        assert_eq!(capture.frames, [Box::from([5; 60]), Box::from([6; 9728])]);
        assert_eq!(CaptureWriter::create(Path::new("/nonexistent/out.pcap")).err().unwrap().status(), 2);
    }
}
