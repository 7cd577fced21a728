//! `esker get`: the value of a key.

use crate::bytes::{Encoding, printable};
use crate::failure::{Code, Failure, Result};
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::pair::{JsonPair, show_value};
use crate::store::StoreArgs;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// Print the value of a key
///
/// The value is printed on one line, with what a terminal would act upon escaped; a record of
/// fields as a JSON object. --raw prints the bytes as they are and nothing else. Exits with 4 if
/// the key is not there.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "Examples:
  esker get --db store bin/ls
  esker get --db store --raw picture > picture.png
  esker get --db store --encoding hex 00ff")]
pub(crate) struct Args {
    /// The key
    #[arg(allow_negative_numbers = true)]
    key: OsString,

    /// Print the bytes as they are
    #[arg(long)]
    raw: bool,

    /// How keys and values are written
    #[arg(long, value_enum, default_value_t)]
    encoding: Encoding,

    #[command(flatten)]
    store: StoreArgs,
}

/// Prints it.
pub(crate) fn run(args: &Args) -> Result<()> {
    let key = args.encoding.decode(args.key.as_bytes())?;
    let _guard = Interrupt::guard("interrupted: nothing was read; run it again")?;
    let store = args.store.read()?;
    let Some(value) = store.keyspace.get(&key)? else {
        let shown = printable(args.key.as_bytes());
        let dir = store.dir.display();
        return Err(Failure::new(
            Code::NotFound,
            format!("no key {shown} in {dir}: `esker scan --prefix` lists what is there"),
        ));
    };
    let mut out = Output::new();
    if args.store.json {
        out.json(&JsonPair::new(args.encoding, Some(&key), Some(&value)))?;
    } else if args.raw {
        out.raw(&value)?;
    } else {
        out.line(&show_value(args.encoding, &value))?;
    }
    out.finish()?;
    store.close()
}
