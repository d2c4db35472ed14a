//! One end of a memif connection in this process, with its core, and frames to send through it.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use barewire::memif::client::{Plugs, Status};
use barewire::memif::{Address, ClientThread, Interface, ServerThread};
use barewire::packages::Packages;
use drivers::memif::message::cut;
use drivers::memif::{ClientOptions, Rx, ServerOptions, Tx};
use hal::hosted::{FakeBar, HostedMachine};
use hal::shared_file::SharedFile;
use hal::simd::Isa;
use hal::{DmaMemory, Machine};
use kernel::port::QueueSetup;
use kernel::{BufferLayout, Buffers, Burst, Drops, Meta, Packet, Pool, RxQueue, TxQueue};
use libtest_mimic::Failed;

use crate::machine::ensure;

/// How long anything may take that takes milliseconds.
pub const LIMIT: Duration = Duration::from_secs(20);
/// Buffers of an end.
const BUFFERS: usize = 4096;

/// What an end is.
#[derive(Debug, Clone)]
pub struct Shape {
    /// The interface's number.
    pub id: u32,
    /// Queues each way.
    pub queues: u16,
    /// Descriptors of a ring, as a power of two.
    pub log2_size: u8,
    /// Bytes of a buffer.
    pub buffer: u32,
    /// Packets lie in the region.
    pub zero_copy: bool,
    /// What a client has to know.
    pub secret: &'static str,
    /// The fast path is allowed.
    pub fast: bool,
}

impl Default for Shape {
    fn default() -> Self {
        Self { id: 0, queues: 1, log2_size: 10, buffer: 2048, zero_copy: false, secret: "", fast: true }
    }
}

/// One end.
pub struct Peer {
    /// Its queues.
    pub queues: Vec<(Rx, Tx)>,
    /// What control knows of the connection.
    pub status: Arc<Status>,
    pool: Pool,
    burst: Burst,
    _control: Control,
}

/// Ends when it is dropped.
#[allow(dead_code)]
enum Control {
    Client(ClientThread),
    Server(Arc<ServerThread>),
}

fn packets() -> DmaMemory {
    let bytes = BufferLayout::DEFAULT.bytes(BUFFERS);
    let machine = HostedMachine::<FakeBar>::new(bytes + 4096).expect("memory");
    machine.dma_alloc(bytes, 4096).expect("memory")
}

impl Peer {
    /// A client of the server at `address`.
    ///
    /// # Errors
    /// It can't be made.
    pub fn client(address: &Address, shape: &Shape) -> Result<Self, Failed> {
        const POOL: usize = 64 << 20;
        let file = SharedFile::new(256 << 20)?;
        let bytes = BufferLayout::DEFAULT.bytes(BUFFERS);
        let memory = if shape.zero_copy { file.memory().part(POOL, bytes)? } else { packets() };
        let options = ClientOptions {
            id: shape.id,
            secret: cut(shape.secret),
            name: cut("barewire"),
            queues: shape.queues,
            log2_size: shape.log2_size,
            buffer: shape.buffer,
            pool: shape.zero_copy.then_some(POOL as u32),
        };
        let thread = ClientThread::start(address.clone(), options, file)?;
        let (plugs, status) = (thread.plugs.clone(), thread.status.clone());
        Ok(Self::new(memory, &plugs, status, Control::Client(thread), shape))
    }

    /// Servers of one socket, one for each shape.
    ///
    /// # Errors
    /// They can't be made.
    pub fn servers(address: &Address, shapes: &[Shape]) -> Result<Vec<Self>, Failed> {
        let interface = |shape: &Shape| {
            Interface::new(ServerOptions {
                id: shape.id,
                secret: cut(shape.secret),
                name: cut("barewire"),
                queues: shape.queues,
                log2_size: 14,
            })
        };
        let interfaces: Vec<Interface> = shapes.iter().map(interface).collect();
        let ends: Vec<_> =
            interfaces.iter().map(|interface| (interface.plugs.clone(), interface.status.clone())).collect();
        let thread = Arc::new(ServerThread::start(address, interfaces)?);
        let peers = ends.into_iter().zip(shapes).map(|((plugs, status), shape)| {
            Self::new(packets(), &plugs, status, Control::Server(thread.clone()), shape)
        });
        Ok(peers.collect())
    }

    /// A server of a socket of its own.
    ///
    /// # Errors
    /// It can't be made.
    pub fn server(address: &Address, shape: &Shape) -> Result<Self, Failed> {
        Ok(Self::servers(address, std::slice::from_ref(shape))?.remove(0))
    }

    fn new(memory: DmaMemory, plugs: &Plugs, status: Arc<Status>, control: Control, shape: &Shape) -> Self {
        let layout = BufferLayout::DEFAULT;
        let pool = Pool::new(memory.clone(), layout);
        let setup = QueueSetup { descriptors: 1024, memory, layout, isa: Isa::best() };
        let queues = plugs.rx.iter().zip(&plugs.tx).enumerate().map(|(index, (rx, tx))| {
            let rx = Rx::new(index, rx.clone(), &setup, shape.fast);
            (rx, Tx::new(index, tx.clone(), &setup, shape.fast))
        });
        Self { queues: queues.collect(), status, pool, burst: Burst::new(), _control: control }
    }

