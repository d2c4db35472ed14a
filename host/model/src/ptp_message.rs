//! Which frames are stamped when they arrive: PRTTSYN_CTL1.
//!
//! Taken from what the drivers of Linux and DPDK write. That a type of all ones stands for any event message is by
//! Linux (`HWTSTAMP_FILTER_PTP_V2_EVENT`).

use crate::parse::{self, L4};

const ETHERTYPE: [u8; 2] = [0x88, 0xf7];
/// Event messages (IEEE 1588-2008, 7.3.4.1): Sync, Delay_Req, Pdelay_Req, Pdelay_Resp.
const LAST_EVENT: u8 = 3;
const EVENT_PORT: u16 = 319;
const GENERAL_PORT: u16 = 320;
/// Offset of controlField in a message of version 1.
const V1_CONTROL: usize = 32;

/// TSYNTYPE of PRTTSYN_CTL1.
const TYPE_V1: u32 = 1;
const TYPE_V2: u32 = 2;

/// The frame is one that `control`, PRTTSYN_CTL1, asks to be stamped.
pub fn wanted(control: u32, frame: &[u8]) -> bool {
    let kind = control >> 24 & 3;
    if frame.get(12..14) == Some(&ETHERTYPE) {
        return matches!(kind, 0 | TYPE_V2) && v2(control, frame.get(14..).unwrap_or_default());
    }
    let ports = control >> 26 & 3;
    if ports == 0 {
        return false;
    }
    let Some(message) = over_udp(ports, frame) else { return false };
    match kind {
        TYPE_V1 => v1(control, message),
        TYPE_V2 => v2(control, message),
        _ => false,
    }
}

/// The message behind UDP, if its port is one of `ports`: bit 0 for 319, bit 1 for 320.
fn over_udp(ports: u32, frame: &[u8]) -> Option<&[u8]> {
    let ip = parse::parse(frame).ip.filter(|ip| ip.l4 == L4::Udp)?;
    let udp = frame.get(ip.l4_at..ip.end)?;
    let port = u16::from_be_bytes([*udp.get(2)?, *udp.get(3)?]);
    let asked = match port {
        EVENT_PORT => ports & 1 != 0,
        GENERAL_PORT => ports & 2 != 0,
        _ => false,
    };
    udp.get(8..).filter(|_| asked)
}

fn v2(control: u32, message: &[u8]) -> bool {
    let [first, second, ..] = *message else { return false };
    let kind = first & 0xf;
    let asked = |value: u32| match value as u8 & 0xf {
        0xf => kind <= LAST_EVENT,
        value => kind == value,
    };
    second & 0xf == 2 && (asked(control >> 16) || asked(control >> 20))
}

fn v1(control: u32, message: &[u8]) -> bool {
    let Some(kind) = message.get(V1_CONTROL) else { return false };
    let asked = |value: u32| match value as u8 {
        0xff => *kind <= 1,
        value => *kind == value,
    };
    message.starts_with(&[0, 1]) && (asked(control) || asked(control >> 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Linux writes for `HWTSTAMP_FILTER_PTP_V2_EVENT` and for no filter, and what DPDK does.
    const LINUX: u32 = 0x8e0f_0000;
    const LINUX_OFF: u32 = 0x8100_0000;
    const DPDK: u32 = 0x8e00_0000;

    fn ethernet(message: [u8; 2]) -> Vec<u8> {
        let mut frame = vec![0x01, 0x1b, 0x19, 0, 0, 0, 2, 0, 0, 0, 0, 1, 0x88, 0xf7];
        frame.extend(message);
        frame.resize(60, 0);
        frame
    }

    fn udp(port: u16, message: [u8; 2]) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([0x08, 0, 0x45, 0, 0, 72, 0, 0, 0, 0, 1, 17, 0, 0, 10, 0, 0, 1, 224, 0, 1, 129]);
        frame.extend([319_u16.to_be_bytes(), port.to_be_bytes(), [0, 52], [0, 0], message].concat());
        frame.resize(86, 0);
        frame
    }

    #[test]
    fn linux_has_event_messages_stamped_and_dpdk_syncs() {
        for kind in 0..16 {
            let (frame, event) = (ethernet([0x10 | kind, 0x12]), kind <= 3);
            assert_eq!((wanted(LINUX, &frame), wanted(DPDK, &frame)), (event, kind == 0));
            assert!(!wanted(LINUX_OFF, &frame));
            assert_eq!(wanted(LINUX, &udp(319, [kind, 2])), event);
        }
        assert!(wanted(DPDK, &udp(320, [0, 2])) && !wanted(LINUX_OFF, &udp(319, [0, 2])));
        assert!(!wanted(LINUX, &udp(321, [0, 2])) && !wanted(LINUX, &ethernet([0, 1])));
        assert!(!wanted(LINUX, &[]) && !wanted(LINUX, &ethernet([0, 2])[..14]));
    }

    /// Linux's `HWTSTAMP_FILTER_PTP_V1_L4_EVENT`.
    #[test]
    fn version_1_is_told_by_its_control_field() {
        let mut frame = udp(319, [0, 1]);
        assert!(wanted(0x8d00_00ff, &frame) && !wanted(LINUX, &frame));
        frame[14 + 28 + 32] = 2;
        assert!(!wanted(0x8d00_00ff, &frame));
    }
}
