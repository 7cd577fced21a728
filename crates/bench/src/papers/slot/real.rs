//! The experiments on real stores, on a slow disk in memory.
//!
//! Twice: as the store is, which slows writers, and has them wait for a second each at twice as
//! many runs; and with a writer that stops by itself while level 0 has as many runs as stop RocksDB
//! 2.5. The store's own pace stays on in both, since `priority` takes the number of runs from the
//! same options; on a disk this slow it lets through a megabyte a second at the least, which is
//! what the millisecond for each record of RocksDB 2.5 amounts to.

use super::{
    CHOSEN_MS, COLUMNS, DISK_BYTES_PER_SECOND, GB, Lab, MIB, NAMES, RECORD_BYTES, TABLE_MIB,
    options, schedules,
};
use crate::keys::{KeyShape, Shuffled};
use esker::base::Env;
use esker::base::env::{Clock, SystemClock};
use esker::base::vfs::strict::StrictVfs;
use esker::base::vfs::throttled::{DiskModel, ThrottledVfs};
use esker::event::Event;
use esker::trace::{Step, Trace, What};
use esker::{Db, KeyspaceOptions, Options, Scheduler, Setup};
use esker_draw::Outcome;
use esker_draw::units::duration;
use esker_lab::Summary;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

const KEY_BYTES: usize = 24;
const VALUE_BYTES: usize = 1_000;

/// How often a writer that has stopped looks again.
const LOOK_AGAIN: Duration = Duration::from_micros(200);

/// How a writer is held back, besides by the store.
#[derive(Clone, Copy)]
struct Held {
    heading: &'static str,
    /// Where drawings go.
    dir: &'static str,
    /// Runs of level 0 at which it stops.
    runs_max: usize,
    /// How many of the schedules are tried.
    schedules: usize,
}

const HELD: [Held; 2] = [
    Held { heading: "as it is", dir: "real", runs_max: usize::MAX, schedules: NAMES.len() },
    Held {
        heading: "its writer stops at 12 runs in level 0",
        dir: "real-stopped",
        runs_max: 12,
        schedules: 3,
    },
];

/// What happened to a store.
#[derive(Default)]
struct Seen {
    steps: Mutex<Vec<Step>>,
    level0_runs: AtomicUsize,
}

impl Lab<'_> {
    /// Every schedule on a real store.
    pub(super) fn real(&mut self, gigabytes: u64, scale: u64) -> Outcome<bool> {
        for held in HELD {
            let mut traces = Vec::new();
            let mut longest = Vec::new();
            for (name, scheduler) in schedules(CHOSEN_MS / scale).into_iter().take(held.schedules) {
                let what = format!("real store, {}: {name}", held.heading);
                let bytes = gigabytes * GB / scale;
                let Some((trace, put_ns)) = self.load(&what, scheduler, bytes, scale, held)? else {
                    return Ok(false);
                };
                traces.push((name.to_owned(), trace));
                longest.push(put_ns);
            }
            let heading = format!("Slot, on a real store, {}", held.heading);
            esker_lab::draw(&heading, &traces, &self.out.join(held.dir))?;
            let _ = write!(
                self.page,
                "\n## A real store, {}: {gigabytes} GB and everything else {scale} times smaller, {base} tables in level 1\n\n\
                 | schedule | a second | beside priority | written for each byte meanwhile | longest put | {COLUMNS}|{}\n",
                held.heading,
                "---|".repeat(12),
                base = self.base_tables,
            );
            let base = Summary::of(&traces[0].1);
            for ((name, trace), put_ns) in traces.iter().zip(longest) {
                let summary = Summary::of(trace);
                let amplification = format!("{:.2}", summary.write_amplification.unwrap_or(0.0));
                let longest = duration(put_ns as f64);
                self.row(&[name], &summary, &base, &[&amplification, &longest]);
            }
            self.keep()?;
        }
        Ok(true)
    }

    /// Loads a store. Returns what happened, and the nanoseconds that the longest put took.
    fn load(
        &mut self,
        name: &str,
        scheduler: Scheduler,
        bytes: u64,
        scale: u64,
        held: Held,
    ) -> Outcome<Option<(Trace, u64)>> {
        let clock = Arc::new(SystemClock::new());
        let seen = Arc::new(Seen::default());
        let tree = options(scheduler, TABLE_MIB * MIB / scale, self.base_tables);
        let db = open(tree, clock.clone(), seen.clone())?;
        let (shape, value) = (KeyShape::new(KEY_BYTES)?, vec![7; VALUE_BYTES]);
        let records = bytes / RECORD_BYTES;
        let (shuffled, mut key) = (Shuffled::new(records), Vec::new());
        let mut longest_ns = 0;
        for at in 0..records {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            key.clear();
            shape.write(shuffled.at(at), &mut key);
            // A stop before a put is a part of it, as it is where the store stops its writers.
            let from_ns = clock.now_ns();
            if seen.level0_runs.load(Ordering::Relaxed) >= held.runs_max {
                seen.wait(clock.as_ref(), held.runs_max);
            }
            db.put(&key, &value)?;
            longest_ns = longest_ns.max(clock.now_ns() - from_ns);
            if at.is_multiple_of(256) {
                self.progress.at(name, at, records);
            }
        }
        let loaded_us = clock.now_ns() / 1_000;
        // What is left to compact is not waited for: with priority that takes longer than the load.
        db.close()?;
        let steps = std::mem::take(&mut *seen.steps());
        Ok(Some((Trace { loaded_us, steps, ..Trace::default() }, longest_ns)))
    }
}

impl Seen {
    fn steps(&self) -> std::sync::MutexGuard<'_, Vec<Step>> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, step: &Step) {
        let runs = step.levels.first().map_or(0, |shape| shape.runs as usize);
        self.level0_runs.store(runs, Ordering::Relaxed);
        self.steps().push(step.clone());
    }

    /// Waits until level 0 has fewer runs, and notes it as a stop.
    fn wait(&self, clock: &dyn Clock, runs_max: usize) {
        let from_ns = clock.now_ns();
        while self.level0_runs.load(Ordering::Relaxed) >= runs_max {
            thread::sleep(LOOK_AGAIN);
        }
        let (at_us, duration_us) = (clock.now_ns() / 1_000, (clock.now_ns() - from_ns) / 1_000);
        let mut steps = self.steps();
        if let Some(last) = steps.last().cloned() {
            let at_us = at_us.max(last.at_us);
            steps.push(Step { at_us, what: What::Stopped { duration_us }, ..last });
        }
    }
}

fn open(tree: KeyspaceOptions, clock: Arc<SystemClock>, seen: Arc<Seen>) -> Outcome<Db> {
    let model = DiskModel { bytes_per_second: DISK_BYTES_PER_SECOND, seek_ns: 0 };
    let disk = ThrottledVfs::new(Arc::new(StrictVfs::new()), clock.clone(), model);
    let env = Env { clock, ..Env::with_vfs(Arc::new(disk), 1) };
    let listener = move |event: &Event| {
        if let Event::Step { step, .. } = event {
            seen.note(step);
        }
    };
    let options = Options {
        compaction_threads: 1,
        memory_budget_bytes: 64 * MIB,
        // Two, as simulated, or the least that a store takes.
        memtables_bytes_max: MIB.max(2 * tree.table_bytes_max),
        default_keyspace: tree,
        ..Options::default()
    };
    let setup = Setup {
        env,
        listener: Some(Arc::new(listener)),
        inline_background: false,
        ..Setup::default()
    };
    Ok(Db::open_with("/slot", options, setup)?)
}
