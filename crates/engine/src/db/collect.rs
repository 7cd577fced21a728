//! Collecting values: when, and making the result current.
//!
//! A thread that compacts looks for work here when no level is over its limit. Several may collect
//! at once, each its own files: much of the time of one is waiting for the disk.

use super::collect_report::CollectReport;
use super::core::Core;
use super::flushing::oldest_wal_of_memtables;
use super::separate::unflushed_bytes_max;
use super::value_use::length_max;
use crate::compaction::policy;
use crate::event::Event;
use crate::gc::{self, Balance, FileUse, Victim};
use crate::names::{self, FileKind};
use crate::value_log::{Place, ValueFileMeta};
use crate::version::{Change, Table, VersionEdit, VersionSet, live_bytes};
use esker_base::sync::atomic::Ordering;
use esker_base::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What newer runs have counts as overwriting older ones as they did, but never so much of all as
/// to leave less than this.
const LIVE_SHARE_MIN: f64 = 0.75;

/// Space is short where more than this part of what may be wasted is known to be dead.
const SHORT_SHARE: f64 = 0.25;

/// So many files may be there beside those that tables point into and logs that wait to be flushed:
/// a log that came while one of these was flushed, the current one, the next one, and what two
/// collections write or are about to remove.
const OTHER_FILES: u64 = 9;

/// How long a collection by hand waits for another before it looks again.
const BUSY_WAIT: Duration = Duration::from_millis(50);

/// What files with values take, and what they may.
struct Limits {
    balance: Balance,
    /// From where on it is worth finding out what else is dead: as if all newer runs overwrote
    /// something.
    tight_from_bytes: u64,
    /// What these and logs that no table points into yet may take before writes are slowed.
    slow_from_bytes: u64,
    /// Where writes are slowest.
    bytes_max: u64,
    /// From where on a thread that has nothing else to do finds out what is dead, however much that
    /// may be.
    wasteful_from_bytes: u64,
    /// Of what is dead, at least as much is known to be as is not.
    is_known: bool,
}

/// What became of a collection.
pub(super) enum Ran {
    Done(CollectReport),
    /// Something that is needed cannot be read: its file stays as it is, and is not chosen any
    /// more, or for a while.
    PassedBy(Error),
}

/// A collection whose files are chosen.
pub(super) struct Collection {
    victims: Vec<Victim>,
    /// The tables of all keyspaces, as of the choice.
    tables: Vec<Arc<Table>>,
}

impl Core {
    /// Takes note of how much of the files with values is pointed to, after a change of the
    /// versions.
    pub(super) fn measure_values(&self, versions: &VersionSet) {
        if versions.values().0.is_empty() && self.value_use.file_bytes.load(Ordering::Relaxed) == 0
        {
            return;
        }
        let tables = tables_of(versions);
        let live = live_bytes(tables.iter().map(|table| &table.meta));
        let limits = self.limits(versions, &live);
        let Limits { balance, tight_from_bytes, slow_from_bytes, bytes_max, .. } = limits;
        let usage = &self.value_use;
        usage.slow_from_bytes.store(slow_from_bytes, Ordering::Relaxed);
        usage.bytes_max.store(bytes_max, Ordering::Relaxed);
        usage.length_max.store(balance.file_bytes, Ordering::Relaxed);
        usage.live_bytes.store(live.values().sum(), Ordering::Relaxed);
        usage.file_bytes.store(balance.total_bytes, Ordering::Relaxed);
        usage.is_tight.store(balance.total_bytes > tight_from_bytes, Ordering::Relaxed);
        let is_wasteful = balance.total_bytes > limits.wasteful_from_bytes;
        usage.is_wasteful.store(is_wasteful, Ordering::Relaxed);
        usage.is_known.store(limits.is_known, Ordering::Relaxed);
        usage.changed.store(true, Ordering::Release);
    }

    /// True if writes are slowed for want of a collection, and none runs. Where less is known to be
    /// dead than compactions would find, these are what helps.
    pub(super) fn is_collection_urgent(&self) -> bool {
        let usage = &self.value_use;
        let is_known = usage.is_known.load(Ordering::Relaxed);
        is_known && !usage.is_collecting() && self.values_fill() > 0.0
    }

