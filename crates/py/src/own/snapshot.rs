//! `Snapshot`.

use crate::handle::Moment;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::Arc;

/// The database as it was at one moment, for reads that are given it: `get(key, snapshot=...)`.
///
/// While it is open, compaction keeps what it sees: close it, or use it in a `with` block.
#[pyclass(name = "Snapshot", module = "esker", frozen)]
pub(crate) struct SnapshotObject {
    pub(super) moment: Arc<Moment>,
}

#[pymethods]
impl SnapshotObject {
    /// The number of the newest write that it sees.
    #[getter]
    fn seq(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.moment.open(py)?.seq())
    }

    /// Lets go of it. The second time it does nothing.
    fn close(&self) {
        self.moment.close();
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) {
        self.moment.close();
    }
}

/// The engine's snapshot of an argument.
///
/// # Errors
/// If it was closed.
pub(super) fn given(
    py: Python<'_>,
    snapshot: Option<&Bound<'_, SnapshotObject>>,
) -> PyResult<Option<Arc<esker::Snapshot>>> {
    snapshot.map(|snapshot| snapshot.get().moment.open(py)).transpose()
}
