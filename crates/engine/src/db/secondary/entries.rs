//! Entries: what a batch changes in the indexes of the keyspaces that it is for.

use super::catalogue::{Index, IndexList};
use crate::db::core::{Core, KeyspaceCore};
use crate::db::scan_range::ScanOptions;
use crate::fields::index::put_index_value;
use crate::fields::{RecordView, find_coded};
use esker_base::key::KEY_BYTES_MAX;
use esker_base::{Batch, Error, KeyspaceId, Kind, Result};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// What whoever writes a record is told of one that is damaged, and what helps.
const UNREADABLE: &str = "a record that is to be written is damaged as it was, and what an index has of it cannot be known: drop \
     the indexes of the keyspace, write or delete the record, and create them again; verify tells of other damage";

/// What a batch leaves of the keys that it changes: a value, or nothing.
type Changes<'b> = BTreeMap<(KeyspaceId, Cow<'b, [u8]>), Option<&'b [u8]>>;

/// What an index holds of a record: the coded value of the field. `None` if it lacks the field or
/// is no record.
pub(super) fn indexed<'v>(value: &'v [u8], field: &str) -> Option<&'v [u8]> {
    // All is checked only where there is something to be found.
    find_coded(value, field).filter(|_| RecordView::parse(value).is_ok())
}

/// The key of an entry, however long.
fn entry_key(coded: &[u8], key: &[u8]) -> Vec<u8> {
    let mut entry = Vec::with_capacity(coded.len() + key.len() + 2);
    put_index_value(&mut entry, coded);
    entry.extend_from_slice(key);
    entry
}

/// The key of an entry that is to be put.
///
/// # Errors
/// `InvalidArgument` if it is longer than a key may be.
pub(super) fn entry(index: &Index, coded: &[u8], key: &[u8]) -> Result<Vec<u8>> {
    let entry = entry_key(coded, key);
    if entry.len() > KEY_BYTES_MAX {
        return Err(Error::invalid(format!(
            "the value of field {:?} and the key make an entry of {} bytes in the index of that field: \
             at most 1 MiB is allowed; shorten it, or drop the index",
            index.field,
            entry.len()
        )));
    }
    Ok(entry)
}

/// Adds to a batch what it changes in indexes. Under the stripes of its keys, or the gate alone if
/// it deletes ranges.
///
/// # Errors
/// `Corruption` if a record that the batch changes cannot be read as it was: then nobody knows
/// which entries it has.
pub(super) fn complete(core: &Core, list: &IndexList, batch: &mut Batch) -> Result<()> {
    add_entries(core, list, batch).map_err(|error| match error {
        Error::Corruption { path, offset_bytes, .. } => {
            Error::Corruption { path, offset_bytes, what: UNREADABLE }
        }
        other => other,
    })
}

fn add_entries(core: &Core, list: &IndexList, batch: &mut Batch) -> Result<()> {
    let mut entries = Batch::new();
    for ((id, key), value) in &changes(core, list, batch)? {
        let Some(keyspace) = core.keyspace(*id) else { continue };
        let before = core.get(&keyspace, key, None)?;
        for index in list.of(*id) {
            let was = before.as_deref().and_then(|value| indexed(value, &index.field));
            let is = value.and_then(|value| indexed(value, &index.field));
            if was == is {
                continue;
            }
            if let Some(coded) = was.filter(|_| !core.indexes.keeps_old_entries()) {
                let entry = entry_key(coded, key);
                // Of a longer one there is none: the record is older than the index, which cannot
                // be built.
                if entry.len() <= KEY_BYTES_MAX {
                    entries.delete_in(index.id, &entry);
                }
            }
            if let Some(coded) = is {
                entries.put_in(index.id, &entry(index, coded, key)?, b"");
            }
        }
    }
    batch.append(&entries);
    Ok(())
}

/// What a batch leaves of the keys of indexed keyspaces that it changes.
fn changes<'b>(core: &Core, list: &IndexList, batch: &'b Batch) -> Result<Changes<'b>> {
    let mut changes = Changes::new();
    for op in batch.ops().flatten().filter(|op| !list.of(op.keyspace).is_empty()) {
        match op.kind {
            Kind::DeleteRange if op.key < op.value => {
                let Some(keyspace) = core.keyspace(op.keyspace) else { continue };
                for key in keys_of(core, &keyspace, op.key, op.value)? {
                    changes.insert((op.keyspace, Cow::Owned(key)), None);
                }
                let from = (op.keyspace, Cow::Borrowed(op.key));
                let to = (op.keyspace, Cow::Borrowed(op.value));
                changes.range_mut(from..to).for_each(|(_, value)| *value = None);
            }
            Kind::DeleteRange => {}
            Kind::Put => {
                changes.insert((op.keyspace, Cow::Borrowed(op.key)), Some(op.value));
            }
            _ => {
                changes.insert((op.keyspace, Cow::Borrowed(op.key)), None);
            }
        }
    }
    Ok(changes)
}

/// The keys of `[start, end)` that are there.
fn keys_of(core: &Core, keyspace: &KeyspaceCore, start: &[u8], end: &[u8]) -> Result<Vec<Vec<u8>>> {
    let (start, end) = (Some(start.to_vec()), Some(end.to_vec()));
    let options = ScanOptions { start, end, keys_only: true, ..ScanOptions::default() };
    let mut cursor = core.scan(keyspace, &options)?;
    let mut keys = Vec::new();
    cursor.seek_to_first()?;
    while cursor.valid() {
        keys.push(cursor.key().to_vec());
        cursor.next()?;
    }
    Ok(keys)
}
