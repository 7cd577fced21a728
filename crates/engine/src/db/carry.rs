//! Groups are carried from store to store as files: what is persistent of a group becomes a store
//! of its own, and another store takes its tables over.
//!
//! ```text
//! export: persisted snapshot, and the group's index -> tables of the group alone, in a new directory -> manifest
//! ingest: tables are linked under new numbers and checked, or written anew
//!         -> the memtables are sealed: an epoch, which the group arrives with
//!         -> the edit that puts the epoch in force erases what was there of the group, and names the new tables and its index
//! ```
//!
//! So the invariants of `external` hold for a group that arrives as for a request: it is in one
//! epoch, with its index.
//! Crash: an export without CURRENT is no store. Files that were linked are orphans until the edit
//! names them.
//! Source: PheonixKV ships a replica as whole files; Pebble's ingest-and-excise.

use super::checkpoint::{check_open, copy_file, in_new_dir, link_or_copy};
use super::core::{Core, KeyspaceCore, View};
use super::epochs::Arrival;
use super::group_range::GroupRange;
use super::groups::concerned;
use super::open::{Setup, open_read_only};
use super::scan::Cursor;
use super::scan_range::ScanOptions;
use super::verify::check_table;
use crate::compaction::policy::leveled::roomy_level;
use crate::event::EventSink;
use crate::names;
use crate::options::{KeyspaceOptions, MemoryShares, Options};
use crate::table::Origin;
use crate::version::{
    GroupState, KeyspaceRecord, NamedGroups, NamedValues, NamedWals, SeparatedOutput, Table,
    TableMeta, TableStore, Version, VersionSet, Written,
};
use esker_base::sync::atomic::Ordering;
use esker_base::vfs::Access;
use esker_base::{Error, KeyspaceId, Kind, Result, Seq, Trailer};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// All records of an exported group count as written at this moment.
const EXPORTED_SEQ: Seq = 1;

/// Files and memory for reading or writing an export.
const OPEN_FILES: usize = 64;
const CACHE_BYTES: u64 = 4 << 20;
const READING_BYTES: u64 = 16 << 20;

/// Records after which is asked whether the store is being closed.
const STOP_EVERY: u64 = 1_024;

/// A group as files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupFiles {
    /// Index of the newest request that they hold.
    pub index: u64,
    /// Its note.
    pub note: Vec<u8>,
    /// Tables.
    pub tables: u64,
    /// Files of values that are kept apart.
    pub value_files: u64,
    /// Bytes of all of them.
    pub file_bytes: u64,
}

impl GroupFiles {
    fn of(state: &GroupState) -> GroupFiles {
        GroupFiles { index: state.index, note: state.note.to_vec(), ..GroupFiles::default() }
    }

    fn add(&mut self, written: &Written) {
        self.tables += written.tables.len() as u64;
        self.value_files += written.values.len() as u64;
        self.file_bytes += written.file_bytes();
    }
}

/// Writes what is persistent of a group into a new directory, as a store of its own.
pub(super) fn export(core: &Core, group: &[u8], dir: &Path) -> Result<GroupFiles> {
    core.check_external()?;
    let range = GroupRange::of(group)?;
    let moment = Moment::now(core, group)?;
    in_new_dir(core, dir, |made| {
        let store = Arc::new(store_of(core, dir, &moment));
        let export = Export { core, range: &range, moment: &moment, store };
        export.write(made)
    })
}

/// How far a group is persistent, and all there is at that moment.
struct Moment {
    state: GroupState,
    seq: Seq,
    keyspaces: Vec<(Arc<KeyspaceCore>, Arc<View>)>,
}

impl Moment {
    fn now(core: &Core, group: &[u8]) -> Result<Moment> {
        // No flush is put in force meanwhile, and no keyspace made or dropped.
        let _versions = core.lock_versions()?;
        let state = core.epochs.lock().persisted.get(group).map(|progress| progress.state());
        let state = state.ok_or_else(|| {
            Error::invalid(format!(
                "nothing of group {} is persistent: apply to it, and flush it",
                group.escape_ascii()
            ))
        })?;
        let keyspaces = all_bytewise(core)?.into_iter();
        let keyspaces = keyspaces.map(|keyspace| {
            let view = keyspace.view.load_full();
            (keyspace, view)
        });
        Ok(Moment { state, seq: core.persisted_seq(), keyspaces: keyspaces.collect() })
    }
}

