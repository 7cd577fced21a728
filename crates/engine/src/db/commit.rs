//! What a writer meets when something is full or must be durable: sealing memtables, going on to
//! the next log, waiting for memory, syncing.
//!
//! Everything here runs under `Core::commit`, one thread at a time. [`super::write`] calls it.
//!
//! Invariants: (1) a log that failed takes no more records: the next write starts a new one, whose
//! durable header makes whatever the failed append left behind void; (2) before a log is synced,
//! all older logs are durable.

use super::commit_state::{CommitState, RetiredWal};
use super::core::{BegunWal, Core, KeyspaceCore, Keyspaces, Sealed};
use super::epochs::Arrival;
use super::journal::Journal;
use super::spare;
use crate::event::Event;
use crate::log::Writer;
use crate::names;
use crate::trace::What;
use esker_base::sync::Mutex;
use esker_base::sync::atomic::{AtomicU64, Ordering};
use esker_base::{Batch, Error, KeyspaceId, Result, Seq};
use std::sync::Arc;
use std::time::Duration;

/// How long a writer waits for memory before it looks again whether something is wrong.
const ROOM_WAIT: Duration = Duration::from_millis(50);

/// Logs that are kept for what is in memory, before it is flushed for them.
const LOGS_MAX: usize = 32;

/// How long a group waits for level 0 at the most.
const LEVEL0_WAIT_MS_MAX: u64 = 1_000;

/// True if some memtable is about to be flushed.
fn is_on_its_way(core: &Core) -> bool {
    core.keyspaces.load().by_id.values().any(|keyspace| !keyspace.view.load().sealed.is_empty())
}

/// The keyspace with the largest memtable that is written to, unless all are empty.
fn largest(core: &Core) -> Option<KeyspaceId> {
    let keyspaces = core.keyspaces.load();
    // One that nothing was written to but ranges without keys has memory, and is never sealed.
    let holds = |keyspace: &&Arc<KeyspaceCore>| !keyspace.view.load().active.is_empty();
    let held = |keyspace: &&Arc<KeyspaceCore>| keyspace.counted_bytes.load(Ordering::Relaxed);
    keyspaces.by_id.values().filter(holds).max_by_key(held).map(|largest| largest.id)
}

/// The keyspace whose active memtable needs the oldest log.
pub(super) fn who_pins(keyspaces: &Keyspaces) -> Option<&Arc<KeyspaceCore>> {
    let holds = |keyspace: &&Arc<KeyspaceCore>| !keyspace.view.load().active.is_empty();
    let first = |k: &&Arc<KeyspaceCore>| k.view.load().active_first_wal.load(Ordering::Relaxed);
    keyspaces.by_id.values().filter(holds).min_by_key(first)
}

/// The same, unless a memtable that waits for a flush needs one as old: then another one would make
/// the wait longer, and no log go.
pub(super) fn who_alone_pins(keyspaces: &Keyspaces) -> Option<&Arc<KeyspaceCore>> {
    let oldest_sealed = keyspaces.by_id.values().filter_map(|keyspace| {
        keyspace.view.load().sealed.iter().map(|sealed| sealed.first_wal).min()
    });
    let oldest_sealed = oldest_sealed.min().unwrap_or(u64::MAX);
    let first = |k: &Arc<KeyspaceCore>| k.view.load().active_first_wal.load(Ordering::Relaxed);
    who_pins(keyspaces).filter(|pins| first(pins) < oldest_sealed)
}

/// Waits until compactions have made level 0 smaller, but no longer than [`LEVEL0_WAIT_MS_MAX`]:
/// where none can, as on a full disk, writes go on, slowly.
pub(super) fn wait_for_level0(core: &Core) -> Result<()> {
    let started = core.env.clock.now_ns();
    let waited_ns = || core.env.clock.now_ns() - started;
    while core.stall.is_level0_over() && waited_ns() < LEVEL0_WAIT_MS_MAX * 1_000_000 {
        core.check_writable()?;
        match core.wait_progress(ROOM_WAIT) {
            Err(Error::Cancelled) => return Err(Error::Cancelled),
            // Whoever needs a flush is told that it fails.
            Err(_) => break,
            // Without threads all was done that can be.
            Ok(()) if core.background.is_inline() => break,
            Ok(()) => {}
        }
    }
    core.stall.note_wait(waited_ns());
    Ok(())
}

