//! `esker flush`: memtables to tables.

use crate::failure::Result;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::store::{StoreArgs, or_all};
use crate::units;
use serde_json::json;

/// Write what is in memory and logs to tables
///
/// All keyspaces are flushed, or the one that is named. When all are, the next open has no log to
/// replay. May be interrupted at any time.
#[derive(clap::Args, Debug)]
#[command(mut_arg("keyspace", or_all))]
#[command(after_long_help = "Examples:
  esker flush --db store
  esker flush --db store --keyspace people")]
pub(crate) struct Args {
    #[command(flatten)]
    store: StoreArgs,
}

/// Flushes.
pub(crate) fn run(args: &Args) -> Result<()> {
    let interrupt = Interrupt::guard(
        "interrupted: nothing is lost, but not everything is in tables; run it again",
    )?;
    let store = args.store.write()?;
    interrupt.closes(&store.db);
    let only = args.store.keyspace.as_deref();
    let stats = store.db.stats();
    let flushed = stats.keyspaces.iter().filter(|k| only.is_none_or(|name| k.name == name));
    let entries = flushed.map(|k| k.memtable_entries).sum::<u64>();
    let done = if only.is_some() { store.keyspace.flush() } else { store.db.flush() };
    interrupt.outcome(done)?;
    store.close()?;
    let mut out = Output::new();
    if args.store.json {
        out.json(&json!({ "ok": true, "records": entries }))?;
    } else {
        out.line(&format!("flushed {}", units::plural(entries, "record", "records")))?;
    }
    out.finish()
}
