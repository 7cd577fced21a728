//! `PrefixedDB`: the keys of a store that begin alike, as a store of their own.

use super::batch::WriteBatch;
use super::common::no_membership;
use super::iterator::{PlyvelIterator, Range, RawIterator};
use super::place::Place;
use super::snapshot::PlyvelSnapshot;
use crate::bytes::{BytesLike, joined};
use crate::handle::Handle;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Arc;

/// The keys of a database that begin with a prefix; it is put before every key that is given and
/// taken off every key that is returned.
#[pyclass(name = "PrefixedDB", module = "esker.plyvel", frozen)]
pub(crate) struct PrefixedDb {
    db: Py<PyAny>,
    handle: Arc<Handle>,
    prefix: Py<PyBytes>,
}

impl PrefixedDb {
    pub(super) fn over(db: Py<PyAny>, handle: Arc<Handle>, prefix: Py<PyBytes>) -> PrefixedDb {
        PrefixedDb { db, handle, prefix }
    }

    fn base<'a>(&'a self, py: Python<'a>) -> &'a [u8] {
        self.prefix.as_bytes(py)
    }

    fn place<'a>(&'a self, py: Python<'a>) -> Place<'a> {
        Place { handle: &self.handle, base: self.base(py), moment: None }
    }
}

#[pymethods]
impl PrefixedDb {
    /// The database that it is a part of.
    #[getter]
    fn db(&self, py: Python<'_>) -> Py<PyAny> {
        self.db.clone_ref(py)
    }

    /// What all of its keys begin with.
    #[getter]
    fn prefix(&self, py: Python<'_>) -> Py<PyBytes> {
        self.prefix.clone_ref(py)
    }

    /// As `DB.get`.
    #[pyo3(
        signature = (key, default=None, *, verify_checksums=Some(false), fill_cache=Some(true)),
        text_signature = "($self, key, default=None, *, verify_checksums=False, fill_cache=True)"
    )]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyBytes>,
        default: Option<Bound<'py, PyAny>>,
        verify_checksums: Option<bool>,
        fill_cache: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // The engine does both as it must.
        let _ = (verify_checksums, fill_cache);
        self.place(py).get(py, key, default)
    }

    /// As `DB.put`.
    #[pyo3(signature = (key, value, *, sync=Some(false)), text_signature = "($self, key, value, *, sync=False)")]
    fn put(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyBytes>,
        value: BytesLike<'_>,
        sync: Option<bool>,
    ) -> PyResult<()> {
        self.place(py).put(py, key, &value, sync)
    }

    /// As `DB.delete`.
    #[pyo3(signature = (key, *, sync=Some(false)), text_signature = "($self, key, *, sync=False)")]
    fn delete(&self, py: Python<'_>, key: &Bound<'_, PyBytes>, sync: Option<bool>) -> PyResult<()> {
        self.place(py).delete(py, key, sync)
    }

    /// As `DB.write_batch`.
    #[pyo3(signature = (*, transaction=Some(false), sync=Some(false)), text_signature = "($self, *, transaction=False, sync=False)")]
    fn write_batch(
        &self,
        py: Python<'_>,
        transaction: Option<bool>,
        sync: Option<bool>,
    ) -> PyResult<WriteBatch> {
        let (handle, base) = (&self.handle, self.base(py));
        WriteBatch::new(py, handle, base, transaction == Some(true), sync == Some(true))
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<PlyvelIterator> {
        self.place(py).iterator(py, Range::default())
    }

    fn __contains__(&self, _key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Err(no_membership())
    }

    /// As `DB.iterator`.
    #[pyo3(
        signature = (*, reverse=Some(false), start=None, stop=None, include_start=Some(true), include_stop=Some(false), prefix=None, include_key=Some(true), include_value=Some(true), verify_checksums=Some(false), fill_cache=Some(true)),
        text_signature = "($self, *, reverse=False, start=None, stop=None, include_start=True, include_stop=False, prefix=None, include_key=True, include_value=True, verify_checksums=False, fill_cache=True)"
    )]
    #[expect(clippy::too_many_arguments, reason = "those of plyvel")]
    fn iterator(
        &self,
        py: Python<'_>,
        reverse: Option<bool>,
        start: Option<Bound<'_, PyBytes>>,
        stop: Option<Bound<'_, PyBytes>>,
        include_start: Option<bool>,
        include_stop: Option<bool>,
        prefix: Option<Bound<'_, PyBytes>>,
        include_key: Option<bool>,
        include_value: Option<bool>,
        verify_checksums: Option<bool>,
        fill_cache: Option<bool>,
    ) -> PyResult<PlyvelIterator> {
        let _ = verify_checksums;
        let range = Range::given(
            (start, stop, prefix),
            [reverse, include_start, include_stop, include_key, include_value, fill_cache],
        );
        self.place(py).iterator(py, range)
    }

    /// As `DB.raw_iterator`, over the keys with the prefix alone.
    #[pyo3(signature = (*, verify_checksums=Some(false), fill_cache=Some(true)), text_signature = "($self, *, verify_checksums=False, fill_cache=True)")]
    fn raw_iterator(
        &self,
        py: Python<'_>,
        verify_checksums: Option<bool>,
        fill_cache: Option<bool>,
    ) -> PyResult<RawIterator> {
        let _ = verify_checksums;
        self.place(py).raw_iterator(py, fill_cache)
    }

    /// As `DB.snapshot`.
    fn snapshot(&self, py: Python<'_>) -> PyResult<PlyvelSnapshot> {
        PlyvelSnapshot::new(py, &self.handle, self.base(py))
    }

    /// The keys that begin with this prefix and then `prefix`.
    fn prefixed_db(&self, py: Python<'_>, prefix: &Bound<'_, PyBytes>) -> PrefixedDb {
        let longer = PyBytes::new(py, &joined(self.base(py), prefix.as_bytes()));
        PrefixedDb::over(self.db.clone_ref(py), self.handle.clone(), longer.unbind())
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let prefix = slf.get().prefix.bind(slf.py()).repr()?;
        Ok(format!("<esker.plyvel.PrefixedDB with prefix {prefix} at {:p}>", slf.as_ptr()))
    }
}