/// Waits until flushes have made what sealed epochs name less than too much.
fn wait_for_epochs(core: &Core) -> Result<()> {
    let started = core.env.clock.now_ns();
    let mut waited = false;
    while core.epochs.lock().oldest_of_too_many().is_some() {
        core.check_writable()?;
        core.wait_progress(ROOM_WAIT)?;
        waited = true;
    }
    if waited {
        core.note_stop(core.env.clock.now_ns() - started);
    }
    Ok(())
}

impl Core {
    /// True if the logs that are written no more are more than they should be, by their bytes,
    /// these included, or by their number.
    fn has_too_many_logs(&self, bytes: u64) -> bool {
        let retired = self.retired_wal_bytes.load(Ordering::Relaxed);
        retired + bytes > self.options.wal_bytes_max || self.do_logs_pile_up()
    }

    /// True if the logs that are written no more are too many: each is opened when the store is,
    /// kept by every checkpoint, and may have a file open.
    pub(super) fn do_logs_pile_up(&self) -> bool {
        self.retired.lock().len() > LOGS_MAX
    }

    /// Counts and tells that nobody could write for so long.
    fn note_stop(&self, ns: u64) {
        self.stall.note_wait(ns);
        self.tell_stop(ns);
    }

    /// Tells that nobody could write for so long.
    fn tell_stop(&self, ns: u64) {
        for keyspace in self.keyspaces.load().by_id.values() {
            self.tell_step(keyspace, What::Stopped { duration_us: ns / 1_000 });
        }
    }
}

impl CommitState {
    /// Writers are about to be slowed, and no memtable is on its way out: of many keyspaces none
    /// may be full by itself. The largest is sealed before the next group.
    #[cold]
    pub(super) fn choose_to_seal(&mut self, core: &Core) {
        if self.full.is_empty() && !is_on_its_way(core) {
            self.full.extend(largest(core));
        }
    }

    /// Takes the next sequence number for something that is not in the log.
    ///
    /// A record without operations stands in for it, so that the log shows no gap.
    pub(super) fn take_seq(&mut self, core: &Core) -> Result<Seq> {
        // Nothing goes into memory: that it is full, because the disk is, does not stop what may
        // make room there.
        if self.journal.is_broken() {
            self.rotate(core)?;
        }
        let seq = self.next_seq;
        let mut filler = Batch::new();
        // An empty range: it takes a number and hides nothing.
        filler.delete_range(b"", b"");
        self.journal.append(filler.seal(seq))?;
        self.next_seq += 1;
        Ok(seq)
    }

    /// Makes everything logged so far durable.
    ///
    /// # Errors
    /// Any error poisons the database: nobody knows what is on the disk.
    pub(super) fn sync(&mut self, core: &Core) -> Result<()> {
        core.counters.syncs.fetch_add(1, Ordering::Relaxed);
        sync_retired(core, self.number)?;
        self.journal
            .sync()
            .inspect_err(|error| core.poison(format!("syncing the log: {error}")))?;
        // An older log may have failed in another thread's hands.
        core.check_writable()
    }

    /// Sees to it that a group of so many bytes can be written: memory, and a log that takes
    /// records.
    ///
    /// # Errors
    /// Nothing was written.
    #[cold]
    pub(super) fn make_room(&mut self, core: &Core, bytes: u64) -> Result<()> {
        if !self.full.is_empty() {
            if core.is_external() {
                wait_for_epochs(core)?;
            }
            let full = std::mem::take(&mut self.full);
            if let Err(error) = self.seal(core, &full) {
                self.full = full;
                return Err(error);
            }
        }
        if self.journal.is_broken() {
            self.rotate(core)?;
        }
        if core.stall.is_level0_over() {
            let started = core.env.clock.now_ns();
            wait_for_level0(core)?;
            core.tell_stop(core.env.clock.now_ns() - started);
        }
        let limit = core.memtables_limit_bytes;
        if core.memtable_bytes.load(Ordering::Relaxed) + bytes <= limit {
            return Ok(());
        }
        self.wait_for_memory(core, limit.saturating_sub(bytes))
    }

