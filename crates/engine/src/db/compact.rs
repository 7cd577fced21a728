//! Choosing a compaction, running it, and making its result current.

use super::core::{Core, KeyspaceCore};
use crate::compaction::job::{self, JobContext, JobResult};
use crate::compaction::policy::leveled;
use crate::compaction::scheduler::priority;
use crate::event::{CompactionReason, Event};
use crate::version::{CompactionSpec, DEEPEST_LEVEL, KeyRange, Version};
use esker_base::sync::atomic::Ordering;
use esker_base::{Error, Result, Seq};
use std::sync::Arc;
use std::time::Duration;

/// How long a manual compaction waits for others before it looks again.
const BUSY_WAIT: Duration = Duration::from_millis(100);

/// Parts of a large compaction where there are no threads: so that what is tested without them is cut too.
const PARTS_INLINE: usize = 2;

/// How urgent it is to compact what scans have paid for: less than any level over its limit.
const FOR_SCANS: f64 = 0.5;

/// A compaction whose inputs are marked as taken.
pub(super) struct Chosen {
    keyspace: Arc<KeyspaceCore>,
    version: Arc<Version>,
    spec: CompactionSpec,
}

/// The most urgent compaction that can run now. It counts as running.
pub(super) fn choose(core: &Core) -> Result<Option<Chosen>> {
    // Marking inputs and reading versions must be one step.
    let _versions = core.lock_versions()?;
    let oldest_snapshot = core.snapshots.list().first().copied().unwrap_or(Seq::MAX);
    let keyspaces = core.keyspaces.load();
    let mut best: Option<(f64, Chosen)> = None;
    for keyspace in keyspaces.by_id.values() {
        let version = keyspace.view.load().version.clone();
        let scores = leveled::scores(&version, &keyspace.options);
        let urgent = priority::candidates(&scores).into_iter().find_map(|level| {
            let spec = leveled::pick(&version, &keyspace.options, level)?;
            Some((scores[level].score, spec))
        });
        let for_scans = leveled::pick_for_scans(&version, &keyspace.options);
        let paid = keyspace.toll.quote(for_scans.as_ref().map(CompactionSpec::input_bytes));
        let for_scans = for_scans.filter(|_| paid).map(|spec| (FOR_SCANS, spec));
        let found = urgent.or(for_scans).or_else(|| {
            let spec = leveled::pick_tombstones(&version, &keyspace.options, oldest_snapshot)?;
            Some((0.0, spec))
        });
        if let Some((score, spec)) = found
            && best.as_ref().is_none_or(|(other, _)| score > *other)
        {
            best = Some((score, Chosen { keyspace: keyspace.clone(), version, spec }));
        }
    }
    if let Some((_, chosen)) = &best {
        core.background.compactions_running.fetch_add(1, Ordering::Release);
        chosen.mark(true);
        // A table that only moves costs nothing.
        if chosen.spec.reason == CompactionReason::Scans && !chosen.spec.is_move {
            chosen.keyspace.toll.settle();
        }
    }
    Ok(best.map(|(_, chosen)| chosen))
}

impl Chosen {
    fn mark(&self, taken: bool) {
        for (_, table) in self.spec.tables() {
            table.compacting.store(taken, Ordering::Relaxed);
        }
    }

    /// Runs the compaction and makes its result current; frees the inputs in any case.
    pub(super) fn run(self, core: &Core) -> Result<()> {
        // Also when the job panics: nothing stays taken for ever.
        let _unmark = Unmark(&self);
        let spec = &self.spec;
        core.events.emit(&Event::CompactionStarted {
            keyspace: self.keyspace.id,
            reason: spec.reason,
            level: spec.level,
            output_level: spec.output_level,
            input_tables: spec.tables().count() as u64,
            input_bytes: spec.input_bytes(),
        });
        let started = core.env.clock.now_ns();
        let (keyspace, background) = (self.keyspace.clone(), core.background.clone());
        let context = JobContext {
            store: core.store.clone(),
            options: self.keyspace.options.clone(),
            origin: self.keyspace.origin(),
            version: self.version.clone(),
            snapshots: core.snapshots.list(),
            stop: Box::new(move || {
                keyspace.dropped.load(Ordering::Relaxed) || background.stopping()
            }),
        };
        let result = job::run(spec, context, self.parts_max(core), &*core.background)?;
        self.install(core, &result)?;
        self.account(core, &result, core.env.clock.now_ns() - started);
        Ok(())
    }

    /// As many parts as there are threads that could work on them.
    fn parts_max(&self, core: &Core) -> usize {
        if core.background.is_inline() {
            return PARTS_INLINE;
        }
        if !self.is_behind() {
            return 1;
        }
        let threads = core.options.compaction_thread_count();
        let idle = core.background.idle_compactors(threads);
        // Whoever compacts by hand is one of them, for the time it takes.
        (1 + idle).min(threads)
    }

