//! Leveled compaction: every level below 0 is one sorted run, each `level_fanout` times the one
//! above.
//!
//! Level 0 is compacted when it has too many runs, a deeper level when it has too many bytes.
//! From a deeper level the table is taken whose compaction rewrites the least of the next level for
//! each byte moved; tombstones count in a table's favour, because moving them frees space.
//! A level that a tiered tree left with several runs is first merged into one.
//! Source: LevelDB; choice of the table by overlap as in RocksDB's `kMinOverlappingRatio`.

use super::hidden::Hidden;
use super::manual::{ManualStep, Pick};
use super::taken::{any_busy, any_run_busy, is_busy, total_bytes};
use crate::event::CompactionReason;
use crate::options::KeyspaceOptions;
use crate::version::{
    CompactionSpec, DEEPEST_LEVEL, InputRun, KeyRange, LevelScore, Run, Table, TableMeta, Version,
};
use esker_base::{KeyOrder, Seq};
use std::ops::Range;
use std::sync::Arc;

/// A table moves down unchanged only if it overlaps no more than this many tables' worth of bytes
/// of the level after: otherwise its own compaction would be too large.
const GRANDPARENT_TABLES_MAX: u64 = 10;

/// Bytes that a level below 0 should have.
pub(crate) fn level_limit_bytes(options: &KeyspaceOptions, level: usize) -> u64 {
    debug_assert!(level >= 1);
    let fanout = u64::from(options.level_fanout);
    options.level_base_bytes.saturating_mul(fanout.saturating_pow(level as u32 - 1))
}

/// The first level below 0 that has room for so much.
pub(crate) fn roomy_level(options: &KeyspaceOptions, bytes: u64) -> usize {
    (1..DEEPEST_LEVEL)
        .find(|&level| bytes <= level_limit_bytes(options, level))
        .unwrap_or(DEEPEST_LEVEL)
}

/// The level's run, if it has one and no more.
fn only_run(version: &Version, level: usize) -> Option<&Arc<Run>> {
    match version.level(level) {
        [run] => Some(run),
        _ => None,
    }
}

/// True if a tiered tree left several runs in the level. It is neither compacted nor takes anything
/// before they are one.
fn is_stacked(version: &Version, level: usize) -> bool {
    level > 0 && version.level(level).len() > 1
}

pub(super) fn scores(version: &Version, options: &KeyspaceOptions) -> Vec<LevelScore> {
    let depth = version.depth();
    (0..depth)
        .filter(|&level| level < DEEPEST_LEVEL || is_stacked(version, level))
        .map(|level| score(version, options, level))
        .collect()
}

fn score(version: &Version, options: &KeyspaceOptions, level: usize) -> LevelScore {
    let idle = |run: &&Arc<Run>| !any_busy(&run.tables);
    let idle_runs = || version.level(level).iter().filter(idle);
    let runs = idle_runs().count();
    if level == 0 {
        let max = options.level0_runs_compact as usize;
        let excess = idle_runs().rev().take((runs + 1).saturating_sub(max));
        return LevelScore {
            level,
            score: runs as f64 / max as f64,
            runs,
            excess_bytes: excess.map(|run| run.bytes()).sum(),
        };
    }
    if is_stacked(version, level) {
        let bytes = idle_runs().map(|run| run.bytes()).sum();
        return LevelScore { level, score: runs as f64, runs, excess_bytes: bytes };
    }
    let tables = version.level(level).iter().flat_map(|run| &run.tables);
    let bytes: u64 = tables.filter(|t| !is_busy(t)).map(|t| t.meta.file_bytes).sum();
    let limit = level_limit_bytes(options, level);
    let excess_bytes = bytes.saturating_sub(limit);
    LevelScore { level, score: bytes as f64 / limit as f64, runs, excess_bytes }
}