    /// Waits until flushes have brought the memtables under `limit`.
    ///
    /// The rate limit sees to it that this is rare; it is what keeps the budget when it errs.
    fn wait_for_memory(&mut self, core: &Core, limit: u64) -> Result<()> {
        let started = core.env.clock.now_ns();
        while core.memtable_bytes.load(Ordering::Relaxed) > limit {
            core.check_writable()?;
            if !is_on_its_way(core) {
                match largest(core) {
                    Some(id) => self.seal(core, &[id])?,
                    None => break,
                }
            }
            core.wait_progress(ROOM_WAIT)?;
        }
        core.note_stop(core.env.clock.now_ns() - started);
        Ok(())
    }

    /// Seals the active memtables of these keyspaces, as far as they hold anything; of all where
    /// there is no log.
    ///
    /// # Errors
    /// Nothing was sealed; the memtables go on as they are.
    pub(super) fn seal(&mut self, core: &Core, ids: &[KeyspaceId]) -> Result<()> {
        let keyspaces = core.keyspaces.load_full();
        let holds = |k: &&Arc<KeyspaceCore>| !k.view.load().active.is_empty();
        if core.is_external() {
            if core.has_applied() || keyspaces.by_id.values().any(|k| holds(&k)) {
                self.seal_all(core, None);
            }
            return Ok(());
        }
        let mut chosen: Vec<&Arc<KeyspaceCore>> =
            ids.iter().filter_map(|&id| keyspaces.get(id)).filter(holds).collect();
        if chosen.is_empty() {
            return Ok(());
        }
        self.rotate(core)?;
        if core.has_too_many_logs(0) {
            // However little it holds.
            chosen.extend(who_alone_pins(&keyspaces).filter(|k| !ids.contains(&k.id)));
        }
        for keyspace in chosen {
            self.seal_one(core, keyspace);
        }
        core.background.wake_workers();
        Ok(())
    }

    /// Seals the memtable that keeps the logs, if they are more than they should be.
    pub(super) fn flush_who_pins(&mut self, core: &Core) {
        if !core.has_too_many_logs(self.journal.len_bytes()) {
            return;
        }
        if let Some(pins) = who_alone_pins(&core.keyspaces.load_full()).map(|keyspace| keyspace.id)
        {
            // If that fails, they stay until the next memtable is sealed.
            let _ = self.seal(core, &[pins]);
        }
    }

    /// Ends the epoch: all memtables that hold anything are sealed together, and become tables by
    /// one edit; what arrives comes into force with it.
    pub(super) fn seal_all(&mut self, core: &Core, arrival: Option<Arc<Arrival>>) {
        self.begin_epoch(core);
        for keyspace in core.keyspaces.load_full().by_id.values() {
            if !keyspace.view.load().active.is_empty() {
                self.seal_one(core, keyspace);
            }
        }
        self.epoch = core.seal_epoch(self.number, self.last_seq(), arrival);
        core.background.wake_workers();
    }

    fn begin_epoch(&mut self, core: &Core) {
        self.number = core.store.new_number();
        *core.current_wal.lock() = BegunWal { number: self.number, first_seq: self.next_seq };
        self.renumber_empty(core);
    }

    /// Empty memtables will hold records of the current log at the earliest.
    fn renumber_empty(&self, core: &Core) {
        for keyspace in core.keyspaces.load().by_id.values() {
            let view = keyspace.view.load();
            if view.active.is_empty() {
                view.active_first_wal.store(self.number, Ordering::Relaxed);
            }
        }
    }

    fn seal_one(&self, core: &Core, keyspace: &KeyspaceCore) {
        let memory_bytes = keyspace.counted_bytes.swap(0, Ordering::Relaxed);
        let supply = core.supply.clone();
        keyspace.update_view(|view| {
            let next = Arc::new(view.active.successor(supply));
            let mem = std::mem::replace(&mut view.active, next);
            let first_wal = Arc::new(AtomicU64::new(self.number));
            let first_wal = std::mem::replace(&mut view.active_first_wal, first_wal);
            let first_wal = first_wal.load(Ordering::Relaxed);
            let (next_wal, seq) = (self.number, self.last_seq());
            let logs = std::mem::take(&mut view.logs);
            let sealed = Sealed { mem, memory_bytes, first_wal, next_wal, seq, logs };
            view.sealed.insert(0, Arc::new(sealed));
        });
        core.events.emit(&Event::MemtableSealed { keyspace: keyspace.id, memory_bytes });
    }

