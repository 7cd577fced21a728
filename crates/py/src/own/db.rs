//! `Db` and `open`.

use super::batch::BatchObject;
use super::convert::to_python;
use super::groups;
use super::keyspace::KeyspaceObject;
use super::options::{of_database, of_keyspace, set_order};
use super::repair::reported;
use super::snapshot::SnapshotObject;
use crate::bytes::{self, BytesLike};
use crate::comparator::{guarded, order};
use crate::errors::Face;
use crate::foreign::explained;
use crate::handle::{Handle, Moment};
use crate::waiting::{patiently, watched};
use esker::{Applied, Db, Setup, VerifyProgress, VerifyReport};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use serde_json::{Value, json};
use std::sync::Arc;

/// An open database. It is its own default keyspace: what `Keyspace` can do, it can do too.
///
/// `open` makes one. Use it in a `with` block, or close it.
#[pyclass(name = "Db", module = "esker", extends = KeyspaceObject, frozen)]
pub(crate) struct DbObject {
    path: Py<PyAny>,
}

/// Opens the database in the directory `path`, creating it unless `create_if_missing=False`.
///
/// `preset`: what the options begin with: `default`, `edge`, `write_heavy`, `read_mostly` or
/// `large_values`. `options`: single options by the names that `options()` lists, those of
/// keyspaces too, which are then the default keyspace's and of those without options of their own;
/// `keyspaces={name: {option: value}}` gives some to others that exist. `read_only`: nothing on the
/// disk changes. `comparator`: a function of two keys that returns a number below, at or above
/// zero, with a name that is stored.
#[pyfunction]
#[pyo3(signature = (path, *, preset="default", read_only=false, comparator=None, comparator_name=None, **options))]
pub(super) fn open<'py>(
    py: Python<'py>,
    path: Bound<'py, PyAny>,
    preset: &str,
    read_only: bool,
    comparator: Option<Bound<'py, PyAny>>,
    comparator_name: Option<BytesLike<'py>>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, DbObject>> {
    let mut options = of_database(py, preset, options)?;
    let name = comparator_name.as_ref().map(BytesLike::get);
    set_order(&mut options, &order(comparator, name)?);
    let dir = bytes::path(&path)?;
    let (asked, setup) =
        (options.clone(), Setup { keyspaces_must_exist: true, ..Setup::default() });
    let opened = py.detach(|| {
        guarded(|| {
            let opened = match read_only {
                true => Db::open_read_only_with(&dir, asked, setup),
                false => Db::open_with(&dir, asked, setup),
            };
            explained(&dir, opened)
        })
    })?;
    let db = opened.map_err(|error| Face::Own.error(py, &error))?;
    let base = KeyspaceObject { handle: Handle::first(Face::Own, options, db) };
    Bound::new(py, PyClassInitializer::from(base).add_subclass(DbObject { path: path.unbind() }))
}

/// The handle of the database that a method is called on.
fn handle<'a>(slf: &'a Bound<'_, DbObject>) -> &'a Arc<Handle> {
    &slf.as_super().get().handle
}

/// The engine's database of it.
fn engine(slf: &Bound<'_, DbObject>) -> PyResult<Db> {
    Ok(handle(slf).open(slf.py())?.db.clone())
}

/// What a check found.
fn verified(report: &VerifyReport) -> Value {
    let indexes = report.indexes.iter().map(|index| {
        json!({
            "keyspace": index.keyspace,
            "field": index.field,
            "entries": index.entries,
            "missing": index.missing,
            "stray": index.stray,
        })
    });
    let damage = report
        .damage
        .iter()
        .map(|(path, error)| json!({ "path": path.to_string_lossy(), "error": error.to_string() }));
    json!({
        "files": report.files,
        "bytes": report.bytes,
        "entries": report.entries,
        "values": report.values,
        "indexes": indexes.collect::<Vec<_>>(),
        "damage": damage.collect::<Vec<_>>(),
    })
}

#[pymethods]
impl DbObject {
    /// The directory, as it was given.
    #[getter]
    fn path(&self, py: Python<'_>) -> Py<PyAny> {
        self.path.clone_ref(py)
    }

    /// True once it was closed.
    #[getter]
    fn closed(slf: &Bound<'_, Self>) -> bool {
        handle(slf).is_closed()
    }

    /// Makes every write durable and closes the database, with all keyspaces, scans and snapshots
    /// that were made from it. The second time it does nothing.
    fn close(slf: &Bound<'_, Self>) -> PyResult<()> {
        handle(slf).close(slf.py())
    }

    /// A keyspace that exists.
    fn keyspace(slf: &Bound<'_, Self>, name: &str) -> PyResult<KeyspaceObject> {
        let (py, handle, db) = (slf.py(), handle(slf), engine(slf)?);
        let keyspace = handle.store.run(py, || db.keyspace(name))?;
        Ok(KeyspaceObject { handle: handle.of(py, db, keyspace)? })
    }