    /// How far files with values are from where writes are slowed (0.0) to the most that they
    /// should take (1.0); negative below that, and where nothing is or may be collected that writes
    /// could wait for.
    pub(super) fn values_fill(&self) -> f64 {
        let usage = &self.value_use;
        if !usage.is_busy() || usage.failed.load(Ordering::Relaxed) {
            return -1.0;
        }
        let bytes =
            usage.file_bytes.load(Ordering::Relaxed) + usage.retired_bytes.load(Ordering::Relaxed);
        let from = usage.slow_from_bytes.load(Ordering::Relaxed) as f64;
        let to = usage.bytes_max.load(Ordering::Relaxed) as f64;
        (bytes as f64 - from) / (to - from).max(1.0)
    }

    /// How long until files with values that could not be read are tried again, if there are any.
    pub(super) fn next_value_retry(&self) -> Option<Duration> {
        self.value_use.unreadable.lock().left(self.env.clock.now_ns())
    }

    /// Collects the values of all files of which at least such a share is dead.
    ///
    /// `progress` is called after each file that was written; returning false ends it with
    /// `Cancelled`.
    pub(super) fn collect_values(
        &self,
        dead_share_min: f64,
        mut progress: impl FnMut(&CollectReport) -> bool,
    ) -> Result<CollectReport> {
        self.check_writable()?;
        if !(0.0..=1.0).contains(&dead_share_min) {
            return Err(Error::invalid(format!("dead share {dead_share_min} is outside 0 to 1")));
        }
        let mut report = CollectReport::default();
        let (mut waited, mut unreadable) = (false, None);
        // Files that were damaged may have been put back.
        self.value_use.unreadable.lock().clear();
        // What is made from now on is not looked at: while others overwrite there would be no end.
        let new_from = self.store.peek_number();
        loop {
            self.value_use.begin();
            let chosen = self.choose_values(|files, balance| {
                let mut old = files.to_vec();
                old.retain(|file| file.number < new_from);
                gc::with_dead_share(&old, dead_share_min, balance)
            });
            let done = match chosen {
                Ok(Some(collection)) => match collection.run(self)? {
                    Ran::Done(done) => done,
                    Ran::PassedBy(error) => {
                        unreadable.get_or_insert(error);
                        continue;
                    }
                },
                other => {
                    self.end_collection();
                    other?;
                    if waited {
                        return unreadable.map_or(Ok(report), Err);
                    }
                    // What others collect now is not looked at twice.
                    self.wait_collected()?;
                    waited = true;
                    continue;
                }
            };
            report.add(&done);
            self.store.sweep();
            if !progress(&report) {
                return Err(Error::Cancelled);
            }
        }
    }

    /// Waits for the collections that others run now.
    fn wait_collected(&self) -> Result<()> {
        let taken = self.value_use.taken.lock().clone();
        let is_taken = || {
            let now = self.value_use.taken.lock();
            taken.keys().any(|number| now.contains_key(number))
        };
        while is_taken() {
            self.check_writable()?;
            // Flushes may fail, as where the disk is full: that is why somebody collects.
            self.wait_others(BUSY_WAIT)?;
        }
        Ok(())
    }

    /// Lets others collect. Threads that wanted to meanwhile look again.
    fn end_collection(&self) {
        self.value_use.end();
        self.background.wake_all();
    }

