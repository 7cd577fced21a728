//! Indexes of fields, and finding by what fields hold.

use super::cursor::lend;
use super::data::esker_slice;
use super::error::{Failure, Outcome, esker_code, give_json, no_memory, place, run, text};
use super::record::{esker_field, field};
use super::store::{Store, esker_keyspace, esker_snapshot, moment};
use crate::boundary::free;
use crate::fork::Own;
use crate::handle::{self, Shell, handle};
use esker::fields::FieldRef;
use esker::{FindOptions, Found, IndexState};
use libc::{c_char, size_t};
use std::ops::Bound;
use std::sync::Arc;

/// Keys that were found, in the order of what the field holds.
#[allow(non_camel_case_types, reason = "as C names it")]
pub struct esker_found(Shell<Finding>);
handle!(esker_found, Finding, "esker_found");

/// What was found, and what keeps it alive.
pub struct Finding {
    found: Own<Found>,
    standing: bool,
    store: Arc<Store>,
}

/// Makes an index of a field. Returns at once; the background builds it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_create_index(
    keyspace: *const esker_keyspace,
    field: *const c_char,
) -> esker_code {
    // SAFETY: pointers are what the interface asks for; the same holds for every function of it.
    run(|| unsafe { Ok(handle::get(keyspace)?.open()?.create_index(text(field, "field")?)?) })
}

/// Removes an index.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_drop_index(
    keyspace: *const esker_keyspace,
    field: *const c_char,
) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe { Ok(handle::get(keyspace)?.open()?.drop_index(text(field, "field")?)?) })
}

/// Waits until the index of a field is ready.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_wait_index(
    keyspace: *const esker_keyspace,
    field: *const c_char,
) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe {
        Ok(handle::get(keyspace)?.open()?.wait_index(text(field, "field")?, |_| true)?)
    })
}

/// The indexes of a keyspace, as a JSON array of objects with `field`, `ready` and `keys_done`; to
/// be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_indexes(
    keyspace: *const esker_keyspace,
    json: *mut *mut c_char,
) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe {
        let out = place(json)?;
        let infos = handle::get(keyspace)?.open()?.indexes()?;
        let rows: Vec<serde_json::Value> = infos
            .iter()
            .map(|info| {
                serde_json::json!({
                    "field": info.field,
                    "ready": matches!(info.state, IndexState::Ready),
                    "keys_done": info.keys_done,
                })
            })
            .collect();
        *out = give_json(&rows)?;
        Ok(())
    })
}

/// The keys of records whose field holds this value, in order, by an index. An invalid argument as
/// long as that is not ready (`esker_wait_index`), and at a snapshot from before it was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_find(
    keyspace: *const esker_keyspace,
    snapshot: *const esker_snapshot,
    field: *const c_char,
    value: *const esker_field,
    found: *mut *mut esker_found,
) -> esker_code {
    if value.is_null() {
        // SAFETY: as everywhere.
        return run(|| unsafe {
            place(found)?;
            Err(Failure::invalid("the value of the field is NULL"))
        });
    }
    // SAFETY: as everywhere.
    unsafe { esker_find_range(keyspace, snapshot, field, value, true, value, true, found) }
}

/// The keys of records whose field holds a value of a range, in the order of the values, by an
/// index. A bound that is NULL is open; `from_inclusive` and `to_inclusive` say whether bounds
/// belong to the range. The index must be ready, as for `esker_find`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_find_range(
    keyspace: *const esker_keyspace,
    snapshot: *const esker_snapshot,
    field: *const c_char,
    from: *const esker_field,
    from_inclusive: bool,
    to: *const esker_field,
    to_inclusive: bool,
    found: *mut *mut esker_found,
) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe {
        let out = place(found)?;
        *out = std::ptr::null_mut();
        let space = handle::get(keyspace)?;
        let range = (bound(from, from_inclusive)?, bound(to, to_inclusive)?);
        let options = FindOptions { snapshot: moment(snapshot)?, ..FindOptions::default() };
        let found = space.open()?.find_range(text(field, "field")?, range, &options)?;
        let (found, store) = (Own::new(found), space.store.clone());
        *out = handle::open(Finding { found, standing: false, store });
        Ok(())
    })
}

