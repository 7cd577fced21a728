//! `esker scan`: the keys and values of a range.

use crate::bytes::{Encoding, to_hex};
use crate::failure::Result;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::range::RangeArgs;
use crate::store::{Store, StoreArgs};
use serde::Serialize;

/// Print the keys and values of a range, in order
///
/// One record a line: key, tab, value, with line breaks and what a terminal would act upon escaped. --raw prints the bytes
/// as they are. With --json each line is an object with `key` and `value`, or with `key_hex` and `value_hex` where the
/// bytes are no UTF-8 or --encoding hex is given.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "Examples:
  esker scan --db store --limit 10
  esker scan --db store --prefix bin/ --keys-only
  esker scan --db store --from a --to c --reverse
  esker scan --db store --values | head")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) scan: ScanArgs,

    /// How keys and values are written
    #[arg(long, value_enum, default_value_t)]
    encoding: Encoding,

    #[command(flatten)]
    store: StoreArgs,
}

/// What to scan and what of it to print.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct ScanArgs {
    #[command(flatten)]
    range: RangeArgs,

    /// From the last key to the first
    #[arg(long)]
    reverse: bool,

    /// At most so many records
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    limit: Option<u64>,

    /// Only keys
    #[arg(long, conflicts_with = "values")]
    keys_only: bool,

    /// Only values
    #[arg(long)]
    values: bool,

    /// Print the bytes as they are
    #[arg(long)]
    raw: bool,
}

/// A record as JSON.
#[derive(Debug, Default, Serialize)]
pub(crate) struct JsonPair {
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_hex: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_hex: Option<String>,
}

impl JsonPair {
    /// Text where the bytes are UTF-8, hexadecimal where not or if asked for.
    pub(crate) fn new(encoding: Encoding, key: Option<&[u8]>, value: Option<&[u8]>) -> JsonPair {
        let split = |bytes: Option<&[u8]>| match bytes {
            None => (None, None),
            Some(bytes) => match (encoding, std::str::from_utf8(bytes)) {
                (Encoding::Text, Ok(text)) => (Some(text.to_owned()), None),
                (Encoding::Escaped, _) => (Some(encoding.show(bytes)), None),
                _ => (None, Some(to_hex(bytes))),
            },
        };
        let ((key, key_hex), (value, value_hex)) = (split(key), split(value));
        JsonPair { key, key_hex, value, value_hex }
    }
}

/// Prints them.
pub(crate) fn run(args: &Args) -> Result<()> {
    let interrupt = Interrupt::guard("interrupted: more records follow; run it again")?;
    let store = args.store.read()?;
    let mut out = Output::new();
    let how = (args.encoding, args.store.json);
    print(&store, &args.scan, how, &mut out, &interrupt)?;
    out.finish()?;
    store.close()
}

/// Prints the records of an open store.
pub(crate) fn print(
    store: &Store,
    args: &ScanArgs,
    (encoding, json): (Encoding, bool),
    out: &mut Output,
    interrupt: &Interrupt,
) -> Result<()> {
    let mut cursor = store.keyspace.scan(&args.range.range(encoding)?.scan())?;
    if args.reverse {
        cursor.seek_to_last()?;
    } else {
        cursor.seek_to_first()?;
    }
    let mut left = args.limit.unwrap_or(u64::MAX);
    while cursor.valid() && left > 0 {
        if interrupt.asked() {
            return Err(interrupt.ended());
        }
        let key = (!args.values).then(|| cursor.key());
        let value = (!args.keys_only).then(|| cursor.value());
        if json {
            out.json(&JsonPair::new(encoding, key, value))?;
        } else {
            print_line(args.raw, encoding, key, value, out)?;
        }
        left -= 1;
        if args.reverse {
            cursor.prev()?;
        } else {
            cursor.next()?;
        }
    }
    Ok(())
}

fn print_line(
    raw: bool,
    encoding: Encoding,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    out: &mut Output,
) -> Result<()> {
    for (i, part) in [key, value].into_iter().flatten().enumerate() {
        if i > 0 {
            out.raw(b"\t")?;
        }
        if raw {
            out.raw(part)?;
        } else {
            out.raw(encoding.show(part).as_bytes())?;
        }
    }
    out.raw(b"\n")
}
