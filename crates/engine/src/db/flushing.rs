//! Putting a flushed memtable in the place of the memtable: the flush job's other half.

use super::commit::sync_retired;
use super::commit_state::RetiredWal;
use super::core::{BegunWal, Core, KeyspaceCore, Sealed};
use super::external::SealedIn;
use crate::event::Event;
use crate::flush::{Hidden, flush_memtable};
use crate::names;
use crate::trace::{Amount, What};
use crate::value_log::{ValueFileMeta, ValueMap};
use crate::version::{Change, VersionEdit, VersionSet, Written};
use esker_base::sync::atomic::Ordering;
use esker_base::{Error, KeyspaceId, Result};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Memtables that become tables by one edit.
pub(super) struct FlushSet {
    /// Of each keyspace the oldest that is sealed.
    parts: Vec<Part>,
    /// The epoch that they are, in a store without a log.
    epoch: Option<u64>,
}

struct Part {
    keyspace: Arc<KeyspaceCore>,
    sealed: Arc<Sealed>,
    written: Written,
    /// How long that took.
    write_ns: u64,
}

impl FlushSet {
    /// What is flushed next: the sealed memtable with the oldest log, or the oldest epoch.
    pub(super) fn next(core: &Core) -> Option<FlushSet> {
        if core.is_external() {
            let (number, sealed) = core.oldest_epoch()?;
            return Some(FlushSet::of(sealed, Some(number)));
        }
        let keyspaces = core.keyspaces.load();
        let oldest = |keyspace: &Arc<KeyspaceCore>| {
            let sealed = keyspace.view.load().sealed.last().cloned()?;
            Some((keyspace.clone(), sealed))
        };
        let oldest = keyspaces.by_id.values().filter_map(oldest).min_by_key(|(_, s)| s.first_wal);
        oldest.map(|oldest| FlushSet::of(vec![oldest], None))
    }

    fn of(sealed: Vec<SealedIn>, epoch: Option<u64>) -> FlushSet {
        let part = |(keyspace, sealed)| Part {
            keyspace,
            sealed,
            written: Written::default(),
            write_ns: 0,
        };
        FlushSet { parts: sealed.into_iter().map(part).collect(), epoch }
    }

    /// Flushes it and makes the result current.
    pub(super) fn flush(mut self, core: &Core) -> Result<()> {
        let started = core.env.clock.now_ns();
        core.mend_manifest()?;
        let result = self.write(core).and_then(|()| self.sync_logs(core));
        if let Err(error) = result {
            self.discard(core);
            return Err(error);
        }
        self.install(core)?;
        let duration_ns = core.env.clock.now_ns() - started;
        self.tell(core, duration_ns);
        Ok(())
    }

    /// Writes the tables.
    fn write(&mut self, core: &Core) -> Result<()> {
        let snapshots = core.snapshots.list();
        for Part { keyspace, sealed, written, write_ns } in &mut self.parts {
            let started = core.env.clock.now_ns();
            let dropped = || keyspace.dropped.load(Ordering::Relaxed);
            if dropped() {
                continue;
            }
            #[cfg(esker_planted)]
            if super::planted::Planted::KeyspaceLeftOut.is_here()
                && keyspace.id != KeyspaceId::DEFAULT
            {
                continue;
            }
            let (options, origin) = (&keyspace.options, keyspace.origin());
            // A writer has put them into the log, if there is one.
            let file_bytes = core.is_external().then_some(core.options.value_log_file_bytes);
            let stop = || dropped() || core.background.stopping();
            let version = keyspace.view.load().version.clone();
            let (store, mem, hidden) = (&core.store, &sealed.mem, Hidden::of(&snapshots, &version));
            match flush_memtable(store, options, origin, mem, &hidden, file_bytes, &stop) {
                Ok(tables) => *written = tables,
                // The others are not dropped with it.
                Err(Error::Cancelled) if self.epoch.is_some() && dropped() => {}
                Err(error) => return Err(error),
            }
            *write_ns = core.env.clock.now_ns() - started;
        }
        Ok(())
    }

