//! The set of all keyspaces' versions: what the manifest says, in memory.

use super::edit::{Change, VersionEdit};
use super::groups::NamedGroups;
use super::keyspace::{KeyspaceRecord, snapshot};
use super::manifest::{Manifest, NewDirectory, NotInForce};
use super::separated_output::Written;
use super::store::TableStore;
use super::tree::Version;
use super::values::{NamedValues, check_references};
use super::wals::NamedWals;
use crate::event::Event;
use crate::names;
use crate::options::KeyspaceOptions;
use crate::range_tombstone::RangeTombstone;
use crate::value_log::{Place, ValueMap};
use esker_base::{Error, KeyspaceId, Result, Seq};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

/// Everything the manifest holds, with the tables it names.
#[derive(Debug)]
pub(crate) struct VersionSet {
    store: Arc<TableStore>,
    manifest_bytes_max: u64,
    manifest: Manifest,
    /// Length of the manifest when it held nothing but the state it began with.
    begun_bytes: u64,
    /// An append failed: the file may end in half an edit, and a new one must be written first.
    broken: bool,
    /// A manifest of the present state that CURRENT may name, though putting it in force failed. It
    /// is tried again, so that a renaming that always fails leaves no more of them.
    left: Option<Box<Manifest>>,
    /// Tables and files of values named by edits that failed, by number. They stay until no
    /// manifest can name them.
    void_files: Vec<VoidFile>,
    /// The manifest may hold an edit that failed.
    in_doubt: bool,
    pub(crate) keyspaces: BTreeMap<KeyspaceId, KeyspaceRecord>,
    wals: NamedWals,
    /// The log that holds copies of older records, which were carried over when the database was
    /// opened, and from which on.
    copies: Option<(u64, Seq)>,
    values: NamedValues,
    value_map: Arc<ValueMap>,
    groups: NamedGroups,
    next_run: u64,
}

/// What a set begins with besides its keyspaces.
#[derive(Default)]
pub(super) struct Named {
    pub(super) wals: NamedWals,
    pub(super) values: NamedValues,
    pub(super) groups: NamedGroups,
    /// The newest sequence number, if nothing was written since the close.
    pub(super) closed: Option<Seq>,
}

impl VersionSet {
    /// The set of a database that is being created: an empty default keyspace.
    pub(crate) fn create(
        store: &Arc<TableStore>,
        manifest_bytes_max: u64,
        name: &str,
        options: Arc<KeyspaceOptions>,
    ) -> Result<VersionSet> {
        let version = Arc::default();
        let name = name.to_owned();
        let record = KeyspaceRecord {
            name,
            options,
            version,
            flushed_seq: 0,
            logged_seq: 0,
            remembered: Vec::new(),
        };
        let keyspaces = BTreeMap::from([(KeyspaceId::DEFAULT, record)]);
        VersionSet::start(store, manifest_bytes_max, keyspaces, Named::default(), 1)
    }

    pub(super) fn start(
        store: &Arc<TableStore>,
        manifest_bytes_max: u64,
        keyspaces: BTreeMap<KeyspaceId, KeyspaceRecord>,
        named: Named,
        next_run: u64,
    ) -> Result<VersionSet> {
        let number = store.new_number();
        let Named { wals, values, groups, closed } = named;
        let map = values.map(&store.values);
        let value_map = map.map_err(|what| Error::corruption(&store.dir, 0, what))?;
        let mut state = snapshot(&keyspaces, &wals, &values, &groups, store.peek_number());
        if let Some(seq) = closed {
            // Holds until a log is created.
            let mut last = VersionEdit::new();
            last.push(Change::Closed(seq));
            state.push(last);
        }
        let manifest = Manifest::create(store.as_ref(), number, &state)?;
        Ok(VersionSet {
            store: store.clone(),
            manifest_bytes_max,
            begun_bytes: manifest.len_bytes(),
            manifest,
            broken: false,
            left: None,
            void_files: Vec::new(),
            in_doubt: false,
            keyspaces,
            wals,
            copies: None,
            values,
            value_map: Arc::new(value_map),
            groups,
            next_run,
        })
    }

    /// An id for a run that is newer than all so far.
    pub(crate) fn new_run_id(&mut self) -> u64 {
        self.next_run += 1;
        self.next_run - 1
    }

    /// The write-ahead logs that are still needed.
    pub(crate) fn wals(&self) -> &NamedWals {
        &self.wals
    }

    /// This log holds copies of older records, from this sequence number on.
    pub(crate) fn note_copies(&mut self, number: u64, from: Seq) {
        self.copies = Some((number, from));
    }

