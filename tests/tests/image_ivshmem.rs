//! What the image shares with its host besides cards: memory by ivshmem, and a channel of bytes.

use std::fs::File;
use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use barewire::qemu::{Accel, DEBUG_EXIT_FAILURE, DEBUG_EXIT_SUCCESS, Machine};
use libtest_mimic::Failed;
use rig::guest::Guest;
use rig::machine::{Ground, case, ensure, run};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tempfile::TempDir;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const PAGE: u64 = 4096;
/// "hostleft", what the host leaves in the first word of a page.
const HOST: [u8; 8] = *b"hostleft";

fn main() -> ExitCode {
    run(vec![
        case("memory_on_the_root_bus", |ground| {
            memory(ground, "q35", &[(MIB, false), (256 * MIB, false), (4 * GIB, false)])
        }),
        case("memory_behind_root_ports", |ground| {
            memory(ground, "q35", &[(4 * GIB, true), (MIB, true), (256 * MIB, true)])
        }),
        case("memory_of_8_gib", |ground| memory(ground, "q35", &[(8 * GIB, true), (2 * GIB, true)])),
        case("memory_with_configuration_space_by_ports", |ground| {
            memory(ground, "pc", &[(MIB, false), (4 * GIB, false)])
        }),
        case("memory_on_a_cpu_without_large_pages", |ground| {
            windows(ground, &[(4 * GIB, true), (MIB, false)], |machine| {
                machine.cpu = "qemu64,-pdpe1gb".into();
            })
        }),
        case("memory_beside_other_devices_with_checks", |ground| {
            let dev_image = ground.dev_image.clone();
            windows(ground, &[(MIB, false), (MIB, false), (2 * MIB, true)], |machine| {
                machine.image = dev_image;
                machine.memory = 6144;
                // Its registers lie next to the memory.
                machine.extra.extend(["-device".into(), "virtio-serial-pci-non-transitional".into()]);
            })
        }),
        case("memory_of_a_doorbell_device", doorbell),
        case("channel_by_a_named_port", |ground| {
            let name = "barewire.memif";
            channel(ground, &["virtio-serial-pci-non-transitional", &port(name)], 3, 300_000)
        }),
        case("channel_by_the_second_of_two_consoles_behind_a_root_port", |ground| {
            let devices = [
                "pcie-root-port,id=up,chassis=1",
                "virtio-serial-pci-non-transitional,id=first",
                "virtserialport,bus=first.0,name=another",
                "virtio-serial-pci-non-transitional,id=second,bus=up,page-per-vq=on",
                "virtserialport,bus=second.0,name=one",
                "virtserialport,bus=second.0,name=barewire.memif.not",
                &format!("{},bus=second.0", port("barewire.memif")),
            ];
            channel(ground, &devices, 3, 100_000)
        }),
        case("channel_by_a_transitional_device", |ground| {
            channel(ground, &["virtio-serial-pci", &port("barewire.memif")], 1, 10_000)
        }),
        case("channel_by_the_only_port", |ground| {
            let devices = ["virtio-serial-pci-non-transitional,max_ports=1", "virtconsole,chardev=channel"];
            channel(ground, &devices, 3, 100_000)
        }),
        case("channel_by_the_second_uart", |ground| {
            channel(ground, &["isa-serial,index=1,chardev=channel"], 3, 2_000)
        }),
        case("no_channel_is_named", no_channel),
    ])
}

fn machine(ground: &Ground, test: &str) -> Machine {
    Machine::new(Accel::Tcg, ground.image.clone(), format!("--self-test={test}"), Vec::new())
}

fn memory(ground: &Ground, kind: &str, sizes: &[(u64, bool)]) -> Result<(), Failed> {
    windows(ground, sizes, |machine| machine.kind = kind.into())
}

