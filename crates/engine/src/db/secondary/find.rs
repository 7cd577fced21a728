//! Finding keys by what a field of their records holds: through an index, or by reading all
//! records.

use super::declare::missing;
use super::entries::indexed;
use super::state::{ENTRIES, State};
use crate::db::core::{Core, KeyspaceCore};
use crate::db::scan::Cursor;
use crate::db::scan_range::ScanOptions;
use crate::db::snapshot::Snapshot;
use crate::fields::index::{put_index_value, split_index_key};
use crate::fields::{FieldRef, find_coded};
use esker_base::key::prefix_end;
use esker_base::sync::atomic::Ordering;
use esker_base::{Error, Result};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

/// Records that are read between two reports of progress.
const RECORDS_A_REPORT: u64 = 1024;

/// Memory of a scan over all records, for values that are kept apart.
const SCAN_BYTES: usize = 16 << 20;

/// How a find reads.
#[derive(Clone, Debug)]
pub struct FindOptions<'a> {
    /// The moment to read at; `None` is now.
    pub snapshot: Option<&'a Snapshot>,
    /// Keep blocks of the index that are read in the block cache. Default: true.
    pub fill_cache: bool,
}

impl Default for FindOptions<'_> {
    fn default() -> Self {
        FindOptions { snapshot: None, fill_cache: true }
    }
}

impl<'a> FindOptions<'a> {
    /// As of a snapshot.
    pub fn at(snapshot: &'a Snapshot) -> FindOptions<'a> {
        FindOptions { snapshot: Some(snapshot), ..FindOptions::default() }
    }
}

/// The keys that were found, in the order of the values of the field, and of keys where values are
/// equal.
///
/// It sees the database as it was when it was made, or as the snapshot does that it was given. As
/// any cursor it keeps what it reads alive; do not keep one for hours. After an error it stands on
/// nothing.
pub struct Found {
    cursor: Cursor,
    begun: bool,
    /// Coded value of the entry that it stands on.
    coded: Vec<u8>,
    key_bytes: usize,
    dir: Arc<Path>,
}

impl Found {
    /// Moves to the next key, at first to the first; false if there is none.
    ///
    /// # Errors
    /// `Corruption` or `Io` if the index cannot be read.
    pub fn advance(&mut self) -> Result<bool> {
        if self.begun {
            self.cursor.next()?;
        } else {
            self.begun = true;
            self.cursor.seek_to_first()?;
        }
        if !self.cursor.valid() {
            return Ok(false);
        }
        let Some((coded, key)) = split_index_key(self.cursor.key()) else {
            let what = "an entry of an index does not decode: drop the index and create it again";
            return Err(Error::corruption(&*self.dir, 0, what));
        };
        self.key_bytes = key.len();
        self.coded.clear();
        self.coded.extend_from_slice(&coded);
        Ok(true)
    }

    /// The key of a record, good until the next move.
    ///
    /// # Panics
    /// If it stands on nothing: before the first [`Found::advance`], or after one that was not
    /// true.
    pub fn key(&self) -> &[u8] {
        let entry = self.cursor.key();
        &entry[entry.len() - self.key_bytes..]
    }

    /// What the field holds, good until the next move.
    ///
    /// # Errors
    /// `Corruption` if the entry holds no value.
    /// # Panics
    /// As [`Found::key`].
    pub fn value(&self) -> Result<FieldRef<'_>> {
        assert!(self.cursor.valid(), "it stands on no key");
        let what = "an entry of an index holds no value: drop the index and create it again";
        FieldRef::from_coded(&self.coded).map_err(|_| Error::corruption(&*self.dir, 0, what))
    }
}

impl std::fmt::Debug for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Found").field("valid", &self.cursor.valid()).finish_non_exhaustive()
    }
}

