//! The `esker` command.
//!
//! Flow: `main` parses, `commands` does, `failure` becomes the exit code. Reference: docs/command.md.

mod bytes;
mod clock;
mod commands;
mod failure;
mod interrupt;
mod leveldb;
mod load;
mod output;
mod paint;
mod progress;
mod range;
mod shell;
mod store;
mod tour;
mod tree;
mod tuning;
mod units;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    // Help and mistakes end here, the latter with exit code 2.
    let command = commands::Esker::parse().command;
    match commands::run(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.reader_gone => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.message.is_empty() {
                output::note(&failure.message);
            }
            ExitCode::from(failure.code as u8)
        }
    }
}
