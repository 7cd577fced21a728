//! `esker index`: lists, creates and drops indexes of fields, and waits for them.

use crate::bytes::printable;
use crate::failure::{Failure, Result};
use crate::fields::parse_name;
use crate::index;
use crate::interrupt::Interrupt;
use crate::output::{Output, conclude};
use crate::store::{Store, StoreArgs};
use crate::units;
use clap::Subcommand;
use esker::IndexInfo;
use serde_json::json;

/// List, create or drop indexes of fields, or wait for them
///
/// An index of a field says which keys have records whose field has a given value; `esker find`
/// needs it. Once there is one every write keeps it. The records that are there already are read to
/// build it, while the store is open for writing: a building that is cut off goes on at the next
/// opening.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "Examples:
  esker index create --db store extension
  esker index list --db store
  esker index wait --db store
  esker index drop --db store extension")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the indexes of a keyspace: field, state, keys read to build it, its size
    #[command(after_long_help = "Examples:
  esker index list --db store --json | jq .field")]
    List {
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Make an index of a field, and wait until it is built
    ///
    /// Ctrl-C ends the waiting with 130: the index stays, and is built further when the store is
    /// next opened for writing.
    #[command(after_long_help = "Examples:
  esker index create --db store extension
  esker index create --db store --no-wait size")]
    Create {
        /// The field
        #[arg(value_parser = parse_name)]
        field: String,
        /// Do not wait until it is built
        #[arg(long)]
        no_wait: bool,
        /// No progress
        #[arg(long, short)]
        quiet: bool,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Wait until an index is built, or all of the keyspace
    #[command(after_long_help = "Examples:
  esker index wait --db store
  esker index wait --db store extension")]
    Wait {
        /// The field [default: all that are indexed]
        #[arg(value_parser = parse_name)]
        field: Option<String>,
        /// No progress
        #[arg(long, short)]
        quiet: bool,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Remove an index
    #[command(after_long_help = "Examples:
  esker index drop --db store extension")]
    Drop {
        /// The field
        #[arg(value_parser = parse_name)]
        field: String,
        #[command(flatten)]
        store: StoreArgs,
    },
}

/// Does it.
pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.action {
        Action::List { store: args } => {
            let store = args.read()?;
            print(&store, args.json, None)?;
            store.close()
        }
        Action::Create { field, no_wait, quiet, store } => create(store, field, *no_wait, *quiet),
        Action::Wait { field, quiet, store } => wait(store, field.as_deref(), *quiet),
        Action::Drop { field, store } => drop(store, field),
    }
}

fn create(args: &StoreArgs, field: &str, no_wait: bool, quiet: bool) -> Result<()> {
    let interrupt = Interrupt::watch()?;
    let store = args.write()?;
    if index::find(&store, field)?.is_some() {
        let what = format!("there is an index of field {field:?} already");
        return Err(Failure::usage(format!("{what}: `esker index wait` waits until it is built")));
    }
    store.keyspace.create_index(field)?;
    let mut done = Ok(());
    if !no_wait {
        done = index::wait(&store, field, quiet || args.json, &interrupt);
    }
    finish(store, args.json, Some(field), done)
}

fn wait(args: &StoreArgs, field: Option<&str>, quiet: bool) -> Result<()> {
    let interrupt = Interrupt::watch()?;
    let store = args.write()?;
    let fields: Vec<String> = match field {
        Some(field) => vec![field.to_owned()],
        None => store.keyspace.indexes()?.into_iter().map(|info| info.field).collect(),
    };
    for field in &fields {
        if index::find(&store, field)?.is_none() {
            return Err(index::missing(&store, field, "`esker index list` lists what there is"));
        }
    }
    let mut waits = fields.iter();
    let done =
        waits.try_for_each(|field| index::wait(&store, field, quiet || args.json, &interrupt));
    finish(store, args.json, field, done)
}

/// Shows what came of it and closes the store. Of two failures the first one tells more.
fn finish(store: Store, json: bool, field: Option<&str>, done: Result<()>) -> Result<()> {
    let shown = if done.is_ok() { print(&store, json, field) } else { Ok(()) };
    conclude(done.and(store.close()), shown)
}

fn drop(args: &StoreArgs, field: &str) -> Result<()> {
    let store = args.write()?;
    if index::find(&store, field)?.is_none() {
        return Err(index::missing(&store, field, "`esker index list` lists what there is"));
    }
    store.keyspace.drop_index(field)?;
    store.close()?;
    let mut out = Output::new();
    if args.json {
        out.json(&json!({ "ok": true }))?;
    }
    out.finish()
}

/// Prints the indexes of a keyspace, or one of them.
fn print(store: &Store, json: bool, field: Option<&str>) -> Result<()> {
    let mut out = Output::new();
    let stats = store.db.stats();
    let keyspace = store.keyspace.name();
    for info in store.keyspace.indexes()? {
        if field.is_some_and(|field| field != info.field) {
            continue;
        }
        let here = |index: &&esker::report::IndexStats| {
            index.keyspace == keyspace && index.field == info.field
        };
        let size = stats.indexes.iter().find(here).cloned().unwrap_or_default();
        if json {
            out.json(&json!({
                "field": info.field,
                "state": state(&info),
                "keys_done": info.keys_done,
                "tables": size.tables,
                "table_bytes": size.table_bytes,
                "memtable_bytes": size.memtable_bytes,
            }))?;
        } else {
            out.line(&format!(
                "{:24} {:8} {:>22} {:>10} in {}, {} in memory",
                printable(info.field.as_bytes()),
                state(&info),
                format!("{} read", units::plural(info.keys_done, "key", "keys")),
                units::bytes(size.table_bytes),
                units::plural(size.tables, "table", "tables"),
                units::bytes(size.memtable_bytes),
            ))?;
        }
    }
    out.finish()
}

fn state(info: &IndexInfo) -> &'static str {
    if index::is_ready(info) { "ready" } else { "building" }
}
