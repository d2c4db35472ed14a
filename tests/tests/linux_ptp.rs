//! Time stamps of the software XL710 under Debian's own driver: two cards at the ends of a cable, and ptp4l on both.

use std::process::ExitCode;

use libtest_mimic::Failed;
use model::wire::PeerWire;
use rig::linux::Linux;
use rig::linux_guest::LinuxGuest;
use rig::machine::{Ground, case, ensure, run_with};

fn main() -> ExitCode {
    let missing =
        Linux::with_ptp().err().map(|why| format!("no Debian kernel with linuxptp can be had: {why}"));
    run_with(vec![case("linux_sets_a_clock_by_frames_that_the_cards_stamp", ptp4l)], missing)
}

/// The clock of eth1 is 1000 s behind at least: it is set to 1000 s, that of eth0 to 1,700,000,000 s. Times of sent frames
/// are waited for as long as a busy machine may need.
const SCRIPT: &str = r#"
cat > /tmp/ptp.cfg << END
[global]
network_transport L2
time_stamping hardware
tx_timestamp_timeout 5000
logAnnounceInterval -3
logSyncInterval -4
logMinDelayReqInterval -4
announceReceiptTimeout 3
summary_interval -4
step_threshold 0.1
END
ip link set eth0 up; ip link set eth1 up; carrier eth0; carrier eth1
for i in 0 1; do echo "clock $i $(ethtool -T eth$i | tr '\n\t' '  ')"; done
phc_ctl eth0 set 1700000000 | sed 's/^/phc /'; phc_ctl eth1 set 1000 | sed 's/^/phc /'
ptp4l -f /tmp/ptp.cfg -i eth0 -m --priority1 1 --uds_address /tmp/uds0 > /tmp/master 2>&1 &
ptp4l -f /tmp/ptp.cfg -i eth1 -m -s --uds_address /tmp/uds1 > /tmp/slave 2>&1 &
wait_for '[ "$(grep -c "s2 freq" /tmp/slave)" -ge 5 ]'
phc_ctl eth1 get | sed 's/^/phc /'; phc_ctl eth0 get | sed 's/^/phc /'
sed 's/^/master /' /tmp/master; sed 's/^/slave /' /tmp/slave
kill %1 %2
errors eth0; errors eth1
"#;

/// The driver tells of clocks, ptp4l of one end's becomes the grandmaster's slave, and its clock is set by the times of
/// frames: Sync at one end, Delay_Req at the other.
fn ptp4l(ground: &Ground) -> Result<(), Failed> {
    let (near, far) = PeerWire::pair();
    let linux = Linux::with_ptp()?;
    let wires: Vec<Box<dyn model::Wire>> = vec![Box::new(near), Box::new(far)];
    let outcome = LinuxGuest::boot_with(&linux, ground, SCRIPT, 1, wires)?.finish()?;
    for (index, line) in ["clock 0", "clock 1"].into_iter().enumerate() {
        let told = outcome.said.lines().find(|told| told.starts_with(line)).unwrap_or_default();
        for word in
            [&format!("PTP Hardware Clock: {index}"), "hardware-transmit", "hardware-receive", "ptpv2-event"]
        {
            ensure(told.contains(word), || format!("no {word:?} in {told}"))?;
        }
    }
    ensure(!outcome.said.contains("timed out while polling for tx timestamp"), || outcome.said.clone())?;
    ensure(!outcome.said.contains("received SYNC without timestamp"), || outcome.said.clone())?;
    outcome.has("assuming the grand master role")?;
    outcome.has("UNCALIBRATED to SLAVE on MASTER_CLOCK_SELECTED")?;
    outcome.no_errors()?;
    let offsets = offsets(&outcome.said);
    let first = offsets.first().copied().unwrap_or_default();
    let last = offsets.last().copied().unwrap_or(i64::MAX);
    let (apart, together) = (first.abs() > 1_000_000_000_000_000_000, last.abs() < 1_000_000_000);
    ensure(apart && together, || format!("offsets {offsets:?}:\n{}", outcome.said))
}

/// What the slave found its clock to be ahead, in nanoseconds, in order.
fn offsets(said: &str) -> Vec<i64> {
    let lines = said.lines().filter(|line| line.starts_with("slave "));
    let after = lines.filter_map(|line| line.split_once("master offset")?.1.split_whitespace().next());
    after.filter_map(|word| word.parse().ok()).collect()
}
