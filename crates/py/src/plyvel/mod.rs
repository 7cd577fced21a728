//! What `esker.plyvel` offers: the names, arguments and habits of plyvel 1.5, on our engine.
//!
//! Semantics are plyvel's documented ones; where it departs from them itself, we do not, see
//! docs/python.md.

mod batch;
mod common;
mod db;
mod destroy;
mod iterator;
mod options;
mod place;
mod prefixed;
mod property;
mod snapshot;

use pyo3::prelude::*;

/// Adds the classes and functions of this face to the module, under names that begin with
/// `plyvel_`.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("plyvel_DB", py.get_type::<db::PlyvelDb>())?;
    module.add("plyvel_PrefixedDB", py.get_type::<prefixed::PrefixedDb>())?;
    module.add("plyvel_WriteBatch", py.get_type::<batch::WriteBatch>())?;
    module.add("plyvel_Snapshot", py.get_type::<snapshot::PlyvelSnapshot>())?;
    module.add("plyvel_Iterator", py.get_type::<iterator::PlyvelIterator>())?;
    module.add("plyvel_RawIterator", py.get_type::<iterator::RawIterator>())?;
    module.add("plyvel_repair_db", wrap_pyfunction!(destroy::repair_db, module)?)?;
    module.add("plyvel_destroy_db", wrap_pyfunction!(destroy::destroy_db, module)?)?;
    Ok(())
}
