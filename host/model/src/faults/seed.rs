//! Scripts that a number draws: the same for the same number.

use super::Script;

/// xorshift64*, whose period no test gets to.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % most
    }

    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list.get(self.below(list.len() as u64) as usize).copied().unwrap_or_default()
    }
}

/// Faults that a card gets over, alone or with its driver's help.
const KINDS: [&str; 16] = [
    "rx-writeback late",
    "rx-writeback torn",
    "rx-writeback swapped",
    "rx-writeback missing",
    "tx-writeback late",
    "tx-writeback torn",
    "tx-writeback swapped",
    "tx-writeback missing",
    "tx-fetch late",
    "rx-ring empty",
    "link flap",
    "pf-reset",
    "card-reset",
    "admin any late",
    "admin any code 8",
    "event 0x9999 length",
];

impl Script {
    /// One to six faults within the first `frames` frames, as text that can be kept and given back.
    pub fn draw(seed: u64, frames: u64) -> String {
        let mut random = Random(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut text = format!("# seed {seed}\n");
        for _ in 0..1 + random.below(6) {
            let (after, kind) = (random.below(frames.max(1)), random.pick(&KINDS));
            let amount = match kind {
                "pf-reset" | "rx-writeback missing" | "tx-writeback missing" | "admin any code 8" => {
                    String::new()
                }
                "link flap" => format!(" {}", 1 + random.below(5)),
                "event 0x9999 length" => format!(" {} times {}", random.below(65536), 1 + random.below(40)),
                _ => format!(" {}", 1 + random.below(50)),
            };
            let times = match kind {
                "rx-writeback late"
                | "rx-writeback torn"
                | "rx-writeback swapped"
                | "tx-writeback late"
                | "tx-writeback torn"
                | "tx-writeback swapped" => format!(" times {}", 1 + random.below(20)),
                _ => String::new(),
            };
            text += &format!("after {after} frames {kind}{amount}{times}\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_is_a_script_and_the_same_again() {
        for seed in 0..500 {
            let text = Script::draw(seed, 10_000);
            let script: Script = text.parse().unwrap_or_else(|error| panic!("{error} in\n{text}"));
            assert!((1..=6).contains(&script.faults.len()) && script.faults.iter().all(|f| f.after < 10_000));
            assert_eq!(text, Script::draw(seed, 10_000));
        }
        assert_ne!(Script::draw(1, 10_000), Script::draw(2, 10_000));
    }
}
