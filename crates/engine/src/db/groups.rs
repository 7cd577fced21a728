//! Groups of keys are deleted at once: their own tables leave the tree, and what shares tables with
//! others is hidden.
//!
//! ```text
//! take a sequence number -> one edit: tables that hold nothing else leave; what is not newer is erased; the group is forgotten
//!                        -> readers see it at once, at whatever moment they read -> files go
//! ```
//!
//! Nothing is flushed or compacted. What was erased and shares tables with others is left out when
//! they are rewritten next, which the policy sees to; what is in memtables, when they are flushed.
//! Crash: the edit is in force as a whole, or not.
//! Source: PheonixLSM deletes the tables of a group after a flush and a compaction of level 0;
//! Pebble excises ranges from tables by giving them narrower bounds. Here tables stay as they are,
//! and the version says what is erased.

use super::core::{Core, KeyspaceCore};
use super::epochs::GroupIndex;
use super::flushing::{forget_wals, oldest_wal_of_memtables, remove_wals};
use super::group_range::GroupRange;
use crate::names;
use crate::report::GroupStats;
use crate::value_log::{Place, ValueFileMeta};
use crate::version::{Change, Table, TableMeta, VersionEdit, VersionSet, live_bytes};
use esker_base::sync::atomic::Ordering;
use esker_base::sync::{MutexGuard, thread};
use esker_base::{Error, KeyspaceId, Result, Seq};
use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

/// How long a deletion waits for readers that still hold its tables: far longer than a get takes.
const PASSING_NS: u64 = 2_000_000;
/// As often as that it looks, at the most.
const PASSING_TURNS: u32 = 100_000;

/// What the deletion of a group has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeletedGroup {
    /// Tables that held nothing else, and are gone.
    pub tables: u64,
    /// Files with values of which nothing else was needed, and which are gone.
    pub value_files: u64,
    /// Bytes of these files. They are free when this is told, unless a cursor still reads them, or
    /// a compaction of which they are no more than a half, or a run index is being made of a
    /// keyspace that they are of.
    pub file_bytes: u64,
    /// Tables that share what was deleted with others: it is hidden, and left out when they are
    /// rewritten, with rests, which may take minutes, or at once if somebody waits for it
    /// (`Db::wait_idle`).
    pub shared_tables: u64,
}

/// Deletes a group in all keyspaces whose keys stand in bytewise order.
pub(super) fn delete(core: &Core, group: &[u8]) -> Result<DeletedGroup> {
    core.check_writable()?;
    let range = Arc::new(GroupRange::of(group)?);
    // No index is made, and no keyspace made or dropped, until the group is gone.
    let _shared = core.indexes.gate.read();
    let keyspaces = concerned(core)?;
    let _one_at_a_time = core.right_to_erase();
    let _until_in_force = Erasing(core);
    let (seq, idle) = {
        let mut commit = core.commit.lock();
        let commit = commit.as_mut().ok_or(Error::Cancelled)?;
        core.epochs.lock().check_apart(&range.group)?;
        let seq = commit.take_seq(core)?;
        // Before anything newer is written: compactions that read that, and know of no erasure yet,
        // must not forget that it is newer.
        core.erasing_seq.store(seq, Ordering::Release);
        // What is applied in spite of the promise must not be noted in what is given up.
        core.epochs.lock().retire(&range.group);
        let idle = keyspaces.iter().filter(|keyspace| !keyspace.has_memtables());
        let idle: Vec<KeyspaceId> = idle.map(|keyspace| keyspace.id).collect();
        // Numbers up to this one must not be given to other records after a crash.
        commit.sync(core)?;
        // No record follows it in the log yet.
        core.visible_seq.store(seq, Ordering::Release);
        (seq, idle)
    };
    let (deleted, gone, wal_min, map) = {
        let mut versions = core.lock_versions()?;
        let mut edit = VersionEdit::new();
        let (deleted, gone) = erase(core, &versions, &range, seq, &mut edit);
        edit.push(Change::GroupForgotten(range.group.clone()));
        // What no memtable holds either can be forgotten when no table does: nothing else may ever
        // flush them.
        edit.changes.extend(idle.into_iter().map(|id| Change::Flushed { id, seq }));
        let wal_min =
            (!core.is_external()).then(|| forget_wals(core, &versions, |_, _| true, &mut edit));
        versions.commit(edit, None)?;
        core.note_erased(&range, seq);
        core.measure_values(&versions);
        core.forget_group(&range.group, seq);
        core.show_versions(&versions);
        (deleted, gone, wal_min, versions.value_map().clone())
    };
    if let Some(wal_min) = wal_min {
        remove_wals(core, wal_min, &map);
    }
    drop(map);
    core.measure_level0();
    // Also those who rest with tables that are to go.
    core.background.wake_workers();
    give_up(core, &gone);
    Ok(deleted)
}

/// What is being erased, until it is in force or was not possible.
struct Erasing<'a>(&'a Core);

impl Drop for Erasing<'_> {
    fn drop(&mut self) {
        self.0.erasing_seq.store(Seq::MAX, Ordering::Release);
    }
}

/// Removes the files of tables that have left, also of those that a reader holds who is just
/// passing.
fn give_up(core: &Core, gone: &[Weak<Table>]) {
    let until = core.env.clock.now_ns() + PASSING_NS;
    let is_held = |table: &Weak<Table>| table.strong_count() > 0;
    for _ in 0..PASSING_TURNS {
        if !gone.iter().any(is_held) || core.env.clock.now_ns() >= until {
            break;
        }
        thread::yield_now();
    }
    core.store.sweep();
}

