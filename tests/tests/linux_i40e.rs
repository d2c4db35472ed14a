//! The software XL710 under a driver that others wrote: Debian's Linux with its own i40e.

use std::process::{Command, ExitCode};

use model::wire::EchoWire;
use model::{PortConfig, Server, Xl710};
use rig::guest::Guest;
use rig::linux::Linux;
use rig::machine::{Ground, case, ensure, run_with};

fn main() -> ExitCode {
    let missing = Linux::obtain().err().map(|why| format!("no Debian kernel can be had: {why}"));
    run_with(vec![case("linux_probes_gets_link_and_pings", linux_pings)], missing)
}

const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
for m in libie i40e; do xzcat /$m.ko.xz > /$m.ko; insmod /$m.ko; done
for i in $(seq 100); do [ -e /sys/class/net/eth0 ] && break; sleep 0.1; done
ip addr add 10.0.0.1/24 dev eth0; ip link set eth0 up
for i in $(seq 100); do [ "$(cat /sys/class/net/eth0/carrier 2>/dev/null)" = 1 ] && break; sleep 0.1; done
echo "address $(cat /sys/class/net/eth0/address) speed $(cat /sys/class/net/eth0/speed)"
ping -c 100 -i 0.01 10.0.0.77 | tail -3
for c in rx_packets tx_packets rx_errors tx_errors; do echo "$c $(cat /sys/class/net/eth0/statistics/$c)"; done
ip link set eth0 down
rmmod i40e
dmesg -r | grep -E 'i40e|eth0|BUG|WARNING|Oops' | sed 's/^/log /'
echo "guest done"
poweroff -f
"#;

/// Probe, link, address, speed, 100 of 100 pings, an orderly removal, and no line of the driver at the level of a
/// warning or above.
fn linux_pings(ground: &Ground) -> Result<(), libtest_mimic::Failed> {
    let linux = Linux::obtain()?;
    let folder = tempfile::tempdir()?;
    let (socket, initramfs) = (folder.path().join("card"), folder.path().join("initramfs"));
    linux.initramfs(INIT, &initramfs)?;
    let config = PortConfig { device_id: 0x1583, mac: [0x68, 5, 0xca, 0, 0, 7], name: "linux".into() };
    let server = Server::bind(vec![(socket.clone(), Xl710::new(config, Box::<EchoWire>::default()))])?;
    let handle = server.handle();
    let thread = std::thread::spawn(move || server.run());

    let mut guest = Guest::start(command(ground, &linux, &initramfs, &socket))?;
    guest.wait_for("guest done")?;
    let (_, said) = guest.end()?;
    handle.stop();
    thread.join().map_err(|_| "the model panicked")??;

    let has = |text: &str| ensure(said.contains(text), || format!("no {text:?} in:\n{said}"));
    has("address 68:05:ca:00:00:07 speed 40000")?;
    has("100 packets transmitted, 100 packets received, 0% packet loss")?;
    has("NIC Link is Up, 40 Gbps Full Duplex")?;
    has("rx_errors 0")?;
    has("tx_errors 0")?;
    for line in said.lines().filter_map(|line| line.strip_prefix("log ")) {
        // `<4>` is a warning; what the driver says in passing is `<6>`.
        let level = line.strip_prefix('<').and_then(|rest| rest.split('>').next()?.parse::<u32>().ok());
        ensure(level.is_some_and(|level| level % 8 > 4), || format!("the driver complains: {line}"))?;
    }
    let status = &handle.status()[0];
    let counters = status.counters;
    ensure(status.violations.is_empty(), || format!("{:?}", status.violations))?;
    // 100 echo replies and one ARP reply at least; what the guest sends on its own account comes on top.
    ensure(counters.rx_frames >= 101 && counters.tx_frames >= 101, || format!("{counters:?}"))?;
    ensure(counters.dma_faults == 0 && counters.rx_missed == 0, || format!("{counters:?}"))
}

fn command(ground: &Ground, linux: &Linux, initramfs: &std::path::Path, socket: &std::path::Path) -> Command {
    let mut command = ground.qemu.command();
    command.args(["-nodefaults", "-display", "none", "-monitor", "none", "-no-reboot", "-serial", "stdio"]);
    command.args(["-accel", "tcg", "-cpu", "max", "-M", "q35,memory-backend=mem", "-m", "512M"]);
    command.args(["-object", "memory-backend-memfd,id=mem,size=512M,share=on"]);
    command.arg("-kernel").arg(&linux.kernel).arg("-initrd").arg(initramfs);
    command.args(["-append", "console=ttyS0 quiet panic=-1"]);
    command.args(["-device", "pcie-root-port,id=upstream,chassis=1,x-speed=8,x-width=8"]);
    let device = format!(
        r#"{{"driver":"vfio-user-pci","bus":"upstream","rombar":0,"x-msg-timeout":60000,"socket":{{"type":"unix","path":"{}"}}}}"#,
        socket.display()
    );
    command.args(["-device", &device]);
    command
}
