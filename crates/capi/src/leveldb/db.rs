//! Databases: opening, writing, reading, upkeep.

use super::batch::leveldb_writebatch_t;
use super::options::{
    OpenOptions, leveldb_options_t, leveldb_readoptions_t, leveldb_writeoptions_t,
};
use super::snapshot::leveldb_snapshot_t;
use super::status::{Outcome, Status, quiet, report};
use super::{foreign, property};
use crate::boundary::{copy_out, free, slice, text_out};
use crate::fork::Own;
use crate::handle::{self, Shell, handle};
use esker::{Batch, Cursor, Db, Error, Keyspace, ScanOptions, Setup, names};
use libc::{c_char, c_int, c_void, size_t};
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// An open database.
#[allow(non_camel_case_types, reason = "as C names it")]
pub struct leveldb_t(Shell<Database>);
handle!(leveldb_t, Database, "database");

/// An open database, and what is known of the order of its keys.
pub struct Database {
    db: Own<Db>,
    bytewise: bool,
}

/// The database behind a handle.
///
/// # Safety
/// As everywhere.
#[inline]
unsafe fn get<'a>(db: *const leveldb_t) -> Outcome<&'a Db> {
    // SAFETY: as the caller says.
    Ok(unsafe { handle::get(db)?.db.get()? })
}

/// Opens the database in the directory `name`. NULL after an error.
///
/// Errors, all of them an invalid argument: it is not there, and was not to be made; it is there,
/// and was not to be; an option is wrong, or the comparator another; the directory holds a database
/// of LevelDB, which is not touched. IO error: it is open already, here or elsewhere; of the disk.
/// Corruption: a file is damaged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_open(
    options: *const leveldb_options_t,
    name: *const c_char,
    errptr: *mut *mut c_char,
) -> *mut leveldb_t {
    // SAFETY: pointers are what the interface asks for; the same holds for every function of it.
    unsafe {
        report(errptr, std::ptr::null_mut(), || {
            let (options, dir) = (handle::get(options)?, path(name)?);
            foreign::refuse(dir)?;
            let engine = options.engine()?;
            let bytewise = engine.default_keyspace.order.is_bytewise();
            let setup = Setup { keyspaces_must_exist: true, ..Setup::default() };
            let opened = Db::open_with(dir, engine, setup);
            let db = opened.map_err(|error| explain(dir, options, error))?;
            Ok(handle::open(Database { db: Own::new(db), bytewise }))
        })
    }
}

/// The database behind a handle: for measuring what the interface costs. `None` if it is no open
/// one.
///
/// # Safety
/// `db` is NULL or came from [`leveldb_open`].
#[doc(hidden)]
pub unsafe fn engine_of(db: *const leveldb_t) -> Option<Db> {
    // SAFETY: as the caller says.
    unsafe { get(db).ok().cloned() }
}

/// What an open failed by, in LevelDB's words where it has some.
fn explain(dir: &Path, options: &OpenOptions, error: Error) -> Status {
    let at = dir.display();
    match &error {
        Error::NotFound { .. }
            if !options.creates()
                && (error.is_about(dir) || error.is_about(&names::current(dir))) =>
        {
            Status::invalid(&format!("{at}: does not exist (create_if_missing is false)"))
        }
        Error::InvalidArgument { what }
            if options.refuses_existing() && what.ends_with("exists already") =>
        {
            Status::invalid(&format!("{at}: exists (error_if_exists is true)"))
        }
        // By the path that was given.
        Error::Busy { .. } => Error::Busy { path: names::lock(dir) }.into(),
        _ => error.into(),
    }
}

/// Closes a database: what was written is durable then. What is left of its iterators and snapshots
/// may still be used, and has to be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_close(db: *mut leveldb_t) {
    // SAFETY: as everywhere.
    quiet((), || unsafe { Ok(handle::close(db)?.db.get()?.clone().close()?) });
}

/// Sets a key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_put(
    db: *mut leveldb_t,
    options: *const leveldb_writeoptions_t,
    key: *const c_char,
    keylen: size_t,
    val: *const c_char,
    vallen: size_t,
    errptr: *mut *mut c_char,
) {
    // SAFETY: as everywhere.
    unsafe {
        report(errptr, (), || {
            let (db, options) = (get(db)?, handle::get(options)?);
            let (key, value) = (slice(key, keylen), slice(val, vallen));
            if options.sync {
                let mut batch = Batch::with_capacity(key.len() + value.len() + 16);
                batch.put(key, value);
                return Ok(db.write(batch, *options)?);
            }
            Ok(db.put(key, value)?)
        });
    }
}

