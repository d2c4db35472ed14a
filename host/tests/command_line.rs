//! What the command says to input that can't be taken: one clear line, status 2, and nothing left behind.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output};

/// Runs the command with a folder of its own for temporary files and cache, and without any program to fetch with.
fn barewire(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_barewire"));
    command.args(args).env("TMPDIR", folder).env("XDG_CACHE_HOME", folder.join("cache"));
    command.env("PATH", "/nonexistent").env_remove("BAREWIRE_QEMU");
    command.output().expect("the command starts")
}

/// Status 2, nothing on standard output, one line on standard error that contains `text`, no file left in `folder`
/// but `files`.
fn refused(folder: &Path, args: &[&str], text: &str, files: usize) {
    let output = barewire(folder, args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
    assert!(output.stdout.is_empty(), "{args:?}");
    assert_eq!(said.lines().count(), 1, "{args:?}: {said}");
    assert!(said.contains(text), "{args:?}: {said}");
    let left: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), files, "{args:?} leaves {left:?}");
}

#[test]
fn options_out_of_range_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (args, text) in [
        (
            &["--forward", "fly"][..],
            "io, mac, macswap, 5tswap, rxonly, txonly, flowgen, csum, icmpecho, noisy, recycle_mbufs, shared_rxq or ieee1588",
        ),
        (&["--port", "e1000"], "the kind of port is i40e"),
        (&["--port", "i40e,speed=1"], "a port i40e has no speed"),
        (&["--port", "i40e,device=1533"], "device 1572 or 1583"),
        (&["--port", "memif,socket=/run/m"], "not in this version"),
        (&["--burst", "0"], "0 is not in 1..=512"),
        (&["--burst", "513"], "513 is not in 1..=512"),
        (&["--rxd", "100"], "a multiple of 32 from 64 to 8160"),
        (&["--txd", "8192"], "a multiple of 32 from 64 to 8160"),
        (&["--rx-desc", "8"], "[possible values: 16, 32]"),
        (&["--frame-size", "59"], "59 is not in 60..=9728"),
        (&["--frame-size", "9729"], "9729 is not in 60..=9728"),
        (&["--frame-size", "60", "--pcap", "x"], "--frame-size is for made frames"),
        (&["--frame-size", "60", "--port", "i40e,pcap=x"], "--frame-size is for made frames"),
        (&["--frame-size", "2045", "--forward", "flowgen"], "at most 2044"),
        (&["--forward", "txonly", "--pcap", "x"], "sends frames of its own"),
        (&["--loop"], "--loop is for captures"),
        (&["--image", "/etc/passwd"], "is no ELF file"),
        (&["--image", "/nonexistent"], "/nonexistent: No such file"),
        (&["--seconds", "0"], "a number from 0.1 to 86400"),
        (&["--seconds", "NaN"], "a number from 0.1 to 86400"),
        (&["--cpus", "65"], "65 is not in 1..=64"),
        (&["--nb-cores", "0"], "0 is not in 1..=64"),
        (&["--nb-cores", "2"], "--nb-cores 2: the machine has --cpus 1"),
        (&["--rxq", "65"], "65 is not in 1..=64"),
        (&["--txq", "x"], "invalid value 'x' for '--txq <N>'"),
        (&["--config", "(0,0)"], "(PORT,QUEUE,CORE),... in numbers"),
        (&["--config", "(0,0,0),(1,0,1)"], "--config (1,0,1): the machine has --cpus 1"),
        (&["--config", "(0,0,0),(1,0,0)", "--rxq", "1"], "cannot be used with"),
        (&["--isa", "mmx"], "scalar, ssse3, avx2, avx512"),
        (&["--rfc2544", "--pdr", "51"], "a number from 0 to 50"),
        (&["--rfc2544", "--resolution", "0"], "a number from 0.1 to 50"),
        (&["--rfc2544", "--frame-sizes", "64,63"], "63 is not in 64..=9732"),
        (&["--rfc2544", "--pair", "1"], "two ports, such as 0,1"),
        (&["--rfc2544", "--pair", "2,3"], "--pair 2,3: there are 2 ports, from 0 on"),
        (
            &["--rfc2544", "--pair", "0,2", "--port", "i40e", "--port", "i40e", "--port", "i40e"],
            "--pair 0,2: the image joins port 0 and port 1",
        ),
        (&["--rfc2544", "--repeats", "0"], "0 is not in 1..=100"),
        (&["--rfc2544", "--max-rate", "0"], "invalid value '0' for '--max-rate <FPS>'"),
        (&["--rfc2544", "--seconds", "3601"], "at most 3600"),
        (&["--rfc2544", "--forward", "rxonly"], "frames have to come back"),
        (&["--rfc2544", "--frame-size", "60"], "no --pcap, pcap= or --frame-size"),
        (&["--rfc2544", "--port", "i40e,out=x"], "no out="),
        (&["--rfc2544", "--port", "i40e,pci=01:00.0"], "pci= cards have wires of their own"),
        (&["--rfc2544", "--in-flight", "9"], "no --in-flight"),
        (&["--pdr", "1"], "--rfc2544"),
        (&["--accel", "xen"], "[possible values: auto, kvm, tcg]"),
        (&["--colour"], "unexpected argument '--colour'"),
        (&["fly"], "'fly'"),
        (&["--pcap"], "a value is required for '--pcap <FILE>'"),
        (&["model"], "--port <PORT>"),
        (&["model", "--port", "wire=echo"], "a port needs socket=PATH"),
        (&["model", "--port", "socket=s,faults=/nonexistent"], "/nonexistent: No such file"),
        (&["--port", "i40e,pci=ffff:ff:1f.7"], "ffff:ff:1f.7: no such PCI function"),
        (&["--port", "i40e,pci=01:00.0", "--port", "i40e"], "pci= cards forward what their own wires bring"),
        (&["model", "--port", "socket=s,faults=/dev/zero"], "more than 1048576 bytes are no script"),
        (&["model", "--port", "socket=s,seed=x"], "seed x: a number"),
        (&["model", "--port", "socket=s,wire=radio"], "a wire is echo, sink, peer, pcap:IN:OUT or tap:NAME"),
        (&["model", "--port", "socket=s,wire=tap:tap%d"], "a tap has a name of 1 to 15 letters"),
        (&["model", "--port", "socket=s,wire=tap:lo"], "wire=tap:lo: "),
        (
            &["model", "--port", "socket=s", "--log", "/nonexistent/log"],
            "--log /nonexistent/log: No such file",
        ),
    ] {
        refused(folder.path(), args, text, 0);
    }
}

