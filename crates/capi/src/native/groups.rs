//! Stores below somebody else's log: requests, what is persistent of them, and groups.

use super::batch::esker_batch;
use super::data::esker_slice;
use super::error::{Outcome, bytes, esker_code, no_memory, place, run, text};
use super::store::{Moment, Store, esker_db, esker_keyspace, esker_snapshot};
use crate::boundary::free;
use crate::fork::Own;
use crate::handle;
use esker::report::GroupStats;
use esker::{Applied, GroupFiles, GroupIndex};
use libc::{c_char, c_void, size_t};
use std::sync::Arc;

/// How far the log of a group was applied.
#[allow(non_camel_case_types, reason = "as C names it")]
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct esker_group_index {
    /// Its name: what its keys begin with.
    pub group: esker_slice,
    /// Index of the newest request that was applied.
    pub applied: u64,
    /// Index of the newest request that is persistent, with all before it: what a crash would go
    /// back to. 0 if there is none.
    pub persisted: u64,
    /// The note of the newest request that was applied.
    pub note: esker_slice,
}

/// How far the log of a group was applied, and what the group has of the tables.
#[allow(non_camel_case_types, reason = "as C names it")]
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct esker_group_tables {
    /// Its name: what its keys begin with.
    pub group: esker_slice,
    /// Index of the newest request that was applied.
    pub applied: u64,
    /// Index of the newest request that is persistent; 0 if none is.
    pub persisted: u64,
    /// Tables that hold nothing else.
    pub tables: u64,
    /// Bytes of these.
    pub table_bytes: u64,
    /// Point records in them, tombstones and hidden ones included.
    pub entries: u64,
    /// Bytes of values kept apart that they point to.
    pub value_bytes: u64,
    /// Tables that it may share with others: their keys begin before it, or end behind it.
    pub shared_tables: u64,
}

/// What the deletion of a group has done.
#[allow(non_camel_case_types, reason = "as C names it")]
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct esker_deleted_group {
    /// Tables that held nothing else, and are gone.
    pub tables: u64,
    /// Files with values of which nothing else was needed, and which are gone.
    pub value_files: u64,
    /// Bytes of these files. They are free when this is told, unless somebody still reads them: a
    /// cursor, an export, a compaction or a collection of values.
    pub file_bytes: u64,
    /// Tables that share what was deleted with others: it is hidden, and left out when they are
    /// rewritten.
    pub shared_tables: u64,
}

/// A group as files.
#[allow(non_camel_case_types, reason = "as C names it")]
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct esker_group_files {
    /// Index of the newest request that they hold.
    pub index: u64,
    /// Its note; `data` is to be freed.
    pub note: esker_slice,
    /// Tables.
    pub tables: u64,
    /// Files of values that are kept apart.
    pub value_files: u64,
    /// Bytes of all of them.
    pub file_bytes: u64,
}

/// Applies a request of somebody else's log, to a database that was opened with
/// `durability=external`: the batch, and how far the log of `group` is then, become visible and
/// persistent together. Empties the batch; after an error it is as it was.
///
/// `group`: what the keys of the batch begin with, 1 B to 1 KiB. `index`: that of the request in
/// the log of the group, above that of all that were applied before. `note`: bytes that are kept
/// with the index, at most 64 KiB. Requests of a group are applied in the order of its log, one
/// after the other; several groups may be applied to by several threads. A batch without writes is
/// a request too. See docs/external-durability.md.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_apply(
    db: *const esker_db,
    batch: *mut esker_batch,
    group: *const c_void,
    group_len: size_t,
    index: u64,
    note: *const c_void,
    note_len: size_t,
) -> esker_code {
    // SAFETY: pointers are what the interface asks for; the same holds for every function of it.
    run(|| unsafe {
        let store = handle::get(db)?;
        let (group, note) = (bytes(group, group_len)?, bytes(note, note_len)?);
        let writes = handle::get_mut(batch)?;
        let batch = writes.copy_for(store)?;
        store.db()?.apply(Applied { group, index, note }, batch)?;
        writes.clear();
        Ok(())
    })
}

/// The value of a key as tables have it, memtables left out, to be freed; NULL if they have none.
/// With `durability=external` that is what a crash would leave now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_get_persisted(
    keyspace: *const esker_keyspace,
    key: *const c_void,
    key_len: size_t,
    value: *mut esker_slice,
) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe {
        let out = place(value)?;
        *out = esker_slice::NONE;
        let keyspace = handle::get(keyspace)?.open()?;
        if let Some(value) = keyspace.get_persisted(bytes(key, key_len)?)? {
            *out = esker_slice::copied(&value)?;
        }
        Ok(())
    })
}

