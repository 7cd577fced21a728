//! Scans: cursors in the order of keys, and in that of the disk.

use super::error::{Outcome, bytes, esker_code, place, run};
use super::store::{Store, esker_keyspace, esker_snapshot, moment};
use crate::boundary::start_of;
use crate::fork::Own;
use crate::handle::{self, Shell, handle};
use esker::{Cursor, Keyspace, ScanOptions, UnorderedCursor};
use libc::{c_char, c_void, size_t};
use std::sync::Arc;

/// Walks keys in their order, in both directions.
#[allow(non_camel_case_types, reason = "as C names it")]
pub struct esker_cursor(Shell<Walk<Cursor>>);
handle!(esker_cursor, Walk<Cursor>, "esker_cursor");

/// Walks keys in no order that means anything, fast where values are kept apart.
#[allow(non_camel_case_types, reason = "as C names it")]
pub struct esker_unordered(Shell<Walk<UnorderedCursor>>);
handle!(esker_unordered, Walk<UnorderedCursor>, "esker_unordered");

/// A cursor, and what keeps what it reads alive.
pub struct Walk<C> {
    cursor: Own<C>,
    store: Arc<Store>,
}

/// What a scan covers and how it reads. All zeros is every key, as of now.
#[allow(non_camel_case_types, reason = "as C names it")]
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct esker_scan_options {
    /// First key; NULL is the first of all.
    pub start: *const c_void,
    /// Length of it.
    pub start_len: size_t,
    /// End, exclusive; NULL is after the last of all.
    pub end: *const c_void,
    /// Length of it.
    pub end_len: size_t,
    /// The moment to read at; NULL is now.
    pub snapshot: *const esker_snapshot,
    /// Not 0: read no values, they are empty then.
    pub keys_only: u8,
    /// Not 0: do not keep blocks that are read in the cache, for scans of everything.
    pub past_cache: u8,
    /// Not 0: read only what is in tables, which is what a crash cannot take from a database with
    /// `durability=external`.
    pub persisted: u8,
}

/// # Safety
/// As everywhere.
unsafe fn scan<C>(
    keyspace: *const esker_keyspace,
    options: *const esker_scan_options,
    make: impl FnOnce(&Keyspace, &ScanOptions<'_>) -> esker::Result<C>,
) -> Outcome<Walk<C>> {
    // SAFETY: as the caller says.
    unsafe {
        let space = handle::get(keyspace)?;
        let mut scan = ScanOptions::default();
        if let Some(options) = options.as_ref() {
            let bound = |at: *const c_void, len| -> Outcome<Option<Vec<u8>>> {
                if at.is_null() && len == 0 { Ok(None) } else { Ok(Some(bytes(at, len)?.to_vec())) }
            };
            scan.start = bound(options.start, options.start_len)?;
            scan.end = bound(options.end, options.end_len)?;
            scan.snapshot = moment(options.snapshot)?;
            scan.keys_only = options.keys_only != 0;
            scan.fill_cache = options.past_cache == 0;
            scan.persisted = options.persisted != 0;
        }
        let cursor = Own::new(make(space.open()?, &scan)?);
        Ok(Walk { cursor, store: space.store.clone() })
    }
}

/// A cursor over a range, which stands on no key. `options`: NULL is every key, as of now. A range
/// that ends before it starts is an invalid argument.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_scan(
    keyspace: *const esker_keyspace,
    options: *const esker_scan_options,
    cursor: *mut *mut esker_cursor,
) -> esker_code {
    // SAFETY: pointers are what the interface asks for; the same holds for every function of it.
    run(|| unsafe {
        let out = place(cursor)?;
        *out = std::ptr::null_mut();
        *out = handle::open(scan(keyspace, options, Keyspace::scan)?);
        Ok(())
    })
}

/// Closes a cursor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_cursor_close(cursor: *mut esker_cursor) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe { Ok(handle::discard(cursor)?) })
}

/// # Safety
/// As everywhere.
#[inline]
unsafe fn step(
    cursor: *mut esker_cursor,
    step: impl FnOnce(&mut Cursor) -> Outcome<()>,
) -> esker_code {
    // SAFETY: as the caller says.
    run(|| unsafe {
        let walk = handle::get_mut(cursor)?;
        walk.store.db()?;
        step(walk.cursor.get_mut()?)
    })
}

/// Moves to the first key of the range.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_cursor_seek_to_first(cursor: *mut esker_cursor) -> esker_code {
    // SAFETY: as everywhere.
    unsafe { step(cursor, |cursor| Ok(cursor.seek_to_first()?)) }
}

/// Moves to the last key of the range.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_cursor_seek_to_last(cursor: *mut esker_cursor) -> esker_code {
    // SAFETY: as everywhere.
    unsafe { step(cursor, |cursor| Ok(cursor.seek_to_last()?)) }
}