    /// True if the current log holds a record.
    pub(super) fn has_records(&self) -> bool {
        self.journal.has_records()
    }

    /// Goes on to the next log. Waits for the disk only if no spare is ready, or after a failed
    /// append.
    ///
    /// # Errors
    /// The old log stays the current one. It may take no more records.
    pub(super) fn rotate(&mut self, core: &Core) -> Result<()> {
        let Journal::Wal(wal) = &mut self.journal else { return Ok(()) };
        let mut slot = core.spare.lock();
        let first_seq = self.next_seq;
        let (number, mut writer) = spare::begin_next(core, slot.ready.take(), first_seq, wal)?;
        if wal.is_broken() {
            // What the failed append left behind is void only if this is durable.
            writer.sync_header().inspect_err(|error| core.poison_if_sync(error))?;
        }
        slot.wanted = false;
        self.spare_due_bytes = spare::due_bytes(core);
        let old = std::mem::replace(wal, writer);
        let (bytes, records_end) = (old.len_bytes(), old.records_end());
        self.number = number;
        // Whoever collects all logs looks at the current one first and then at these.
        let before = *core.current_wal.lock();
        let writer = Arc::new(Mutex::new(Some(old)));
        let BegunWal { number: old_number, first_seq: old_first } = before;
        let values = self.values.take();
        let value_bytes = std::mem::take(&mut self.value_bytes);
        let retired = RetiredWal {
            number: old_number,
            first_seq: old_first,
            bytes,
            value_bytes,
            records_end,
            values,
            writer,
        };
        core.retired_wal_bytes.fetch_add(bytes, Ordering::Relaxed);
        core.value_use.retired_bytes.fetch_add(value_bytes, Ordering::Relaxed);
        core.retired.lock().push(retired);
        *core.current_wal.lock() = BegunWal { number, first_seq };
        drop(slot);
        self.renumber_empty(core);
        core.background.wake_workers();
        Ok(())
    }

    /// Has the next write go on to another log, with a manifest in force that holds no edit that
    /// failed: what a log takes behind such an edit may be passed over after a crash.
    #[cold]
    pub(super) fn give_up_log(&mut self, core: &Core) {
        if let Some(wal) = self.journal.wal() {
            wal.give_up();
        }
        // It would be begun without a look at the manifest.
        spare::discard(core);
    }

    /// The current log is long enough for the next one to be made ready.
    #[cold]
    pub(super) fn ask_for_spare(&mut self, core: &Core) {
        self.spare_due_bytes = u64::MAX;
        core.spare.lock().wanted = true;
        core.background.wake_workers();
    }

    /// Ends the log: all of it is durable when this returns.
    pub(super) fn close(self, core: &Core) -> Result<Seq> {
        let last_seq = self.last_seq();
        sync_retired(core, self.number)?;
        self.journal.close()?;
        Ok(last_seq)
    }
}

/// Makes all logs older than `before` durable and closes them.
pub(super) fn sync_retired(core: &Core, before: u64) -> Result<()> {
    sync_writers(core, retired_before(core, before))
}

/// A log that takes no more records, by number; `None` if it is durable and closed.
type Retired = (u64, Arc<Mutex<Option<Writer>>>);

/// All logs older than `before` that are not forgotten.
pub(super) fn retired_before(core: &Core, before: u64) -> Vec<Retired> {
    let retired = core.retired.lock();
    let older = retired.iter().filter(|wal| wal.number < before);
    older.map(|wal| (wal.number, wal.writer.clone())).collect()
}

