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

impl Chosen {
    /// The keyspace, if small tables are to become one.
    pub(in crate::db) fn of_small_tables(&self) -> Option<Arc<KeyspaceCore>> {
        let is_small = self.spec.reason == CompactionReason::SmallTables;
        is_small.then(|| self.keyspace.clone())
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
