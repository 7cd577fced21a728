//! `Snapshot`.

use super::common::no_membership;
use super::iterator::{PlyvelIterator, Range, RawIterator};
use super::place::Place;
use crate::handle::{Handle, Moment};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::sync::Arc;

/// The database as it was at one moment.
#[pyclass(name = "Snapshot", module = "esker.plyvel", frozen)]
pub(crate) struct PlyvelSnapshot {
    moment: Arc<Moment>,
    base: Vec<u8>,
}

impl PlyvelSnapshot {
    pub(super) fn new(
        py: Python<'_>,
        handle: &Arc<Handle>,
        base: &[u8],
    ) -> PyResult<PlyvelSnapshot> {
        Ok(PlyvelSnapshot { moment: Moment::new(py, handle)?, base: base.to_vec() })
    }

    fn place(&self) -> Place<'_> {
        Place { handle: &self.moment.handle, base: &self.base, moment: Some(&self.moment) }
    }
}

#[pymethods]
impl PlyvelSnapshot {
    /// The value of a key at that moment, or `default`.
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
        self.place().get(py, key, default)
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<PlyvelIterator> {
        self.place().iterator(py, Range::default())
    }

    fn __contains__(&self, _key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Err(no_membership())
    }

    /// An iterator over a range of keys and their values at that moment.
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
        self.place().iterator(py, range)
    }

    /// An iterator that is moved by hand.
    #[pyo3(signature = (*, verify_checksums=Some(false), fill_cache=Some(true)), text_signature = "($self, *, verify_checksums=False, fill_cache=True)")]
    fn raw_iterator(
        &self,
        py: Python<'_>,
        verify_checksums: Option<bool>,
        fill_cache: Option<bool>,
    ) -> PyResult<RawIterator> {
        let _ = verify_checksums;
        self.place().raw_iterator(py, fill_cache)
    }

    /// Lets go of the snapshot. The second time it does nothing.
    fn close(&self) {
        self.moment.close();
    }

    /// The same as `close`.
    fn release(&self) {
        self.moment.close();
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) -> bool {
        self.moment.close();
        false
    }
}
