//! `esker put`: sets a key.

use crate::bytes::Encoding;
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::store::StoreArgs;
use serde_json::json;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Set a key to a value
///
/// Creates the store if there is none, in a new or empty directory. When the command ends well, the
/// value is on stable storage.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "Examples:
  esker put --db store bread 2
  esker put --db store --file picture.png picture
  date | esker put --db store --file - now
  esker put --db store --encoding escaped 'a\\x00b' 'two\\nlines'")]
pub(crate) struct Args {
    /// The key
    #[arg(allow_negative_numbers = true)]
    key: OsString,

    /// The value
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    #[arg(allow_negative_numbers = true)]
    value: Option<OsString>,

    /// Take the value from a file, as it is; `-` is standard input
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// How keys and values are written
    #[arg(long, value_enum, default_value_t)]
    encoding: Encoding,

    #[command(flatten)]
    store: StoreArgs,
}

/// Sets it.
pub(crate) fn run(args: &Args) -> Result<()> {
    let key = args.encoding.decode(args.key.as_bytes())?;
    let value = match (&args.value, &args.file) {
        (Some(value), _) => args.encoding.decode(value.as_bytes())?,
        (None, Some(file)) => read_value(file)?,
        (None, None) => return Err(Failure::usage("no value: give one, or --file")),
    };
    let store = args.store.create()?;
    store.keyspace.put(&key, &value)?;
    store.close()?;
    if args.store.json {
        let mut out = Output::new();
        out.json(&json!({ "ok": true }))?;
        out.finish()?;
    }
    Ok(())
}

fn read_value(file: &Path) -> Result<Vec<u8>> {
    let limit = esker::base::key::VALUE_BYTES_MAX as u64;
    let fail = |error: io::Error| Failure::io("read", file, &error);
    let mut value = Vec::new();
    let source: Box<dyn Read> = match file.as_os_str() == "-" {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(file).map_err(fail)?),
    };
    source.take(limit + 1).read_to_end(&mut value).map_err(fail)?;
    if value.len() as u64 > limit {
        return Err(Failure::usage(format!("{} is longer than 1 GiB: split it", file.display())));
    }
    Ok(value)
}
