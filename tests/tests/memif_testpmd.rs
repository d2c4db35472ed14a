//! memif of this process against DPDK's testpmd on the same host, as server and as client: every frame comes back from
//! there as it went, in every shape.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use barewire::memif::Address;
use libtest_mimic::{Arguments, Failed, Trial};
use rig::machine::{ensure, full};
use rig::memif::{HostTestpmd, LIMIT, Peer, Shape, address_in, echoed, frames};

fn main() -> ExitCode {
    let mut args = Arguments::from_args();
    args.test_threads.get_or_insert(1);
    let missing = if args.list { None } else { HostTestpmd::obtain().err() };
    if let Some(missing) = &missing {
        println!("skipped: no DPDK can be had: {missing}");
    }
    let mut trials: Vec<Trial> = Vec::new();
    let mut add = |name: String, run: Box<dyn FnOnce() -> Result<(), Failed> + Send>| {
        trials.push(Trial::test(name, run).with_ignored_flag(missing.is_some()));
    };
    for way in Way::all() {
        add(way.name(), Box::new(move || exchange(&way)));
    }
    add("testpmd_as_server_is_killed_and_comes_back".into(), Box::new(server_restarts));
    add("testpmd_as_client_is_killed_and_comes_back".into(), Box::new(client_restarts));
    add("we_restart_and_testpmd_goes_on".into(), Box::new(we_restart));
    add("testpmd_says_why_it_refuses".into(), Box::new(refused));
    libtest_mimic::run(&args, trials).exit_code()
}

/// Who is what, and how.
#[derive(Debug, Clone, Copy)]
struct Way {
    /// We are the client.
    client: bool,
    zero_copy: bool,
    queues: u16,
    rsize: u8,
    bsize: u32,
    on_path: bool,
}

impl Way {
    fn all() -> Vec<Self> {
        let usual = Self { client: true, zero_copy: false, queues: 1, rsize: 10, bsize: 2048, on_path: true };
        let mut ways = Vec::new();
        for client in [true, false] {
            let usual = Self { client, ..usual };
            ways.extend([
                usual,
                Self { zero_copy: true, ..usual },
                Self { queues: 4, rsize: 8, on_path: false, ..usual },
                Self { bsize: 1024, rsize: 5, ..usual },
                Self { bsize: 4096, rsize: 12, ..usual },
            ]);
            if full() {
                ways.push(Self { queues: 4, zero_copy: true, ..usual });
                ways.extend([2, 3, 7, 13, 14].map(|rsize| Self { rsize, ..usual }));
                ways.extend([256, 512, 2304, 8192].map(|bsize| Self { bsize, ..usual }));
            }
        }
        ways
    }

    fn name(&self) -> String {
        let Self { queues, rsize, bsize, on_path, .. } = self;
        let role = if self.client { "client_of" } else { "server_of" };
        let copy = if self.zero_copy { "zero_copy" } else { "copy" };
        let socket = if *on_path { "path" } else { "abstract" };
        format!("{role}_testpmd_{copy}_{queues}_queues_rsize_{rsize}_bsize_{bsize}_{socket}")
    }

    fn device(&self, address: &Address) -> String {
        let role = if self.client { "server" } else { "client" };
        let Self { zero_copy, rsize, bsize, on_path, .. } = self;
        let (socket, is_abstract) = match address {
            Address::Path(path) => (path.display().to_string(), "no"),
            Address::Abstract(name) => (name.clone(), "yes"),
        };
        debug_assert_eq!(*on_path, is_abstract == "no");
        // Only a client has memory of which it could copy nothing.
        let zero_copy = if *zero_copy && !self.client { "yes" } else { "no" };
        format!(
            "net_memif0,role={role},id=7,rsize={rsize},bsize={bsize},socket={socket},socket-abstract={is_abstract},\
             zero-copy={zero_copy},secret=psst"
        )
    }
}