/// A snapshot of a database, in all keyspaces, as a crash would leave it now. It must have been
/// opened with `durability=external`. Scans that are to read what is persistent as of now have
/// `persisted` of `esker_scan_options`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_persisted_snapshot(
    db: *const esker_db,
    snapshot: *mut *mut esker_snapshot,
) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe {
        let out = place(snapshot)?;
        *out = std::ptr::null_mut();
        let store = handle::get(db)?;
        let snapshot = Own::new(store.db()?.persisted_snapshot()?);
        *out = handle::open(Moment { store: store.clone(), snapshot });
        Ok(())
    })
}

/// How far the log of a group was applied, to be freed with `esker_groups_free(state, 1)`; NULL if
/// it never was, or the group was deleted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_group(
    db: *const esker_db,
    group: *const c_void,
    group_len: size_t,
    state: *mut *mut esker_group_index,
) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe {
        let out = place(state)?;
        *out = std::ptr::null_mut();
        let found = handle::get(db)?.db()?.group(bytes(group, group_len)?);
        *out = give(found.as_slice(), index_of, esker_groups_free)?;
        Ok(())
    })
}

/// How far the logs of all groups were applied, in the order of their names. Right after the
/// database was opened that is what is persistent. `groups`: an array, to be freed with
/// `esker_groups_free`; NULL if there are none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_groups(
    db: *const esker_db,
    groups: *mut *mut esker_group_index,
    count: *mut size_t,
) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe {
        let (out, out_count) = (place(groups)?, place(count)?);
        (*out, *out_count) = (std::ptr::null_mut(), 0);
        let found = handle::get(db)?.db()?.groups();
        (*out, *out_count) = (give(&found, index_of, esker_groups_free)?, found.len());
        Ok(())
    })
}

/// Frees an array of so many groups, and what they lead to. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_groups_free(groups: *mut esker_group_index, count: size_t) {
    if groups.is_null() {
        return;
    }
    // SAFETY: as everywhere.
    unsafe {
        for nth in 0..count {
            let index = &*groups.add(nth);
            free(index.group.data.cast());
            free(index.note.data.cast());
        }
        free(groups.cast());
    }
}

/// How far the logs of all groups were applied, and what each has of the tables, in the order of
/// their names. `groups`: an array, to be freed with `esker_group_stats_free`; NULL if there are
/// none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_group_stats(
    db: *const esker_db,
    groups: *mut *mut esker_group_tables,
    count: *mut size_t,
) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe {
        let (out, out_count) = (place(groups)?, place(count)?);
        (*out, *out_count) = (std::ptr::null_mut(), 0);
        let found = handle::get(db)?.db()?.group_stats();
        (*out, *out_count) = (give(&found, tables_of, esker_group_stats_free)?, found.len());
        Ok(())
    })
}

/// Frees an array of statistics of so many groups. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_group_stats_free(groups: *mut esker_group_tables, count: size_t) {
    if groups.is_null() {
        return;
    }
    // SAFETY: as everywhere.
    unsafe {
        for nth in 0..count {
            free((*groups.add(nth)).group.data.cast());
        }
        free(groups.cast());
    }
}

/// An array for C of what the engine gives; NULL of nothing.
///
/// # Safety
/// `give_back` frees such an array.
unsafe fn give<F, T>(
    found: &[F],
    make: impl Fn(&F) -> Outcome<T>,
    give_back: unsafe extern "C" fn(*mut T, size_t),
) -> Outcome<*mut T> {
    if found.is_empty() {
        return Ok(std::ptr::null_mut());
    }
    // SAFETY: there is room for so many, and those up to `nth` are written when they are freed.
    unsafe {
        let array = libc::calloc(found.len(), size_of::<T>()).cast::<T>();
        if array.is_null() {
            return Err(no_memory());
        }
        for (nth, one) in found.iter().enumerate() {
            match make(one) {
                Ok(made) => array.add(nth).write(made),
                Err(failure) => {
                    give_back(array, nth);
                    return Err(failure);
                }
            }
        }
        Ok(array)
    }
}

fn index_of(found: &GroupIndex) -> Outcome<esker_group_index> {
    let group = esker_slice::copied(&found.group)?;
    let note = esker_slice::copied(&found.note).inspect_err(|_| {
        // SAFETY: nobody else has it.
        unsafe { free(group.data.cast()) };
    })?;
    Ok(esker_group_index { group, applied: found.applied, persisted: found.persisted, note })
}

fn tables_of(found: &GroupStats) -> Outcome<esker_group_tables> {
    Ok(esker_group_tables {
        group: esker_slice::copied(&found.group)?,
        applied: found.applied,
        persisted: found.persisted,
        tables: found.tables,
        table_bytes: found.table_bytes,
        entries: found.entries,
        value_bytes: found.value_bytes,
        shared_tables: found.shared_tables,
    })
}

