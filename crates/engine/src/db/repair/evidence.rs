//! What the directory says about the shape of the database: CURRENT, and every manifest there is.

use crate::log::{HeaderFault, LogKind, Reader, Salvager};
use crate::names::{self, FileKind};
use crate::range_tombstone::RangeTombstone;
use crate::table::read_identity;
use crate::version::{Change, Current, ManifestRemains, NamedGroups, Recovered, TableFact};
use esker_base::vfs::Access;
use esker_base::{Env, Error, KeyspaceId, Result, Seq};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// Everything that CURRENT and the manifests say.
#[derive(Debug)]
pub(super) struct Evidence {
    /// CURRENT, or what is wrong with it.
    pub(super) current: Result<Current, String>,
    /// By number.
    pub(super) manifests: Vec<ManifestRemains>,
    /// Manifests that could not be read at all.
    pub(super) unreadable: Vec<(u64, String)>,
    pub(super) facts: Facts,
}

/// What readable edits say, whether or not they make a whole.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// Name and key order.
    pub(super) keyspaces: BTreeMap<KeyspaceId, (String, String)>,
    pub(super) dropped: BTreeSet<KeyspaceId>,
    pub(super) tables: BTreeMap<u64, TableFact>,
    /// For removed tables that did not only move: what the same edit added.
    replaced_by: BTreeMap<u64, Arc<[u64]>>,
    /// How far groups were applied.
    pub(super) groups: NamedGroups,
    /// What deleted groups were erased from.
    pub(super) erased: BTreeMap<KeyspaceId, Vec<RangeTombstone>>,
    /// Of logs and of files with values: what their records are bound to.
    pub(super) salts: BTreeMap<u64, u64>,
    /// Logs below this are needed for their values only.
    pub(super) wal_min: u64,
    pub(super) next_number: u64,
    pub(super) newest_seq: Seq,
}

impl Evidence {
    pub(super) fn gather(env: &Env, dir: &Path, files: &BTreeMap<FileKind, u64>) -> Evidence {
        let current = match files.contains_key(&FileKind::Current) {
            true => Current::read(env, dir).map_err(|error| error.to_string()),
            false => Err("CURRENT is missing".to_owned()),
        };
        let mut evidence = Evidence {
            current,
            manifests: Vec::new(),
            unreadable: Vec::new(),
            facts: Facts::default(),
        };
        for kind in files.keys() {
            let FileKind::Manifest(number) = *kind else { continue };
            let salt = match &evidence.current {
                Ok(current) if current.number == number => Some(current.salt),
                _ => None,
            };
            match ManifestRemains::read(env, dir, number, salt) {
                Ok(remains) => {
                    evidence.facts.take(&remains);
                    evidence.manifests.push(remains);
                }
                Err(error) => evidence.unreadable.push((number, error.to_string())),
            }
        }
        evidence
    }

    /// The manifest whose state can be relied on.
    ///
    /// The one that CURRENT names, if it is whole: CURRENT says how long it was at least. Without
    /// CURRENT the newest whole one most of whose files are there; without a mark it may still have
    /// been being written when power failed.
    pub(super) fn reliable(&self, files: &BTreeMap<FileKind, u64>) -> Option<&ManifestRemains> {
        let whole = |m: &&ManifestRemains| m.state.is_some();
        match &self.current {
            Ok(current) => self.manifests.iter().filter(whole).find(|m| {
                m.number == current.number
                    && m.salt == Some(current.salt)
                    && m.end_bytes >= current.durable_bytes
            }),
            Err(_) => self.manifests.iter().rev().filter(whole).find(|m| {
                let there = m.state.as_ref().is_some_and(|state| mostly_there(state, files));
                there && m.durable_bytes > 0
            }),
        }
    }

    /// True if the manifest cannot have lost its end: CURRENT vouches for all of it.
    pub(super) fn is_closed(&self, manifest: &ManifestRemains) -> bool {
        let closed = manifest.state.as_ref().is_some_and(|state| state.closed_seq.is_some());
        closed
            && self.current.as_ref().is_ok_and(|current| {
                // A mark may stand behind what CURRENT vouches for, but no edit.
                current.number == manifest.number
                    && current.durable_bytes >= manifest.edits_end_bytes
            })
    }
}

fn mostly_there(state: &Recovered, files: &BTreeMap<FileKind, u64>) -> bool {
    let (mut there, mut named) = (0u64, 0u64);
    for meta in state.tables() {
        named += 1;
        there += u64::from(files.contains_key(&FileKind::Table(meta.number)));
    }
    there * 2 >= named
}

impl Facts {
    fn take(&mut self, remains: &ManifestRemains) {
        for edit in &remains.edits {
            let added: Arc<[u64]> = edit
                .changes
                .iter()
                .filter_map(|change| match change {
                    Change::TableAdded { meta, .. } => Some(meta.number),
                    _ => None,
                })
                .collect();
            // What moves is taken out and put in by the same edit.
            let moved: BTreeSet<u64> = added.iter().copied().collect();
            for change in &edit.changes {
                if let Change::TableRemoved { number, .. } = change
                    && let Some(fact) = self.tables.get_mut(number)
                {
                    fact.removed = true;
                    if !moved.contains(number) {
                        self.replaced_by.insert(*number, added.clone());
                    }
                }
            }
            edit.changes.iter().for_each(|change| self.note(change));
        }
    }

