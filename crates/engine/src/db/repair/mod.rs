//! Repair: makes a damaged database one that opens, and lists what it could not use.
//!
//! ```text
//! lock -> CURRENT, manifests -> is one reliable?
//!    yes: its shape is kept; damaged tables are rewritten from their readable blocks
//!    no:  all tables of a keyspace are merged by sequence number into one new run
//! logs -> every readable record, in write order -> tables
//! values kept apart stay in their files; records that point to unreadable ones are left out
//! -> second names in lost/ for what cannot stay, and the report -> new manifest, CURRENT
//! -> remove the first names
//! ```
//!
//! Invariants: (1) until CURRENT names the new manifest, every old file stands where it stood; (2)
//! a file that was not used, or not used completely, is in `lost/` before CURRENT changes; (3)
//! whatever is passed over stands in the report; (4) what a disk cannot read is damage, and what a
//! system refuses is none, see `tolerant`.
//! Logs: opening stops at the first gap, since what follows was never promised without what is
//! missing. Repair goes on behind gaps and lists them: whoever calls it wants all there is.
//! Crash: run it again. Before CURRENT changed it starts anew; what it had written is then
//! unneeded, or merged with what it came from, which changes nothing.

pub(super) mod evidence;
mod holders;
mod install;
mod logs;
mod progress;
mod rebuild;
mod report;
mod tables;
mod tolerant;
mod values;

#[cfg(test)]
mod lost_pages;
#[cfg(test)]
mod tests;

pub use report::{
    FileFate, FileReport, KeyspaceReport, LostRange, MissingWrites, RepairProgress, RepairReport,
    Structure,
};

use super::open::{DEFAULT_KEYSPACE, Setup};
use super::secondary::catalogue::options_for;
use crate::event::EventSink;
use crate::memtable::Memtable;
use crate::names::{self, FileKind};
use crate::options::{KeyspaceOptions, MemoryShares, Options};
use crate::range_tombstone::RangeTombstone;
use crate::table::{Origin, TableContext};
use crate::version::{
    ManifestRemains, NamedGroups, NamedWals, RawKeyspace, Recovered, TableMeta, TableStore,
};
use esker_base::{Error, KeyspaceId, Result, Seq};
use evidence::{Evidence, is_ours, name_of};
use holders::Values;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use tolerant::TolerantVfs;

/// Why a table of an index is not used: entries follow from records.
const INDEX_REASON: &str = "it held an index, which is built anew";

/// Memory for blocks while tables are read.
const CACHE_BYTES: u64 = 8 << 20;

/// Bytes that all sources of a merge read ahead together.
const READAHEAD_BYTES: usize = 64 << 20;

