//! Choosing a compaction, running it, and making its result current.

use super::core::{Core, KeyspaceCore};
use super::erasures::Gone;
use super::leisure::Leisure;
use super::turns::Turn;
use crate::compaction::choice;
use crate::compaction::job::{self, JobContext, JobResult};
use crate::compaction::policy::{self, Pick};
use crate::compaction::scheduler::toll;
use crate::event::{CompactionReason, Event};
use crate::options::{Compaction, KeyspaceOptions};
use crate::table::Origin;
use crate::trace::{Amount, What};
use crate::version::{CompactionSpec, InputRun, LevelScore, Run, Table, TableMeta, Version};
use esker_base::sync::atomic::Ordering;
use esker_base::{Error, Result, Seq};
use std::sync::Arc;
use std::time::Duration;

mod install;
mod manual;
mod small_tables;

pub(super) use manual::compact_range;

/// How long a manual compaction waits for others before it looks again.
pub(super) const BUSY_WAIT: Duration = Duration::from_millis(100);

/// Parts of a large compaction where there are no threads: so that what is tested without them is
/// cut too.
const PARTS_INLINE: usize = 2;

/// How urgent it is to compact what scans have paid for: less than any level over its limit.
const FOR_SCANS: f64 = 0.5;

/// How urgent it is to find out which values are dead, where space is short.
const FOR_VALUES: f64 = 0.75;

/// How urgent it is to be rid of what was deleted or is wasted, and how urgent to make one of small
/// tables.
const AT_LEISURE: f64 = 0.0;
const SMALL_TABLES: f64 = -1.0;

/// A compaction whose inputs are marked as taken.
pub(super) struct Chosen {
    keyspace: Arc<KeyspaceCore>,
    /// May be without files, as in [`JobContext`].
    version: Arc<Version>,
    /// What it was chosen by.
    options: Arc<KeyspaceOptions>,
    spec: CompactionSpec,
    /// From this sequence number on records keep their age: a group is being deleted up to it,
    /// which that version does not know yet.
    erasing_seq: Seq,
}

impl KeyspaceCore {
    /// What scans can have compacted in this version.
    fn pick_for_scans(&self, version: &Version) -> Option<Pick> {
        // Of a keyspace that may have an index, scans pay for that.
        let pick = || policy::pick_for_scans(version, &self.compacted_by.load());
        (!self.may_index(version)).then(pick)
    }

    /// True if a level is over its limit, what is being compacted left out, or scans have paid for
    /// a compaction: a thread, or what others compact, may be all that it waits for.
    fn is_urgent(&self) -> bool {
        let version = self.view.load().version.clone();
        let scores = policy::scores(&version, &self.compacted_by.load());
        let price_ns = || match self.pick_for_scans(&version) {
            Some(Pick::Run(spec)) => Some(price_ns(&spec)),
            // At the most: what of it will be compacted is known when the others are done.
            Some(Pick::Busy) => {
                let level = policy::level_for_scans(&version, &self.compacted_by.load())?;
                let bytes = version.level_bytes(level) + version.level_bytes(level + 1);
                Some(toll::compaction_ns(bytes))
            }
            Some(Pick::Nothing) | None => None,
        };
        scores.iter().any(LevelScore::is_over) || price_ns().is_some_and(|ns| self.toll.covers(ns))
    }

    /// Names the price of that to scans; it itself if they have paid it.
    fn paid_by_scans(&self, version: &Version) -> Option<CompactionSpec> {
        match self.pick_for_scans(version)? {
            Pick::Run(spec) => self.toll.quote(Some(price_ns(&spec))).then_some(spec),
            Pick::Busy => {
                self.toll.withhold();
                None
            }
            Pick::Nothing => {
                self.toll.quote(None);
                None
            }
        }
    }

