//! `esker verify`: reads everything and checks it.

use crate::bytes::{printable, to_hex};
use crate::failure::{Code, Failure, Result};
use crate::interrupt::Interrupt;
use crate::output::{Output, conclude};
use crate::progress::{At, Progress};
use crate::store::{StoreArgs, refused};
use crate::units;
use esker::{Db, Error, IndexReport, VerifyReport};
use serde_json::{Value, json};

/// Read every file of the store and check it
///
/// Opens the store read-only, replays its logs, reads every block of every table, and compares
/// checksums, the order of keys and the ranges the manifest promises. Each index of a field that is
/// ready is compared with the records that it is of. Damage is listed with file and offset, and the
/// command exits with 3.
#[derive(clap::Args, Debug)]
#[command(mut_arg("keyspace", refused))]
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
    let written = print(&store.db, &report, seconds, args.store.json);
    store.close()?;
    let found = damaged(&report).map_or(Ok(()), |what| Err(Failure::new(Code::Corruption, what)));
    conclude(found, written)
}

/// Prints what was found.
fn print(db: &Db, report: &VerifyReport, seconds: f64, json: bool) -> Result<()> {
    let mut out = Output::new();
    if json {
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
        let stats = db.stats();
        let others = stats.indexes.iter().filter(|index| !index.is_ready).map(
            |index| json!({ "keyspace": index.keyspace, "field": index.field, "ready": false }),
        );
        let indexes: Vec<_> = report.indexes.iter().map(index_json).chain(others).collect();
        out.json(&json!({
            "files": report.files, "bytes": report.bytes, "records": report.entries,
            "seconds": seconds, "indexes": indexes, "damage": damage,
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
        for index in &report.indexes {
            out.line(&index_line(index))?;
        }
        for index in db.stats().indexes.iter().filter(|index| !index.is_ready) {
            let name = index_name(&index.keyspace, &index.field);
            out.line(&format!("{name}: not ready, and so not compared with the records"))?;
        }
        out.line(&format!(
            "{} read, {}, {} in tables, {} damaged, {seconds:.2} s",
            units::plural(report.files, "file", "files"),
            units::bytes(report.bytes),
            units::plural(report.entries, "record", "records"),
            report.damage.len(),
        ))?;
    }
    out.finish()
}

/// What is damaged in all and what to do; `None` if nothing is.
fn damaged(report: &VerifyReport) -> Option<String> {
    let wrong = report.indexes.iter().filter(|index| index.example.is_some()).count();
    // Each of these stands under damage too.
    let files = report.damage.len() - wrong;
    let indexes = || {
        let indexes = units::plural(wrong as u64, "index", "indexes");
        let remedy = "`esker index drop` it and `esker index create` it again";
        format!("{indexes} at odds with the records: {remedy}")
    };
    let files = (files > 0).then(|| {
        let files = units::plural(files as u64, "file", "files");
        format!("{files} damaged: repair, or restore a backup")
    });
    match (files, wrong) {
        (None, 0) => None,
        (None, _) => Some(indexes()),
        // Repair has indexes built anew, too.
        (files, _) => files,
    }
}

fn index_name(keyspace: &str, field: &str) -> String {
    format!("index of field {field:?} in keyspace {keyspace:?}")
}

/// What an index came to, compared with its records.
fn index_line(index: &IndexReport) -> String {
    let name = index_name(&index.keyspace, &index.field);
    let entries = units::plural(index.entries, "entry", "entries");
    match &index.example {
        None => format!("{name}: {entries}, as the records say"),
        Some(key) => format!(
            "{name}: {entries}, {} missing, {} of no record, for example of key {}",
            units::count(index.missing),
            units::count(index.stray),
            printable(key),
        ),
    }
}

fn index_json(index: &IndexReport) -> Value {
    let mut report = json!({
        "keyspace": index.keyspace, "field": index.field, "ready": true, "entries": index.entries,
        "missing": index.missing, "stray": index.stray,
    });
    if let Some(key) = &index.example {
        match std::str::from_utf8(key) {
            Ok(key) => report["example"] = json!(key),
            Err(_) => report["example_hex"] = json!(to_hex(key)),
        }
    }
    report
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_at_odds_is_told_with_what_to_do() {
        let mut report = VerifyReport::default();
        let mut index = IndexReport::default();
        (index.keyspace, index.field) = ("default".to_owned(), "a".to_owned());
        index.entries = 7;
        assert!(index_line(&index).ends_with(": 7 entries, as the records say"));
        report.indexes.push(index.clone());
        assert_eq!(damaged(&report), None);

        (index.missing, index.stray, index.example) = (2, 1, Some(b"k\xff".to_vec()));
        let line = index_line(&index);
        assert!(
            line.contains("\"a\" in keyspace \"default\": 7 entries, 2 missing, 1 of no"),
            "{line}"
        );
        assert!(line.ends_with("for example of key k\\xff"), "{line}");
        assert_eq!(index_json(&index)["example_hex"], "6bff");
        report.indexes.push(index);
        report.damage.push(("d".into(), Error::corruption("d", 0, "at odds")));
        let what = damaged(&report).expect("damage");
        assert!(what.starts_with("1 index at odds") && what.contains("index drop"), "{what}");
        report.damage.push(("d/000004.tbl".into(), Error::corruption("d", 0, "bad")));
        assert!(damaged(&report).expect("damage").starts_with("1 file damaged: repair"));
    }
}
