//! Databases, keyspaces and snapshots.

use super::error::{Failure, Outcome, esker_code, give_json, place, run, text, text_or_empty};
use crate::boundary::free;
use crate::fork::Own;
use crate::handle::{self, Shell, handle};
use esker::{Db, Keyspace, KeyspaceOptions, Options, Setup, Snapshot};
use libc::{c_char, c_void, size_t};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// An open database.
#[allow(non_camel_case_types, reason = "as C names it")]
pub struct esker_db(Shell<Arc<Store>>);
handle!(esker_db, Arc<Store>, "esker_db");

/// A keyspace of an open database.
#[allow(non_camel_case_types, reason = "as C names it")]
pub struct esker_keyspace(Shell<Space>);
handle!(esker_keyspace, Space, "esker_keyspace");

/// A database as it was at one moment.
#[allow(non_camel_case_types, reason = "as C names it")]
pub struct esker_snapshot(Shell<Moment>);
handle!(esker_snapshot, Moment, "esker_snapshot");

/// The database behind all handles that belong to it.
pub struct Store {
    db: Own<Db>,
    /// Of keyspaces without options of their own.
    keyspace_options: KeyspaceOptions,
    closed: AtomicBool,
}

impl Store {
    /// The database.
    ///
    /// # Errors
    /// It was closed, or opened by another process.
    #[inline]
    pub(super) fn db(&self) -> Outcome<&Db> {
        let db = self.db.get()?;
        if self.closed.load(Ordering::Acquire) {
            return Err(Failure::misuse("the database is closed"));
        }
        Ok(db)
    }
}

/// A keyspace and its database.
pub struct Space {
    pub(super) store: Arc<Store>,
    keyspace: Own<Keyspace>,
}

impl Space {
    /// The keyspace.
    ///
    /// # Errors
    /// Its database was closed, or opened by another process.
    #[inline]
    pub(super) fn open(&self) -> Outcome<&Keyspace> {
        self.store.db()?;
        Ok(self.keyspace.get()?)
    }
}

/// A snapshot and its database.
pub struct Moment {
    pub(super) store: Arc<Store>,
    pub(super) snapshot: Own<Snapshot>,
}

/// The snapshot of a handle; `None` if that is NULL.
///
/// # Safety
/// As everywhere.
#[inline]
pub(super) unsafe fn moment<'a>(snapshot: *const esker_snapshot) -> Outcome<Option<&'a Snapshot>> {
    if snapshot.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller says.
    let moment = unsafe { handle::get(snapshot)? };
    moment.store.db()?;
    Ok(Some(moment.snapshot.get()?))
}

/// Options of a keyspace that exists when the database is opened.
#[allow(non_camel_case_types, reason = "as C names it")]
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct esker_keyspace_options {
    /// Its name.
    pub name: *const c_char,
    /// Its options, as in `esker_create_keyspace`.
    pub options: *const c_char,
}

/// The options that texts say.
///
/// # Safety
/// As everywhere.
unsafe fn all_options(
    options: *const c_char,
    keyspaces: *const esker_keyspace_options,
    count: size_t,
) -> Outcome<Options> {
    let mut all = Options::default();
    // SAFETY: as the caller says; there are so many keyspaces.
    unsafe {
        esker_settings::apply(&mut all, text_or_empty(options, "text of the options")?)?;
        if keyspaces.is_null() && count > 0 {
            return Err(Failure::invalid("keyspaces are NULL although there are some"));
        }
        for nth in 0..count {
            let given = &*keyspaces.add(nth);
            let mut own = all.default_keyspace.clone();
            let own_text = text_or_empty(given.options, "text of a keyspace's options")?;
            esker_settings::apply_to_keyspace(&mut own, own_text)?;
            all.keyspaces.insert(text(given.name, "name of a keyspace")?.to_owned(), own);
        }
    }
    all.validate()?;
    Ok(all)
}

/// Opens the database in the directory `path`, and makes it if it is not there, unless the options
/// say otherwise.
///
/// `options`: `name=value` with commas between, see docs/c-api.md; NULL is the defaults. Those of
/// keyspaces count for all keyspaces.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_open(
    path: *const c_char,
    options: *const c_char,
    db: *mut *mut esker_db,
) -> esker_code {
    // SAFETY: pointers are what the interface asks for; the same holds for every function of it.
    unsafe { esker_open_with(path, options, std::ptr::null(), 0, false, db) }
}

/// Opens a database with options of their own for some of its keyspaces, or for reading only, when
/// nothing on the disk changes and it must be there. Options of a keyspace that is not there are an
/// error: see `esker_create_keyspace`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_open_with(
    path: *const c_char,
    options: *const c_char,
    keyspaces: *const esker_keyspace_options,
    keyspaces_count: size_t,
    read_only: bool,
    db: *mut *mut esker_db,
) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe {
        let out = place(db)?;
        *out = std::ptr::null_mut();
        let path = text(path, "path")?;
        let options = all_options(options, keyspaces, keyspaces_count)?;
        let keyspace_options = options.default_keyspace.clone();
        let setup = Setup { keyspaces_must_exist: true, ..Setup::default() };
        let opened = match read_only {
            true => Db::open_read_only_with(path, options, setup)?,
            false => Db::open_with(path, options, setup)?,
        };
        let (db, closed) = (Own::new(opened), AtomicBool::new(false));
        *out = handle::open(Arc::new(Store { db, keyspace_options, closed }));
        Ok(())
    })
}

