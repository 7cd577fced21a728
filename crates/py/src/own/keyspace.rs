//! `Keyspace`: reads, writes, scans, records and indexes.

use super::convert::{from_record, to_field, to_record};
use super::results::{Results, Source};
use super::scan::{Covers, Manner, Scan};
use super::snapshot::{self, SnapshotObject};
use crate::bytes::BytesLike;
use crate::errors::invalid;
use crate::handle::Handle;
use crate::waiting::{patiently, watched};
use crate::walk::Begins;
use esker::fields::{FieldRef, FieldValue, RecordView};
use esker::{Batch, FindOptions, IndexState, ScanOptions, WriteOptions};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use std::ops::Bound as End;
use std::sync::Arc;

/// The moment of a read, as an argument.
type Snap<'a, 'py> = Option<&'a Bound<'py, SnapshotObject>>;

/// A keyspace of a database: its own keys, tables and options.
///
/// Keys and values are `bytes` or anything that holds bytes.
#[pyclass(name = "Keyspace", module = "esker", subclass, frozen)]
pub(crate) struct KeyspaceObject {
    pub(super) handle: Arc<Handle>,
}

/// Bounds that borrow their values.
fn bounds<'v>(
    start: &'v End<FieldValue>,
    end: &'v End<FieldValue>,
) -> (End<FieldRef<'v>>, End<FieldRef<'v>>) {
    (start.as_ref().map(FieldValue::as_ref), end.as_ref().map(FieldValue::as_ref))
}

/// The bounds of a find from its keywords.
fn field_bounds(
    py: Python<'_>,
    field: &str,
    given: Option<&Bound<'_, PyDict>>,
) -> PyResult<(End<FieldValue>, End<FieldValue>)> {
    let (mut start, mut end) = (End::Unbounded, End::Unbounded);
    for (name, value) in given.into_iter().flatten() {
        let value = to_field(field, &value)?;
        let name: String = name.extract()?;
        let (place, bound) = match name.as_str() {
            "ge" => (&mut start, End::Included(value)),
            "gt" => (&mut start, End::Excluded(value)),
            "le" => (&mut end, End::Included(value)),
            "lt" => (&mut end, End::Excluded(value)),
            _ => {
                let what = format!("no bound {name:?}: use ge, gt, le or lt");
                return Err(invalid(py, &what));
            }
        };
        if !matches!(place, End::Unbounded) {
            return Err(invalid(py, "a range has one bound on either side: ge or gt, le or lt"));
        }
        *place = bound;
    }
    Ok((start, end))
}

impl KeyspaceObject {
    /// Writes a single operation.
    fn write(
        &self,
        py: Python<'_>,
        sync: bool,
        fill: impl FnOnce(&mut Batch, esker::KeyspaceId),
    ) -> PyResult<()> {
        let open = self.handle.open(py)?;
        let mut batch = Batch::new();
        fill(&mut batch, open.keyspace.id());
        let db = &open.db;
        self.handle.store.run(py, || db.write(batch, WriteOptions { sync }))
    }

    fn engine(&self, py: Python<'_>) -> PyResult<esker::Keyspace> {
        Ok(self.handle.open(py)?.keyspace.clone())
    }

    /// The value of a key, now or at a snapshot.
    fn value(
        &self,
        py: Python<'_>,
        key: &[u8],
        snapshot: Snap<'_, '_>,
    ) -> PyResult<Option<esker::Value>> {
        let open = self.handle.open(py)?;
        let keyspace = &open.keyspace;
        match snapshot::given(py, snapshot)? {
            None => self.handle.store.run(py, || keyspace.get(key)),
            Some(snapshot) => self.handle.store.run(py, || keyspace.get_at(key, &snapshot)),
        }
    }

    fn found(
        &self,
        py: Python<'_>,
        field: &str,
        (start, end): (&End<FieldValue>, &End<FieldValue>),
        snapshot: Snap<'_, '_>,
        values: bool,
    ) -> PyResult<Results> {
        let keyspace = self.engine(py)?;
        let snapshot = snapshot::given(py, snapshot)?;
        let found = self.handle.store.run(py, || {
            let options = FindOptions { snapshot: snapshot.as_deref(), ..FindOptions::default() };
            keyspace.find_range(field, bounds(start, end), &options)
        })?;
        Results::new(py, &self.handle, Source::Found(found), values)
    }
}

