//! Frames that the image makes.

use kernel::forward::ModeOptions;
use kernel::forward::segments::Split;

use super::check::Macs;
use super::checksums::checksum;

/// What the frames of `txonly` and `flowgen` are like.
#[derive(Debug, Clone)]
pub struct Made {
    /// Bytes of a segment.
    segments: Vec<usize>,
    /// A frame may have fewer than all of them.
    random: bool,
    ips: [u8; 8],
    ports: [u16; 2],
    /// The source port changes.
    many: bool,
    flows: u32,
}

impl Made {
    /// As the image's options have it.
    pub fn new(options: &ModeOptions) -> Self {
        let [from, to] = options.tx_ip;
        Self {
            segments: options.segments.lens().iter().map(|len| usize::from(*len)).collect(),
            random: options.segments.split == Split::Random,
            ips: [from[0], from[1], from[2], from[3], to[0], to[1], to[2], to[3]],
            ports: options.tx_udp,
            many: options.multi_flow,
            flows: options.flowgen_flows,
        }
    }

    /// Whether a frame that port `port` sent is one of `txonly`: testpmd's UDP frame.
    pub fn is_txonly(&self, macs: &Macs, port: usize, frame: &[u8]) -> bool {
        let whole: usize = self.segments.iter().sum();
        let cut = (1..=self.segments.len()).map(|count| self.segments[..count].iter().sum::<usize>());
        let fits = frame.len() == whole || self.random && cut.into_iter().any(|len| len == frame.len());
        let addresses = [Macs::peer(port), macs.own(port)].concat();
        let Some(source) = frame.get(34..36).map(|port| u16::from_be_bytes([port[0], port[1]])) else {
            return false;
        };
        fits && frame[..12] == addresses
            && (self.many && source >= 0xc000 || source == self.ports[0])
            && is_udp(frame, &self.ips, [source, self.ports[1]])
    }

    /// Whether it is one of `flowgen`, which counts an FCS among a frame's bytes.
    pub fn is_flowgen(&self, frame: &[u8]) -> bool {
        let len = self.segments.iter().sum::<usize>().saturating_sub(4).max(42);
        let Some(flow) = frame.get(30..34) else { return false };
        let number = u32::from_be_bytes([flow[0], flow[1], flow[2], flow[3]]).wrapping_sub(0x0afd_0000);
        let ips = [10, 254, 0, 0, flow[0], flow[1], flow[2], flow[3]];
        frame.len() == len
            && number < self.flows
            && frame[..12] == [0, 1, 2, 3, 4, 1, 0, 1, 2, 3, 4, 0]
            && is_udp(frame, &ips, [1000, 1001])
    }
}

/// An IPv4 and UDP frame without a UDP checksum, right from its type on, with zeroes as payload.
fn is_udp(frame: &[u8], ips: &[u8; 8], [source, destination]: [u16; 2]) -> bool {
    if frame.len() < 42 {
        return false;
    }
    let [ip_high, ip_low] = (frame.len() as u16 - 14).to_be_bytes();
    let ip = [&[0x45, 0, ip_high, ip_low, 0, 0, 0, 0, 64, 17, 0, 0], &ips[..]].concat();
    let sum = checksum(&[&ip]).to_be_bytes();
    let udp_len = (frame.len() as u16 - 34).to_be_bytes();
    let udp = [source.to_be_bytes(), destination.to_be_bytes(), udp_len, [0, 0]].concat();
    frame[12..14] == [0x08, 0x00]
        && frame[14..24] == ip[..10]
        && frame[24..26] == sum
        && frame[26..34] == ip[12..]
        && frame[34..42] == udp
        && frame[42..].iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The frame that testpmd sends by default, with its checksum.
    #[test]
    fn a_generated_frame_is_testpmds() {
        let macs = Macs(vec![[9; 6]]);
        let made = Made::new(&ModeOptions::default());
        let mut frame =
            vec![2, 0, 0, 0, 0, 0, 9, 9, 9, 9, 9, 9, 8, 0, 0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17, 0xee, 0x93];
        frame.extend([198, 18, 0, 1, 198, 18, 0, 2, 0, 9, 0, 9, 0, 30, 0, 0]);
        frame.resize(64, 0);
        assert!(made.is_txonly(&macs, 0, &frame));
        assert!(!made.is_txonly(&macs, 1, &frame) && !made.is_flowgen(&frame));
        for at in 0..64 {
            let mut other = frame.clone();
            other[at] ^= 1;
            assert!(!made.is_txonly(&macs, 0, &other), "{at}");
        }
        frame.push(0);
        assert!(!made.is_txonly(&macs, 0, &frame));
    }
}
