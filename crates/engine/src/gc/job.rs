//! How values are collected: find what is pointed to, copy it in order.

use crate::table::LogShare;
use crate::value_log::{MovedWriter, ValueFile, ValueFileMeta};
use crate::version::{Table, TableStore};
use esker_base::{Error, Result};
use std::sync::Arc;

/// A file that is to be collected.
#[derive(Clone, Debug)]
pub(crate) struct Victim {
    pub(crate) file: Arc<ValueFile>,
    pub(crate) meta: ValueFileMeta,
}

/// Copies what `tables` point to of the victims into a new file. `None` if that is nothing.
///
/// `stop` is asked now and then.
///
/// # Errors
/// Of the disk, and `Cancelled` if `stop` says so; in both cases no file is left behind.
/// `Corruption` if a value cannot be read: nothing is given up then.
/// # Cost
/// Reads what the tables say of the victims' logs, and of the victims the live values and what lies
/// closely between them; writes the live values once. For each of these it takes up to 32 bytes of
/// memory, and up to 24 more for those of one log.
pub(crate) fn collect(
    store: &TableStore,
    victims: &[Victim],
    tables: &[Arc<Table>],
    stop: &dyn Fn() -> bool,
) -> Result<Option<ValueFileMeta>> {
    let mut logs: Vec<(u64, &Victim)> = victims
        .iter()
        .flat_map(|victim| victim.meta.logs.iter().map(move |&log| (log, victim)))
        .collect();
    logs.sort_by_key(|(log, _)| *log);
    let live = references(&logs, tables, stop)?;
    if live.is_empty() {
        return Ok(None);
    }
    let number = store.new_number();
    let written = copy(store, number, &logs, &live, stop);
    if written.is_err() {
        // What stays behind is an orphan, which the next open removes.
        let path = crate::names::values(&store.dir, number);
        let _ = store.in_directory(|vfs| vfs.remove(&path));
    }
    written.map(Some)
}

/// Log and place of each value of these logs that a table points to, in order.
fn references(
    logs: &[(u64, &Victim)],
    tables: &[Arc<Table>],
    stop: &dyn Fn() -> bool,
) -> Result<Vec<(u64, u64)>> {
    let wanted = |log: u64| logs.binary_search_by_key(&log, |(number, _)| *number).is_ok();
    let (Some(first), Some(last)) = (logs.first(), logs.last()) else { return Ok(Vec::new()) };
    let mut live = Vec::new();
    for table in tables {
        if !table.meta.references.iter().any(|share: &LogShare| wanted(share.log)) {
            continue;
        }
        table.shared_reader()?.references(first.0, last.0, |log, from| {
            if wanted(log) {
                live.push((log, from));
            }
        })?;
        if stop() {
            return Err(Error::Cancelled);
        }
    }
    live.sort_unstable();
    live.dedup();
    Ok(live)
}

fn copy(
    store: &TableStore,
    number: u64,
    logs: &[(u64, &Victim)],
    live: &[(u64, u64)],
    stop: &dyn Fn() -> bool,
) -> Result<ValueFileMeta> {
    let mut writer = store.in_directory(|_| MovedWriter::create(&store.env, &store.dir, number))?;
    for of_log in live.chunk_by(|a, b| a.0 == b.0) {
        let log = of_log[0].0;
        let at = logs.binary_search_by_key(&log, |(number, _)| *number);
        let (_, victim) = logs[at.expect("only these logs were asked for")];
        let froms: Vec<u64> = of_log.iter().map(|(_, from)| *from).collect();
        victim.file.read_all(log, &froms, |from, codec, stored| {
            if stop() {
                return Err(Error::Cancelled);
            }
            writer.add(log, from, codec, stored)
        })?;
    }
    let meta = writer.finish()?;
    store.sync_dir()?;
    Ok(meta)
}