/// Each size, behind a root port or not: the image finds each, in PCI order, sees what the host left in the first and the
/// last page, and the host sees what the image left.
fn windows(ground: &Ground, sizes: &[(u64, bool)], change: impl FnOnce(&mut Machine)) -> Result<(), Failed> {
    let folder = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new())?;
    let mut machine = machine(ground, "memory-window");
    change(&mut machine);
    let mut files = Vec::new();
    for (index, (size, behind)) in sizes.iter().enumerate() {
        let path = folder.path().join(format!("region{index}"));
        let file = File::options().read(true).write(true).create_new(true).open(&path)?;
        // Sparse: two pages of it are ever touched.
        file.set_len(*size)?;
        for page in [0, size - PAGE] {
            file.write_all_at(&HOST, page)?;
        }
        add_window(&mut machine, index, &path, *size, *behind);
        files.push((file, *size));
    }
    let (status, said) = Guest::start(machine.command(&ground.qemu))?.end()?;
    ensure(status == Some(DEBUG_EXIT_SUCCESS), || format!("{status:?}\n{said}"))?;
    let left = u64::from_le_bytes(HOST);
    let mut found: Vec<u64> = Vec::new();
    for index in 0..sizes.len() {
        let size = field(&said, &format!("memory-window {index} at="), "size=")?;
        for page in [0, size - PAGE] {
            let line = format!("memory-window {index} page={page:#x} before={left:#018x}");
            ensure(said.contains(&line), || format!("no {line:?} in\n{said}"))?;
        }
        found.push(size);
    }
    let mut want: Vec<u64> = sizes.iter().map(|(size, _)| *size).collect();
    // Those behind bridges come later.
    want.sort_by_key(|size| sizes.iter().any(|(other, behind)| other == size && *behind));
    ensure(found == want, || format!("{found:?}, not {want:?}"))?;
    files.iter().try_for_each(|(file, size)| check_file(file, *size))
}

/// "barewire" backwards, exclusive or with the offset, in every word of both pages, and nothing behind the first.
fn check_file(file: &File, size: u64) -> Result<(), Failed> {
    for page in [0, size - PAGE] {
        let mut bytes = [0; PAGE as usize];
        file.read_exact_at(&mut bytes, page)?;
        for (word, offset) in bytes.chunks_exact(8).zip((page..).step_by(8)) {
            let want = u64::from_be_bytes(*b"barewire") ^ offset;
            ensure(word == want.to_le_bytes(), || format!("{word:02x?} at {offset:#x} of {size}"))?;
        }
    }
    let mut next = [0; 8];
    file.read_exact_at(&mut next, PAGE)?;
    ensure(next == [0; 8], || format!("{next:02x?} behind the first page"))
}

fn add_window(machine: &mut Machine, index: usize, path: &Path, size: u64, behind: bool) {
    let mut device = |line: String| machine.extra.extend(["-device".into(), line]);
    let bus = if behind {
        device(format!("pcie-root-port,id=up{index},chassis={}", index + 1));
        format!(",bus=up{index}")
    } else {
        String::new()
    };
    device(format!("ivshmem-plain,memdev=region{index}{bus}"));
    let file = path.display();
    let backend = format!("memory-backend-file,id=region{index},mem-path={file},size={size},share=on");
    machine.extra.extend(["-object".into(), backend]);
}

/// Devices that have interrupts as well, of 1, 8 and 16 vectors; nobody is there to be interrupted.
fn doorbell(ground: &Ground) -> Result<(), Failed> {
    let folder = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new())?;
    let mut machine = machine(ground, "memory-window");
    let mut servers = Vec::new();
    let mut files = Vec::new();
    for (vectors, size) in [(1, MIB), (8, 256 * MIB), (16, 4 * GIB)] {
        let file = tempfile::tempfile_in(folder.path())?;
        file.set_len(size)?;
        let socket = folder.path().join(format!("server{vectors}"));
        let listener = UnixListener::bind(&socket)?;
        let chardev = format!("socket,id=server{vectors},path={}", socket.display());
        let device = format!("ivshmem-doorbell,chardev=server{vectors},vectors={vectors}");
        machine.extra.extend(["-chardev".into(), chardev, "-device".into(), device]);
        let shared = file.try_clone()?;
        servers.push(std::thread::spawn(move || serve(&listener, &shared)));
        files.push((file, size));
    }
    let (status, said) = Guest::start(machine.command(&ground.qemu))?.end()?;
    ensure(status == Some(DEBUG_EXIT_SUCCESS), || format!("{status:?}\n{said}"))?;
    for server in servers {
        server.join().map_err(|_| "the server panicked")??;
    }
    files.iter().try_for_each(|(file, size)| check_file(file, *size))
}

