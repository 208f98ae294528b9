//! The simulator's command line.

mod cli;
mod growth;
mod output;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main(&cli::Arguments::parse())
}