/// The entries of values from one bound to another.
fn entries(start: Bound<FieldRef<'_>>, end: Bound<FieldRef<'_>>) -> (Vec<u8>, Option<Vec<u8>>) {
    let first = |value: FieldRef<'_>| {
        let mut key = Vec::new();
        put_index_value(&mut key, &value.coded());
        key
    };
    // What follows a value in an entry never ends in the byte 0xff: there is an end.
    let after = |value| prefix_end(&first(value)).unwrap_or_default();
    let start = match start {
        Bound::Included(value) => first(value),
        Bound::Excluded(value) => after(value),
        Bound::Unbounded => ENTRIES.to_vec(),
    };
    let end = match end {
        Bound::Included(value) => Some(after(value)),
        Bound::Excluded(value) => Some(first(value)),
        Bound::Unbounded => None,
    };
    (start, end)
}

/// The error of one who asks too early, or by a snapshot that is `too_old`.
fn not_ready(
    core: &Core,
    keyspace: &KeyspaceCore,
    field: &str,
    (keys_done, too_old): (u64, bool),
) -> Error {
    let advice = match (too_old, core.read_only) {
        (true, _) => "it was not when the snapshot was taken: take a new one".to_owned(),
        (false, true) => {
            "open the store for writing to have it built, or read all by get_keys_by_field"
                .to_owned()
        }
        (false, false) => {
            format!("it is being built, {keys_done} keys are done: wait_indexes waits for it")
        }
    };
    let name = &keyspace.name;
    Error::invalid(format!(
        "the index of field {field:?} of keyspace {name:?} is not ready; {advice}"
    ))
}

/// The keys of records whose field holds a value of a range.
pub(in crate::db) fn find(
    core: &Core,
    keyspace: &KeyspaceCore,
    field: &str,
    (start, end): (Bound<FieldRef<'_>>, Bound<FieldRef<'_>>),
    options: &FindOptions<'_>,
) -> Result<Found> {
    let list = core.indexes.list();
    let index = list.find(keyspace.id, field).ok_or_else(|| missing(keyspace, field))?;
    let holder = core.keyspace(index.id).ok_or_else(|| missing(keyspace, field))?;
    let now;
    let snapshot = match options.snapshot {
        Some(snapshot) => snapshot,
        None => {
            now = core.snapshots.open(|| core.visible_seq.load(Ordering::Acquire));
            &now
        }
    };
    let gone = || missing(keyspace, field);
    let state = State::read(core, index, Some(snapshot))?.ok_or_else(gone)?;
    if !state.is_ready {
        let was_not = options.snapshot.is_some()
            && State::read(core, index, None)?.is_some_and(|state| state.is_ready);
        return Err(not_ready(core, keyspace, field, (state.keys_done, was_not)));
    }
    let (start, end) = entries(start, end);
    let scan = ScanOptions {
        start: Some(start),
        end,
        snapshot: Some(snapshot),
        fill_cache: options.fill_cache,
        keys_only: true,
        ..ScanOptions::default()
    };
    let cursor = core.scan(&holder, &scan);
    holder.check_live().map_err(|_| missing(keyspace, field))?;
    let cursor = cursor?;
    Ok(Found { cursor, begun: false, coded: Vec::new(), key_bytes: 0, dir: core.dir.clone() })
}

/// The keys of records whose field holds a value, in order, by reading all records.
pub(in crate::db) fn keys_by_field(
    core: &Core,
    keyspace: &KeyspaceCore,
    field: &str,
    value: FieldRef<'_>,
    snapshot: Option<&Snapshot>,
    mut progress: impl FnMut(u64) -> bool,
) -> Result<Vec<Vec<u8>>> {
    let options = ScanOptions { snapshot, fill_cache: false, ..ScanOptions::default() };
    let mut cursor = core.scan_unordered(keyspace, &options, SCAN_BYTES)?;
    let coded = value.coded();
    let (mut keys, mut records) = (Vec::new(), 0);
    while cursor.advance()? {
        if find_coded(cursor.value(), field) == Some(&coded[..])
            && indexed(cursor.value(), field).is_some()
        {
            keys.push(cursor.key().to_vec());
        }
        records += 1;
        if records % RECORDS_A_REPORT == 0 && !progress(records) {
            return Err(Error::Cancelled);
        }
    }
    let order = &keyspace.options.order;
    keys.sort_unstable_by(|a, b| order.compare(a, b));
    Ok(keys)
}