    /// What is older than this, or what its tables point to, must not be lost while these stay.
    fn sync_logs(&self, core: &Core) -> Result<()> {
        let tables = self.parts.iter().flat_map(|part| &part.written.tables);
        let points = tables.into_iter().any(|meta| !meta.references.is_empty());
        if points || core.keyspaces.load().by_id.len() > 1 {
            let newest = self.parts.iter().map(|part| part.sealed.next_wal).max();
            sync_retired(core, newest.unwrap_or(0))?;
        }
        Ok(())
    }

    /// Removes what was written and is named by nobody.
    fn discard(&self, core: &Core) {
        self.parts.iter().for_each(|part| part.written.remove(&core.store));
    }

    /// One edit: the tables join level 0, the memtables leave, logs nobody needs any more are
    /// forgotten.
    fn install(&self, core: &Core) -> Result<()> {
        let mut versions = core.lock_versions()?;
        let mut edit = VersionEdit::new();
        for Part { keyspace, sealed, written, .. } in &self.parts {
            let id = keyspace.id;
            if !versions.keyspaces.contains_key(&id) {
                written.remove(&core.store);
                continue;
            }
            let run = versions.new_run_id();
            edit.changes.extend(written.values.iter().cloned().map(Change::ValuesAdded));
            for meta in &written.tables {
                edit.push(Change::TableAdded { id, level: 0, run, meta: meta.clone() });
            }
            edit.push(Change::Flushed { id, seq: sealed.seq });
            tell_logs_of_values(core, &versions, sealed, written, &mut edit)?;
        }
        if let Some(number) = self.epoch {
            edit.changes.extend(core.tell_applied(number));
            // All keyspaces were sealed at once, those too that had nothing.
            let seq = core.epoch_seq(number);
            let told = |id: &KeyspaceId| self.parts.iter().any(|part| part.keyspace.id == *id);
            let others = versions.keyspaces.keys().filter(|id| !told(id));
            edit.changes.extend(others.map(|&id| Change::Flushed { id, seq }));
        }
        let arrival = self.epoch.and_then(|number| core.arrival(number));
        if let Some(arrival) = &arrival {
            arrival.add_to(&mut edit, core, &mut versions);
        }
        let leaves =
            |sealed: &Arc<Sealed>| self.parts.iter().any(|part| Arc::ptr_eq(&part.sealed, sealed));
        let wal_min =
            forget_wals(core, &versions, |_, sealed| sealed.is_none_or(|s| !leaves(s)), &mut edit);
        if let Err(error) = versions.commit(edit, None) {
            // They are the epoch's, and the next edit names them again.
            for (_, written) in arrival.iter().flat_map(|arrival| &arrival.parts) {
                versions.keep_files(written);
            }
            return Err(error);
        }
        if let Some(arrival) = &arrival {
            core.note_erased(&arrival.range, arrival.erased_seq);
        }
        core.measure_values(&versions);
        let map = versions.value_map().clone();
        for Part { keyspace, sealed, .. } in &self.parts {
            let record = versions.keyspaces.get(&keyspace.id);
            let version = record.map(|record| record.version.clone());
            keyspace.update_view(|view| {
                // If the keyspace was dropped meanwhile, the memtable is gone and its bytes are
                // released.
                if let Some(at) = view.sealed.iter().position(|other| Arc::ptr_eq(other, sealed)) {
                    core.release_memtable_bytes(view.sealed.remove(at).memory_bytes);
                }
                if let Some(version) = version {
                    view.follow(version, None);
                }
            });
        }
        if arrival.is_some() {
            // What was erased may have been in any keyspace.
            core.show_versions(&versions);
        }
        if let Some(number) = self.epoch {
            core.adopt_epoch(number);
        }
        drop(versions);
        remove_wals(core, wal_min, &map);
        Ok(())
    }

