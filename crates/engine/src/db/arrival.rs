//! A group that has come from another store: how it is put in force, by the edit of the epoch that
//! it arrives with.

use super::core::{Core, KeyspaceCore};
use super::epochs::Arrival;
use super::groups;
use super::placing::{level_for, run_for};
use crate::version::{Change, TableMeta, Version, VersionEdit, VersionSet};

impl Arrival {
    /// Adds it to the edit of its epoch, behind the tables of the epoch itself.
    pub(super) fn add_to(&self, edit: &mut VersionEdit, core: &Core, versions: &mut VersionSet) {
        let flushed = edit.changes.len();
        groups::erase(core, versions, &self.range, self.erased_seq, edit);
        for (id, written) in &self.parts {
            let version = versions.keyspaces.get(id).map(|record| record.version.clone());
            let Some((keyspace, version)) = core.keyspace(*id).zip(version) else {
                // It was dropped.
                written.remove(&core.store);
                continue;
            };
            let tables = &written.tables;
            let level = self.level_for(&keyspace, &version, tables, &edit.changes[..flushed]);
            let run = run_for(versions, &version, &keyspace, level);
            edit.changes.extend(written.values.iter().cloned().map(Change::ValuesAdded));
            for meta in tables {
                let meta = meta.clone().dated(self.seq);
                let meta = TableMeta { erased_seq: self.erased_seq, ..meta };
                edit.push(Change::TableAdded { id: *id, level: level as u32, run, meta });
            }
        }
    }

    /// Where the tables of a keyspace go.
    fn level_for(
        &self,
        keyspace: &KeyspaceCore,
        version: &Version,
        tables: &[TableMeta],
        flushed: &[Change],
    ) -> usize {
        let (Some(first), Some(last)) = (tables.first(), tables.last()) else { return 0 };
        let order = &keyspace.options.order;
        // Records of the epoch that were erased stand in its tables, and must not be met before
        // those that have come.
        let is_over = |change: &Change| match change {
            Change::TableAdded { id, meta, .. } => {
                *id == keyspace.id
                    && !order.less(&meta.largest, &first.smallest)
                    && !order.less(&last.largest, &meta.smallest)
            }
            _ => false,
        };
        if flushed.iter().any(is_over) {
            return 0;
        }
        let leaves = |meta: &TableMeta| groups::leaves(&self.range, self.erased_seq, meta);
        level_for(version, keyspace, tables, leaves)
    }
}
