//! A keyspace as the manifest has it, and all of them as edits.

use super::edit::{Change, VersionEdit};
use super::groups::NamedGroups;
use super::store::Table;
use super::tree::Version;
use super::values::NamedValues;
use super::wals::NamedWals;
use crate::options::KeyspaceOptions;
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
}

impl KeyspaceRecord {
    /// All live tables of the keyspace.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.version.tables().map(|(_, table)| table)
    }
}

/// The whole state as edits: one for the database, as many as groups need, and one for each
/// keyspace.
pub(super) fn snapshot(
    keyspaces: &BTreeMap<KeyspaceId, KeyspaceRecord>,
    wals: &NamedWals,
    values: &NamedValues,
    groups: &NamedGroups,
    next_number: u64,
) -> Vec<VersionEdit> {
    let mut head = VersionEdit::new();
    head.push(Change::NextNumber(next_number));
    wals.describe_in(&mut head);
    values.describe_in(&mut head);
    let mut edits = vec![head];
    edits.extend(groups.describe());
    for (&id, record) in keyspaces {
        let mut edit = VersionEdit::new();
        let order = record.options.order.name().to_owned();
        edit.push(Change::KeyspaceCreated { id, name: record.name.clone(), order });
        edit.push(Change::Flushed { id, seq: record.flushed_seq });
        for erased in record.version.erased.records() {
            let (start, end) = (Box::from(&*erased.start), Box::from(&*erased.end));
            edit.push(Change::Erased { id, start, end, seq: erased.seq });
        }
        for (level, run) in record.version.runs() {
            for table in &run.tables {
                let (level, meta) = (level as u32, table.meta.clone());
                edit.push(Change::TableAdded { id, level, run: run.id, meta });
            }
        }
        edits.push(edit);
    }
    edits
}
