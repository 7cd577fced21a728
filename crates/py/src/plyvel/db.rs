//! `DB`: a store as plyvel has it.

use super::batch::WriteBatch;
use super::common::no_membership;
use super::iterator::{PlyvelIterator, Range, RawIterator};
use super::options::{Given, Named};
use super::place::Place;
use super::prefixed::PrefixedDb;
use super::property;
use super::snapshot::PlyvelSnapshot;
use crate::bytes::{self, BytesLike};
use crate::errors::Face;
use crate::foreign::explained;
use crate::handle::Handle;
use crate::waiting::patiently;
use esker::{Db, Options};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::path::PathBuf;
use std::sync::Arc;

/// A database.
///
/// Opens the one in the directory `name`. Sizes are in bytes; `None` is a default of the engine.
#[pyclass(name = "DB", module = "esker.plyvel", frozen)]
pub(crate) struct PlyvelDb {
    pub(super) handle: Arc<Handle>,
    name: Py<PyAny>,
}

impl PlyvelDb {
    fn place(&self) -> Place<'_> {
        Place { handle: &self.handle, base: &[], moment: None }
    }
}

/// Opens a store for this face.
fn open(py: Python<'_>, path: PathBuf, options: Options) -> PyResult<Arc<Handle>> {
    let asked = options.clone();
    let opened =
        py.detach(|| crate::comparator::guarded(|| explained(&path, Db::open(&path, asked))))?;
    let db = opened.map_err(|error| Face::Plyvel.error(py, &error))?;
    Ok(Handle::first(Face::Plyvel, options, db))
}

