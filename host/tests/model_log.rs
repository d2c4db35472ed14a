//! `barewire model --log`: what a client of the socket does to the card is in the file.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

const REGION_READ: u16 = 9;
const REGION_WRITE: u16 = 10;
const BAR0: u32 = 0;
/// A bound for a command that does not do what is waited for.
const LIMIT: Duration = Duration::from_secs(20);

/// A client that speaks as much vfio-user as an access to a register takes (QEMU's docs/interop/vfio-user.rst).
struct Client(UnixStream);

impl Client {
    fn access(&mut self, command: u16, offset: u64, len: u32, data: &[u8]) -> Vec<u8> {
        let size = 16 + 16 + data.len() as u32;
        let mut message = vec![1, 0];
        message.extend(command.to_le_bytes());
        [size, 0, 0].iter().for_each(|word| message.extend(word.to_le_bytes()));
        message.extend(offset.to_le_bytes());
        [BAR0, len].iter().for_each(|word| message.extend(word.to_le_bytes()));
        message.extend(data);
        self.0.write_all(&message).unwrap();
        let mut header = [0; 16];
        self.0.read_exact(&mut header).unwrap();
        let size = u32::from_le_bytes(header[4..8].try_into().unwrap()) as usize;
        let mut body = vec![0; size - 16];
        self.0.read_exact(&mut body).unwrap();
        body.split_off(16)
    }

    fn read(&mut self, offset: u64, len: u32) -> Vec<u8> {
        self.access(REGION_READ, offset, len, &[])
    }

    fn write(&mut self, offset: u64, value: u32) {
        self.access(REGION_WRITE, offset, 4, &value.to_le_bytes());
    }
}

/// The command, ended with the test.
struct Model(Child);

impl Model {
    fn start(args: &[String]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_barewire"));
        let mut child = command.arg("model").args(args).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
        let this = Self(child);
        assert!(line.contains("serving 1572"), "{line}");
        this
    }

    fn stop(mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.0), Signal::TERM).unwrap();
        self.0.wait().unwrap().code()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_log_names_what_a_driver_does() {
    let folder = tempfile::tempdir().unwrap();
    let (socket, log) = (folder.path().join("card"), folder.path().join("log"));
    let port = format!("socket={},wire=sink", socket.display());
    let model = Model::start(&["--port".into(), port, "--log".into(), log.display().to_string()]);
    let mut client = Client(UnixStream::connect(&socket).unwrap());
    for _ in 0..5 {
        assert_eq!(client.read(0x0b_6008, 4), 0x7ff_u32.to_le_bytes());
    }
    client.write(0x10_8000 + 4 * 3, 32);
    assert_eq!(client.read(0x30_0000, 8), [0; 8]);
    client.write(0x09_2400, 1);
    // Lines can be read while the card is served, shortly after the answer.
    let until = Instant::now() + LIMIT;
    while !fs::read_to_string(&log).unwrap().contains("port0 reset") {
        assert!(Instant::now() < until, "the log is empty");
        std::thread::yield_now();
    }
    assert_eq!(model.stop(), Some(0));
    let text = fs::read_to_string(&log).unwrap();
    let mut before = 0.0;
    let mut said = Vec::new();
    for line in text.lines() {
        let (time, what) = line.trim_start().split_once(' ').unwrap();
        let time: f64 = time.parse().unwrap();
        assert!(time >= before, "{text}");
        before = time;
        said.push(what);
    }
    let want = [
        "port0 read  GLNVM_ULD 0x000007ff",
        "port0 read  GLNVM_ULD 0x000007ff, 4 times more",
        "port0 write QTX_TAIL[3] 0x00000020",
        "port0 read  GLPRT_GORCL[0] 0x0000000000000000",
        "port0 write PFGEN_CTRL 0x00000001",
        "port0 reset",
    ];
    assert_eq!(said, want);
}
