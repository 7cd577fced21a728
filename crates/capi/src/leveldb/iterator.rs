//! Iterators.

use super::db::{leveldb_t, scan};
use super::options::leveldb_readoptions_t;
use super::status::{Outcome, Status, quiet, report};
use crate::boundary::{slice, start_of};
use crate::fork::Own;
use crate::handle::{self, Shell, handle};
use esker::{Cursor, Keyspace};
use libc::{c_char, size_t};

/// Walks the keys of a database as it was when the iterator was made, in order, in both directions.
#[allow(non_camel_case_types, reason = "as C names it")]
pub struct leveldb_iterator_t(Shell<Own<Walk>>);
handle!(leveldb_iterator_t, Own<Walk>, "iterator");

/// A cursor and what went wrong with it.
pub struct Walk {
    /// `None` if it could not be made.
    cursor: Option<Cursor>,
    /// What went wrong first. It stays: programs ask at the end of a walk.
    error: Option<Status>,
    // Keeps what the cursor reads alive.
    _keyspace: Option<Keyspace>,
}

impl From<Outcome<(Keyspace, Cursor)>> for Walk {
    fn from(made: Outcome<(Keyspace, Cursor)>) -> Walk {
        match made {
            Ok((keyspace, cursor)) => {
                Walk { cursor: Some(cursor), error: None, _keyspace: Some(keyspace) }
            }
            Err(error) => Walk { cursor: None, error: Some(error), _keyspace: None },
        }
    }
}

impl Walk {
    fn step(&mut self, step: impl FnOnce(&mut Cursor) -> esker::Result<()>) {
        if let Some(cursor) = &mut self.cursor
            && let Err(error) = step(cursor)
        {
            self.error.get_or_insert(error.into());
        }
    }

    /// The cursor, if it stands on a key.
    fn standing(&self) -> Option<&Cursor> {
        self.cursor.as_ref().filter(|cursor| cursor.valid())
    }
}

/// Makes an iterator, which stands on no key. What goes wrong `leveldb_iter_get_error` tells.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_create_iterator(
    db: *mut leveldb_t,
    options: *const leveldb_readoptions_t,
) -> *mut leveldb_iterator_t {
    // SAFETY: as everywhere.
    quiet(std::ptr::null_mut(), || unsafe {
        let walk = Walk::from(scan(db, options));
        Ok(handle::open(Own::new(walk)))
    })
}

/// Frees an iterator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_destroy(iterator: *mut leveldb_iterator_t) {
    // SAFETY: as everywhere.
    quiet((), || unsafe { Ok(handle::discard(iterator)?) });
}

/// 1 if the iterator stands on a key, else 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_valid(iterator: *const leveldb_iterator_t) -> u8 {
    // SAFETY: as everywhere.
    quiet(0, || unsafe { Ok(u8::from(handle::get(iterator)?.get()?.standing().is_some())) })
}

/// # Safety
/// As everywhere.
unsafe fn step(
    iterator: *mut leveldb_iterator_t,
    step: impl FnOnce(&mut Cursor) -> esker::Result<()>,
) {
    // SAFETY: as the caller says.
    quiet((), || unsafe {
        handle::get_mut(iterator)?.get_mut()?.step(step);
        Ok(())
    });
}

/// Moves to the first key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_seek_to_first(iterator: *mut leveldb_iterator_t) {
    // SAFETY: as everywhere.
    unsafe { step(iterator, Cursor::seek_to_first) };
}

/// Moves to the last key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_seek_to_last(iterator: *mut leveldb_iterator_t) {
    // SAFETY: as everywhere.
    unsafe { step(iterator, Cursor::seek_to_last) };
}

/// Moves to the first key at or after the given one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_seek(
    iterator: *mut leveldb_iterator_t,
    k: *const c_char,
    klen: size_t,
) {
    // SAFETY: as everywhere.
    unsafe {
        // The key may be one that the iterator has lent, or a part of it.
        let target = slice(k, klen).to_vec();
        step(iterator, |cursor| cursor.seek(&target));
    }
}

/// Moves to the following key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_next(iterator: *mut leveldb_iterator_t) {
    // SAFETY: as everywhere.
    unsafe { step(iterator, Cursor::next) };
}

/// Moves to the preceding key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_prev(iterator: *mut leveldb_iterator_t) {
    // SAFETY: as everywhere.
    unsafe { step(iterator, Cursor::prev) };
}

/// # Safety
/// As everywhere.
#[inline]
unsafe fn part(
    iterator: *const leveldb_iterator_t,
    len: *mut size_t,
    part: impl for<'c> FnOnce(&'c Cursor) -> &'c [u8],
) -> *const c_char {
    let mut bytes_len = 0;
    // SAFETY: as the caller says.
    let start = quiet(std::ptr::null(), || unsafe {
        let bytes = handle::get(iterator)?.get()?.standing().map(part);
        bytes_len = bytes.map_or(0, <[u8]>::len);
        Ok(bytes.map_or(std::ptr::null(), start_of))
    });
    if !len.is_null() {
        // Also by a call that is refused, which nothing else tells of.
        // SAFETY: as the caller says.
        unsafe { len.write(bytes_len) };
    }
    start
}

/// The key, good until the iterator moves; NULL if it stands on none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_key(
    iterator: *const leveldb_iterator_t,
    klen: *mut size_t,
) -> *const c_char {
    // SAFETY: as everywhere.
    unsafe { part(iterator, klen, Cursor::key) }
}

/// The value, good until the iterator moves; NULL if it stands on no key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_value(
    iterator: *const leveldb_iterator_t,
    vlen: *mut size_t,
) -> *const c_char {
    // SAFETY: as everywhere.
    unsafe { part(iterator, vlen, Cursor::value) }
}

/// Tells what went wrong first since the iterator was made, if something did.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_get_error(
    iterator: *const leveldb_iterator_t,
    errptr: *mut *mut c_char,
) {
    // SAFETY: as everywhere.
    unsafe {
        report(errptr, (), || -> Outcome<()> {
            match &handle::get(iterator)?.get()?.error {
                None => Ok(()),
                Some(error) => Err(error.clone()),
            }
        });
    }
}
