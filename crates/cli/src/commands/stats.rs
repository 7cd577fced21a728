//! `esker stats`: what the store holds.

use crate::bytes::printable;
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::store::{Store, StoreArgs, or_all};
use crate::units;
use esker::names::{self, FileKind};
use esker::report::{IndexStats, KeyspaceStats, Stats, ValueStats};
use serde::Serialize;
use std::fmt::Display;

/// Print what the store holds: keyspaces, levels, indexes of fields, files on the disk
///
/// With --keyspace one keyspace is shown; writes, files on the disk and values apart are those of
/// all of them.
#[derive(clap::Args, Debug)]
#[command(mut_arg("keyspace", or_all))]
#[command(after_long_help = "Examples:
  esker stats --db store
  esker stats --db store --values
  esker stats --db store --json | jq .disk")]
pub(crate) struct Args {
    #[command(flatten)]
    store: StoreArgs,
    /// A line for each file of values too, those with most to collect first; --json has them always
    #[arg(long)]
    values: bool,
}

/// Bytes of the files of a store.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Disk {
    pub(crate) files: u64,
    pub(crate) table_bytes: u64,
    pub(crate) log_bytes: u64,
    pub(crate) value_bytes: u64,
    pub(crate) other_bytes: u64,
}

impl Disk {
    /// All of it.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.table_bytes + self.log_bytes + self.value_bytes + self.other_bytes
    }
}

#[derive(Serialize)]
struct All<'a> {
    #[serde(flatten)]
    engine: &'a Stats,
    disk: Disk,
}

/// Prints them.
pub(crate) fn run(args: &Args) -> Result<()> {
    let store = args.store.read()?;
    let mut out = Output::new();
    print(&store, args.store.keyspace.as_deref(), args.store.json, &mut out)?;
    if args.values && !args.store.json {
        print_files(&store.db.stats().values, &mut out)?;
    }
    out.finish()?;
    store.close()
}

/// Prints the statistics of an open store, of one keyspace or all.
pub(crate) fn print(store: &Store, only: Option<&str>, json: bool, out: &mut Output) -> Result<()> {
    let mut stats = store.db.stats();
    stats.keyspaces.retain(|keyspace| only.is_none_or(|name| keyspace.name == name));
    stats.indexes.retain(|index| only.is_none_or(|name| index.keyspace == name));
    let disk = disk(store)?;
    if json {
        return out.json(&All { engine: &stats, disk });
    }
    out.line(&row("store", printable(store.dir.as_os_str().as_encoded_bytes())))?;
    out.line(&row("writes", format!("{} since it was created", units::count(stats.last_seq))))?;
    out.line(&row(
        "on disk",
        format!(
            "{} in {}: tables {}, logs {}, values {}, other {}",
            units::bytes(disk.total_bytes()),
            units::plural(disk.files, "file", "files"),
            units::bytes(disk.table_bytes),
            units::bytes(disk.log_bytes),
            units::bytes(disk.value_bytes),
            units::bytes(disk.other_bytes),
        ),
    ))?;
    if !stats.values.files.is_empty() {
        out.line(&row("values apart", in_words(&stats.values)))?;
    }
    for keyspace in &stats.keyspaces {
        out.line("")?;
        print_keyspace(keyspace, out)?;
        let here = stats.indexes.iter().filter(|index| index.keyspace == keyspace.name);
        here.map(index_in_words).try_for_each(|index| out.line(&row("index", index)))?;
    }
    Ok(())
}

fn row(name: &str, value: impl Display) -> String {
    format!("{name:16} {value}")
}

