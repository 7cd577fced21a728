//! A group that has come from another store: how it is put in force, by the edit of the epoch that it arrives with.

use super::core::Core;
use super::epochs::Arrival;
use super::groups;
use super::placing::{level_for, run_for};
use crate::version::{Change, TableMeta, VersionEdit, VersionSet, Written};
use esker_base::KeyspaceId;

impl Arrival {
    /// Adds it to the edit of its epoch, behind the tables of the epoch itself.
    pub(super) fn add_to(&self, edit: &mut VersionEdit, core: &Core, versions: &mut VersionSet) {
        let flushed = edit.changes.len();
        groups::erase(core, versions, &self.range, self.erased_seq, edit);
        for (id, written) in &self.parts {
            let Some(level) =
                self.level_for(*id, written, &edit.changes[..flushed], core, versions)
            else {
                // The keyspace was dropped.
                written.remove(&core.store);
                continue;
            };
            self.add_part(*id, written, level, edit, core, versions);
        }
    }

    /// Where the tables of a keyspace go; `None` if there is no such keyspace any more.
    fn level_for(
        &self,
        id: KeyspaceId,
        written: &Written,
        flushed: &[Change],
        core: &Core,
        versions: &VersionSet,
    ) -> Option<usize> {
        let (record, keyspace) = (versions.keyspaces.get(&id)?, core.keyspace(id)?);
        let (Some(first), Some(last)) = (written.tables.first(), written.tables.last()) else {
            return Some(0);
        };
        let order = &record.options.order;
        // Records of the epoch that were erased stand in its tables, and must not be met before those that have come.
        let is_over = |change: &Change| match change {
            Change::TableAdded { id: other, meta, .. } => {
                *other == id
                    && !order.less(&meta.largest, &first.smallest)
                    && !order.less(&last.largest, &meta.smallest)
            }
            _ => false,
        };
        if flushed.iter().any(is_over) {
            return Some(0);
        }
        let leaves = |meta: &TableMeta| groups::leaves(&self.range, self.erased_seq, meta);
        Some(level_for(&record.version, &keyspace, &written.tables, leaves))
    }

    fn add_part(
        &self,
        id: KeyspaceId,
        written: &Written,
        level: usize,
        edit: &mut VersionEdit,
        core: &Core,
        versions: &mut VersionSet,
    ) {
        let Some(keyspace) = core.keyspace(id) else { return };
        let Some(version) = versions.keyspaces.get(&id).map(|record| record.version.clone()) else {
            return;
        };
        let run = run_for(versions, &version, &keyspace, level);
        edit.changes.extend(written.values.iter().cloned().map(Change::ValuesAdded));
        for meta in &written.tables {
            let meta = TableMeta { erased_seq: self.erased_seq, ..meta.clone().dated(self.seq) };
            edit.push(Change::TableAdded { id, level: level as u32, run, meta });
        }
    }
}
