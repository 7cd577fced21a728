//! Tiered compaction: every level holds several sorted runs, and a full level becomes one run of
//! the next.
//!
//! Whole runs are merged, and nothing of the next level is rewritten. The deepest level is merged
//! in place. Runs that do not overlap each other become one without being rewritten, in either
//! case.
//!
//! Invariant: one job at a time takes runs out of a level, always its oldest, so that what arrives
//! in the next level arrives in order. Others may merge newer ones where they stand.
//! Source: LooseKV; the stepped merge of Jagadish et al. (VLDB '97).

use super::hidden::Hidden;
use super::manual::{ManualStep, Pick};
use super::taken::{any_busy, any_run_busy};
use crate::event::CompactionReason;
use crate::options::KeyspaceOptions;
use crate::version::{
    CompactionSpec, DEEPEST_LEVEL, InputRun, LevelScore, Run, Table, TableMeta, Version,
};
use esker_base::{KeyOrder, Seq};
use std::sync::Arc;

/// A level that has fallen behind is emptied by this many times the usual number of runs at once.
const BACKLOG: usize = 2;

/// Runs are about as long if none is longer than another by more than this.
const ALIKE: u64 = 2;

/// Runs at which `level` is compacted.
fn runs_max(options: &KeyspaceOptions, level: usize) -> usize {
    let runs = if level == 0 { options.level0_runs_compact } else { options.tiered_runs };
    runs as usize
}

pub(super) fn scores(version: &Version, options: &KeyspaceOptions) -> Vec<LevelScore> {
    (0..version.depth())
        .map(|level| {
            let idle = |run: &&Arc<Run>| !any_busy(&run.tables);
            let bytes: Vec<u64> =
                version.level(level).iter().filter(idle).map(|run| run.bytes()).collect();
            let (runs, max) = (bytes.len(), runs_max(options, level));
            // Oldest first, until one less than `max` is left.
            let excess = bytes.iter().rev().take((runs + 1).saturating_sub(max));
            LevelScore { level, score: runs as f64 / max as f64, runs, excess_bytes: excess.sum() }
        })
        .collect()
}

/// Levels with as many runs as start a compaction.
pub(super) fn debt_bytes(version: &Version, options: &KeyspaceOptions) -> u64 {
    (0..version.depth())
        .filter(|&level| version.level(level).len() >= runs_max(options, level))
        .map(|level| version.level_bytes(level))
        .sum()
}

pub(super) fn pick(
    version: &Version,
    options: &KeyspaceOptions,
    level: usize,
) -> Option<CompactionSpec> {
    let (runs, max) = (version.level(level), runs_max(options, level));
    if runs.len() < max {
        return None;
    }
    // Newer ones may be in a merge where they stand.
    let idle = runs.iter().rev().take_while(|run| !any_busy(&run.tables)).count();
    match idle {
        0 => merge_behind(runs, options, level),
        _ if idle < max => None,
        _ => {
            let count = if level < DEEPEST_LEVEL { idle.min(BACKLOG * max) } else { idle };
            let oldest = &runs[runs.len() - count..];
            let chosen = match level {
                DEEPEST_LEVEL if are_disjoint(oldest, &options.order) => shortest(oldest),
                _ => oldest,
            };
            Some(merge_down(chosen, options, level, CompactionReason::Size))
        }
    }
}

/// The newest two runs, and older ones as long as none has more than twice the tables of these:
/// what joins them names every table, so that a long run is not to be named for each short one, but
/// where it and that one are all there are.
fn shortest(runs: &[Arc<Run>]) -> &[Arc<Run>] {
    let (mut count, mut tables) = (0, 0);
    for run in runs {
        if count >= 2 && run.tables.len() > 2 * tables {
            break;
        }
        count += 1;
        tables += run.tables.len();
    }
    &runs[..count]
}