/// Repairs the closed database in `dir`.
///
/// `options` are those it is opened with: key orders must be the right ones, or the keyspaces
/// concerned are skipped. `progress` is called after each table, log and file with values;
/// returning false ends the repair with `Cancelled` and leaves the database as it was.
///
/// How far groups were applied ([`crate::Db::groups`]) is kept only if nothing at all is missing,
/// be it no more than the end of the manifest; otherwise it is forgotten for all of them, see
/// docs/external-durability.md.
///
/// # Errors
/// `InvalidArgument`: an option is out of range. `Busy`: somebody has it open. `NotFound`: no file
/// of a database is there. `Incompatible`: the default keyspace has another key order, or a newer
/// version made a file. Of the system: a disk that cannot read a place is no reason to end, but a
/// missing right is, or too many open files. The database is as it was, unless the last step
/// failed: then it may be repaired already, and repairing again does no harm.
/// # Cost
/// Reads everything once, twice if no manifest can be relied on; then it also writes everything
/// once and keeps the old files in `lost/`.
pub fn repair(
    dir: &Path,
    options: &Options,
    mut setup: Setup,
    mut progress: impl FnMut(&RepairProgress) -> bool,
) -> Result<RepairReport> {
    options.validate()?;
    let tolerant = TolerantVfs::new(setup.env.vfs.clone());
    setup.env.vfs = Arc::new(tolerant.clone());
    let vfs = setup.env.vfs.clone();
    if !vfs.exists(dir)? {
        return Err(Error::NotFound { path: dir.to_path_buf() });
    }
    // Somebody else's directory is not even given a lock.
    if !is_ours(&setup.env, dir, &list(vfs.as_ref(), dir)?)? {
        return Err(Error::NotFound { path: names::current(dir) });
    }
    let _lock = vfs.lock(&names::lock(dir))?;
    let store = TableStore::new(
        setup.env,
        dir.to_path_buf(),
        EventSink::new(setup.listener),
        options.open_files_max as usize,
        MemoryShares {
            cache_bytes: CACHE_BYTES,
            cache_borrows: false,
            pinned_bytes: 0,
            run_index_bytes: 0,
            read_bytes: READAHEAD_BYTES,
        },
    );
    let mut repair = Repair {
        options,
        tolerant,
        store: Arc::new(store),
        files: list(vfs.as_ref(), dir)?,
        report: RepairReport::default(),
        progress: RepairProgress::default(),
        tell: &mut progress,
        keyspaces: BTreeMap::new(),
        mem_bytes: 0,
        made: Vec::new(),
        fates: BTreeMap::new(),
        wals: NamedWals::default(),
        values: Values::default(),
        groups: NamedGroups::default(),
        erased: BTreeMap::new(),
    };
    let result = repair.run();
    if result.is_err() {
        repair.remove_made();
    }
    result.map(|()| repair.report)
}

/// The files of ours in the directory, with their lengths.
fn list(vfs: &dyn esker_base::Vfs, dir: &Path) -> Result<BTreeMap<FileKind, u64>> {
    let entries = vfs.list(dir)?;
    let files = entries.iter().filter(|entry| !entry.is_dir);
    Ok(files.filter_map(|entry| Some((names::parse(&entry.name)?, entry.len_bytes))).collect())
}

/// A repair under way.
struct Repair<'a> {
    options: &'a Options,
    /// What the store reads and writes by.
    tolerant: TolerantVfs,
    store: Arc<TableStore>,
    /// What was there at the start.
    files: BTreeMap<FileKind, u64>,
    report: RepairReport,
    progress: RepairProgress,
    tell: &'a mut dyn FnMut(&RepairProgress) -> bool,
    keyspaces: BTreeMap<KeyspaceId, Target>,
    /// What memtables have grown by.
    mem_bytes: u64,
    /// Tables, and files with values, written by this repair.
    made: Vec<FileKind>,
    /// Files that are spoken for.
    fates: BTreeMap<FileKind, FileReport>,
    /// Logs that the new manifest names, with their salts: only for skipped keyspaces.
    wals: NamedWals,
    /// Values that are kept apart.
    values: Values,
    /// How far groups were applied, as the manifest has it.
    groups: NamedGroups,
    /// What was erased of each keyspace and may still stand in tables.
    erased: BTreeMap<KeyspaceId, Vec<RangeTombstone>>,
}

/// A keyspace that is being put together.
struct Target {
    name: String,
    order: String,
    /// `None` if the options do not fit: the keyspace is skipped.
    options: Option<Arc<KeyspaceOptions>>,
    flushed_seq: Seq,
    /// Tables lost records that logs may still hold.
    hurt: bool,
    /// Operations were taken from logs although tables should have held them.
    revived: bool,
    /// By level and number; with the id of the run.
    tables: BTreeMap<(u32, u64), (u64, TableMeta)>,
    /// Operations from logs that are not in a table yet.
    mem: Option<Arc<Memtable>>,
    /// What it has grown by.
    mem_bytes: u64,
    /// Tables made from them, a list for each memtable, oldest first.
    log_tables: Vec<Vec<TableMeta>>,
}

