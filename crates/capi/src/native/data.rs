//! Single keys: writing and reading.

use super::error::{Failure, Outcome, bytes, esker_code, no_memory, place, run};
use super::store::{esker_keyspace, esker_snapshot, moment};
use crate::boundary::{copy_out, free};
use crate::handle;
use esker::{Keyspace, Snapshot, Value};
use libc::{c_char, c_void, size_t};

/// Bytes.
#[allow(non_camel_case_types, reason = "as C names it")]
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct esker_slice {
    /// Where they begin. NULL is no bytes, or, of a value, that there is none.
    pub data: *mut c_char,
    /// How many there are.
    pub len: size_t,
}

impl esker_slice {
    /// No bytes.
    pub(super) const NONE: esker_slice = esker_slice { data: std::ptr::null_mut(), len: 0 };

    /// A copy that C frees.
    pub(super) fn copied(bytes: &[u8]) -> Outcome<esker_slice> {
        let data = copy_out(bytes);
        if data.is_null() {
            return Err(no_memory());
        }
        Ok(esker_slice { data, len: bytes.len() })
    }
}

/// Sets a key. That survives the death of the process, unless the database was opened with
/// `durability=external`; for power cuts see `esker_sync` and `esker_write`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_put(
    keyspace: *const esker_keyspace,
    key: *const c_void,
    key_len: size_t,
    value: *const c_void,
    value_len: size_t,
) -> esker_code {
    // SAFETY: pointers are what the interface asks for; the same holds for every function of it.
    run(|| unsafe {
        let keyspace = handle::get(keyspace)?.open()?;
        Ok(keyspace.put(bytes(key, key_len)?, bytes(value, value_len)?)?)
    })
}

/// Removes a key, which need not be there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_delete(
    keyspace: *const esker_keyspace,
    key: *const c_void,
    key_len: size_t,
) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe { Ok(handle::get(keyspace)?.open()?.delete(bytes(key, key_len)?)?) })
}

/// Removes every key from `start`, inclusive, to `end`, exclusive. One record, whatever the number
/// of keys; but in a keyspace with indexes of fields every key of the range is read and held in
/// memory, a record is written for each entry that goes, and nobody else writes to such keyspaces
/// meanwhile: delete large ranges by parts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_delete_range(
    keyspace: *const esker_keyspace,
    start: *const c_void,
    start_len: size_t,
    end: *const c_void,
    end_len: size_t,
) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe {
        let keyspace = handle::get(keyspace)?.open()?;
        Ok(keyspace.delete_range(bytes(start, start_len)?, bytes(end, end_len)?)?)
    })
}

/// The bytes of so many keys, for as long as C keeps them.
///
/// # Safety
/// `keys` is NULL or has as many as that.
unsafe fn all<'a>(keys: *const esker_slice, count: size_t) -> Outcome<Vec<&'a [u8]>> {
    if keys.is_null() {
        return Err(Failure::misuse("the array of keys is NULL"));
    }
    // SAFETY: as the caller says.
    unsafe {
        let keys = std::slice::from_raw_parts(keys, count);
        keys.iter().map(|key| bytes(key.data.cast_const().cast(), key.len)).collect()
    }
}

#[inline]
pub(super) fn get(
    keyspace: &Keyspace,
    key: &[u8],
    snapshot: Option<&Snapshot>,
) -> esker::Result<Option<Value>> {
    match snapshot {
        None => keyspace.get(key),
        Some(snapshot) => keyspace.get_at(key, snapshot),
    }
}

/// The value of a key, to be freed; NULL if the key is not there. `snapshot`: the moment to read
/// at; NULL is now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_get(
    keyspace: *const esker_keyspace,
    snapshot: *const esker_snapshot,
    key: *const c_void,
    key_len: size_t,
    value: *mut esker_slice,
) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe {
        let out = place(value)?;
        *out = esker_slice::NONE;
        let keyspace = handle::get(keyspace)?.open()?;
        if let Some(value) = get(keyspace, bytes(key, key_len)?, moment(snapshot)?)? {
            *out = esker_slice::copied(&value)?;
        }
        Ok(())
    })
}

/// The values of several keys as of one moment, each as in `esker_get`, in the order of the keys.
/// After an error there are none. `keys` and `values` may be the same array.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_multi_get(
    keyspace: *const esker_keyspace,
    snapshot: *const esker_snapshot,
    keys: *const esker_slice,
    count: size_t,
    values: *mut esker_slice,
) -> esker_code {
    // SAFETY: as everywhere: so many keys and places for values.
    run(|| unsafe {
        if count == 0 {
            return Ok(());
        }
        // Before anything is written: the values may go to where the keys are.
        let keys = all(keys, count);
        place(values)?;
        let out = std::slice::from_raw_parts_mut(values, count);
        out.fill(esker_slice::NONE);
        let keyspace = handle::get(keyspace)?.open()?;
        let found = keyspace.multi_get(&keys?, moment(snapshot)?)?;
        for (nth, value) in found.iter().enumerate() {
            let Some(value) = value else { continue };
            match esker_slice::copied(value) {
                Ok(copy) => out[nth] = copy,
                Err(failure) => {
                    out[..nth].iter().for_each(|copy| free(copy.data.cast()));
                    out.fill(esker_slice::NONE);
                    return Err(failure);
                }
            }
        }
        Ok(())
    })
}
