//! Flush: turns a sealed memtable into the tables of a level-0 run.
//!
//! Records that no snapshot can see are left out; tombstones stay, since older tables may hold
//! their keys. The caller makes the result part of the version, in the order the memtables were
//! sealed.
//! Crash: until that edit is durable the WAL still holds everything; the tables are orphans.

use crate::cursor::Cursor;
use crate::iter::Retention;
use crate::memtable::Memtable;
use crate::options::KeyspaceOptions;
use crate::table::Origin;
use crate::version::{RunOutput, SeparatedOutput, TableStore, Version, Written};
use esker_base::{Error, Result, Seq};
use std::sync::Arc;

/// Records between two looks at `stop`.
const STOP_INTERVAL: u32 = 4096;

/// What of a memtable nobody sees.
#[derive(Clone, Copy)]
pub(crate) struct Hidden<'a> {
    /// Sequence numbers of live snapshots, ascending.
    snapshots: &'a [Seq],
    /// What was erased, if that may be in memtables.
    version: Option<&'a Version>,
    /// Up to which sequence number anything was.
    erased_seq: Seq,
}

impl<'a> Hidden<'a> {
    /// By snapshots and by what was erased.
    pub(crate) fn of(snapshots: &'a [Seq], version: &'a Version) -> Hidden<'a> {
        let erased_seq = version.erased_seq;
        let version = Some(version).filter(|version| !version.erased.is_empty());
        Hidden { snapshots, version, erased_seq }
    }

    /// Nothing but what newer records hide.
    pub(crate) fn by_newer() -> Hidden<'a> {
        Hidden { snapshots: &[], version: None, erased_seq: 0 }
    }
}

/// Writes `mem`'s records as tables of level 0. Empty if nothing in it can be seen.
///
/// `stop` is asked now and then. Large values that stand in the memtable, as they do in a store
/// without a log, go into files of up to `value_file_bytes`, if that is given and the keyspace
/// keeps them apart.
///
/// # Errors
/// Of the disk, and `Cancelled` if `stop` says so; in both cases no file is left behind.
pub(crate) fn flush_memtable(
    store: &Arc<TableStore>,
    options: &Arc<KeyspaceOptions>,
    origin: Origin,
    mem: &Arc<Memtable>,
    hidden: &Hidden<'_>,
    value_file_bytes: Option<u64>,
    stop: &dyn Fn() -> bool,
) -> Result<Written> {
    let Hidden { snapshots, version, erased_seq } = *hidden;
    let tombstones = mem.united_range_tombstones();
    let kept = tombstones.thinned(snapshots).collect();
    let (to, with) = (store.clone(), options.clone());
    let mut tables = RunOutput::new(to, with, origin, 0, kept, Vec::new());
    tables.leave_out_erased(erased_seq);
    let mut output = SeparatedOutput::new(tables, store.clone(), options.clone(), value_file_bytes);
    let mut retention = Retention::new(&options.order, snapshots, &tombstones);
    let mut cursor = mem.sealed_cursor();
    let mut until_check = STOP_INTERVAL;
    cursor.seek_to_first()?;
    while cursor.valid() {
        let (key, trailer) = (cursor.key(), cursor.trailer());
        let erased = version.and_then(|version| version.erased_over(&options.order, key));
        let is_erased = erased.is_some_and(|seq| trailer.seq() <= seq);
        if !is_erased && retention.is_seen(key, trailer) {
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
