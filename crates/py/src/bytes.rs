//! Keys and values as Python gives them.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView, PyString};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Bytes of an argument: those of a `bytes` object where they stand, or a copy of what else holds
/// bytes.
pub(crate) struct BytesLike<'py>(Bound<'py, PyBytes>);

impl BytesLike<'_> {
    /// The bytes, which never change.
    #[inline]
    pub(crate) fn get(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl<'py> FromPyObject<'_, 'py> for BytesLike<'py> {
    type Error = PyErr;

    #[inline]
    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match given.cast::<PyBytes>() {
            Ok(bytes) => Ok(BytesLike(bytes.to_owned())),
            Err(_) => copied(&given).map(BytesLike),
        }
    }
}

/// A copy of what is no `bytes` object: it may be changed while we read it without the interpreter.
#[cold]
fn copied<'py>(given: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    if let Ok(array) = given.cast::<PyByteArray>() {
        return Ok(PyBytes::new(given.py(), &array.to_vec()));
    }
    let Ok(view) = PyMemoryView::from(given) else {
        let kind = given.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "a bytes-like object is required, not '{kind}': encode text first"
        )));
    };
    let bytes = given.py().get_type::<PyBytes>().call1((view,))?;
    Ok(bytes.cast_into::<PyBytes>()?)
}

/// The directory that an argument names: text, bytes, or what `os.fspath` takes.
pub(crate) fn path(given: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    let plain = match given.hasattr("__fspath__")? {
        true => given.call_method0("__fspath__")?,
        false => given.clone(),
    };
    if let Ok(bytes) = plain.cast::<PyBytes>() {
        return Ok(OsString::from_vec(bytes.as_bytes().to_vec()).into());
    }
    if plain.cast::<PyString>().is_ok() {
        return plain.extract();
    }
    let kind = given.get_type().name()?;
    Err(PyTypeError::new_err(format!(
        "the name of a directory is str, bytes or os.PathLike, not '{kind}'"
    )))
}

/// A prefix and a key behind each other.
pub(crate) fn joined(prefix: &[u8], key: &[u8]) -> Vec<u8> {
    [prefix, key].concat()
}
