//! Leveled compaction: every level below 0 is one sorted run, each `level_fanout` times the one above.
//!
//! Level 0 is compacted when it has too many runs, a deeper level when it has too many bytes.
//! From a deeper level the table is taken whose compaction rewrites the least of the next level for
//! each byte moved; tombstones count in a table's favour, because moving them frees space.
//! Source: LevelDB; choice of the table by overlap as in RocksDB's `kMinOverlappingRatio`.

use super::{any_busy, is_busy, only_run, total_bytes};
use crate::event::CompactionReason;
use crate::options::KeyspaceOptions;
use crate::version::{
    CompactionSpec, DEEPEST_LEVEL, InputRun, KeyRange, LevelScore, Run, Table, Version,
};
use esker_base::{KeyOrder, Seq};
use std::sync::Arc;

/// A table moves down unchanged only if it overlaps no more than this many tables' worth of bytes of
/// the level after: otherwise its own compaction would be too large.
const GRANDPARENT_TABLES_MAX: u64 = 10;

/// Bytes that a level below 0 should have.
pub(crate) fn level_limit_bytes(options: &KeyspaceOptions, level: usize) -> u64 {
    debug_assert!(level >= 1);
    let fanout = u64::from(options.level_fanout);
    options.level_base_bytes.saturating_mul(fanout.saturating_pow(level as u32 - 1))
}

/// The score of every level that could be compacted into the next. Tables being compacted do not count.
pub(crate) fn scores(version: &Version, options: &KeyspaceOptions) -> Vec<LevelScore> {
    let depth = version.depth().min(DEEPEST_LEVEL);
    (0..depth)
        .map(|level| {
            let idle = |run: &&Arc<Run>| !any_busy(&run.tables);
            let score = if level == 0 {
                let runs = version.level(0).iter().filter(idle).count();
                runs as f64 / f64::from(options.level0_runs_compact)
            } else {
                let tables = version.level(level).iter().flat_map(|run| &run.tables);
                let bytes: u64 = tables.filter(|t| !is_busy(t)).map(|t| t.meta.file_bytes).sum();
                bytes as f64 / level_limit_bytes(options, level) as f64
            };
            LevelScore { level, score }
        })
        .collect()
}

/// Bytes that stand above their level's limit and will have to be rewritten.
pub(crate) fn debt_bytes(version: &Version, options: &KeyspaceOptions) -> u64 {
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
    }
    debt
}

/// What to compact from `level`, if anything can be now.
pub(crate) fn pick(
    version: &Version,
    options: &KeyspaceOptions,
    level: usize,
) -> Option<CompactionSpec> {
    if level == 0 {
        return pick_level0(version, options);
    }
    let run = only_run(version.level(level))?;
    let next = only_run(version.level(level + 1));
    let best = run
        .tables
        .iter()
        .filter(|table| !is_busy(table))
        .filter_map(|table| {
            let below = overlap(next, options, table);
            (!any_busy(below)).then(|| (cost(table, total_bytes(below)), table))
        })
        .min_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(step_down(version, options, level, best.1.clone(), CompactionReason::Size))
}

/// Bytes rewritten for each byte moved down, less for tables full of tombstones.
fn cost(table: &Table, overlap_bytes: u64) -> f64 {
    let meta = &table.meta;
    let plain = overlap_bytes as f64 / meta.file_bytes.max(1) as f64;
    let tombstones = meta.tombstones as f64 / meta.entries.max(1) as f64;
    let relief = if meta.range_tombstones > 0 { 1.0 } else { tombstones };
    plain * (1.0 - 0.75 * relief)
}

/// A table with enough tombstones that compacting it is worth it although no level is over its limit.
///
/// Tombstones that some snapshot still needs (newer than `oldest_snapshot`) do not count: nothing
/// would be gained.
pub(crate) fn pick_tombstones(
    version: &Version,
    options: &KeyspaceOptions,
    oldest_snapshot: Seq,
) -> Option<CompactionSpec> {
    if options.tombstone_ratio_compact >= 1.0 {
        return None;
    }
    let ripe = |table: &Table| {
        let meta = &table.meta;
        let share = meta.tombstones as f64 / meta.entries.max(1) as f64;
        meta.max_seq <= oldest_snapshot
            && (meta.range_tombstones > 0
                || (meta.tombstones > 0 && share >= options.tombstone_ratio_compact))
    };
    for level in 1..version.depth() {
        let Some(run) = only_run(version.level(level)) else { continue };
        let next = only_run(version.level(level + 1));
        let found = run.tables.iter().find(|table| {
            !is_busy(table) && ripe(table) && !any_busy(overlap(next, options, table))
        });
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
        return Some(rewrite_in_place(level, run, table));
    }
    None
}

/// Level 0 into level 1 although it has few runs, so that scans find fewer. `None` if they would not, if
/// tables are taken, or if the option is off.
pub(crate) fn pick_for_scans(
    version: &Version,
    options: &KeyspaceOptions,
) -> Option<CompactionSpec> {
    let runs = version.level(0).len() + version.level(1).len();
    if !options.compact_for_scans || version.level(0).is_empty() || runs < 2 {
        return None;
    }
    let spec = pick_level0(version, options)?;
    Some(CompactionSpec { reason: CompactionReason::Scans, ..spec })
}

