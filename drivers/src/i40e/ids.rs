//! PCI ids of the cards that this driver runs.

/// Intel.
pub const VENDOR: u16 = 0x8086;

/// A card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Device {
    /// PCI device id.
    pub id: u16,
    /// What it is.
    pub name: &'static str,
}

/// X710, XL710 and XXV710 physical functions (Linux `i40e_pci_tbl`). X722 is another MAC and is not here.
const DEVICES: [Device; 20] = [
    Device { id: 0x1572, name: "X710 10G SFP+" },
    Device { id: 0x1574, name: "XL710 emulation" },
    Device { id: 0x1580, name: "XL710 40G backplane" },
    Device { id: 0x1581, name: "X710 10G backplane" },
    Device { id: 0x1583, name: "XL710 40G QSFP+" },
    Device { id: 0x1584, name: "XL710 40G QSFP+" },
    Device { id: 0x1585, name: "X710 10G QSFP+" },
    Device { id: 0x1586, name: "X710 10GBASE-T" },
    Device { id: 0x1587, name: "XL710 20G backplane" },
    Device { id: 0x1588, name: "XL710 20G backplane" },
    Device { id: 0x1589, name: "X710 10GBASE-T4" },
    Device { id: 0x158a, name: "XXV710 25G backplane" },
    Device { id: 0x158b, name: "XXV710 25G SFP28" },
    Device { id: 0x15ff, name: "X710-TL 10GBASE-T" },
    Device { id: 0x101f, name: "X710-TL 5GBASE-T" },
    Device { id: 0x104e, name: "X710 10G SFP+ (N3000)" },
    Device { id: 0x104f, name: "X710 10G backplane" },
    Device { id: 0x0cf8, name: "X710 10G (N3000)" },
    Device { id: 0x0d58, name: "XXV710 25G (N3000)" },
    Device { id: 0x0dd2, name: "I710 1GBASE-T" },
];

/// The card with these ids, if this driver runs it.
pub fn device(vendor: u16, id: u16) -> Option<Device> {
    DEVICES.into_iter().find(|device| vendor == VENDOR && device.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_are_known_and_others_are_not() {
        assert_eq!(device(0x8086, 0x1583).unwrap().name, "XL710 40G QSFP+");
        assert!(device(0x8086, 0x1572).is_some() && device(0x8086, 0x158b).is_some());
        for (vendor, id) in [(0x8086, 0x37d0), (0x8086, 0x154c), (0x8086, 0x10fb), (0x15b3, 0x1572)] {
            assert_eq!(device(vendor, id), None);
        }
        let mut ids = DEVICES.map(|device| device.id);
        ids.sort_unstable();
        assert!(ids.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