/// A thousand frames and more to testpmd, which sends them back.
fn exchange(way: &Way) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let address = if way.on_path {
        address_in(folder.path())
    } else {
        Address::Abstract(format!("barewire{}", folder.path().display()))
    };
    let shape = Shape {
        id: 7,
        queues: way.queues,
        log2_size: way.rsize,
        buffer: way.bsize,
        zero_copy: way.zero_copy && way.client,
        secret: "psst",
        ..Shape::default()
    };
    let queues = [format!("--rxq={}", way.queues), format!("--txq={}", way.queues)];
    let own: Vec<&str> =
        queues.iter().map(String::as_str).chain(["--rxd=1024", "--txd=1024", "--forward-mode=io"]).collect();
    // A client of ours comes before its server; testpmd's client connects when its port starts.
    let mut peer = if way.client { Peer::client(&address, &shape)? } else { Peer::server(&address, &shape)? };
    let mut testpmd = HostTestpmd::start(&[way.device(&address)], &own)?;
    testpmd.answer("start")?;
    peer.connected()?;
    // What one buffer of either side holds: testpmd writes no chains into what it is offered.
    let longest = (way.bsize as usize).min(1514);
    let lens = [60, 64, 66, 122, 128, 14, 65, 333, longest, longest - 1];
    let window = (1_usize << way.rsize).min(256);
    for queue in 0..usize::from(way.queues) {
        echoed(&mut peer, queue, &frames(1500, &lens), window)?;
    }
    ensure(peer.drops().total() == 0, || format!("{:?}", peer.drops()))?;
    let stats = testpmd.answer("show port stats 0")?;
    let count = usize::from(way.queues) * 1500;
    ensure(stats.contains(&format!("RX-packets: {count}")), || stats)
}

const SERVER: &str = "net_memif0,role=server,socket-abstract=no,socket=";
const CLIENT: &str = "net_memif0,role=client,socket-abstract=no,socket=";

/// A testpmd that sends everything back, with a device at the socket in `folder`.
fn echo(device: &str, folder: &std::path::Path) -> Result<HostTestpmd, Failed> {
    let device = format!("{device}{}", folder.join("memif.sock").display());
    let mut testpmd = HostTestpmd::start(&[device], &["--forward-mode=io"])?;
    testpmd.answer("start")?;
    Ok(testpmd)
}

/// The link is there again within two seconds.
fn again(peer: &mut Peer, connections: u64) -> Result<(), Failed> {
    let start = Instant::now();
    peer.connected()?;
    let count = peer.status.connections();
    ensure(count == connections && start.elapsed() < Duration::from_secs(2), || {
        format!("connection {count} after {:?}", start.elapsed())
    })?;
    echoed(peer, 0, &frames(700, &[60, 333]), 64)
}

fn is_down(peer: &Peer) -> Result<(), Failed> {
    let until = Instant::now() + LIMIT;
    while peer.status.is_up() {
        ensure(Instant::now() < until, || "the link stays up".into())?;
        std::thread::yield_now();
    }
    Ok(())
}

/// It leaves its socket's file, which its next self would stumble over.
fn server_restarts() -> Result<(), Failed> {
    for zero_copy in [false, true] {
        let folder = tempfile::tempdir()?;
        let mut peer = Peer::client(&address_in(folder.path()), &Shape { zero_copy, ..Shape::default() })?;
        for connection in 1..=3 {
            let testpmd = echo(SERVER, folder.path())?;
            again(&mut peer, connection)?;
            // Some are on their way when it dies.
            peer.send(0, &frames(100, &[60]));
            testpmd.kill();
            is_down(&peer)?;
            std::fs::remove_file(folder.path().join("memif.sock"))?;
        }
    }
    Ok(())
}

fn client_restarts() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let mut peer = Peer::server(&address_in(folder.path()), &Shape::default())?;
    for connection in 1..=3 {
        let testpmd = echo(CLIENT, folder.path())?;
        again(&mut peer, connection)?;
        peer.send(0, &frames(100, &[60]));
        testpmd.kill();
        is_down(&peer)?;
    }
    Ok(())
}

/// testpmd's own end goes on in either role.
fn we_restart() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let address = address_in(folder.path());
    let server = echo(SERVER, folder.path())?;
    for _ in 0..3 {
        again(&mut Peer::client(&address, &Shape::default())?, 1)?;
    }
    server.kill();
    std::fs::remove_file(folder.path().join("memif.sock"))?;
    let mut peer = Peer::server(&address, &Shape::default())?;
    let _client = echo(CLIENT, folder.path())?;
    for _ in 0..3 {
        again(&mut peer, 1)?;
        drop(peer);
        peer = Peer::server(&address, &Shape::default())?;
    }
    again(&mut peer, 1)
}

fn refused() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let device = format!(
        "net_memif0,role=server,id=3,secret=psst,socket-abstract=no,socket={}",
        folder.path().join("memif.sock").display()
    );
    let _testpmd = HostTestpmd::start(&[device], &[])?;
    for (id, secret, wanted) in
        [(4, "psst", "ID not found"), (3, "", "Secret required"), (3, "ps", "Incorrect secret")]
    {
        let peer = Peer::client(&address_in(folder.path()), &Shape { id, secret, ..Shape::default() })?;
        let until = Instant::now() + LIMIT;
        while !peer.status.said().contains(wanted) {
            ensure(Instant::now() < until, || peer.status.said())?;
            std::thread::yield_now();
        }
        ensure(!peer.status.is_up(), || "it is up".into())?;
    }
    Ok(())
}
