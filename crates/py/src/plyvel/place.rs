//! What `DB`, `PrefixedDB` and `Snapshot` do alike: reading and writing the keys of a store that
//! begin with a base.

use super::iterator::{PlyvelIterator, Range, RawIterator};
use crate::bytes::{BytesLike, joined};
use crate::handle::{Handle, Moment};
use esker::{Batch, WriteOptions};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::borrow::Cow;
use std::sync::Arc;

/// The keys that begin with `base`, which is put before every key that is given and taken off every
/// key that is returned.
pub(super) struct Place<'a> {
    pub(super) handle: &'a Arc<Handle>,
    pub(super) base: &'a [u8],
    /// As of when they are read; `None` is now.
    pub(super) moment: Option<&'a Moment>,
}

impl Place<'_> {
    /// The key as the store has it.
    #[inline]
    fn key<'k>(&self, key: &'k Bound<'_, PyBytes>) -> Cow<'k, [u8]> {
        match self.base.is_empty() {
            true => Cow::Borrowed(key.as_bytes()),
            false => Cow::Owned(joined(self.base, key.as_bytes())),
        }
    }

    /// The value of a key, or `default`.
    ///
    /// # Errors
    /// If the store or the moment was closed; of the engine.
    #[inline]
    pub(super) fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyBytes>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let snapshot = self.moment.map(|moment| moment.open(py)).transpose()?;
        let open = self.handle.open(py)?;
        let (keyspace, key) = (&open.keyspace, self.key(key));
        let value = self.handle.store.run(py, || match &snapshot {
            None => keyspace.get(&key),
            Some(snapshot) => keyspace.get_at(&key, snapshot),
        })?;
        Ok(match value {
            Some(value) => PyBytes::new(py, &value).into_any(),
            None => default.unwrap_or_else(|| py.None().into_bound(py)),
        })
    }

    /// Sets a key, durably if `sync` says so.
    ///
    /// # Errors
    /// If the store was closed; of the engine.
    pub(super) fn put(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyBytes>,
        value: &BytesLike<'_>,
        sync: Option<bool>,
    ) -> PyResult<()> {
        let open = self.handle.open(py)?;
        let (keyspace, db, key, value) = (&open.keyspace, &open.db, self.key(key), value.get());
        self.handle.store.run(py, || match sync {
            Some(true) => {
                let mut batch = Batch::new();
                batch.put(&key, value);
                db.write(batch, WriteOptions::SYNC)
            }
            _ => keyspace.put(&key, value),
        })
    }

    /// Removes a key, durably if `sync` says so.
    ///
    /// # Errors
    /// As `put`.
    pub(super) fn delete(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyBytes>,
        sync: Option<bool>,
    ) -> PyResult<()> {
        let open = self.handle.open(py)?;
        let (keyspace, db, key) = (&open.keyspace, &open.db, self.key(key));
        self.handle.store.run(py, || match sync {
            Some(true) => {
                let mut batch = Batch::new();
                batch.delete(&key);
                db.write(batch, WriteOptions::SYNC)
            }
            _ => keyspace.delete(&key),
        })
    }

    /// An iterator over a range of these keys.
    ///
    /// # Errors
    /// As `get`; `TypeError` if there are a prefix and bounds.
    pub(super) fn iterator(&self, py: Python<'_>, range: Range) -> PyResult<PlyvelIterator> {
        PlyvelIterator::new(py, self.handle, self.base, range, self.moment)
    }

    /// An iterator over all of these keys that is moved by hand.
    ///
    /// # Errors
    /// As `get`.
    pub(super) fn raw_iterator(
        &self,
        py: Python<'_>,
        fill_cache: Option<bool>,
    ) -> PyResult<RawIterator> {
        RawIterator::new(py, self.handle, self.base, fill_cache == Some(true), self.moment)
    }
}