    /// The files that a rule chooses among those that may be collected. They count as taken.
    fn choose_values(
        &self,
        rule: impl FnOnce(&[FileUse], &Balance) -> Vec<u64>,
    ) -> Result<Option<Collection>> {
        let versions = self.lock_versions()?;
        let tables = tables_of(&versions);
        let live = live_bytes(tables.iter().map(|table| &table.meta));
        let mut taken = self.value_use.taken.lock();
        let unreadable = {
            let mut unreadable = self.value_use.unreadable.lock();
            let files = versions.values();
            let live_bytes = |number| files.0.get(&number).map(|meta| live_of(meta, &live));
            unreadable.renew(self.env.clock.now_ns(), live_bytes);
            unreadable.numbers()
        };
        // Records of these may be in memtables.
        let needed_from = oldest_wal_of_memtables(self);
        let is_needed = |meta: &ValueFileMeta| {
            meta.place == Place::Wal
                && (versions.wals().0.contains_key(&meta.number) || meta.number >= needed_from)
        };
        let files: Vec<FileUse> = versions
            .values()
            .0
            .values()
            .filter(|meta| !is_needed(meta) && !taken.contains_key(&meta.number))
            .map(|meta| FileUse {
                number: meta.number,
                file_bytes: meta.file_bytes,
                value_bytes: meta.value_bytes(),
                live_bytes: live_of(meta, &live),
            })
            // Of one without live values nothing is read: it only goes.
            .filter(|file| file.live_bytes == 0 || !unreadable.contains(&file.number))
            .collect();
        let mut balance = self.limits(&versions, &live).balance;
        // What is dead in files that others collect will be gone. Those that are gone by now are
        // not in the total.
        let is_there = |number: &u64| versions.values().0.contains_key(number);
        let going = taken.iter().filter(|(number, _)| is_there(number)).map(|(_, bytes)| bytes);
        balance.total_bytes = balance.total_bytes.saturating_sub(going.sum());
        let numbers = rule(&files, &balance);
        if numbers.is_empty() {
            return Ok(None);
        }
        let map = versions.value_map();
        let victims = numbers.iter().map(|number| {
            let meta = versions.values().0[number].clone();
            let missing = "a file with values is not in the map of values";
            let file = meta.logs.first().and_then(|&log| map.find(log)).cloned();
            let file = file.ok_or_else(|| Error::corruption(meta.path(&self.dir), 0, missing))?;
            Ok(Victim { file, meta })
        });
        let victims = victims.collect::<Result<Vec<Victim>>>()?;
        let chosen = files.iter().filter(|file| numbers.contains(&file.number));
        taken.extend(chosen.map(|file| (file.number, file.dead_bytes())));
        Ok(Some(Collection { victims, tables }))
    }

    /// What the named files with values take, and what they may.
    ///
    /// Logs that no table points into yet, the current one and the next, and files that are being
    /// written need space too: they get a part of what may be wasted, a half at the most.
    fn limits(&self, versions: &VersionSet, live: &BTreeMap<u64, u64>) -> Limits {
        let pointed_to: u64 = live.values().sum();
        // What newer runs point to may overwrite what older ones do, as it did before.
        let (mut newer, mut overwritten) = (0, 0);
        for (&id, record) in &versions.keyspaces {
            let share = self.keyspace(id).map_or(1.0, |keyspace| keyspace.overwriting.share());
            let bytes = policy::newer_bytes(&record.version, &record.options.order);
            newer += bytes;
            overwritten += (bytes as f64 * share) as u64;
        }
        let live_min = (pointed_to as f64 * LIVE_SHARE_MIN) as u64;
        let least_bytes = pointed_to.saturating_sub(overwritten);
        let live_bytes = least_bytes.max(live_min);
        let amp = self.options.value_log_space_amp_max;
        let waste = live_bytes as f64 * (amp - 1.0);
        let unreadable = self.value_use.unreadable.lock().numbers();
        // What is dead in files that nobody collects is no reason to slow writes, or to collect
        // more of the others.
        let bytes_of = |meta: &ValueFileMeta| match unreadable.contains(&meta.number) {
            true => live_of(meta, live),
            false => meta.file_bytes,
        };
        let total_bytes: u64 = versions.values().0.values().map(bytes_of).sum();
        // What is known to be dead.
        let is_short = total_bytes as f64 > pointed_to as f64 + waste * SHORT_SHARE;
        let file_bytes = length_max(&self.options, live_bytes, is_short);
        let grouped = versions.keyspaces.values().filter(|record| record.options.groups.is_some());
        let alone_from_bytes = grouped.map(|record| record.options.group_table_bytes_min).min();
        let alone_from_bytes = alone_from_bytes.unwrap_or(u64::MAX);
        let unflushed = unflushed_bytes_max(self);
        let others = (unflushed + OTHER_FILES * file_bytes) as f64;
        let total_bytes_max = live_bytes + (waste - others.min(waste / 2.0)) as u64;
        let slow_from_bytes = total_bytes_max + unflushed + file_bytes;
        let unknown = ((newer - overwritten) as f64 * amp) as u64;
        Limits {
            balance: Balance { total_bytes, total_bytes_max, file_bytes, alone_from_bytes },
            tight_from_bytes: total_bytes_max.saturating_sub(unknown),
            slow_from_bytes,
            bytes_max: slow_from_bytes + 2 * file_bytes,
            wasteful_from_bytes: (least_bytes as f64 * amp) as u64 + OTHER_FILES * file_bytes,
            is_known: total_bytes.saturating_sub(pointed_to) >= overwritten,
        }
    }
}

