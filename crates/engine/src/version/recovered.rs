//! What a manifest said when it was read, before anything is opened.

use super::edit::{Change, TableMeta};
use super::groups::NamedGroups;
use super::keyspace::KeyspaceRecord;
use super::manifest::{Current, replay};
use super::set::{Named, VersionSet};
use super::store::TableStore;
use super::tree::Version;
use super::values::{NamedValues, check_references};
use super::wals::NamedWals;
use crate::event::Event;
use crate::log::TornTail;
use crate::names;
use crate::options::KeyspaceOptions;
use crate::range_tombstone::RangeTombstone;
use esker_base::{Error, KeyspaceId, Result, Seq};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the manifest said when it was read.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    pub(crate) keyspaces: BTreeMap<KeyspaceId, RawKeyspace>,
    /// Write-ahead logs that may hold records not yet in tables.
    pub(crate) wals: NamedWals,
    /// Files with values that tables point to.
    pub(crate) values: NamedValues,
    /// How far the logs of groups were applied.
    pub(crate) groups: NamedGroups,
    /// The newest sequence number, if the database was closed and not written to since.
    pub(crate) closed_seq: Option<Seq>,
    /// No edit so far names a file number or a keyspace id from here on; files that none names may
    /// have greater numbers.
    pub(crate) next_number: u64,
    pub(crate) manifest_number: u64,
    torn: Option<TornTail>,
}

/// A keyspace as edits describe it.
#[derive(Clone, Debug)]
pub(crate) struct RawKeyspace {
    pub(crate) name: String,
    pub(crate) order: String,
    pub(crate) flushed_seq: Seq,
    /// By level and number; with the id of the run.
    pub(crate) tables: BTreeMap<(u32, u64), (u64, TableMeta)>,
    /// What was erased, as far as it may still stand somewhere.
    pub(crate) erased: Vec<RangeTombstone>,
}

impl Recovered {
    /// A state that is to be written.
    pub(crate) fn of(
        keyspaces: BTreeMap<KeyspaceId, RawKeyspace>,
        wals: NamedWals,
        values: NamedValues,
        groups: NamedGroups,
    ) -> Recovered {
        Recovered { keyspaces, wals, values, groups, ..Recovered::default() }
    }

    /// Reads the manifest in force.
    ///
    /// # Errors
    /// `NotFound`: there is no database here. `Corruption`: as the message says.
    pub(crate) fn read(store: &TableStore) -> Result<Recovered> {
        let (env, dir) = (&store.env, &store.dir);
        let current = Current::read(env, dir)?;
        let mut state = Recovered { manifest_number: current.number, ..Recovered::default() };
        let torn = replay(env, dir, current, |edit| {
            edit.changes.into_iter().try_for_each(|change| state.apply(change))
        })
        .map_err(|error| match error {
            // CURRENT names it, so its absence is damage.
            Error::NotFound { path } => {
                Error::corruption(path, 0, "the manifest that CURRENT names is missing; run repair")
            }
            other => other,
        })?;
        state.torn = torn;
        Ok(state)
    }

