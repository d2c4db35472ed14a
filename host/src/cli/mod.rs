//! The command line.

mod args;
mod bench;
mod image_line;
mod ports;
mod rfc2544;

use std::ffi::OsString;
use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use serde::Serialize;

use crate::qemu::Qemu;
use crate::{Failure, run, serve};
use args::{Cli, Command};

/// Carries out a command line; the exit status is 0 only if all went well.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => return failed(&Failure::usage(one_line(&error.to_string()))),
    };
    let result = match cli.command {
        None => run_command(&cli.run),
        Some(Command::Run(args)) => run_command(&args),
        Some(Command::Model(args)) => {
            serve::serve(&args.port, args.device, args.log.as_deref()).map(|()| ExitCode::SUCCESS)
        }
        Some(Command::Bench(args)) => bench::run(&args),
        Some(Command::Qemu(args)) => run_qemu(&args.args),
    };
    result.unwrap_or_else(|failure| failed(&failure))
}

fn failed(failure: &Failure) -> ExitCode {
    eprintln!("barewire: {failure}");
    ExitCode::from(failure.status())
}

/// What clap says in a paragraph, as one line.
fn one_line(text: &str) -> String {
    let lines = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let kept: Vec<&str> = lines.filter(|line| !line.is_empty() && !line.starts_with("For more")).collect();
    let line = kept.join(" ").trim_start_matches("error: ").to_owned();
    // A command that comes late, and a word that is none.
    if line.contains("subcommand") {
        return format!("{line}; the commands are run, model, bench and qemu, and options come behind them");
    }
    line
}

fn run_command(args: &args::RunArgs) -> Result<ExitCode, Failure> {
    let options = args.options()?;
    if let Some(plan) = args.rfc2544.plan(&options)? {
        let report = crate::rfc2544::run(&options, &plan)?;
        return tell(args.json, &report, &report.problems, report.good());
    }
    if !options.real.is_empty() {
        return run_real(&options, args.json);
    }
    let summary = run::run(&options)?;
    tell(args.json, &summary, &summary.problems, summary.good())
}

/// Writes a summary to standard output, in JSON with its problems on standard error, too.
fn tell(
    json: bool,
    summary: &(impl Serialize + Display),
    problems: &[String],
    good: bool,
) -> Result<ExitCode, Failure> {
    let mut out = std::io::stdout().lock();
    let written = if json {
        let text = serde_json::to_string(summary).map_err(|error| Failure::run(error.to_string()))?;
        writeln!(out, "{text}")
    } else {
        writeln!(out, "{summary}")
    };
    written.map_err(|error| Failure::run(format!("standard output: {error}")))?;
    if json {
        problems.iter().for_each(|problem| eprintln!("barewire: problem: {problem}"));
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn run_real(options: &run::RunOptions, json: bool) -> Result<ExitCode, Failure> {
    let summary = run::run_real(options, json)?;
    summary.problems.iter().for_each(|problem| eprintln!("barewire: problem: {problem}"));
    if json {
        let text = serde_json::to_string(&summary).map_err(|error| Failure::run(error.to_string()))?;
        let written = writeln!(std::io::stdout(), "{text}");
        written.map_err(|error| Failure::run(format!("standard output: {error}")))?;
    }
    Ok(if summary.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn run_qemu(args: &[OsString]) -> Result<ExitCode, Failure> {
    let qemu = Qemu::obtain(&mut |step| eprintln!("barewire: {step}"))?;
    let mut command = qemu.command();
    crate::child::dies_with_us(&mut command);
    let status = command.args(args).status();
    let status = status.map_err(|error| Failure::run(format!("QEMU: {error}")))?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_command_line_are_one_line() {
        for (args, text) in [
            (&["barewire", "--colour"][..], "unexpected argument '--colour' found"),
            (&["barewire", "--burst", "0"], "invalid value '0' for '--burst <N>'"),
            (&["barewire", "--forward", "no mode"], "invalid value 'no mode' for '--forward <MODE>'"),
            (&["barewire", "--rxd", "100"], "'100' for '--rxd <N>': a multiple of 32 from 64 to 8160"),
            (&["barewire", "fly"], "'fly'; the commands are run, model, bench and qemu"),
            (&["barewire", "--cpus", "2", "run"], "options come behind them"),
        ] {
            let error = one_line(&Cli::try_parse_from(args).unwrap_err().to_string());
            assert!(error.contains(text) && !error.contains('\n'), "{args:?}: {error}");
        }
    }
}