/// Bytes of a file that tables point to.
fn live_of(meta: &ValueFileMeta, live: &BTreeMap<u64, u64>) -> u64 {
    meta.logs.iter().filter_map(|log| live.get(log)).sum()
}

/// The tables of all keyspaces.
fn tables_of(versions: &VersionSet) -> Vec<Arc<Table>> {
    versions.keyspaces.values().flat_map(|record| record.tables()).cloned().collect()
}

/// The collection that is due, if there is one. It counts as running.
pub(super) fn choose(core: &Core) -> Result<Option<Collection>> {
    let usage = &core.value_use;
    let is_due = || core.next_value_retry().is_some_and(|left| left.is_zero());
    if !usage.changed.load(Ordering::Acquire) && !is_due() {
        return Ok(None);
    }
    usage.begin();
    usage.changed.store(false, Ordering::Release);
    let chosen = core.choose_values(gc::choose);
    match &chosen {
        Ok(Some(_)) => {
            // There may be enough for others too.
            usage.changed.store(true, Ordering::Release);
            core.background.wake_workers();
        }
        Ok(None) | Err(_) => usage.end(),
    }
    chosen
}

/// Ends a collection in any case, so that others may take its files. One that failed is due again.
struct Running<'a> {
    core: &'a Core,
    files: Vec<u64>,
    done: bool,
    /// Another one may do without the file that was in the way.
    passed_by: bool,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let usage = &self.core.value_use;
        usage.taken.lock().retain(|number, _| !self.files.contains(number));
        usage.failed.store(!self.done && !self.passed_by, Ordering::Relaxed);
        if !self.done {
            usage.changed.store(true, Ordering::Release);
        }
        self.core.end_collection();
    }
}

impl Collection {
    /// Moves what is live and makes the new file current.
    pub(super) fn run(self, core: &Core) -> Result<Ran> {
        let files = self.victims.iter().map(|victim| victim.meta.number).collect();
        let mut running = Running { core, files, done: false, passed_by: false };
        let started = core.env.clock.now_ns();
        let stop = || core.background.stopping();
        core.mend_manifest()?;
        let moved = match gc::collect(&core.store, &self.victims, &self.tables, &stop) {
            Err(error) if self.pass_by(core, &error) => {
                running.passed_by = true;
                return Ok(Ran::PassedBy(error));
            }
            moved => moved?,
        };
        let report = CollectReport {
            files: self.victims.len() as u64,
            bytes_before: self.victims.iter().map(|victim| victim.meta.file_bytes).sum(),
            bytes_after: moved.as_ref().map_or(0, |meta| meta.file_bytes),
        };
        let mut edit = VersionEdit::new();
        for victim in &self.victims {
            edit.push(Change::ValuesRemoved(victim.meta.number));
        }
        let number = moved.as_ref().map_or(0, |meta| meta.number);
        edit.changes.extend(moved.map(Change::ValuesAdded));
        {
            let mut versions = core.lock_versions().inspect_err(|_| discard(core, number))?;
            versions.commit(edit, None)?;
            core.show_versions(&versions);
            core.measure_values(&versions);
        }
        running.done = true;
        core.value_use.collected.lock().add(&report);
        let duration_ns = core.env.clock.now_ns() - started;
        if report.bytes_after > 0 {
            core.stall.note_collection(report.freed_bytes(), duration_ns);
        }
        core.events.emit(&Event::ValuesMoved {
            number,
            files: report.files,
            bytes_before: report.bytes_before,
            bytes_after: report.bytes_after,
            duration_us: duration_ns / 1_000,
        });
        Ok(Ran::Done(report))
    }

