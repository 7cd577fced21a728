//! What to compact: functions from a version and options to a `CompactionSpec`.
//!
//! The options say which shape the tree shall have. A tree that has the other one, because the
//! option was changed, is a tree in need of compaction like any other.

mod erased;
mod hidden;
pub(crate) mod leveled;
mod manual;
mod small;
mod taken;
mod tiered;
mod values;

pub(crate) use erased::pick_erased;
pub(crate) use manual::{ManualStep, Pick};
pub(crate) use small::pick_small;
pub(crate) use values::{newer_bytes, overwriting_bytes, pick_for_values};

use crate::event::CompactionReason;
use crate::options::{Compaction, KeyspaceOptions};
use crate::trace::{Amount, Shape};
use crate::version::{CompactionSpec, DEEPEST_LEVEL, LevelScore, Run, Table, Version};
use esker_base::Seq;
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// What each level holds and may hold, level 0 first.
pub(crate) fn shape(version: &Version, options: &KeyspaceOptions) -> Vec<Shape> {
    let shape = |(level, runs): (usize, &Vec<Arc<Run>>)| {
        let tables = runs.iter().flat_map(|run| &run.tables);
        let Amount { tables, bytes } = Amount::of(tables.map(|table| table.meta.file_bytes));
        let (limit_bytes, limit_runs) = level_limit(options, level).bytes_and_runs();
        Shape { runs: runs.len() as u64, tables, bytes, limit_bytes, limit_runs }
    };
    version.levels.iter().enumerate().map(shape).collect()
}

/// What a level may hold before it is compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LevelLimit {
    Bytes(u64),
    Runs(u64),
    /// The deepest level of a leveled tree takes whatever comes.
    None,
}

impl LevelLimit {
    /// Either as a number, the other 0.
    pub(crate) fn bytes_and_runs(self) -> (u64, u64) {
        match self {
            LevelLimit::Bytes(bytes) => (bytes, 0),
            LevelLimit::Runs(runs) => (0, runs),
            LevelLimit::None => (0, 0),
        }
    }
}

/// The score of every level that could be compacted. Tables being compacted do not count.
pub(crate) fn scores(version: &Version, options: &KeyspaceOptions) -> Vec<LevelScore> {
    match options.compaction {
        Compaction::Leveled => leveled::scores(version, options),
        Compaction::Tiered => tiered::scores(version, options),
    }
}

/// What to compact from `level`, if anything can be now.
pub(crate) fn pick(
    version: &Version,
    options: &KeyspaceOptions,
    level: usize,
) -> Option<CompactionSpec> {
    match options.compaction {
        Compaction::Leveled => leveled::pick(version, options, level),
        Compaction::Tiered => tiered::pick(version, options, level),
    }
}

/// True if so many runs stand in a level of tiers that it cannot wait for somebody who wants them
/// all.
pub(crate) fn has_piled_up(version: &Version, options: &KeyspaceOptions, level: usize) -> bool {
    options.compaction == Compaction::Tiered && tiered::has_piled_up(version, options, level)
}

/// What to compact because of its tombstones, although no level is over its limit.
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
    match options.compaction {
        Compaction::Leveled => leveled::pick_tombstones(version, options, oldest_snapshot),
        Compaction::Tiered => tiered::pick_tombstones(version, options, oldest_snapshot),
    }
}

/// Tables of which it would have to be known what their range tombstones cover, to find what is to
/// be compacted because of that: all where values are kept apart.
pub(crate) fn unknown_covers(version: &Version, options: &KeyspaceOptions) -> Vec<Arc<Table>> {
    let is_asked = |level: usize| {
        let for_tombstones = level == 0 || options.compaction == Compaction::Tiered;
        options.value_log_bytes_min.is_some()
            || (for_tombstones && options.tombstone_ratio_compact < 1.0)
    };
    let tables =
        version.tables().filter(|(level, table)| is_asked(*level) && table.has_unknown_cover());
    tables.map(|(_, table)| table.clone()).collect()
}

/// The level that scans would have made smaller, so that they find fewer runs.
pub(crate) fn level_for_scans(version: &Version, options: &KeyspaceOptions) -> Option<usize> {
    match options.compaction {
        Compaction::Leveled => leveled::level_for_scans(version),
        Compaction::Tiered => Some(0),
    }
}

/// Something of that level into the next, although it is not over its limit. Nothing if scans would
/// not find fewer runs, or if the option is off.
pub(crate) fn pick_for_scans(version: &Version, options: &KeyspaceOptions) -> Pick {
    if !options.compact_for_scans {
        return Pick::Nothing;
    }
    match options.compaction {
        Compaction::Leveled => leveled::pick_for_scans(version, options),
        Compaction::Tiered => tiered::pick_for_scans(version, options),
    }
}

/// What to compact next when the user asked for it.
pub(crate) fn pick_manual(
    version: &Version,
    options: &KeyspaceOptions,
    step: &ManualStep<'_>,
) -> Pick {
    match options.compaction {
        Compaction::Leveled => leveled::pick_manual(version, options, step),
        Compaction::Tiered => tiered::pick_manual(version, options, step),
    }
}

/// The run of `version` that takes the output of `spec`, which may have been chosen from an older
/// version; `None` is a new run.
pub(crate) fn output_run(
    version: &Version,
    options: &KeyspaceOptions,
    spec: &CompactionSpec,
) -> Option<u64> {
    match options.compaction {
        // What is written anew where it stands was taken from that run, which is there for as long
        // as its tables are.
        _ if matches!(spec.reason, CompactionReason::Erased | CompactionReason::SmallTables) => {
            spec.output_run
        }
        // Another job may have made the level's run in the meantime, or emptied it.
        Compaction::Leveled if spec.output_level > 0 => {
            version.level(spec.output_level).first().map(|run| run.id)
        }
        // One of level 0 is written anew where it stands.
        Compaction::Leveled => spec.output_run,
        Compaction::Tiered => spec.output_run,
    }
}

/// Bytes that stand above their level's limit and will have to be rewritten.
pub(crate) fn debt_bytes(version: &Version, options: &KeyspaceOptions) -> u64 {
    match options.compaction {
        Compaction::Leveled => leveled::debt_bytes(version, options),
        Compaction::Tiered => tiered::debt_bytes(version, options),
    }
}

/// What a level may hold.
pub(crate) fn level_limit(options: &KeyspaceOptions, level: usize) -> LevelLimit {
    match options.compaction {
        _ if level == 0 => LevelLimit::Runs(options.level0_runs_compact.into()),
        Compaction::Tiered => LevelLimit::Runs(options.tiered_runs.into()),
        Compaction::Leveled if level >= DEEPEST_LEVEL => LevelLimit::None,
        Compaction::Leveled => LevelLimit::Bytes(leveled::level_limit_bytes(options, level)),
    }
}