/// Bytes that stand above their level's limit and will have to be rewritten.
pub(super) fn debt_bytes(version: &Version, options: &KeyspaceOptions) -> u64 {
    let mut debt = 0;
    let mut carried = 0;
    for level in 0..version.depth() {
        let bytes = version.level_bytes(level) + carried;
        let limit = match level {
            0 if version.level(0).len() < options.level0_runs_compact as usize => bytes,
            0 => 0,
            DEEPEST_LEVEL.. => u64::MAX,
            _ => level_limit_bytes(options, level),
        };
        carried = bytes.saturating_sub(limit);
        debt += carried;
        if is_stacked(version, level) {
            // First they become one where they stand.
            debt += version.level_bytes(level);
        }
    }
    debt
}

pub(super) fn pick(
    version: &Version,
    options: &KeyspaceOptions,
    level: usize,
) -> Option<CompactionSpec> {
    if level == 0 {
        return pick_level0(version, options);
    }
    if is_stacked(version, level) {
        return unite(version, level, CompactionReason::Size);
    }
    if is_stacked(version, level + 1) {
        return None;
    }
    let run = only_run(version, level)?;
    let next = only_run(version, level + 1).map_or(&[][..], |next| &next.tables);
    let mut from = 0;
    let mut best: Option<(f64, &Arc<Table>)> = None;
    for table in &run.tables {
        let below = overlap_from(next, &mut from, &options.order, table);
        if is_busy(table) || is_taken(next, from..from + below.len()) {
            continue;
        }
        let cost = cost(table, total_bytes(below));
        if best.is_none_or(|(least, _)| cost < least) {
            best = Some((cost, table));
        }
    }
    let (_, table) = best?;
    Some(step_down(version, options, level, table.clone(), CompactionReason::Size))
}

/// All runs of a level into one where they stand.
fn unite(version: &Version, level: usize, reason: CompactionReason) -> Option<CompactionSpec> {
    let runs = version.level(level);
    if any_run_busy(runs) {
        return None;
    }
    Some(CompactionSpec {
        reason,
        level,
        output_level: level,
        output_run: runs.first().map(|run| run.id),
        inputs: runs.iter().map(|run| InputRun { level, tables: run.tables.clone() }).collect(),
        is_move: false,
    })
}

/// True if a compaction has taken one of these tables of `next`, or, if there are none, those on
/// both sides of that place: they may become one table, which spans it.
fn is_taken(next: &[Arc<Table>], overlap: Range<usize>) -> bool {
    if !overlap.is_empty() {
        return any_busy(&next[overlap]);
    }
    let neighbours = overlap.start.checked_sub(1).and_then(|before| next.get(before..=overlap.end));
    neighbours.is_some_and(|both| both.iter().all(|table| is_busy(table)))
}

/// The same of what a table overlaps in the next level.
fn is_taken_below(next: Option<&Arc<Run>>, options: &KeyspaceOptions, table: &Table) -> bool {
    next.is_some_and(|next| is_taken(&next.tables, next.overlap(&options.order, &range_of(table))))
}

fn range_of(table: &Table) -> KeyRange<'_> {
    KeyRange::closed(&table.meta.smallest, &table.meta.largest)
}

/// The tables of `next` that overlap `table`. `from` moves on with it: tables must be asked for in
/// order.
fn overlap_from<'a>(
    next: &'a [Arc<Table>],
    from: &mut usize,
    order: &KeyOrder,
    table: &Table,
) -> &'a [Arc<Table>] {
    let TableMeta { smallest, largest, .. } = &table.meta;
    while next.get(*from).is_some_and(|other| other.ends_before(order, smallest)) {
        *from += 1;
    }
    let rest = next.get(*from..).unwrap_or(&[]);
    let count = rest.iter().take_while(|other| !order.less(largest, &other.meta.smallest)).count();
    &rest[..count]
}