    /// If what cannot be read is in one of the files that are collected, the others can be without
    /// it; if it is in a table, others may not need that. False if it is elsewhere.
    fn pass_by(&self, core: &Core, error: &Error) -> bool {
        let (path, is_damage) = match error {
            Error::Corruption { path, .. } => (path, true),
            Error::Io { path, .. } | Error::NotFound { path } => (path, false),
            _ => return false,
        };
        let unreadable = &core.value_use.unreadable;
        let now_ns = core.env.clock.now_ns();
        if let Some(victim) = self.victims.iter().find(|victim| victim.file.path() == path) {
            let number = victim.meta.number;
            if is_damage {
                let live = live_bytes(self.tables.iter().map(|table| &table.meta));
                unreadable.lock().note_damage(number, live_of(&victim.meta, &live), now_ns);
            } else {
                unreadable.lock().note_failure(number, now_ns);
            }
            core.events.emit(&Event::ValueUnreadable { error: error.clone() });
            return true;
        }
        let name = path.file_name().and_then(|name| name.to_str());
        let Some(FileKind::Table(number)) = name.and_then(names::parse).filter(|_| !is_damage)
        else {
            return false;
        };
        let table = self.tables.iter().find(|table| table.meta.number == number);
        // Only this table says which of their values are needed.
        let leads_into = |victim: &&Victim| {
            let references = table.iter().flat_map(|table| &*table.meta.references);
            references.into_iter().any(|share| victim.meta.logs.contains(&share.log))
        };
        let mut is_known = false;
        for victim in self.victims.iter().filter(leads_into) {
            unreadable.lock().note_failure(victim.meta.number, now_ns);
            is_known = true;
        }
        if is_known {
            core.events.emit(&Event::BackgroundRetry { error: error.clone() });
        }
        is_known
    }
}

/// Removes a new file that no manifest has named.
fn discard(core: &Core, number: u64) {
    if number != 0 {
        let path = names::values(&core.dir, number);
        let _ = core.store.in_directory(|vfs| vfs.remove(&path));
    }
}

#[cfg(all(test, not(any(esker_loom, esker_shuttle))))]
mod tests {
    use crate::db::{Db, Setup};
    use crate::options::Options;
    use esker_base::vfs::faulty::{Fault, FaultRule, FaultyVfs, Op};
    use esker_base::vfs::strict::StrictVfs;
    use esker_base::{Env, Error};
    use std::path::Path;
    use std::sync::{Arc, mpsc};
    use std::thread;
    use std::time::Duration;

    #[test]
    fn who_waits_for_others_is_not_told_of_flushes_that_failed_before() {
        let faulty = FaultyVfs::new(Arc::new(StrictVfs::new()));
        let is_table = |path: &Path| path.extension().is_some_and(|ending| ending == "tbl");
        let no_tables = FaultRule::nth(1, &[Op::Create], Fault::NoSpace).from_then_on();
        let env = Env::with_vfs(Arc::new(faulty.clone()), 1);
        let setup = Setup { env, ..Setup::default() };
        let db = Db::open_with("/db", Options::default(), setup).expect("open");
        db.put(b"key", b"value").expect("put");
        faulty.inject(no_tables.on(is_table));
        assert!(matches!(db.flush(), Err(Error::NoSpace { .. })));
        db.core().value_use.taken.lock().insert(1_000, 0);
        let (others, end) = (db.clone(), mpsc::channel::<()>());
        let others = thread::spawn(move || {
            let _ = end.1.recv_timeout(Duration::from_millis(100));
            others.core().value_use.taken.lock().clear();
        });
        let report = db.collect_values(0.0, |_| true).expect("nothing is in the way");
        assert_eq!(report.files, 0);
        assert!(db.core().value_use.taken.lock().is_empty(), "the others were waited for");
        others.join().expect("join");
        faulty.heal();
        db.close().expect("close");
    }
}
