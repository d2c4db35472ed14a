//! `barewire bench`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::Failure;
use crate::bench::{self, Report, instructions};

#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Cases whose names begin so, out of all: BENCH/ISA/DESC/RING/BURST/SIZE/SET, for example i40e-io/avx2; * is any part.
    /// Without any: rings of 1024, bursts of 32, frames of 60 bytes, the second cache
    prefix: Vec<String>,
    /// Every case that there is: about half an hour
    #[arg(long, conflicts_with_all = ["prefix", "check", "write"])]
    all: bool,
    /// The names, and nothing is measured
    #[arg(long, conflicts_with_all = ["check", "write"])]
    list: bool,
    /// Fewer samples
    #[arg(long)]
    quick: bool,
    /// One JSON object instead of the table
    #[arg(long)]
    json: bool,
    /// A picture of cycles against frame size, a line for each instruction set (SVG)
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Nobody beside, even if testpmd or DPDK's development files are there
    #[arg(long)]
    no_peers: bool,
    /// Instructions a frame against those of host/bench/instructions.toml, without times
    #[arg(long, conflicts_with_all = ["prefix", "json", "plot"])]
    check: bool,
    /// Counts them anew and writes that file
    #[arg(long, conflicts_with_all = ["prefix", "json", "plot", "check"])]
    write: bool,
}

/// Carries it out.
pub fn run(args: &BenchArgs) -> Result<ExitCode, Failure> {
    if args.check || args.write {
        return counts(args.write);
    }
    let cases = bench::select(&args.prefix, args.all)?;
    if args.list {
        let names: Vec<String> = cases.iter().map(|case| format!("{case}\n")).collect();
        return say(&names.concat());
    }
    let report = Report::measure(&cases, args.quick, !args.no_peers)?;
    if let Some(path) = &args.plot {
        let picture = bench::plot::svg(&report);
        std::fs::write(path, picture)
            .map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
    }
    if args.json {
        let text = serde_json::to_string(&report).map_err(|error| Failure::run(error.to_string()))?;
        return say(&format!("{text}\n"));
    }
    say(&report.to_string())
}

fn counts(write: bool) -> Result<ExitCode, Failure> {
    if write {
        return say(&format!("{}\n", instructions::write()?));
    }
    let (text, good) = instructions::check(|_| true)?.told();
    say(&text)?;
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn say(text: &str) -> Result<ExitCode, Failure> {
    let written = std::io::stdout().lock().write_all(text.as_bytes());
    written.map_err(|error| Failure::run(format!("standard output: {error}")))?;
    Ok(ExitCode::SUCCESS)
}
