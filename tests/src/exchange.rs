//! Frames through a machine with ports in pairs, and back: a closed loop that holds what comes back against what has to.
//!
//! No more frames of a direction are under way than a limit below the machine's rings, so that none may be lost.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use libtest_mimic::Failed;
use model::{Handle, Wire};

/// How long no frame may come back before a round has failed: a bound for a machine that hangs.
const SILENCE: Duration = Duration::from_secs(60);

/// A frame toward the machine and what must come back for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// What a port receives.
    pub sent: Vec<u8>,
    /// What its partner sends for it.
    pub back: Vec<Vec<u8>>,
}

impl Pair {
    /// `back` comes back for `sent`.
    pub fn new(sent: Vec<u8>, back: Vec<u8>) -> Self {
        Self { sent, back: vec![back] }
    }

    /// A frame that comes back as it is.
    pub fn same(frame: Vec<u8>) -> Self {
        Self::new(frame.clone(), frame)
    }

    /// A frame that does not come back unless it is `wanted`.
    pub fn same_if(wanted: bool, frame: Vec<u8>) -> Self {
        Self { back: if wanted { vec![frame.clone()] } else { Vec::new() }, sent: frame }
    }
}

/// Makes frame number `n` of those that port `port` receives.
pub type Make = dyn Fn(usize, u32) -> Pair + Send + Sync;

/// Says whether a frame that port `port` sends by itself is right.
pub type Check = dyn Fn(usize, &[u8]) -> bool + Send + Sync;

/// Frames of each direction in a round.
#[derive(Clone)]
pub struct Round {
    /// How many.
    pub count: u32,
    /// How many may be under way.
    pub in_flight: usize,
    /// They come back in the order in which they were sent.
    pub in_order: bool,
    /// What they are.
    pub make: Arc<Make>,
}

/// The wires of all ports, in the test's hands.
#[derive(Clone)]
pub struct Exchange(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    round: Option<Round>,
    /// The machine makes frames by itself.
    check: Option<Arc<Check>>,
    loses: bool,
    directions: Vec<Direction>,
}

/// By the port that receives.
#[derive(Default)]
struct Direction {
    next: u32,
    under_way: VecDeque<Vec<u8>>,
    tally: Tally,
}

/// What became of the frames of a direction, over all rounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Frames that the port received, and their bytes.
    pub offered: u64,
    /// Bytes of them, without FCS.
    pub offered_bytes: u64,
    /// Frames that came back as they must.
    pub returned: u64,
    /// Bytes of them, without FCS.
    pub returned_bytes: u64,
    /// Frames that the partner made by itself.
    pub made: u64,
    /// Frames that came back otherwise, or out of order, or were made wrong.
    pub wrong: u64,
}

impl Exchange {
    /// Wires for `ports` ports, without frames.
    pub fn new(ports: usize) -> Self {
        let directions = (0..ports).map(|_| Direction::default()).collect();
        let state = Mutex::new(State { round: None, check: None, loses: false, directions });
        Self(Arc::new(Shared { state, changed: Condvar::new() }))
    }

    /// The cards' ends.
    pub fn wires(&self) -> Vec<Box<dyn Wire>> {
        let ports = self.state().directions.len();
        let end = |port| CardEnd { exchange: self.clone(), port, current: Vec::new() };
        (0..ports).map(|port| Box::new(end(port)) as Box<dyn Wire>).collect()
    }

    /// What became of the frames that each port received.
    pub fn tallies(&self) -> Vec<Tally> {
        self.state().directions.iter().map(|direction| direction.tally).collect()
    }

    /// Sends a round both ways and waits until everything is back.
    ///
    /// # Errors
    /// A frame came back wrong or did not.
    pub fn run(&self, handle: &Handle, round: Round) -> Result<(), Failed> {
        let mut state = self.state();
        let count = round.count;
        state.directions.iter_mut().for_each(|direction| direction.next = 0);
        state.round = Some(round);
        drop(state);
        handle.kick();
        let outcome = self.wait(count);
        self.state().round = None;
        outcome
    }

