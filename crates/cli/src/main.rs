//! The `esker` command.
//!
//! Flow: `main` parses, `commands` does, `failure` becomes the exit code. Reference:
//! docs/command.md.

mod bytes;
mod clock;
mod commands;
mod failure;
mod fields;
mod index;
mod interrupt;
mod leveldb;
mod load;
mod lookup;
mod output;
mod paint;
mod pair;
mod patient;
mod progress;
mod range;
mod shell;
mod store;
mod tour;
mod tree;
mod tuning;
mod units;
mod view;

use clap::Parser;
use clap::error::ErrorKind;
use std::process::ExitCode;

/// `esker` alone prints its help.
const MISSING: ErrorKind = ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;

fn main() -> ExitCode {
    let done = match commands::Esker::try_parse() {
        Ok(esker) => commands::run(esker.command),
        // Mistakes are told in one line, like all failures.
        Err(error) if error.use_stderr() && error.kind() != MISSING => {
            Err(failure::Failure::arguments(&error, "--help tells more"))
        }
        // Help and version.
        Err(error) => error.exit(),
    };
    match done {
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
