//! A keyspace as the manifest has it, and all of them as edits.

use super::edit::{Change, VersionEdit};
use super::groups::NamedGroups;
use super::state_edits::StateEdits;
use super::store::Table;
use super::tree::Version;
use super::values::NamedValues;
use super::wals::NamedWals;
use crate::options::KeyspaceOptions;
use crate::range_tombstone::{RangeTombstone, RangeTombstones};
use esker_base::{KeyspaceId, Seq};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A keyspace as the manifest has it.
#[derive(Clone, Debug)]
pub(crate) struct KeyspaceRecord {
    pub(crate) name: String,
    pub(crate) options: Arc<KeyspaceOptions>,
    pub(crate) version: Arc<Version>,
    /// Records up to here are in tables.
    pub(crate) flushed_seq: Seq,
    /// Of what is in tables, nothing newer than this was ever in a log that is there.
    pub(crate) logged_seq: Seq,
    /// What was erased and hides nothing any more, though a log may hold some of it: a repair that
    /// takes from logs what damaged tables have lost must know of it.
    pub(crate) remembered: Vec<RangeTombstone>,
}

impl KeyspaceRecord {
    /// Forgets what was erased and stands nowhere any more; what only logs may hold is remembered.
    /// The logs that are there begin at `logged_from`.
    pub(crate) fn forget_erased(&mut self, logged_from: Seq) {
        if !self.version.erased.is_empty() {
            let version = Arc::make_mut(&mut self.version);
            let gone = version.forget_erased(&self.options.order, self.flushed_seq);
            self.remember(gone);
        }
        let is_logged = self.logged_seq >= logged_from;
        self.remembered.retain(|erased| is_logged && erased.seq >= logged_from);
    }

    /// What was erased later hides all that was erased earlier.
    fn remember(&mut self, gone: Vec<RangeTombstone>) {
        if gone.is_empty() {
            return;
        }
        self.remembered.extend(gone);
        let newest = RangeTombstones::build(&self.options.order, &self.remembered).newest();
        self.remembered = newest.records().collect();
    }

    /// All live tables of the keyspace.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.version.tables().map(|(_, table)| table)
    }
}

/// The whole state as edits.
pub(super) fn snapshot(
    keyspaces: &BTreeMap<KeyspaceId, KeyspaceRecord>,
    wals: &NamedWals,
    values: &NamedValues,
    groups: &NamedGroups,
    next_number: u64,
) -> Vec<VersionEdit> {
    let mut state = StateEdits::default();
    state.push(Change::NextNumber(next_number));
    wals.describe_in(&mut state);
    values.describe_in(&mut state);
    state.begin();
    groups.describe_in(&mut state);
    for (&id, record) in keyspaces {
        state.begin();
        let order = record.options.order.name().to_owned();
        state.push(Change::KeyspaceCreated { id, name: record.name.clone(), order });
        state.push(Change::Flushed { id, seq: record.flushed_seq });
        for erased in record.version.erased.records().chain(record.remembered.iter().cloned()) {
            state.push_erased(id, &erased);
        }
        for (level, run) in record.version.runs() {
            for table in &run.tables {
                let (level, meta) = (level as u32, table.meta.clone());
                state.push(Change::TableAdded { id, level, run: run.id, meta });
            }
        }
    }
    state.into_edits()
}