/// Makes logs durable and closes them.
pub(super) fn sync_writers(core: &Core, retired: Vec<Retired>) -> Result<()> {
    for (number, writer) in retired {
        let path = names::wal(&core.dir, number);
        let mut slot = writer.lock();
        let Some(wal) = slot.as_mut() else { continue };
        // If that fails it stays, and whoever comes next is told the same.
        wal.sync_last().inspect_err(|error| core.poison(format!("syncing an old log: {error}")))?;
        // It only keeps space it does not need.
        let finished = slot.take().map_or(Ok(()), Writer::finish);
        if let Err(error) = finished {
            core.events.emit(&Event::CleanupFailed { path, error });
        }
    }
    Ok(())
}

#[cfg(all(test, not(any(esker_loom, esker_shuttle))))]
mod tests {
    use super::*;
    use crate::db::{Db, Setup};
    use crate::options::{KeyspaceOptions, Options, WriteOptions};
    use esker_base::vfs::faulty::{Fault, FaultRule, FaultyVfs, Op};
    use esker_base::vfs::strict::{StrictVfs, Survival};
    use esker_base::{Env, Vfs};
    use std::path::Path;

    fn open(vfs: Arc<dyn Vfs>) -> Db {
        let env = Env::with_vfs(vfs, 1);
        let setup = Setup { env, inline_background: true, ..Setup::default() };
        Db::open_with("/db", Options::default(), setup).expect("open")
    }

    fn store() -> (FaultyVfs, Db) {
        let vfs = FaultyVfs::new(Arc::new(StrictVfs::new()));
        let db = open(Arc::new(vfs.clone()));
        db.put(b"k", b"v").expect("put");
        (vfs, db)
    }

    /// Whoever waited for the thread to which the disk said so, or comes later, must be told too.
    #[test]
    fn an_old_log_that_could_not_be_synced_is_durable_for_nobody() {
        let (vfs, db) = store();
        let core = db.core();
        core.commit.lock().as_mut().expect("open").rotate(core).expect("the next log");
        vfs.inject(FaultRule::nth(1, &[Op::Sync], Fault::Eio));
        let first = sync_retired(core, u64::MAX).expect_err("the disk fails").to_string();
        vfs.heal();
        for _ in 0..2 {
            let again = sync_retired(core, u64::MAX).expect_err("it is not durable");
            assert_eq!(again.to_string(), first);
        }
        assert!(core.check_writable().is_err() && db.close().is_err());
    }

    /// A flush forgets the log of what it wrote, and need not sync it; a checkpoint that names it
    /// must.
    #[test]
    fn a_log_that_is_forgotten_can_still_be_made_durable() {
        let (_, db) = store();
        let core = db.core();
        let keyspace = db.default_keyspace().id();
        core.commit.lock().as_mut().expect("open").seal(core, &[keyspace]).expect("sealed");
        let retired = retired_before(core, u64::MAX);
        db.flush().expect("flush");
        assert!(retired_before(core, u64::MAX).is_empty(), "it is forgotten");
        let slots: Vec<_> = retired.iter().map(|(_, slot)| slot.clone()).collect();
        assert!(slots.len() == 1 && slots[0].lock().is_some(), "nobody synced it");
        sync_writers(core, retired).expect("synced");
        assert!(slots[0].lock().is_none());
    }

    /// The manifest may say that another log was begun, from which on this one holds nothing.
    #[test]
    fn a_log_takes_nothing_behind_the_begin_of_another_that_may_be_in_force() {
        let disk = StrictVfs::new();
        let vfs = FaultyVfs::new(Arc::new(disk.clone()));
        let db = open(Arc::new(vfs.clone()));
        db.put(b"before", b"v").expect("put");
        let is_manifest = |path: &Path| path.to_string_lossy().contains("MANIFEST");
        // The header of the record, and then the edit.
        vfs.inject(FaultRule::nth(2, &[Op::Append], Fault::Late).on(is_manifest));
        db.flush().expect_err("no log follows, as the disk says");
        // All manifests that might follow fail too.
        let none = FaultRule::nth(1, &[Op::CreateLog], Fault::Eio).from_then_on();
        vfs.inject(none.on(is_manifest));
        let write = |key: &[u8]| {
            let mut batch = Batch::new();
            batch.put(key, b"v");
            db.write(batch, WriteOptions::SYNC)
        };
        let mut written: Vec<&[u8]> = vec![b"before"];
        written.extend(write(b"refused").is_ok().then_some(b"refused".as_slice()));
        let check = |written: &[&[u8]]| {
            for survival in [Survival::None, Survival::All] {
                let after = open(Arc::new(disk.crash(survival, 1)));
                for key in written {
                    let found = after.get(key).expect("get");
                    // It was not synced before it could not be.
                    let is_lost = *key == b"before" && survival == Survival::None;
                    assert!(found.is_some() || is_lost, "{}", key.escape_ascii());
                }
            }
        };
        check(&written);
        assert_eq!(written.len(), 1, "it would be in no log after a crash");
        vfs.heal();
        write(b"after").expect("write");
        written.push(b"after");
        check(&written);
        db.close().expect("close");
    }

