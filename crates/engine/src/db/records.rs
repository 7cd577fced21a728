//! What keyspaces do with records of fields: whole records, indexes, finding.

use super::handle::{Db, Keyspace};
use super::secondary::catalogue::IndexInfo;
use super::secondary::find::{self, FindOptions, Found};
use super::secondary::{build, declare};
use super::snapshot::Snapshot;
use crate::fields::{FieldRef, Record};
use esker_base::Result;
use std::ops::{Bound, RangeBounds};

impl Db {
    /// Waits until all indexes of all keyspaces are ready.
    ///
    /// # Errors
    /// Why one cannot be built: what must be changed stands in the error, and the next call tries
    /// again. As [`Db::wait_idle`].
    pub fn wait_indexes(&self) -> Result<()> {
        self.default_keyspace().wait_indexes()
    }
}

impl Keyspace {
    /// Sets a key to a record.
    ///
    /// # Errors
    /// As [`Keyspace::put`]; `InvalidArgument` if the name of a field is empty or longer than 255
    /// bytes.
    pub fn put_record(&self, key: &[u8], record: &Record) -> Result<()> {
        self.put(key, &record.encode()?)
    }

    /// The record of a key, or `None`.
    ///
    /// # Errors
    /// As [`Keyspace::get`]; `InvalidArgument` if the value is no record.
    pub fn get_record(&self, key: &[u8]) -> Result<Option<Record>> {
        self.get(key)?.map(|value| Record::decode(&value)).transpose()
    }

    /// Makes an index of a field, for [`Keyspace::find`]. Returns at once; the background reads the
    /// records that are there, and [`Keyspace::wait_indexes`] waits for that. The index is durable,
    /// and is built further after a crash.
    ///
    /// From then on each write keeps the index in the same batch. Values that are no records, and
    /// records that lack the field, have no entry in it.
    ///
    /// A record that is damaged on the disk can then be neither written nor deleted, nor a range
    /// that it is in: what the index has of it cannot be known. [`Keyspace::drop_index`] of all
    /// indexes of the keyspace makes it possible; afterwards they may be created again.
    ///
    /// # Errors
    /// `InvalidArgument`: there is one already, the keyspace is not in bytewise order, or no field
    /// can have this name.
    /// # Cost
    /// From then on each key that is written is read before. Deleting a range reads all that it
    /// deletes.
    pub fn create_index(&self, field: &str) -> Result<()> {
        self.check_live()?;
        declare::create(&self.running.core, &self.core, field)
    }

    /// Removes an index, ready or not, at once. Records that are damaged can be written and deleted
    /// again when their keyspace has none.
    ///
    /// # Errors
    /// `InvalidArgument` if there is none of this field.
    pub fn drop_index(&self, field: &str) -> Result<()> {
        self.check_live()?;
        declare::drop_index(&self.running.core, &self.core, field)
    }

    /// The indexes of this keyspace, in the order in which they were made.
    pub fn indexes(&self) -> Result<Vec<IndexInfo>> {
        self.check_live()?;
        declare::infos(&self.running.core, &self.core)
    }

    /// Waits until all indexes of the database are ready.
    ///
    /// # Errors
    /// As [`Db::wait_indexes`].
    pub fn wait_indexes(&self) -> Result<()> {
        self.check_live()?;
        build::wait(&self.running.core)
    }

    /// Waits until the index of a field is ready, whatever becomes of others.
    ///
    /// `progress` is called at once and about ten times a second with the number of keys done,
    /// unless it is ready; returning false ends the waiting with `Cancelled`, and the background
    /// goes on.
    ///
    /// # Errors
    /// `InvalidArgument`: there is no index of this field, or why it cannot be built; the next call
    /// tries again.
    pub fn wait_index(&self, field: &str, progress: impl FnMut(u64) -> bool) -> Result<()> {
        self.check_live()?;
        build::wait_one(&self.running.core, &self.core, field, progress)
    }

    /// The keys of records whose field holds this value, in order, by an index.
    ///
    /// # Errors
    /// `InvalidArgument`: there is no index of this field, or it was not ready at that moment; the
    /// text says what to do.
    /// # Cost
    /// A lookup and a seek, and then what is found.
    pub fn find<'v>(
        &self,
        field: &str,
        value: impl Into<FieldRef<'v>>,
        options: &FindOptions<'_>,
    ) -> Result<Found> {
        let value = value.into();
        self.find_range(field, (Bound::Included(value), Bound::Included(value)), options)
    }

    /// The keys of records whose field holds a value of a range, in the order of the values, by an
    /// index.
    ///
    /// Values of all types are in one order, see [`FieldValue`](crate::fields::FieldValue): a range
    /// that is open at an end holds values of other types too. `..` is all records that have the
    /// field.
    ///
    /// # Errors
    /// As [`Keyspace::find`]; `InvalidArgument` if the range ends before it starts.
    /// # Cost
    /// As [`Keyspace::find`].
    pub fn find_range<'v>(
        &self,
        field: &str,
        range: impl RangeBounds<FieldRef<'v>>,
        options: &FindOptions<'_>,
    ) -> Result<Found> {
        self.check_live()?;
        let bounds = (range.start_bound().cloned(), range.end_bound().cloned());
        find::find(&self.running.core, &self.core, field, bounds, options)
    }

    /// The keys of records whose field holds this value, in order, without an index: reads all
    /// records.
    ///
    /// `progress` is called now and then with the number of records read; returning false ends it
    /// with `Cancelled`.
    ///
    /// # Errors
    /// As [`Keyspace::scan_unordered`].
    /// # Cost
    /// Reads the keyspace from its beginning to its end, past the block cache; holds all keys
    /// found.
    pub fn get_keys_by_field<'v>(
        &self,
        field: &str,
        value: impl Into<FieldRef<'v>>,
        snapshot: Option<&Snapshot>,
        progress: impl FnMut(u64) -> bool,
    ) -> Result<Vec<Vec<u8>>> {
        self.check_live()?;
        let core = &self.running.core;
        find::keys_by_field(core, &self.core, field, value.into(), snapshot, progress)
    }
}
