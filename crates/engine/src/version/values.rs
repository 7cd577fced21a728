//! The files with values that a manifest names, and how much of them is pointed to.

use super::edit::{Change, TableMeta, VersionEdit};
use super::state_edits::StateEdits;
use crate::value_log::{ValueFileMeta, ValueMap, ValueStore};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Live files with values, by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamedValues(pub(crate) BTreeMap<u64, ValueFileMeta>);

impl NamedValues {
    /// Takes a change into account; those that are not about values change nothing.
    pub(crate) fn apply(&mut self, change: &Change) -> Result<(), &'static str> {
        match change {
            Change::ValuesAdded(meta) => match self.0.insert(meta.number, meta.clone()) {
                Some(_) => Err("an edit adds a file with values that is there"),
                None => Ok(()),
            },
            Change::ValuesRemoved(number) => match self.0.remove(number) {
                Some(_) => Ok(()),
                None => Err("a removed file with values is not there"),
            },
            _ => Ok(()),
        }
    }

    /// Adds what would make these files known.
    pub(super) fn describe_in(&self, state: &mut StateEdits) {
        for meta in self.0.values() {
            state.push(Change::ValuesAdded(meta.clone()));
        }
    }

    /// Which file holds the values of which log.
    ///
    /// # Errors
    /// Two files hold the values of one log.
    pub(crate) fn map(&self, store: &Arc<ValueStore>) -> Result<ValueMap, &'static str> {
        let files = self.0.values().map(|meta| store.file(meta)).collect();
        ValueMap::default().changed(&[], files)
    }

    /// The map after an edit; `None` if the edit leaves it as it is.
    pub(super) fn changed_map(
        map: &ValueMap,
        edit: &VersionEdit,
        store: &Arc<ValueStore>,
    ) -> Result<Option<ValueMap>, &'static str> {
        let (mut removed, mut added) = (Vec::new(), Vec::new());
        for change in &edit.changes {
            match change {
                Change::ValuesAdded(meta) => added.push(store.file(meta)),
                Change::ValuesRemoved(number) => removed.push(*number),
                _ => {}
            }
        }
        match removed.is_empty() && added.is_empty() {
            true => Ok(None),
            false => map.changed(&removed, added).map(Some),
        }
    }
}

/// Fails if a table points into a log of which no file holds the values.
pub(super) fn check_references(map: &ValueMap, meta: &TableMeta) -> Result<(), &'static str> {
    match meta.references.iter().all(|share| map.find(share.log).is_some()) {
        true => Ok(()),
        false => Err("a table points to values that no file holds; run repair"),
    }
}

/// Bytes of each log that tables point to.
pub(crate) fn live_bytes<'a>(tables: impl Iterator<Item = &'a TableMeta>) -> BTreeMap<u64, u64> {
    let mut live = BTreeMap::new();
    for share in tables.flat_map(|meta| &*meta.references) {
        *live.entry(share.log).or_default() += share.bytes;
    }
    live
}
