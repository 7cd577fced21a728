//! `esker verify`: reads everything and checks it.

use crate::failure::{Code, Failure, Result};
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::progress::{At, Progress};
use crate::store::StoreArgs;
use crate::units;
use esker::{Db, Error, VerifyReport};
use serde_json::json;

/// Read every file of the store and check it
///
/// Opens the store read-only, replays its logs, reads every block of every table, and compares checksums, the order of
/// keys and the ranges the manifest promises. Damage is listed with file and offset, and the command exits with 3.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "Examples:
  esker verify --db store
  esker verify --db store --json | jq .damage")]
pub(crate) struct Args {
    /// No progress
    #[arg(long, short)]
    quiet: bool,

    #[command(flatten)]
    store: StoreArgs,
}

/// Verifies.
pub(crate) fn run(args: &Args) -> Result<()> {
    let interrupt = Interrupt::watch()?;
    let (store, at_open) = args.store.read_all()?;
    let quiet = args.quiet || args.store.json;
    let (mut report, seconds) = verify(&store.db, &interrupt, quiet)?;
    // The manifest was read, and checked, when the store was opened.
    report.files += at_open.files;
    report.bytes += at_open.bytes;
    let mut out = Output::new();
    if args.store.json {
        let damage: Vec<_> = report
            .damage
            .iter()
            .map(|(file, error)| match error {
                Error::Corruption { path, offset_bytes, what } => json!({
                    "file": path.display().to_string(), "offset_bytes": offset_bytes, "what": what,
                }),
                other => json!({ "file": file.display().to_string(), "what": other.to_string() }),
            })
            .collect();
        out.json(&json!({
            "files": report.files, "bytes": report.bytes, "records": report.entries,
            "seconds": seconds, "damage": damage,
        }))?;
    } else {
        for (file, error) in &report.damage {
            match error {
                Error::Corruption { path, offset_bytes, what } => {
                    out.line(&format!("{} offset {offset_bytes}: {what}", path.display()))?;
                }
                other => out.line(&format!("{}: {other}", file.display()))?,
            }
        }
        out.line(&format!(
            "{} read, {}, {} in tables, {} damaged, {seconds:.2} s",
            units::plural(report.files, "file", "files"),
            units::bytes(report.bytes),
            units::plural(report.entries, "record", "records"),
            report.damage.len(),
        ))?;
    }
    out.finish()?;
    store.close()?;
    match report.damage.len() {
        0 => Ok(()),
        n => Err(Failure::new(
            Code::Corruption,
            format!(
                "{} damaged: repair, or restore a backup",
                units::plural(n as u64, "file", "files")
            ),
        )),
    }
}

/// Verifies an open store, with progress. Returns the report and the seconds it took.
pub(crate) fn verify(db: &Db, interrupt: &Interrupt, quiet: bool) -> Result<(VerifyReport, f64)> {
    let mut progress = Progress::start("verifying", quiet);
    let report = db.verify(|at| {
        progress.at(At { records: 0, bytes: at.bytes, bytes_total: Some(at.bytes_total) });
        !interrupt.asked()
    });
    let seconds = progress.finish();
    match report {
        Ok(report) => Ok((report, seconds)),
        Err(Error::Cancelled) => {
            Err(Failure::interrupted("interrupted: not everything was read; run it again"))
        }
        Err(error) => Err(error.into()),
    }
}