    /// Creates a keyspace, with these options over those of the default one.
    #[pyo3(signature = (name, **options))]
    fn create_keyspace(
        slf: &Bound<'_, Self>,
        name: &str,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<KeyspaceObject> {
        let (py, handle, db) = (slf.py(), handle(slf), engine(slf)?);
        let options = of_keyspace(py, &handle.open(py)?.options.default_keyspace, options)?;
        let keyspace = handle.store.run(py, || db.create_keyspace(name, options))?;
        Ok(KeyspaceObject { handle: handle.of(py, db, keyspace)? })
    }

    /// Removes a keyspace with all that is in it, at once. Its handles raise errors from then on.
    fn drop_keyspace(slf: &Bound<'_, Self>, name: &str) -> PyResult<()> {
        let db = engine(slf)?;
        handle(slf).store.run(slf.py(), || db.drop_keyspace(name))
    }

    /// The names of all keyspaces, the default one first.
    fn keyspace_names(slf: &Bound<'_, Self>) -> PyResult<Vec<String>> {
        Ok(engine(slf)?.keyspace_names())
    }

    /// A new batch of writes. `sync`: writing it returns when it is on stable storage.
    #[pyo3(signature = (*, sync=false))]
    fn batch(slf: &Bound<'_, Self>, sync: bool) -> PyResult<BatchObject> {
        BatchObject::new(slf.py(), handle(slf), sync)
    }

    /// The database as it is now, for reading later.
    fn snapshot(slf: &Bound<'_, Self>) -> PyResult<SnapshotObject> {
        Ok(SnapshotObject { moment: Moment::new(slf.py(), handle(slf))? })
    }

    /// The database, in all keyspaces, as a crash would leave it now, for reading later: of a store
    /// with `durability="external"`.
    fn persisted_snapshot(slf: &Bound<'_, Self>) -> PyResult<SnapshotObject> {
        Ok(SnapshotObject { moment: Moment::persisted(slf.py(), handle(slf))? })
    }

    /// Applies a request of somebody else's log, to a store with `durability="external"`: what was
    /// added to `batch`, and how far the log of `group` is then, become visible and persistent
    /// together. The batch is empty then, also after an error.
    ///
    /// `group`: what the keys of the batch begin with. `index`: that of the request in the log of
    /// the group, above that of all that were applied before. `note`: bytes that are kept with the
    /// index. Requests of a group are applied in the order of its log, one after the other. See
    /// docs/external-durability.md.
    #[pyo3(
        signature = (batch, group, index, note=None),
        text_signature = "($self, batch, group, index, note=b'')"
    )]
    fn apply(
        slf: &Bound<'_, Self>,
        batch: &Bound<'_, BatchObject>,
        group: BytesLike<'_>,
        index: u64,
        note: Option<BytesLike<'_>>,
    ) -> PyResult<()> {
        let note = note.as_ref().map_or(&[][..], BytesLike::get);
        let request = Applied { group: group.get(), index, note };
        batch.get().apply(slf.py(), handle(slf), request)
    }

    /// How far the logs of all groups were applied: dicts of `group`, `applied`, `persisted` (0 if
    /// nothing is) and `note`, in the order of the groups. Right after the store was opened that is
    /// what is persistent.
    fn groups<'py>(slf: &Bound<'py, Self>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let (py, db) = (slf.py(), engine(slf)?);
        let found = handle(slf).store.run(py, || Ok(db.groups()))?;
        found.iter().map(|group| groups::index(py, group)).collect()
    }

    /// How far the log of a group was applied, as in `groups`; `None` if it never was, or the group
    /// was deleted.
    fn group<'py>(
        slf: &Bound<'py, Self>,
        group: BytesLike<'_>,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        let (py, db) = (slf.py(), engine(slf)?);
        let group = group.get();
        let found = handle(slf).store.run(py, || Ok(db.group(group)))?;
        found.map(|group| groups::index(py, &group)).transpose()
    }

    /// How far the logs of all groups were applied, and what each has of the tables: dicts of
    /// figures.
    fn group_stats<'py>(slf: &Bound<'py, Self>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let (py, db) = (slf.py(), engine(slf)?);
        let found = handle(slf).store.run(py, || Ok(db.group_stats()))?;
        found.iter().map(|group| groups::stats(py, group)).collect()
    }

    /// Makes persistent what was applied to a group, along with everything that is in the same
    /// memtables. Returns the index up to which the log of the group may be cut off then, or `None`
    /// if there is nothing of it.
    fn flush_group(slf: &Bound<'_, Self>, group: BytesLike<'_>) -> PyResult<Option<u64>> {
        let (db, group) = (engine(slf)?, group.get().to_vec());
        patiently(slf.py(), &handle(slf).store, move || db.flush_group(&group))
    }

    /// Makes persistent what was applied first of all that is not yet: for logs that grow too long
    /// since one group of many is idle.
    fn flush_oldest(slf: &Bound<'_, Self>) -> PyResult<()> {
        let db = engine(slf)?;
        patiently(slf.py(), &handle(slf).store, move || db.flush_oldest())
    }

    /// Deletes a group: every key that begins with its name, in all keyspaces with keys in bytewise
    /// order, and how far its log was applied. Once this has returned it is gone for good; nobody
    /// sees it, not even at an older snapshot. Nothing must be applied to it meanwhile. Returns a
    /// dict of the `tables`, `value_files` and `file_bytes` that are gone, and the `shared_tables`
    /// in which it is hidden.
    fn delete_group<'py>(
        slf: &Bound<'py, Self>,
        group: BytesLike<'_>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (py, db, group) = (slf.py(), engine(slf)?, group.get().to_vec());
        let done = patiently(py, &handle(slf).store, move || db.delete_group(&group))?;
        groups::deleted(py, &done)
    }

    /// Writes what is persistent of a group, at one moment, into the new directory `path`: a store
    /// of its own, with how far its log was applied, for `ingest_group` of another store. Returns a
    /// dict of its `index` and `note`, and of `tables`, `value_files` and `file_bytes`.
    fn export_group<'py>(
        slf: &Bound<'py, Self>,
        group: BytesLike<'_>,
        path: &Bound<'_, PyAny>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (py, db, group) = (slf.py(), engine(slf)?, group.get().to_vec());
        let path = bytes::path(path)?;
        let done = patiently(py, &handle(slf).store, move || db.export_group(&group, path))?;
        groups::files(py, &done)
    }

    /// Takes over a group that `export_group` has written into `path`, which stays as it is, in the
    /// place of what is there of it: persistent, and as far applied as it was there, when this
    /// returns. Until then a crash leaves the old state as a whole. Nothing must be applied to it
    /// meanwhile. `path` may be removed afterwards, but its files must never be written to again:
    /// the store may have them, under other names. Returns a dict as `export_group` does.
    fn ingest_group<'py>(
        slf: &Bound<'py, Self>,
        group: BytesLike<'_>,
        path: &Bound<'_, PyAny>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (py, db, group) = (slf.py(), engine(slf)?, group.get().to_vec());
        let path = bytes::path(path)?;
        let done = patiently(py, &handle(slf).store, move || db.ingest_group(&group, path))?;
        groups::files(py, &done)
    }

    /// Makes every write so far durable.
    fn sync(slf: &Bound<'_, Self>) -> PyResult<()> {
        let db = engine(slf)?;
        handle(slf).store.run(slf.py(), || db.sync())
    }

    /// What the engine did and what it holds.
    fn stats<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let db = engine(slf)?;
        let stats = handle(slf).store.run(slf.py(), || Ok(db.stats()))?;
        reported(slf.py(), &stats)
    }

    /// Makes a copy in `path`, which must not exist, as of now. Tables are shared where the file
    /// system can.
    fn checkpoint(slf: &Bound<'_, Self>, path: &Bound<'_, PyAny>) -> PyResult<()> {
        let (db, path) = (engine(slf)?, bytes::path(path)?);
        patiently(slf.py(), &handle(slf).store, move || db.checkpoint(path))
    }

    /// Writes what is in memory of all keyspaces to tables.
    fn flush(slf: &Bound<'_, Self>) -> PyResult<()> {
        let db = engine(slf)?;
        patiently(slf.py(), &handle(slf).store, move || db.flush())
    }

    /// Waits until all indexes are ready and nothing is left to be flushed or compacted.
    fn wait_idle(slf: &Bound<'_, Self>) -> PyResult<()> {
        let db = engine(slf)?;
        patiently(slf.py(), &handle(slf).store, move || db.wait_idle())
    }

    /// Reads everything and checks it. Damage is listed in the answer and raises nothing.
    ///
    /// `progress` is called with a dict after each file; what it raises ends the check.
    #[pyo3(signature = (*, progress=None))]
    fn verify<'py>(
        slf: &Bound<'py, Self>,
        progress: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, handle, db) = (slf.py(), handle(slf), engine(slf)?);
        let progress = progress.map(Bound::unbind);
        let report = watched(
            py,
            |tell| handle.store.run(py, || db.verify(|progress| tell(progress))),
            |py, so_far: &VerifyProgress| {
                let Some(progress) = &progress else { return Ok(()) };
                let so_far = json!({
                    "files": so_far.files,
                    "files_total": so_far.files_total,
                    "bytes": so_far.bytes,
                    "bytes_total": so_far.bytes_total,
                });
                progress.bind(py).call1((to_python(py, &so_far)?,)).map(|_| ())
            },
        )?;
        to_python(py, &verified(&report))
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(slf: &Bound<'_, Self>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        DbObject::close(slf)
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let closed = if handle(slf).is_closed() { " (closed)" } else { "" };
        Ok(format!("<esker.Db {}{closed}>", slf.get().path.bind(slf.py()).repr()?))
    }
}
