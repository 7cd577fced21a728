//! When small tables become one, and what comes of it. Nobody needs that: where it fails it is left
//! alone for a while, so that what cannot be read, or a full disk, is not all that threads try.

use super::Chosen;
use crate::compaction::policy;
use crate::db::core::{Core, KeyspaceCore};
use crate::db::patience::Patience;
use crate::event::CompactionReason;
use crate::options::KeyspaceOptions;
use crate::version::{CompactionSpec, Version};
use esker_base::{Error, Result};
use std::sync::Arc;
use std::time::Duration;

impl Chosen {
    /// The keyspace, if small tables are to become one.
    pub(in crate::db) fn of_small_tables(&self) -> Option<Arc<KeyspaceCore>> {
        let is_small = self.spec.reason == CompactionReason::SmallTables;
        is_small.then(|| self.keyspace.clone())
    }
}

impl Core {
    /// How long until small tables of some keyspace are tried again, if any are.
    pub(in crate::db) fn next_small_retry(&self) -> Option<Duration> {
        let keyspaces = self.keyspaces.load();
        keyspaces.by_id.values().filter_map(|keyspace| keyspace.small_retry(self)).min()
    }
}

impl KeyspaceCore {
    /// Small tables that are to become one, if that has not failed just now.
    pub(in crate::db) fn pick_small(
        &self,
        core: &Core,
        version: &Version,
        options: &KeyspaceOptions,
    ) -> Option<CompactionSpec> {
        let left_alone = self.small_tables.lock().left(core.env.clock.now_ns());
        left_alone.is_zero().then(|| policy::pick_small(version, options)).flatten()
    }

    /// How long until small tables that could not become one are tried again, if there are any.
    fn small_retry(&self, core: &Core) -> Option<Duration> {
        let patience = *self.small_tables.lock();
        if patience == Patience::default() {
            return None;
        }
        let version = self.view.load().version.clone();
        policy::pick_small(&version, &self.compacted_by.load())?;
        Some(patience.left(core.env.clock.now_ns()))
    }

    /// Notes what has become of that.
    pub(in crate::db) fn note_small_tables(&self, core: &Core, result: &Result<bool>) {
        let mut patience = self.small_tables.lock();
        match result {
            Ok(_) => *patience = Patience::default(),
            Err(Error::Cancelled) => {}
            Err(_) => patience.note_failure(core.env.clock.now_ns()),
        }
    }
}