/// A script of faults names its file, its line and what could have stood there.
#[test]
fn a_script_that_can_not_be_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let files = tempfile::tempdir().unwrap();
    let path = files.path().join("faults.txt");
    fs::write(&path, "pf-reset after 5 frames\nlink flip\n").unwrap();
    let port = format!("socket=s,faults={}", path.display());
    refused(
        folder.path(),
        &["model", "--port", &port],
        "faults.txt: line 2: \"flip\" where down, up or flap",
        0,
    );
}

#[test]
fn a_capture_is_not_written_over_itself() {
    let folder = tempfile::tempdir().unwrap();
    let files = tempfile::tempdir().unwrap();
    let path = files.path().join("in.pcap");
    fs::write(&path, "precious").unwrap();
    let link = files.path().join("link.pcap");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let (path, link) = (path.display().to_string(), link.display().to_string());
    for args in [
        &["--port", &format!("i40e,pcap={path},out={path}")][..],
        &["--pcap", &path, "--port", &format!("i40e,out={link}")],
        &["--port", &format!("i40e,pcap={link}"), "--port", &format!("i40e,out={path}")],
    ] {
        refused(folder.path(), args, "it is read, too", 0);
    }
    let twice = format!("i40e,out={path}.new");
    refused(folder.path(), &["--port", &twice, "--port", &twice], "given to two ports", 0);
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn an_image_has_at_most_16_ports() {
    let folder = tempfile::tempdir().unwrap();
    refused(folder.path(), &["--port", "i40e"].repeat(17), "17 ports: an image has at most 16", 0);
}

#[test]
fn captures_that_are_none_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let files = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = files.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.display().to_string()
    };
    let mut header = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0];
    let cut = [&header[..], &[0, 0, 0, 0, 0, 0, 0, 0, 60, 0, 0, 0, 60, 0, 0, 0], &[7; 59]].concat();
    let cut = file("cut.pcap", &cut);
    header[20] = 101;
    let raw_ip = file("raw-ip.pcap", &header);
    let text = file("text.pcap", b"dear reader");
    let empty = file("empty.pcap", b"");
    for (path, says) in [
        (cut.as_str(), "ends inside of a record"),
        (&raw_ip, "holds no Ethernet frames"),
        (&text, "is neither pcap nor pcapng"),
        (&empty, "is neither pcap nor pcapng"),
        ("/nonexistent/in.pcap", "/nonexistent/in.pcap: No such file"),
    ] {
        refused(folder.path(), &["--pcap", path], says, 0);
        refused(folder.path(), &["--port", &format!("i40e,pcap={path}")], says, 0);
    }
}

