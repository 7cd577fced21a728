//! Scans in the order of keys.

use super::convert::alias;
use super::snapshot::{self, SnapshotObject};
use crate::bytes::BytesLike;
use crate::errors::invalid;
use crate::handle::{Handle, Slot};
use crate::walk::{Begins, Bounded, Steps, Walk, Way};
use esker::ScanOptions;
use esker::base::key::prefix_end;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple, PyType};
use std::sync::Arc;

/// What a closed scan is called.
const SCAN: &str = "scan";

/// A bound of a scan; `None` is open.
type Key = Option<Vec<u8>>;

/// The keys of a scan as arguments.
pub(super) struct Covers<'py> {
    pub(super) start: Option<BytesLike<'py>>,
    pub(super) end: Option<BytesLike<'py>>,
    pub(super) prefix: Option<BytesLike<'py>>,
}

impl Covers<'_> {
    /// First key, and end, exclusive.
    ///
    /// # Errors
    /// `InvalidArgumentError` if there are a prefix and bounds.
    pub(super) fn bounds(&self, py: Python<'_>) -> PyResult<(Key, Key)> {
        let owned = |key: &Option<BytesLike<'_>>| key.as_ref().map(|key| key.get().to_vec());
        let (start, end) = (owned(&self.start), owned(&self.end));
        let Some(prefix) = owned(&self.prefix) else { return Ok((start, end)) };
        if start.is_some() || end.is_some() {
            return Err(invalid(py, "a prefix has its own start and end: leave those out"));
        }
        let end = prefix_end(&prefix);
        // Every key begins with nothing, which need not be the first of them.
        Ok((Some(prefix).filter(|prefix| !prefix.is_empty()), end))
    }
}

/// How a scan reads and what it gives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    pub(super) way: Way,
    pub(super) keys_only: bool,
    pub(super) fill_cache: bool,
    pub(super) persisted: bool,
}

/// A key, and its value if that is given.
type Parts<'py> = (Bound<'py, PyBytes>, Option<Bound<'py, PyBytes>>);

/// Walks the keys of a range in order and gives each with its value, or alone.
///
/// It sees the database as it was when it was made. Use it by one thread at a time.
#[pyclass(module = "esker", frozen)]
pub(crate) struct Scan {
    slot: Arc<Slot<Steps>>,
    way: Way,
    keys_only: bool,
}

impl Scan {
    pub(super) fn new(
        py: Python<'_>,
        handle: &Arc<Handle>,
        covers: &Covers<'_>,
        manner: Manner,
        snapshot: Option<&Bound<'_, SnapshotObject>>,
    ) -> PyResult<Scan> {
        let Manner { way, keys_only, fill_cache, persisted } = manner;
        let (start, end) = covers.bounds(py)?;
        let snapshot = snapshot::given(py, snapshot)?;
        let prefix = covers.prefix.as_ref().map(|prefix| prefix.get().to_vec()).unwrap_or_default();
        let bounded = {
            let open = handle.open(py)?;
            let (keyspace, order) = (&open.keyspace, &open.options.default_keyspace.order);
            handle.store.run(py, || {
                let begins = Begins::with(order, prefix);
                begins.check_range()?;
                let snapshot = snapshot.as_deref();
                let options =
                    ScanOptions { start, end, snapshot, fill_cache, persisted, keys_only };
                let cursor = keyspace.scan(&options)?;
                let bounded = Bounded::within(cursor, order.clone(), None, None);
                Ok(bounded.beginning(begins))
            })?
        };
        let steps = Steps::new(Walk::new(bounded), way);
        Ok(Scan { slot: Slot::new(py, handle, steps)?, way, keys_only })
    }

    /// Key and value of the entry that was passed last, as far as they are given.
    #[inline]
    fn parts<'py>(&self, py: Python<'py>, steps: &Steps) -> Option<Parts<'py>> {
        let (key, value) = steps.entry()?;
        let value = (!self.keys_only).then(|| PyBytes::new(py, value));
        Some((PyBytes::new(py, key), value))
    }

    #[cold]
    fn closed(&self, py: Python<'_>) -> PyErr {
        self.slot.handle.store.face.closed(py, SCAN)
    }
}

#[pymethods]
impl Scan {
    /// For annotations, such as `Scan[bytes]`.
    #[classmethod]
    fn __class_getitem__<'py>(
        class: &Bound<'py, PyType>,
        item: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        alias(class, item)
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let quick = self.slot.lock(py)?.as_mut().map(|steps| {
            let passed = steps.pass_inside(self.way)?;
            Some(if passed { self.parts(py, steps) } else { None })
        });
        let parts = match quick.ok_or_else(|| self.closed(py))? {
            Some(parts) => parts,
            None => {
                // Who consumes it in C, as `list` does, looks at no signals.
                py.check_signals()?;
                match self.slot.run(py, SCAN, |steps| steps.pass(self.way))? {
                    false => None,
                    true => {
                        let parts = self.slot.lock(py)?.as_ref().map(|steps| self.parts(py, steps));
                        parts.ok_or_else(|| self.closed(py))?
                    }
                }
            }
        };
        Ok(match parts {
            None => None,
            Some((key, None)) => Some(key.into_any()),
            Some((key, Some(value))) => Some(PyTuple::new(py, [key, value])?.into_any()),
        })
    }

    /// Goes on at `key`: forward with the first at or behind it, in reverse with the last before
    /// it.
    fn seek(&self, py: Python<'_>, key: BytesLike<'_>) -> PyResult<()> {
        let key = key.get();
        self.slot.run(py, SCAN, |steps| steps.seek(key))
    }

    /// Closes the scan. The second time it does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.slot.close(py)
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.slot.close(py)
    }
}
