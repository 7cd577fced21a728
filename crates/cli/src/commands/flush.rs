//! `esker flush`: memtables to tables.

use crate::failure::Result;
use crate::output::Output;
use crate::store::StoreArgs;
use crate::units;
use serde_json::json;

/// Write what is in memory and logs to tables
///
/// All keyspaces are flushed. The next open has no log to replay.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "Example:
  esker flush --db store")]
pub(crate) struct Args {
    #[command(flatten)]
    store: StoreArgs,
}

/// Flushes.
pub(crate) fn run(args: &Args) -> Result<()> {
    let store = args.store.write()?;
    let entries = store.db.stats().keyspaces.iter().map(|k| k.memtable_entries).sum::<u64>();
    store.db.flush()?;
    store.close()?;
    let mut out = Output::new();
    if args.store.json {
        out.json(&json!({ "ok": true, "records": entries }))?;
    } else {
        out.line(&format!("flushed {}", units::plural(entries, "record", "records")))?;
    }
    out.finish()
}