/// All keyspaces, which must be in bytewise order: what has another one has no groups.
fn all_bytewise(core: &Core) -> Result<Vec<Arc<KeyspaceCore>>> {
    let keyspaces = concerned(core)?;
    let all = core.keyspaces.load();
    match all.by_id.values().find(|keyspace| !keyspace.options.order.is_bytewise()) {
        None => Ok(keyspaces),
        Some(other) => Err(Error::invalid(format!(
            "keyspace {:?} has the key order {:?}: groups are carried between stores whose keyspaces are all in bytewise order",
            other.name,
            other.options.order.name()
        ))),
    }
}

/// What reads and writes the tables of an export.
fn store_of(core: &Core, dir: &Path, moment: &Moment) -> TableStore {
    let memory = MemoryShares {
        cache_bytes: CACHE_BYTES,
        cache_borrows: false,
        pinned_bytes: 0,
        run_index_bytes: 0,
        read_bytes: CACHE_BYTES as usize,
    };
    let events = EventSink::new(None);
    let store = TableStore::new(core.env.clone(), dir.to_path_buf(), events, OPEN_FILES, memory);
    // Ids of keyspaces are numbers too.
    let ids = moment.keyspaces.iter().map(|(keyspace, _)| u64::from(keyspace.id.0));
    store.skip_numbers_below(ids.max().unwrap_or(0) + 1);
    store
}

/// An export under way.
struct Export<'a> {
    core: &'a Core,
    range: &'a GroupRange,
    moment: &'a Moment,
    /// Of the new directory.
    store: Arc<TableStore>,
}

impl Export<'_> {
    fn write(&self, made: &mut Vec<PathBuf>) -> Result<GroupFiles> {
        let Moment { state, seq, keyspaces } = self.moment;
        let mut files = GroupFiles::of(state);
        let mut values = NamedValues::default();
        let mut parts = Vec::new();
        for (keyspace, view) in keyspaces {
            let scan = whole_of(self.range);
            let cursor = self.core.scan_in(keyspace, &scan, view.clone(), *seq)?;
            let (store, options) = (&self.store, &keyspace.options);
            let destination = Destination { store, options, origin: keyspace.origin() };
            let written = copy(cursor, destination, self.core)?;
            let of_tables = written.tables.iter().map(|meta| meta.number);
            made.extend(of_tables.map(|number| names::table(&self.store.dir, number)));
            made.extend(written.values.iter().map(|meta| meta.path(&self.store.dir)));
            files.add(&written);
            values.0.extend(written.values.iter().map(|meta| (meta.number, meta.clone())));
            parts.push((keyspace, written.tables));
        }
        let map = Arc::new(values.map(&self.store.values).map_err(|what| self.damaged(what))?);
        let empty = Version::default().with_values(map);
        let mut records = BTreeMap::new();
        for (keyspace, tables) in parts {
            records.insert(keyspace.id, self.record_of(keyspace, &empty, tables)?);
        }
        let groups = BTreeMap::from([(self.range.group.clone(), state.clone())]);
        let (no_logs, groups) = (NamedWals::default(), NamedGroups(groups));
        let dir = &self.store.dir;
        VersionSet::write_copy(
            &self.store,
            dir,
            &records,
            &no_logs,
            &values,
            &groups,
            EXPORTED_SEQ,
        )?;
        Ok(files)
    }

    /// A keyspace whose tables are one run, in the first level with room for it.
    fn record_of(
        &self,
        keyspace: &KeyspaceCore,
        empty: &Version,
        tables: Vec<TableMeta>,
    ) -> Result<KeyspaceRecord> {
        let options = keyspace.options.clone();
        let bytes = tables.iter().map(|meta| meta.file_bytes).sum();
        let level = roomy_level(&options, bytes) as u32;
        let table =
            |meta: TableMeta| (level, 1, self.store.table(meta.dated(EXPORTED_SEQ), &options));
        let added = tables.into_iter().map(table).collect();
        let version = empty.apply(&options.order, &[], added);
        let version = Arc::new(version.map_err(|what| self.damaged(what))?);
        Ok(KeyspaceRecord {
            name: keyspace.name.clone(),
            options,
            version,
            flushed_seq: EXPORTED_SEQ,
            logged_seq: 0,
            remembered: Vec::new(),
        })
    }

    fn damaged(&self, what: &'static str) -> Error {
        Error::corruption(&self.store.dir, 0, what)
    }
}

/// The keys of a group, as far as they are in tables.
fn whole_of<'a>(range: &GroupRange) -> ScanOptions<'a> {
    ScanOptions {
        start: Some(range.group.to_vec()),
        end: Some(range.end.clone()),
        snapshot: None,
        fill_cache: false,
        persisted: true,
        keys_only: false,
    }
}

/// Where records are copied to.
struct Destination<'a> {
    store: &'a Arc<TableStore>,
    options: &'a Arc<KeyspaceOptions>,
    origin: Origin,
}

