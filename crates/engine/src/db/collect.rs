//! Collecting values: when, and making the result current.
//!
//! A thread that compacts looks for work here when no level is over its limit. One collection runs at a time.

use super::collect_report::CollectReport;
use super::core::Core;
use super::flushing::oldest_needed_wal;
use super::separate::unflushed_bytes_max;
use crate::event::Event;
use crate::gc::{self, Balance, FileUse, Victim};
use crate::names;
use crate::value_log::{Place, ValueFileMeta};
use crate::version::{Change, Table, Version, VersionEdit, VersionSet, live_bytes};
use esker_base::sync::atomic::Ordering;
use esker_base::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Values of newer runs count as overwriting older ones, but never so much of all as to leave less than this.
const LIVE_SHARE_MIN: f64 = 0.75;

/// How long a collection by hand waits for another before it looks again.
const BUSY_WAIT: Duration = Duration::from_millis(50);

/// A collection whose files are chosen.
pub(super) struct Collection {
    victims: Vec<Victim>,
    /// The tables of all keyspaces, as of the choice.
    tables: Vec<Arc<Table>>,
}

impl Core {
    /// Takes note of how much of the files with values is pointed to, after a change of the versions.
    pub(super) fn measure_values(&self, versions: &VersionSet) {
        if versions.values().0.is_empty() && self.value_use.file_bytes.load(Ordering::Relaxed) == 0
        {
            return;
        }
        let tables = tables_of(versions);
        let live = live_bytes(tables.iter().map(|table| &table.meta));
        let files: u64 = versions.values().0.values().map(|meta| meta.file_bytes).sum();
        let Balance { total_bytes, total_bytes_max, .. } = self.balance(versions, &live);
        let usage = &self.value_use;
        usage.live_bytes.store(live.values().sum(), Ordering::Relaxed);
        usage.file_bytes.store(files, Ordering::Relaxed);
        usage.is_tight.store(total_bytes > total_bytes_max, Ordering::Relaxed);
        usage.changed.store(true, Ordering::Release);
    }

    /// Collects the values of all files of which at least such a share is dead.
    ///
    /// `progress` is called after each file that was written; returning false ends it with `Cancelled`.
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
        loop {
            if !self.value_use.begin() {
                self.wait_progress(BUSY_WAIT)?;
                continue;
            }
            let chosen = self.choose_values(|files, balance| {
                gc::with_dead_share(files, dead_share_min, balance.file_bytes)
            });
            let done = match chosen {
                Ok(Some(collection)) => collection.run(self),
                other => {
                    self.end_collection();
                    other?;
                    return Ok(report);
                }
            }?;
            report.add(&done);
            self.store.sweep();
            if !progress(&report) {
                return Err(Error::Cancelled);
            }
        }
    }

    /// Lets others collect. Threads that wanted to meanwhile look again.
    fn end_collection(&self) {
        self.value_use.end();
        self.background.wake_all();
    }

    /// The files that a rule chooses among those that may be collected.
    fn choose_values(
        &self,
        rule: impl FnOnce(&[FileUse], &Balance) -> Vec<u64>,
    ) -> Result<Option<Collection>> {
        let versions = self.lock_versions()?;
        let tables = tables_of(&versions);
        let live = live_bytes(tables.iter().map(|table| &table.meta));
        // Records of these may be in memtables.
        let needed_from = oldest_needed_wal(self, None);
        let is_needed = |meta: &ValueFileMeta| {
            meta.place == Place::Wal
                && (versions.wals().0.contains_key(&meta.number) || meta.number >= needed_from)
        };
        let files: Vec<FileUse> = versions
            .values()
            .0
            .values()
            .filter(|meta| !is_needed(meta))
            .map(|meta| FileUse {
                number: meta.number,
                file_bytes: meta.file_bytes,
                value_bytes: meta.value_bytes(),
                live_bytes: meta.logs.iter().filter_map(|log| live.get(log)).sum(),
            })
            .collect();
        let numbers = rule(&files, &self.balance(&versions, &live));
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
        Ok(Some(Collection { victims, tables }))
    }

    /// What the named files with values take, and what they may.
    ///
    /// Logs that no table points into yet, the one that comes next and a file that is being written need space too: they
    /// get a part of what may be wasted, a third at the most.
    fn balance(&self, versions: &VersionSet, live: &BTreeMap<u64, u64>) -> Balance {
        let pointed_to: u64 = live.values().sum();
        let newer: u64 = versions.keyspaces.values().map(|k| newer_bytes(&k.version)).sum();
        // At the worst, all that newer runs point to overwrites what older ones do.
        let live_min = (pointed_to as f64 * LIVE_SHARE_MIN) as u64;
        let live_bytes = pointed_to.saturating_sub(newer).max(live_min);
        let file_bytes = self.options.value_log_file_bytes;
        let waste = live_bytes as f64 * (self.options.value_log_space_amp_max - 1.0);
        let others = (unflushed_bytes_max(self) + 2 * file_bytes) as f64;
        let waste = waste - others.min(waste / 3.0);
        Balance {
            total_bytes: versions.values().0.values().map(|meta| meta.file_bytes).sum(),
            total_bytes_max: live_bytes + waste as u64,
            file_bytes,
        }
    }
}

