//! `esker dump`: shows what is in a file of a store.

use crate::failure::{Code, Failure, Result};
use crate::interrupt::Interrupt;
use crate::output::{Output, conclude};
use crate::units;
use esker::KeyOrder;
use esker::base::Env;
use esker::inspect::{
    CurrentDump, DumpOptions, LogEvent, TableEvent, dump_current, dump_log, dump_table,
};
use serde::Serialize;
use std::fmt::Display;
use std::path::PathBuf;

/// Show what is in a log, a file of values, a manifest, a table or CURRENT
///
/// Reads one file as it is, without opening the store, and goes on behind damage as far as it can.
/// The file's name says what it is: `NNNNNN.wal`, `NNNNNN.val`, `MANIFEST-NNNNNN`, `NNNNNN.tbl` or
/// `CURRENT`. Exits with 3 if anything is damaged.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "Examples:
  esker dump store/CURRENT
  esker dump store/MANIFEST-000012
  esker dump --records store/000009.tbl
  esker dump --json store/000007.wal | jq .")]
pub(crate) struct Args {
    /// The file
    file: PathBuf,

    /// Show every record of a table
    #[arg(long)]
    records: bool,

    /// Bytes shown of each value
    #[arg(long, value_name = "N", default_value_t = 64)]
    value_bytes: usize,

    /// The file's salt in hexadecimal, if its own header or footer is damaged: the manifest tells
    /// it
    #[arg(long, value_name = "HEX", value_parser = parse_salt)]
    salt: Option<u64>,

    /// Write JSON for machines, one value a line
    #[arg(long)]
    json: bool,
}

fn parse_salt(text: &str) -> std::result::Result<u64, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16).map_err(|error| error.to_string())
}

/// Dumps.
pub(crate) fn run(args: &Args) -> Result<()> {
    let _guard = Interrupt::guard("interrupted: there is more; run it again")?;
    let env = Env::posix();
    let options =
        DumpOptions { records: args.records, value_bytes_max: args.value_bytes, salt: args.salt };
    let mut out = Output::new();
    let name = args.file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let mut failed = None;
    // What was told before an error is shown.
    let mut dumped = Ok(());
    let mut damaged = 0;
    let mut show = |event: &dyn Shown| {
        damaged += u64::from(event.is_damage());
        if failed.is_none() {
            failed = event.show(&mut out, args.json).err();
        }
    };
    if name == "CURRENT" {
        show(&dump_current(env.vfs.as_ref(), &args.file)?);
    } else if [".wal", ".val"].iter().any(|end| name.ends_with(end))
        || name.starts_with("MANIFEST-")
    {
        dump_log(env.vfs.as_ref(), &args.file, &options, |event| show(event))?;
    } else if name.ends_with(".tbl") {
        let order = KeyOrder::Bytewise;
        dumped = dump_table(env.vfs.as_ref(), &args.file, &order, &options, |event| show(event));
    } else {
        let file = args.file.display();
        let what = "name a NNNNNN.wal, NNNNNN.val, MANIFEST-NNNNNN, NNNNNN.tbl or CURRENT";
        return Err(Failure::usage(format!("{file} is no file of a store: {what}")));
    }
    let written = failed.map_or_else(|| out.finish(), Err);
    let found = dumped.map_err(Failure::from).and_then(|()| match damaged {
        0 => Ok(()),
        _ => Err(damage(args, damaged)),
    });
    conclude(found, written)
}

fn damage(args: &Args, places: u64) -> Failure {
    let places = units::plural(places, "place", "places");
    let what =
        format!("{} is damaged in {places}: repair, or restore a backup", args.file.display());
    Failure::new(Code::Corruption, what)
}

/// An event that can be written in either form.
trait Shown {
    fn show(&self, out: &mut Output, json: bool) -> Result<()>;

    /// True if it tells of something that should not be so.
    fn is_damage(&self) -> bool;
}

fn show_either(event: &(impl Serialize + Display), out: &mut Output, json: bool) -> Result<()> {
    if json { out.json(event) } else { out.line(&event.to_string()) }
}

impl Shown for CurrentDump {
    fn show(&self, out: &mut Output, json: bool) -> Result<()> {
        show_either(self, out, json)
    }

    fn is_damage(&self) -> bool {
        !self.sound
    }
}

impl Shown for LogEvent {
    fn show(&self, out: &mut Output, json: bool) -> Result<()> {
        show_either(self, out, json)
    }

    fn is_damage(&self) -> bool {
        use LogEvent::{Damage, HeaderDamage, Malformed};
        matches!(self, HeaderDamage { .. } | Malformed { .. } | Damage { .. })
    }
}

impl Shown for TableEvent {
    fn show(&self, out: &mut Output, json: bool) -> Result<()> {
        show_either(self, out, json)
    }

    fn is_damage(&self) -> bool {
        matches!(self, TableEvent::Damage { .. })
    }
}
