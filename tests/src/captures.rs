//! Captures to send, and a reader of pcap files that shares nothing with the one of the command.

use std::path::{Path, PathBuf};

/// Captures of the shared folder beside the project, if it is there.
pub fn shared() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/captures");
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut captures: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|e| e == "pcap")).collect();
    captures.sort();
    captures
}

/// A record: captured bytes, and bytes on the wire.
pub type Record = (Vec<u8>, u32);

/// Records of a pcap file of either byte order.
pub fn records(path: &Path) -> Vec<Record> {
    let bytes = std::fs::read(path).expect("a capture that is there");
    let little = matches!(bytes[0], 0xd4 | 0x4d);
    let number = |at: usize| {
        let word: [u8; 4] = bytes[at..at + 4].try_into().expect("four bytes");
        if little { u32::from_le_bytes(word) } else { u32::from_be_bytes(word) }
    };
    let (mut at, mut records) = (24, Vec::new());
    while at < bytes.len() {
        let (captured, original) = (number(at + 8) as usize, number(at + 12));
        records.push((bytes[at + 16..at + 16 + captured].to_vec(), original));
        at += 16 + captured;
    }
    records
}

/// What a card makes of records: frames of 17 to 9728 bytes, whole, padded to 60.
pub fn carried(records: &[Record]) -> Vec<Vec<u8>> {
    let whole = records.iter().filter(|(data, original)| data.len() as u32 >= *original);
    let fit = whole.filter(|(data, _)| (17..=9728).contains(&data.len()));
    fit.map(|(data, _)| {
        let mut frame = data.clone();
        frame.resize(frame.len().max(60), 0);
        frame
    })
    .collect()
}

/// Writes a little-endian pcap file of Ethernet frames with these records.
pub fn write(path: &Path, records: &[Record]) {
    let mut bytes = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    bytes.extend(262_144_u32.to_le_bytes());
    bytes.extend(1_u32.to_le_bytes());
    for (data, original) in records {
        bytes.extend([0; 8]);
        bytes.extend((data.len() as u32).to_le_bytes());
        bytes.extend(original.to_le_bytes());
        bytes.extend(data);
    }
    std::fs::write(path, bytes).expect("a folder that can be written to");
}
