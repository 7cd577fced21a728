//! `Batch`.

use super::convert::to_record;
use super::keyspace::KeyspaceObject;
use crate::bytes::BytesLike;
use crate::errors::invalid;
use crate::handle::Handle;
use esker::base::sync::Mutex;
use esker::{Applied, Batch, KeyspaceId, WriteOptions};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::sync::Arc;

/// Writes that are made together, in any keyspaces: all of them or none.
///
/// In a `with` block it is written at the end, and not after an exception.
#[pyclass(name = "Batch", module = "esker", frozen)]
pub(crate) struct BatchObject {
    handle: Arc<Handle>,
    options: WriteOptions,
    // Taken for a moment at a time, with the interpreter held and never while waiting.
    batch: Mutex<Batch>,
}

/// The keyspace of an operation, as an argument.
type In<'a, 'py> = Option<&'a Bound<'py, KeyspaceObject>>;

impl BatchObject {
    pub(super) fn new(py: Python<'_>, handle: &Arc<Handle>, sync: bool) -> PyResult<BatchObject> {
        handle.open(py)?;
        let (options, batch) = (WriteOptions { sync }, Mutex::new(Batch::new()));
        Ok(BatchObject { handle: handle.clone(), options, batch })
    }

    /// Makes the writes a request of a group's log; the batch is empty then, also after an error of
    /// the engine.
    pub(super) fn apply(
        &self,
        py: Python<'_>,
        handle: &Arc<Handle>,
        request: Applied<'_>,
    ) -> PyResult<()> {
        if !Arc::ptr_eq(&self.handle.store, &handle.store) {
            return Err(invalid(py, "the batch is of another database: use one of this"));
        }
        if self.options.sync {
            let what = "a request is durable in its own log: apply a batch without sync";
            return Err(invalid(py, what));
        }
        let open = handle.open(py)?;
        let batch = std::mem::take(&mut *self.batch.lock());
        let db = &open.db;
        handle.store.run(py, || db.apply(request, batch))
    }

    /// The id of the keyspace that is meant.
    fn id(&self, py: Python<'_>, keyspace: In<'_, '_>) -> PyResult<KeyspaceId> {
        let Some(keyspace) = keyspace else { return Ok(self.handle.open(py)?.keyspace.id()) };
        let theirs = &keyspace.get().handle;
        if !Arc::ptr_eq(&theirs.store, &self.handle.store) {
            return Err(invalid(py, "the keyspace is of another database: use one of this"));
        }
        Ok(theirs.open(py)?.keyspace.id())
    }
}

#[pymethods]
impl BatchObject {
    /// Adds the setting of a key.
    #[pyo3(signature = (key, value, *, keyspace=None))]
    fn put(
        &self,
        py: Python<'_>,
        key: BytesLike<'_>,
        value: BytesLike<'_>,
        keyspace: In<'_, '_>,
    ) -> PyResult<()> {
        let id = self.id(py, keyspace)?;
        self.batch.lock().put_in(id, key.get(), value.get());
        Ok(())
    }

    /// Adds the setting of a key to a record of these fields.
    #[pyo3(signature = (key, fields, *, keyspace=None))]
    fn put_record(
        &self,
        py: Python<'_>,
        key: BytesLike<'_>,
        fields: &Bound<'_, PyDict>,
        keyspace: In<'_, '_>,
    ) -> PyResult<()> {
        let id = self.id(py, keyspace)?;
        let encoded = to_record(fields)?.encode();
        let encoded = encoded.map_err(|error| self.handle.store.face.error(py, &error))?;
        self.batch.lock().put_in(id, key.get(), &encoded);
        Ok(())
    }

    /// Adds the removal of a key.
    #[pyo3(signature = (key, *, keyspace=None))]
    fn delete(&self, py: Python<'_>, key: BytesLike<'_>, keyspace: In<'_, '_>) -> PyResult<()> {
        let id = self.id(py, keyspace)?;
        self.batch.lock().delete_in(id, key.get());
        Ok(())
    }

    /// Adds the removal of every key from `start` to before `end`.
    #[pyo3(signature = (start, end, *, keyspace=None))]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: BytesLike<'_>,
        end: BytesLike<'_>,
        keyspace: In<'_, '_>,
    ) -> PyResult<()> {
        let id = self.id(py, keyspace)?;
        self.batch.lock().delete_range_in(id, start.get(), end.get());
        Ok(())
    }

    /// Forgets all that was added.
    fn clear(&self) {
        self.batch.lock().clear();
    }

    /// Writes all that was added; the batch is empty then, also after an error.
    fn write(&self, py: Python<'_>) -> PyResult<()> {
        let open = self.handle.open(py)?;
        let batch = std::mem::take(&mut *self.batch.lock());
        let (db, options) = (&open.db, self.options);
        self.handle.store.run(py, || db.write(batch, options))
    }

    /// Bytes that the writes take in the log.
    #[getter]
    fn size_bytes(&self) -> usize {
        self.batch.lock().size_bytes()
    }

    fn __len__(&self) -> usize {
        self.batch.lock().len() as usize
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().handle.open(slf.py())?;
        Ok(slf)
    }

    #[pyo3(signature = (*exception))]
    fn __exit__(&self, py: Python<'_>, exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        if exception.get_item(0).is_ok_and(|kind| !kind.is_none()) {
            self.clear();
            return Ok(());
        }
        self.write(py)
    }
}
