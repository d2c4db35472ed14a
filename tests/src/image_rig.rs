//! The image in a machine whose wires end in a test's hands.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use barewire::qemu::{DEBUG_EXIT_SUCCESS, Machine};
use libtest_mimic::Failed;
use model::{PortConfig, Server, Wire, Xl710};

use crate::guest::Guest;
use crate::machine::{Ground, ensure};

/// Frames of a direction that are under way: fewer than a transmit ring holds.
const IN_FLIGHT: usize = 256;

/// A wire that offers frames once and keeps what comes back.
#[derive(Clone, Default)]
pub struct End(Arc<(Mutex<Counts>, Condvar)>);

#[derive(Default)]
struct Counts {
    to_offer: Vec<Vec<u8>>,
    offered: usize,
    back: Vec<Vec<u8>>,
}

/// The card's end of it. What it receives comes back at `partner`.
struct CardEnd {
    end: End,
    partner: End,
    frame: Vec<u8>,
}

impl Wire for CardEnd {
    fn transmit(&mut self, frame: &[u8]) {
        let (counts, changed) = &*self.end.0;
        counts.lock().expect("no test panics with the wire").back.push(frame.to_vec());
        changed.notify_all();
    }

    fn receive(&mut self) -> Option<&[u8]> {
        let back = self.partner.0.0.lock().expect("no test panics with the wire").back.len();
        let mut counts = self.end.0.0.lock().expect("no test panics with the wire");
        if counts.offered >= back + IN_FLIGHT {
            return None;
        }
        self.frame = counts.to_offer.pop()?;
        counts.offered += 1;
        Some(&self.frame)
    }
}

impl End {
    /// What came back, once that is `count` frames or the time is up.
    pub fn back(&self, count: usize) -> Vec<Vec<u8>> {
        let (counts, changed) = &*self.0;
        let counts = counts.lock().expect("no test panics with the wire");
        let limit = Duration::from_secs(60);
        let waited = changed.wait_timeout_while(counts, limit, |counts| counts.back.len() < count);
        waited.expect("no test panics with the wire").0.back.clone()
    }
}

/// A guest with a card for each wire.
pub struct ImageRig {
    /// The machine.
    pub guest: Guest,
    server: model::Handle,
    thread: Option<std::thread::JoinHandle<Result<(), model::ServeError>>>,
    _folder: tempfile::TempDir,
}

impl ImageRig {
    /// Boots a machine with a card for each end, joined in pairs.
    ///
    /// # Errors
    /// It can't be started.
    pub fn start(ground: &Ground, mut machine: Machine, ends: Vec<End>) -> Result<Self, Failed> {
        let folder = tempfile::tempdir()?;
        let mut cards = Vec::new();
        for (port, end) in ends.iter().enumerate() {
            let (end, partner) = (end.clone(), ends.get(port ^ 1).unwrap_or(end).clone());
            let socket = folder.path().join(format!("card{port}"));
            machine.cards.push(socket.clone());
            let mac = [0x68, 5, 0xca, 0, 0, port as u8];
            let config = PortConfig { device_id: 0x1572, mac, name: format!("test{port}") };
            cards.push((socket, Xl710::new(config, Box::new(CardEnd { end, partner, frame: Vec::new() }))));
        }
        let server = Server::bind(cards)?;
        let handle = server.handle();
        let thread = std::thread::spawn(move || server.run());
        let guest = Guest::start(machine.command(&ground.qemu))?;
        Ok(Self { guest, server: handle, thread: Some(thread), _folder: folder })
    }

    /// Waits until every queue of every port runs, and puts the frames on the wires. Before that, one that is for a queue
    /// which does not run yet would be missed.
    ///
    /// # Errors
    /// The image does not get so far.
    pub fn offer(&mut self, ends: &[End], frames: Vec<Vec<Vec<u8>>>) -> Result<(), Failed> {
        self.guest.wait_for("barewire ready: ")?;
        for (end, frames) in ends.iter().zip(frames) {
            end.0.0.lock().expect("no test panics with the wire").to_offer = frames;
        }
        self.server.kick();
        Ok(())
    }

    /// Lets the image end in order; returns what it said.
    ///
    /// # Errors
    /// The image or a card has something to complain of.
    pub fn quit(mut self) -> Result<String, Failed> {
        self.guest.say("quit\n")?;
        let (status, said) = self.guest.end()?;
        self.server.stop();
        let thread = self.thread.take().ok_or("the server is gone")?;
        thread.join().map_err(|_| "the model panicked")??;
        let violations: Vec<String> =
            self.server.status().iter().flat_map(|port| port.violations.clone()).collect();
        ensure(violations.is_empty(), || format!("{violations:?}"))?;
        let good = status == Some(DEBUG_EXIT_SUCCESS) && said.contains("barewire: end status=ok");
        ensure(good, || format!("{status:?}\n{said}"))?;
        Ok(said)
    }
}

/// `key=value` pairs of the lines that begin with `barewire: WORD`.
pub fn lines(said: &str, word: &str) -> Vec<BTreeMap<String, String>> {
    let prefix = format!("barewire: {word} ");
    let pairs = |line: &str| {
        let pairs = line.split(' ').filter_map(|pair| pair.split_once('='));
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    };
    said.lines().filter_map(|line| line.strip_prefix(&prefix)).map(pairs).collect()
}

/// The number under `key`.
pub fn number(line: &BTreeMap<String, String>, key: &str) -> u64 {
    line.get(key).and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {key} in {line:?}"))
}

/// Frames dropped under any name.
pub fn dropped(line: &BTreeMap<String, String>) -> u64 {
    line.keys().filter(|key| key.starts_with("drop.")).map(|key| number(line, key)).sum()
}
