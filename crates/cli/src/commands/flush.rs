//! `esker flush`: memtables to tables.

use crate::failure::Result;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::store::StoreArgs;
use crate::units;
use serde_json::json;

/// Write what is in memory and logs to tables
///
/// All keyspaces are flushed. The next open has no log to replay. May be interrupted at any time.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "Example:
  esker flush --db store")]
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
    let entries = store.db.stats().keyspaces.iter().map(|k| k.memtable_entries).sum::<u64>();
    interrupt.outcome(store.db.flush())?;
    store.close()?;
    let mut out = Output::new();
    if args.store.json {
        out.json(&json!({ "ok": true, "records": entries }))?;
    } else {
        out.line(&format!("flushed {}", units::plural(entries, "record", "records")))?;
    }
    out.finish()
}