#[pymethods]
impl KeyspaceObject {
    /// Its name.
    #[getter]
    fn name(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.handle.open(py)?.keyspace.name().to_owned())
    }

    /// The value of a key, or `default`; as a snapshot sees it, if one is given.
    #[pyo3(signature = (key, default=None, *, snapshot=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: BytesLike<'py>,
        default: Option<Bound<'py, PyAny>>,
        snapshot: Snap<'_, 'py>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.value(py, key.get(), snapshot)? {
            Some(value) => Ok(Some(PyBytes::new(py, &value).into_any())),
            None => Ok(default),
        }
    }

    /// The value of a key as tables have it, or `default`: of a store with `durability="external"`,
    /// what a crash would leave now.
    #[pyo3(signature = (key, default=None))]
    fn get_persisted<'py>(
        &self,
        py: Python<'py>,
        key: BytesLike<'py>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let open = self.handle.open(py)?;
        let (keyspace, key) = (&open.keyspace, key.get());
        match self.handle.store.run(py, || keyspace.get_persisted(key))? {
            Some(value) => Ok(Some(PyBytes::new(py, &value).into_any())),
            None => Ok(default),
        }
    }

    /// The values of several keys, all as of one moment, in the order of the keys; `None` for those
    /// that are not there.
    #[pyo3(signature = (keys, *, snapshot=None))]
    fn multi_get<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        snapshot: Snap<'_, 'py>,
    ) -> PyResult<Bound<'py, PyList>> {
        let given = keys.try_iter()?.map(|key| key?.extract::<BytesLike<'py>>());
        let given = given.collect::<PyResult<Vec<_>>>()?;
        let keys: Vec<&[u8]> = given.iter().map(BytesLike::get).collect();
        let snapshot = snapshot::given(py, snapshot)?;
        let keyspace = self.engine(py)?;
        let get = || keyspace.multi_get(&keys, snapshot.as_deref());
        let values = self.handle.store.run(py, get)?;
        PyList::new(py, values.into_iter().map(|value| value.map(|value| PyBytes::new(py, &value))))
    }

    /// Sets a key. It survives the death of the process, unless `durability="external"`; `sync`:
    /// and a power cut, when it returns.
    #[pyo3(signature = (key, value, *, sync=false))]
    fn put(
        &self,
        py: Python<'_>,
        key: BytesLike<'_>,
        value: BytesLike<'_>,
        sync: bool,
    ) -> PyResult<()> {
        let (key, value) = (key.get(), value.get());
        if sync {
            return self.write(py, true, |batch, id| {
                batch.put_in(id, key, value);
            });
        }
        let open = self.handle.open(py)?;
        let keyspace = &open.keyspace;
        self.handle.store.run(py, || keyspace.put(key, value))
    }

    /// Removes a key, which need not be there.
    #[pyo3(signature = (key, *, sync=false))]
    fn delete(&self, py: Python<'_>, key: BytesLike<'_>, sync: bool) -> PyResult<()> {
        self.write(py, sync, |batch, id| {
            batch.delete_in(id, key.get());
        })
    }

    /// Removes every key from `start` to before `end`.
    #[pyo3(signature = (start, end, *, sync=false))]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: BytesLike<'_>,
        end: BytesLike<'_>,
        sync: bool,
    ) -> PyResult<()> {
        self.write(py, sync, |batch, id| {
            batch.delete_range_in(id, start.get(), end.get());
        })
    }

    /// The keys from `start` to before `end`, or those with a prefix, in order or in reverse, with
    /// their values or alone.
    ///
    /// `fill_cache=False`: do not displace what others use, for scans of everything. `persisted`:
    /// only what is in tables, which is what a crash cannot take from a store with
    /// `durability="external"`.
    #[pyo3(signature = (start=None, end=None, *, prefix=None, reverse=false, keys_only=false, snapshot=None, fill_cache=true, persisted=false))]
    #[expect(clippy::too_many_arguments, reason = "keywords")]
    fn scan<'py>(
        &self,
        py: Python<'py>,
        start: Option<BytesLike<'py>>,
        end: Option<BytesLike<'py>>,
        prefix: Option<BytesLike<'py>>,
        reverse: bool,
        keys_only: bool,
        snapshot: Snap<'_, 'py>,
        fill_cache: bool,
        persisted: bool,
    ) -> PyResult<Scan> {
        let way = if reverse { crate::walk::Way::Backward } else { crate::walk::Way::Forward };
        let manner = Manner { way, keys_only, fill_cache, persisted };
        Scan::new(py, &self.handle, &Covers { start, end, prefix }, manner, snapshot)
    }

    /// True if there is a value for the key.
    fn __contains__(&self, py: Python<'_>, key: BytesLike<'_>) -> PyResult<bool> {
        Ok(self.value(py, key.get(), None)?.is_some())
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Scan> {
        self.scan(py, None, None, None, false, false, None, true, false)
    }

    /// Keys and values in the order in which values stand on the disk: for large ranges of values
    /// that are kept apart.
    ///
    /// `memory_bytes`: what it may take for keys and places before it reads values. `persisted`: as
    /// of `scan`.
    #[pyo3(signature = (start=None, end=None, *, prefix=None, keys_only=false, snapshot=None, memory_bytes=16777216, persisted=false))]
    #[expect(clippy::too_many_arguments, reason = "keywords")]
    fn scan_unordered<'py>(
        &self,
        py: Python<'py>,
        start: Option<BytesLike<'py>>,
        end: Option<BytesLike<'py>>,
        prefix: Option<BytesLike<'py>>,
        keys_only: bool,
        snapshot: Snap<'_, 'py>,
        memory_bytes: usize,
        persisted: bool,
    ) -> PyResult<Results> {
        let covers = Covers { start, end, prefix };
        let (start, end) = covers.bounds(py)?;
        let snapshot = snapshot::given(py, snapshot)?;
        let prefix = covers.prefix.map(|prefix| prefix.get().to_vec()).unwrap_or_default();
        let source = {
            let open = self.handle.open(py)?;
            let (keyspace, order) = (&open.keyspace, &open.options.default_keyspace.order);
            self.handle.store.run(py, || {
                let begins = Begins::with(order, prefix);
                begins.check_range()?;
                let snapshot = snapshot.as_deref();
                let options =
                    ScanOptions { start, end, snapshot, fill_cache: false, persisted, keys_only };
                Ok(Source::Unordered(keyspace.scan_unordered(&options, memory_bytes)?, begins))
            })?
        };
        Results::new(py, &self.handle, source, !keys_only)
    }

    /// Sets a key to a record of these fields: None, bool, int, float, str or bytes by name.
    #[pyo3(signature = (key, fields, *, sync=false))]
    fn put_record(
        &self,
        py: Python<'_>,
        key: BytesLike<'_>,
        fields: &Bound<'_, PyDict>,
        sync: bool,
    ) -> PyResult<()> {
        let encoded = to_record(fields)?.encode();
        let encoded = encoded.map_err(|error| self.handle.store.face.error(py, &error))?;
        self.write(py, sync, |batch, id| {
            batch.put_in(id, key.get(), &encoded);
        })
    }

    /// The record of a key as a dict, or `default`.
    #[pyo3(signature = (key, default=None, *, snapshot=None))]
    fn get_record<'py>(
        &self,
        py: Python<'py>,
        key: BytesLike<'py>,
        default: Option<Bound<'py, PyAny>>,
        snapshot: Snap<'_, 'py>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(value) = self.value(py, key.get(), snapshot)? else { return Ok(default) };
        let view = RecordView::parse(&value);
        let view = view.map_err(|error| self.handle.store.face.error(py, &error))?;
        Ok(Some(from_record(py, &view)?.into_any()))
    }

    /// Makes an index of a field, for `find`. Returns at once; `wait_indexes` waits until it is
    /// built.
    fn create_index(&self, py: Python<'_>, field: &str) -> PyResult<()> {
        let keyspace = self.engine(py)?;
        self.handle.store.run(py, || keyspace.create_index(field))
    }

    /// Removes the index of a field.
    fn drop_index(&self, py: Python<'_>, field: &str) -> PyResult<()> {
        let keyspace = self.engine(py)?;
        self.handle.store.run(py, || keyspace.drop_index(field))
    }

    /// The indexes of this keyspace: dicts of `field`, `is_ready` and `keys_done`, in the order in
    /// which they were made.
    fn indexes<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let keyspace = self.engine(py)?;
        let infos = self.handle.store.run(py, || keyspace.indexes())?;
        let dict = |info: &esker::IndexInfo| {
            let dict = PyDict::new(py);
            dict.set_item("field", &info.field)?;
            dict.set_item("is_ready", info.state == IndexState::Ready)?;
            dict.set_item("keys_done", info.keys_done)?;
            Ok(dict)
        };
        infos.iter().map(dict).collect()
    }

    /// Waits until the index of `field` is ready, or all indexes of the database if none is named.
    ///
    /// `progress` is called about ten times a second with the number of keys done, where a field is
    /// named.
    #[pyo3(signature = (field=None, *, progress=None))]
    fn wait_indexes(
        &self,
        py: Python<'_>,
        field: Option<&str>,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let keyspace = self.engine(py)?;
        let Some(field) = field else {
            return patiently(py, &self.handle.store, move || keyspace.wait_indexes());
        };
        let progress = progress.map(Bound::unbind);
        let store = &self.handle.store;
        watched(
            py,
            |tell| store.run(py, || keyspace.wait_index(field, |done| tell(&done))),
            |py, done: &u64| {
                let Some(progress) = &progress else { return Ok(()) };
                progress.bind(py).call1((*done,)).map(|_| ())
            },
        )
    }

    /// The keys of records whose field holds this value, by an index.
    #[pyo3(signature = (field, value, *, snapshot=None))]
    fn find(
        &self,
        py: Python<'_>,
        field: &str,
        value: &Bound<'_, PyAny>,
        snapshot: Snap<'_, '_>,
    ) -> PyResult<Results> {
        let value = End::Included(to_field(field, value)?);
        self.found(py, field, (&value, &value), snapshot, false)
    }

    /// The keys of records whose field holds a value of a range, in the order of the values, by an
    /// index.
    ///
    /// The range is given by `ge` or `gt` and `le` or `lt`; what is left out is open. `values`:
    /// each key comes with its value.
    #[pyo3(signature = (field, *, snapshot=None, values=false, **bounds))]
    fn find_range(
        &self,
        py: Python<'_>,
        field: &str,
        snapshot: Snap<'_, '_>,
        values: bool,
        bounds: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Results> {
        let (start, end) = field_bounds(py, field, bounds)?;
        self.found(py, field, (&start, &end), snapshot, values)
    }

    /// The keys of records whose field holds this value, in order, without an index: reads all
    /// records.
    #[pyo3(signature = (field, value, *, snapshot=None))]
    fn get_keys_by_field<'py>(
        &self,
        py: Python<'py>,
        field: &str,
        value: &Bound<'py, PyAny>,
        snapshot: Snap<'_, 'py>,
    ) -> PyResult<Bound<'py, PyList>> {
        let value = to_field(field, value)?;
        let keyspace = self.engine(py)?;
        let snapshot = snapshot::given(py, snapshot)?;
        let keys = watched(
            py,
            |tell| {
                self.handle.store.run(py, || {
                    let (value, snapshot) = (value.as_ref(), snapshot.as_deref());
                    keyspace.get_keys_by_field(field, value, snapshot, |done| tell(&done))
                })
            },
            |_, _: &u64| Ok(()),
        )?;
        PyList::new(py, keys.iter().map(|key| PyBytes::new(py, key)))
    }

    /// The levels of the tree, from 0 on: dicts of figures.
    fn levels<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let open = self.handle.open(py)?;
        let (db, name) = (&open.db, open.keyspace.name());
        let stats = self.handle.store.run(py, || Ok(db.stats()))?;
        let own = stats.keyspaces.into_iter().find(|keyspace| keyspace.name == name);
        super::repair::reported(py, &own.map(|keyspace| keyspace.levels).unwrap_or_default())
    }

    /// About how many bytes of files the keys from `start` to before `end` take.
    #[pyo3(signature = (start=None, end=None))]
    fn approximate_size(
        &self,
        py: Python<'_>,
        start: Option<BytesLike<'_>>,
        end: Option<BytesLike<'_>>,
    ) -> PyResult<u64> {
        let keyspace = self.engine(py)?;
        let (start, end) = (start.as_ref().map(BytesLike::get), end.as_ref().map(BytesLike::get));
        self.handle.store.run(py, || keyspace.approximate_size(start, end))
    }

    /// Writes what is in memory of this keyspace to tables.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let keyspace = self.engine(py)?;
        patiently(py, &self.handle.store, move || keyspace.flush())
    }

    /// Compacts everything from `start` to before `end` into the deepest level, dropping what is
    /// deleted.
    #[pyo3(signature = (start=None, end=None))]
    fn compact(
        &self,
        py: Python<'_>,
        start: Option<BytesLike<'_>>,
        end: Option<BytesLike<'_>>,
    ) -> PyResult<()> {
        let keyspace = self.engine(py)?;
        let owned = |key: Option<BytesLike<'_>>| key.map(|key| key.get().to_vec());
        let (start, end) = (owned(start), owned(end));
        let compact = move || keyspace.compact_range(start.as_deref(), end.as_deref());
        patiently(py, &self.handle.store, compact)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        match self.name(py) {
            Ok(name) => format!("<esker.Keyspace {name:?}>"),
            Err(_) => "<esker.Keyspace (closed)>".to_owned(),
        }
    }
}
