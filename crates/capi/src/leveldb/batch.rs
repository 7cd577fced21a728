//! Batches.

use super::status::quiet;
use crate::boundary::{slice, start_of};
use crate::handle::{self, Shell, handle};
use esker::Batch;
use esker::base::Kind;
use libc::{c_char, c_void, size_t};

/// Writes that are done together, all or none.
#[allow(non_camel_case_types, reason = "as C names it")]
pub struct leveldb_writebatch_t(Shell<Batch>);
handle!(leveldb_writebatch_t, Batch, "write batch");

/// Makes an empty batch.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writebatch_create() -> *mut leveldb_writebatch_t {
    quiet(std::ptr::null_mut(), || Ok(handle::open(Batch::new())))
}

/// Frees a batch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writebatch_destroy(batch: *mut leveldb_writebatch_t) {
    // SAFETY: pointers are what the interface asks for; the same holds for every function of it.
    quiet((), || unsafe { Ok(handle::discard(batch)?) });
}

/// Forgets all writes of a batch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writebatch_clear(batch: *mut leveldb_writebatch_t) {
    // SAFETY: as everywhere.
    quiet((), || unsafe {
        handle::get_mut(batch)?.clear();
        Ok(())
    });
}

/// Adds setting a key to a batch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writebatch_put(
    batch: *mut leveldb_writebatch_t,
    key: *const c_char,
    klen: size_t,
    val: *const c_char,
    vlen: size_t,
) {
    // SAFETY: as everywhere.
    quiet((), || unsafe {
        handle::get_mut(batch)?.put(slice(key, klen), slice(val, vlen));
        Ok(())
    });
}

/// Adds removing a key to a batch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writebatch_delete(
    batch: *mut leveldb_writebatch_t,
    key: *const c_char,
    klen: size_t,
) {
    // SAFETY: as everywhere.
    quiet((), || unsafe {
        handle::get_mut(batch)?.delete(slice(key, klen));
        Ok(())
    });
}

/// Calls `put` or `deleted` for each write of a batch, in order. They must not change the batch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writebatch_iterate(
    batch: *const leveldb_writebatch_t,
    state: *mut c_void,
    put: Option<
        unsafe extern "C" fn(
            state: *mut c_void,
            k: *const c_char,
            klen: size_t,
            v: *const c_char,
            vlen: size_t,
        ),
    >,
    deleted: Option<unsafe extern "C" fn(state: *mut c_void, k: *const c_char, klen: size_t)>,
) {
    // SAFETY: as everywhere; the functions are the caller's.
    quiet((), || unsafe {
        for op in handle::get(batch)?.iter() {
            let (key, klen) = (start_of(op.key), op.key.len());
            match (op.kind, put, deleted) {
                (Kind::Put, Some(put), _) => {
                    put(state, key, klen, start_of(op.value), op.value.len());
                }
                (Kind::Delete, _, Some(deleted)) => deleted(state, key, klen),
                _ => {}
            }
        }
        Ok(())
    });
}

/// Adds all writes of `source` to `destination`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writebatch_append(
    destination: *mut leveldb_writebatch_t,
    source: *const leveldb_writebatch_t,
) {
    // SAFETY: as everywhere; the source may be the destination.
    quiet((), || unsafe {
        let source = handle::get(source)?.clone();
        handle::get_mut(destination)?.append(&source);
        Ok(())
    });
}