    /// True if scans have paid for a compaction of this version, even if no thread has named them
    /// its price yet.
    pub(super) fn is_paid_by_scans(&self, version: &Version) -> bool {
        match self.pick_for_scans(version) {
            Some(Pick::Run(spec)) => self.toll.covers(price_ns(&spec)),
            _ => false,
        }
    }
}

/// Whether there is any work that somebody waits for, also in keyspaces that are made later.
fn urgency(core: &Core) -> impl Fn() -> bool + Send + Sync + use<> {
    let (keyspaces, is_tight) = (core.keyspaces.clone(), core.value_use.is_tight.clone());
    let is_urgent = |keyspace: &Arc<KeyspaceCore>| keyspace.is_urgent() || keyspace.wants_index();
    move || is_tight.load(Ordering::Relaxed) || keyspaces.load().by_id.values().any(is_urgent)
}

fn price_ns(spec: &CompactionSpec) -> u64 {
    toll::compaction_ns(spec.input_bytes())
}

/// The most urgent compaction that can run now; where jobs fail, in turns with others, see
/// [`Turn`]. It counts as running.
pub(super) fn choose(core: &Core, turn: Turn) -> Result<Option<Chosen>> {
    if turn != Turn::Usual {
        // What would make room may depend on it, and the usual jobs fail.
        learn_covers(core)?;
    }
    let chosen = choose_now(core, turn)?;
    if chosen.is_none() && learn_covers(core)? {
        return choose_now(core, turn);
    }
    Ok(chosen)
}

/// Has what range tombstones cover be known where policies ask for it, which read no disk. False if
/// nothing was learned.
fn learn_covers(core: &Core) -> Result<bool> {
    let mut learned = false;
    for keyspace in core.keyspaces.load().by_id.values() {
        let version = keyspace.view.load().version.clone();
        let unknown = policy::unknown_covers(&version, &keyspace.compacted_by.load());
        for table in unknown {
            learned |= table.learn_cover();
        }
    }
    if learned {
        core.measure_values(&*core.lock_versions()?);
        // A collection may be due by that.
        core.background.wake_workers();
    }
    Ok(learned)
}

fn choose_now(core: &Core, turn: Turn) -> Result<Option<Chosen>> {
    // Marking inputs and reading versions must be one step.
    let _versions = core.lock_versions()?;
    let keyspaces = core.keyspaces.load();
    let oldest_snapshot = core.snapshots.list().first().copied().unwrap_or(Seq::MAX);
    let is_settled = |keyspace: &&Arc<KeyspaceCore>| !keyspace.reshaping.load(Ordering::Relaxed);
    let settled = keyspaces.by_id.values().filter(is_settled);
    let chosen = match turn {
        Turn::Smallest(at) => {
            let mut all: Vec<Chosen> = settled
                .flat_map(|keyspace| keyspace.all_candidates(core, oldest_snapshot))
                .collect();
            all.sort_by_key(|chosen| match chosen.spec.is_move {
                true => 0,
                false => chosen.spec.input_bytes(),
            });
            let at = at % all.len().max(1);
            all.into_iter().nth(at)
        }
        Turn::Usual | Turn::Values => {
            let mut best: Option<(f64, Chosen)> = None;
            for keyspace in settled {
                let found = keyspace.most_urgent(core, oldest_snapshot);
                if let Some((score, chosen)) = found
                    && best.as_ref().is_none_or(|(other, _)| score > *other)
                {
                    best = Some((score, chosen));
                }
            }
            best.map(|(_, chosen)| chosen)
        }
    };
    if let Some(chosen) = &chosen {
        core.background.begin_compaction();
        chosen.mark(true);
        // A table that only moves costs nothing; one that is written anew where it stands spares
        // scans nothing; and one of a level of many only what it was chosen for.
        let spec = &chosen.spec;
        let spares_scans = match spec.reason {
            CompactionReason::Scans => true,
            CompactionReason::Erased => false,
            _ => spec.level == 0,
        };
        if spares_scans && !spec.is_move && !chosen.keyspace.may_index(&chosen.version) {
            chosen.keyspace.toll.settle();
        }
    }
    Ok(chosen)
}

