//! The software XL710 under DPDK's own i40e driver: Debian's testpmd in a guest.

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::Failed;
use rig::dpdk::Dpdk;
use rig::exchange::{Pair, Round};
use rig::frames::numbered;
use rig::machine::{Ground, case, run_with};
use rig::testpmd::Testpmd;

fn main() -> ExitCode {
    let missing = Dpdk::obtain().err().map(|why| format!("no Debian DPDK can be had: {why}"));
    run_with(vec![case("testpmd_forwards", forwards)], missing)
}

fn forwards(ground: &Ground) -> Result<(), Failed> {
    let mut testpmd = Testpmd::boot(ground)?;
    testpmd.start("--log-level=pmd.net.i40e:info", "")?;
    println!("{}", testpmd.answer("show port info all")?);
    println!("{}", testpmd.answer("start")?);
    let make = |port, n| {
        let frame = numbered(n << 1 | port as u32, 60 + n as usize % 1458);
        Pair { sent: frame.clone(), back: frame }
    };
    testpmd.exchange(Round { count: 3000, in_flight: 128, in_order: true, make: Arc::new(make) })?;
    println!("{}", testpmd.answer("show port stats all")?);
    println!("{}", testpmd.answer("stop")?);
    println!("{:?}", testpmd.xstats(0)?);
    testpmd.quit()?;
    let (said, ports) = testpmd.end()?;
    println!("{said}\n{ports:?}");
    Ok(())
}