impl Core {
    /// The right to erase groups, until what erases is in force or taken back: tables note up to
    /// which number they were cleared, so that one that comes later must be larger.
    pub(super) fn right_to_erase(&self) -> MutexGuard<'_, ()> {
        self.deleting.lock()
    }
}

/// How far the log of each group was applied, and what it has of the tables.
pub(super) fn statistics(core: &Core) -> Vec<GroupStats> {
    let keyspaces = core.keyspaces.load_full();
    let stats_of = |GroupIndex { group, applied, persisted, .. }: GroupIndex| {
        let mut stats = GroupStats { group, applied, persisted, ..GroupStats::default() };
        let Ok(range) = GroupRange::of(&stats.group) else { return stats };
        for keyspace in keyspaces.by_id.values() {
            let (order, view) = (&keyspace.options.order, keyspace.view.load());
            let runs = view.version.runs().filter(|_| order.is_bytewise());
            for table in runs.flat_map(|(_, run)| run.overlapping(order, &range.range())) {
                if !range.holds_all_of(&table.meta) {
                    stats.shared_tables += 1;
                    continue;
                }
                stats.tables += 1;
                stats.table_bytes += table.meta.file_bytes;
                stats.entries += table.meta.entries;
                stats.value_bytes += table.meta.value_bytes();
            }
        }
        stats
    };
    core.groups().into_iter().map(stats_of).collect()
}

/// The keyspaces in which a group may have keys.
pub(super) fn concerned(core: &Core) -> Result<Vec<Arc<KeyspaceCore>>> {
    let keyspaces = core.keyspaces.load();
    let indexes = keyspaces.by_id.values().filter_map(|one| names::parse_index(&one.name));
    if let Some((of, field)) = indexes.min() {
        let of = keyspaces.get(of).map_or("", |keyspace| &keyspace.name);
        return Err(Error::invalid(format!(
            "groups are not deleted or carried where fields are indexed: drop the index of {field:?} of keyspace {of:?} first"
        )));
    }
    let bytewise = |keyspace: &&Arc<KeyspaceCore>| keyspace.options.order.is_bytewise();
    Ok(keyspaces.by_id.values().filter(bytewise).cloned().collect())
}

/// True if nothing of a table is left when a group is erased up to this number.
pub(super) fn leaves(range: &GroupRange, seq: Seq, meta: &TableMeta) -> bool {
    range.holds_all_of(meta) && meta.max_seq <= seq
}

/// Adds to an edit what erases a group: tables leave that hold nothing else, and files with values
/// of which nothing else is needed. Returns these tables too.
pub(super) fn erase(
    core: &Core,
    versions: &VersionSet,
    range: &GroupRange,
    seq: Seq,
    edit: &mut VersionEdit,
) -> (DeletedGroup, Vec<Weak<Table>>) {
    let mut deleted = DeletedGroup::default();
    let (mut gone, mut tables) = (BTreeSet::new(), Vec::new());
    for (&id, record) in &versions.keyspaces {
        let order = &record.options.order;
        if !order.is_bytewise() {
            continue;
        }
        for (level, run) in record.version.runs() {
            for table in run.overlapping(order, &range.range()) {
                if !leaves(range, seq, &table.meta) {
                    deleted.shared_tables += 1;
                    continue;
                }
                let number = table.meta.number;
                edit.push(Change::TableRemoved { id, level: level as u32, number });
                deleted.tables += 1;
                deleted.file_bytes += table.meta.file_bytes;
                gone.insert(number);
                tables.push(Arc::downgrade(table));
            }
        }
        #[cfg(esker_planted)]
        if super::planted::Planted::ErasedForgotten.is_here() {
            continue;
        }
        let (start, end) = (Box::from(&*range.group), Box::from(&*range.end));
        edit.push(Change::Erased { id, start, end, seq });
    }
    for meta in unneeded_values(core, versions, &gone) {
        edit.push(Change::ValuesRemoved(meta.number));
        deleted.value_files += 1;
        deleted.file_bytes += meta.file_bytes;
    }
    (deleted, tables)
}

/// The files with values into which nothing leads once some tables are gone.
fn unneeded_values(core: &Core, versions: &VersionSet, gone: &BTreeSet<u64>) -> Vec<ValueFileMeta> {
    if versions.values().0.is_empty() {
        return Vec::new();
    }
    let all = versions.keyspaces.values().flat_map(|record| record.tables());
    let left = all.map(|table| &table.meta).filter(|meta| !gone.contains(&meta.number));
    let live = live_bytes(left);
    // Memtables may point into newer logs.
    let needed_from = oldest_wal_of_memtables(core);
    let taken = core.value_use.taken.lock();
    let is_unneeded = |meta: &&ValueFileMeta| {
        let is_log = meta.place == Place::Wal
            && (versions.wals().0.contains_key(&meta.number) || meta.number >= needed_from);
        let is_live = meta.logs.iter().any(|log| live.get(log).is_some_and(|&bytes| bytes > 0));
        !is_log && !is_live && !taken.contains_key(&meta.number)
    };
    versions.values().0.values().filter(is_unneeded).cloned().collect()
}