#[test]
fn a_socket_that_somebody_listens_on_is_refused_and_stays() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("card");
    let _listener = UnixListener::bind(&socket).unwrap();
    let port = format!("i40e,socket={}", socket.display());
    refused(folder.path(), &["--port", &port], "in use", 1);
    refused(folder.path(), &["model", "--port", &format!("socket={}", socket.display())], "in use", 1);
    assert!(std::os::unix::net::UnixStream::connect(&socket).is_ok());
    // A file that is no socket is nobody's to replace.
    let file = folder.path().join("file");
    fs::write(&file, "mine").unwrap();
    refused(folder.path(), &["--port", &format!("i40e,socket={}", file.display())], "in use", 2);
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
}

#[test]
fn without_qemu_and_a_way_to_get_one_that_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let output = barewire(folder.path(), &["--seconds", "1"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("no QEMU 10.1 or newer, and none can be had: apt-get: "), "{said}");
    let sockets =
        fs::read_dir(folder.path()).unwrap().filter(|entry| entry.as_ref().unwrap().file_name() != "cache");
    assert_eq!(sockets.count(), 0);
}

#[test]
fn a_capture_with_nothing_to_offer_is_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("in.pcap");
    let header = [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0];
    let record = [&[0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 16, 0, 0, 0][..], &[7; 16]].concat();
    fs::write(&path, [&header[..], &record].concat()).unwrap();
    let output = barewire(folder.path(), &["--json", "--pcap", &path.display().to_string()]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("nothing to offer"), "{said}");
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&summary["offered"], &summary["unfit"]), (&0.into(), &2.into()));
}

/// The keys that programs rely on, in the order in which they were promised.
#[test]
fn keys_of_the_summary_keep_their_names_and_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("in.pcap");
    fs::write(&path, [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0])
        .unwrap();
    let output = barewire(folder.path(), &["run", "--json", "--pcap", &path.display().to_string()]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), 1);
    let keys = [
        "accel",
        "forward",
        "isa",
        "cpus",
        "seconds",
        "boot_ms",
        "first_frame_ms",
        "image_bytes",
        "offered",
        "returned",
        "dropped",
        "unfit",
        "lost",
        "wrong",
        "mpps",
        "ports",
    ];
    let places: Vec<usize> = keys.iter().map(|key| text.find(&format!("\"{key}\":")).expect(key)).collect();
    assert!(places.windows(2).all(|pair| pair[0] < pair[1]), "{text}");
}

#[test]
fn help_and_version_go_to_standard_output() {
    let folder = tempfile::tempdir().unwrap();
    for (args, text) in [
        (&["--help"][..], "--frame-size <N>"),
        (&["model", "--help"], "wire=echo"),
        (&["--version"], "barewire "),
    ] {
        let output = barewire(folder.path(), args);
        assert_eq!(output.status.code(), Some(0));
        assert!(String::from_utf8_lossy(&output.stdout).contains(text), "{args:?}");
    }
}
