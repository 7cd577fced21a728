//! Upkeep: durability, flushes, compactions, copies, checks, statistics.

use super::error::{Failure, bytes, esker_code, give_json, place, run, text};
use super::store::{esker_db, esker_keyspace};
use crate::handle;
use esker::{Db, VerifyReport};
use libc::{c_char, c_void, size_t};

/// # Safety
/// As everywhere.
unsafe fn with_db(
    db: *const esker_db,
    call: impl FnOnce(&Db) -> Result<(), Failure>,
) -> esker_code {
    // SAFETY: as the caller says.
    run(|| unsafe { call(handle::get(db)?.db()?) })
}

/// Makes every write so far durable. Refused with `durability=external`, where there is no log:
/// flush.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_sync(db: *const esker_db) -> esker_code {
    // SAFETY: pointers are what the interface asks for; the same holds for every function of it.
    unsafe { with_db(db, |db| Ok(db.sync()?)) }
}

/// Writes all memtables to tables, and waits for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_flush(db: *const esker_db) -> esker_code {
    // SAFETY: as everywhere.
    unsafe { with_db(db, |db| Ok(db.flush()?)) }
}

/// Waits until nothing is left to do in the background.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_wait_idle(db: *const esker_db) -> esker_code {
    // SAFETY: as everywhere.
    unsafe { with_db(db, |db| Ok(db.wait_idle()?)) }
}

/// Compacts everything from `start`, inclusive, to `end`, exclusive, into the deepest level in use,
/// and drops what is deleted. NULL is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_compact(
    keyspace: *const esker_keyspace,
    start: *const c_void,
    start_len: size_t,
    end: *const c_void,
    end_len: size_t,
) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe {
        let keyspace = handle::get(keyspace)?.open()?;
        let (from, to) = (bytes(start, start_len)?, bytes(end, end_len)?);
        let from = (!start.is_null()).then_some(from);
        Ok(keyspace.compact_range(from, (!end.is_null()).then_some(to))?)
    })
}

/// About how many bytes of tables the keys from `start` to `end` take. NULL is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_approximate_size(
    keyspace: *const esker_keyspace,
    start: *const c_void,
    start_len: size_t,
    end: *const c_void,
    end_len: size_t,
    size_bytes: *mut u64,
) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe {
        let out = place(size_bytes)?;
        let keyspace = handle::get(keyspace)?.open()?;
        let (from, to) = (bytes(start, start_len)?, bytes(end, end_len)?);
        let from = (!start.is_null()).then_some(from);
        *out = keyspace.approximate_size(from, (!end.is_null()).then_some(to))?;
        Ok(())
    })
}

/// Makes a copy of the database in the directory `path`, which must not exist, as of now. Tables
/// are shared where the file system allows it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_checkpoint(db: *const esker_db, path: *const c_char) -> esker_code {
    // SAFETY: as everywhere.
    unsafe { with_db(db, |db| Ok(db.checkpoint(text(path, "path")?)?)) }
}

/// Reads everything but the log that is being written, and checks it. `sound`: false if something
/// is damaged or an index does not agree with its records, which is no error of the call. `report`:
/// what was read and what is damaged, as JSON, to be freed; may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_verify(
    db: *const esker_db,
    sound: *mut bool,
    report: *mut *mut c_char,
) -> esker_code {
    // SAFETY: as everywhere.
    unsafe {
        let (out, report) = (place(sound), place(report).ok());
        with_db(db, |db| {
            let out = out?;
            let verified = db.verify(|_| true)?;
            if let Some(report) = report {
                *report = give_json(&verify_json(&verified))?;
            }
            *out = verified.damage.is_empty();
            Ok(())
        })
    }
}

fn verify_json(report: &VerifyReport) -> serde_json::Value {
    let damage: Vec<serde_json::Value> = report
        .damage
        .iter()
        .map(|(path, error)| {
            serde_json::json!({ "file": path.to_string_lossy(), "error": error.to_string() })
        })
        .collect();
    let indexes: Vec<serde_json::Value> = report
        .indexes
        .iter()
        .map(|index| {
            serde_json::json!({
                "keyspace": index.keyspace,
                "field": index.field,
                "entries": index.entries,
                "missing": index.missing,
                "stray": index.stray,
            })
        })
        .collect();
    serde_json::json!({
        "files": report.files,
        "bytes": report.bytes,
        "entries": report.entries,
        "values": report.values,
        "indexes": indexes,
        "damage": damage,
    })
}

/// What the engine did and what it holds, as JSON, to be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_stats(db: *const esker_db, json: *mut *mut c_char) -> esker_code {
    // SAFETY: as everywhere.
    unsafe {
        let out = place(json);
        with_db(db, |db| {
            let out = out?;
            *out = give_json(&db.stats())?;
            Ok(())
        })
    }
}

/// The version of Esker, such as `0.1.0`.
#[unsafe(no_mangle)]
pub extern "C" fn esker_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
