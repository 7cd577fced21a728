//! Small tables that stand next to each other become one, where they stand.
//!
//! What overlaps nothing only moves, or is loaded right into a deep level: keys that come in order,
//! a few at a time, would leave a file for each flush and each load. Merging them costs little,
//! since each time a record is written its table at least doubles, and only up to a size that is
//! still a small one.
//! Source: none; LevelDB, RocksDB and Pebble leave such tables as they are.

use super::taken::{any_busy, is_busy};
use crate::event::CompactionReason;
use crate::options::{Compaction, KeyspaceOptions};
use crate::version::{CompactionSpec, InputRun, KeyRange, Run, Table, Version};
use std::sync::Arc;

/// A table is small below this, and below one of `SHARE` parts of the largest that may be. What it
/// costs beside its records (a file, its names, an index of one block) is 1 % of that or less.
const SMALL_BYTES: u64 = 512 << 10;
const SHARE: u64 = 64;

/// Fewer small tables than this are left alone. No more become one than are small together by as
/// much.
const TABLES_MIN: usize = 8;

/// Small tables of one run, next to each other, into one.
///
/// None where a run index is kept: it knows runs and no tables, and a whole run is too much. None
/// with range tombstones, which are compacted for their own sake.
pub(crate) fn pick_small(version: &Version, options: &KeyspaceOptions) -> Option<CompactionSpec> {
    if options.compaction == Compaction::Tiered && options.run_index {
        return None;
    }
    // What is cut at groups is not cut again: at least every other table goes.
    let grouped = options.groups.map_or(u64::MAX, |_| options.group_table_bytes_min / 2);
    let small = SMALL_BYTES.min(options.table_bytes_max / SHARE).min(grouped);
    let order = &options.order;
    let in_run = |(level, run): (usize, &Arc<Run>)| {
        // What a compaction above brings here may come between them.
        let arrives = |tables: &[Arc<Table>]| {
            let (Some(first), Some(last)) = (tables.first(), tables.last()) else { return false };
            let range = KeyRange::closed(&first.meta.smallest, &last.meta.largest);
            let above = version.runs().take_while(|(above, _)| *above < level);
            above.into_iter().any(|(_, run)| any_busy(run.overlapping(order, &range)))
        };
        let tables = find(&run.tables, small, &arrives)?.to_vec();
        Some(CompactionSpec {
            reason: CompactionReason::SmallTables,
            level,
            output_level: level,
            output_run: Some(run.id),
            inputs: vec![InputRun { level, tables }],
            is_move: false,
        })
    };
    // Level 0 is emptied anyway.
    version.runs().filter(|(level, _)| *level > 0).find_map(in_run)
}

/// Neighbours among these, each smaller than `small` and all together at most [`TABLES_MIN`] times
/// that, which are to become one.
fn find<'a>(
    mut tables: &'a [Arc<Table>],
    small: u64,
    is_in_use: &impl Fn(&[Arc<Table>]) -> bool,
) -> Option<&'a [Arc<Table>]> {
    while !tables.is_empty() {
        let mut total = 0;
        let fits = |table: &&Arc<Table>| {
            let meta = &table.meta;
            total += meta.file_bytes;
            let is_small = meta.file_bytes < small && meta.range_tombstones == 0;
            is_small && total <= TABLES_MIN as u64 * small && !is_busy(table)
        };
        let count = tables.iter().take_while(fits).count();
        let (neighbours, rest) = tables.split_at(count.max(1));
        let found = alike(&neighbours[..count]).filter(|found| !is_in_use(found));
        if found.is_some() {
            return found;
        }
        tables = rest;
    }
    None
}

/// Of these tables all, or those on one side of one that is larger than the others together: every
/// record is in a table twice as large then.
fn alike(tables: &[Arc<Table>]) -> Option<&[Arc<Table>]> {
    if tables.len() < TABLES_MIN {
        return None;
    }
    let bytes = |table: &Arc<Table>| table.meta.file_bytes;
    let total: u64 = tables.iter().map(bytes).sum();
    let (at, largest) = tables.iter().map(bytes).enumerate().max_by_key(|(_, bytes)| *bytes)?;
    if 2 * largest <= total {
        return Some(tables);
    }
    alike(&tables[..at]).or_else(|| alike(&tables[at + 1..]))
}