    /// From now on frames that find no descriptor are lost; or no longer.
    pub fn lose_frames(&self, lose: bool) {
        self.state().loses = lose;
    }

    /// From now on the machine makes frames by itself, right by `check`; or no longer.
    pub fn expect_made(&self, check: Option<Arc<Check>>) {
        self.state().check = check;
    }

    /// Waits until every port has made `count` frames since the exchange began.
    ///
    /// # Errors
    /// One is wrong, or there are no more.
    pub fn wait_made(&self, count: u64) -> Result<(), Failed> {
        let mut state = self.state();
        loop {
            let tallies: Vec<Tally> = state.directions.iter().map(|direction| direction.tally).collect();
            if tallies.iter().all(|tally| tally.made >= count) {
                return Ok(());
            }
            let (guard, waited) = self.0.changed.wait_timeout(state, SILENCE).expect("no wire panics");
            state = guard;
            if waited.timed_out() || tallies.iter().any(|tally| tally.wrong != 0) {
                return Err(format!("not {count} frames each: {tallies:?}").into());
            }
        }
    }

    fn wait(&self, count: u32) -> Result<(), Failed> {
        let mut state = self.state();
        let mut before = 0;
        loop {
            let tallies: Vec<Tally> = state.directions.iter().map(|direction| direction.tally).collect();
            if tallies.iter().any(|tally| tally.wrong != 0) {
                return Err(format!("frames came back wrong: {tallies:?}").into());
            }
            if state.directions.iter().all(|way| way.next == count && way.under_way.is_empty()) {
                return Ok(());
            }
            let (guard, waited) = self.0.changed.wait_timeout(state, SILENCE).expect("no wire panics");
            state = guard;
            let now = state.directions.iter().map(|way| way.tally.returned + way.tally.wrong).sum();
            if waited.timed_out() && now == before {
                return Err(format!("nothing comes back any more: {tallies:?} of {count} each").into());
            }
            before = now;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().expect("no wire panics")
    }
}

struct CardEnd {
    exchange: Exchange,
    port: usize,
    current: Vec<u8>,
}

impl Wire for CardEnd {
    fn transmit(&mut self, frame: &[u8]) {
        // The firmware's own LLDP agent, which DPDK's driver turns on when it lets go of a card.
        if frame.get(12..14) == Some(&[0x88, 0xcc]) {
            return;
        }
        let mut state = self.exchange.state();
        let in_order = state.round.as_ref().is_none_or(|round| round.in_order);
        let made = state.check.as_ref().map(|check| check(self.port, frame));
        let way = &mut state.directions[self.port ^ 1];
        if let Some(right) = made {
            way.tally.made += 1;
            way.tally.wrong += u64::from(!right);
            drop(state);
            return self.exchange.0.changed.notify_all();
        }
        match way.under_way.iter().position(|back| back == frame) {
            Some(place) if place == 0 || !in_order => {
                way.under_way.remove(place);
                way.tally.returned += 1;
                way.tally.returned_bytes += frame.len() as u64;
            }
            _ => way.tally.wrong += 1,
        }
        drop(state);
        self.exchange.0.changed.notify_all();
    }

    fn waits(&self) -> bool {
        !self.exchange.state().loses
    }

    fn receive(&mut self) -> Option<&[u8]> {
        let mut state = self.exchange.state();
        let round = state.round.clone()?;
        let way = &mut state.directions[self.port];
        if way.next == round.count || way.under_way.len() >= round.in_flight {
            return None;
        }
        let pair = (round.make)(self.port, way.next);
        way.next += 1;
        way.tally.offered += 1;
        way.tally.offered_bytes += pair.sent.len() as u64;
        way.under_way.extend(pair.back);
        let last = way.next == round.count;
        self.current = pair.sent;
        drop(state);
        if last {
            self.exchange.0.changed.notify_all();
        }
        Some(&self.current)
    }
}
