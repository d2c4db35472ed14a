//! Which rate to try next: RFC 2544, section 26.1, by halving what is left between a rate that passed and one that did
//! not.

/// A source that sent less than this part of what was due did not hold the rate.
pub const HELD: f64 = 0.99;
/// One that sent at least this part was disturbed, rather than too slow: such a trial is void and made again.
const DISTURBED: f64 = 0.8;
/// Disturbed trials at a rate until they are taken as they are.
const AGAIN: usize = 3;
/// Trials of one frame size that a search takes at most.
pub const MOST_TRIALS: usize = 40;

/// Where a search looks. Rates are in frames a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Search {
    /// The lowest rate that is tried.
    pub lowest: f64,
    /// The highest one, which is tried first.
    pub highest: f64,
    /// It ends when the rate that failed is above the one that passed by no more than this part of itself.
    pub resolution: f64,
}

/// What a trial showed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// The rate that was asked of the source.
    pub asked: f64,
    /// The rate at which it sent.
    pub offered: f64,
    /// The part of the frames that did not come back, from 0 to 1; 1 where none was sent.
    pub loss: f64,
}

/// What keeps the rate from being higher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// Above it, frames are lost.
    Loss,
    /// Above it, the source does not hold the rate.
    Source,
    /// Nothing: no higher rate was to be tried.
    Highest,
    /// Every trial that it may take was taken.
    Trials,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// A trial at this rate.
    Try(f64),
    /// The rate that was found, as the source sent it, and what bounds it.
    Found(f64, Bound),
    /// Even the lowest rate loses more than it may.
    Nothing,
}

impl Point {
    /// The source sent at the rate that was asked of it.
    pub fn held(&self) -> bool {
        self.offered >= self.asked * HELD
    }

    /// The rate that was tried in truth.
    fn tried(&self) -> f64 {
        if self.held() { self.asked } else { self.offered }
    }

    /// It sent nearly as much as it should, or there was a trial in which more than that was sent and came back.
    fn disturbed(&self, points: &[Self]) -> bool {
        let more = || points.iter().any(|other| other.offered * (1.0 - other.loss) >= self.asked);
        !self.held() && (self.offered >= self.asked * DISTURBED || more())
    }

    /// The rate from which on it is too high, with the reason, if this trial shows one.
    fn ceiling(&self, allowed: f64) -> Option<(f64, Bound)> {
        if self.loss > allowed {
            Some((self.tried(), Bound::Loss))
        } else {
            (!self.held()).then_some((self.asked, Bound::Source))
        }
    }
}

impl Search {
    /// The next step towards the highest rate that loses no more than the part `allowed`, after the trials `points`,
    /// in any order, whatever they were made for.
    pub fn next(&self, points: &[Point], allowed: f64) -> Step {
        let counted: Vec<&Point> = points.iter().filter(|point| !is_void(point, points)).collect();
        let ceilings = || counted.iter().filter_map(|point| Some((*point, point.ceiling(allowed)?)));
        let losses = ceilings().filter(|(_, (_, bound))| *bound == Bound::Loss);
        let lost = losses.map(|(_, (ceiling, _))| ceiling).fold(f64::INFINITY, f64::min);
        let passed = points.iter().filter(|point| point.loss <= allowed && point.tried() < lost);
        let best = passed.max_by(|a, b| a.tried().total_cmp(&b.tried()));
        let floor = best.map_or(0.0, Point::tried);
        // A source that did more in another trial was kept from it, and is no bound.
        let bounds = ceilings().filter(|(_, (ceiling, bound))| *bound == Bound::Loss || *ceiling > floor);
        let failed = bounds.min_by(|a, b| a.1.0.total_cmp(&b.1.0));
        let ceiling = failed.map_or(f64::INFINITY, |(_, (ceiling, _))| ceiling);
        let given_up = points.len() >= MOST_TRIALS;
        let open = |point: &&Point| is_open(point, points) && point.asked > floor && point.asked < ceiling;
        if let (Some(void), false) = (points.iter().rev().find(open), given_up) {
            return Step::Try(void.asked);
        }
        match (failed, best) {
            (Some((failed, (_, bound))), best) => {
                let at_the_end = counted.iter().any(|point| point.asked <= self.lowest);
                self.between(failed, (ceiling, bound), best, given_up, at_the_end)
            }
            // Trials below the highest rate say nothing about it.
            (None, Some(best)) if best.asked >= self.highest => Step::Found(best.offered, Bound::Highest),
            (None, Some(best)) if given_up => Step::Found(best.offered, Bound::Trials),
            (None, None) if given_up => Step::Nothing,
            (None, _) => Step::Try(self.highest),
        }
    }

