//! The software XL710 under a driver that others wrote: Debian's Linux with its own i40e.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use libtest_mimic::Failed;
use model::vfio_user::PortStatus;
use model::wire::{EchoWire, PeerWire};
use model::{PortConfig, Server, Wire, Xl710};
use rig::guest::Guest;
use rig::linux::Linux;
use rig::machine::{Ground, case, ensure, run_with};

fn main() -> ExitCode {
    let missing = Linux::obtain().err().map(|why| format!("no Debian kernel can be had: {why}"));
    let cases = vec![
        case("linux_probes_gets_link_and_pings", linux_pings),
        case("linux_sends_100_mb_between_two_ports", linux_transfers),
        case("linux_takes_a_port_down_and_up", linux_restarts),
    ];
    run_with(cases, missing)
}

/// Before what a test does: devices, the driver, eth0.
const BEGIN: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
mkdir -p /tmp; mount -t tmpfs -o size=700m tmp /tmp
for m in libie i40e; do xzcat /$m.ko.xz > /tmp/$m.ko; insmod /tmp/$m.ko; done
wait_for() { for i in $(seq 200); do eval "$1" && return; sleep 0.1; done; echo "gave up on: $1"; }
carrier() { wait_for '[ "$(cat /sys/class/net/eth0/carrier 2>/dev/null)" = 1 ]'; }
wait_for '[ -e /sys/class/net/eth0 ]'
"#;

/// After it: what the driver complained of, with the level in front.
const END: &str = r#"
dmesg -r | grep -E 'i40e|eth0|eth1|BUG|WARNING|Oops' | sed 's/^/log /'
echo "guest done"
poweroff -f
"#;

const PINGS: &str = r#"
ip addr add 10.0.0.1/24 dev eth0; ip link set eth0 up; carrier
echo "address $(cat /sys/class/net/eth0/address) speed $(cat /sys/class/net/eth0/speed)"
ping -c 100 -i 0.01 10.0.0.77 | tail -3
for c in rx_packets tx_packets rx_errors tx_errors; do echo "$c $(cat /sys/class/net/eth0/statistics/$c)"; done
ip link set eth0 down
rmmod i40e
"#;

/// eth1 goes into a network namespace of its own, so that what is sent to it crosses the wire.
const TRANSFER: &str = r#"
wait_for '[ -e /sys/class/net/eth1 ]'
unshare -n sh -c 'echo $$ > /tmp/pid; while [ ! -e /tmp/moved ]; do sleep 0.1; done; ip addr add 10.0.0.2/24 dev eth1
    ip link set eth1 mtu 9000 up; mkfifo /tmp/f; exec 3<>/tmp/f; nc -l -p 5000 <&3 > /tmp/got; touch /tmp/end; sleep 999' &
wait_for '[ -s /tmp/pid ]'
ip link set eth1 netns $(cat /tmp/pid); touch /tmp/moved
ip addr add 10.0.0.1/24 dev eth0; ip link set eth0 mtu 9000 up; carrier
wait_for 'ping -c 1 -W 1 10.0.0.2 > /dev/null'
for size in 56 1400 8000; do ping -c 300 -i 0.01 -s $size 10.0.0.2 | grep transmitted; done
dd if=/dev/urandom of=/tmp/sent bs=1M count=100 2>/dev/null
nc 10.0.0.2 5000 < /tmp/sent &
for i in $(seq 1000); do [ -e /tmp/end ] && break; sleep 0.1; done
sha256sum /tmp/sent /tmp/got | cut -d' ' -f1 | uniq | wc -l | sed 's/^/different hashes: /'
echo "bytes $(stat -c %s /tmp/got)"
for c in rx_errors tx_errors rx_dropped rx_crc_errors rx_missed_errors; do echo "$c $(cat /sys/class/net/eth0/statistics/$c)"; done
"#;

const RESTARTS: &str = r#"
ip addr add 10.0.0.1/24 dev eth0
for n in $(seq 20); do ip link set eth0 up; carrier; ping -c 1 -W 5 10.0.0.77 > /dev/null && echo "up $n"; ip link set eth0 down; done
for n in $(seq 5); do
    rmmod i40e; insmod /tmp/i40e.ko; wait_for '[ -e /sys/class/net/eth0 ]'
    ip addr add 10.0.0.1/24 dev eth0; ip link set eth0 up; carrier; ping -c 1 -W 5 10.0.0.77 > /dev/null && echo "loaded $n"
done
"#;

/// What a guest said and what its cards saw.
struct Outcome {
    said: String,
    ports: Vec<PortStatus>,
}

impl Outcome {
    fn has(&self, text: &str) -> Result<(), Failed> {
        ensure(self.said.contains(text), || format!("no {text:?} in:\n{}", self.said))
    }
}