/// Removes a key, which need not be there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_delete(
    db: *mut leveldb_t,
    options: *const leveldb_writeoptions_t,
    key: *const c_char,
    keylen: size_t,
    errptr: *mut *mut c_char,
) {
    // SAFETY: as everywhere.
    unsafe {
        report(errptr, (), || {
            let (db, options) = (get(db)?, handle::get(options)?);
            let key = slice(key, keylen);
            if options.sync {
                let mut batch = Batch::with_capacity(key.len() + 16);
                batch.delete(key);
                return Ok(db.write(batch, *options)?);
            }
            Ok(db.delete(key)?)
        });
    }
}

/// Writes a batch, all of it or nothing. The batch stays as it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_write(
    db: *mut leveldb_t,
    options: *const leveldb_writeoptions_t,
    batch: *mut leveldb_writebatch_t,
    errptr: *mut *mut c_char,
) {
    // SAFETY: as everywhere.
    unsafe {
        report(errptr, (), || {
            let (db, options) = (get(db)?, handle::get(options)?);
            let batch = handle::get(batch.cast_const())?.clone();
            Ok(db.write(batch, *options)?)
        });
    }
}

/// The value of a key, to be freed, and its length; NULL if the key is not there, and after an
/// error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_get(
    db: *mut leveldb_t,
    options: *const leveldb_readoptions_t,
    key: *const c_char,
    keylen: size_t,
    vallen: *mut size_t,
    errptr: *mut *mut c_char,
) -> *mut c_char {
    // SAFETY: as everywhere.
    unsafe {
        if !vallen.is_null() {
            *vallen = 0;
        }
        report(errptr, std::ptr::null_mut(), || {
            let (db, options) = (get(db)?, handle::get(options)?);
            let (keyspace, key) = (db.default_keyspace(), slice(key, keylen));
            let value = match options.snapshot()? {
                None => keyspace.get(key)?,
                Some(snapshot) => keyspace.get_at(key, snapshot.get()?)?,
            };
            let Some(value) = value else { return Ok(std::ptr::null_mut()) };
            let copy = copy_out(&value);
            if copy.is_null() {
                return Err(Status::io("no memory for the value"));
            }
            if !vallen.is_null() {
                *vallen = value.len();
            }
            Ok(copy)
        })
    }
}

/// The keyspace that an iterator walks, and its cursor.
///
/// # Safety
/// As everywhere.
pub(super) unsafe fn scan(
    db: *mut leveldb_t,
    options: *const leveldb_readoptions_t,
) -> Outcome<(Keyspace, Cursor)> {
    // SAFETY: as the caller says.
    let (db, options) = unsafe { (get(db)?, handle::get(options)?) };
    let keyspace = db.default_keyspace().clone();
    let held = options.snapshot()?;
    let snapshot = held.as_ref().map(|snapshot| snapshot.get()).transpose()?;
    let scan = ScanOptions { snapshot, fill_cache: options.fill_cache, ..ScanOptions::default() };
    let cursor = keyspace.scan(&scan)?;
    Ok((keyspace, cursor))
}

/// A snapshot of a database, to be released.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_create_snapshot(db: *mut leveldb_t) -> *const leveldb_snapshot_t {
    // SAFETY: as everywhere.
    quiet(std::ptr::null(), || unsafe {
        let snapshot = get(db)?.snapshot();
        Ok(handle::open::<leveldb_snapshot_t>(Arc::new(Own::new(snapshot))).cast_const())
    })
}

/// Releases a snapshot.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_release_snapshot(
    db: *mut leveldb_t,
    snapshot: *const leveldb_snapshot_t,
) {
    let _ = db;
    // SAFETY: as everywhere.
    quiet((), || unsafe { Ok(handle::discard(snapshot.cast_mut())?) });
}

/// The value of a property, to be freed; NULL if there is none of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_property_value(
    db: *mut leveldb_t,
    propname: *const c_char,
) -> *mut c_char {
    // SAFETY: as everywhere.
    quiet(std::ptr::null_mut(), || unsafe {
        let db = get(db)?;
        if propname.is_null() {
            return Ok(std::ptr::null_mut());
        }
        let name = CStr::from_ptr(propname).to_string_lossy();
        let value = property::value(db.default_keyspace(), &db.stats(), &name)?;
        Ok(value.map_or(std::ptr::null_mut(), |value| text_out(&value)))
    })
}