/// A table of the deepest level with tombstones that nobody needs: for the end of a manual compaction.
pub(crate) fn pick_rewrite(
    version: &Version,
    options: &KeyspaceOptions,
    level: usize,
    range: &KeyRange<'_>,
    oldest_snapshot: Seq,
) -> Option<CompactionSpec> {
    if level + 1 < version.depth() {
        return None;
    }
    let run = only_run(version.level(level))?;
    let table = run.overlapping(&options.order, range).iter().find(|table| {
        let meta = &table.meta;
        let has_tombstones = meta.tombstones > 0 || meta.range_tombstones > 0;
        !is_busy(table) && has_tombstones && meta.max_seq <= oldest_snapshot
    })?;
    Some(rewrite_in_place(level, run, table))
}

/// Nothing lies below: rewriting the table where it stands drops its tombstones.
fn rewrite_in_place(level: usize, run: &Run, table: &Arc<Table>) -> CompactionSpec {
    CompactionSpec {
        reason: CompactionReason::Tombstones,
        level,
        output_level: level,
        output_run: Some(run.id),
        inputs: vec![InputRun { level, tables: vec![table.clone()] }],
        is_move: false,
    }
}

/// Moves everything of `range` in `level` one level down, a part at a time; `None` when none is left.
pub(crate) fn pick_manual(
    version: &Version,
    options: &KeyspaceOptions,
    level: usize,
    range: &KeyRange<'_>,
) -> Option<CompactionSpec> {
    let order = &options.order;
    if level == 0 {
        let touched = version.level(0).iter().any(|run| !run.overlapping(order, range).is_empty());
        let spec = if touched { pick_level0(version, options) } else { None };
        return spec.map(|spec| CompactionSpec {
            reason: CompactionReason::Manual,
            is_move: false,
            ..spec
        });
    }
    let run = only_run(version.level(level))?;
    let next = only_run(version.level(level + 1));
    let table = run
        .overlapping(order, range)
        .iter()
        .find(|table| !is_busy(table) && !any_busy(overlap(next, options, table)))?;
    Some(step_down(version, options, level, table.clone(), CompactionReason::Manual))
}

fn overlap<'a>(
    next: Option<&'a Arc<Run>>,
    options: &KeyspaceOptions,
    table: &Table,
) -> &'a [Arc<Table>] {
    let range = KeyRange::closed(&table.meta.smallest, &table.meta.largest);
    next.map_or(&[], |run| run.overlapping(&options.order, &range))
}

/// One table of `level` into the next.
fn step_down(
    version: &Version,
    options: &KeyspaceOptions,
    level: usize,
    table: Arc<Table>,
    reason: CompactionReason,
) -> CompactionSpec {
    let next = only_run(version.level(level + 1));
    let below = overlap(next, options, &table);
    let grandparents = overlap(only_run(version.level(level + 2)), options, &table);
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
    if runs.iter().any(|run| any_busy(&run.tables)) {
        return None;
    }
    let order = &options.order;
    let next = only_run(version.level(1));
    let oldest = runs.last()?;
    if overlap_of_runs(std::slice::from_ref(oldest), next, order).is_empty() {
        return Some(CompactionSpec {
            reason: CompactionReason::Size,
            level: 0,
            output_level: 1,
            output_run: next.map(|run| run.id),
            inputs: vec![InputRun { level: 0, tables: oldest.tables.clone() }],
            is_move: true,
        });
    }
    // Oldest first, as many as make a job of a bounded size.
    let limit = options.level_base_bytes.max(4 * options.memtable_bytes);
    let mut bytes = 0;
    let wanted = runs.iter().rev().take_while(|run| {
        let fits = bytes == 0 || bytes + run.bytes() <= limit;
        bytes += run.bytes();
        fits
    });
    let count = wanted.count();
    let chosen = &runs[runs.len() - count..];
    let below = overlap_of_runs(chosen, next, order);
    if any_busy(&below) {
        return None;
    }
    let mut inputs: Vec<InputRun> =
        chosen.iter().map(|run| InputRun { level: 0, tables: run.tables.clone() }).collect();
    if !below.is_empty() {
        inputs.push(InputRun { level: 1, tables: below });
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

/// The tables of `next` between the smallest and the largest key of `runs`.
fn overlap_of_runs(
    runs: &[Arc<Run>],
    next: Option<&Arc<Run>>,
    order: &KeyOrder,
) -> Vec<Arc<Table>> {
    let tables = || runs.iter().flat_map(|run| &run.tables);
    let smallest =
        tables().map(|t| &t.meta.smallest).min_by(|a, b| order.compare(a.as_ref(), b.as_ref()));
    let largest =
        tables().map(|t| &t.meta.largest).max_by(|a, b| order.compare(a.as_ref(), b.as_ref()));
    match (next, smallest, largest) {
        (Some(next), Some(smallest), Some(largest)) => {
            next.overlapping(order, &KeyRange::closed(smallest, largest)).to_vec()
        }
        _ => Vec::new(),
    }
}
