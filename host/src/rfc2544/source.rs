//! The source of a trial, an open loop: frames leave at the trial's rate whatever becomes of them. The time of each is
//! kept in a table by its number, so that nobody needs to write a time into a frame.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::Wire;

use super::frames::{Stamp, Stream};
use super::histogram::Histogram;
use crate::traffic::Rules;

/// Times of a way that are kept: a frame that comes back after so many others were sent is counted as late. Those that
/// are lost have numbers, too, so this is more than a machine can hold.
const MOST_TIMES: u64 = 1 << 20;
/// Bytes of a receive buffer: a longer frame takes several descriptors.
const BUFFER: usize = 2048;

/// Frames of a trial that go from one port to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    /// The port that receives them.
    pub from: usize,
    /// The port that sends them on.
    pub to: usize,
}

/// What a source is told once.
#[derive(Debug, Clone)]
pub struct Setup {
    /// What the image does to a frame.
    pub rules: Rules,
    /// Ways that are taken at the same time.
    pub ways: Vec<Way>,
    /// Receive descriptors that frames may take at once when the source is late. What is due beyond that is not sent.
    pub group: u64,
}

/// What a trial sends on each way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Order {
    /// Bytes of a frame without FCS.
    pub len: usize,
    /// Frames a second.
    pub rate: f64,
    /// How long.
    pub duration: Duration,
}

impl Order {
    /// Frames of a way that are due after `elapsed`.
    fn due(&self, elapsed: Duration) -> u64 {
        (self.rate * elapsed.min(self.duration).as_secs_f64()) as u64
    }

    /// Frames of a way in the whole trial.
    pub fn planned(&self) -> u64 {
        self.due(self.duration)
    }

    /// Frames that take up to so many descriptors, at least one.
    fn frames_in(&self, descriptors: u64) -> u64 {
        (descriptors / self.len.div_ceil(BUFFER).max(1) as u64).max(1)
    }
}

/// What became of the frames of a trial, of all ways together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames that were due and sent.
    pub sent: u64,
    /// Frames that were due and not sent, since the source was late.
    pub skipped: u64,
    /// Frames that were due when no card asked for any more: its link was down, or it came too late.
    pub unasked: u64,
    /// Frames that came back as they should, each once.
    pub back: u64,
    /// Frames that came out and are none of those: changed, twice, or from a port that should send none.
    pub wrong: u64,
    /// Frames of an earlier trial, or so late that nobody knows any more when they left.
    pub late: u64,
    /// Most frames that were due at once.
    pub most_due: u64,
    /// From a frame's leave to its return.
    pub latency: Histogram,
}

/// The source; the wires of all ports share it.
pub struct Source {
    setup: Setup,
    state: Mutex<State>,
}

struct State {
    lanes: Vec<Lane>,
    trial: u16,
    order: Option<Order>,
    /// Frames of a way in the whole trial.
    planned: u64,
    start: Instant,
    /// Of what belongs to no lane.
    wrong: u64,
    late: u64,
    /// When a frame came back last, or the source was stopped.
    last: Instant,
    books: Books,
}

/// Frames of all trials so far, whatever they were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Books {
    /// Frames put on wires toward the image.
    pub sent: u64,
    /// Frames that came out of wires.
    pub out: u64,
}

impl State {
    /// A trial that nothing was sent of yet.
    fn new(trial: u16, lanes: Vec<Lane>, order: Option<Order>, books: Books) -> Self {
        let (now, planned) = (Instant::now(), order.map_or(0, |order| order.planned()));
        Self { lanes, trial, order, planned, start: now, wrong: 0, late: 0, last: now, books }
    }
}

struct Lane {
    way: Way,
    stream: Stream,
    /// Frames whose time has come: sent or skipped.
    passed: u64,
    /// By number, modulo its length.
    times: Vec<Leave>,
    counts: Counts,
}