/// While the oldest runs of a level are in a merge that may take long, runs that came after them
/// are not to pile up: so many that are about as long become one where they stand.
fn merge_behind(
    runs: &[Arc<Run>],
    options: &KeyspaceOptions,
    level: usize,
) -> Option<CompactionSpec> {
    if level == 0 {
        return None;
    }
    let idle = runs.iter().take_while(|run| !any_busy(&run.tables)).count();
    let are_alike = |runs: &&[Arc<Run>]| {
        let bytes = || runs.iter().map(|run| run.bytes());
        bytes().max() <= bytes().min().map(|least| ALIKE * least)
    };
    let chosen = runs[..idle].windows(runs_max(options, level)).find(are_alike)?;
    Some(CompactionSpec {
        reason: CompactionReason::Size,
        level,
        output_level: level,
        output_run: chosen.first().map(|run| run.id),
        inputs: chosen.iter().map(|run| input(level, run)).collect(),
        is_move: false,
    })
}

pub(super) fn has_piled_up(version: &Version, options: &KeyspaceOptions, level: usize) -> bool {
    version.level(level).len() > BACKLOG * options.tiered_runs as usize
}

pub(super) fn pick_for_scans(version: &Version, options: &KeyspaceOptions) -> Pick {
    match version.level(0) {
        [] | [_] => Pick::Nothing,
        runs if any_run_busy(runs) => Pick::Busy,
        runs => Pick::Run(merge_down(runs, options, 0, CompactionReason::Scans)),
    }
}

/// The oldest runs of `level` into one run of the next; those of the deepest into one of it.
fn merge_down(
    runs: &[Arc<Run>],
    options: &KeyspaceOptions,
    level: usize,
    reason: CompactionReason,
) -> CompactionSpec {
    let in_place = level == DEEPEST_LEVEL;
    CompactionSpec {
        reason,
        level,
        output_level: if in_place { level } else { level + 1 },
        output_run: if in_place { runs.first().map(|run| run.id) } else { None },
        inputs: runs.iter().map(|run| input(level, run)).collect(),
        is_move: are_disjoint(runs, &options.order),
    }
}

fn input(level: usize, run: &Run) -> InputRun {
    InputRun { level, tables: run.tables.clone() }
}

/// True if the tables of all these runs together could be one run.
fn are_disjoint(runs: &[Arc<Run>], order: &KeyOrder) -> bool {
    let mut tables: Vec<&Arc<Table>> = runs.iter().flat_map(|run| &run.tables).collect();
    tables.sort_by(|a, b| order.compare(&a.meta.smallest, &b.meta.smallest));
    tables.windows(2).all(|pair| pair[0].ends_before(order, &pair[1].meta.smallest))
}

/// A run and everything older, if so many of their records are tombstones that merging them is
/// worth it. Those of level 0 go one level down first, see [`merge_older`].
pub(super) fn pick_tombstones(
    version: &Version,
    options: &KeyspaceOptions,
    oldest_snapshot: Seq,
) -> Option<CompactionSpec> {
    let all: Vec<(usize, &Arc<Run>)> = version.runs().collect();
    let (mut entries, mut dead) = (0, 0);
    let (mut older, mut hidden) = (Vec::<&Arc<Run>>::new(), Hidden::new(&options.order));
    let mut found = None;
    for (at, (_, run)) in all.iter().enumerate().rev() {
        let metas = || run.tables.iter().map(|table| &table.meta);
        if any_busy(&run.tables) || metas().any(|meta| meta.max_seq > oldest_snapshot) {
            break;
        }
        let sum = |of: fn(&TableMeta) -> u64| metas().map(of).sum::<u64>();
        entries += sum(|meta| meta.entries + meta.range_tombstones);
        let hidden_by = |table: &Arc<Table>| hidden.by(table, &older, |meta| meta.entries);
        let by_ranges: u64 = run.tables.iter().map(hidden_by).sum();
        dead += sum(|meta| meta.tombstones) + by_ranges.max(sum(|meta| meta.range_tombstones));
        older.push(run);
        // The oldest run of all loses its tombstones alone, and range tombstones that cover nothing
        // are in the way of every read.
        let useless = at + 1 == all.len() && sum(|meta| meta.range_tombstones) > 0;
        let share = dead as f64 / entries.max(1) as f64;
        if useless || (dead > 0 && share >= options.tombstone_ratio_compact) {
            found = Some(at);
        }
    }
    merge_older(&all, found?, options, CompactionReason::Tombstones)
}

