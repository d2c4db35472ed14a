//! What a run expects of the image, by its options.

use kernel::config::Config;

use super::check::{Macs, five_tuple_swapped};
use super::forward::Forward;
use super::made::Made;
use super::{checksums, echo};

/// What must become of a frame, and which the image makes.
#[derive(Debug, Clone)]
pub struct Rules {
    /// The mode.
    pub forward: Forward,
    /// Addresses of the machine's ports.
    pub macs: Macs,
    /// What is done to headers: the mode, or `noisy`'s own.
    headers: Forward,
    tunnels: bool,
    keeps_addresses: bool,
    made: Made,
    /// Frames of `--tx-first` come out before others.
    first: bool,
}

impl Rules {
    /// Those of an image with these options.
    pub fn new(forward: Forward, macs: Macs, image: &Config) -> Self {
        let noisy = Forward::from_name(image.modes.noisy.mode.name()).unwrap_or(Forward::Io);
        Self {
            forward,
            macs,
            headers: if forward == Forward::Noisy { noisy } else { forward },
            tunnels: image.modes.csum.parse_tunnel,
            keeps_addresses: !image.modes.csum.mac_swap,
            made: Made::new(&image.modes),
            first: image.tx_first > 0,
        }
    }

    /// Those of an image of which nothing else is said.
    pub fn of(forward: Forward, macs: Macs) -> Self {
        Self::new(forward, macs, &Config::default())
    }

    /// Whether `back`, which port `port` sent, is what becomes of `offered`.
    pub fn is_right(&self, port: usize, offered: &[u8], back: &[u8]) -> bool {
        if self.forward.is_other() {
            return true;
        }
        if back.len() != offered.len() || back.len() < 12 {
            return false;
        }
        let addresses = || [Macs::peer(port), self.macs.own(port)].concat();
        let (old, new) = (offered.split_at(12), back.split_at(12));
        match self.headers {
            Forward::FiveTupleSwap => back == five_tuple_swapped(offered),
            Forward::IcmpEcho => echo::reply(&self.macs, port, offered).is_some_and(|reply| reply == back),
            Forward::Csum => {
                (if self.keeps_addresses { new.0 == old.0 } else { new.0 == addresses() })
                    && new.1 == &checksums::corrected(offered, self.tunnels)[12..]
            }
            Forward::MacSwap | Forward::Ieee1588 => {
                new.0[..6] == old.0[6..] && new.0[6..] == old.0[..6] && new.1 == old.1
            }
            Forward::Mac => new.0 == addresses() && new.1 == old.1,
            Forward::Io | Forward::RecycleMbufs => back == offered,
            _ => false,
        }
    }

    /// The port of `ports` that sends what `port` received; it receives what that one sends.
    pub fn out_port(&self, port: usize, ports: usize) -> usize {
        if self.forward == Forward::Ieee1588 { port } else { super::tx_port(port, ports) }
    }

    /// `frame`, which port `out` will have to send, comes back.
    pub fn returns(&self, out: usize, frame: &[u8]) -> bool {
        match self.forward {
            Forward::IcmpEcho => echo::reply(&self.macs, out, frame).is_some(),
            Forward::Ieee1588 => is_sync(frame),
            forward => forward.returns(),
        }
    }

    /// A frame that port `port` sent is one that the image makes: `None` if it makes none such, and else whether it is
    /// right.
    pub fn is_made(&self, port: usize, frame: &[u8]) -> Option<bool> {
        match self.forward {
            Forward::TxOnly => Some(self.made.is_txonly(&self.macs, port, frame)),
            Forward::FlowGen => Some(
                self.made.is_flowgen(frame) || self.first && self.made.is_txonly(&self.macs, port, frame),
            ),
            _ => (self.first && self.made.is_txonly(&self.macs, port, frame)).then_some(true),
        }
    }
}

/// A Sync message of PTP version 2 over Ethernet (IEEE 1588-2008, annex F and section 13.3).
fn is_sync(frame: &[u8]) -> bool {
    frame.get(12..16).is_some_and(|start| start[..2] == [0x88, 0xf7] && start[2] & 0xf == 0 && start[3] == 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(addresses: [u8; 12], last: u8) -> Vec<u8> {
        let mut frame = addresses.to_vec();
        frame.resize(60, 7);
        frame[59] = last;
        frame
    }

    #[test]
    fn each_mode_has_its_own_right_frame() {
        let macs = Macs(vec![[9; 6], [8; 6]]);
        let offered = frame([1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2], 5);
        let swapped = frame([2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1], 5);
        let routed = frame([2, 0, 0, 0, 0, 1, 8, 8, 8, 8, 8, 8], 5);
        for (mode, right) in [
            (Forward::Io, &offered),
            (Forward::Noisy, &offered),
            (Forward::MacSwap, &swapped),
            (Forward::Mac, &routed),
            (Forward::Csum, &routed),
        ] {
            let rules = Rules::of(mode, macs.clone());
            for back in [&offered, &swapped, &routed] {
                assert_eq!(rules.is_right(1, &offered, back), back == right, "{mode:?}");
            }
            let mut wrong = right.clone();
            wrong[59] ^= 1;
            assert!(!rules.is_right(1, &offered, &wrong));
            assert!(!rules.is_right(1, &offered, &right[..59]));
        }
        // Of another image's mode nothing is known.
        let other = Rules::of(Forward::Other("ttl"), macs.clone());
        assert!(other.is_right(1, &offered, &routed[..59]) && other.returns(1, &offered));
        let takes = Rules::of(Forward::RxOnly, macs);
        assert!(!takes.is_right(1, &offered, &offered) && !takes.returns(1, &offered));
    }

    #[test]
    fn options_of_the_image_count() {
        let macs = Macs(vec![[9; 6], [8; 6]]);
        let rules = |forward, line: &str| Rules::new(forward, macs.clone(), &Config::parse(line).unwrap());
        let offered = frame([1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2], 5);
        let swapped = frame([2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1], 5);
        assert!(rules(Forward::Noisy, "--noisy-forward-mode=macswap").is_right(0, &offered, &swapped));
        assert!(rules(Forward::Csum, "--csum-mac-swap=off").is_right(0, &offered, &offered));
        let made = [&[2, 0, 0, 0, 0, 1, 8, 8, 8, 8, 8, 8][..], &offered[12..]].concat();
        assert_eq!(rules(Forward::Io, "").is_made(1, &made), None);
        assert_eq!(rules(Forward::TxOnly, "").is_made(1, &made), Some(false));
    }
}