/// The database behind a handle: for measuring what the interface costs. `None` if it is no open
/// one.
///
/// # Safety
/// `db` is NULL or came from [`esker_open`].
#[doc(hidden)]
pub unsafe fn engine_of(db: *const esker_db) -> Option<Db> {
    // SAFETY: as the caller says.
    unsafe { handle::get(db).ok()?.db().ok().cloned() }
}

/// Closes a database and its handle: what was written is durable when it returns `ESKER_OK`. It is
/// closed in any case.
///
/// What belongs to it, such as keyspaces and cursors, must not be in use by other threads; it is of
/// no use afterwards, and still has to be closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_close(db: *mut esker_db) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe {
        let store = handle::close(db)?;
        store.closed.store(true, Ordering::Release);
        Ok(store.db.get()?.clone().close()?)
    })
}

/// # Safety
/// As everywhere.
unsafe fn give_keyspace(
    db: *const esker_db,
    keyspace: *mut *mut esker_keyspace,
    get: impl FnOnce(&Store) -> Outcome<Keyspace>,
) -> esker_code {
    // SAFETY: as the caller says.
    run(|| unsafe {
        let out = place(keyspace)?;
        *out = std::ptr::null_mut();
        let store = handle::get(db)?;
        let keyspace = Own::new(get(store)?);
        *out = handle::open(Space { store: store.clone(), keyspace });
        Ok(())
    })
}

/// The keyspace that every database has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_default_keyspace(
    db: *const esker_db,
    keyspace: *mut *mut esker_keyspace,
) -> esker_code {
    // SAFETY: as everywhere.
    unsafe { give_keyspace(db, keyspace, |store| Ok(store.db()?.default_keyspace().clone())) }
}

/// A keyspace that exists.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_open_keyspace(
    db: *const esker_db,
    name: *const c_char,
    keyspace: *mut *mut esker_keyspace,
) -> esker_code {
    // SAFETY: as everywhere.
    unsafe { give_keyspace(db, keyspace, |store| Ok(store.db()?.keyspace(text(name, "name")?)?)) }
}

/// Makes a keyspace. `options`: those of a keyspace, `name=value` with commas between. What they do
/// not say is as the options say that the database was opened with; NULL is all of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_create_keyspace(
    db: *const esker_db,
    name: *const c_char,
    options: *const c_char,
    keyspace: *mut *mut esker_keyspace,
) -> esker_code {
    // SAFETY: as everywhere.
    unsafe {
        give_keyspace(db, keyspace, |store| {
            let mut own = store.keyspace_options.clone();
            let settings = text_or_empty(options, "text of the options")?;
            esker_settings::apply_to_keyspace(&mut own, settings)?;
            Ok(store.db()?.create_keyspace(text(name, "name")?, own)?)
        })
    }
}

/// Removes a keyspace with everything in it. Calls with handles to it fail from then on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_drop_keyspace(
    db: *const esker_db,
    name: *const c_char,
) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe { Ok(handle::get(db)?.db()?.drop_keyspace(text(name, "name")?)?) })
}

/// The names of all keyspaces, as a JSON array, the default one first; to be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspace_names(
    db: *const esker_db,
    json: *mut *mut c_char,
) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe {
        let out = place(json)?;
        *out = give_json(&handle::get(db)?.db()?.keyspace_names())?;
        Ok(())
    })
}

/// Closes the handle of a keyspace, which stays as it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspace_close(keyspace: *mut esker_keyspace) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe { Ok(handle::discard(keyspace)?) })
}

/// A snapshot of a database. While it lives, what it sees is kept.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_snapshot_create(
    db: *const esker_db,
    snapshot: *mut *mut esker_snapshot,
) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe {
        let out = place(snapshot)?;
        *out = std::ptr::null_mut();
        let store = handle::get(db)?;
        let snapshot = store.db()?.snapshot();
        *out = handle::open(Moment { store: store.clone(), snapshot: Own::new(snapshot) });
        Ok(())
    })
}

/// Releases a snapshot.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_snapshot_close(snapshot: *mut esker_snapshot) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe { Ok(handle::discard(snapshot)?) })
}

/// Removes the closed database in the directory `path` from the disk.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_destroy(path: *const c_char) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe { Ok(esker::destroy(text(path, "path")?.as_ref(), &Setup::default())?) })
}

/// Makes the damaged database in the directory `path` one that opens: what could not be used is put
/// into its directory `lost`. `options`: as in `esker_open`. `report`: every loss, as JSON, to be
/// freed; may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_repair(
    path: *const c_char,
    options: *const c_char,
    report: *mut *mut c_char,
) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe {
        let report = place(report).ok();
        let options = all_options(options, std::ptr::null(), 0)?;
        let path = text(path, "path")?;
        let repaired = esker::repair::repair(path.as_ref(), &options, Setup::default(), |_| true)?;
        if let Some(out) = report {
            *out = give_json(&repaired)?;
        }
        Ok(())
    })
}

/// Frees text, values and arrays that a function of this interface has returned to be freed. NULL
/// is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_free(memory: *mut c_void) {
    // SAFETY: as everywhere.
    unsafe { free(memory) };
}