    /// The next step below a ceiling, which the trial `failed` has shown.
    fn between(
        &self,
        failed: &Point,
        (ceiling, bound): (f64, Bound),
        best: Option<&Point>,
        given_up: bool,
        at_the_end: bool,
    ) -> Step {
        let Some(best) = best else {
            if given_up || at_the_end {
                return Step::Nothing;
            }
            // What came back of too much is a good guess, where it is much less.
            let came_back = failed.offered * (1.0 - failed.loss);
            return Step::Try(came_back.min(ceiling / 2.0).max(self.lowest));
        };
        let floor = best.tried();
        // A source that sends less than it is asked for may get below the lowest rate.
        if ceiling - floor <= self.resolution * ceiling || ceiling <= self.lowest {
            Step::Found(best.offered, bound)
        } else if given_up {
            Step::Found(best.offered, Bound::Trials)
        } else if ceiling > 2.0 * floor {
            Step::Try((ceiling * floor).sqrt().max(self.lowest))
        } else {
            Step::Try(f64::midpoint(ceiling, floor).max(self.lowest))
        }
    }
}

/// Trials at the same rate: all of them, and how many of them were disturbed.
fn alike(point: &Point, points: &[Point]) -> (usize, usize) {
    let same = || points.iter().filter(|other| other.asked == point.asked);
    (same().count(), same().filter(|other| other.disturbed(points)).count())
}

/// A disturbed trial, and not yet so many at its rate that they are taken as they are.
fn is_void(point: &Point, points: &[Point]) -> bool {
    let (all, disturbed) = alike(point, points);
    point.disturbed(points) && (disturbed < AGAIN || disturbed < all)
}

