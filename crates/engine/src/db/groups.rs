//! Groups of keys are deleted at once: their own tables leave the tree, and what shares tables with others is hidden.
//!
//! ```text
//! take a sequence number -> one edit: tables that hold nothing else leave; what is not newer is erased; the group is forgotten
//!                        -> readers see it at once, at whatever moment they read -> files go
//! ```
//!
//! Nothing is flushed or compacted. What was erased and shares tables with others is left out when they are rewritten next,
//! which the policy sees to; what is in memtables, when they are flushed.
//! Crash: the edit is in force as a whole, or not.
//! Source: PheonixLSM deletes the tables of a group after a flush and a compaction of level 0; Pebble excises ranges from
//! tables by giving them narrower bounds. Here tables stay as they are, and the version says what is erased.

use super::core::{Core, KeyspaceCore};
use super::flushing::oldest_wal_of_memtables;
use crate::names;
use crate::value_log::{Place, ValueFileMeta};
use crate::version::{
    Change, GROUP_BYTES_MAX, KeyRange, TableMeta, VersionEdit, VersionSet, live_bytes,
};
use esker_base::key::prefix_end;
use esker_base::{Error, KeyspaceId, Result, Seq};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What the deletion of a group has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeletedGroup {
    /// Tables that held nothing else, and are gone.
    pub tables: u64,
    /// Files with values of which nothing else was needed, and which are gone.
    pub value_files: u64,
    /// Bytes of these files. They are free when this is told, unless a cursor still reads them.
    pub file_bytes: u64,
    /// Tables that share what was deleted with others: it is hidden, and left out when they are rewritten.
    pub shared_tables: u64,
}

/// The keys of a group.
struct GroupRange {
    group: Arc<[u8]>,
    end: Vec<u8>,
}

impl GroupRange {
    fn of(group: &[u8]) -> Result<GroupRange> {
        if group.is_empty() || group.len() > GROUP_BYTES_MAX {
            return Err(Error::invalid("the name of a group is empty or longer than 1 KiB"));
        }
        match prefix_end(group) {
            Some(end) => Ok(GroupRange { group: group.into(), end }),
            None => Err(Error::invalid(
                "a group whose name is nothing but bytes of 0xff cannot be deleted: delete its range",
            )),
        }
    }

    fn range(&self) -> KeyRange<'_> {
        KeyRange { start: Some(&self.group), end: Some(&self.end), end_inclusive: false }
    }

    /// True if a table holds nothing else.
    fn holds_all_of(&self, meta: &TableMeta) -> bool {
        let ends_inside = match meta.largest_exclusive {
            true => *meta.largest <= *self.end,
            false => *meta.largest < *self.end,
        };
        *meta.smallest >= *self.group && ends_inside
    }
}

/// Deletes a group in all keyspaces whose keys stand in bytewise order.
pub(super) fn delete(core: &Core, group: &[u8]) -> Result<DeletedGroup> {
    core.check_writable()?;
    let range = GroupRange::of(group)?;
    let keyspaces = concerned(core)?;
    // Tables note up to which number they were cleared: one that comes later must be larger.
    let _one_at_a_time = core.deleting.lock();
    let (seq, idle) = {
        let mut commit = core.commit.lock();
        let commit = commit.as_mut().ok_or(Error::Cancelled)?;
        let seq = commit.take_seq(core)?;
        let idle = keyspaces.iter().filter(|keyspace| !keyspace.has_memtables());
        let idle: Vec<KeyspaceId> = idle.map(|keyspace| keyspace.id).collect();
        // Numbers up to this one must not be given to other records after a crash.
        commit.sync(core)?;
        // No record follows it in the log yet.
        core.visible_seq.store(seq, std::sync::atomic::Ordering::Release);
        (seq, idle)
    };
    let deleted = {
        let mut versions = core.lock_versions()?;
        let (mut edit, deleted) = edit_of(core, &versions, &keyspaces, &range, seq);
        // What no memtable holds either can be forgotten when no table does: nothing else may ever flush them.
        edit.changes.extend(idle.into_iter().map(|id| Change::Flushed { id, seq }));
        versions.commit(edit, None).inspect_err(|error| core.poison_if_sync(error))?;
        core.measure_values(&versions);
        core.forget_group(&range.group, seq);
        core.show_versions(&versions);
        deleted
    };
    core.measure_level0();
    core.background.wake_workers();
    core.store.sweep();
    Ok(deleted)
}

/// The keyspaces in which a group may have keys.
fn concerned(core: &Core) -> Result<Vec<Arc<KeyspaceCore>>> {
    let keyspaces = core.keyspaces.load();
    if let Some(index) = keyspaces.by_id.values().find(|keyspace| names::is_index(&keyspace.name)) {
        return Err(Error::invalid(format!(
            "groups cannot be deleted where fields are indexed: drop the index that {:?} holds first",
            index.name
        )));
    }
    let bytewise = |keyspace: &&Arc<KeyspaceCore>| keyspace.options.order.is_bytewise();
    Ok(keyspaces.by_id.values().filter(bytewise).cloned().collect())
}

fn edit_of(
    core: &Core,
    versions: &VersionSet,
    keyspaces: &[Arc<KeyspaceCore>],
    range: &GroupRange,
    seq: Seq,
) -> (VersionEdit, DeletedGroup) {
    let mut edit = VersionEdit::new();
    let mut deleted = DeletedGroup::default();
    let mut gone = BTreeSet::new();
    for keyspace in keyspaces {
        let (id, order) = (keyspace.id, &keyspace.options.order);
        let Some(record) = versions.keyspaces.get(&id) else { continue };
        for (level, run) in record.version.runs() {
            for table in run.overlapping(order, &range.range()) {
                if !range.holds_all_of(&table.meta) {
                    deleted.shared_tables += 1;
                    continue;
                }
                let number = table.meta.number;
                edit.push(Change::TableRemoved { id, level: level as u32, number });
                deleted.tables += 1;
                deleted.file_bytes += table.meta.file_bytes;
                gone.insert(number);
            }
        }
        let (start, end) = (Box::from(&*range.group), Box::from(&*range.end));
        edit.push(Change::Erased { id, start, end, seq });
    }
    for meta in unneeded_values(core, versions, &gone) {
        edit.push(Change::ValuesRemoved(meta.number));
        deleted.value_files += 1;
        deleted.file_bytes += meta.file_bytes;
    }
    edit.push(Change::GroupForgotten(range.group.clone()));
    (edit, deleted)
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
