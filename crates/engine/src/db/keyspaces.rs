//! Keyspaces: creating, dropping, flushing, measuring.

use super::commit_state::CommitState;
use super::core::{Core, KeyspaceCore, Keyspaces};
use super::flushing::{forget_wals, remove_wals};
use crate::compaction::policy;
use crate::memtable::Memtable;
use crate::names;
use crate::options::KeyspaceOptions;
use crate::version::{Change, KeyRange, VersionEdit};
use esker_base::sync::atomic::Ordering;
use esker_base::{Error, KeyspaceId, Result};
use std::sync::Arc;
use std::time::Duration;

/// How long one waits for the background before looking again.
const WAIT: Duration = Duration::from_millis(100);

/// A log that is longer than this share of what logs may take, or than so many bytes, is not kept
/// for a dropped keyspace.
const NEEDLESS_SHARE: u64 = 16;
const NEEDLESS_BYTES_MAX: u64 = 64 << 20;

/// Creates a keyspace: one edit of the manifest.
pub(super) fn create(
    core: &Core,
    name: &str,
    options: KeyspaceOptions,
) -> Result<Arc<KeyspaceCore>> {
    core.check_writable()?;
    names::check_no_index(name)?;
    names::check_keyspace(name)?;
    create_named(core, name, options)
}

/// Creates a keyspace of any name.
pub(super) fn create_named(
    core: &Core,
    name: &str,
    options: KeyspaceOptions,
) -> Result<Arc<KeyspaceCore>> {
    options.validate()?;
    core.options.check_run_index(&options)?;
    let options = Arc::new(options);
    let mut versions = core.lock_versions()?;
    let mut keyspaces = Keyspaces::clone(&core.keyspaces.load());
    if keyspaces.by_name(name).is_some() {
        return Err(Error::invalid(format!("there is a keyspace {name:?} already")));
    }
    // Ids are never reused: logs may still hold records of a dropped keyspace.
    let id = KeyspaceId(
        u32::try_from(core.store.new_number())
            .map_err(|_| Error::invalid("no more keyspaces can be made in this database"))?,
    );
    let mut edit = VersionEdit::new();
    edit.push(Change::KeyspaceCreated {
        id,
        name: name.to_owned(),
        order: options.order.name().to_owned(),
    });
    versions.commit(edit, Some(&options))?;
    let version = versions.keyspace(id)?.version.clone();
    let first_wal = core.current_wal.lock().number;
    let (name, limit) = (name.to_owned(), core.memtables_limit_bytes);
    let supply = &core.supply;
    let keyspace =
        Arc::new(KeyspaceCore::new(id, name, options, limit, version, first_wal, supply));
    if let Some(min) = keyspace.options.value_log_bytes_min
        && !core.is_external()
    {
        // Changed under `versions` only.
        let least = core.separated_bytes_min.load(Ordering::Relaxed).min(min);
        core.separated_bytes_min.store(least, Ordering::Relaxed);
    }
    keyspaces.insert(keyspace.clone());
    core.keyspaces.store(Arc::new(keyspaces));
    Ok(keyspace)
}