impl KeyspaceCore {
    /// The most urgent compaction of this keyspace that can run now, with its urgency.
    fn most_urgent(self: &Arc<Self>, core: &Core, oldest_snapshot: Seq) -> Option<(f64, Chosen)> {
        let version = self.view.load().version.clone();
        let in_force = self.compacted_by.load_full();
        let options = &in_force;
        if self.is_reserved() {
            let over = self.schedule.lock().candidates(&policy::scores(&version, options));
            let may_go_on = |level| self.may_go_on(&version, options, level);
            let over = over.into_iter().filter(|(level, _)| may_go_on(*level)).collect();
            let (score, spec) = choice::first(&version, options, over)?;
            return Some((score, self.chosen(core, version, in_force, spec)));
        }
        let urgent = choice::urgent(&version, options, &mut self.schedule.lock());
        let for_scans = self.paid_by_scans(&version).map(|spec| (FOR_SCANS, spec));
        let for_values = || {
            let tight = core.value_use.is_tight.load(Ordering::Relaxed);
            let spec = tight.then(|| policy::pick_for_values(&version, options)).flatten()?;
            Some((FOR_VALUES, spec))
        };
        let found = urgent.or_else(for_values).or(for_scans).or_else(|| {
            let erased = policy::pick_erased(&version, options, false);
            let tombstones = || policy::pick_tombstones(&version, options, oldest_snapshot);
            let wasteful = core.value_use.is_wasteful.load(Ordering::Relaxed);
            let values = || wasteful.then(|| policy::pick_for_values(&version, options)).flatten();
            let chosen = erased.or_else(tombstones).or_else(values);
            if chosen.is_none()
                && oldest_snapshot < Seq::MAX
                && policy::pick_tombstones(&version, options, Seq::MAX).is_some()
            {
                core.snapshots.wait_for(oldest_snapshot);
            }
            let small = || Some((SMALL_TABLES, self.pick_small(core, &version, options)?));
            chosen.map(|spec| (AT_LEISURE, spec)).or_else(small)
        });
        let (score, spec) = found?;
        Some((score, self.chosen(core, version, in_force, spec)))
    }

    /// True if somebody who compacts by hand waits for all that stands below level 0.
    fn is_reserved(&self) -> bool {
        self.reserved.load(Ordering::Relaxed) > 0
    }

    /// True if a level is compacted whoever waits for it: writers wait for level 0, and a level
    /// that has piled up would go on to.
    fn may_go_on(&self, version: &Version, options: &KeyspaceOptions, level: usize) -> bool {
        !self.is_reserved() || level == 0 || policy::has_piled_up(version, options, level)
    }

    /// All that could be compacted in this keyspace now, one of each kind: to find what there is
    /// room for.
    fn all_candidates(self: &Arc<Self>, core: &Core, oldest_snapshot: Seq) -> Vec<Chosen> {
        let version = self.view.load().version.clone();
        let in_force = self.compacted_by.load_full();
        let options = &in_force;
        let over = self.schedule.lock().candidates(&policy::scores(&version, options));
        let of_levels = over.into_iter().map(|(level, _)| policy::pick(&version, options, level));
        let others = [
            policy::pick_erased(&version, options, true),
            policy::pick_tombstones(&version, options, oldest_snapshot),
            policy::pick_for_values(&version, options),
        ];
        let may_be = |spec: &CompactionSpec| self.may_go_on(&version, options, spec.level);
        let specs = of_levels.chain(others).flatten().filter(may_be);
        specs.map(|spec| self.chosen(core, version.clone(), in_force.clone(), spec)).collect()
    }

