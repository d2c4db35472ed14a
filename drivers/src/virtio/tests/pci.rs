//! Structures in configuration space (4.1.4), as QEMU's virtio-serial-pci has them, and as nobody should.

use std::vec::Vec;

use hal::pci::{Address, ConfigSpace};

use super::super::{Error, Layout, device_type};
use super::Window;

const AT: Address = Address { bus: 0, device: 3, function: 0 };

struct Bytes(Vec<u8>);

impl ConfigSpace for Bytes {
    fn read(&self, _: Address, offset: u16) -> u32 {
        let start = usize::from(offset);
        self.0.get(start..start + 4).map_or(u32::MAX, |bytes| u32::from_le_bytes(bytes.try_into().unwrap()))
    }
    fn write(&mut self, _: Address, _: u16, _: u32) {}
}

/// Capabilities one behind the other: cfg_type, bar, offset, length, multiplier.
fn config(capabilities: &[(u8, u8, u32, u32, u32)]) -> Bytes {
    let mut bytes = std::vec![0; 256];
    bytes[6] = 0x10;
    let mut link = 0x34;
    for (index, (kind, bar, offset, len, multiplier)) in capabilities.iter().enumerate() {
        let start = 0x40 + 20 * index;
        bytes[link] = start as u8;
        bytes[start..start + 5].copy_from_slice(&[0x09, 0, 20, *kind, *bar]);
        for (at, value) in [(8, offset), (12, len), (16, multiplier)] {
            bytes[start + at..start + at + 4].copy_from_slice(&value.to_le_bytes());
        }
        link = start + 1;
    }
    Bytes(bytes)
}

fn find(capabilities: &[(u8, u8, u32, u32, u32)]) -> Result<Layout, Error> {
    Layout::find(&config(capabilities), AT)
}

/// Of each kind the first that can be used counts; notifications may lie in another BAR, with their own distance.
#[test]
fn structures_are_found() {
    let found = find(&[
        (9, 0, 7, 7, 7),
        (1, 6, 0, 0x1000, 0),
        (1, 4, 0, 0x1000, 0),
        (1, 2, 0, 0x1000, 0),
        (3, 4, 0x1000, 0x1000, 0),
        (4, 4, 0x2000, 0x1000, 0),
        (2, 1, 0x8000_0000, 0x2000, 4096),
        (5, 0, 0, 0, 0),
    ]);
    let window = |bar, offset, len| Window { bar, offset, len };
    let want = Layout {
        common: window(4, 0, 0x1000),
        notify: window(1, 0x8000_0000, 0x2000),
        multiplier: 4096,
        isr: Some(window(4, 0x1000, 0x1000)),
        device: Some(window(4, 0x2000, 0x1000)),
    };
    assert_eq!(found, Ok(want));
    assert_eq!(find(&[(1, 0, 0, 0x38, 9), (2, 0, 0x38, 2, 0)]).unwrap().multiplier, 0);
}

#[test]
fn what_is_missing_is_named() {
    let missing = |found: Result<Layout, Error>| match found {
        Err(Error::Missing { at: AT, what }) => what,
        other => panic!("{other:?}"),
    };
    assert_eq!(missing(find(&[])), "common configuration");
    assert_eq!(missing(find(&[(1, 0, 0, 0x37, 0), (2, 0, 0, 4, 4)])), "common configuration");
    assert_eq!(missing(find(&[(1, 0, u32::MAX, 0x38, 0), (2, 0, 0, 4, 4)])), "common configuration");
    assert_eq!(missing(find(&[(1, 0, 0, 0x38, 0), (3, 0, 0, 4, 4)])), "notification structure");
    for multiplier in [1, 3, 6, u32::MAX] {
        let error = find(&[(1, 0, 0, 0x38, 0), (2, 0, 0x38, 2, multiplier)]).unwrap_err();
        assert!(matches!(error, Error::Device { what: "notify_off_multiplier", .. }), "{error}");
    }
    // One that would end behind configuration space.
    let mut cut = config(&[(1, 0, 0, 0x38, 0)]);
    cut.0[0x41] = 0xf0;
    cut.0[0xf0..0xf5].copy_from_slice(&[0x09, 0, 20, 2, 0]);
    assert_eq!(missing(Layout::find(&cut, AT)), "notification structure");
}

#[test]
fn device_types() {
    let types = [0x1041, 0x1043, 0x1000, 0x1003, 0x1110, 0x1005].map(|id| device_type(0x1af4, id));
    assert_eq!(types, [Some(1), Some(3), Some(1), Some(3), None, None]);
    assert_eq!(device_type(0x8086, 0x1043), None);
}