/// Prints what a keyspace has in memory and in its levels.
fn print_keyspace(keyspace: &KeyspaceStats, out: &mut Output) -> Result<()> {
    out.line(&row("keyspace", printable(keyspace.name.as_bytes())))?;
    out.line(&row(
        "in memory",
        format!(
            "{}, {}",
            units::plural(keyspace.memtable_entries, "record", "records"),
            units::bytes(keyspace.memtable_bytes)
        ),
    ))?;
    out.line("level   runs  tables       bytes       limit       records  tombstones")?;
    for (i, level) in keyspace.levels.iter().enumerate() {
        let limit = match (level.limit_bytes, level.limit_runs) {
            (0, 0) => "-".to_owned(),
            (0, runs) => format!("{runs} runs"),
            (bytes, _) => units::bytes(bytes),
        };
        out.line(&format!(
            "{i:5} {:6} {:7} {:>11} {limit:>11} {:>13} {:>11}",
            level.runs,
            level.tables,
            units::bytes(level.bytes),
            units::count(level.entries),
            units::count(level.tombstones + level.range_tombstones),
        ))?;
    }
    if keyspace.compaction_debt_bytes > 0 {
        let debt = units::bytes(keyspace.compaction_debt_bytes);
        out.line(&row("to compact", format!("about {debt}")))?;
    }
    if let Some(index) = &keyspace.run_index {
        let knows = format!(
            "knows {} of {} runs, {} in {}",
            index.runs,
            index.runs_total,
            units::plural(index.entries, "entry", "entries"),
            units::bytes(index.bytes)
        );
        out.line(&row("run index", knows))?;
    }
    Ok(())
}

fn index_in_words(index: &IndexStats) -> String {
    format!(
        "of {}, {}, {} in {}, {} in memory",
        printable(index.field.as_bytes()),
        if index.is_ready { "ready" } else { "not ready" },
        units::bytes(index.table_bytes),
        units::plural(index.tables, "table", "tables"),
        units::bytes(index.memtable_bytes),
    )
}

/// Prints a line for each file of values, those with most that is dead first.
fn print_files(values: &ValueStats, out: &mut Output) -> Result<()> {
    let mut files: Vec<_> = values.files.iter().collect();
    files.sort_by_key(|file| {
        (std::cmp::Reverse(file.bytes.saturating_sub(file.live_bytes)), file.number)
    });
    out.line("")?;
    out.line("  file        bytes        alive  alive %  from")?;
    for file in files {
        let share = file.live_bytes as f64 / file.bytes.max(1) as f64 * 100.0;
        out.line(&format!(
            "{:6} {:>12} {:>12} {share:>8.1}  {}",
            file.number,
            units::bytes(file.bytes),
            units::bytes(file.live_bytes),
            if file.moved { "values alone" } else { "log" },
        ))?;
    }
    Ok(())
}

fn in_words(values: &ValueStats) -> String {
    let moved = values.files.iter().filter(|file| file.moved).count() as u64;
    format!(
        "{} in {}, {} alive; {} with values alone, the others were logs",
        units::bytes(values.bytes),
        units::plural(values.files.len() as u64, "file", "files"),
        units::bytes(values.live_bytes),
        units::count(moved),
    )
}

/// What the directory of a store takes on the disk.
pub(crate) fn disk(store: &Store) -> Result<Disk> {
    let fail = |error: std::io::Error| Failure::io("read", &store.dir, &error);
    let mut disk = Disk::default();
    // A log that was kept for the sake of its values has its old name.
    let apart: std::collections::BTreeSet<u64> =
        store.db.stats().values.files.iter().map(|file| file.number).collect();
    for entry in std::fs::read_dir(&store.dir).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        // A file may go away while we look.
        let Ok(metadata) = entry.metadata() else { continue };
        if !metadata.is_file() {
            continue;
        }
        disk.files += 1;
        *match entry.file_name().to_str().and_then(names::parse) {
            Some(FileKind::Table(_)) => &mut disk.table_bytes,
            Some(FileKind::Values(_)) => &mut disk.value_bytes,
            Some(FileKind::Wal(number)) if apart.contains(&number) => &mut disk.value_bytes,
            Some(FileKind::Wal(_)) => &mut disk.log_bytes,
            _ => &mut disk.other_bytes,
        } += metadata.len();
    }
    Ok(disk)
}