    /// To be called under `versions`.
    fn chosen(
        self: &Arc<Self>,
        core: &Core,
        version: Arc<Version>,
        options: Arc<KeyspaceOptions>,
        spec: CompactionSpec,
    ) -> Chosen {
        let version = match spec.reason {
            // It may take long, and what it does not need shall not wait for it.
            CompactionReason::Erased => Arc::new(version.without_files()),
            _ => version,
        };
        let erasing_seq = core.erasing_seq.load(Ordering::Acquire);
        Chosen { keyspace: self.clone(), version, options, spec, erasing_seq }
    }
}

impl Chosen {
    fn mark(&self, taken: bool) {
        for (_, table) in self.spec.tables() {
            table.compacting.store(taken, Ordering::Relaxed);
        }
        match taken {
            true => self.keyspace.erasures.begin(self.version.erased_seq),
            false => self.keyspace.erasures.end(self.version.erased_seq),
        }
    }

    /// Runs the compaction and makes its result current; frees the inputs in any case. False if it
    /// was in vain, since too much of them was deleted meanwhile.
    pub(super) fn run(self, core: &Core) -> Result<bool> {
        // Also when the job panics: nothing stays taken for ever.
        let _unmark = Unmark(&self);
        let spec = &self.spec;
        core.mend_manifest()?;
        core.events.emit(&Event::CompactionStarted {
            keyspace: self.keyspace.id,
            reason: spec.reason,
            level: spec.level,
            output_level: spec.output_level,
            input_tables: spec.tables().count() as u64,
            input_bytes: spec.input_bytes(),
        });
        let underway = (!spec.is_move).then(|| core.begin_compaction(&self.keyspace, spec));
        let started = core.env.clock.now_ns();
        let leisure = self.leisure(core);
        let gone = Arc::new(Gone::of(spec));
        let (looked, resting) = (gone.clone(), leisure.clone());
        let rest = move || {
            if let Some(leisure) = resting.as_ref().filter(|_| !gone.has_any()) {
                leisure.rest();
            }
        };
        let context = self.context(core, Box::new(move || looked.is_too_much()), Box::new(rest))?;
        // More threads would only take the processors from those who read and write.
        let parts_max = if leisure.is_some() { 1 } else { self.parts_max(core) };
        let result = match job::run(spec, context, parts_max, &*core.background) {
            Err(Error::Cancelled) if self.is_overtaken(core) => return Ok(false),
            done => done?,
        };
        let installed = self.install(core, result)?;
        drop(underway);
        if let Some(result) = &installed {
            let rested_ns = leisure.map_or(0, |leisure| leisure.rested_ns());
            let duration_ns = core.env.clock.now_ns() - started;
            self.account(core, result, duration_ns.saturating_sub(rested_ns));
        }
        Ok(installed.is_some())
    }

    /// What a job needs to know. It ends early if the database is closed, the keyspace dropped, or
    /// `stop` says so.
    fn context(
        &self,
        core: &Core,
        stop: Box<dyn Fn() -> bool + Send + Sync>,
        rest: Box<dyn Fn() + Send + Sync>,
    ) -> Result<JobContext> {
        let (flushed_seq, logged_from) = {
            let versions = core.lock_versions()?;
            // Of one that was dropped by now nothing stays.
            let record = versions.keyspace(self.keyspace.id);
            (record.map_or(0, |record| record.flushed_seq), versions.logged_from())
        };
        let snapshots = core.snapshots.list();
        #[cfg(esker_planted)]
        let snapshots = super::planted::forget(snapshots);
        let (keyspace, background) = (self.keyspace.clone(), core.background.clone());
        Ok(JobContext {
            store: core.store.clone(),
            options: self.options.clone(),
            origin: Origin { flushed_seq, ..self.keyspace.origin() },
            version: self.version.clone(),
            snapshots,
            aged_from: logged_from.min(self.erasing_seq),
            stop: Box::new(move || {
                background.stopping() || keyspace.dropped.load(Ordering::Relaxed) || stop()
            }),
            rest,
        })
    }

