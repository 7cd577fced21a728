//! `esker tour`: the store at work, with every answer checked.

use crate::failure::Result;
use crate::tour;
use crate::tuning::TuningArgs;
use std::path::PathBuf;

/// Show the store at work, in under a minute: load, ask, index, change, kill, verify
///
/// Loads the metadata of real files into a temporary store and checks every answer against a fresh
/// walk of the file system. Makes an index of their extensions, and checks what it finds against
/// their names. Overwrites and deletes, and looks at the past through a snapshot. Starts a second
/// process that writes as fast as it can, kills it in the middle of it, several times, and checks
/// that every acknowledged write came back. Verifies all files, then sums up in numbers.
///
/// The trees are kept small (memtables of 1 MiB), so that their shape shows. Exits with 1 if any
/// check fails; the stores are then kept.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "Examples:
  esker tour
  esker tour --source /etc --db tour --keep && esker levels --db tour/files")]
pub(crate) struct Args {
    /// New or empty directory for the stores [default: a temporary one]
    #[arg(long, value_name = "DIR")]
    db: Option<PathBuf>,

    /// Directory whose files are loaded
    #[arg(long, value_name = "DIR", default_value = "/usr")]
    source: PathBuf,

    /// Keep the stores
    #[arg(long)]
    keep: bool,

    /// Write only the summary, as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    tuning: TuningArgs,
}

/// Shows it.
pub(crate) fn run(args: &Args) -> Result<()> {
    tour::run(&tour::Plan {
        dir: args.db.clone(),
        source: args.source.clone(),
        keep: args.keep,
        json: args.json,
        child_args: args.tuning.as_args(),
        options: args.tuning.options_over(&tour::small_tree())?,
    })
}