/// About how many bytes of tables the keys of each range take. Start inclusive, limit exclusive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_approximate_sizes(
    db: *mut leveldb_t,
    num_ranges: c_int,
    range_start_key: *const *const c_char,
    range_start_key_len: *const size_t,
    range_limit_key: *const *const c_char,
    range_limit_key_len: *const size_t,
    sizes: *mut u64,
) {
    let ranges = usize::try_from(num_ranges).unwrap_or(0);
    for nth in 0..ranges {
        // Nothing else tells of a call that is refused.
        // SAFETY: as everywhere: so many sizes.
        unsafe { sizes.add(nth).write(0) };
    }
    // SAFETY: as everywhere: so many keys, lengths and sizes.
    quiet((), || unsafe {
        let db = get(db)?;
        for nth in 0..ranges {
            let start = slice(*range_start_key.add(nth), *range_start_key_len.add(nth));
            let limit = slice(*range_limit_key.add(nth), *range_limit_key_len.add(nth));
            let size = db.default_keyspace().approximate_size(Some(start), Some(limit));
            *sizes.add(nth) = size.unwrap_or(0);
        }
        Ok(())
    });
}

/// Rewrites the keys from start to limit, both inclusive, into the deepest level in use, and waits
/// for it. NULL is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_compact_range(
    db: *mut leveldb_t,
    start_key: *const c_char,
    start_key_len: size_t,
    limit_key: *const c_char,
    limit_key_len: size_t,
) {
    // SAFETY: as everywhere.
    quiet((), || unsafe {
        let Database { db, bytewise } = handle::get(db.cast_const())?;
        let db = db.get()?;
        let start = (!start_key.is_null()).then(|| slice(start_key, start_key_len));
        let mut limit = (!limit_key.is_null()).then(|| slice(limit_key, limit_key_len).to_vec());
        // A comparator may be given no keys but the user's: then the limit itself is left out,
        // which nobody can see.
        if *bytewise && let Some(limit) = &mut limit {
            limit.push(0);
        }
        Ok(db.default_keyspace().compact_range(start, limit.as_deref())?)
    });
}

/// Removes a database. It is no error if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_destroy_db(
    options: *const leveldb_options_t,
    name: *const c_char,
    errptr: *mut *mut c_char,
) {
    // SAFETY: as everywhere.
    unsafe {
        report(errptr, (), || {
            handle::get(options)?;
            let dir = path(name)?;
            foreign::refuse(dir)?;
            match esker::destroy(dir, &Setup::default()) {
                // There is no file of a database: what stands there, if anything, is somebody
                // else's and stays.
                Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(error.into()),
            }
        });
    }
}

/// Makes a damaged database one that opens. What cannot be used is put into the directory `lost`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_repair_db(
    options: *const leveldb_options_t,
    name: *const c_char,
    errptr: *mut *mut c_char,
) {
    // SAFETY: as everywhere.
    unsafe {
        report(errptr, (), || {
            let (options, dir) = (handle::get(options)?, path(name)?);
            foreign::refuse(dir)?;
            match esker::repair::repair(dir, &options.engine()?, Setup::default(), |_| true) {
                Ok(_) => Ok(()),
                Err(Error::NotFound { .. }) => {
                    let at = dir.display();
                    Err(Status::io(&format!("{at}: no file of a database is there to be repaired")))
                }
                Err(error) => Err(error.into()),
            }
        });
    }
}

/// The path that a name is.
///
/// # Safety
/// As everywhere.
unsafe fn path<'a>(name: *const c_char) -> Outcome<&'a Path> {
    if name.is_null() {
        return Err(Status::invalid("the name of the database is NULL"));
    }
    // SAFETY: as the caller says.
    let name = unsafe { CStr::from_ptr(name) };
    Ok(Path::new(OsStr::from_bytes(name.to_bytes())))
}

/// Frees what a function of this interface has returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_free(ptr: *mut c_void) {
    // SAFETY: as everywhere.
    unsafe { free(ptr) };
}

/// The first number of the version of LevelDB whose interface this is.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_major_version() -> c_int {
    1
}

/// The second number of it.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_minor_version() -> c_int {
    23
}
