//! `esker delete`: removes a key or a range of keys.

use crate::bytes::Encoding;
use crate::failure::{Code, Failure, Result};
use crate::output::Output;
use crate::range::RangeArgs;
use crate::store::{Store, StoreArgs};
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
    let store = args.store.write()?;
    match (key, range.start, range.end) {
        (Some(key), ..) => remove_key(&store, &key, args.must_exist)?,
        (None, Some(start), Some(end)) => store.keyspace.delete_range(&start, &end)?,
        _ => return Err(Failure::usage("the range has no end: give --from and --to")),
    }
    store.close()?;
    if args.store.json {
        let mut out = Output::new();
        out.json(&json!({ "ok": true }))?;
        out.finish()?;
    }
    Ok(())
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
