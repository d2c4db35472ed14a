//! Counts of times, to three digits, and what is read from them.

use std::fmt::Write as _;

/// Below this, in ns, every value has a count of its own.
const EXACT: usize = 1000;
/// Counts of a power of ten above it: mantissas from 100 to 999.
const PER_DECADE: usize = 900;
/// Powers of ten above it; times of 1000 s and more are counted as the longest.
const DECADES: usize = 9;
const LONGEST: u64 = 1_000_000_000_000;
const LEN: usize = EXACT + PER_DECADE * DECADES;
/// Widest bar of a plot.
const BAR: u64 = 40;

/// Times in ns: the smallest and the largest as they were, the others rounded down to three digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    min: u64,
    max: u64,
}

/// Times from `from_ns` up to, but not including, `to_ns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bin {
    /// Its lower edge: 0, or 1, 2 or 5 times a power of ten.
    pub from_ns: u64,
    /// The next edge.
    pub to_ns: u64,
    /// How many.
    pub count: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; LEN], total: 0, min: u64::MAX, max: 0 }
    }
}

impl Histogram {
    /// Counts a time.
    pub fn record(&mut self, ns: u64) {
        if let Some(count) = self.counts.get_mut(place(ns)) {
            *count += 1;
        }
        self.total += 1;
        (self.min, self.max) = (self.min.min(ns), self.max.max(ns));
    }

    /// Counts all times of another.
    pub fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(sum, count)| *sum += count);
        self.total += other.total;
        (self.min, self.max) = (self.min.min(other.min), self.max.max(other.max));
    }

    /// How many times there are.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The shortest one.
    pub fn min(&self) -> Option<u64> {
        (self.total > 0).then_some(self.min)
    }

    /// The longest one.
    pub fn max(&self) -> Option<u64> {
        (self.total > 0).then_some(self.max)
    }

    /// The time that `per_mille` of 1000 times do not exceed, by nearest rank: 500 is the median, 999 the 99.9th
    /// percentile.
    pub fn percentile(&self, per_mille: u64) -> Option<u64> {
        let rank = (u128::from(self.total) * u128::from(per_mille)).div_ceil(1000).max(1) as u64;
        let mut seen = 0;
        let at = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        Some(lower_edge(at).clamp(self.min, self.max))
    }

    /// Counts between edges of 1, 2 and 5 times powers of ten, from the first bin that is not empty to the last one.
    pub fn bins(&self) -> Vec<Bin> {
        let mut bins: Vec<Bin> = Vec::new();
        let (mut from_ns, mut to_ns) = (0, 1);
        let mut index = 0;
        while index < LEN {
            // What is too long for a count is in the last one.
            let upto = if to_ns >= LONGEST { LEN } else { place(to_ns) };
            let count = self.counts.get(index..upto).map_or(0, |counts| counts.iter().sum());
            if count > 0 || !bins.is_empty() {
                bins.push(Bin { from_ns, to_ns, count });
            }
            (index, from_ns, to_ns) = (upto, to_ns, next_edge(to_ns));
        }
        while bins.last().is_some_and(|bin| bin.count == 0) {
            bins.pop();
        }
        bins
    }

    /// A line for each bin, with a bar: the longest is that of the fullest bin, and every bin that is not empty has one.
    pub fn plot(&self) -> String {
        let bins = self.bins();
        let most = bins.iter().map(|bin| bin.count).max().unwrap_or(0);
        let us = |ns: u64| ns as f64 / 1e3;
        bins.iter().fold(String::new(), |mut text, bin| {
            let len = (u128::from(bin.count) * u128::from(BAR)).div_ceil(u128::from(most.max(1))) as usize;
            let (from, to) = (us(bin.from_ns), us(bin.to_ns));
            let _ = writeln!(text, "{from:>10} .. {to:<8} us {:>10}  {}", bin.count, "#".repeat(len));
            text
        })
    }
}

/// The edge after 1, 2 or 5 times a power of ten.
fn next_edge(edge: u64) -> u64 {
    match edge / 10_u64.pow(edge.ilog10()) {
        2 => edge / 2 * 5,
        _ => edge * 2,
    }
}

