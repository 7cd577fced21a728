//! `esker load`: many records from somewhere else.

use crate::failure::{Failure, Result};
use crate::fields::parse_name;
use crate::index;
use crate::interrupt::Interrupt;
use crate::load::{self, Done, Plan, SourceArgs, Values};
use crate::output::{Output, conclude, note};
use crate::progress::Progress;
use crate::store::{Store, StoreArgs, TraceArgs};
use crate::units;
use serde_json::json;
use std::ffi::OsString;

/// Load records from files, CSV, JSON lines or a LevelDB store
///
/// SOURCE is one of
///
///   files:DIR     one record for each file system entry below DIR: key = its path,
///                 value = its metadata; symbolic links are not followed
///
///   csv:FILE      one record for each row: value = its cells
///
///   jsonl:FILE    one record for each line: value = the object on it
///
///   leveldb:DIR   the records of a LevelDB store, as they are
///
/// Values of files, csv and jsonl are records of fields, which `esker find` finds by what a field
/// holds; with --values json they are JSON text. Cells of csv are text unless --type says
/// otherwise. --index makes an index of a field where there is none yet, and in the end waits until
/// it is built.
///
/// FILE may be `-` for standard input. The store is created if there is none. Records are written
/// in batches, in the order of the source; later ones win over earlier ones of the same key.
///
/// Ctrl-C finishes the batch under way, closes the store, says how far it came, and exits with 130;
/// what was loaded stays. The same goes for a malformed row, which exits with 1; --skip-bad leaves
/// such rows out instead. Entries that cannot be read are left out and counted. When the command
/// ends well, everything is on stable storage.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "Examples:
  esker load --db store files:/usr
  esker load --db store --bulk --paths full files:/usr
  esker load --db store --index extension files:/usr
  esker load --db store --key email --type age=integer csv:people.csv
  zcat events.gz | esker load --db store --key id jsonl:-
  esker load --db store --bulk leveldb:old/store")]
pub(crate) struct Args {
    /// Where the records come from: files:DIR, csv:FILE, jsonl:FILE or leveldb:DIR
    source: OsString,

    #[command(flatten)]
    from: SourceArgs,

    /// Write tables directly while keys come in ascending order: faster, visible all at once
    #[arg(long)]
    bulk: bool,

    /// Make an index of this field, if there is none; as often as wanted
    #[arg(long = "index", value_name = "FIELD", value_parser = parse_name)]
    indexes: Vec<String>,

    /// No progress
    #[arg(long, short)]
    quiet: bool,

    #[command(flatten)]
    trace: TraceArgs,

    #[command(flatten)]
    store: StoreArgs,
}

/// Loads.
pub(crate) fn run(args: &Args) -> Result<()> {
    let interrupt = Interrupt::watch()?;
    if !args.indexes.is_empty() && args.from.values() == Values::Json {
        return Err(Failure::usage("--index: JSON text has no fields: leave out --values json"));
    }
    // A source that is not there must not leave an empty store behind.
    let mut source = load::open(&args.source, &args.from, &interrupt)?;
    let store = args.store.create_traced(&args.trace)?;
    let quiet = args.quiet || args.store.json;
    declare(&store, &args.indexes)?;
    let progress = Progress::start("loading", quiet);
    let (bulk, skip_bad) = (args.bulk, args.from.skip_bad());
    let plan = Plan { bulk, skip_bad, keyspace: &store.keyspace, db: &store.db };
    let (done, mut ended) = load::load(source.as_mut(), &plan, progress, &interrupt);
    if ended.is_ok() {
        ended = finish_indexes(&store, &args.indexes, quiet, &interrupt);
    }
    // Whatever ended it, what was loaded must last; of two failures the first one tells more.
    let ended = ended.and(store.close());
    let written = print(&done, ended.is_ok(), args.store.json);
    let ended = ended.map_err(|failure| {
        let records = units::plural(done.records, "record", "records");
        Failure {
            message: format!("{}; {records} before that are in the store", failure.message),
            ..failure
        }
    });
    conclude(ended, written)
}

/// Prints how far it came.
fn print(done: &Done, complete: bool, json: bool) -> Result<()> {
    let mut out = Output::new();
    if json {
        out.json(&json!({
            "records": done.records,
            "bytes": done.bytes,
            "skipped": done.skipped,
            "seconds": done.seconds,
            "complete": complete,
        }))?;
    } else if complete {
        out.line(&format!(
            "loaded {} ({}) in {:.2} s, {}",
            units::plural(done.records, "record", "records"),
            units::bytes(done.bytes),
            done.seconds,
            units::rate(done.records, done.seconds),
        ))?;
    }
    if done.skipped > 0 && !json {
        out.line(&format!("left out {}", units::plural(done.skipped, "entry", "entries")))?;
    }
    out.finish()
}

/// Makes the indexes that are not there yet.
fn declare(store: &Store, fields: &[String]) -> Result<()> {
    for field in fields {
        if index::find(store, field)?.is_none() {
            store.keyspace.create_index(field)?;
        }
    }
    Ok(())
}

/// Waits for the indexes that were asked for, and tells of others that are not ready.
fn finish_indexes(
    store: &Store,
    fields: &[String],
    quiet: bool,
    interrupt: &Interrupt,
) -> Result<()> {
    for field in fields {
        index::wait(store, field, quiet, interrupt)?;
    }
    for info in store.keyspace.indexes()?.iter().filter(|info| !index::is_ready(info)) {
        let what = format!("the index of field {:?} is not ready", info.field);
        note(&format!("{what}: `esker index wait` builds it further"));
    }
    Ok(())
}
