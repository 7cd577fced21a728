//! What `esker` offers: all that the engine can do.

mod batch;
mod convert;
mod db;
mod groups;
mod keyspace;
mod options;
mod repair;
mod results;
mod scan;
mod snapshot;

use pyo3::prelude::*;

/// Closes every store that is open: for the end of the process.
#[pyfunction]
fn close_all(py: Python<'_>) {
    crate::handle::close_all(py);
}

/// Adds the classes and functions of this face to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<keyspace::KeyspaceObject>()?;
    module.add_class::<db::DbObject>()?;
    module.add_class::<batch::BatchObject>()?;
    module.add_class::<snapshot::SnapshotObject>()?;
    module.add_class::<scan::Scan>()?;
    module.add_class::<results::Results>()?;
    module.add_function(wrap_pyfunction!(db::open, module)?)?;
    module.add_function(wrap_pyfunction!(repair::repair, module)?)?;
    module.add_function(wrap_pyfunction!(options::options, module)?)?;
    module.add_function(wrap_pyfunction!(close_all, module)?)
}
