//! Where a function's structures lie: the vendor capabilities of 4.1.4.

use hal::pci::{Address, ConfigSpace, capabilities};

use super::Error;

/// Of the capability list: a vendor's own.
const VENDOR_SPECIFIC: u8 = 0x09;
/// cfg_type.
const COMMON: u8 = 1;
const NOTIFY: u8 = 2;
const ISR: u8 = 3;
const DEVICE: u8 = 4;

/// Bytes of the common configuration up to queue_device: what every device has.
pub(super) const COMMON_LEN: u32 = 0x38;

/// A structure in a BAR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Index of the BAR.
    pub bar: u8,
    /// First byte.
    pub offset: u32,
    /// Bytes.
    pub len: u32,
}

/// The structures of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Common configuration.
    pub common: Window,
    /// Notifications.
    pub notify: Window,
    /// notify_off_multiplier: bytes between the notify addresses of neighbours; 0 when all queues have one.
    pub multiplier: u32,
    /// Interrupt status; not all devices have it in a place of its own.
    pub isr: Option<Window>,
    /// The device's own configuration, if it has some.
    pub device: Option<Window>,
}

impl Layout {
    /// Finds the structures. Of several of one kind the first that lies in a BAR counts, as the standard wants it.
    ///
    /// # Errors
    /// [`Error::Missing`], of a device that is only legacy, or [`Error::Device`] of a multiplier that is no power of two or odd.
    pub fn find(config: &impl ConfigSpace, at: Address) -> Result<Self, Error> {
        let (mut common, mut notify, mut isr, mut device) = (None, None, None, None);
        for capability in capabilities::list(config, at).filter(|found| found.id == VENDOR_SPECIFIC) {
            let start = capability.offset;
            let byte = |offset| capabilities::byte(config, at, start + offset);
            let word = |offset: u16| {
                u32::from_le_bytes([byte(offset), byte(offset + 1), byte(offset + 2), byte(offset + 3)])
            };
            // The longest is 20 bytes; what does not end within the first 256 is none.
            if start > 256 - 20 {
                continue;
            }
            let window = Window { bar: byte(4), offset: word(8), len: word(12) };
            // Other values of bar are reserved and to be passed over; so is what does not fit.
            if window.bar > 5 || window.offset.checked_add(window.len).is_none() {
                continue;
            }
            match byte(3) {
                COMMON if common.is_none() => common = Some(window),
                NOTIFY if notify.is_none() => notify = Some((window, word(16))),
                ISR if isr.is_none() => isr = Some(window),
                DEVICE if device.is_none() => device = Some(window),
                _ => {}
            }
        }
        let missing = |what| Error::Missing { at, what };
        let common = common.filter(|window| window.len >= COMMON_LEN && window.offset.is_multiple_of(4));
        let common = common.ok_or(missing("common configuration"))?;
        let (notify, multiplier) = notify.ok_or(missing("notification structure"))?;
        if multiplier != 0 && !(multiplier.is_power_of_two() && multiplier >= 2) {
            let (step, what) = ("finding structures", "notify_off_multiplier");
            return Err(Error::Device { step, what, value: multiplier.into() });
        }
        Ok(Self { common, notify, multiplier, isr, device })
    }
}
