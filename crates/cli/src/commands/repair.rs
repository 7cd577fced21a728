//! `esker repair`: makes a damaged store one that opens, and says what was lost.

use crate::failure::{Code, Failure, Result};
use crate::interrupt::Interrupt;
use crate::output::{Output, conclude};
use crate::progress::{At, Progress};
use crate::store::{StoreArgs, expect_directory, refused, setup};
use esker::Error;
use esker::repair::{self, RepairReport};

/// Salvage what is readable of a damaged store
///
/// Reads every file, keeps what is sound, writes anew what can be read of the rest, and lists what
/// cannot. Files that were used in part or not at all are moved to `lost/` inside the store;
/// nothing is deleted. Indexes of fields are emptied, and built anew when the store is next opened
/// for writing: `esker index wait` does only that. If it is cut off, run it again. Make a copy of
/// the directory first if you can. Exits with 3 if anything was lost.
#[derive(clap::Args, Debug)]
#[command(mut_arg("keyspace", refused))]
#[command(after_long_help = "Examples:
  esker repair --db store
  esker repair --db store --json > report.json")]
pub(crate) struct Args {
    /// No progress
    #[arg(long, short)]
    quiet: bool,

    #[command(flatten)]
    store: StoreArgs,
}

/// Repairs.
pub(crate) fn run(args: &Args) -> Result<()> {
    let dir = &args.store.db;
    expect_directory(dir)?;
    let interrupt = Interrupt::watch()?;
    let options = args.store.tuning.options()?;
    let mut progress = Progress::start("repairing", args.quiet || args.store.json);
    let report = repair::repair(dir, &options, setup(), |at| {
        progress.at(At { records: 0, bytes: at.bytes, bytes_total: Some(at.bytes_total) });
        !interrupt.asked()
    });
    progress.finish();
    let report = match report {
        Err(Error::Cancelled) => {
            return Err(Failure::interrupted("interrupted: nothing is lost; run it again"));
        }
        Err(Error::NotFound { .. }) => {
            let message = format!("no store in {}: check --db", dir.display());
            return Err(Failure::new(Code::NotFound, message));
        }
        report => report?,
    };
    conclude(verdict(&report), print(&report, args.store.json))
}

fn verdict(report: &RepairReport) -> Result<()> {
    if report.is_complete() {
        return Ok(());
    }
    let message = "the store opens again, but not everything could be kept: see the list above";
    Err(Failure::new(Code::Corruption, message))
}

fn print(report: &RepairReport, json: bool) -> Result<()> {
    let mut out = Output::new();
    if json {
        out.json(report)?;
    } else {
        out.line(report.to_string().trim_end())?;
    }
    out.finish()
}