/// Writes what a cursor sees into tables of one run, without numbers, until `core` is closed.
fn copy(mut cursor: Cursor, to: Destination<'_>, core: &Core) -> Result<Written> {
    let file_bytes = core.options.value_log_file_bytes;
    let mut output =
        SeparatedOutput::bulk(to.store.clone(), to.options.clone(), to.origin, file_bytes);
    cursor.seek_to_first()?;
    let mut records = 0u64;
    while cursor.valid() {
        output.add(cursor.key(), Trailer::new(0, Kind::Put), cursor.value())?;
        records += 1;
        if records.is_multiple_of(STOP_EVERY) {
            check_open(core)?;
        }
        cursor.next()?;
    }
    output.finish(to.store)
}

/// Takes a group over that stands in `dir` as a store of its own. What was there of it before is
/// gone then.
pub(super) fn ingest(core: &Core, group: &[u8], dir: &Path) -> Result<GroupFiles> {
    core.check_external()?;
    core.check_writable()?;
    let range = Arc::new(GroupRange::of(group)?);
    let keyspaces = all_bytewise(core)?;
    // While the manifest cannot be written, or no memtable flushed, nothing is made in vain.
    core.mend_manifest()?;
    core.retry_failed_flush()?;
    let options = Options {
        memory_budget_bytes: READING_BYTES,
        create_if_missing: false,
        ..Options::default()
    };
    let setup = Setup {
        env: core.env.clone(),
        listener: None,
        inline_background: true,
        ..Setup::default()
    };
    let export = open_read_only(dir, options, setup)?;
    let state = state_of(&export.core, &range, dir)?;
    let mut import = Import { core, from: &export.core, range: &range, parts: Vec::new() };
    // Whatever was linked has its name. An arrival that is tried again has the same files, of which
    // the disk would say that all is well.
    let taken = import.take_all(&keyspaces).and_then(|()| core.store.sync_dir());
    let taken = taken.inspect_err(|error| core.poison_if_sync(error));
    let parts = std::mem::take(&mut import.parts);
    let mut files = GroupFiles::of(&state);
    parts.iter().for_each(|(_, written)| files.add(written));
    // No index is made, and no keyspace made or dropped, until the group is in force.
    let _shared = core.indexes.gate.read();
    let right = taken
        .and_then(|()| all_bytewise(core))
        .and_then(|_| check_live(core, &parts))
        .map(|()| core.right_to_erase());
    let arrived = right.and_then(|right| Ok((arrive(core, range, state, parts.clone())?, right)));
    let (number, _one_at_a_time) = arrived.inspect_err(|_| {
        parts.iter().for_each(|(_, written)| written.remove(&core.store));
    })?;
    // From here on the files are the epoch's.
    if let Err(error) = core.wait_for_epochs(number) {
        // A store that is poisoned does not know what is on the disk, and keeps them.
        if core.check_writable().is_err() || core.withdraw(number) {
            return Err(error);
        }
    }
    core.measure_level0();
    core.background.wake_workers();
    core.store.sweep();
    Ok(files)
}

/// Fails if a keyspace is gone that a part was taken for: without it the group would be there in
/// part.
fn check_live(core: &Core, parts: &[(KeyspaceId, Written)]) -> Result<()> {
    let keyspaces = core.keyspaces.load();
    if parts.iter().all(|&(id, _)| keyspaces.get(id).is_some()) {
        return Ok(());
    }
    Err(Error::invalid(
        "a keyspace that the group has keys in was dropped meanwhile: take it again",
    ))
}

/// How far the group was applied in an export of it, and of nothing else.
fn state_of(export: &Core, range: &GroupRange, dir: &Path) -> Result<GroupState> {
    let shown = range.group.escape_ascii();
    let groups = export.groups();
    match groups.as_slice() {
        [one] if *one.group == *range.group => {
            Ok(GroupState { index: one.applied, note: one.note.clone().into() })
        }
        _ => Err(Error::invalid(format!(
            "{} does not hold the group {shown}, and no other: give the directory of an export of it",
            dir.display()
        ))),
    }
}

/// Gives the group a moment, and an epoch that it arrives with, whose number is returned.
fn arrive(
    core: &Core,
    range: Arc<GroupRange>,
    state: GroupState,
    parts: Vec<(KeyspaceId, Written)>,
) -> Result<u64> {
    core.retry_failed_flush()?;
    core.flush_if_too_many()?;
    let mut commit = core.commit.lock();
    let commit = commit.as_mut().ok_or(Error::Cancelled)?;
    core.check_writable()?;
    core.epochs.lock().check_apart(&range.group)?;
    let erased_seq = commit.take_seq(core)?;
    let seq = commit.take_seq(core)?;
    // Before the epoch can come into force: whoever sees what it erases must see what it brings.
    core.visible_seq.store(seq, Ordering::Release);
    commit.seal_all(core, Some(Arc::new(Arrival { range, state, erased_seq, seq, parts })));
    Ok(commit.number)
}