/// Drops keyspaces: one edit of the manifest. Their files go as soon as nobody reads them, and the
/// logs that nobody else needs.
pub(super) fn drop(core: &Core, dropped: &[Arc<KeyspaceCore>]) -> Result<()> {
    core.check_writable()?;
    if core.is_external() {
        // What stands in for the sync below. A drop is what helps a disk that is full.
        match core.flush_epochs() {
            Err(Error::NoSpace { .. }) => {}
            flushed => flushed?,
        }
    }
    // Nobody may be writing to them meanwhile.
    let mut commit = core.commit.lock();
    let commit = commit.as_mut().ok_or(Error::Cancelled)?;
    let stays = |keyspace: &KeyspaceCore| !dropped.iter().any(|gone| gone.id == keyspace.id);
    end_needless_log(core, commit, stays)?;
    // The drop is durable at once: what was written before it, as the same records to another
    // keyspace, must be there after a power cut too.
    commit.sync(core)?;
    let mut versions = core.lock_versions()?;
    let mut keyspaces = Keyspaces::clone(&core.keyspaces.load());
    let mut edit = VersionEdit::new();
    for keyspace in dropped {
        if keyspaces.by_id.remove(&keyspace.id).is_none() {
            return Err(Error::invalid(format!("no keyspace {:?}", keyspace.name)));
        }
        edit.push(Change::KeyspaceDropped(keyspace.id));
    }
    let wal_min = (!core.is_external())
        .then(|| forget_wals(core, &versions, |keyspace, _| stays(keyspace), &mut edit));
    if let Err(error) = versions.commit(edit, None) {
        let is_in_doubt = versions.is_in_doubt();
        std::mem::drop(versions);
        if is_in_doubt {
            // What is written to them from now on must not be passed over after a crash.
            commit.give_up_log(core);
        }
        return Err(error);
    }
    core.measure_values(&versions);
    for keyspace in dropped {
        keyspace.dropped.store(true, Ordering::Release);
    }
    core.keyspaces.store(Arc::new(keyspaces));
    for keyspace in dropped {
        empty(core, keyspace);
    }
    let map = versions.value_map().clone();
    std::mem::drop(versions);
    if let Some(wal_min) = wal_min {
        remove_wals(core, wal_min, &map);
        // What most of their records were for may have been dropped.
        commit.flush_who_pins(core);
    }
    // Nobody is slowed any more by what had piled up in them.
    core.measure_level0();
    core.background.wake_all();
    // A flush that failed may have been one of theirs.
    core.background.ask_for_flushes();
    core.store.sweep();
    Ok(())
}

/// Goes on to the next log if the one that is written is long, and `stays` says of nobody who has
/// records in it.
fn end_needless_log(
    core: &Core,
    commit: &mut CommitState,
    stays: impl Fn(&KeyspaceCore) -> bool,
) -> Result<()> {
    let keyspaces = core.keyspaces.load();
    let is_needed = || keyspaces.by_id.values().any(|k| stays(k) && k.has_memtables());
    let kept_bytes = (core.options.wal_bytes_max / NEEDLESS_SHARE).min(NEEDLESS_BYTES_MAX);
    if commit.journal.len_bytes() <= kept_bytes || is_needed() {
        return Ok(());
    }
    // Where there is no space for another one, the drop may be what makes some.
    let _ = commit.rotate(core);
    core.check_writable()
}

/// Lets go of what a dropped keyspace held: handles to it may live on.
fn empty(core: &Core, keyspace: &KeyspaceCore) {
    keyspace.update_view(|view| {
        core.release_memtable_bytes(keyspace.counted_bytes.swap(0, Ordering::Relaxed));
        view.active = Arc::new(Memtable::new(keyspace.options.order.clone()));
        view.sealed.drain(..).for_each(|sealed| core.release_memtable_bytes(sealed.memory_bytes));
        view.logs = Arc::default();
        view.version = Arc::default();
        view.coverage = None;
    });
}

/// Seals the memtables of these keyspaces and waits until they are tables.
pub(super) fn flush(core: &Core, ids: &[KeyspaceId]) -> Result<()> {
    core.check_writable()?;
    if core.is_external() {
        // What was written together becomes persistent together.
        return core.flush_epochs();
    }
    core.retry_failed_flush()?;
    {
        let mut commit = core.commit.lock();
        commit.as_mut().ok_or(Error::Cancelled)?.seal(core, ids)?;
    }
    let asked = core.background.ask_for_flushes();
    let keyspaces = core.keyspaces.load_full();
    for keyspace in ids.iter().filter_map(|&id| keyspaces.get(id)) {
        let sealed = keyspace.view.load().sealed.clone();
        let waiting = |keyspace: &KeyspaceCore| {
            let view = keyspace.view.load();
            view.sealed.iter().any(|now| sealed.iter().any(|then| Arc::ptr_eq(now, then)))
        };
        while waiting(keyspace) {
            core.check_writable()?;
            core.wait_asked(asked, WAIT)?;
        }
    }
    Ok(())
}

