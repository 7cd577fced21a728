//! What all classes of this face refuse alike.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

/// `in` means nothing here.
pub(super) fn no_membership() -> PyErr {
    PyTypeError::new_err("'in' says nothing of keys here: compare what get(key) gives with None")
}