/// Runs a guest with a card for each wire. No line of the driver may have the level of a warning or above, and the cards
/// must have nothing to complain of.
fn run_guest(ground: &Ground, script: &str, cpus: u32, wires: Vec<Box<dyn Wire>>) -> Result<Outcome, Failed> {
    let linux = Linux::obtain()?;
    let folder = tempfile::tempdir()?;
    let initramfs = folder.path().join("initramfs");
    linux.initramfs(&[BEGIN, script, END].concat(), &initramfs)?;
    let (mut cards, mut sockets) = (Vec::new(), Vec::new());
    for (index, wire) in wires.into_iter().enumerate() {
        let mac = [0x68, 5, 0xca, 0, 0, 7 + index as u8];
        let config = PortConfig { device_id: 0x1583, mac, name: format!("linux{index}") };
        sockets.push(folder.path().join(format!("card{index}")));
        cards.push((sockets[index].clone(), Xl710::new(config, wire)));
    }
    let server = Server::bind(cards)?;
    let handle = server.handle();
    let thread = std::thread::spawn(move || server.run());
    let mut guest = Guest::start(command(ground, &linux, &initramfs, &sockets, cpus))?;
    guest.wait_for("guest done")?;
    let (_, said) = guest.end()?;
    handle.stop();
    thread.join().map_err(|_| "the model panicked")??;
    for line in said.lines().filter_map(|line| line.strip_prefix("log ")) {
        // `<4>` is a warning; what the driver says in passing is `<6>`.
        let level = line.strip_prefix('<').and_then(|rest| rest.split('>').next()?.parse::<u32>().ok());
        ensure(level.is_some_and(|level| level % 8 > 4), || format!("the driver complains: {line}"))?;
    }
    let ports = handle.status();
    for port in &ports {
        ensure(port.violations.is_empty() && port.counters.dma_faults == 0, || format!("{port:?}"))?;
    }
    Ok(Outcome { said, ports })
}

/// Probe, link, address, speed, 100 of 100 pings, an orderly removal.
fn linux_pings(ground: &Ground) -> Result<(), Failed> {
    let outcome = run_guest(ground, PINGS, 1, vec![Box::<EchoWire>::default()])?;
    outcome.has("address 68:05:ca:00:00:07 speed 40000")?;
    outcome.has("100 packets transmitted, 100 packets received, 0% packet loss")?;
    outcome.has("NIC Link is Up, 40 Gbps Full Duplex")?;
    outcome.has("rx_errors 0")?;
    outcome.has("tx_errors 0")?;
    // 100 echo replies and one ARP reply at least; what the guest sends on its own account comes on top.
    let counters = outcome.ports[0].counters;
    ensure(counters.rx_frames >= 101 && counters.tx_frames >= 101, || format!("{counters:?}"))?;
    ensure(counters.rx_missed == 0, || format!("{counters:?}"))
}

/// Two CPUs, several queues, MTU 9000, and what Linux turns on by itself: segmentation, checksums both ways, scattered
/// receive, RSS, and flow director filters for its TCP connections.
fn linux_transfers(ground: &Ground) -> Result<(), Failed> {
    let (near, far) = PeerWire::pair();
    let outcome = run_guest(ground, TRANSFER, 2, vec![Box::new(near), Box::new(far)])?;
    let pings = outcome.said.matches("300 packets transmitted, 300 packets received, 0% packet loss").count();
    ensure(pings == 3, || outcome.said.clone())?;
    outcome.has("different hashes: 1")?;
    outcome.has("bytes 104857600")?;
    for counter in ["rx_errors", "tx_errors", "rx_dropped", "rx_crc_errors", "rx_missed_errors"] {
        outcome.has(&format!("{counter} 0"))?;
    }
    let [a, b] = [outcome.ports[0].counters, outcome.ports[1].counters];
    ensure(a.rx_directed > 100 && b.rx_directed > 100, || format!("{a:?} {b:?}"))?;
    // What one card put on the wire the other took in.
    ensure(a.tx_frames == b.rx_frames + b.rx_filtered, || format!("{a:?} {b:?}"))?;
    ensure(b.tx_frames == a.rx_frames + a.rx_filtered, || format!("{a:?} {b:?}"))
}

/// Down and up 20 times, the driver unloaded and loaded 5 times; a ping gets through each time.
fn linux_restarts(ground: &Ground) -> Result<(), Failed> {
    let outcome = run_guest(ground, RESTARTS, 1, vec![Box::<EchoWire>::default()])?;
    for n in 1..=20 {
        outcome.has(&format!("up {n}\n"))?;
    }
    for n in 1..=5 {
        outcome.has(&format!("loaded {n}\n"))?;
    }
    Ok(())
}

fn command(ground: &Ground, linux: &Linux, initramfs: &Path, sockets: &[PathBuf], cpus: u32) -> Command {
    let mut command = ground.qemu.command();
    command.args(["-nodefaults", "-display", "none", "-monitor", "none", "-no-reboot", "-serial", "stdio"]);
    command.args(["-accel", "tcg", "-cpu", "max", "-M", "q35,memory-backend=mem", "-m", "1G"]);
    command.args(["-smp", &cpus.to_string()]);
    command.args(["-object", "memory-backend-memfd,id=mem,size=1G,share=on"]);
    command.arg("-kernel").arg(&linux.kernel).arg("-initrd").arg(initramfs);
    // On a busy machine the kernel's check of its timer fails, though the timer works.
    command.args(["-append", "console=ttyS0 quiet panic=-1 no_timer_check"]);
    for (index, socket) in sockets.iter().enumerate() {
        let chassis = index + 1;
        command
            .args(["-device", &format!("pcie-root-port,id=up{index},chassis={chassis},x-speed=8,x-width=8")]);
        let device = format!(
            r#"{{"driver":"vfio-user-pci","bus":"up{index}","rombar":0,"x-msg-timeout":60000,"socket":{{"type":"unix","path":"{}"}}}}"#,
            socket.display()
        );
        command.args(["-device", &device]);
    }
    command
}
