//! `esker scan`: the keys and values of a range.

use crate::bytes::Encoding;
use crate::failure::Result;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::pair::{ShowArgs, Style};
use crate::range::RangeArgs;
use crate::store::{Store, StoreArgs};
use esker::ScanOptions;

/// Print the keys and values of a range, in order
///
/// One record a line: key, tab, value, with line breaks and what a terminal would act upon escaped;
/// a value that is a record of fields comes as a JSON object. --raw prints the bytes as they are.
/// With --json each line is an object with `key` and `value`, with `fields` in place of `value` for
/// a record of fields, or with `key_hex` and `value_hex` where the bytes are no UTF-8 or --encoding
/// hex is given.
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

    #[command(flatten)]
    show: ShowArgs,
}

/// Prints them.
pub(crate) fn run(args: &Args) -> Result<()> {
    let interrupt = Interrupt::guard("interrupted: more records follow; run it again")?;
    let store = args.store.read()?;
    let mut out = Output::new();
    let style = Style { encoding: args.encoding, json: args.store.json };
    print(&store, &args.scan, style, &mut out, &interrupt)?;
    out.finish()?;
    store.close()
}

/// Prints the records of an open store.
pub(crate) fn print(
    store: &Store,
    args: &ScanArgs,
    style: Style,
    out: &mut Output,
    interrupt: &Interrupt,
) -> Result<()> {
    let range = args.range.range(style.encoding)?;
    let options = ScanOptions { keys_only: args.show.keys_only, ..range.scan() };
    let mut cursor = store.keyspace.scan(&options)?;
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
        style.print(&args.show, cursor.key(), cursor.value(), out)?;
        left -= 1;
        if args.reverse {
            cursor.prev()?;
        } else {
            cursor.next()?;
        }
    }
    Ok(())
}