/// When the frame of a number left; in ns since the trial's start.
#[derive(Debug, Clone, Copy, Default)]
struct Leave {
    /// The frame's number, plus 1; 0 for no frame, and once it is back.
    number: u64,
    at_ns: u64,
}

impl Lane {
    fn new(way: Way, order: &Order) -> Self {
        let (stream, planned) = (Stream::new(way.from, order.len), order.planned());
        let times = vec![Leave::default(); planned.clamp(1, MOST_TIMES) as usize];
        Self { way, stream, passed: 0, times, counts: Counts::default() }
    }

    /// The number of the next frame, if one is due.
    fn next(&mut self, due: u64, group: u64) -> Option<u64> {
        let behind = due.saturating_sub(self.passed);
        self.counts.most_due = self.counts.most_due.max(behind);
        let skip = behind.saturating_sub(group);
        (self.passed, self.counts.skipped) = (self.passed + skip, self.counts.skipped + skip);
        if self.passed >= due {
            return None;
        }
        let number = self.counts.sent;
        (self.passed, self.counts.sent) = (self.passed + 1, number + 1);
        Some(number)
    }

    fn leave(&mut self, number: u64) -> Option<&mut Leave> {
        let len = self.times.len() as u64;
        self.times.get_mut((number % len.max(1)) as usize)
    }

    /// Takes in a frame that came back.
    fn back(&mut self, setup: &Setup, stamp: Stamp, frame: &[u8], at_ns: u64) -> Back {
        let port = self.way.to;
        let right = setup.rules.is_right(port, self.stream.frame(stamp), frame);
        let (sent, kept) = (self.counts.sent, self.times.len() as u64);
        if !right || stamp.number >= sent {
            return Back::Wrong;
        }
        if sent - stamp.number > kept {
            return Back::Late;
        }
        let Some(leave) = self.leave(stamp.number).filter(|leave| leave.number == stamp.number + 1) else {
            return Back::Wrong;
        };
        let left = leave.at_ns;
        leave.number = 0;
        self.counts.back += 1;
        self.counts.latency.record(at_ns.saturating_sub(left));
        Back::Right
    }
}

/// What a frame that came back is.
enum Back {
    /// One that is expected, as it should be; it is not expected any more.
    Right,
    /// One that left too long ago.
    Late,
    /// Changed, or a second time.
    Wrong,
}

