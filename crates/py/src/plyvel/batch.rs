//! `WriteBatch`.

use crate::bytes::{BytesLike, joined};
use crate::handle::Handle;
use esker::base::sync::Mutex;
use esker::{Batch, WriteOptions};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::sync::Arc;

/// Writes that are made together: all of them or none.
///
/// As a context manager it is written at the end of the block; with `transaction` not after an
/// exception.
#[pyclass(name = "WriteBatch", module = "esker.plyvel", frozen)]
pub(crate) struct WriteBatch {
    handle: Arc<Handle>,
    base: Vec<u8>,
    transaction: bool,
    options: WriteOptions,
    // Taken for a moment at a time, with the interpreter held and never while waiting.
    batch: Mutex<Batch>,
}

impl WriteBatch {
    pub(super) fn new(
        py: Python<'_>,
        handle: &Arc<Handle>,
        base: &[u8],
        transaction: bool,
        sync: bool,
    ) -> PyResult<WriteBatch> {
        handle.open(py)?;
        let batch = Mutex::new(Batch::new());
        let options = WriteOptions { sync };
        Ok(WriteBatch { handle: handle.clone(), base: base.to_vec(), transaction, options, batch })
    }

    fn with_key(&self, key: &[u8], add: impl FnOnce(&mut Batch, &[u8])) {
        let mut batch = self.batch.lock();
        match self.base.is_empty() {
            true => add(&mut batch, key),
            false => add(&mut batch, &joined(&self.base, key)),
        }
    }
}

#[pymethods]
impl WriteBatch {
    /// Adds the setting of a key.
    fn put(&self, py: Python<'_>, key: &Bound<'_, PyBytes>, value: BytesLike<'_>) -> PyResult<()> {
        self.handle.open(py)?;
        self.with_key(key.as_bytes(), |batch, key| {
            batch.put(key, value.get());
        });
        Ok(())
    }

    /// Adds the removal of a key.
    fn delete(&self, py: Python<'_>, key: &Bound<'_, PyBytes>) -> PyResult<()> {
        self.handle.open(py)?;
        self.with_key(key.as_bytes(), |batch, key| {
            batch.delete(key);
        });
        Ok(())
    }

    /// Forgets all that was added.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.handle.open(py)?;
        self.batch.lock().clear();
        Ok(())
    }

    /// Adds what another batch holds.
    fn append(&self, py: Python<'_>, source: &Bound<'_, WriteBatch>) -> PyResult<()> {
        self.handle.open(py)?;
        // Not both locks at once: it may be the same batch.
        let theirs = source.get().batch.lock().clone();
        self.batch.lock().append(&theirs);
        Ok(())
    }

    /// Writes all that was added, which stays in the batch.
    fn write(&self, py: Python<'_>) -> PyResult<()> {
        let open = self.handle.open(py)?;
        let batch = self.batch.lock().clone();
        let (db, options) = (&open.db, self.options);
        self.handle.store.run(py, || db.write(batch, options))
    }

    /// About how many bytes the writes take.
    fn approximate_size(&self, py: Python<'_>) -> PyResult<usize> {
        self.handle.open(py)?;
        Ok(self.batch.lock().size_bytes())
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().handle.open(slf.py())?;
        Ok(slf)
    }

    #[pyo3(signature = (*exception))]
    fn __exit__(&self, py: Python<'_>, exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.handle.open(py)?;
        let raised = exception.get_item(0).is_ok_and(|kind| !kind.is_none());
        if !(self.transaction && raised) {
            // What cannot be written stays in the batch.
            self.write(py)?;
        }
        self.clear(py)
    }
}