/// Bytes rewritten for each byte moved down, less for tables full of tombstones.
fn cost(table: &Table, overlap_bytes: u64) -> f64 {
    let meta = &table.meta;
    let plain = overlap_bytes as f64 / meta.file_bytes.max(1) as f64;
    let tombstones = meta.tombstones as f64 / meta.entries.max(1) as f64;
    let relief = if meta.range_tombstones > 0 { 1.0 } else { tombstones };
    plain * (1.0 - 0.75 * relief)
}

/// Level 0 into level 1 although it has few runs, if its tombstones may have deleted such a share
/// of all records of the tree.
fn pick_tombstones_of_level0(
    version: &Version,
    options: &KeyspaceOptions,
    oldest_snapshot: Seq,
) -> Option<CompactionSpec> {
    let order = &options.order;
    let all: Vec<&Arc<Run>> = version.runs().map(|(_, run)| run).collect();
    let metas = || all.iter().flat_map(|run| &run.tables).map(|table| &table.meta);
    let records: u64 = metas().map(|meta| meta.entries.saturating_sub(meta.tombstones)).sum();
    let (mut dead, mut hidden) = (0, Hidden::new(order));
    for (at, run) in version.level(0).iter().enumerate() {
        for table in run.tables.iter().filter(|table| table.meta.max_seq <= oldest_snapshot) {
            dead += table.meta.tombstones + hidden.by(table, &all[at + 1..], |meta| meta.entries);
        }
    }
    if dead == 0 || (dead as f64) < records as f64 * options.tombstone_ratio_compact {
        return None;
    }
    let spec = pick_level0(version, options)?;
    Some(CompactionSpec { reason: CompactionReason::Tombstones, ..spec })
}

/// A table with enough tombstones that compacting it is worth it although no level is over its
/// limit; or level 0, if it has enough for all of the tree.
pub(super) fn pick_tombstones(
    version: &Version,
    options: &KeyspaceOptions,
    oldest_snapshot: Seq,
) -> Option<CompactionSpec> {
    let level0 = pick_tombstones_of_level0(version, options, oldest_snapshot);
    if level0.is_some() {
        return level0;
    }
    let ripe = |table: &Table| {
        let meta = &table.meta;
        let share = meta.tombstones as f64 / meta.entries.max(1) as f64;
        meta.max_seq <= oldest_snapshot
            && (meta.range_tombstones > 0
                || (meta.tombstones > 0 && share >= options.tombstone_ratio_compact))
    };
    for level in 1..version.depth() {
        let Some(run) = only_run(version, level) else { continue };
        if is_stacked(version, level + 1) {
            continue;
        }
        let next = only_run(version, level + 1);
        let found = run
            .tables
            .iter()
            .find(|table| !is_busy(table) && ripe(table) && !is_taken_below(next, options, table));
        let Some(table) = found else { continue };
        if level + 1 < version.depth() {
            return Some(step_down(
                version,
                options,
                level,
                table.clone(),
                CompactionReason::Tombstones,
            ));
        }
        return Some(rewrite_in_place(level, run, table, CompactionReason::Tombstones));
    }
    None
}

/// The shallowest level, if scans find other runs in it or below: made smaller, it spares them one.
pub(super) fn level_for_scans(version: &Version) -> Option<usize> {
    let level = (0..version.depth()).find(|&level| !version.level(level).is_empty())?;
    let is_over_others = level + 1 < version.depth();
    (is_over_others || (level == 0 && version.level(0).len() > 1)).then_some(level)
}

/// What is little beside that below it stays: it would cost more to rewrite for each byte than in a
/// level that is full, again with each little that comes.
pub(super) fn pick_for_scans(version: &Version, options: &KeyspaceOptions) -> Pick {
    let Some(level) = level_for_scans(version) else { return Pick::Nothing };
    let Some(spec) = pick(version, options, level) else { return Pick::Busy };
    let bytes_of = |level| {
        let tables = spec.tables().filter(move |(at, _)| *at == level);
        tables.map(|(_, table)| table.meta.file_bytes).sum::<u64>()
    };
    let most_below = bytes_of(level).saturating_mul(options.level_fanout.into());
    if level > 0 && bytes_of(level + 1) > most_below {
        return Pick::Nothing;
    }
    Pick::Run(CompactionSpec { reason: CompactionReason::Scans, ..spec })
}

