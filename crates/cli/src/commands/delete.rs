//! `esker delete`: removes a key or a range of keys.

use crate::bytes::Encoding;
use crate::failure::{Code, Failure, Result};
use crate::output::Output;
use crate::range::{Range, RangeArgs};
use crate::store::{Store, StoreArgs};
use esker::{Batch, WriteOptions};
use serde_json::json;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// Remove a key, or all keys of a range
///
/// Removing a key that is not there is no failure, so that a script may be run twice; with
/// --must-exist it exits with 4. A range is removed with one record, whatever the number of keys;
/// it needs --from and --to, or --prefix.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "Examples:
  esker delete --db store bread
  esker delete --db store --from a --to c
  esker delete --db store --prefix tmp/")]
#[command(group = clap::ArgGroup::new("what").args(["key", "from", "prefix"]).required(true))]
pub(crate) struct Args {
    /// The key
    #[arg(allow_negative_numbers = true)]
    key: Option<OsString>,

    /// First key of a range
    #[arg(long, value_name = "KEY", requires = "to", allow_negative_numbers = true)]
    from: Option<OsString>,

    /// End of the range, exclusive
    #[arg(long, value_name = "KEY", requires = "from", allow_negative_numbers = true)]
    to: Option<OsString>,

    /// All keys that start with this
    #[arg(long, value_name = "PREFIX", allow_negative_numbers = true)]
    prefix: Option<OsString>,

    /// Fail if the key is not there
    #[arg(long, requires = "key")]
    must_exist: bool,

    /// How keys are written
    #[arg(long, value_enum, default_value_t)]
    encoding: Encoding,

    #[command(flatten)]
    store: StoreArgs,
}

/// Removes them.
pub(crate) fn run(args: &Args) -> Result<()> {
    // Mistakes in the arguments must show before anything is opened.
    let range =
        RangeArgs { from: args.from.clone(), to: args.to.clone(), prefix: args.prefix.clone() };
    let range = range.range(args.encoding)?;
    let key = args.key.as_ref().map(|key| args.encoding.decode(key.as_bytes())).transpose()?;
    if key.is_none() && range.start.as_ref().is_none_or(Vec::is_empty) && range.end.is_none() {
        let what = "every key begins with an empty prefix: give --from and --to";
        return Err(Failure::usage(what));
    }
    let store = args.store.write()?;
    match (key, range) {
        (Some(key), _) => remove_key(&store, &key, args.must_exist)?,
        (None, Range { start: Some(start), end: Some(end) }) => {
            store.keyspace.delete_range(&start, &end)?;
        }
        (None, open) => remove_to_last(&store, open)?,
    }
    store.close()?;
    if args.store.json {
        let mut out = Output::new();
        out.json(&json!({ "ok": true }))?;
        out.finish()?;
    }
    Ok(())
}

/// Removes a range that no key ends: its prefix is the last of its length.
fn remove_to_last(store: &Store, range: Range) -> Result<()> {
    let start = range.start.clone().unwrap_or_default();
    let mut cursor = store.keyspace.scan(&range.scan())?;
    cursor.seek_to_last()?;
    if !cursor.valid() {
        return Ok(());
    }
    let (keyspace, mut batch) = (store.keyspace.id(), Batch::new());
    batch.delete_range_in(keyspace, &start, cursor.key());
    batch.delete_in(keyspace, cursor.key());
    Ok(store.db.write(batch, WriteOptions::default())?)
}

fn remove_key(store: &Store, key: &[u8], must_exist: bool) -> Result<()> {
    if must_exist && store.keyspace.get(key)?.is_none() {
        let dir = store.dir.display();
        let shown = Encoding::Text.show(key);
        return Err(Failure::new(
            Code::NotFound,
            format!("no key {shown} in {dir}: nothing was removed"),
        ));
    }
    Ok(store.keyspace.delete(key)?)
}