/// Moves to the first key of the range at or after `key`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_cursor_seek(
    cursor: *mut esker_cursor,
    key: *const c_void,
    key_len: size_t,
) -> esker_code {
    // SAFETY: as everywhere.
    unsafe {
        step(cursor, |cursor| {
            // The key may be one that the cursor has lent, or a part of it.
            let target = bytes(key, key_len)?.to_vec();
            Ok(cursor.seek(&target)?)
        })
    }
}

/// Moves to the last key of the range before `key`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_cursor_seek_before(
    cursor: *mut esker_cursor,
    key: *const c_void,
    key_len: size_t,
) -> esker_code {
    // SAFETY: as everywhere.
    unsafe {
        step(cursor, |cursor| {
            let target = bytes(key, key_len)?.to_vec();
            Ok(cursor.seek_before(&target)?)
        })
    }
}

/// Moves to the following key; from the last, and from none, to none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_cursor_next(cursor: *mut esker_cursor) -> esker_code {
    // SAFETY: as everywhere.
    unsafe { step(cursor, |cursor| Ok(cursor.next()?)) }
}

/// Moves to the preceding key; from the first, and from none, to none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_cursor_prev(cursor: *mut esker_cursor) -> esker_code {
    // SAFETY: as everywhere.
    unsafe { step(cursor, |cursor| Ok(cursor.prev()?)) }
}

/// True if the cursor stands on a key: not at the ends, after an error, nor once its database is
/// closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_cursor_valid(cursor: *const esker_cursor) -> bool {
    // SAFETY: as everywhere.
    unsafe { standing(cursor).is_some() }
}

/// # Safety
/// As everywhere.
#[inline]
unsafe fn standing<'a>(cursor: *const esker_cursor) -> Option<&'a Cursor> {
    // SAFETY: as the caller says.
    let walk = unsafe { handle::get(cursor).ok()? };
    walk.store.db().ok()?;
    walk.cursor.get().ok().filter(|cursor| cursor.valid())
}

/// Bytes and their length.
///
/// # Safety
/// As everywhere.
#[inline]
pub(super) unsafe fn lend(bytes: Option<&[u8]>, len: *mut size_t) -> *const c_char {
    // SAFETY: as the caller says.
    if let Some(len) = unsafe { len.as_mut() } {
        *len = bytes.map_or(0, <[u8]>::len);
    }
    bytes.map_or(std::ptr::null(), start_of)
}

/// The key, good until the cursor moves; NULL if it stands on none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_cursor_key(
    cursor: *const esker_cursor,
    len: *mut size_t,
) -> *const c_char {
    // SAFETY: as everywhere.
    unsafe { lend(standing(cursor).map(Cursor::key), len) }
}

/// The value, good until the cursor moves; NULL if it stands on no key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_cursor_value(
    cursor: *const esker_cursor,
    len: *mut size_t,
) -> *const c_char {
    // SAFETY: as everywhere.
    unsafe { lend(standing(cursor).map(Cursor::value), len) }
}

/// A cursor over a range that gives pairs in the order in which values stand on the disk.
/// `memory_bytes`: what it may take for keys and places before it reads their values; some tens of
/// MiB are plenty.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_scan_unordered(
    keyspace: *const esker_keyspace,
    options: *const esker_scan_options,
    memory_bytes: size_t,
    cursor: *mut *mut esker_unordered,
) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe {
        let out = place(cursor)?;
        *out = std::ptr::null_mut();
        let make = |keyspace: &Keyspace, scan: &ScanOptions<'_>| {
            keyspace.scan_unordered(scan, memory_bytes)
        };
        *out = handle::open(scan(keyspace, options, make)?);
        Ok(())
    })
}

/// Moves to a key that was not given yet. `found`: false if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_unordered_next(
    cursor: *mut esker_unordered,
    found: *mut bool,
) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe {
        let out = place(found)?;
        *out = false;
        let walk = handle::get_mut(cursor)?;
        walk.store.db()?;
        *out = walk.cursor.get_mut()?.advance()?;
        Ok(())
    })
}

/// # Safety
/// As everywhere.
unsafe fn standing_unordered<'a>(cursor: *const esker_unordered) -> Option<&'a UnorderedCursor> {
    // SAFETY: as the caller says.
    let walk = unsafe { handle::get(cursor).ok()? };
    walk.store.db().ok()?;
    walk.cursor.get().ok().filter(|cursor| cursor.valid())
}

/// The key, good until the cursor moves; NULL if it stands on none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_unordered_key(
    cursor: *const esker_unordered,
    len: *mut size_t,
) -> *const c_char {
    // SAFETY: as everywhere.
    unsafe { lend(standing_unordered(cursor).map(UnorderedCursor::key), len) }
}

/// The value, good until the cursor moves; NULL if it stands on no key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_unordered_value(
    cursor: *const esker_unordered,
    len: *mut size_t,
) -> *const c_char {
    // SAFETY: as everywhere.
    unsafe { lend(standing_unordered(cursor).map(UnorderedCursor::value), len) }
}

/// Closes a cursor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_unordered_close(cursor: *mut esker_unordered) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe { Ok(handle::discard(cursor)?) })
}
