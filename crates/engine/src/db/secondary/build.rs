//! Building: a thread in the background puts the entries of records that were there before an
//! index.
//!
//! Writes go on meanwhile and keep the entries of the keys that they change, wherever the building
//! is. A chunk's keys are read again under their stripes, so that what is put for them is as new as
//! what writes have put; how far it is is written along with the entries, and is right for whatever
//! part of the log a crash leaves.

use super::catalogue::{Index, IndexList, Indexes};
use super::declare::missing;
use super::entries::{entry, indexed};
use super::state::State;
use crate::db::core::{Core, KeyspaceCore};
use crate::db::scan_range::ScanOptions;
use crate::db::write::{self, How};
use crate::event::Event;
use esker_base::sync::atomic::Ordering;
use esker_base::{Batch, Error, Result};
use std::sync::Arc;
use std::time::Duration;

/// Keys of a chunk: as long as it takes, writers of keys of the same stripes wait.
const CHUNK_KEYS: usize = 64;

/// How long one waits for the background before looking again.
const WAIT: Duration = Duration::from_millis(100);

/// Builds a piece of some index, if one is not ready.
pub(in crate::db) fn build_next(core: &Core) -> Result<bool> {
    if Indexes::is_empty_at(core.indexes.number()) || core.check_writable().is_err() {
        return Ok(false);
    }
    let _one = core.indexes.building.lock();
    let list = core.indexes.list();
    let now_ns = core.env.clock.now_ns();
    let is_due = |index: &&Arc<Index>| index.due_in(now_ns).is_some_and(|left| left.is_zero());
    let Some(index) = list.all().find(is_due) else { return Ok(false) };
    match build_chunk(core, index) {
        // Whatever failed before is over.
        Ok(()) => *index.failure.lock() = None,
        // Others would fare no better.
        Err(
            error @ (Error::Cancelled
            | Error::Poisoned { .. }
            | Error::ReadOnly
            | Error::NoSpace { .. }),
        ) => return Err(error),
        Err(error) if error.is_sync_failure() => return Err(error),
        // The disk may do better another time, and what cannot be indexed be gone. Others need not
        // wait for it, and it is no reason to take no more writes.
        Err(error) => {
            index.note_failure(error.clone(), core.env.clock.now_ns());
            core.events.emit(&Event::BackgroundRetry { error });
        }
    }
    if index.is_built() || index.failure.lock().is_some() {
        core.background.wake_all();
    }
    Ok(true)
}

impl Core {
    /// How long until some index is built, or goes on to be, that could not be.
    pub(in crate::db) fn next_index_retry(&self) -> Option<Duration> {
        let now_ns = self.env.clock.now_ns();
        let list = self.indexes.list();
        let left = list.all().filter_map(|index| index.due_in(now_ns));
        left.min()
    }
}

/// Builds the index for some keys more.
fn build_chunk(core: &Core, index: &Index) -> Result<()> {
    // From here on nobody drops the index, begins it anew, or brings keys past it: the keys that
    // are read now, and those that writes bring, are all there are.
    let _shared = core.indexes.gate.read();
    let list = core.indexes.list();
    let is_current = list.find(index.of, &index.field).is_some_and(|found| found.id == index.id);
    let (Some(keyspace), true) = (core.keyspace(index.of), is_current) else { return Ok(()) };
    let Some(before) = State::read(core, index, None)? else { return Ok(()) };
    if before.is_ready {
        index.is_built.store(true, Ordering::Release);
        return Ok(());
    }
    let keys = next_keys(core, &keyspace, before.last_key.as_deref())?;
    let mut stripes: Vec<usize> = keys.iter().map(|key| Indexes::stripe(index.of, key)).collect();
    stripes.sort_unstable();
    stripes.dedup();
    let _held = core.indexes.lock(&stripes);
    let mut batch = Batch::new();
    for key in &keys {
        let value = core.get(&keyspace, key, None)?;
        if let Some(coded) = value.as_deref().and_then(|value| indexed(value, &index.field)) {
            batch.put_in(index.id, &entry(index, coded, key)?, b"");
        }
    }
    let after = State {
        // Keys behind the last one came while this was under way, by writes that have put their
        // entries.
        is_ready: keys.len() < CHUNK_KEYS,
        keys_done: before.keys_done + keys.len() as u64,
        last_key: keys.last().cloned(),
    };
    after.put(&mut batch, index);
    let written = write::write(core, &mut batch, How::default(), list.number)?;
    assert!(written, "the list of indexes changed although the gate was held");
    if after.is_ready {
        index.is_built.store(true, Ordering::Release);
    }
    Ok(())
}

/// The keys that come after `last`, as many as a chunk has.
fn next_keys(core: &Core, keyspace: &KeyspaceCore, last: Option<&[u8]>) -> Result<Vec<Vec<u8>>> {
    // The least key after it in bytewise order.
    let start = last.map(|last| [last, &[0]].concat());
    let options =
        ScanOptions { start, keys_only: true, fill_cache: false, ..ScanOptions::default() };
    let mut cursor = core.scan(keyspace, &options)?;
    let mut keys = Vec::with_capacity(CHUNK_KEYS);
    cursor.seek_to_first()?;
    while cursor.valid() && keys.len() < CHUNK_KEYS {
        keys.push(cursor.key().to_vec());
        cursor.next()?;
    }
    Ok(keys)
}

/// Waits until all indexes are ready. Without threads, builds them.
///
/// # Errors
/// Why one cannot be built, or why work in the background failed meanwhile; it is tried again when
/// somebody waits again, and by itself after a while.
pub(in crate::db) fn wait(core: &Core) -> Result<()> {
    if Indexes::is_empty_at(core.indexes.number()) {
        return Ok(());
    }
    wait_for(core, |list| Ok(list.all().find(|index| !index.is_built()).cloned()), |_| true)
}

/// Waits until one index is ready. Without threads, builds.
///
/// # Errors
/// As `wait`, of this index; `Cancelled` if `progress`, which is given the keys done, returns
/// false.
pub(in crate::db) fn wait_one(
    core: &Core,
    keyspace: &KeyspaceCore,
    field: &str,
    progress: impl FnMut(u64) -> bool,
) -> Result<()> {
    let next = |list: &IndexList| {
        let index = list.find(keyspace.id, field).ok_or_else(|| missing(keyspace, field))?;
        Ok((!index.is_built()).then(|| index.clone()))
    };
    wait_for(core, next, progress)
}

/// Waits for one index after the other, as long as `next` gives one of the list.
fn wait_for(
    core: &Core,
    next: impl Fn(&IndexList) -> Result<Option<Arc<Index>>>,
    mut progress: impl FnMut(u64) -> bool,
) -> Result<()> {
    let asked = core.background.ask_for_all();
    let mut waits_for = None;
    loop {
        core.check_writable()?;
        let Some(index) = next(&core.indexes.list())? else { return Ok(()) };
        if waits_for.replace(index.id) != Some(index.id) {
            // What failed before is tried once more.
            *index.failure.lock() = None;
            core.background.wake_workers();
        }
        if let Some(failure) = &*index.failure.lock() {
            return Err(failure.error.clone());
        }
        let keys_done = State::read(core, &index, None)?.map_or(0, |state| state.keys_done);
        if !progress(keys_done) {
            return Err(Error::Cancelled);
        }
        if !core.background.is_inline() || !build_next(core)? {
            core.wait_asked(asked, WAIT)?;
        }
    }
}