    /// Tells and counts what was done.
    fn tell(&self, core: &Core, duration_ns: u64) {
        let memory_bytes = self.parts.iter().map(|part| part.sealed.memory_bytes).sum();
        core.stall.note_flush(memory_bytes, duration_ns);
        core.measure_level0();
        // What all have in common, the edit above all, is divided among them.
        let apart_ns: u64 = self.parts.iter().map(|part| part.write_ns).sum();
        let common_ns = duration_ns.saturating_sub(apart_ns) / self.parts.len().max(1) as u64;
        for Part { keyspace, sealed, written, write_ns } in &self.parts {
            let duration_us = (write_ns + common_ns) / 1_000;
            let tables = &written.tables;
            let bytes_written: u64 = tables.iter().map(|meta| meta.file_bytes).sum();
            {
                let mut work = keyspace.level_work.lock();
                work[0].jobs += 1;
                work[0].bytes_written += bytes_written;
                work[0].duration_us += duration_us;
            }
            core.events.emit(&Event::Flushed {
                keyspace: keyspace.id,
                tables: tables.len() as u64,
                bytes_written,
                flushed_seq: sealed.seq,
                duration_us,
            });
            let written = Amount::of(tables.iter().map(|meta| meta.file_bytes));
            core.tell_step(keyspace, What::Flushed { written, duration_us });
        }
    }
}

/// Adds to an edit that the logs are forgotten which hold nothing but what is in tables by then, or
/// is to be lost. `stays` says of a keyspace whether the memtable that is written to is still
/// needed, and of its sealed ones which. Returns the first log that is not forgotten: `remove_wals`
/// is to follow the edit.
pub(super) fn forget_wals(
    core: &Core,
    versions: &VersionSet,
    stays: impl Fn(&KeyspaceCore, Option<&Arc<Sealed>>) -> bool,
    edit: &mut VersionEdit,
) -> u64 {
    let wal_min = oldest_needed_wal(core, stays);
    edit.push(Change::WalMin(wal_min));
    let begun = begun_wals(core);
    tell_begun_wals(versions, &begun, wal_min, edit);
    cover_forgotten(core, versions, &begun, wal_min, edit);
    wal_min
}

/// Adds to an edit the logs that its tables are the first to point into.
fn tell_logs_of_values(
    core: &Core,
    versions: &VersionSet,
    sealed: &Sealed,
    written: &Written,
    edit: &mut VersionEdit,
) -> Result<()> {
    let map = versions.value_map();
    let references = written.tables.iter().flat_map(|meta| &*meta.references);
    let own = |log: u64| written.values.iter().any(|file| file.number == log);
    let new = |log: &u64| map.find(*log).is_none() && !own(*log);
    let new: BTreeSet<u64> = references.map(|share| share.log).filter(new).collect();
    let retired = core.retired.lock();
    for log in new {
        let end = retired.iter().find(|wal| wal.number == log).map(|wal| wal.records_end);
        let (Some(file), Some(end_bytes)) = (sealed.logs.find(log), end) else {
            let what = "a memtable points to a log that is not there";
            return Err(Error::corruption(names::wal(&core.dir, log), 0, what));
        };
        let meta = ValueFileMeta::of_log(log, file.meta.salt, end_bytes);
        edit.push(Change::ValuesAdded(meta));
    }
    Ok(())
}

/// Logs that were begun since the database was opened, the current one at the end.
fn begun_wals(core: &Core) -> Vec<BegunWal> {
    let current = *core.current_wal.lock();
    let retired = core.retired.lock();
    let begun = |wal: &RetiredWal| BegunWal { number: wal.number, first_seq: wal.first_seq };
    retired.iter().map(begun).chain([current]).collect()
}

