//! What can be typed in the shell.

use crate::bytes::Encoding;
use crate::commands::find::FindArgs;
use crate::commands::scan::ScanArgs;
use crate::failure::{Failure, Result};
use crate::range::RangeArgs;
use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// What `help` prints.
pub(super) const HELP: &str = "\
get KEY                    print the value of a key
put KEY VALUE              set a key
delete KEY                 remove a key
delete --from A --to B     remove a range, B exclusive
scan                       print records: [--from A] [--to B] [--prefix P] [--reverse]
                           [--limit N] [--keys-only] [--values] [--raw]
find FIELD [VALUE]         print records by what a field holds: [--from A] [--to B]
                           [--type T] [--scan] [--limit N] [--count]
                           [--keys-only] [--values] [--raw]
count                      count keys: [--from A] [--to B] [--prefix P]
stats                      what the store holds
levels                     the shape of the tree
flush                      write what is in memory to tables
sync                       make every write so far durable
quit                       end, as does Ctrl-D
Words: 'as it stands', \"with \\n, \\t, \\xNN\"; # begins a comment line.";

/// A line of the shell.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true, disable_help_subcommand = true)]
pub(super) struct Line {
    #[command(subcommand)]
    pub(super) command: LineCommand,
}

/// Its command.
#[derive(Debug, Subcommand)]
#[command(disable_help_flag = true)]
pub(super) enum LineCommand {
    Get {
        #[arg(allow_negative_numbers = true)]
        key: OsString,
    },
    Put {
        #[arg(allow_negative_numbers = true)]
        key: OsString,
        #[arg(allow_negative_numbers = true)]
        value: OsString,
    },
    Delete(DeleteArgs),
    Scan(ScanArgs),
    Find(FindArgs),
    Count(RangeArgs),
    Stats,
    Levels,
    Flush,
    Sync,
    Help,
    #[command(alias = "exit")]
    Quit,
}

/// A key or a range.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").args(["key", "from"]).required(true))]
pub(super) struct DeleteArgs {
    #[arg(allow_negative_numbers = true)]
    key: Option<OsString>,
    #[arg(long, requires = "to", allow_negative_numbers = true)]
    from: Option<OsString>,
    #[arg(long, requires = "from", allow_negative_numbers = true)]
    to: Option<OsString>,
}

/// What is to be removed.
pub(super) enum Doomed {
    Key(Vec<u8>),
    Range(Vec<u8>, Vec<u8>),
}

impl DeleteArgs {
    /// The bytes that were typed.
    pub(super) fn decode(&self, encoding: Encoding) -> Result<Doomed> {
        if let Some(key) = &self.key {
            return Ok(Doomed::Key(encoding.decode(key.as_bytes())?));
        }
        let range = RangeArgs { from: self.from.clone(), to: self.to.clone(), prefix: None };
        let range = range.range(encoding)?;
        match (range.start, range.end) {
            (Some(from), Some(to)) => Ok(Doomed::Range(from, to)),
            _ => Err(Failure::usage("a range needs --from and --to")),
        }
    }
}