    /// A log that is ready may be begun although that failed.
    #[test]
    fn a_log_takes_nothing_behind_the_header_of_another() {
        let disk = StrictVfs::new();
        let vfs = FaultyVfs::new(Arc::new(disk.clone()));
        let db = open(Arc::new(vfs.clone()));
        let core = db.core();
        db.put(b"before", b"v").expect("put");
        core.commit.lock().as_mut().expect("open").ask_for_spare(core);
        core.run_inline();
        let spare = core.spare.lock().ready.as_ref().map(|spare| spare.number);
        let path = names::wal(Path::new("/db"), spare.expect("one is ready"));
        vfs.inject(FaultRule::nth(1, &[Op::Append], Fault::Late).on(move |at| at == path));
        db.flush().expect_err("it is not begun, as the disk says");
        let mut batch = Batch::new();
        batch.put(b"after", b"v");
        db.write(batch, WriteOptions::SYNC).expect("write");
        for survival in [Survival::None, Survival::All] {
            let after = open(Arc::new(disk.crash(survival, 1)));
            assert!(after.get(b"after").expect("get").is_some());
        }
        db.close().expect("close");
    }

    /// Nor behind a drop that may be in force.
    #[test]
    fn what_is_written_after_a_drop_that_failed_is_there() {
        let disk = StrictVfs::new();
        let vfs = FaultyVfs::new(Arc::new(disk.clone()));
        for has_spare in [false, true] {
            let db = open(Arc::new(vfs.clone()));
            let guest = db.create_keyspace("guest", KeyspaceOptions::default()).expect("create");
            if has_spare {
                let core = db.core();
                core.commit.lock().as_mut().expect("open").ask_for_spare(core);
                core.run_inline();
            }
            let is_manifest = |path: &Path| path.to_string_lossy().contains("MANIFEST");
            vfs.inject(FaultRule::nth(2, &[Op::Append], Fault::Late).on(is_manifest));
            db.drop_keyspace("guest").expect_err("as the disk says");
            let mut batch = Batch::new();
            batch.put_in(&guest, b"key", b"v");
            db.write(batch, WriteOptions::SYNC).expect("write");
            for survival in [Survival::None, Survival::All] {
                let after = open(Arc::new(disk.crash(survival, 1)));
                let guest = after.keyspace("guest").expect("it is there");
                assert!(guest.get(b"key").expect("get").is_some());
            }
            db.drop_keyspace("guest").expect("drop");
            db.close().expect("close");
        }
    }

    /// Nor for somebody who gets the right to write just after its sync failed.
    #[test]
    fn the_log_that_could_not_be_synced_is_durable_for_nobody() {
        let (vfs, db) = store();
        let core = db.core();
        let mut commit = core.commit.lock();
        let state = commit.as_mut().expect("open");
        vfs.inject(FaultRule::nth(1, &[Op::Sync], Fault::Eio));
        assert!(state.sync(core).is_err());
        vfs.heal();
        state.take_seq(core).expect("a number");
        let durable_bytes = |state: &mut CommitState| {
            state.journal.wal().expect("a store with a log").durable_bytes()
        };
        let before = durable_bytes(state);
        assert!(state.sync(core).is_err());
        assert_eq!(durable_bytes(state), before, "no mark vouches for it");
        assert!(state.rotate(core).is_err(), "nor does another one follow");
        drop(commit);
        assert!(db.close().is_err());
    }
}