/// What the level would be made smaller by, for the sake of values.
pub(super) fn pick_for_values(
    version: &Version,
    options: &KeyspaceOptions,
    level: usize,
) -> Option<CompactionSpec> {
    let spec = pick(version, options, level)?;
    Some(CompactionSpec { reason: CompactionReason::Values, ..spec })
}

/// Moves everything of the range one level down, a part at a time; at the target, what lies there
/// in several runs becomes one, and tombstones that nobody needs go.
pub(super) fn pick_manual(
    version: &Version,
    options: &KeyspaceOptions,
    step: &ManualStep<'_>,
) -> Pick {
    let ManualStep { level, target, .. } = *step;
    let order = &options.order;
    let runs = version.level(level);
    let touched = |run: &Arc<Run>| !run.overlapping(order, &step.range).is_empty();
    let is_meant = |run: &&Arc<Run>| level > 0 || run.id <= step.newest_run;
    if !runs.iter().filter(is_meant).any(touched) {
        return Pick::Nothing;
    }
    let spec = if is_stacked(version, level) {
        unite(version, level, CompactionReason::Manual)
    } else if level < target && is_stacked(version, level + 1) {
        unite(version, level + 1, CompactionReason::Manual)
    } else if level == 0 {
        pick_level0(version, options)
    } else if level < target {
        pick_down(version, options, step)
    } else {
        return pick_rewrite(version, options, step);
    };
    let reason = CompactionReason::Manual;
    spec.map_or(Pick::Busy, |spec| Pick::Run(CompactionSpec { reason, is_move: false, ..spec }))
}

/// A table of the range into the next level.
fn pick_down(
    version: &Version,
    options: &KeyspaceOptions,
    step: &ManualStep<'_>,
) -> Option<CompactionSpec> {
    let level = step.level;
    let next = only_run(version, level + 1);
    let table = only_run(version, level)?
        .overlapping(&options.order, &step.range)
        .iter()
        .find(|table| !is_busy(table) && !is_taken_below(next, options, table))?;
    Some(step_down(version, options, level, table.clone(), CompactionReason::Manual))
}

/// A table of the deepest level with tombstones that nobody needs.
fn pick_rewrite(version: &Version, options: &KeyspaceOptions, step: &ManualStep<'_>) -> Pick {
    let run = match only_run(version, step.level) {
        Some(run) if step.level + 1 == version.depth() => run,
        _ => return Pick::Nothing,
    };
    let is_dying = |table: &&Arc<Table>| {
        let meta = &table.meta;
        let has_tombstones = meta.tombstones > 0 || meta.range_tombstones > 0;
        has_tombstones && meta.max_seq <= step.oldest_snapshot
    };
    let dying = || run.overlapping(&options.order, &step.range).iter().filter(is_dying);
    match dying().find(|table| !is_busy(table)) {
        Some(table) => {
            Pick::Run(rewrite_in_place(step.level, run, table, CompactionReason::Manual))
        }
        // Who has it may not know yet that no snapshot needs them.
        None if dying().next().is_some() => Pick::Busy,
        None => Pick::Nothing,
    }
}

/// Nothing lies below: rewriting the table where it stands drops its tombstones.
fn rewrite_in_place(
    level: usize,
    run: &Run,
    table: &Arc<Table>,
    reason: CompactionReason,
) -> CompactionSpec {
    CompactionSpec {
        reason,
        level,
        output_level: level,
        output_run: Some(run.id),
        inputs: vec![InputRun { level, tables: vec![table.clone()] }],
        is_move: false,
    }
}