    /// The oldest sequence number that a log may hold and a table too: a repair may take it from
    /// there. What is newer and was never in a log, bulk loads and what was erased, must stay
    /// recognizable as newer.
    pub(crate) fn logged_from(&self) -> Seq {
        self.logged_from_in(&self.wals)
    }

    fn logged_from_in(&self, wals: &NamedWals) -> Seq {
        let copied = self.copies.filter(|(number, _)| wals.0.contains_key(number));
        let begun = wals.0.values().filter_map(|wal| wal.first_seq);
        begun.chain(copied.map(|(_, from)| from)).min().unwrap_or(Seq::MAX)
    }

    /// The files with values that tables point to.
    pub(crate) fn values(&self) -> &NamedValues {
        &self.values
    }

    /// The newest sequence number that is in tables.
    pub(crate) fn newest_seq(&self) -> Seq {
        let newest = |record: &KeyspaceRecord| {
            let in_tables = record.tables().map(|table| table.meta.max_seq).max();
            let in_tables = in_tables.unwrap_or(0);
            in_tables.max(record.flushed_seq).max(record.version.erased_seq)
        };
        self.keyspaces.values().map(newest).max().unwrap_or(0)
    }

    /// How far the logs of groups were applied.
    pub(crate) fn groups(&self) -> &NamedGroups {
        &self.groups
    }

    /// Where the values of each log are.
    pub(crate) fn value_map(&self) -> &Arc<ValueMap> {
        &self.value_map
    }

