//! `esker compact`: rewrites a range into its deepest level.

use crate::bytes::Encoding;
use crate::clock::Stopwatch;
use crate::failure::Result;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::range::RangeArgs;
use crate::store::{Store, StoreArgs, TraceArgs};
use crate::units;
use serde_json::json;

/// Rewrite a range into the deepest level, dropping what is deleted or overwritten
///
/// Without a range, all of the keyspace. May be interrupted at any time: what is not finished is
/// forgotten.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "Examples:
  esker compact --db store
  esker compact --db store --from a --to c")]
pub(crate) struct Args {
    #[command(flatten)]
    range: RangeArgs,

    /// How keys are written
    #[arg(long, value_enum, default_value_t)]
    encoding: Encoding,

    #[command(flatten)]
    trace: TraceArgs,

    #[command(flatten)]
    store: StoreArgs,
}

/// Compacts.
pub(crate) fn run(args: &Args) -> Result<()> {
    let range = args.range.range(args.encoding)?;
    let interrupt = Interrupt::guard(
        "interrupted: nothing is lost, but not everything is compacted; run it again",
    )?;
    let store = args.store.write_traced(&args.trace)?;
    interrupt.closes(&store.db);
    let watch = Stopwatch::start();
    // What is still in memory counts as tables, or there would be less before than after.
    interrupt.outcome(store.keyspace.flush())?;
    let before = table_bytes(&store);
    let (start, end) = (range.start.as_deref(), range.end.as_deref());
    interrupt.outcome(store.keyspace.compact_range(start, end))?;
    let after = table_bytes(&store);
    store.close()?;
    let mut out = Output::new();
    if args.store.json {
        out.json(&json!({
            "ok": true,
            "bytes_before": before,
            "bytes_after": after,
            "seconds": watch.seconds(),
        }))?;
    } else {
        out.line(&format!(
            "{} before, {} after, in {}",
            units::bytes(before),
            units::bytes(after),
            units::duration_ns(watch.ns())
        ))?;
    }
    out.finish()
}

fn table_bytes(store: &Store) -> u64 {
    let stats = store.db.stats();
    let mine = stats.keyspaces.iter().filter(|k| k.name == store.keyspace.name());
    mine.map(esker::report::KeyspaceStats::table_bytes).sum()
}