/// Waits until no memtable is sealed, no compaction is due, none is paid for, and no run index is
/// due.
pub(super) fn wait_idle(core: &Core) -> Result<()> {
    let busy = |keyspace: &Arc<KeyspaceCore>| {
        let view = keyspace.view.load();
        let options = keyspace.compacted_by.load();
        let scores = policy::scores(&view.version, &options);
        !view.sealed.is_empty()
            || scores.iter().any(|score| score.is_over())
            || keyspace.toll.is_paid()
            || keyspace.is_paid_by_scans(&view.version)
            || keyspace.wants_index()
            || view.version.has_partly_erased(&options.order)
            || keyspace.pick_small(core, &view.version, &options).is_some()
            || ((core.value_use.is_tight.load(Ordering::Relaxed)
                || core.value_use.is_wasteful.load(Ordering::Relaxed))
                && policy::pick_for_values(&view.version, &options).is_some())
    };
    let asked = core.background.ask_for_all();
    loop {
        core.check_writable()?;
        let keyspaces = core.keyspaces.load_full();
        if keyspaces.by_id.values().any(|keyspace| keyspace.toll.falls_due()) {
            core.background.wake_workers();
        }
        // What a job has taken does not count as over a limit, and what it has made may be over the
        // next one: none may have ended while it was looked.
        let begun = core.background.begun_if_none_runs();
        let busy = keyspaces.by_id.values().any(busy) || core.value_use.is_busy();
        if !busy && begun.is_some() && core.background.begun_if_none_runs() == begun {
            // What the last reader of it let go has no job left that would remove it.
            core.store.sweep();
            return Ok(());
        }
        core.wait_asked(asked, WAIT)?;
    }
}

/// About how many bytes of table files the keys of a range take.
pub(super) fn approximate_size(
    keyspace: &KeyspaceCore,
    start: Option<&[u8]>,
    end: Option<&[u8]>,
) -> Result<u64> {
    let order = &keyspace.options.order;
    let range = KeyRange { start, end, end_inclusive: false };
    let view = keyspace.view.load();
    let mut total = 0;
    for (_, run) in view.version.runs() {
        for table in run.overlapping(order, &range) {
            let reader = table.shared_reader()?;
            let from = start.map_or(0, |start| reader.approximate_offset(start));
            let whole = end.is_none_or(|end| table.ends_before(order, end));
            let to = match end {
                Some(end) if !whole => reader.approximate_offset(end),
                _ => table.meta.file_bytes,
            };
            total += to.saturating_sub(from);
        }
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use crate::db::{Db, ScanOptions, Setup};
    use crate::options::{KeyspaceOptions, Options};
    use esker_base::vfs::strict::StrictVfs;
    use esker_base::{Env, Error};
    use std::sync::Arc;

    #[test]
    fn a_read_that_a_drop_overtakes_fails_rather_than_finds_nothing() {
        let env = Env::with_vfs(Arc::new(StrictVfs::new()), 1);
        let setup = Setup { env, inline_background: true, ..Setup::default() };
        let db = Db::open_with("/db", Options::default(), setup).expect("open");
        let guest = db.create_keyspace("guest", KeyspaceOptions::default()).expect("create");
        guest.put(b"key", b"value").expect("put");
        let snapshot = db.snapshot();
        db.drop_keyspace("guest").expect("drop");
        // As one goes on that had looked whether it is there.
        let (core, keyspace) = (db.core(), &guest.core);
        let all = ScanOptions::default();
        let failures = [
            core.get(keyspace, b"key", None).err(),
            core.get(keyspace, b"key", Some(&snapshot)).err(),
            core.get_persisted(keyspace, b"key").err(),
            core.moment(keyspace, None).err(),
            core.scan(keyspace, &all).err(),
            core.scan_unordered(keyspace, &all, 1 << 20).err(),
            guest.multi_get(&[b"key"], None).err(),
            guest.iter().err(),
        ];
        for failure in failures {
            assert!(matches!(failure, Some(Error::InvalidArgument { .. })), "{failure:?}");
        }
        db.close().expect("close");
    }
}
