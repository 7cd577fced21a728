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
use clap::error::ErrorKind;
use std::process::ExitCode;

/// `esker` alone prints its help.
const MISSING: ErrorKind = ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;

fn main() -> ExitCode {
    let done = match commands::Esker::try_parse() {
        Ok(esker) => commands::run(esker.command),
        // Mistakes are told in one line, like all failures.
        Err(error) if error.use_stderr() && error.kind() != MISSING => {
            Err(failure::Failure::usage(usage_line(&error)))
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

/// What clap has to say, as `what: what to do`.
fn usage_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let mut paragraphs = text
        .split("\n\n")
        .map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "));
    let what = paragraphs.next().unwrap_or_default();
    let what = what.strip_prefix("error: ").unwrap_or(&what).trim_end_matches('.').to_owned();
    let tip = paragraphs.find_map(|paragraph| paragraph.strip_prefix("tip: ").map(str::to_owned));
    format!("{what}: {}", tip.unwrap_or_else(|| "--help tells more".to_owned()))
}
