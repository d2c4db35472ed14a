//! The program that measures. Its one argument is a [`Request`] in JSON; it tells a [`Told`] in JSON a line.

use std::process::ExitCode;

use bench::ground::Ground;
use bench::{Case, Request, Row, Told, count, lines, sample};

fn main() -> ExitCode {
    let request = std::env::args().nth(1).and_then(|text| serde_json::from_str::<Request>(&text).ok());
    match request {
        Some(Request::Measure { cases, rounds }) => measure(&named(&cases), rounds),
        Some(Request::Count { cases }) => {
            for case in named(&cases) {
                tell(&Told::Count { case: case.to_string(), instructions: count::instructions(&case) });
            }
        }
        Some(Request::Run { case, rounds }) => return exit(run(&case, rounds)),
        Some(Request::Traced { case, rounds }) => {
            return exit(Case::from_name(&case).is_some_and(|case| count::run_traced(&case, rounds)));
        }
        None => {
            eprintln!("barewire-bench is run by `barewire bench`");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn exit(done: bool) -> ExitCode {
    if done { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Says whether this machine has what the case needs.
fn run(case: &str, rounds: usize) -> bool {
    let Some(mut ground) = Case::from_name(case).and_then(|case| Ground::new(&case)) else { return false };
    for _ in 0..rounds {
        ground.prepare();
        ground.work();
    }
    true
}

fn named(names: &[String]) -> Vec<Case> {
    names.iter().filter_map(|name| Case::from_name(name)).collect()
}

fn measure(cases: &[Case], rounds: usize) {
    if !sample::pin() {
        tell(&Told::Note("not pinned to a core: more spread".into()));
    }
    let tsc_hz = sample::tsc_hz();
    let mut counted: Vec<(Case, Option<f64>)> = Vec::new();
    sample::time(cases, rounds, |case, ticks| {
        let Some(ticks) = ticks else { return };
        let of = case.counted();
        let known = counted.iter().find(|(known, _)| *known == of).map(|(_, count)| *count);
        let instructions = known.unwrap_or_else(|| count::instructions(&of));
        if known.is_none() {
            counted.push((of, instructions));
        }
        tell(&Told::Row(Row {
            case: *case,
            tsc_cycles: round(ticks.median()),
            min: round(ticks.min()),
            max: round(ticks.max()),
            samples: ticks.count(),
            instructions: instructions.map(round),
            lines: lines::by_design(case),
            tsc_hz,
        }));
    });
}

fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

fn tell(told: &Told) {
    // A sentence and numbers: nothing that JSON can't say.
    if let Ok(text) = serde_json::to_string(told) {
        println!("{text}");
    }
}