    /// Polls until there is a connection.
    ///
    /// # Errors
    /// There is none for long.
    pub fn connected(&mut self) -> Result<(), Failed> {
        let until = Instant::now() + LIMIT;
        while !self.status.is_up() {
            ensure(Instant::now() < until, || format!("no connection: {}", self.status.said()))?;
            std::thread::sleep(Duration::from_millis(1));
        }
        // A client offers its buffers when it polls.
        for queue in 0..self.queues.len() {
            self.send(queue, &[]);
        }
        Ok(())
    }

    /// Sends frames by a queue as far as there is room; says how many.
    pub fn send(&mut self, queue: usize, frames: &[Vec<u8>]) -> usize {
        let mut taken = 0;
        for frame in frames {
            let pieces = frame.len().div_ceil(2048);
            if self.burst.room() < pieces || self.pool.available() < pieces + 256 {
                break;
            }
            for (index, piece) in frame.chunks(2048).enumerate() {
                let Some(buffer) = self.pool.take() else { break };
                let len = piece.len() as u32;
                let meta = if index + 1 == pieces { Meta::frame(len) } else { Meta::segment(len) };
                self.pool.memory().copy_in(buffer as usize, piece).expect("in the pool");
                self.burst.push(Packet { buffer, meta }).expect("room");
            }
            taken += 1;
        }
        let Self { queues, pool, burst, .. } = self;
        let sent = queues[queue].1.tx_burst(pool, burst);
        // What found no room is sent again by the caller.
        let left = burst.give_back(pool);
        assert!(sent + left <= taken, "{sent} sent and {left} left of {taken}");
        taken - left
    }

    /// Receives from a queue what is there.
    pub fn receive(&mut self, queue: usize) -> Vec<Vec<u8>> {
        let Self { queues, pool, burst, .. } = self;
        queues[queue].0.rx_burst(pool, burst, 64);
        let mut frames = vec![Vec::new()];
        while let Some(Packet { buffer, meta }) = burst.pop() {
            let mut piece = vec![0; meta.len() as usize];
            pool.memory().copy_out((buffer + meta.start()) as usize, &mut piece).expect("in the pool");
            pool.give(&[buffer]);
            frames.last_mut().expect("one").extend(piece);
            if meta.is_last() {
                frames.push(Vec::new());
            }
        }
        frames.pop();
        frames
    }

    /// What all queues dropped.
    pub fn drops(&self) -> Drops {
        let mut drops = Drops::default();
        for (rx, tx) in &self.queues {
            drops.merge(rx.drops());
            drops.merge(tx.drops());
        }
        drops
    }
}

/// Frames of these lengths, again and again; each byte depends on the frame's number and its place.
pub fn frames(count: usize, lens: &[usize]) -> Vec<Vec<u8>> {
    let frame = |number: usize| {
        let len = lens[number % lens.len()];
        let mut frame: Vec<u8> = (0..len).map(|at| (number * 31 + at * 7 + (at >> 8)) as u8).collect();
        // For nobody, from nobody; the number is in the frame, too.
        frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
        frame[12..14].copy_from_slice(&[0x88, 0xb5]);
        frame
    };
    (0..count).map(frame).collect()
}

/// Sends all frames by `queue` of `peer`, at most `window` under way, to a peer that sends them back; they come back as
/// they went, in their order.
///
/// # Errors
/// They don't.
pub fn echoed(peer: &mut Peer, queue: usize, frames: &[Vec<u8>], window: usize) -> Result<(), Failed> {
    let (mut sent, mut back) = (0, 0);
    let mut until = Instant::now() + LIMIT;
    while back < frames.len() {
        let end = frames.len().min(back + window);
        if sent < end {
            sent += peer.send(queue, &frames[sent..end]);
        }
        let received = peer.receive(queue);
        if received.is_empty() {
            ensure(Instant::now() < until, || {
                format!("{back} of {sent} frames came back; {:?}", peer.drops())
            })?;
            std::thread::yield_now();
            continue;
        }
        until = Instant::now() + LIMIT;
        for frame in received {
            let wanted = frames.get(back);
            ensure(wanted == Some(&frame), || {
                let len = wanted.map(Vec::len);
                format!("frame {back} of {len:?} bytes came back as {} bytes, or changed", frame.len())
            })?;
            back += 1;
        }
    }
    Ok(())
}

