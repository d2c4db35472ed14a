//! What the loops execute a frame, against what is kept in `host/bench/instructions.toml`: a change that makes one of them
//! longer shows here, however busy the machine is.

use barewire::bench::instructions;
use bench::case::Loops;
use bench::{Bench, Case};
use libtest_mimic::{Arguments, Failed, Trial};

fn main() -> std::process::ExitCode {
    let trial = Trial::test("no_loop_takes_more_than_is_kept", check);
    libtest_mimic::run(&Arguments::from_args(), vec![trial]).exit_code()
}

/// The ways of a frame with 32-byte descriptors, and the loops over headers, in wide registers.
fn is_main(case: &Case) -> bool {
    let long = matches!(case.bench, Bench::CsumAlone | Bench::FiveTupleAlone);
    matches!(case.isa, Loops::Avx2 | Loops::Avx512) && case.desc != 16 && !long
}

fn check() -> Result<(), Failed> {
    let checked = instructions::check(|case| rig::machine::full() || is_main(case))?;
    checked.skipped.iter().for_each(|why| println!("skipped: {why}"));
    let worse: Vec<String> = checked
        .worse()
        .map(|(case, kept, now)| format!("{case}: {now} instructions a frame, {kept} are kept"))
        .collect();
    if worse.is_empty() { Ok(()) } else { Err(worse.join("\n").into()) }
}