/// Files of an export on their way into the store.
struct Import<'a> {
    core: &'a Core,
    from: &'a Core,
    range: &'a GroupRange,
    /// What is there by now.
    parts: Vec<(KeyspaceId, Written)>,
}

impl Import<'_> {
    fn take_all(&mut self, keyspaces: &[Arc<KeyspaceCore>]) -> Result<()> {
        let all = self.from.keyspaces.load_full();
        for exported in all.by_id.values() {
            let view = exported.view.load_full();
            let version = &view.version;
            if exported.has_memtables() {
                return Err(self.refuse("was written to since it was exported"));
            }
            if !version.tables().all(|(_, table)| self.range.holds_all_of(&table.meta)) {
                return Err(self.refuse("holds keys outside of the group"));
            }
            if version.tables().next().is_none() {
                continue;
            }
            let Some(keyspace) = keyspaces.iter().find(|one| one.name == exported.name) else {
                return Err(Error::invalid(format!(
                    "there is no keyspace {:?} with keys in bytewise order, which the group has keys in: create it first",
                    exported.name
                )));
            };
            self.parts.push((keyspace.id, Written::default()));
            if may_link(version, exported, keyspace) {
                version.tables().try_for_each(|(_, table)| self.link(keyspace, table))?;
                continue;
            }
            let cursor = self.from.scan(exported, &whole_of(self.range))?;
            let (store, options) = (&self.core.store, &keyspace.options);
            let destination = Destination { store, options, origin: keyspace.origin() };
            let written = copy(cursor, destination, self.core)?;
            if let Some((_, part)) = self.parts.last_mut() {
                *part = written;
            }
        }
        Ok(())
    }

    fn refuse(&self, why: &str) -> Error {
        let dir = self.from.dir.display();
        Error::invalid(format!("{dir} {why}: give the directory of an export as it was written"))
    }

    /// Gives a table a name in this store, makes sure that it is durable, and checks all of it.
    fn link(&mut self, keyspace: &KeyspaceCore, table: &Table) -> Result<()> {
        let from = names::table(&self.from.dir, table.meta.number);
        let number = self.core.store.new_number();
        let meta = TableMeta { number, ..table.meta.clone() };
        let path = names::table(&self.core.dir, number);
        if let Some((_, part)) = self.parts.last_mut() {
            part.tables.push(meta.clone());
        }
        self.core.store.in_directory(|vfs| {
            let go_on = || check_open(self.core);
            link_or_copy(vfs, &from, &path, go_on)?;
            if vfs.open(&path, Access::Sequential)?.len_bytes()? != meta.file_bytes {
                return Err(Error::corruption(
                    from,
                    0,
                    "the table is not as long as its manifest says",
                ));
            }
            // Who knows how it has come there.
            let synced = match vfs.truncate(&path, meta.file_bytes) {
                // One that may not be written to cannot be synced. Its copy can.
                Err(Error::Io { source, .. }) if source.kind() == ErrorKind::PermissionDenied => {
                    vfs.remove(&path)?;
                    copy_file(vfs, &from, &path, go_on)
                }
                synced => synced,
            };
            synced.inspect_err(|error| {
                // Of pages whose sync has failed a kernel may say that all is well: they shall be
                // written again if somebody brings the same files once more.
                if error.is_sync_failure() {
                    drop(vfs.rewrite(&path, 0..meta.file_bytes));
                }
            })
        })?;
        let table = self.core.store.table(meta, &keyspace.options);
        check_table(&self.core.store, &table)
    }
}

/// True if the tables of an exported keyspace can be those of this one as they are.
///
/// They must be one run without pointers or range tombstones, whose records may all count as
/// written at once; and as large values stand in them, this keyspace must keep none apart. What
/// they say of themselves, for a repair, must be true here too.
fn may_link(version: &Version, exported: &KeyspaceCore, keyspace: &KeyspaceCore) -> bool {
    let is_plain = |meta: &TableMeta| {
        meta.seq_override.is_some() && meta.references.is_empty() && meta.range_tombstones == 0
    };
    version.runs().count() == 1
        && version.tables().all(|(_, table)| is_plain(&table.meta))
        && keyspace.options.value_log_bytes_min.is_none()
        && exported.id == keyspace.id
}
