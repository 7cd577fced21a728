//! Checks an index against the records that it is of, in both directions.

use super::catalogue::Index;
use super::entries::{entry, indexed};
use super::state::{ENTRIES, State};
use crate::db::core::{Core, KeyspaceCore};
use crate::db::scan_range::ScanOptions;
use crate::db::snapshot::Snapshot;
use crate::fields::index::split_index_key;
use esker_base::checksum::hash64;
use esker_base::sync::atomic::Ordering;
use esker_base::{Error, Result};

/// Memory of a scan over all records, for values that are kept apart.
const SCAN_BYTES: usize = 16 << 20;

/// Entries between two questions whether to go on.
const ENTRIES_A_LOOK: u32 = 4_096;

/// What a check of an index found.
#[derive(Debug, Default)]
pub(in crate::db) struct Checked {
    /// Entries there are.
    pub(in crate::db) entries: u64,
    /// Records that have the field and no entry of its value.
    pub(in crate::db) missing: u64,
    /// Entries of no record, or of a value that the record has not.
    pub(in crate::db) stray: u64,
    /// The key of one of either.
    pub(in crate::db) example: Option<Vec<u8>>,
}

impl Checked {
    fn disagree(&mut self, key: &[u8]) {
        self.example.get_or_insert_with(|| key.to_vec());
    }
}

/// The number of some entries, and a sum that tells most sets of them apart.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sum {
    entries: u64,
    hashes: u64,
}

impl Sum {
    fn add(&mut self, entry: &[u8]) {
        self.entries += 1;
        self.hashes = self.hashes.wrapping_add(hash64(entry));
    }
}

/// Checks an index; `None` if it is not ready. `go_on` is asked from time to time.
///
/// # Errors
/// `Cancelled` once `go_on` says no.
/// # Cost
/// Reads all entries and all records front to back. If these do not agree, looks each up in the
/// other.
pub(in crate::db) fn check(
    core: &Core,
    index: &Index,
    mut go_on: impl FnMut() -> bool,
) -> Result<Option<Checked>> {
    let (Some(keyspace), Some(holder)) = (core.keyspace(index.of), core.keyspace(index.id)) else {
        return Ok(None);
    };
    let snapshot = core.snapshots.open(|| core.visible_seq.load(Ordering::Acquire));
    if !State::read(core, index, Some(&snapshot))?.is_some_and(|state| state.is_ready) {
        return Ok(None);
    }
    let mut asked = 0_u32;
    let mut go_on = || {
        asked = asked.wrapping_add(1);
        match asked.is_multiple_of(ENTRIES_A_LOOK) && !go_on() {
            true => Err(Error::Cancelled),
            false => Ok(()),
        }
    };
    let checked = compare(core, index, (&keyspace, &holder), &snapshot, &mut go_on);
    match keyspace.check_live().and_then(|()| holder.check_live()) {
        _ if matches!(checked, Err(Error::Cancelled)) => Err(Error::Cancelled),
        Ok(()) => checked.map(Some),
        Err(_) => Ok(None),
    }
}

/// Goes through an index and what it is of.
fn compare(
    core: &Core,
    index: &Index,
    (keyspace, holder): (&KeyspaceCore, &KeyspaceCore),
    snapshot: &Snapshot,
    go_on: &mut impl FnMut() -> Result<()>,
) -> Result<Checked> {
    let (mut there, mut wanted) = (Sum::default(), Sum::default());
    walk_entries(core, holder, snapshot, |entry| {
        there.add(entry);
        go_on()
    })?;
    walk_records(core, keyspace, index, snapshot, |entry, _| {
        wanted.add(entry);
        go_on()
    })?;
    let mut checked = Checked { entries: there.entries, ..Checked::default() };
    if there == wanted {
        return Ok(checked);
    }
    walk_entries(core, holder, snapshot, |entry| {
        let agrees = match split_index_key(entry) {
            Some((coded, key)) => {
                let value = core.get(keyspace, key, Some(snapshot))?;
                value.as_deref().and_then(|value| indexed(value, &index.field)) == Some(&*coded)
            }
            None => false,
        };
        if !agrees {
            checked.stray += 1;
            checked.disagree(split_index_key(entry).map_or(entry, |(_, key)| key));
        }
        go_on()
    })?;
    walk_records(core, keyspace, index, snapshot, |entry, key| {
        if core.get(holder, entry, Some(snapshot))?.is_none() {
            checked.missing += 1;
            checked.disagree(key);
        }
        go_on()
    })?;
    Ok(checked)
}

/// Goes through the entries of an index.
fn walk_entries(
    core: &Core,
    holder: &KeyspaceCore,
    snapshot: &Snapshot,
    mut meet: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let options = ScanOptions {
        start: Some(ENTRIES.to_vec()),
        fill_cache: false,
        keys_only: true,
        ..ScanOptions::default().at(snapshot)
    };
    let mut cursor = core.scan(holder, &options)?;
    cursor.seek_to_first()?;
    while cursor.valid() {
        meet(cursor.key())?;
        cursor.next()?;
    }
    Ok(())
}

/// Goes through the entries that the records should have, and their keys.
fn walk_records(
    core: &Core,
    keyspace: &KeyspaceCore,
    index: &Index,
    snapshot: &Snapshot,
    mut meet: impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<()> {
    let options = ScanOptions { fill_cache: false, ..ScanOptions::default().at(snapshot) };
    let mut cursor = core.scan_unordered(keyspace, &options, SCAN_BYTES)?;
    while cursor.advance()? {
        if let Some(coded) = indexed(cursor.value(), &index.field) {
            meet(&entry(index, coded, cursor.key())?, cursor.key())?;
        }
    }
    Ok(())
}