    /// The numbers of the write-ahead logs that are still needed.
    pub(crate) fn wal_numbers(&self) -> impl DoubleEndedIterator<Item = u64> + '_ {
        self.wals.0.keys().copied()
    }

    pub(crate) fn keyspace(&self, id: KeyspaceId) -> Result<&KeyspaceRecord> {
        self.keyspaces.get(&id).ok_or_else(|| Error::invalid("the keyspace was dropped"))
    }

    /// Writes an edit to the manifest, makes it durable, and derives the new versions.
    ///
    /// `options` must be given when the edit creates a keyspace.
    ///
    /// # Errors
    /// On any error nothing changed in memory. Whether the edit is in force on disk is unknown
    /// until the next successful commit, which voids it; tables it names are kept until then. After
    /// `NoSpace` it is not, and they go before another manifest is tried.
    pub(crate) fn commit(
        &mut self,
        mut edit: VersionEdit,
        options: Option<&Arc<KeyspaceOptions>>,
    ) -> Result<()> {
        // Whoever got here may have waited for the one to whom a disk said that something is lost.
        self.store.check_poison()?;
        edit.push(Change::NextNumber(self.store.peek_number()));
        let next = self.derive(&edit, options)?;
        let mut is_begun = false;
        if let Err(error) = self.write(&edit, &mut is_begun) {
            self.store.poison_if_sync(&error);
            // What finds no space is not written in whole, and half an edit is none.
            self.in_doubt |= is_begun && !matches!(error, Error::NoSpace { .. });
            let dir = self.store.dir.clone();
            let named = edit.changes.iter().filter_map(|change| match change {
                Change::TableAdded { meta, .. } => {
                    Some((meta.number, names::table(&dir, meta.number)))
                }
                // A log is needed as such.
                Change::ValuesAdded(meta) if meta.place != Place::Wal => {
                    Some((meta.number, meta.path(&dir)))
                }
                Change::WalCreated { number, .. } => Some((*number, names::wal(&dir, *number))),
                _ => None,
            });
            self.void(named);
            return Err(error);
        }
        self.adopt(next, &edit);
        Ok(())
    }

    /// Makes an edit durable, in a new manifest if the present one is broken, or long and there is
    /// room for another. `is_begun` is set once some of it may stand in one.
    fn write(&mut self, edit: &VersionEdit, is_begun: &mut bool) -> Result<()> {
        self.renew()?;
        let written = self.manifest.append(edit).and_then(|()| self.manifest.sync());
        // One that is too long is refused before anything of it is written.
        *is_begun = !matches!(written, Err(Error::InvalidArgument { .. }));
        self.broken = written.is_err() && *is_begun;
        written
    }

    /// The keyspaces as they will be after the edit, and where their values are.
    fn derive(
        &self,
        edit: &VersionEdit,
        options: Option<&Arc<KeyspaceOptions>>,
    ) -> Result<Derived> {
        let damaged = |what| Error::corruption(&self.store.dir, 0, what);
        let changed = NamedValues::changed_map(&self.value_map, edit, &self.store.values);
        let changed = changed.map_err(damaged)?.map(Arc::new);
        let values = changed.as_ref().unwrap_or(&self.value_map);
        for change in &edit.changes {
            if let Change::TableAdded { meta, .. } = change {
                check_references(values, meta).map_err(damaged)?;
            }
        }
        self.check_keyspaces(edit).map_err(damaged)?;
        let erases = |change: &Change| match change {
            Change::Erased { id, .. } => Some(*id),
            _ => None,
        };
        let erased: BTreeSet<KeyspaceId> = edit.changes.iter().filter_map(erases).collect();
        let mut next = self.keyspaces.clone();
        if let Some(values) = &changed {
            for record in next.values_mut() {
                record.version = Arc::new(record.version.with_values(values.clone()));
            }
        }
        for change in &edit.changes {
            match change {
                Change::KeyspaceCreated { id, name, .. } => {
                    let options =
                        options.expect("the caller gives a new keyspace's options").clone();
                    let record = KeyspaceRecord {
                        name: name.clone(),
                        options,
                        version: Arc::new(Version::default().with_values(values.clone())),
                        flushed_seq: 0,
                        logged_seq: 0,
                        remembered: Vec::new(),
                    };
                    next.insert(*id, record);
                }
                Change::KeyspaceDropped(id) => {
                    next.remove(id);
                }
                Change::Flushed { id, seq } => {
                    if let Some(record) = next.get_mut(id) {
                        record.flushed_seq = record.flushed_seq.max(*seq);
                        // A deletion says so of keyspaces that had nothing to flush.
                        if !erased.contains(id) {
                            record.logged_seq = record.logged_seq.max(*seq);
                        }
                    }
                }
                _ => {}
            }
        }
        let mut wals = self.wals.clone();
        edit.changes.iter().try_for_each(|change| wals.apply(change)).map_err(damaged)?;
        let logged_from = self.logged_from_in(&wals);
        let ids: Vec<KeyspaceId> = next.keys().copied().collect();
        for id in ids {
            self.derive_version(edit, id, logged_from, &mut next)?;
        }
        Ok(Derived { keyspaces: next, wals, value_map: values.clone() })
    }

    /// Fails if an edit is about a keyspace that is not there, or makes one that is: no manifest
    /// that holds it could be read.
    fn check_keyspaces(&self, edit: &VersionEdit) -> Result<(), &'static str> {
        let is_there = |id: &KeyspaceId| self.keyspaces.contains_key(id);
        edit.changes.iter().try_for_each(|change| match change {
            Change::KeyspaceCreated { id, .. } if is_there(id) => {
                Err("an edit creates a keyspace that exists")
            }
            Change::KeyspaceDropped(id)
            | Change::Flushed { id, .. }
            | Change::TableAdded { id, .. }
            | Change::TableRemoved { id, .. }
            | Change::Erased { id, .. }
                if !is_there(id) =>
            {
                Err("an edit names a keyspace that does not exist")
            }
            _ => Ok(()),
        })
    }

    fn derive_version(
        &self,
        edit: &VersionEdit,
        wanted: KeyspaceId,
        logged_from: Seq,
        next: &mut BTreeMap<KeyspaceId, KeyspaceRecord>,
    ) -> Result<()> {
        let record = next.get_mut(&wanted).expect("listed from the same map");
        let (mut removed, mut added, mut erased) = (Vec::new(), Vec::new(), Vec::new());
        for change in &edit.changes {
            match change {
                Change::TableAdded { id, level, run, meta } if *id == wanted => {
                    // A table that only moves keeps its open reader and caches.
                    let same = record.version.tables().find(|(_, t)| t.meta == *meta);
                    let table = match same {
                        Some((_, table)) => table.clone(),
                        None => self.store.table(meta.clone(), &record.options),
                    };
                    added.push((*level, *run, table));
                }
                Change::TableRemoved { id, level, number } if *id == wanted => {
                    removed.push((*level, *number));
                }
                Change::Erased { id, start, end, seq } if *id == wanted => {
                    let (start, end) = (Arc::from(&**start), Arc::from(&**end));
                    erased.push(RangeTombstone { start, end, seq: *seq });
                }
                _ => {}
            }
        }
        let may_forget = !record.version.erased.is_empty();
        if removed.is_empty() && added.is_empty() && erased.is_empty() && !may_forget {
            record.forget_erased(logged_from);
            return Ok(());
        }
        let order = &record.options.order;
        let mut version = record
            .version
            .apply(order, &removed, added)
            .map_err(|what| Error::corruption(&self.store.dir, 0, what))?;
        if may_forget || !erased.is_empty() {
            version.erase(order, &erased);
        }
        record.version = Arc::new(version);
        record.forget_erased(logged_from);
        Ok(())
    }

    /// Makes the derived state current and marks the tables that left.
    fn adopt(&mut self, next: Derived, edit: &VersionEdit) {
        let before = std::mem::replace(&mut self.keyspaces, next.keyspaces);
        let map_before = std::mem::replace(&mut self.value_map, next.value_map);
        self.wals = next.wals;
        for (id, old) in &before {
            let new = self.keyspaces.get(id).map(|record| &record.version);
            if new.is_some_and(|new| Arc::ptr_eq(new, &old.version)) {
                continue;
            }
            let kept: BTreeSet<u64> =
                new.iter().flat_map(|v| v.tables()).map(|(_, t)| t.meta.number).collect();
            for (_, table) in old.version.tables() {
                if !kept.contains(&table.meta.number) {
                    table.mark_obsolete();
                }
            }
        }
        for change in &edit.changes {
            self.values.apply(change).expect("checked when the map was made");
            self.groups.apply(change);
        }
        for file in map_before.files() {
            // A log that is still needed as such goes when it is not.
            let number = file.meta.number;
            if !self.values.0.contains_key(&number) && !self.wals.0.contains_key(&number) {
                file.mark_obsolete();
            }
        }
    }

    /// True if an edit that failed may be in force on disk, until the manifest is written anew.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.in_doubt
    }

    /// True if the manifest takes no more edits.
    fn is_broken(&self) -> bool {
        self.broken || self.manifest.is_broken()
    }

    /// True if the manifest is written anew before the next edit: it takes no more, or is long.
    fn is_due_anew(&self) -> bool {
        // A state that is long itself is not written anew for each edit.
        let bytes_max = self.manifest_bytes_max.max(2 * self.begun_bytes);
        self.is_broken() || self.manifest.len_bytes() > bytes_max
    }

    /// Writes the manifest anew if the next edit would. Who is about to make files does this first:
    /// none is made in vain while the disk is full.
    pub(crate) fn mend(&mut self) -> Result<()> {
        if !self.is_due_anew() {
            return Ok(());
        }
        self.store.check_poison()?;
        self.renew().inspect_err(|error| self.store.poison_if_sync(error))
    }

    /// Writes the manifest anew if that is due. For one that is merely long there may be no room:
    /// then it goes on, since what makes room may be the next edit.
    fn renew(&mut self) -> Result<()> {
        if !self.is_due_anew() {
            return Ok(());
        }
        match self.rewrite() {
            // CURRENT names it still, and no other that might come into force.
            Err(Error::NoSpace { .. }) if !self.is_broken() => Ok(()),
            other => other,
        }
    }

    /// Files that go before the next manifest is written, or with it where the present one may name
    /// them.
    fn void(&mut self, files: impl Iterator<Item = (u64, PathBuf)>) {
        let may_be_named = self.in_doubt;
        // An edit that was to move a table names one that is live, and goes as such things go.
        let live: BTreeSet<u64> = self
            .keyspaces
            .values()
            .flat_map(KeyspaceRecord::tables)
            .map(|table| table.meta.number)
            .chain(self.values.0.keys().chain(self.wals.0.keys()).copied())
            .collect();
        let files = files.filter(|(number, _)| !live.contains(number));
        self.void_files.extend(files.map(|(number, path)| VoidFile { number, path, may_be_named }));
    }

    /// Removes void files: those that nothing names, or all.
    pub(crate) fn remove_void_files(&mut self, all: bool) {
        let (gone, stay): (Vec<VoidFile>, Vec<VoidFile>) = std::mem::take(&mut self.void_files)
            .into_iter()
            .partition(|file| all || !file.may_be_named);
        self.void_files = stay;
        gone.into_iter().for_each(|file| self.remove_file(file.path));
    }

    /// Starts a new manifest that holds the present state.
    fn rewrite(&mut self) -> Result<()> {
        // It may need their space.
        self.remove_void_files(false);
        let manifest = self.begin_manifest().map_err(|NotInForce { error, left }| {
            self.left = left.filter(|_| self.broken);
            error
        })?;
        self.begun_bytes = manifest.len_bytes();
        let old = std::mem::replace(&mut self.manifest, manifest);
        (self.broken, self.in_doubt) = (false, false);
        let number = self.manifest.number();
        self.void_files.retain(|file| file.number != number);
        self.remove_void_files(true);
        self.remove_manifest(names::manifest(&self.store.dir, old.number()));
        Ok(())
    }

    /// A manifest in force that holds the present state: the one that was left, or another.
    fn begin_manifest(&mut self) -> Result<Manifest, NotInForce> {
        let dir = self.store.clone();
        if let Some(left) = self.left.take() {
            // While there is one no edit comes into force.
            return left.begin_again(dir.as_ref(), dir.peek_number());
        }
        let number = dir.new_number();
        let (wals, values, groups) = (&self.wals, &self.values, &self.groups);
        let state = snapshot(&self.keyspaces, wals, values, groups, dir.peek_number());
        let begun = Manifest::begin(dir.as_ref(), number, &state);
        if begun.is_err() {
            self.note_left(number);
        }
        begun
    }

    /// A manifest was not put in force. If it is there all the same, CURRENT may name it, now or
    /// later: what follows must not stand in the present one, and it goes with the next that is put
    /// in force.
    fn note_left(&mut self, number: u64) {
        let path = names::manifest(&self.store.dir, number);
        if !matches!(self.store.env.vfs.exists(&path), Ok(false)) {
            self.broken = true;
            self.void_files.push(VoidFile { number, path, may_be_named: true });
        }
    }

    pub(super) fn remove_manifest(&self, path: PathBuf) {
        self.remove_file(path);
    }

    /// These files stay although the edit that named them has just failed: they are somebody's who
    /// will name them again.
    pub(crate) fn keep_files(&mut self, files: &Written) {
        let tables = files.tables.iter().map(|meta| meta.number);
        let kept: Vec<u64> = tables.chain(files.values.iter().map(|meta| meta.number)).collect();
        self.void_files.retain(|file| !kept.contains(&file.number));
    }

    /// Nobody will name these files any more. They go, unless the manifest may have an edit that
    /// does: then when it is written anew.
    pub(crate) fn give_up_files(&mut self, files: &Written) {
        if !self.is_broken() {
            files.remove(&self.store);
            return;
        }
        let dir = self.store.dir.clone();
        let tables = files.tables.iter().map(|meta| (meta.number, names::table(&dir, meta.number)));
        let values = files.values.iter().map(|meta| (meta.number, meta.path(&dir)));
        self.void(tables.chain(values));
    }

    fn remove_file(&self, path: PathBuf) {
        match self.store.env.vfs.remove(&path) {
            Ok(()) | Err(Error::NotFound { .. }) => {}
            Err(error) => self.store.events.emit(&Event::CleanupFailed { path, error }),
        }
    }

    /// Number of the manifest in force.
    pub(crate) fn manifest_number(&self) -> u64 {
        self.manifest.number()
    }

    /// Writes a manifest with these keyspaces and logs into another directory, as of a close at
    /// `seq`.
    pub(crate) fn write_copy(
        store: &TableStore,
        dir: &std::path::Path,
        keyspaces: &BTreeMap<KeyspaceId, KeyspaceRecord>,
        wals: &NamedWals,
        values: &NamedValues,
        groups: &NamedGroups,
        seq: Seq,
    ) -> Result<()> {
        let number = store.new_number();
        let mut state = snapshot(keyspaces, wals, values, groups, store.peek_number());
        let mut last = VersionEdit::new();
        last.push(Change::Closed(seq));
        state.push(last);
        let dir = NewDirectory { env: &store.env, path: dir };
        // From here on the copy is a store, and may be somebody's: nothing is renamed there again.
        Manifest::create(&dir, number, &state)?.finish()
    }

    /// Records that everything up to `seq` is durable, and ends the manifest.
    pub(crate) fn close(mut self, seq: Seq) -> Result<()> {
        self.store.check_poison()?;
        if self.is_broken() {
            self.rewrite()?;
        }
        let mut edit = VersionEdit::new();
        edit.push(Change::NextNumber(self.store.peek_number())).push(Change::Closed(seq));
        self.manifest.append(&edit)?;
        self.manifest.sync()?;
        self.manifest.close(self.store.as_ref())
    }
}

/// A file that no state names any more, or never did.
#[derive(Debug)]
struct VoidFile {
    number: u64,
    path: PathBuf,
    /// An edit that may be in force does, or CURRENT does.
    may_be_named: bool,
}

/// The state after an edit that is not in force yet.
struct Derived {
    keyspaces: BTreeMap<KeyspaceId, KeyspaceRecord>,
    wals: NamedWals,
    value_map: Arc<ValueMap>,
}