/// Makes persistent what was applied to a group, along with everything that is in the same
/// memtables, and waits for it. `index`: up to where the log of the group may be cut off then; 0 if
/// there is nothing of it. May be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_flush_group(
    db: *const esker_db,
    group: *const c_void,
    group_len: size_t,
    index: *mut u64,
) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe {
        let mut unasked = 0;
        let out = index.as_mut().unwrap_or(&mut unasked);
        *out = 0;
        let flushed = handle::get(db)?.db()?.flush_group(bytes(group, group_len)?)?;
        *out = flushed.unwrap_or_default();
        Ok(())
    })
}

/// Makes persistent what was applied first of all that is not persistent yet, and waits for it: for
/// logs that grow too long since one group of many is idle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_flush_oldest(db: *const esker_db) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe { Ok(handle::get(db)?.db()?.flush_oldest()?) })
}

/// Deletes a group, in all keyspaces with keys in bytewise order: every key that begins with its
/// name, and how far its log was applied. Nobody sees it from then on, not even at an older
/// snapshot; only cursors that were there before read on. After a crash it is there as a whole, or
/// gone as a whole; once this has returned, gone. Nothing must be applied to it meanwhile. Refused
/// where a keyspace has an index of a field. `deleted`: what was done; may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_delete_group(
    db: *const esker_db,
    group: *const c_void,
    group_len: size_t,
    deleted: *mut esker_deleted_group,
) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe {
        let mut unasked = esker_deleted_group::default();
        let out = deleted.as_mut().unwrap_or(&mut unasked);
        *out = esker_deleted_group::default();
        let done = handle::get(db)?.db()?.delete_group(bytes(group, group_len)?)?;
        *out = esker_deleted_group {
            tables: done.tables,
            value_files: done.value_files,
            file_bytes: done.file_bytes,
            shared_tables: done.shared_tables,
        };
        Ok(())
    })
}

/// Writes what is persistent of a group, at one moment, into the new directory `path`: a store of
/// its own, with how far its log was applied, for `esker_ingest_group` of another database. Nobody
/// waits for it. Refused where a keyspace has an index of a field, or keys that are not in bytewise
/// order. `files`: what was written; may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_export_group(
    db: *const esker_db,
    group: *const c_void,
    group_len: size_t,
    path: *const c_char,
    files: *mut esker_group_files,
) -> esker_code {
    // SAFETY: as everywhere.
    unsafe {
        carry(db, files, |store| {
            Ok(store.db()?.export_group(bytes(group, group_len)?, text(path, "path")?)?)
        })
    }
}

/// Takes over a group that `esker_export_group` has written into the directory `path`, which stays
/// as it is, in the place of what is there of it: persistent, and as far applied as it was there,
/// when this returns. Until then readers find each keyspace as it was or as it will be, and how far
/// it is last; no snapshot keeps what was there. A crash leaves one or the other as a whole.
/// Nothing must be applied to it meanwhile. Refused where `esker_export_group` is. `files`: what
/// has come; may be NULL.
///
/// The directory may be removed afterwards, but its files must never be written to again: the
/// database may have them, under other names.
///
/// If the disk fails while it is flushed, nothing has changed, and it may be tried again; only a
/// crash before the manifest is written next may find it in force, as a whole.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_ingest_group(
    db: *const esker_db,
    group: *const c_void,
    group_len: size_t,
    path: *const c_char,
    files: *mut esker_group_files,
) -> esker_code {
    // SAFETY: as everywhere.
    unsafe {
        carry(db, files, |store| {
            Ok(store.db()?.ingest_group(bytes(group, group_len)?, text(path, "path")?)?)
        })
    }
}

/// # Safety
/// As everywhere.
unsafe fn carry(
    db: *const esker_db,
    files: *mut esker_group_files,
    carry: impl FnOnce(&Arc<Store>) -> Outcome<GroupFiles>,
) -> esker_code {
    // SAFETY: as the caller says.
    run(|| unsafe {
        let none = GroupFiles::default();
        let mut out = files.as_mut();
        if let Some(out) = &mut out {
            **out = files_of(&none, esker_slice::NONE);
        }
        let carried = carry(handle::get(db)?)?;
        if let Some(out) = out {
            *out = files_of(&carried, esker_slice::copied(&carried.note)?);
        }
        Ok(())
    })
}

fn files_of(files: &GroupFiles, note: esker_slice) -> esker_group_files {
    esker_group_files {
        index: files.index,
        note,
        tables: files.tables,
        value_files: files.value_files,
        file_bytes: files.file_bytes,
    }
}
