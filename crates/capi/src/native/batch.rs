//! Batches: writes that are done together, all or none, across keyspaces.

use super::error::{Failure, Outcome, bytes, esker_code, place, run};
use super::store::{Space, Store, esker_db, esker_keyspace};
use crate::handle::{self, Shell, handle};
use esker::{Batch, WriteOptions};
use libc::{c_void, size_t};
use std::sync::Arc;

/// Writes that are done together.
#[allow(non_camel_case_types, reason = "as C names it")]
pub struct esker_batch(Shell<Writes>);
handle!(esker_batch, Writes, "esker_batch");

/// A batch and the database that its keyspaces are of.
#[derive(Default)]
pub struct Writes {
    batch: Batch,
    store: Option<Arc<Store>>,
}

impl Writes {
    /// The batch, for a write to this keyspace.
    fn for_space(&mut self, space: &Space) -> Outcome<&mut Batch> {
        space.open()?;
        let store = self.store.get_or_insert_with(|| space.store.clone());
        if !Arc::ptr_eq(store, &space.store) {
            return Err(Failure::invalid("the batch has writes to another database"));
        }
        Ok(&mut self.batch)
    }

    /// A copy of the writes, to be made in this database.
    pub(super) fn copy_for(&self, store: &Arc<Store>) -> Outcome<Batch> {
        if self.store.as_ref().is_some_and(|of| !Arc::ptr_eq(of, store)) {
            return Err(Failure::invalid("the batch has writes to another database"));
        }
        Ok(self.batch.clone())
    }

    pub(super) fn clear(&mut self) {
        self.batch.clear();
        self.store = None;
    }
}

/// Makes an empty batch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_batch_create(batch: *mut *mut esker_batch) -> esker_code {
    // SAFETY: pointers are what the interface asks for; the same holds for every function of it.
    run(|| unsafe {
        let out = place(batch)?;
        *out = handle::open(Writes::default());
        Ok(())
    })
}

/// Frees a batch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_batch_close(batch: *mut esker_batch) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe { Ok(handle::discard(batch)?) })
}

/// Forgets all writes of a batch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_batch_clear(batch: *mut esker_batch) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe {
        handle::get_mut(batch)?.clear();
        Ok(())
    })
}

/// How many writes a batch has; 0 of what is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_batch_len(batch: *const esker_batch) -> u32 {
    // SAFETY: as everywhere.
    unsafe { handle::get(batch).map_or(0, |writes| writes.batch.len()) }
}

/// Adds setting a key. A key or value that is too long is told of when the batch is written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_batch_put(
    batch: *mut esker_batch,
    keyspace: *const esker_keyspace,
    key: *const c_void,
    key_len: size_t,
    value: *const c_void,
    value_len: size_t,
) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe {
        let space = handle::get(keyspace)?;
        let (key, value) = (bytes(key, key_len)?, bytes(value, value_len)?);
        let batch = handle::get_mut(batch)?.for_space(space)?;
        batch.put_in(space.open()?, key, value);
        Ok(())
    })
}

/// Adds removing a key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_batch_delete(
    batch: *mut esker_batch,
    keyspace: *const esker_keyspace,
    key: *const c_void,
    key_len: size_t,
) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe {
        let space = handle::get(keyspace)?;
        let key = bytes(key, key_len)?;
        handle::get_mut(batch)?.for_space(space)?.delete_in(space.open()?, key);
        Ok(())
    })
}

/// Adds removing every key from `start`, inclusive, to `end`, exclusive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_batch_delete_range(
    batch: *mut esker_batch,
    keyspace: *const esker_keyspace,
    start: *const c_void,
    start_len: size_t,
    end: *const c_void,
    end_len: size_t,
) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe {
        let space = handle::get(keyspace)?;
        let (start, end) = (bytes(start, start_len)?, bytes(end, end_len)?);
        handle::get_mut(batch)?.for_space(space)?.delete_range_in(space.open()?, start, end);
        Ok(())
    })
}

/// Writes a batch, all of it or nothing, and empties it; after an error it is as it was. `sync`:
/// return only when it, and every write before it, is on stable storage; refused with
/// `durability=external`. A batch has less than 2 GiB, no more than 1 000 records longer than 1
/// MiB, and takes no more than 3 GiB of a memtable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_write(
    db: *const esker_db,
    batch: *mut esker_batch,
    sync: bool,
) -> esker_code {
    // SAFETY: as everywhere.
    run(|| unsafe {
        let store = handle::get(db)?;
        let writes = handle::get_mut(batch)?;
        let batch = writes.copy_for(store)?;
        store.db()?.write(batch, WriteOptions { sync })?;
        writes.clear();
        Ok(())
    })
}
