//! `esker find`: the records whose field holds a value, or a value of a range.

use crate::bytes::Encoding;
use crate::failure::{Code, Failure, Result};
use crate::fields::{Type, parse_name};
use crate::index;
use crate::interrupt::Interrupt;
use crate::lookup::{Lookup, Typed, borrowed};
use crate::output::{Output, to_terminal};
use crate::pair::{ShowArgs, Style};
use crate::progress::{At, Progress};
use crate::store::{Store, StoreArgs};
use esker::fields::{FieldRef, RecordView, find_coded};
use esker::{FindOptions, ScanOptions, Snapshot};
use serde_json::json;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// Records between two looks at the clock while all are read.
const RECORDS_A_LOOK: u64 = 1024;

/// Memory of a walk in no order, for values that are kept apart.
const WALK_BYTES: usize = 16 << 20;

/// Print the records whose field holds a value, or a value of a range
///
/// Goes through the index of the field, which `esker index create` makes, and prints as
/// `esker scan` does, in the order of the values and then of the keys. With FIELD alone it prints
/// all records that have the field.
///
/// VALUE, --from and --to are looked for as every type that they can be read as: text, integer,
/// float, boolean, and null for the word null. --type names one. A range holds values of the type
/// of its ends and no others, also where it is open. What is no UTF-8 is looked for as bytes.
///
/// --scan needs no index: it reads all records, and prints in the order of their keys.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "Examples:
  esker find --db store extension rs
  esker find --db store size --from 1000000 --type integer --limit 10
  esker find --db store name --from a --to b --keys-only
  esker find --db store target --count
  esker find --db store --scan kind symlink")]
pub(crate) struct Args {
    #[command(flatten)]
    find: FindArgs,

    /// How keys and values are written
    #[arg(long, value_enum, default_value_t)]
    encoding: Encoding,

    /// No progress
    #[arg(long, short)]
    quiet: bool,

    #[command(flatten)]
    store: StoreArgs,
}

/// What to find and what of it to print.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct FindArgs {
    /// The field
    #[arg(value_parser = parse_name)]
    field: String,

    /// What it holds
    #[arg(allow_negative_numbers = true, conflicts_with_all = ["from", "to"])]
    value: Option<OsString>,

    /// First value of a range
    #[arg(long, value_name = "VALUE", allow_negative_numbers = true)]
    from: Option<OsString>,

    /// End of the range, exclusive
    #[arg(long, value_name = "VALUE", allow_negative_numbers = true)]
    to: Option<OsString>,

    /// Only values of this type
    #[arg(long = "type", value_enum, value_name = "TYPE")]
    kind: Option<Type>,

    /// Read all records, without an index
    #[arg(long)]
    scan: bool,

    /// At most so many records
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    limit: Option<u64>,

    /// Only their number
    #[arg(long, conflicts_with_all = ["keys_only", "values", "raw"])]
    count: bool,

    #[command(flatten)]
    show: ShowArgs,
}

/// Finds them.
pub(crate) fn run(args: &Args) -> Result<()> {
    let interrupt = Interrupt::guard("interrupted: there may be more; run it again")?;
    // Mistakes in the arguments must show before anything is opened.
    args.find.lookup(args.encoding)?;
    let store = args.store.read()?;
    let mut out = Output::new();
    let style = Style { encoding: args.encoding, json: args.store.json };
    let quiet = args.quiet || args.store.json;
    print(&store, &args.find, (style, quiet), &mut out, &interrupt)?;
    out.finish()?;
    store.close()
}

impl FindArgs {
    fn lookup(&self, encoding: Encoding) -> Result<Lookup> {
        let decode = |typed: &OsString| encoding.decode(typed.as_bytes());
        let (from, to) = (self.from.as_ref().map(decode), self.to.as_ref().map(decode));
        let typed = match (&self.value, from.transpose()?, to.transpose()?) {
            (Some(value), ..) => Typed::Value(decode(value)?),
            (None, None, None) => Typed::All,
            (None, from, to) => Typed::Range(from, to),
        };
        Lookup::new(&typed, self.kind)
    }
}

/// Prints what an open store holds of it. `quiet`: no progress.
pub(crate) fn print(
    store: &Store,
    args: &FindArgs,
    (style, quiet): (Style, bool),
    out: &mut Output,
    interrupt: &Interrupt,
) -> Result<()> {
    let lookup = args.lookup(style.encoding)?;
    if !args.scan {
        expect_index(store, &args.field)?;
    }
    // Keys and records are of one moment.
    let snapshot = store.db.snapshot();
    let mut finder = Finder { store, args, style, snapshot: &snapshot, interrupt, found: 0 };
    if args.scan {
        finder.by_reading(&lookup, quiet, out)?;
    } else {
        finder.by_index(&lookup, out)?;
    }
    match args.count {
        true if style.json => out.json(&json!({ "count": finder.found })),
        true => out.line(&finder.found.to_string()),
        false => Ok(()),
    }
}

