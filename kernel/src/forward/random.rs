//! Numbers that look random: for lengths, places in memory and nothing secret.

/// A generator, xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled").
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// One that begins with `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number.
    #[inline]
    pub const fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `end`; 0 if that is 0.
    #[inline]
    pub const fn below(&mut self, end: u64) -> u64 {
        ((self.next() as u128 * end as u128) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_below_comes_and_none_else() {
        let mut random = Random::new(0);
        let mut seen = [0; 7];
        for _ in 0..7000 {
            seen[random.below(7) as usize] += 1;
        }
        assert!(seen.iter().all(|count| (800..1200).contains(count)), "{seen:?}");
        assert_eq!((random.below(0), random.below(1)), (0, 0));
    }
}
