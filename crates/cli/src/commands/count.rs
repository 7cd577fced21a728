//! `esker count`: how many keys there are.

use crate::bytes::Encoding;
use crate::failure::Result;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::range::RangeArgs;
use crate::store::{Store, StoreArgs};
use esker::ScanOptions;
use serde_json::json;

/// Count the keys of a range
///
/// Reads every key of the range, since a tree does not know how many of its records are hidden by
/// newer ones.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "Examples:
  esker count --db store
  esker count --db store --prefix bin/")]
pub(crate) struct Args {
    #[command(flatten)]
    range: RangeArgs,

    /// How keys are written
    #[arg(long, value_enum, default_value_t)]
    encoding: Encoding,

    #[command(flatten)]
    store: StoreArgs,
}

/// Counts them.
pub(crate) fn run(args: &Args) -> Result<()> {
    let interrupt = Interrupt::guard("interrupted: not everything was counted; run it again")?;
    let store = args.store.read()?;
    let found = count(&store, &args.range, args.encoding, &interrupt)?;
    let mut out = Output::new();
    if args.store.json {
        out.json(&json!({ "count": found }))?;
    } else {
        out.line(&found.to_string())?;
    }
    out.finish()?;
    store.close()
}

/// The number of keys in a range of an open store.
pub(crate) fn count(
    store: &Store,
    range: &RangeArgs,
    encoding: Encoding,
    interrupt: &Interrupt,
) -> Result<u64> {
    let options = ScanOptions { keys_only: true, ..range.range(encoding)?.scan() };
    let mut cursor = store.keyspace.scan(&options)?;
    cursor.seek_to_first()?;
    let mut found = 0;
    while cursor.valid() {
        if interrupt.asked() {
            return Err(interrupt.ended());
        }
        found += 1;
        cursor.next()?;
    }
    Ok(found)
}
