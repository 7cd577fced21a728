//! Compacting for the sake of values that are kept apart: only a compaction finds out that one is
//! dead.
//!
//! What newer runs have may overwrite or delete what older ones point to; as long as they are not
//! merged, both are kept. So where space is short, newer runs may be able to do so with no more
//! than a share of what the oldest points to.

use super::hidden::Hidden;
use super::{leveled, tiered};
use crate::options::{Compaction, KeyspaceOptions};
use crate::version::{CompactionSpec, Run, Table, TableMeta, Version};
use esker_base::KeyOrder;
use std::sync::Arc;

/// Limits of that share. The more a tree weighs beside its values, the more it costs to merge it
/// often.
const SHARE_MIN: f64 = 0.05;
const SHARE_MAX: f64 = 0.1;

/// What to compact so that dead values are known, where space is short.
pub(crate) fn pick_for_values(
    version: &Version,
    options: &KeyspaceOptions,
) -> Option<CompactionSpec> {
    let runs: Vec<(usize, &Arc<Run>)> = version.runs().collect();
    let (&(_, oldest), newer) = runs.split_last()?;
    let order = &options.order;
    let bytes_of = |run: &Run| overwriting_bytes(run.tables.iter(), oldest, order);
    let newer_bytes: u64 = newer.iter().map(|(_, run)| bytes_of(run)).sum();
    if newer_bytes as f64 <= oldest.value_bytes() as f64 * share(oldest) {
        return None;
    }
    let of_level = |level: usize| -> u64 {
        newer.iter().filter(|(at, _)| *at == level).map(|(_, run)| bytes_of(run)).sum()
    };
    let level = (0..version.depth()).max_by_key(|&level| of_level(level))?;
    match options.compaction {
        Compaction::Leveled => leveled::pick_for_values(version, options, level),
        Compaction::Tiered => tiered::pick_for_values(version, options, level == 0),
    }
}

/// The most that newer runs may have overwritten of the values that the oldest points to.
pub(crate) fn newer_bytes(version: &Version, order: &KeyOrder) -> u64 {
    let runs: Vec<&Arc<Run>> = version.runs().map(|(_, run)| run).collect();
    let Some((oldest, newer)) = runs.split_last() else { return 0 };
    let bytes_of = |run: &&Arc<Run>| overwriting_bytes(run.tables.iter(), oldest, order);
    newer.iter().map(bytes_of).sum()
}

/// Bytes of values that the records of newer tables may have overwritten or deleted of those that
/// an older run points to: as many as they point to themselves, or as the same number of records
/// and range tombstones would of the older run's on an average, or as their range tombstones hide,
/// whichever is most.
pub(crate) fn overwriting_bytes<'a>(
    newer: impl Iterator<Item = &'a Arc<Table>>,
    oldest: &Arc<Run>,
    order: &KeyOrder,
) -> u64 {
    let each = oldest.value_bytes() as f64 / oldest.entries().max(1) as f64;
    let mut hidden = Hidden::new(order);
    let of_table = |table: &Arc<Table>| {
        let records = ((table.meta.entries + table.meta.range_tombstones) as f64 * each) as u64;
        let by_ranges = hidden.by(table, &[oldest], TableMeta::value_bytes);
        records.max(table.meta.value_bytes()).max(by_ranges)
    };
    newer.map(of_table).sum()
}

/// Half of what the tables weigh beside the values, within limits.
fn share(oldest: &Run) -> f64 {
    let weight = oldest.bytes() as f64 / oldest.value_bytes().max(1) as f64;
    (weight / 2.0).clamp(SHARE_MIN, SHARE_MAX)
}