/// The runs from `at` on into one, but for those of level 0 that are not the oldest of all: they go
/// one level down first. A merge of all that is older may take long, and level 0, from which writes
/// come, must not wait for it.
fn merge_older(
    all: &[(usize, &Arc<Run>)],
    at: usize,
    options: &KeyspaceOptions,
    reason: CompactionReason,
) -> Option<CompactionSpec> {
    let (deepest, _) = *all.last()?;
    let of_level0: Vec<Arc<Run>> = match deepest {
        0 => Vec::new(),
        _ => all
            .get(at..)?
            .iter()
            .filter(|(level, _)| *level == 0)
            .map(|(_, run)| (*run).clone())
            .collect(),
    };
    match of_level0.as_slice() {
        [] => merge_suffix(all, at, reason),
        runs => Some(merge_down(runs, options, 0, reason)),
    }
}

/// The runs from `at` on, which are the oldest, into one. It stands where the oldest stood, and has
/// the number of the newest of that level: of what comes there meanwhile, as it may where a group
/// that was deleted has taken inputs, all is newer.
fn merge_suffix(
    all: &[(usize, &Arc<Run>)],
    at: usize,
    reason: CompactionReason,
) -> Option<CompactionSpec> {
    let (output_level, _) = *all.last()?;
    let inputs = all.get(at..)?;
    let (level, _) = *inputs.first()?;
    let (_, newest) = inputs.iter().find(|(level, _)| *level == output_level)?;
    Some(CompactionSpec {
        reason,
        level,
        output_level,
        output_run: Some(newest.id),
        inputs: inputs.iter().map(|(level, run)| input(*level, run)).collect(),
        is_move: false,
    })
}

/// Everything into one run, since newer runs are merged with the oldest only together: below level
/// 0, or what that holds one level down first if most of what may be dead is there.
pub(super) fn pick_for_values(
    version: &Version,
    options: &KeyspaceOptions,
    level0_first: bool,
) -> Option<CompactionSpec> {
    let all: Vec<(usize, &Arc<Run>)> = version.runs().collect();
    let level0 = version.level(0).len();
    let at = if level0_first || level0 == all.len() { 0 } else { level0 };
    let spec = merge_older(&all, at, options, CompactionReason::Values).map(below_level0)?;
    let is_idle = spec.inputs.iter().all(|run| !any_busy(&run.tables));
    is_idle.then_some(spec)
}

/// What would stand in level 0 stands below it, so that later flushes do not count it in.
fn below_level0(spec: CompactionSpec) -> CompactionSpec {
    match spec.output_level {
        0 => CompactionSpec { output_level: 1, output_run: None, ..spec },
        _ => spec,
    }
}

/// Everything into one run: parts of runs are never merged. What level 0 holds goes one level down
/// first, see [`merge_older`]; what comes there meanwhile may stay.
pub(super) fn pick_manual(
    version: &Version,
    options: &KeyspaceOptions,
    step: &ManualStep<'_>,
) -> Pick {
    let mut all: Vec<(usize, &Arc<Run>)> = version.runs().collect();
    all.retain(|(level, run)| *level > 0 || run.id <= step.newest_run);
    let touched = |run: &Run| !run.overlapping(&options.order, &step.range).is_empty();
    // What one step has merged, the others leave alone.
    if step.level > 0 || !all.iter().any(|(_, run)| touched(run)) {
        return Pick::Nothing;
    }
    let useless = |table: &Arc<Table>| {
        let meta = &table.meta;
        meta.tombstones + meta.range_tombstones > 0 && meta.max_seq <= step.oldest_snapshot
    };
    if let [(_, run)] = all.as_slice()
        && !run.tables.iter().any(useless)
    {
        return Pick::Nothing;
    }
    if all.iter().any(|(_, run)| any_busy(&run.tables)) {
        return Pick::Busy;
    }
    let merged = merge_older(&all, 0, options, CompactionReason::Manual);
    merged.map_or(Pick::Nothing, |spec| Pick::Run(below_level0(spec)))
}
