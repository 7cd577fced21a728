//! Flush: turns a sealed memtable into the tables of a level-0 run.
//!
//! Records that no snapshot can see are left out; tombstones stay, since older tables may hold their
//! keys. The caller makes the result part of the version, in the order the memtables were sealed.
//! Crash: until that edit is durable the WAL still holds everything; the tables are orphans.

use crate::cursor::Cursor;
use crate::iter::Retention;
use crate::memtable::Memtable;
use crate::options::KeyspaceOptions;
use crate::table::Origin;
use crate::version::{RunOutput, SeparatedOutput, TableStore, Written};
use esker_base::{Error, Result, Seq};
use std::sync::Arc;

/// Records between two looks at `stop`.
const STOP_INTERVAL: u32 = 4096;

/// Writes `mem`'s records as tables of level 0. Empty if nothing in it can be seen.
///
/// `snapshots`: sequence numbers of live snapshots, ascending. `stop` is asked now and then. Large values that stand in the
/// memtable, as they do in a store without a log, go into files of up to `value_file_bytes`, if that is given and the keyspace
/// keeps them apart.
///
/// # Errors
/// Of the disk, and `Cancelled` if `stop` says so; in both cases no file is left behind.
pub(crate) fn flush_memtable(
    store: &Arc<TableStore>,
    options: &Arc<KeyspaceOptions>,
    origin: Origin,
    mem: &Arc<Memtable>,
    snapshots: &[Seq],
    value_file_bytes: Option<u64>,
    stop: &dyn Fn() -> bool,
) -> Result<Written> {
    let tombstones = mem.range_tombstones();
    let tables = RunOutput::new(
        store.clone(),
        options.clone(),
        origin,
        0,
        tombstones.fragments().to_vec(),
        Vec::new(),
    );
    let mut output = SeparatedOutput::new(tables, store.clone(), options.clone(), value_file_bytes);
    let mut retention = Retention::new(&options.order, snapshots, &tombstones);
    let mut cursor = mem.sealed_cursor();
    let mut until_check = STOP_INTERVAL;
    cursor.seek_to_first()?;
    while cursor.valid() {
        if retention.is_seen(cursor.key(), cursor.trailer()) {
            output.add(cursor.key(), cursor.trailer(), cursor.value())?;
        }
        cursor.next()?;
        until_check -= 1;
        if until_check == 0 {
            until_check = STOP_INTERVAL;
            if stop() {
                return Err(Error::Cancelled);
            }
        }
    }
    output.finish(store)
}
