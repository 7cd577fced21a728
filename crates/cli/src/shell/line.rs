//! What can be typed in the shell.

use crate::bytes::Encoding;
use crate::commands::scan::ScanArgs;
use crate::failure::{Failure, Result};
use crate::range::RangeArgs;
use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// A line of the shell.
#[derive(Debug, Parser)]
#[command(multicall = true, disable_help_flag = true, disable_help_subcommand = true)]
#[command(help_template = "{subcommands}")]
pub(super) struct Line {
    #[command(subcommand)]
    pub(super) command: LineCommand,
}

/// Its command.
#[derive(Debug, Subcommand)]
#[command(disable_help_flag = true)]
pub(super) enum LineCommand {
    /// get KEY: print a value
    Get { key: OsString },
    /// put KEY VALUE: set a key
    Put {
        key: OsString,
        #[arg(allow_negative_numbers = true)]
        value: OsString,
    },
    /// delete KEY, or delete --from A --to B: remove a key or a range
    Delete(DeleteArgs),
    /// scan [--from A] [--to B] [--prefix P] [--reverse] [--limit N] [--keys-only] [--values] [--raw]
    Scan(ScanArgs),
    /// count [--from A] [--to B] [--prefix P]
    Count(RangeArgs),
    /// what the store holds
    Stats,
    /// the shape of the tree
    Levels,
    /// write what is in memory to tables
    Flush,
    /// make every write so far durable
    Sync,
    /// this list
    Help,
    /// end; so does the end of the input
    #[command(alias = "exit")]
    Quit,
}

/// A key or a range.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").args(["key", "from"]).required(true))]
pub(super) struct DeleteArgs {
    key: Option<OsString>,
    #[arg(long, requires = "to")]
    from: Option<OsString>,
    #[arg(long, requires = "from")]
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
