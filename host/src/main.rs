//! The `barewire` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    barewire::cli::main(std::env::args_os())
}
