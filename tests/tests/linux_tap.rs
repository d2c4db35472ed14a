//! A Linux guest and the host's own kernel, joined by the software XL710 and a TAP interface. Skipped where no interface
//! can be made.

use std::io::Write;
use std::net::TcpStream;
use std::process::{Command, ExitCode};

use barewire::tap::Tap;
use libtest_mimic::Failed;
use rig::linux::Linux;
use rig::linux_guest::LinuxGuest;
use rig::machine::{Ground, case, ensure, run_with};

fn main() -> ExitCode {
    let name = format!("bwl{}", std::process::id());
    let missing = Linux::obtain().err().map(|why| format!("no Debian kernel can be had: {why}"));
    let missing = missing.or_else(|| tap_is_missing(&name));
    run_with(vec![case("linux_talks_to_the_host_through_a_tap", move |ground| talk(ground, &name))], missing)
}

fn tap_is_missing(name: &str) -> Option<String> {
    let tap = Tap::open(name).map_err(|failure| failure.to_string());
    tap.and_then(|(_tap, _wire)| ip(&["link", "show", name])).err()
}

fn ip(args: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(args).output().map_err(|error| format!("ip: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(format!("ip {}: {said}", args.join(" "))) }
}

const SCRIPT: &str = r#"
ip addr add 10.213.8.2/24 dev eth0; ip link set eth0 mtu 9000 up; carrier
wait_for 'ping -c 1 -W 1 10.213.8.1 > /dev/null'
for size in 56 1400 8000; do ping -A -c 100 -s $size 10.213.8.1 | grep transmitted; done
mkfifo /tmp/f; (exec 3<>/tmp/f; nc -l -p 5000 <&3 > /tmp/got; echo > /tmp/end) &
wait_for 'netstat -ltn | grep -q :5000'
ask connect
wait_for '[ -e /tmp/end ]'
echo "got $(wc -c < /tmp/got) bytes, $(sort -u /tmp/got)"
errors eth0
"#;

/// The guest pings the host, the host opens a connection to the guest.
fn talk(ground: &Ground, name: &str) -> Result<(), Failed> {
    let (mut tap, wire) = Tap::open(name)?;
    ip(&["address", "add", "10.213.8.1/24", "dev", name])?;
    ip(&["link", "set", name, "mtu", "9000"])?;
    let mut guest = LinuxGuest::boot(ground, SCRIPT, 1, vec![Box::new(wire)])?;
    let cards = guest.cards.clone();
    tap.start(move || cards.kick());
    guest.asked("connect")?;
    let line = b"from the host\n";
    TcpStream::connect(("10.213.8.2", 5000))?.write_all(&line.repeat(50_000))?;
    guest.answer("done")?;
    let outcome = guest.finish()?;
    let pings = outcome.said.matches("100 packets transmitted, 100 packets received, 0% packet loss").count();
    ensure(pings == 3, || outcome.said.clone())?;
    outcome.has(&format!("got {} bytes, from the host\n", 50_000 * line.len()))?;
    outcome.no_errors()?;
    // No frame of the guest was refused, and each was taken; the other way the card had a descriptor for each.
    let (account, counters) = (tap.account(), outcome.ports[0].counters);
    ensure(account.refused == 0 && account.to_host == counters.tx_frames, || {
        format!("{account:?} {counters:?}")
    })?;
    ensure(counters.rx_missed == 0, || format!("{counters:?}"))
}