    /// True if somebody waits for this, or soon will: writers who are about to be slowed, or the user. Otherwise
    /// more threads would only take the processors from those who write.
    fn is_behind(&self) -> bool {
        let runs = self.version.level(0).len() as u64;
        let slow = u64::from(self.keyspace.options.level0_runs_slow);
        self.spec.reason == CompactionReason::Manual || runs * 2 >= slow
    }

    fn install(&self, core: &Core, result: &JobResult) -> Result<()> {
        let mut versions = core.lock_versions()?;
        let id = self.keyspace.id;
        if !versions.keyspaces.contains_key(&id) {
            if !self.spec.is_move {
                core.store.discard(&result.tables);
            }
            return Err(Error::Cancelled);
        }
        // Another job may have made the output level's run in the meantime.
        let leveled_run = versions.keyspace(id)?.version.level(self.spec.output_level).first();
        let run = match leveled_run {
            Some(run) => run.id,
            None => self.spec.output_run.unwrap_or_else(|| versions.new_run_id()),
        };
        let edit = job::edit_of(id, &self.spec, result, run);
        versions.commit(edit, None).inspect_err(|error| core.poison_if_sync(error))?;
        let version = versions.keyspace(id)?.version.clone();
        self.keyspace.update_view(|view| view.version = version);
        Ok(())
    }

    fn account(&self, core: &Core, result: &JobResult, duration_ns: u64) {
        let spec = &self.spec;
        {
            let mut work = self.keyspace.level_work.lock();
            let level = &mut work[spec.output_level];
            if spec.is_move {
                level.moves += result.tables.len() as u64;
            } else {
                level.jobs += 1;
                level.parts += result.parts;
                level.bytes_read += result.bytes_read;
                level.bytes_written += result.bytes_written;
                level.duration_us += duration_ns / 1_000;
            }
        }
        if spec.level == 0 && !spec.is_move {
            let level0 = spec.tables().filter(|(level, _)| *level == 0);
            core.stall.note_level0(level0.map(|(_, t)| t.meta.file_bytes).sum(), duration_ns);
        }
        core.measure_level0();
        core.events.emit(&Event::CompactionFinished {
            keyspace: self.keyspace.id,
            level: spec.level,
            output_level: spec.output_level,
            bytes_read: result.bytes_read,
            bytes_written: result.bytes_written,
            output_tables: result.tables.len() as u64,
            duration_us: duration_ns / 1_000,
        });
    }
}

struct Unmark<'a>(&'a Chosen);

impl Drop for Unmark<'_> {
    fn drop(&mut self) {
        self.0.mark(false);
    }
}

/// Compacts everything of `range` into the deepest level that holds any of it. Runs on the caller's
/// thread, beside the background's.
pub(super) fn compact_range(
    core: &Core,
    keyspace: &Arc<KeyspaceCore>,
    range: &KeyRange<'_>,
) -> Result<()> {
    let depth = keyspace.view.load().version.depth();
    let target = depth.saturating_sub(1).clamp(1, DEEPEST_LEVEL);
    for level in 0..=target {
        loop {
            core.check_writable()?;
            if keyspace.dropped.load(Ordering::Relaxed) || core.background.stopping() {
                return Err(Error::Cancelled);
            }
            match choose_manual(core, keyspace, level, target, range)? {
                Manual::Run(chosen) => {
                    let result = chosen.run(core);
                    core.store.sweep();
                    core.background.wake_all();
                    result?;
                }
                Manual::Busy => core.wait_progress(BUSY_WAIT)?,
                Manual::Nothing => break,
            }
        }
    }
    Ok(())
}

enum Manual {
    Run(Box<Chosen>),
    /// Something is left, but others have it now.
    Busy,
    Nothing,
}

fn choose_manual(
    core: &Core,
    keyspace: &Arc<KeyspaceCore>,
    level: usize,
    target: usize,
    range: &KeyRange<'_>,
) -> Result<Manual> {
    let _versions = core.lock_versions()?;
    let version = keyspace.view.load().version.clone();
    let options = &keyspace.options;
    let order = &options.order;
    let left = |keep: &dyn Fn(&crate::version::Table) -> bool| {
        version
            .level(level)
            .iter()
            .any(|run| run.overlapping(order, range).iter().any(|table| keep(table)))
    };
    let oldest_snapshot = core.snapshots.list().first().copied().unwrap_or(Seq::MAX);
    let spec = if level < target {
        match leveled::pick_manual(&version, options, level, range) {
            Some(spec) => spec,
            None if left(&|_| true) => return Ok(Manual::Busy),
            None => return Ok(Manual::Nothing),
        }
    } else {
        match leveled::pick_rewrite(&version, options, level, range, oldest_snapshot) {
            Some(spec) => spec,
            None => return Ok(Manual::Nothing),
        }
    };
    let chosen = Chosen { keyspace: keyspace.clone(), version, spec };
    chosen.mark(true);
    Ok(Manual::Run(Box::new(chosen)))
}