/// The tables of all keyspaces.
fn tables_of(versions: &VersionSet) -> Vec<Arc<Table>> {
    versions.keyspaces.values().flat_map(|record| record.tables()).cloned().collect()
}

/// Bytes of values that all runs but the oldest point to.
fn newer_bytes(version: &Version) -> u64 {
    let mut runs: Vec<u64> = version.runs().map(|(_, run)| run.value_bytes()).collect();
    runs.pop();
    runs.iter().sum()
}

/// The collection that is due, if there is one. It counts as running.
pub(super) fn choose(core: &Core) -> Result<Option<Collection>> {
    if !core.value_use.changed.load(Ordering::Acquire) || !core.value_use.begin() {
        return Ok(None);
    }
    core.value_use.changed.store(false, Ordering::Release);
    let chosen = core.choose_values(gc::choose);
    match &chosen {
        Ok(Some(_)) => {}
        Ok(None) | Err(_) => core.value_use.end(),
    }
    chosen
}

/// Ends a collection in any case, so that others may begin. One that failed is due again.
struct Running<'a> {
    core: &'a Core,
    done: bool,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let usage = &self.core.value_use;
        if !self.done {
            usage.changed.store(true, Ordering::Release);
        }
        self.core.end_collection();
    }
}

impl Collection {
    /// Moves what is live and makes the new file current.
    pub(super) fn run(self, core: &Core) -> Result<CollectReport> {
        let mut running = Running { core, done: false };
        let started = core.env.clock.now_ns();
        let stop = || core.background.stopping();
        let moved = gc::collect(&core.store, &self.victims, &self.tables, &stop)?;
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
            versions.commit(edit, None).inspect_err(|error| core.poison_if_sync(error))?;
            for (id, record) in &versions.keyspaces {
                let Some(keyspace) = core.keyspace(*id) else { continue };
                let version = record.version.clone();
                keyspace.update_view(|view| view.follow(version, None));
            }
            core.measure_values(&versions);
        }
        running.done = true;
        core.value_use.collected.lock().add(&report);
        core.events.emit(&Event::ValuesMoved {
            number,
            files: report.files,
            bytes_before: report.bytes_before,
            bytes_after: report.bytes_after,
            duration_us: (core.env.clock.now_ns() - started) / 1_000,
        });
        Ok(report)
    }
}

/// Removes a new file that no manifest has named.
fn discard(core: &Core, number: u64) {
    if number != 0 {
        let _ = core.env.vfs.remove(&names::values(&core.dir, number));
    }
}