/// Which count a time belongs to.
fn place(ns: u64) -> usize {
    if ns < EXACT as u64 {
        return ns as usize;
    }
    let power = ns.ilog10() - 2;
    let mantissa = (ns / 10_u64.pow(power)) as usize;
    (EXACT + (power as usize - 1) * PER_DECADE + mantissa - 100).min(LEN - 1)
}

/// The shortest time of a count.
fn lower_edge(place: usize) -> u64 {
    match place.checked_sub(EXACT) {
        None => place as u64,
        Some(above) => {
            let (power, mantissa) = (above / PER_DECADE + 1, above % PER_DECADE + 100);
            mantissa as u64 * 10_u64.pow(power as u32)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(times: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::default();
        times.into_iter().for_each(|ns| histogram.record(ns));
        histogram
    }

    /// Nearest rank, by hand: of 10 values the median is the 5th, the 99th percentile the 10th.
    #[test]
    fn percentiles_of_ten_values() {
        let histogram = of([90, 10, 30, 20, 50, 40, 80, 60, 70, 100]);
        assert_eq!((histogram.min(), histogram.max(), histogram.total()), (Some(10), Some(100), 10));
        let at = |per_mille| histogram.percentile(per_mille).unwrap();
        assert_eq!((at(500), at(501), at(900), at(990), at(999)), (50, 60, 90, 100, 100));
        assert_eq!((at(0), at(100), at(1000)), (10, 10, 100));
    }

    /// Of 1..=2000 the 1000th, the 1980th and the 1998th; above 1000 to three digits, downwards.
    #[test]
    fn percentiles_of_many_values() {
        let histogram = of(1..=2000);
        let at = |per_mille| histogram.percentile(per_mille).unwrap();
        assert_eq!((at(500), at(990), at(999), at(1000)), (1000, 1980, 1990, 2000));
    }

    #[test]
    fn one_value_is_every_percentile_and_none_has_none() {
        let histogram = of([123_456]);
        assert_eq!(histogram.percentile(500), Some(123_456));
        assert_eq!((histogram.min(), histogram.max()), (Some(123_456), Some(123_456)));
        let empty = Histogram::default();
        assert_eq!((empty.percentile(500), empty.min(), empty.max()), (None, None, None));
        assert!(empty.bins().is_empty() && empty.plot().is_empty());
    }

    #[test]
    fn three_digits_are_kept_whatever_the_size() {
        for (ns, kept) in [
            (0, 0),
            (999, 999),
            (1000, 1000),
            (1009, 1000),
            (1010, 1010),
            (9999, 9990),
            (10_000, 10_000),
            (12_399, 12_300),
            (999_999_999_999, 999_000_000_000),
            (u64::MAX, 999_000_000_000),
        ] {
            assert_eq!(lower_edge(place(ns)), kept, "{ns}");
        }
        // What is too long for a count is still told as the longest.
        assert_eq!(of([1, u64::MAX]).max(), Some(u64::MAX));
    }

    #[test]
    fn bins_have_their_lower_edges() {
        let bin = |from_ns, to_ns, count| Bin { from_ns, to_ns, count };
        assert_eq!(of([0, 0, 1]).bins(), [bin(0, 1, 2), bin(1, 2, 1)]);
        let histogram = of([1999, 2000, 4999, 5000, 20_000, 20_001]);
        assert_eq!(
            histogram.bins(),
            [
                bin(1000, 2000, 1),
                bin(2000, 5000, 2),
                bin(5000, 10_000, 1),
                bin(10_000, 20_000, 0),
                bin(20_000, 50_000, 2)
            ]
        );
        assert_eq!(of([u64::MAX, 3]).bins().iter().map(|bin| bin.count).sum::<u64>(), 2);
    }

    #[test]
    fn the_plot_shows_every_bin() {
        let text = of([1500, 2500, 2500, 6000]).plot();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "         1 .. 2        us          1  ####################",
                "         2 .. 5        us          2  ########################################",
                "         5 .. 10       us          1  ####################"
            ]
        );
    }

    #[test]
    fn two_are_added() {
        let mut sum = of([5, 7]);
        sum.add(&of([1, 9000]));
        sum.add(&Histogram::default());
        assert_eq!(sum, of([1, 5, 7, 9000]));
    }
}