/// # Safety
/// As everywhere.
unsafe fn bound<'a>(value: *const esker_field, inclusive: bool) -> Outcome<Bound<FieldRef<'a>>> {
    if value.is_null() {
        return Ok(Bound::Unbounded);
    }
    // SAFETY: as the caller says.
    let value = unsafe { field(value)? };
    Ok(if inclusive { Bound::Included(value) } else { Bound::Excluded(value) })
}

/// Moves to the next key, at first to the first. `more`: false if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_found_next(found: *mut esker_found, more: *mut bool) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe {
        let out = place(more)?;
        *out = false;
        let finding = handle::get_mut(found)?;
        finding.store.db()?;
        finding.standing = false;
        finding.standing = finding.found.get_mut()?.advance()?;
        *out = finding.standing;
        Ok(())
    })
}

/// # Safety
/// As everywhere.
unsafe fn standing<'a>(found: *const esker_found) -> Option<&'a Found> {
    // SAFETY: as the caller says.
    let finding = unsafe { handle::get(found).ok()? };
    finding.store.db().ok()?;
    finding.found.get().ok().filter(|_| finding.standing)
}

/// The key of a record, good until the next move; NULL if it stands on none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_found_key(
    found: *const esker_found,
    len: *mut size_t,
) -> *const c_char {
    // SAFETY: as everywhere.
    unsafe { lend(standing(found).map(Found::key), len) }
}

/// What the field of that record holds; text and bytes are good until the next move.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_found_value(
    found: *const esker_found,
    value: *mut esker_field,
) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe {
        let out = place(value)?;
        handle::get(found)?.store.db()?;
        let nowhere = || Failure::invalid("it stands on no key");
        *out = esker_field::of(standing(found).ok_or_else(nowhere)?.value()?);
        Ok(())
    })
}

/// Closes what was found.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_found_close(found: *mut esker_found) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe { Ok(handle::discard(found)?) })
}

/// The keys of records whose field holds this value, in order, without an index: reads all records.
/// `keys`: an array, to be freed with `esker_slices_free`; NULL if there are none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_get_keys_by_field(
    keyspace: *const esker_keyspace,
    snapshot: *const esker_snapshot,
    name: *const c_char,
    value: *const esker_field,
    keys: *mut *mut esker_slice,
    count: *mut size_t,
) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe {
        let (out, out_count) = (place(keys)?, place(count)?);
        (*out, *out_count) = (std::ptr::null_mut(), 0);
        let keyspace = handle::get(keyspace)?.open()?;
        let (name, value) = (text(name, "field")?, field(value)?);
        let found = keyspace.get_keys_by_field(name, value, moment(snapshot)?, |_| true)?;
        if found.is_empty() {
            return Ok(());
        }
        let slices = libc::calloc(found.len(), size_of::<esker_slice>()).cast::<esker_slice>();
        if slices.is_null() {
            return Err(no_memory());
        }
        for (nth, key) in found.iter().enumerate() {
            match esker_slice::copied(key) {
                Ok(copy) => slices.add(nth).write(copy),
                Err(failure) => {
                    esker_slices_free(slices, nth);
                    return Err(failure);
                }
            }
        }
        (*out, *out_count) = (slices, found.len());
        Ok(())
    })
}

/// Frees an array of so many slices, and what they lead to. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_slices_free(slices: *mut esker_slice, count: size_t) {
    if slices.is_null() {
        return;
    }
    // SAFETY: as everywhere.
    unsafe {
        for nth in 0..count {
            free((*slices.add(nth)).data.cast());
        }
        free(slices.cast());
    }
}
