//! The commands, one file each: its arguments, its help, and what it does.

mod checkpoint;
mod compact;
mod completions;
pub(crate) mod count;
mod delete;
mod dump;
pub(crate) mod find;
mod flush;
mod gc;
mod get;
mod groups;
mod index;
mod keyspaces;
pub(crate) mod levels;
mod load;
mod man;
mod options;
mod put;
mod repair;
mod replay;
pub(crate) mod scan;
mod shell;
mod simulate;
pub(crate) mod stats;
mod tour;
pub(crate) mod verify;
mod watch;

use crate::failure::{EXIT_CODES, Result};
use crate::tour::child;
use clap::{CommandFactory, Parser, Subcommand};

/// Work with Esker stores: embedded key-value stores on a log-structured merge-tree
///
/// Each store is a directory. Name it with --db, or for many commands with the variable ESKER_DB.
/// Commands that only read open it read-only and change nothing on the disk; only `load`, `put` and
/// `tour` create one.
#[derive(Debug, Parser)]
#[command(name = "esker", version, max_term_width = 100, after_help = EXIT_CODES)]
#[command(propagate_version = true, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Esker {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Tour(tour::Args),
    Load(load::Args),
    Get(get::Args),
    Put(put::Args),
    Delete(delete::Args),
    Scan(scan::Args),
    Find(find::Args),
    Count(count::Args),
    Shell(shell::Args),
    Keyspaces(keyspaces::Args),
    Index(index::Args),
    Groups(groups::Args),
    Stats(stats::Args),
    Levels(levels::Args),
    Verify(verify::Args),
    Repair(repair::Args),
    Dump(dump::Args),
    Flush(flush::Args),
    Compact(compact::Args),
    Gc(gc::Args),
    Checkpoint(checkpoint::Args),
    Options(options::Args),
    Simulate(simulate::Args),
    Replay(replay::Args),
    Watch(watch::Args),
    Completions(completions::Args),
    Man(man::Args),
    /// What the tour kills.
    #[command(hide = true, name = "tour-writer")]
    TourWriter(child::Args),
}

/// Does it.
pub(crate) fn run(command: Command) -> Result<()> {
    match command {
        Command::Tour(args) => tour::run(&args),
        Command::Load(args) => load::run(&args),
        Command::Get(args) => get::run(&args),
        Command::Put(args) => put::run(&args),
        Command::Delete(args) => delete::run(&args),
        Command::Scan(args) => scan::run(&args),
        Command::Find(args) => find::run(&args),
        Command::Count(args) => count::run(&args),
        Command::Shell(args) => shell::run(&args),
        Command::Keyspaces(args) => keyspaces::run(&args),
        Command::Index(args) => index::run(&args),
        Command::Groups(args) => groups::run(&args),
        Command::Stats(args) => stats::run(&args),
        Command::Levels(args) => levels::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Repair(args) => repair::run(&args),
        Command::Dump(args) => dump::run(&args),
        Command::Flush(args) => flush::run(&args),
        Command::Compact(args) => compact::run(&args),
        Command::Gc(args) => gc::run(&args),
        Command::Checkpoint(args) => checkpoint::run(&args),
        Command::Options(args) => options::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Watch(args) => watch::run(&args),
        Command::Completions(args) => completions::run(&args, Esker::command()),
        Command::Man(args) => man::run(&args, Esker::command()),
        Command::TourWriter(args) => child::run(&args),
    }
}