    fn note(&mut self, change: &Change) {
        match change {
            Change::NextNumber(number) => self.next_number = self.next_number.max(*number),
            Change::Closed(seq) => self.newest_seq = self.newest_seq.max(*seq),
            Change::Flushed { seq, .. } => self.newest_seq = self.newest_seq.max(*seq),
            Change::WalCreated { number, salt } => {
                self.salts.insert(*number, *salt);
            }
            Change::KeyspaceCreated { id, name, order } => {
                self.keyspaces.insert(*id, (name.clone(), order.clone()));
                self.dropped.remove(id);
                // A manifest begins with all that still counts.
                self.erased.remove(id);
                self.next_number = self.next_number.max(u64::from(id.0) + 1);
            }
            Change::KeyspaceDropped(id) => {
                self.dropped.insert(*id);
            }
            Change::TableAdded { id, meta, .. } => {
                let fact = TableFact { keyspace: *id, meta: meta.clone(), removed: false };
                self.tables.insert(meta.number, fact);
            }
            Change::Erased { id, start, end, seq } => {
                self.newest_seq = self.newest_seq.max(*seq);
                let (start, end) = (Arc::from(&**start), Arc::from(&**end));
                self.erased.entry(*id).or_default().push(RangeTombstone { start, end, seq: *seq });
            }
            Change::ValuesAdded(meta) => {
                self.salts.insert(meta.number, meta.salt);
            }
            Change::WalMin(min) => self.wal_min = self.wal_min.max(*min),
            Change::WalBegun { .. } | Change::TableRemoved { .. } | Change::ValuesRemoved(_) => {}
            Change::Applied { .. } | Change::GroupForgotten(_) => self.groups.apply(change),
        }
    }

    /// True if edits say that the table is one of an index.
    pub(super) fn is_of_index(&self, number: u64) -> bool {
        let keyspace = self.tables.get(&number).map(|fact| fact.keyspace);
        let name = keyspace.and_then(|id| self.keyspaces.get(&id)).map(|(name, _)| name);
        name.is_some_and(|name| names::is_index(name))
    }

    /// True if the table was replaced by others that are there, or that were replaced in their
    /// turn.
    ///
    /// An edit that failed may be on the disk without ever having been in force; then what it added
    /// is not there.
    pub(super) fn is_obsolete(&self, number: u64, files: &BTreeMap<FileKind, u64>) -> bool {
        let Some(fact) = self.tables.get(&number) else { return false };
        if self.dropped.contains(&fact.keyspace) {
            return true;
        }
        if !fact.removed {
            return false;
        }
        self.replaced_by.get(&number).is_some_and(|added| {
            added.iter().all(|other| {
                files.contains_key(&FileKind::Table(*other))
                    || self.tables.get(other).is_some_and(|fact| fact.removed)
            })
        })
    }
}

/// True if some file bears a name or a content that only ours have: other stores have a CURRENT and
/// manifests too. A store whose creation was cut off is none yet.
pub(in crate::db) fn is_ours(
    env: &Env,
    dir: &Path,
    files: &BTreeMap<FileKind, u64>,
) -> Result<bool> {
    for kind in files.keys() {
        let found = match *kind {
            FileKind::Table(_) | FileKind::Wal(_) | FileKind::Values(_) => Ok(true),
            FileKind::Current => Current::read(env, dir).map(|_| true),
            FileKind::Manifest(number) if files.contains_key(&FileKind::Current) => {
                let path = names::manifest(dir, number);
                let reader = Reader::open(env.vfs.as_ref(), &path, LogKind::Manifest, number, 0);
                reader.map(|reader| reader.header().is_some())
            }
            FileKind::Manifest(number) => {
                ManifestRemains::is_of_creation(env, dir, number).map(|creation| !creation)
            }
            FileKind::Lock | FileKind::Temporary => Ok(false),
        };
        match found {
            Ok(true) => return Ok(true),
            Ok(false) | Err(Error::Corruption { .. } | Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// Fails if a newer version made one of the files: what cannot be read here would be put aside as
/// lost.
///
/// # Errors
/// `Incompatible`, of that file. What else is wrong is left for later.
pub(super) fn refuse_newer<'a>(
    env: &Env,
    dir: &Path,
    files: impl Iterator<Item = &'a FileKind>,
) -> Result<()> {
    for &kind in files {
        let path = dir.join(name_of(kind));
        let vfs = env.vfs.as_ref();
        let checked = match kind {
            FileKind::Wal(_) | FileKind::Manifest(_) | FileKind::Values(_) => {
                Salvager::open(vfs, &path, None).and_then(|log| match log.header() {
                    Err(fault @ HeaderFault::Newer(_)) => Err(fault.at(&path)),
                    _ => Ok(()),
                })
            }
            FileKind::Table(_) => {
                let file = vfs.open(&path, Access::Random);
                file.and_then(|file| read_identity(file.as_ref(), &path)).map(drop)
            }
            FileKind::Current | FileKind::Lock | FileKind::Temporary => Ok(()),
        };
        if let Err(error @ Error::Incompatible { .. }) = checked {
            return Err(error);
        }
    }
    Ok(())
}

/// The file's name in the directory.
pub(super) fn name_of(kind: FileKind) -> String {
    let dir = Path::new("");
    let path = match kind {
        FileKind::Current => names::current(dir),
        FileKind::Lock => names::lock(dir),
        FileKind::Manifest(number) => names::manifest(dir, number),
        FileKind::Wal(number) => names::wal(dir, number),
        FileKind::Table(number) => names::table(dir, number),
        FileKind::Values(number) => names::values(dir, number),
        FileKind::Temporary => names::temporary(dir),
    };
    path.to_string_lossy().into_owned()
}
