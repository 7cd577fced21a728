//! What several classes of this face do alike.

use crate::handle::{Handle, Open};
use esker::{Batch, WriteOptions};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Writes a single operation durably.
pub(super) fn write_synced(
    py: Python<'_>,
    handle: &Handle,
    open: &Open,
    fill: impl FnOnce(&mut Batch),
) -> PyResult<()> {
    let mut batch = Batch::new();
    fill(&mut batch);
    let db = &open.db;
    handle.store.run(py, || db.write(batch, WriteOptions::SYNC))
}

/// What a get gives for an answer of the engine.
#[inline]
pub(super) fn answer<'py>(
    py: Python<'py>,
    value: Option<esker::Value>,
    default: Option<Bound<'py, PyAny>>,
) -> Bound<'py, PyAny> {
    match value {
        Some(value) => PyBytes::new(py, &value).into_any(),
        None => default.unwrap_or_else(|| py.None().into_bound(py)),
    }
}

/// `in` means nothing here.
pub(super) fn no_membership() -> PyErr {
    PyTypeError::new_err("'in' says nothing of keys here: compare what get(key) gives with None")
}
