//! A snapshot of what was persistent at one moment, which is read again after flushes, compactions
//! and collections.

use super::log::{Log, Pairs};
use esker::{Db, Snapshot};

/// The snapshot, and what it has to show.
pub(super) struct Held {
    snapshot: Snapshot,
    /// Groups, by their numbers, with what they held in both keyspaces.
    groups: Vec<(usize, [Pairs; 2])>,
}

impl Held {
    /// Takes one. Nothing else happens in the store meanwhile.
    pub(super) fn take(db: &Db, logs: &[Log]) -> esker::Result<Held> {
        let groups = logs.iter().map(|log| log.persisted_state(db)).enumerate().collect();
        Ok(Held { snapshot: db.persisted_snapshot()?, groups })
    }

    /// The group is deleted or comes as files, from which no snapshot keeps it.
    pub(super) fn forget(&mut self, group: usize) {
        self.groups.retain(|(at, _)| *at != group);
    }

    /// Reads all of it again. What is wrong.
    pub(super) fn check(&self, db: &Db, logs: &[Log]) -> esker::Result<Option<String>> {
        for (group, expected) in &self.groups {
            let log = &logs[*group];
            if log.at(db, &self.snapshot)? != *expected {
                let name = log.name.escape_ascii();
                return Ok(Some(format!(
                    "group {name} has changed in a snapshot of what was persistent"
                )));
            }
        }
        Ok(None)
    }
}
