//! Registers that a driver may touch, for tests that trap every other access.

/// A register or an array of registers that may be touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowed {
    /// Its name in the datasheet.
    pub name: &'static str,
    /// Offset of the first one in BAR 0.
    pub first: u32,
    /// How many there are, and the bytes from one to the next.
    pub count: u32,
    /// Bytes from one to the next.
    pub stride: u32,
    /// It may be read.
    pub read: bool,
    /// Bits that may be written as one; all others are reserved. 0: it may not be written at all.
    pub write: u32,
}

impl Allowed {
    fn holds(&self, offset: u32) -> bool {
        offset.checked_sub(self.first).is_some_and(|from| {
            let stride = self.stride.max(4);
            from % stride == 0 && from / stride < self.count.max(1)
        })
    }
}

/// The list of what may be touched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Watch {
    /// Its entries; the first that holds an offset decides.
    pub allowed: Vec<Allowed>,
}

impl Watch {
    fn find(&self, offset: u32) -> Option<&Allowed> {
        self.allowed.iter().find(|allowed| allowed.holds(offset))
    }

    /// What is wrong with a read.
    pub(crate) fn read(&self, offset: u32) -> Option<String> {
        match self.find(offset) {
            Some(allowed) if allowed.read => None,
            Some(allowed) => {
                Some(format!("{} ({offset:#x}): read, and it can only be written", allowed.name))
            }
            None => Some(format!("{offset:#x}: read, and it is no register of the list")),
        }
    }

    /// What is wrong with a write.
    pub(crate) fn write(&self, offset: u32, value: u32) -> Option<String> {
        match self.find(offset) {
            Some(Allowed { name, write: 0, .. }) => {
                Some(format!("{name} ({offset:#x}): written, and it can only be read"))
            }
            Some(allowed) if value & !allowed.write == 0 => None,
            Some(allowed) => {
                let name = allowed.name;
                Some(format!(
                    "{name} ({offset:#x}): {value:#x} written, reserved bits are {:#x}",
                    !allowed.write
                ))
            }
            None => Some(format!("{offset:#x}: {value:#x} written, and it is no register of the list")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_reserved_bits_are_kept() {
        let tail = Allowed { name: "TAIL", first: 0x100, count: 4, stride: 8, read: false, write: 0x1fff };
        let state = Allowed { name: "STATE", first: 0x200, count: 1, stride: 0, read: true, write: 0 };
        let watch = Watch { allowed: vec![tail, state] };
        assert_eq!((watch.write(0x118, 0x1fff), watch.read(0x200)), (None, None));
        assert_eq!(
            watch.write(0x108, 0x2000).unwrap(),
            "TAIL (0x108): 0x2000 written, reserved bits are 0xffffe000"
        );
        assert!(watch.read(0x100).is_some() && watch.write(0x200, 0).is_some());
        assert!(
            watch.write(0x104, 0).is_some() && watch.write(0x120, 0).is_some() && watch.read(0xfc).is_some()
        );
    }
}