impl Source {
    /// A source that sends nothing yet.
    pub fn new(setup: Setup) -> Arc<Self> {
        let state = State::new(0, Vec::new(), None, Books::default());
        Arc::new(Self { setup, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a trial.
    pub fn begin(&self, order: Order) {
        let lanes = self.setup.ways.iter().map(|way| Lane::new(*way, &order)).collect();
        let mut state = self.state();
        *state = State::new(state.trial.wrapping_add(1), lanes, Some(order), state.books);
    }

    /// Every frame of the trial has had its time.
    pub fn is_over(&self) -> bool {
        let state = self.state();
        state.lanes.iter().all(|lane| lane.passed >= state.planned)
    }

    /// No frame is sent any more; what is under way may still come back.
    pub fn stop(&self) {
        let mut state = self.state();
        (state.order, state.last) = (None, Instant::now());
    }

    /// Every frame is back, or none has come for `quiet` since the source was stopped.
    pub fn is_quiet(&self, quiet: Duration) -> bool {
        let state = self.state();
        let all = state.lanes.iter().all(|lane| lane.counts.back == lane.counts.sent);
        all || state.last.elapsed() >= quiet
    }

    /// What became of the trial's frames so far.
    pub fn counts(&self) -> Counts {
        let state = self.state();
        let none = Counts { wrong: state.wrong, late: state.late, ..Counts::default() };
        state.lanes.iter().fold(none, |mut sum, lane| {
            let counts = &lane.counts;
            sum.sent += counts.sent;
            sum.skipped += counts.skipped;
            sum.unasked += state.planned.saturating_sub(lane.passed);
            sum.back += counts.back;
            sum.most_due = sum.most_due.max(counts.most_due);
            sum.latency.add(&counts.latency);
            sum
        })
    }

    /// The books of all trials.
    pub fn books(&self) -> Books {
        self.state().books
    }

    fn came_back(&self, port: usize, frame: &[u8]) {
        let mut state = self.state();
        let state = &mut *state;
        let now = Instant::now();
        state.last = now;
        state.books.out += 1;
        let at_ns = now.duration_since(state.start).as_nanos() as u64;
        let back = match Stamp::of(frame) {
            Some(stamp) if stamp.trial != state.trial => Back::Late,
            Some(stamp) => {
                let lane = state.lanes.get_mut(usize::from(stamp.lane)).filter(|lane| lane.way.to == port);
                lane.map_or(Back::Wrong, |lane| lane.back(&self.setup, stamp, frame, at_ns))
            }
            None => Back::Wrong,
        };
        match back {
            Back::Right => {}
            Back::Late => state.late += 1,
            Back::Wrong => state.wrong += 1,
        }
    }

    /// Puts the next frame for `port` into `frame`, if one is due.
    fn next(&self, port: usize, frame: &mut Vec<u8>) -> bool {
        let mut state = self.state();
        let state = &mut *state;
        let Some(order) = state.order else { return false };
        let Some(index) = state.lanes.iter().position(|lane| lane.way.from == port) else { return false };
        let Some(lane) = state.lanes.get_mut(index) else { return false };
        let elapsed = state.start.elapsed();
        let Some(number) = lane.next(order.due(elapsed), order.frames_in(self.setup.group)) else {
            return false;
        };
        frame.clear();
        frame.extend_from_slice(lane.stream.frame(Stamp { lane: index as u16, trial: state.trial, number }));
        if let Some(leave) = lane.leave(number) {
            *leave = Leave { number: number + 1, at_ns: elapsed.as_nanos() as u64 };
        }
        state.books.sent += 1;
        true
    }
}

/// The wire of one port.
pub struct SourceWire {
    source: Arc<Source>,
    port: usize,
    frame: Vec<u8>,
}

impl SourceWire {
    /// The wire of port `port`; one that is on no way brings nothing.
    pub fn new(source: &Arc<Source>, port: usize) -> Self {
        Self { source: source.clone(), port, frame: Vec::new() }
    }
}

impl Wire for SourceWire {
    fn transmit(&mut self, frame: &[u8]) {
        self.source.came_back(self.port, frame);
    }

    fn receive(&mut self) -> Option<&[u8]> {
        self.source.next(self.port, &mut self.frame).then_some(&self.frame)
    }

    /// A frame that finds no descriptor is lost.
    fn waits(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::{Forward, Macs};

    fn source(ways: &[Way], group: u64) -> Arc<Source> {
        let rules = Rules::of(Forward::Io, Macs(vec![]));
        let setup = Setup { rules, ways: ways.to_vec(), group };
        Source::new(setup)
    }

    const BOTH: [Way; 2] = [Way { from: 0, to: 1 }, Way { from: 1, to: 0 }];
    /// 5000 frames that are all due as soon as a moment has passed.
    const AT_ONCE: Order = Order { len: 60, rate: 5e12, duration: Duration::from_nanos(1) };

    fn all(wire: &mut SourceWire) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| wire.receive().map(<[u8]>::to_vec)).collect()
    }

    #[test]
    fn frames_are_due_by_the_time() {
        let order = Order { len: 60, rate: 1000.0, duration: Duration::from_secs(2) };
        let due = |ms| order.due(Duration::from_millis(ms));
        assert_eq!((due(0), due(1), due(1500), due(2000), due(9000)), (0, 1, 1500, 2000, 2000));
        assert_eq!(order.planned(), 2000);
    }

    #[test]
    fn each_frame_counts_once_and_on_its_way_only() {
        let source = source(&BOTH, u64::MAX);
        let (mut a, mut b) = (SourceWire::new(&source, 0), SourceWire::new(&source, 1));
        assert!(a.receive().is_none());
        source.begin(AT_ONCE);
        let (to_a, to_b) = (all(&mut a), all(&mut b));
        assert_eq!((to_a.len(), to_b.len()), (5000, 5000));
        assert!(source.is_over() && !source.is_quiet(Duration::MAX));
        to_a.iter().for_each(|frame| b.transmit(frame));
        assert_eq!((source.counts().back, source.counts().latency.total()), (5000, 5000));
        // Twice, changed, by the wrong wire, without a stamp.
        b.transmit(&to_a[4999]);
        let mut changed = to_b[4999].clone();
        changed[59] ^= 1;
        a.transmit(&changed);
        b.transmit(&to_b[4999]);
        a.transmit(&[0; 60]);
        let counts = source.counts();
        assert_eq!((counts.sent, counts.back, counts.wrong, counts.late), (10_000, 5000, 4, 0));
        a.transmit(&to_b[4999]);
        assert_eq!(source.counts().back, 5001);
        source.begin(AT_ONCE);
        a.transmit(&to_b[4998]);
        assert_eq!((source.counts().back, source.counts().late, source.counts().wrong), (0, 1, 0));
        assert_eq!(source.books(), Books { sent: 10_000, out: 5000 + 4 + 1 + 1 });
    }

    #[test]
    fn a_frame_that_left_too_long_ago_is_late() {
        let source = source(&BOTH[..1], u64::MAX);
        let many = MOST_TIMES + 2;
        source.begin(Order { len: 60, rate: many as f64 * 1e9, duration: Duration::from_nanos(1) });
        let (mut a, mut b) = (SourceWire::new(&source, 0), SourceWire::new(&source, 1));
        let first: Vec<Vec<u8>> = (0..3).filter_map(|_| a.receive().map(<[u8]>::to_vec)).collect();
        while a.receive().is_some() {}
        first.iter().for_each(|frame| b.transmit(frame));
        let counts = source.counts();
        assert_eq!((counts.sent, counts.back, counts.late, counts.wrong), (many, 1, 2, 0));
    }

    #[test]
    fn a_source_that_is_late_sends_no_more_than_a_group_at_once() {
        let source = source(&BOTH[..1], 100);
        source.begin(AT_ONCE);
        let frames = all(&mut SourceWire::new(&source, 0));
        let counts = source.counts();
        assert_eq!((frames.len(), counts.sent, counts.skipped, counts.most_due), (100, 100, 4900, 5000));
        assert!(source.is_over() && all(&mut SourceWire::new(&source, 1)).is_empty());
        let mut other = SourceWire::new(&source, 1);
        frames.iter().for_each(|frame| other.transmit(frame));
        assert!(source.is_quiet(Duration::MAX));
        source.stop();
        assert!(all(&mut SourceWire::new(&source, 0)).is_empty());
        // Of 1024 descriptors, 5 a frame: 9728 bytes in buffers of 2048.
        let jumbo = Order { len: 9728, ..AT_ONCE };
        assert_eq!((jumbo.frames_in(1024), jumbo.frames_in(3), AT_ONCE.frames_in(1024)), (204, 1, 1024));
    }

    /// At a low rate the last frame that came back is older than any silence that ends a trial.
    #[test]
    fn silence_counts_from_the_stop_on() {
        let source = source(&BOTH[..1], u64::MAX);
        source.begin(AT_ONCE);
        let sent = all(&mut SourceWire::new(&source, 0));
        SourceWire::new(&source, 1).transmit(&sent[0]);
        let before = Instant::now();
        source.stop();
        assert!(source.state().last >= before && !source.is_quiet(Duration::MAX));
    }

    #[test]
    fn what_no_card_asks_for_is_told() {
        let source = source(&BOTH, u64::MAX);
        source.begin(AT_ONCE);
        let sent = all(&mut SourceWire::new(&source, 0));
        source.stop();
        let counts = source.counts();
        assert_eq!((sent.len(), counts.sent, counts.skipped, counts.unasked), (5000, 5000, 0, 5000));
    }
}