/// The server of ivshmem's specification, for one client: version, the client's number, the memory's descriptor.
fn serve(listener: &UnixListener, shared: &File) -> std::io::Result<UnixStream> {
    let (client, _) = listener.accept()?;
    for (value, descriptor) in [(0_i64, None), (7, None), (-1, Some([shared.as_fd()]))] {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut with = SendAncillaryBuffer::new(&mut space);
        if let Some(descriptor) = &descriptor {
            with.push(SendAncillaryMessage::ScmRights(descriptor));
        }
        sendmsg(&client, &[IoSlice::new(&value.to_le_bytes())], &mut with, SendFlags::empty())?;
    }
    Ok(client)
}

/// The number behind `name` in the line with `start`.
fn field(said: &str, start: &str, name: &str) -> Result<u64, Failed> {
    let line = said.lines().find(|line| line.contains(start));
    let word = line.and_then(|line| line.split(' ').find_map(|word| word.strip_prefix(name)));
    Ok(word.ok_or_else(|| format!("no {start:?} in\n{said}"))?.parse()?)
}

fn port(name: &str) -> String {
    format!("virtserialport,chardev=channel,name={name}")
}

/// The image echoes; the host's side leaves, also with an echo on its way, and comes back.
fn channel(ground: &Ground, devices: &[&str], times: usize, bytes: usize) -> Result<(), Failed> {
    let folder = TempDir::new()?;
    let socket = folder.path().join("channel");
    let mut machine = machine(ground, "channel");
    let chardev = format!("socket,id=channel,path={},server=on,wait=off", socket.display());
    machine.extra.extend(["-chardev".into(), chardev]);
    devices.iter().for_each(|device| machine.extra.extend(["-device".into(), (*device).into()]));
    let mut guest = Guest::start(machine.command(&ground.qemu))?;
    guest.wait_for("barewire: channel ready")?;
    for time in 0..times {
        echo(&socket, time, bytes)?;
        // Nobody waits for this one's echo.
        connect(&socket)?.write_all(&[b'-'; 3000])?;
    }
    let mut last = connect(&socket)?;
    last.write_all(b"\nend\n")?;
    let (status, said) = guest.end()?;
    let good = status == Some(DEBUG_EXIT_SUCCESS) && said.contains("barewire: self-test channel ok");
    ensure(good, || format!("{status:?}\n{said}"))
}

fn connect(socket: &PathBuf) -> Result<UnixStream, Failed> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    stream.set_write_timeout(Some(Duration::from_secs(30)))?;
    Ok(stream)
}

/// Sends bytes that begin with a mark of this time; what comes from the mark on is the same. Before it there may be echoes
/// of the time before.
fn echo(socket: &PathBuf, time: usize, bytes: usize) -> Result<(), Failed> {
    let mut sent = format!("<begin {time}>").into_bytes();
    let mark = sent.clone();
    sent.extend((0..bytes).map(|n| b'A' + (n * n % 26) as u8));
    let stream = connect(socket)?;
    let mut writer = stream.try_clone()?;
    let to_send = sent.clone();
    let thread = std::thread::spawn(move || writer.write_all(&to_send));
    let mut reader = &stream;
    let mut came = Vec::new();
    let mut start = None;
    while start.is_none_or(|start| came.len() < start + sent.len()) {
        let mut part = [0; 65536];
        let count = reader.read(&mut part)?;
        ensure(count > 0, || "the channel was closed".into())?;
        came.extend_from_slice(&part[..count]);
        start = start.or_else(|| came.windows(mark.len()).position(|window| window == mark));
    }
    thread.join().map_err(|_| "the writer panicked")??;
    let start = start.unwrap_or(0);
    ensure(came[start..] == sent, || format!("{} bytes came, which differ", came.len()))
}

/// A console that has other ports, and no second UART.
fn no_channel(ground: &Ground) -> Result<(), Failed> {
    let mut machine = machine(ground, "channel");
    let devices = ["virtio-serial-pci-non-transitional", "virtserialport,name=another"];
    devices.iter().for_each(|device| machine.extra.extend(["-device".into(), (*device).into()]));
    let (status, said) = Guest::start(machine.command(&ground.qemu))?.end()?;
    let told = said.lines().any(|line| line.starts_with("barewire: error: no channel: "));
    ensure(status == Some(DEBUG_EXIT_FAILURE) && told, || format!("{status:?}\n{said}"))
}