/// Fails if finds cannot go through the index of a field.
fn expect_index(store: &Store, field: &str) -> Result<()> {
    let Some(info) = index::find(store, field)? else {
        let typed = index::typed(field);
        let advice =
            format!("`esker index create {typed}` makes one, --scan reads all records instead");
        return Err(index::missing(store, field, &advice));
    };
    if index::is_ready(&info) {
        return Ok(());
    }
    let done = info.keys_done;
    Err(Failure::other(format!(
        "the index of field {field:?} is not ready, {done} keys are done: `esker index wait` opens the store for writing \
         and builds it, --scan reads all records instead"
    )))
}

struct Finder<'a> {
    store: &'a Store,
    args: &'a FindArgs,
    style: Style,
    snapshot: &'a Snapshot,
    interrupt: &'a Interrupt,
    found: u64,
}

impl Finder<'_> {
    fn is_full(&self) -> bool {
        self.args.limit.is_some_and(|limit| self.found >= limit)
    }

    fn check_interrupt(&self) -> Result<()> {
        if self.interrupt.asked() { Err(self.interrupt.ended()) } else { Ok(()) }
    }

    fn by_index(&mut self, lookup: &Lookup, out: &mut Output) -> Result<()> {
        let keyspace = &self.store.keyspace;
        let options = FindOptions { snapshot: Some(self.snapshot), fill_cache: false };
        for range in &lookup.0 {
            if self.is_full() {
                break;
            }
            let mut found = keyspace.find_range(&self.args.field, borrowed(range), &options)?;
            while !self.is_full() && found.advance()? {
                self.check_interrupt()?;
                self.found += 1;
                if self.args.count {
                    continue;
                }
                let key = found.key();
                if self.args.show.keys_only {
                    self.style.print(&self.args.show, key, b"", out)?;
                    continue;
                }
                let value = keyspace.get_at(key, self.snapshot)?;
                let value = value.ok_or_else(|| self.no_record(key))?;
                self.style.print(&self.args.show, key, &value, out)?;
            }
        }
        Ok(())
    }

    /// The failure of an index that names a key which is not there.
    fn no_record(&self, key: &[u8]) -> Failure {
        let (field, key) = (&self.args.field, self.style.encoding.show(key));
        let what = format!("the index of field {field:?} has key {key}, which is not there");
        Failure::new(Code::Corruption, format!("{what}: run `esker verify`"))
    }

    fn by_reading(&mut self, lookup: &Lookup, quiet: bool, out: &mut Output) -> Result<()> {
        let mut progress = Progress::start("reading", quiet);
        let whole = self.walk(lookup, &mut progress, out);
        progress.finish();
        // Said once the bar is gone.
        if whole? { Ok(()) } else { Err(self.interrupt.ended()) }
    }

    /// Goes through all records: in the order of keys, or of the disk where no order shows. False
    /// if it was interrupted.
    fn walk(&mut self, lookup: &Lookup, progress: &mut Progress, out: &mut Output) -> Result<bool> {
        let options = ScanOptions { fill_cache: false, ..ScanOptions::default() };
        let options = options.at(self.snapshot);
        let keyspace = &self.store.keyspace;
        let mut records = 0;
        if self.args.count {
            let mut cursor = keyspace.scan_unordered(&options, WALK_BYTES)?;
            while !self.is_full() && cursor.advance()? {
                records += 1;
                if !self.look(records, progress) {
                    return Ok(false);
                }
                self.found += u64::from(self.meets(lookup, cursor.value()));
            }
            return Ok(true);
        }
        // What is found must not be mixed up with a bar.
        let is_shown = to_terminal();
        let mut cursor = keyspace.scan(&options)?;
        cursor.seek_to_first()?;
        while !self.is_full() && cursor.valid() {
            records += 1;
            if !self.look(records, progress) {
                return Ok(false);
            }
            if self.meets(lookup, cursor.value()) {
                self.found += 1;
                let (key, value) = (cursor.key(), cursor.value());
                let mut printed = Ok(());
                let mut print = || {
                    printed = self.style.print(&self.args.show, key, value, out);
                    if is_shown && printed.is_ok() {
                        printed = out.flush();
                    }
                };
                if is_shown {
                    progress.suspend(print);
                } else {
                    print();
                }
                printed?;
            }
            cursor.next()?;
        }
        Ok(true)
    }

    /// Shows how far it is; false if it is to end.
    fn look(&self, records: u64, progress: &mut Progress) -> bool {
        if records.is_multiple_of(RECORDS_A_LOOK) {
            progress.at(At { records, ..At::default() });
        }
        !self.interrupt.asked()
    }

    /// True if a value is a record whose field holds what is looked for.
    fn meets(&self, lookup: &Lookup, value: &[u8]) -> bool {
        find_coded(value, &self.args.field)
            .and_then(|coded| FieldRef::from_coded(coded).ok())
            .is_some_and(|found| lookup.contains(found) && RecordView::parse(value).is_ok())
    }
}