#[pymethods]
impl PlyvelDb {
    #[new]
    #[pyo3(
        signature = (name, *, create_if_missing=Some(false), error_if_exists=Some(false), paranoid_checks=None, write_buffer_size=None, max_open_files=None, lru_cache_size=None, block_size=None, block_restart_interval=None, max_file_size=None, compression=Some(Named::SNAPPY), bloom_filter_bits=0, comparator=None, comparator_name=None),
        text_signature = "(name, *, create_if_missing=False, error_if_exists=False, paranoid_checks=None, write_buffer_size=None, max_open_files=None, lru_cache_size=None, block_size=None, block_restart_interval=None, max_file_size=None, compression='snappy', bloom_filter_bits=0, comparator=None, comparator_name=None)"
    )]
    #[expect(clippy::too_many_arguments, reason = "those of plyvel")]
    fn new<'py>(
        py: Python<'py>,
        name: Bound<'py, PyAny>,
        create_if_missing: Option<bool>,
        error_if_exists: Option<bool>,
        paranoid_checks: Option<bool>,
        write_buffer_size: Option<u64>,
        max_open_files: Option<i64>,
        lru_cache_size: Option<u64>,
        block_size: Option<u64>,
        block_restart_interval: Option<u64>,
        max_file_size: Option<u64>,
        compression: Option<Named>,
        bloom_filter_bits: i32,
        comparator: Option<Bound<'py, PyAny>>,
        comparator_name: Option<Bound<'py, PyBytes>>,
    ) -> PyResult<PlyvelDb> {
        // Checks are always on.
        let _ = paranoid_checks;
        let path = bytes::path(&name)?;
        let given = Given {
            write_buffer_size,
            max_open_files,
            lru_cache_size,
            block_size,
            block_restart_interval,
            max_file_size,
            compression,
            bloom_filter_bits,
            comparator,
            comparator_name,
        };
        let mut options = given.options()?;
        options.create_if_missing = create_if_missing.unwrap_or(false);
        options.error_if_exists = error_if_exists.unwrap_or(false);
        let handle = open(py, path, options)?;
        Ok(PlyvelDb { handle, name: name.unbind() })
    }

    /// The name that it was opened by.
    #[getter]
    fn name(&self, py: Python<'_>) -> Py<PyAny> {
        self.name.clone_ref(py)
    }

    /// True once it was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.handle.is_closed()
    }

    /// Closes the database, and the iterators and snapshots made from it. The second time it does
    /// nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.handle.close(py)
    }

    /// The value of a key, or `default`.
    ///
    /// Checksums are always verified.
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

    /// Sets a key. `value` is anything that holds bytes; `sync`: return when it is on stable
    /// storage.
    #[pyo3(signature = (key, value, *, sync=Some(false)), text_signature = "($self, key, value, *, sync=False)")]
    fn put(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyBytes>,
        value: BytesLike<'_>,
        sync: Option<bool>,
    ) -> PyResult<()> {
        self.place().put(py, key, &value, sync)
    }

    /// Removes a key, which need not be there.
    #[pyo3(signature = (key, *, sync=Some(false)), text_signature = "($self, key, *, sync=False)")]
    fn delete(&self, py: Python<'_>, key: &Bound<'_, PyBytes>, sync: Option<bool>) -> PyResult<()> {
        self.place().delete(py, key, sync)
    }

    /// A new batch of writes. `transaction`: an exception inside of its `with` block discards it.
    #[pyo3(signature = (*, transaction=Some(false), sync=Some(false)), text_signature = "($self, *, transaction=False, sync=False)")]
    fn write_batch(
        &self,
        py: Python<'_>,
        transaction: Option<bool>,
        sync: Option<bool>,
    ) -> PyResult<WriteBatch> {
        WriteBatch::new(py, &self.handle, &[], transaction == Some(true), sync == Some(true))
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<PlyvelIterator> {
        self.place().iterator(py, Range::default())
    }

    fn __contains__(&self, _key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Err(no_membership())
    }

    /// An iterator over a range of keys and their values.
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

    /// The database as it is now.
    fn snapshot(&self, py: Python<'_>) -> PyResult<PlyvelSnapshot> {
        PlyvelSnapshot::new(py, &self.handle, &[])
    }

    /// What the database says of itself under a name such as `b'leveldb.stats'`, or `None`.
    fn get_property<'py>(
        &self,
        py: Python<'py>,
        name: &Bound<'py, PyBytes>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let open = self.handle.open(py)?;
        let (db, name) = (&open.db, name.as_bytes());
        let text = self.handle.store.run(py, || Ok(property::text(&db.stats(), name)))?;
        Ok(text.map(|text| PyBytes::new(py, text.as_bytes())))
    }

    /// Compacts the tables that hold keys of a range; `None` is open.
    #[pyo3(signature = (*, start=None, stop=None))]
    fn compact_range(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyBytes>>,
        stop: Option<&Bound<'_, PyBytes>>,
    ) -> PyResult<()> {
        let keyspace = self.handle.open(py)?.keyspace.clone();
        let owned = |key: Option<&Bound<'_, PyBytes>>| key.map(|key| key.as_bytes().to_vec());
        let (start, stop) = (owned(start), owned(stop));
        patiently(py, &self.handle.store, move || {
            keyspace.compact_range(start.as_deref(), stop.as_deref())
        })
    }

    /// About how many bytes of files the keys from `start` to before `stop` take.
    fn approximate_size(
        &self,
        py: Python<'_>,
        start: &Bound<'_, PyBytes>,
        stop: &Bound<'_, PyBytes>,
    ) -> PyResult<u64> {
        let open = self.handle.open(py)?;
        let (keyspace, start, stop) = (&open.keyspace, start.as_bytes(), stop.as_bytes());
        self.handle.store.run(py, || keyspace.approximate_size(Some(start), Some(stop)))
    }

    /// The same for several ranges, each a pair of start and stop.
    #[pyo3(signature = (*ranges))]
    fn approximate_sizes(&self, py: Python<'_>, ranges: &Bound<'_, PyTuple>) -> PyResult<Vec<u64>> {
        let open = self.handle.open(py)?;
        let mut given = Vec::new();
        for range in ranges {
            let (start, stop): (Bound<'_, PyAny>, Bound<'_, PyAny>) = range.extract()?;
            match (start.cast_into::<PyBytes>(), stop.cast_into::<PyBytes>()) {
                (Ok(start), Ok(stop)) => given.push((start, stop)),
                _ => {
                    let what = "each range is a pair of bytes, its start and its stop";
                    return Err(PyTypeError::new_err(what));
                }
            }
        }
        let keyspace = &open.keyspace;
        let mut sizes = Vec::with_capacity(given.len());
        for (start, stop) in &given {
            let (start, stop) = (start.as_bytes(), stop.as_bytes());
            let size = || keyspace.approximate_size(Some(start), Some(stop));
            sizes.push(self.handle.store.run(py, size)?);
        }
        Ok(sizes)
    }

    /// The keys that begin with `prefix` as a database of their own, in which they lack it.
    fn prefixed_db(slf: Bound<'_, Self>, prefix: &Bound<'_, PyBytes>) -> PrefixedDb {
        let handle = slf.get().handle.clone();
        PrefixedDb::over(slf.into_any().unbind(), handle, prefix.clone().unbind())
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let this = slf.get();
        let closed = if this.closed() { " (closed)" } else { "" };
        let name = this.name.bind(slf.py()).repr()?;
        Ok(format!("<esker.plyvel.DB with name {name}{closed} at {:p}>", slf.as_ptr()))
    }
}