/// Adds to an edit that adds new tables what the manifest does not know yet of the logs from
/// `wal_min` on.
///
/// From now on tables may hold records of them, and only the manifest tells recovery where they
/// begin.
fn tell_begun_wals(
    versions: &VersionSet,
    begun: &[BegunWal],
    wal_min: u64,
    edit: &mut VersionEdit,
) {
    for &BegunWal { number, first_seq } in begun {
        let unknown = versions.wals().0.get(&number).is_some_and(|wal| wal.first_seq.is_none());
        if unknown && number >= wal_min {
            edit.push(Change::WalBegun { number, first_seq });
        }
    }
}

/// Says that all records of the logs that are forgotten are in tables.
///
/// Some are in none: those of keyspaces that were dropped. If they are the newest, the logs that
/// stay begin after a gap, which looks like lost records to the next open.
fn cover_forgotten(
    core: &Core,
    versions: &VersionSet,
    begun: &[BegunWal],
    wal_min: u64,
    edit: &mut VersionEdit,
) {
    if wal_min == core.opened_wal {
        // It holds copies of older records, and nothing was forgotten before it.
        return;
    }
    let Some(oldest) = begun.iter().find(|wal| wal.number == wal_min) else { return };
    let (id, covered) = (KeyspaceId::DEFAULT, oldest.first_seq - 1);
    let said = edit.changes.iter().find_map(|change| match change {
        Change::Flushed { id: flushed, seq } if *flushed == id => Some(*seq),
        _ => None,
    });
    let Some(record) = versions.keyspaces.get(&id) else { return };
    if covered > said.unwrap_or(record.flushed_seq) {
        // No memtable holds a record from before `wal_min`, so this is true of the default
        // keyspace.
        edit.push(Change::Flushed { id, seq: covered });
    }
}

/// The oldest log that holds a record of some memtable.
pub(super) fn oldest_wal_of_memtables(core: &Core) -> u64 {
    oldest_needed_wal(core, |_, _| true)
}

/// The same, of the memtables that stay.
///
/// Writers may go on to another log meanwhile: what becomes current later is newer.
fn oldest_needed_wal(
    core: &Core,
    stays: impl Fn(&KeyspaceCore, Option<&Arc<Sealed>>) -> bool,
) -> u64 {
    let mut oldest = core.current_wal.lock().number;
    for keyspace in core.keyspaces.load().by_id.values() {
        let view = keyspace.view.load();
        if !view.active.is_empty() && stays(keyspace, None) {
            oldest = oldest.min(view.active_first_wal.load(Ordering::Relaxed));
        }
        let sealed = view.sealed.iter().filter(|sealed| stays(keyspace, Some(sealed)));
        oldest = sealed.map(|sealed| sealed.first_wal).fold(oldest, u64::min);
    }
    oldest
}

/// Removes the files of logs below `wal_min`, which the manifest names no more.
///
/// Those that tables point into, by the map of values of the same version, stay. One with values
/// goes when nobody reads it any more.
pub(super) fn remove_wals(core: &Core, wal_min: u64, map: &ValueMap) {
    let mut gone = Vec::new();
    core.retired.lock().retain_mut(|wal| {
        let stays = wal.number >= wal_min;
        if !stays {
            core.retired_wal_bytes.fetch_sub(wal.bytes, Ordering::Relaxed);
            core.value_use.retired_bytes.fetch_sub(wal.value_bytes, Ordering::Relaxed);
            gone.push((wal.number, wal.values.take()));
        }
        stays
    });
    for (number, values) in gone {
        if map.find(number).is_some() {
            continue;
        }
        if let Some(file) = values {
            file.mark_obsolete();
            continue;
        }
        let path = names::wal(&core.dir, number);
        match core.store.in_directory(|vfs| vfs.remove(&path)) {
            // Of a store that was closed meanwhile, the next open removes it.
            Ok(()) | Err(Error::NotFound { .. } | Error::Cancelled) => {}
            Err(error) => core.events.emit(&Event::CleanupFailed { path, error }),
        }
    }
}
