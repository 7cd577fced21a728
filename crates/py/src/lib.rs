//! The module `esker._native`: the engine for Python, with two faces.
//!
//! | modules | hold |
//! |---|---|
//! | `plyvel` | what `esker.plyvel` offers: the names and habits of plyvel |
//! | `own` | what `esker` offers: all that the engine can do |
//! | `handle`, `walk`, `bytes`, `comparator`, `errors`, `foreign`, `fork`, `waiting` | what both stand on |
//!
//! Nothing here decides anything about data: arguments are checked and handed on. How it is used:
//! docs/python.md.
//! Threads: every call that may touch the disk or wait lets go of the interpreter first, and no
//! lock is held while it is taken back, see `handle`.

#![expect(clippy::needless_pass_by_value, reason = "what Python gives is handed over by value")]

mod bytes;
mod comparator;
mod errors;
mod foreign;
mod fork;
mod handle;
mod own;
mod plyvel;
mod waiting;
mod walk;

use pyo3::prelude::*;

/// The engine. Use `esker` and `esker.plyvel`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("after_fork", wrap_pyfunction!(fork::after_fork, module)?)?;
    own::add(module)?;
    plyvel::add(module)
}