    /// Takes a change into the state; fails if it does not fit.
    pub(crate) fn apply(&mut self, change: Change) -> Result<(), &'static str> {
        let unknown = "an edit names a keyspace that does not exist";
        match change {
            Change::NextNumber(number) => self.next_number = self.next_number.max(number),
            Change::Closed(seq) => self.closed_seq = Some(seq),
            Change::WalCreated { .. } | Change::WalBegun { .. } | Change::WalMin(_) => {
                if matches!(change, Change::WalCreated { .. }) {
                    self.closed_seq = None;
                }
                self.wals.apply(&change)?;
            }
            Change::ValuesAdded(_) | Change::ValuesRemoved(_) => self.values.apply(&change)?,
            Change::Applied { .. } | Change::GroupForgotten(_) => self.groups.apply(&change),
            Change::KeyspaceCreated { id, name, order } => {
                // Ids and file numbers are given out of one row.
                self.next_number = self.next_number.max(u64::from(id.0) + 1);
                let tables = BTreeMap::new();
                let raw = RawKeyspace { name, order, flushed_seq: 0, tables, erased: Vec::new() };
                if self.keyspaces.insert(id, raw).is_some() {
                    return Err("an edit creates a keyspace that exists");
                }
            }
            Change::KeyspaceDropped(id) => {
                self.keyspaces.remove(&id).ok_or(unknown)?;
            }
            Change::Flushed { id, seq } => {
                let flushed_seq = &mut self.keyspaces.get_mut(&id).ok_or(unknown)?.flushed_seq;
                *flushed_seq = seq.max(*flushed_seq);
            }
            Change::TableAdded { id, level, run, meta } => {
                let keyspace = self.keyspaces.get_mut(&id).ok_or(unknown)?;
                if keyspace.tables.insert((level, meta.number), (run, meta)).is_some() {
                    return Err("an edit adds a table that is there");
                }
            }
            Change::Erased { id, start, end, seq } => {
                let erased = RangeTombstone { start: start.into(), end: end.into(), seq };
                self.keyspaces.get_mut(&id).ok_or(unknown)?.erased.push(erased);
            }
            Change::TableRemoved { id, level, number } => {
                let keyspace = self.keyspaces.get_mut(&id).ok_or(unknown)?;
                keyspace.tables.remove(&(level, number)).ok_or("a removed table is not there")?;
            }
        }
        Ok(())
    }

    /// The tables that the manifest names.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &TableMeta> {
        self.keyspaces.values().flat_map(|raw| raw.tables.values()).map(|(_, meta)| meta)
    }

    /// The newest sequence number in any table.
    pub(crate) fn newest_table_seq(&self) -> Seq {
        let in_tables = |raw: &RawKeyspace| {
            raw.tables
                .values()
                .map(|(_, meta)| meta.max_seq)
                .max()
                .unwrap_or(0)
                .max(raw.flushed_seq)
                .max(raw.erased.iter().map(|erased| erased.seq).max().unwrap_or(0))
        };
        self.keyspaces.values().map(in_tables).max().unwrap_or(0)
    }

    /// Builds the versions, with options found by `options_for(name)`, without writing anything.
    pub(crate) fn keyspaces(
        &self,
        store: &Arc<TableStore>,
        options_for: impl Fn(&str) -> Arc<KeyspaceOptions>,
    ) -> Result<BTreeMap<KeyspaceId, KeyspaceRecord>> {
        let mut keyspaces = BTreeMap::new();
        let damaged =
            |what| Error::corruption(names::manifest(&store.dir, self.manifest_number), 0, what);
        let values = Arc::new(self.values.map(&store.values).map_err(damaged)?);
        self.tables().try_for_each(|meta| check_references(&values, meta)).map_err(damaged)?;
        let empty = Version::default().with_values(values);
        for (&id, raw) in &self.keyspaces {
            let options = options_for(&raw.name);
            if options.order.name() != raw.order {
                return Err(Error::Incompatible {
                    path: store.dir.clone(),
                    what: format!(
                        "keyspace {:?} was created with key order {:?}, and the options say {:?}: \
                         open it with the comparator it was created with",
                        raw.name,
                        raw.order,
                        options.order.name()
                    ),
                });
            }
            let added = raw
                .tables
                .iter()
                .map(|(&(level, _), (run, meta))| {
                    (level, *run, store.table(meta.clone(), &options))
                })
                .collect();
            let mut version = empty.apply(&options.order, &[], added).map_err(damaged)?;
            version.erase(&options.order, &raw.erased);
            let mut record = KeyspaceRecord {
                name: raw.name.clone(),
                options,
                version: Arc::new(version),
                flushed_seq: raw.flushed_seq,
                logged_seq: raw.flushed_seq,
                remembered: Vec::new(),
            };
            // Nobody knows yet what logs hold.
            record.forget_erased(0);
            keyspaces.insert(id, record);
        }
        Ok(keyspaces)
    }

    /// The versions alone, for a database that is only read.
    pub(crate) fn into_read_only(
        self,
        store: &Arc<TableStore>,
        options_for: impl Fn(&str) -> Arc<KeyspaceOptions>,
    ) -> Result<BTreeMap<KeyspaceId, KeyspaceRecord>> {
        self.report(store);
        self.keyspaces(store, options_for)
    }

    fn report(&self, store: &TableStore) {
        if let Some(torn) = self.torn {
            let (number, torn_bytes) = (self.manifest_number, torn.dropped_bytes);
            store.events.emit(&Event::ManifestTorn { number, torn_bytes });
        }
    }

    /// Starts a new manifest that holds the same state. `keyspaces` are those this state describes.
    ///
    /// What could show that a log is damaged goes with the old manifest (numbers given out so far):
    /// logs must have been read before.
    pub(crate) fn into_set(
        self,
        store: &Arc<TableStore>,
        keyspaces: BTreeMap<KeyspaceId, KeyspaceRecord>,
        manifest_bytes_max: u64,
    ) -> Result<VersionSet> {
        self.report(store);
        store.skip_numbers_below(self.next_number);
        let runs = keyspaces.values().flat_map(|k| k.version.runs()).map(|(_, run)| run.id);
        let next_run = runs.max().map_or(1, |id| id + 1);
        let old = names::manifest(&store.dir, self.manifest_number);
        let Recovered { wals, values, groups, closed_seq: closed, .. } = self;
        let named = Named { wals, values, groups, closed };
        let set = VersionSet::start(store, manifest_bytes_max, keyspaces, named, next_run)?;
        set.remove_manifest(old);
        Ok(set)
    }
}