fn overlap<'a>(
    next: Option<&'a Arc<Run>>,
    options: &KeyspaceOptions,
    table: &Table,
) -> &'a [Arc<Table>] {
    next.map_or(&[], |run| run.overlapping(&options.order, &range_of(table)))
}

/// One table of `level` into the next.
fn step_down(
    version: &Version,
    options: &KeyspaceOptions,
    level: usize,
    table: Arc<Table>,
    reason: CompactionReason,
) -> CompactionSpec {
    let next = only_run(version, level + 1);
    let below = overlap(next, options, &table);
    let grandparents = overlap(only_run(version, level + 2), options, &table);
    let light = total_bytes(grandparents) <= GRANDPARENT_TABLES_MAX * options.table_bytes_max;
    let is_move = below.is_empty() && light && reason == CompactionReason::Size;
    let mut inputs = vec![InputRun { level, tables: vec![table] }];
    if !below.is_empty() {
        inputs.push(InputRun { level: level + 1, tables: below.to_vec() });
    }
    CompactionSpec {
        reason,
        level,
        output_level: level + 1,
        output_run: next.map(|run| run.id),
        inputs,
        is_move,
    }
}

/// The oldest runs of level 0 into level 1.
fn pick_level0(version: &Version, options: &KeyspaceOptions) -> Option<CompactionSpec> {
    let runs = version.level(0);
    if any_run_busy(runs) || is_stacked(version, 1) {
        return None;
    }
    let order = &options.order;
    let next = only_run(version, 1);
    let next_tables = next.map_or(&[][..], |run| &run.tables);
    let oldest = runs.last()?;
    let overlap = overlap_of_runs(std::slice::from_ref(oldest), next, order);
    if overlap.is_empty() {
        return (!is_taken(next_tables, overlap)).then(|| CompactionSpec {
            reason: CompactionReason::Size,
            level: 0,
            output_level: 1,
            output_run: next.map(|run| run.id),
            inputs: vec![InputRun { level: 0, tables: oldest.tables.clone() }],
            is_move: true,
        });
    }
    // Oldest first, as many as make a job of a bounded size; but where level 1 has piled up, as
    // much as it has, or else it would be rewritten several times for as much.
    let least = options.level_base_bytes.max(4 * options.memtable_bytes);
    let limit = least.max(version.level_bytes(1));
    let mut bytes = 0;
    let wanted = runs.iter().rev().take_while(|run| {
        let fits = bytes == 0 || bytes + run.bytes() <= limit;
        bytes += run.bytes();
        fits
    });
    let count = wanted.count();
    let chosen = &runs[runs.len() - count..];
    let overlap = overlap_of_runs(chosen, next, order);
    if is_taken(next_tables, overlap.clone()) {
        return None;
    }
    let mut inputs: Vec<InputRun> =
        chosen.iter().map(|run| InputRun { level: 0, tables: run.tables.clone() }).collect();
    if !overlap.is_empty() {
        inputs.push(InputRun { level: 1, tables: next_tables[overlap].to_vec() });
    }
    Some(CompactionSpec {
        reason: CompactionReason::Size,
        level: 0,
        output_level: 1,
        output_run: next.map(|run| run.id),
        inputs,
        is_move: false,
    })
}

/// Which tables of `next` lie between the smallest and the largest key of `runs`.
fn overlap_of_runs(runs: &[Arc<Run>], next: Option<&Arc<Run>>, order: &KeyOrder) -> Range<usize> {
    let tables = || runs.iter().flat_map(|run| &run.tables);
    let smallest =
        tables().map(|t| &t.meta.smallest).min_by(|a, b| order.compare(a.as_ref(), b.as_ref()));
    let largest =
        tables().map(|t| &t.meta.largest).max_by(|a, b| order.compare(a.as_ref(), b.as_ref()));
    match (next, smallest, largest) {
        (Some(next), Some(smallest), Some(largest)) => {
            next.overlap(order, &KeyRange::closed(smallest, largest))
        }
        _ => 0..0,
    }
}