/// Passes frames from one peer to another one.
///
/// # Errors
/// They don't arrive as they were sent.
pub fn passed(from: &mut Peer, to: &mut Peer, queue: usize, frames: &[Vec<u8>]) -> Result<(), Failed> {
    let (mut sent, mut arrived) = (0, 0);
    let until = Instant::now() + LIMIT;
    while arrived < frames.len() {
        if sent < frames.len() {
            sent += from.send(queue, &frames[sent..frames.len().min(sent + 64)]);
        }
        for frame in to.receive(queue) {
            ensure(frames.get(arrived) == Some(&frame), || format!("frame {arrived} is another one"))?;
            arrived += 1;
        }
        ensure(Instant::now() < until, || format!("{arrived} of {sent} frames arrived"))?;
    }
    Ok(())
}

/// DPDK's testpmd on this host, with memif ports.
pub struct HostTestpmd {
    process: Child,
    console: ChildStdin,
    said: Arc<Mutex<String>>,
    _folder: tempfile::TempDir,
}

impl HostTestpmd {
    /// Gets Debian's DPDK into the cache folder.
    ///
    /// # Errors
    /// It can't be had.
    pub fn obtain() -> Result<(), String> {
        root().map(drop)
    }

    /// Starts it with these devices, and waits for its prompt.
    ///
    /// # Errors
    /// It does not come to it.
    pub fn start(devices: &[String], own: &[&str]) -> Result<Self, Failed> {
        let root = root()?;
        let libraries = root.join("usr/lib/x86_64-linux-gnu");
        let folder = tempfile::tempdir()?;
        let mut command = Command::new(root.join("usr/lib64/ld-linux-x86-64.so.2"));
        command.arg("--library-path").arg(&libraries).arg(root.join("usr/bin/dpdk-testpmd"));
        for driver in ["librte_mempool_ring.so.25", "librte_net_memif.so.25"] {
            command.arg("-d").arg(libraries.join(driver));
        }
        let prefix = format!("barewire-{}", folder.path().file_name().unwrap_or_default().display());
        command.args(["--lcores", "0@0,1@1", "--no-pci", "--no-telemetry", "--no-huge", "-m", "192"]);
        command.args(["--no-shconf", "--single-file-segments", "--file-prefix", &prefix]);
        devices.iter().for_each(|device| {
            command.arg(format!("--vdev={device}"));
        });
        command.args(["--", "-i", "--nb-cores=1", "--total-num-mbufs=8192", "--no-mlockall"]).args(own);
        command.env("XDG_RUNTIME_DIR", folder.path()).current_dir(folder.path());
        // On a terminal it says each line at once.
        let (mut out, into) = terminal()?;
        command.stdin(Stdio::piped()).stdout(into.try_clone()?).stderr(into);
        let mut process = command.spawn()?;
        drop(command);
        let console = process.stdin.take().ok_or("no console")?;
        let said: Arc<Mutex<String>> = Arc::default();
        let heard = said.clone();
        std::thread::spawn(move || {
            let mut some = [0; 4096];
            // With the last one who writes, the terminal is gone: an error.
            while let Ok(count @ 1..) = out.read(&mut some) {
                heard.lock().expect("text").push_str(&String::from_utf8_lossy(&some[..count]));
            }
        });
        let mut testpmd = Self { process, console, said, _folder: folder };
        testpmd.answer("show port summary all")?;
        Ok(testpmd)
    }

    /// What it says to a command.
    ///
    /// # Errors
    /// It says nothing any more.
    pub fn answer(&mut self, command: &str) -> Result<String, Failed> {
        const MARK: &str = "Change verbose level from";
        let before = self.said().len();
        self.console.write_all(format!("{command}\nset verbose 0\n").as_bytes())?;
        let until = Instant::now() + LIMIT;
        loop {
            let said = self.said();
            if let Some(text) = said.get(before..).filter(|text| text.contains(MARK)) {
                return Ok(text.to_owned());
            }
            let ended = self.process.try_wait()?;
            ensure(ended.is_none() && Instant::now() < until, || {
                format!("testpmd ({ended:?}) says:\n{said}")
            })?;
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// All that it said so far.
    pub fn said(&self) -> String {
        self.said.lock().map_or_else(|_| String::new(), |said| said.clone())
    }

    /// Ends it as `kill -9` does.
    pub fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for HostTestpmd {
    fn drop(&mut self) {
        self.end();
    }
}

fn root() -> Result<std::path::PathBuf, String> {
    let packages =
        Packages { label: "dpdk", suites: &["trixie"], names: &["dpdk-dev"], with_dependencies: true };
    packages.obtain(&mut |step| eprintln!("DPDK: {step}"))
}

/// A terminal: what is written to the second end is read from the first.
fn terminal() -> Result<(std::fs::File, std::fs::File), Failed> {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    let name = ptsname(&ours, Vec::new())?.into_string()?;
    let theirs = std::fs::File::options().write(true).open(name)?;
    Ok((ours.into(), theirs))
}

/// A socket's address in a folder.
pub fn address_in(folder: &Path) -> Address {
    Address::Path(folder.join("memif.sock"))
}