impl Repair<'_> {
    fn run(&mut self) -> Result<()> {
        evidence::refuse_newer(&self.store.env, &self.store.dir, self.files.keys())?;
        let kinds: Vec<FileKind> = self.files.keys().copied().collect();
        self.store.skip_numbers_below(super::recover::number_after(&kinds));
        let evidence = Evidence::gather(&self.store.env, &self.store.dir, &self.files);
        self.store.skip_numbers_below(evidence.facts.next_number);
        self.measure();
        self.survey_values(&evidence.facts)?;
        let kept = match evidence.reliable(&self.files) {
            Some(manifest) if !self.has_lost_its_end(&evidence, manifest)? => Some(manifest),
            _ => None,
        };
        match kept {
            Some(manifest) => self.keep(&evidence, manifest)?,
            None => self.rebuild(&evidence)?,
        }
        self.speak_for_manifests(&evidence, kept.map(|manifest| manifest.number));
        self.install()
    }

    /// Notes what became of a file. What was said of it first holds.
    fn speak_for(&mut self, kind: FileKind, fate: FileFate, reason: &str, records: u64) {
        self.fates.entry(kind).or_insert_with(|| FileReport {
            file: name_of(kind),
            fate,
            reason: reason.to_owned(),
            records,
            moved_to: None,
        });
    }

    /// True if the manifest is whole but says less than the directory: edits are missing at its
    /// end, and tables that they would name are there.
    fn has_lost_its_end(&self, evidence: &Evidence, manifest: &ManifestRemains) -> Result<bool> {
        let Some(state) = &manifest.state else { return Ok(true) };
        if evidence.is_closed(manifest) {
            return Ok(false);
        }
        let there = |kind| self.files.contains_key(&kind);
        let named: std::collections::BTreeSet<u64> = state.tables().map(|m| m.number).collect();
        let missing = named.iter().any(|&n| !there(FileKind::Table(n)))
            || state.wals.0.keys().any(|&n| !there(FileKind::Wal(n)));
        let unnamed_table = self.files.keys().any(|kind| match *kind {
            FileKind::Table(n) => {
                !named.contains(&n) && !evidence.facts.is_obsolete(n, &self.files)
            }
            _ => false,
        });
        if !unnamed_table {
            return Ok(false);
        }
        Ok(missing || self.has_unnamed_records(state)?)
    }

    /// Takes a keyspace over; one whose order the options do not know is skipped.
    ///
    /// # Errors
    /// `Incompatible` for the default keyspace, which no database is without.
    fn target(&mut self, id: KeyspaceId, name: &str, order: &str) -> Result<&mut Target> {
        let options = options_for(self.options, name);
        let name = &self.name_for(id, name);
        let known = options.order.name() == order;
        if !known {
            let what = format!(
                "keyspace {name:?} was created with key order {order:?}, and the options say {:?}: \
                 give the comparator it was created with",
                options.order.name()
            );
            if id == KeyspaceId::DEFAULT {
                return Err(Error::Incompatible { path: self.store.dir.clone(), what });
            }
            self.report.keyspace(id).skipped.get_or_insert(what);
        }
        if names::is_index(name) {
            self.report.note_index();
        } else {
            let report = self.report.keyspace(id);
            name.clone_into(&mut report.name);
            order.clone_into(&mut report.order);
        }
        self.store.skip_numbers_below(u64::from(id.0) + 1);
        Ok(self.keyspaces.entry(id).or_insert_with(|| Target {
            name: name.to_owned(),
            order: order.to_owned(),
            options: known.then(|| Arc::new(options)),
            flushed_seq: 0,
            hurt: false,
            revived: false,
            tables: BTreeMap::new(),
            mem: None,
            mem_bytes: 0,
            log_tables: Vec::new(),
        }))
    }

    /// The name for a keyspace. Of two of one name the older one, which was dropped before the
    /// other was made, gets another.
    fn name_for(&mut self, id: KeyspaceId, name: &str) -> String {
        if let Some(known) = self.keyspaces.get(&id) {
            return known.name.clone();
        }
        let is_twin = |(_, target): &(&KeyspaceId, &mut Target)| {
            target.name == name && !names::is_index(name)
        };
        let Some((&other, twin)) = self.keyspaces.iter_mut().find(is_twin) else {
            return name.to_owned();
        };
        let older = id.min(other);
        let new_name = format!("{name}-recovered-{}", older.0);
        self.report.notes.push(format!(
            "keyspaces {} and {} have the name {name:?}; the older one, which had been dropped, is now \
             {new_name:?}",
            id.min(other).0,
            id.max(other).0
        ));
        if older == id {
            return new_name;
        }
        twin.name.clone_from(&new_name);
        self.report.keyspace(other).name = new_name;
        name.to_owned()
    }

    /// The default keyspace must be there, whatever was lost.
    fn ensure_default(&mut self) -> Result<()> {
        if self.keyspaces.contains_key(&KeyspaceId::DEFAULT) {
            return Ok(());
        }
        let order = self.options.for_keyspace(DEFAULT_KEYSPACE).order.name().to_owned();
        self.target(KeyspaceId::DEFAULT, DEFAULT_KEYSPACE, &order).map(|_| ())
    }

    fn context(&self, number: u64) -> TableContext {
        TableContext {
            cache: self.store.cache.clone(),
            number,
            counters: self.store.counters.clone(),
            pin_bytes_max: 0,
        }
    }

    /// Keeps the shape that a manifest gives.
    fn keep(&mut self, evidence: &Evidence, manifest: &ManifestRemains) -> Result<()> {
        let Some(state) = &manifest.state else { return Ok(()) };
        self.report.structure = Structure::Kept { manifest: manifest.number };
        self.prefer_named_values(state);
        self.tell_unread(Some(state));
        self.groups = state.groups.clone();
        let erased = |(&id, raw): (&KeyspaceId, &RawKeyspace)| (id, raw.erased.clone());
        self.erased = state.keyspaces.iter().map(erased).collect();
        for (&id, raw) in &state.keyspaces {
            let target = self.target(id, &raw.name, &raw.order)?;
            target.flushed_seq = raw.flushed_seq;
            if names::is_index(&raw.name) {
                for &(_, number) in raw.tables.keys() {
                    self.speak_for(FileKind::Table(number), FileFate::Unneeded, INDEX_REASON, 0);
                    self.advance(FileKind::Table(number))?;
                }
                continue;
            }
            self.keep_tables(id, raw)?;
        }
        self.ensure_default()?;
        let tables: Vec<u64> = self.files.keys().filter_map(table_number).collect();
        for number in tables {
            let kind = FileKind::Table(number);
            if !self.fates.contains_key(&kind) {
                let reason = "the manifest does not name it";
                self.speak_for(kind, FileFate::Unneeded, reason, 0);
                self.advance(kind)?;
            }
        }
        self.report.last_seq = state.newest_table_seq();
        self.read_logs(&self.logs_of(state), state.closed_seq, Some(state), &evidence.facts)?;
        if self.wals.0.is_empty() {
            // Where logs stay, they reach as far as anything: other manifests may tell of more.
            self.report.last_seq = self.report.last_seq.max(evidence.facts.newest_seq);
        }
        self.merge_revived()?;
        self.join_log_tables();
        Ok(())
    }

    /// Keyspaces that got back from logs what their tables had lost: older records stand beside
    /// newer ones, so that their tables have to be merged.
    fn merge_revived(&mut self) -> Result<()> {
        let revived = self.keyspaces.iter().filter(|(_, target)| target.revived);
        let ids: Vec<KeyspaceId> = revived.map(|(&id, _)| id).collect();
        for id in ids {
            let Some(target) = self.keyspaces.get_mut(&id) else { continue };
            let old = std::mem::take(&mut target.tables);
            let run = old.values().map(|(run, _)| *run).max().map_or(1, |run| run + 1);
            let mut tables: Vec<TableMeta> = old.into_values().map(|(_, meta)| meta).collect();
            tables.extend(target.log_tables.drain(..).flatten());
            for meta in &tables {
                if let Some(said) = self.fates.get_mut(&FileKind::Table(meta.number)) {
                    said.fate = FileFate::Read;
                    said.records = meta.entries + meta.range_tombstones;
                    "sound; merged with what logs hold".clone_into(&mut said.reason);
                }
            }
            self.merge(id, run, tables)?;
            self.report.notes.push(format!(
                "keyspace {} got back from logs what its tables had lost, as far as the logs reach; \
                 where a lost record had been bulk-loaded over one of theirs, the older one is back",
                id.0
            ));
        }
        Ok(())
    }

    /// Tables made from logs become the newest runs of level 0.
    fn join_log_tables(&mut self) {
        let runs = self.keyspaces.values().flat_map(|t| t.tables.values()).map(|(run, _)| *run);
        let mut next_run = runs.max().map_or(1, |run| run + 1);
        for target in self.keyspaces.values_mut() {
            for tables in std::mem::take(&mut target.log_tables) {
                for meta in tables {
                    target.tables.insert((0, meta.number), (next_run, meta));
                }
                next_run += 1;
            }
        }
    }

    /// What becomes of CURRENT and the manifests.
    fn speak_for_manifests(&mut self, evidence: &Evidence, kept: Option<u64>) {
        let current = match &evidence.current {
            Ok(_) => (FileFate::Read, "written anew".to_owned()),
            Err(_) if self.tells_all(evidence, kept) => (
                FileFate::Remade,
                "missing; the manifest is whole and all it names is there".to_owned(),
            ),
            Err(why) => (FileFate::Lost, why.clone()),
        };
        self.speak_for(FileKind::Current, current.0, &current.1, 0);
        if let Ok(current) = &evidence.current {
            let kind = FileKind::Manifest(current.number);
            if !self.files.contains_key(&kind) {
                self.speak_for(kind, FileFate::Lost, "missing, although CURRENT names it", 0);
            }
        }
        // What others lack is no loss: nobody has gone by them yet, or does so any more.
        let is_in_force = evidence.current.as_ref().is_ok_and(|now| kept == Some(now.number));
        let is_other = |number: u64| is_in_force && kept != Some(number);
        let unneeded = |number: u64| match kept.is_some_and(|kept| kept < number) {
            true => "CURRENT never named it: its creation was cut off",
            false => "not the manifest in force",
        };
        for &(number, ref why) in &evidence.unreadable {
            let (fate, why) = match is_other(number) {
                true => (FileFate::Unneeded, unneeded(number)),
                false => (FileFate::Lost, &**why),
            };
            self.speak_for(FileKind::Manifest(number), fate, why, 0);
        }
        for manifest in &evidence.manifests {
            let kind = FileKind::Manifest(manifest.number);
            if is_other(manifest.number) {
                self.speak_for(kind, FileFate::Unneeded, unneeded(manifest.number), 0);
                continue;
            }
            let name = name_of(kind);
            for gap in &manifest.gaps {
                let vouched = manifest.durable_bytes > gap.offset_bytes;
                let torn = gap.is_tail && !vouched;
                let what = if torn { "torn tail" } else { "no version edit can be read" };
                self.report.lose(&name, gap.offset_bytes, gap.bytes, what);
            }
            for &offset in &manifest.malformed {
                self.report.lose(&name, offset, 0, "version edit is malformed or does not fit");
            }
            let is_kept = kept == Some(manifest.number);
            let edits = manifest.edits.len() as u64;
            match manifest.header_damage {
                _ if is_kept => self.speak_for(kind, FileFate::Read, "written anew", 0),
                Some(what) => self.speak_for(kind, FileFate::Salvaged, what, edits),
                None if manifest.state.is_none() => {
                    self.speak_for(kind, FileFate::Salvaged, "damaged", edits);
                }
                None if kept.is_some() => {
                    self.speak_for(kind, FileFate::Unneeded, "not the manifest in force", 0);
                }
                None => {
                    let why = "it names files that are not there, or less than is there";
                    self.speak_for(kind, FileFate::Salvaged, why, edits);
                }
            }
        }
    }

    /// True if CURRENT could only name the manifest that was kept, so that nothing is lost with it.
    ///
    /// A mark vouches for its last edit, as CURRENT would, and nothing in the directory says more
    /// than it does. Any doubt counts.
    fn tells_all(&self, evidence: &Evidence, kept: Option<u64>) -> bool {
        let ([manifest], true) = (&evidence.manifests[..], evidence.unreadable.is_empty()) else {
            return false;
        };
        let Some(state) = manifest.state.as_ref().filter(|_| kept == Some(manifest.number)) else {
            return false;
        };
        let lengths = |number| self.files.get(&FileKind::Table(number));
        let named: BTreeMap<u64, u64> = state.tables().map(|m| (m.number, m.file_bytes)).collect();
        !self.files.contains_key(&FileKind::Current)
            && manifest.gaps.is_empty()
            && manifest.durable_bytes >= manifest.edits_end_bytes
            && named.iter().all(|(&number, bytes)| lengths(number) == Some(bytes))
            && state.wals.0.keys().all(|&number| self.files.contains_key(&FileKind::Wal(number)))
            && self.files.keys().filter_map(table_number).all(|number| {
                named.contains_key(&number) || evidence.facts.is_obsolete(number, &self.files)
            })
            && self.has_unnamed_records(state).is_ok_and(|unnamed| !unnamed)
    }

    /// The state that the new manifest will hold.
    fn new_state(&mut self) -> Result<Recovered> {
        let values = self.keep_values()?;
        // An index of a keyspace that nothing tells of any more is of nothing. Of two of one name
        // the older one had been dropped.
        let ids = self.keyspaces.iter().map(|(&id, one)| (one.name.clone(), id));
        let newest: BTreeMap<String, KeyspaceId> = ids.collect();
        let there: BTreeSet<KeyspaceId> = self.keyspaces.keys().copied().collect();
        self.keyspaces.retain(|&id, one| {
            names::parse_index(&one.name)
                .is_none_or(|(of, _)| there.contains(&of) && newest.get(&one.name) == Some(&id))
        });
        let mut keyspaces = BTreeMap::new();
        for (&id, target) in &self.keyspaces {
            let skipped = target.options.is_none();
            let raw = RawKeyspace {
                name: target.name.clone(),
                order: target.order.clone(),
                // Logs that stay are for skipped keyspaces only.
                flushed_seq: if skipped { target.flushed_seq } else { self.report.last_seq },
                tables: target.tables.clone(),
                erased: self.erased.remove(&id).unwrap_or_default(),
            };
            keyspaces.insert(id, raw);
        }
        let groups = self.keep_groups();
        // What of the others cannot be removed holds nothing that counts.
        let oldest = self.wals.0.keys().next().copied();
        self.wals.1 = oldest.unwrap_or(self.store.peek_number());
        Ok(Recovered::of(keyspaces, self.wals.clone(), values, groups))
    }

    /// How far groups were applied, if nothing is missing of what that stands for. Otherwise nobody
    /// may rely on it: whoever has their logs must put the groups in anew.
    ///
    /// A tail of the manifest that nobody vouches for counts as missing. Groups of what stands
    /// before it are no safer: the tail may have said that they were further, by which their logs
    /// were cut off, or deleted.
    fn keep_groups(&mut self) -> NamedGroups {
        let groups = std::mem::take(&mut self.groups);
        let whole = |file: &FileReport| !matches!(file.fate, FileFate::Lost | FileFate::Salvaged);
        let is_whole = self.report.is_complete()
            && self.report.structure != Structure::Rebuilt
            && self.fates.values().all(whole);
        if groups.0.is_empty() || is_whole {
            return groups;
        }
        self.report.notes.push(format!(
            "how far {} groups were applied is forgotten, since something of them may be missing: put them in anew",
            groups.0.len()
        ));
        NamedGroups::default()
    }

    fn remove_made(&self) {
        for &kind in &self.made {
            // What stays behind is named by nobody.
            let _ = self.store.env.vfs.remove(&self.store.dir.join(name_of(kind)));
        }
    }
}

fn table_number(kind: &FileKind) -> Option<u64> {
    match *kind {
        FileKind::Table(number) => Some(number),
        _ => None,
    }
}

impl Target {
    fn origin(&self, id: KeyspaceId) -> Origin {
        Origin { flushed_seq: self.flushed_seq, ..Origin::new(id, &self.name) }
    }
}