/// All trials at this one's rate were disturbed, and another one may be made.
fn is_open(point: &Point, points: &[Point]) -> bool {
    let (all, disturbed) = alike(point, points);
    all == disturbed && disturbed < AGAIN
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEARCH: Search = Search { lowest: 1000.0, highest: 14_880_952.0, resolution: 0.01 };

    /// Searches with a made-up device, and says how many trials it took.
    fn search(search: Search, allowed: f64, device: impl Fn(f64) -> Point) -> (Step, usize) {
        let mut points = Vec::new();
        loop {
            match search.next(&points, allowed) {
                Step::Try(rate) => {
                    assert!((search.lowest..=search.highest).contains(&rate), "{rate}");
                    points.push(device(rate));
                }
                end => return (end, points.len()),
            }
            assert!(points.len() <= MOST_TRIALS);
        }
    }

    /// A device that forwards up to `limit` and drops the rest.
    fn limited(limit: f64) -> impl Fn(f64) -> Point {
        move |rate| Point { asked: rate, offered: rate, loss: (1.0 - limit / rate).max(0.0) }
    }

    #[test]
    fn a_known_limit_is_found_within_the_resolution() {
        for limit in [1000.0, 1001.0, 54_321.0, 400_000.0, 7_440_476.0, 14_000_000.0, 14_880_000.0] {
            for resolution in [0.001, 0.01, 0.1] {
                let (end, trials) = search(Search { resolution, ..SEARCH }, 0.0, limited(limit));
                let Step::Found(rate, Bound::Loss) = end else { panic!("{limit}: {end:?}") };
                assert!(rate <= limit && rate >= limit * (1.0 - resolution) - 1e-6, "{limit}: {rate}");
                assert!(trials <= 30, "{limit}: {trials} trials");
            }
        }
    }

    /// With 2 % loss allowed, a device that drops what is above its limit may get limit / 0.98.
    #[test]
    fn a_given_loss_allows_more() {
        let (end, _) = search(SEARCH, 0.02, limited(490_000.0));
        let Step::Found(rate, Bound::Loss) = end else { panic!("{end:?}") };
        assert!((495_000.0..=500_000.0).contains(&rate), "{rate}");
    }

    /// The trials of the search without loss are of use to the one with loss, which never finds less.
    #[test]
    fn one_search_goes_on_from_the_others_trials() {
        let device = limited(490_000.0);
        let mut points = Vec::new();
        let mut found = [0.0; 2];
        let mut taken = [0; 2];
        for (index, allowed) in [0.0, 0.02].into_iter().enumerate() {
            while let Step::Try(rate) = SEARCH.next(&points, allowed) {
                points.push(device(rate));
                taken[index] += 1;
            }
            let Step::Found(rate, _) = SEARCH.next(&points, allowed) else { panic!() };
            found[index] = rate;
        }
        assert!(found[1] >= found[0] && taken[1] < taken[0], "{found:?} {taken:?}");
    }

    #[test]
    fn a_device_that_loses_at_every_rate_has_no_rate() {
        let lossy = |rate| Point { asked: rate, offered: rate, loss: 0.001 };
        let (end, trials) = search(SEARCH, 0.0, lossy);
        assert_eq!(end, Step::Nothing);
        assert!(trials <= 20, "{trials}");
        // The same device is good enough for who takes a loss of 0.1 %.
        assert_eq!(search(SEARCH, 0.001, lossy), (Step::Found(SEARCH.highest, Bound::Highest), 1));
        let dead = |rate| Point { asked: rate, offered: rate, loss: 1.0 };
        assert_eq!(search(SEARCH, 0.5, dead), (Step::Nothing, 2));
    }

    #[test]
    fn a_device_without_a_limit_gets_the_highest_rate_in_one_trial() {
        assert_eq!(search(SEARCH, 0.0, limited(1e9)), (Step::Found(SEARCH.highest, Bound::Highest), 1));
    }

    /// It collapses under too much, so that what comes back is no hint.
    #[test]
    fn a_device_that_collapses_is_searched_all_the_same() {
        let device =
            |rate: f64| Point { asked: rate, offered: rate, loss: if rate > 3e6 { 0.9999 } else { 0.0 } };
        let (end, _) = search(SEARCH, 0.0, device);
        let Step::Found(rate, Bound::Loss) = end else { panic!("{end:?}") };
        assert!((2.97e6..=3e6).contains(&rate), "{rate}");
    }

    #[test]
    fn a_source_that_can_do_no_more_is_named() {
        let weak = |limit: f64| {
            move |rate: f64| {
                let offered = rate.min(800_000.0);
                Point { asked: rate, offered, loss: (1.0 - limit / offered).max(0.0) }
            }
        };
        let (end, _) = search(SEARCH, 0.0, weak(1e9));
        let Step::Found(rate, Bound::Source) = end else { panic!("{end:?}") };
        assert!((792_000.0..=800_000.0).contains(&rate), "{rate}");
        let (end, _) = search(SEARCH, 0.0, weak(400_000.0));
        let Step::Found(rate, Bound::Loss) = end else { panic!("{end:?}") };
        assert!((396_000.0..=400_000.0).contains(&rate), "{rate}");
        let silent = |rate| Point { asked: rate, offered: 0.0, loss: 1.0 };
        assert_eq!(search(SEARCH, 0.0, silent).0, Step::Nothing);
    }

    /// A host that stalls once makes one trial void: the limit is found as if it had not.
    #[test]
    fn a_disturbed_trial_is_made_again() {
        for stalled in 0..8 {
            let trials = std::cell::Cell::new(0);
            let device = |rate: f64| {
                let now = trials.replace(trials.get() + 1);
                let (part, loss) =
                    if now == stalled { (0.95, 0.01) } else { (1.0, (1.0 - 4e5 / rate).max(0.0)) };
                Point { asked: rate, offered: rate * part, loss }
            };
            let (end, _) = search(SEARCH, 0.0, device);
            let Step::Found(rate, Bound::Loss) = end else { panic!("{end:?}") };
            assert!((396_000.0..=400_000.0).contains(&rate), "{stalled}: {rate}");
        }
    }

    /// Three disturbed trials at a rate say nothing of a source that did twice as much without more loss than is allowed.
    #[test]
    fn a_source_that_did_more_is_no_bound() {
        let point = |asked, offered, loss| Point { asked, offered, loss };
        let low = [81_242.0, 79_982.0, 79_682.0].map(|offered| point(82_602.0, offered, 0.001));
        let high = [point(1e6, 9e5, 0.8), point(227_051.0, 165_204.0, 0.001)];
        let points = [&high[..], &low].concat();
        let Step::Try(rate) = (Search { highest: 1e6, ..SEARCH }).next(&points, 0.005) else { panic!() };
        assert!(rate > 165_204.0 && rate <= 1e6, "{rate}");
        // Without loss it is what they lost that bounds the rate.
        let Step::Try(rate) = (Search { highest: 1e6, ..SEARCH }).next(&points, 0.0) else { panic!() };
        assert!(rate < 79_682.0, "{rate}");
    }

    /// A source that stalls in the middle of a search, for more than half of a trial, gets that rate again.
    #[test]
    fn a_source_that_stalled_where_more_came_back_before_is_asked_again() {
        let point = |asked, offered, loss| Point { asked, offered, loss };
        let search = Search { highest: 1e6, ..SEARCH };
        let mut points = vec![point(1e6, 6e5, 0.75), point(75_000.0, 30_000.0, 0.0)];
        for _ in 1..AGAIN {
            assert_eq!(search.next(&points, 0.0), Step::Try(75_000.0));
            points.push(point(75_000.0, 30_000.0, 0.0));
        }
        let Step::Try(rate) = search.next(&points, 0.0) else { panic!() };
        assert!(rate > 30_000.0 && rate < 75_000.0, "{rate}");
    }

    /// A rate that passed once and failed once is too high: a device that is not alike twice does not go on for ever.
    #[test]
    fn a_device_that_is_not_alike_twice_ends_the_search() {
        for seed in 1..200_u64 {
            let state = std::cell::Cell::new(seed);
            let noisy = |rate| {
                // xorshift64, Marsaglia.
                let mut x = state.get();
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                state.set(x);
                Point {
                    asked: rate,
                    offered: rate * (0.9 + (x % 11) as f64 / 100.0),
                    loss: (x / 11 % 2) as f64 / 100.0,
                }
            };
            let (end, trials) = search(SEARCH, 0.0, noisy);
            assert!(trials <= MOST_TRIALS && !matches!(end, Step::Try(_)));
        }
    }

    #[test]
    fn one_rate_only_is_one_trial() {
        let one = Search { lowest: 5000.0, highest: 5000.0, resolution: 0.01 };
        assert_eq!(search(one, 0.0, limited(5000.0)), (Step::Found(5000.0, Bound::Highest), 1));
        assert_eq!(search(one, 0.0, limited(4999.0)), (Step::Nothing, 1));
    }
}