    /// True if some of the inputs were deleted: the job is over, and nothing else is.
    fn is_overtaken(&self, core: &Core) -> bool {
        !self.keyspace.dropped.load(Ordering::Relaxed)
            && !core.background.stopping()
            && self.spec.tables().any(|(_, table)| table.is_obsolete())
    }

    /// How to do it, if nobody waits for it: what was erased is not seen any more, only its space
    /// is still taken.
    fn leisure(&self, core: &Core) -> Option<Arc<Leisure>> {
        if self.spec.reason != CompactionReason::Erased || core.background.is_inline() {
            return None;
        }
        let (background, clock) = (core.background.clone(), core.env.clock.clone());
        let left = self.keyspace.view.load().version.partly_erased_share(&self.options.order);
        Some(Arc::new(Leisure::new(background, clock, Box::new(urgency(core)), left)))
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

    /// True if somebody waits for this, or soon will: writers who are about to be slowed, or the
    /// user. Otherwise more threads would only take the processors from those who write.
    fn is_behind(&self) -> bool {
        let runs = self.version.level(0).len() as u64;
        let slow = u64::from(self.keyspace.options.level0_runs_slow);
        self.spec.reason == CompactionReason::Manual || runs * 2 >= slow
    }

    /// Notes how much of what newer runs point to was found to overwrite what older ones do, if the
    /// oldest of all was read.
    fn note_overwriting(&self, result: &JobResult) {
        let spec = &self.spec;
        // Newer runs of the deepest level may be merged without it.
        let last = |tables: &[Arc<Table>]| tables.last().map(|table| table.meta.number);
        let oldest = self.version.runs().last().and_then(|(_, run)| last(&run.tables));
        let is_oldest = spec.output_level + 1 >= self.version.depth()
            && (spec.is_move || self.options.compaction == Compaction::Leveled || {
                spec.inputs.last().and_then(|run| last(&run.tables)) == oldest
            });
        // What was deleted overwrites nothing.
        if spec.reason == CompactionReason::Erased || result.overtaken || !is_oldest {
            return;
        }
        let bytes_of = |run: &InputRun| -> u64 {
            run.tables.iter().map(|table| table.meta.value_bytes()).sum()
        };
        let all: u64 = spec.inputs.iter().map(bytes_of).sum();
        let oldest = spec.inputs.last().map(|run| Arc::new(Run::new(0, run.tables.clone())));
        let newer = match (&oldest, spec.is_move) {
            (Some(oldest), false) => {
                let newer = spec.inputs[..spec.inputs.len() - 1].iter().flat_map(|run| &run.tables);
                policy::overwriting_bytes(newer, oldest, &self.options.order)
            }
            // Tables that move have nothing under them.
            _ => all,
        };
        let left: u64 = match spec.is_move {
            true => all,
            false => result.tables.iter().map(TableMeta::value_bytes).sum(),
        };
        self.keyspace.overwriting.note(newer, all.saturating_sub(left));
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
        self.note_overwriting(result);
        let taken = spec.taken();
        // What is written anew where it stands leaves no level.
        if !spec.is_move && spec.level != spec.output_level {
            self.keyspace.schedule.lock().note_job(spec.level, taken.bytes, duration_ns);
            if spec.level == 0 {
                core.stall.note_level0(spec.taken_raw_bytes(), duration_ns);
            }
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
        let (level, output_level) = (spec.level, spec.output_level);
        core.tell_step(
            &self.keyspace,
            match spec.is_move {
                true => What::Moved { level, output_level, taken },
                false => What::Compacted {
                    level,
                    output_level,
                    taken,
                    rewritten: spec.rewritten(),
                    written: Amount::of(result.tables.iter().map(|meta| meta.file_bytes)),
                    duration_us: duration_ns / 1_000,
                },
            },
        );
    }
}

struct Unmark<'a>(&'a Chosen);

impl Drop for Unmark<'_> {
    fn drop(&mut self) {
        self.0.mark(false);
    }
}

#[cfg(all(test, not(any(esker_loom, esker_shuttle))))]
mod tests;
