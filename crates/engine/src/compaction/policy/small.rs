//! Small tables that stand next to each other become one, where they stand.
//!
//! What overlaps nothing only moves, or is loaded right into a deep level: keys that come in order,
//! a few at a time, would leave a file for each flush and each load. Merging them costs little,
//! since each time a record is written its table at least doubles, and only up to a size that is
//! still a small one.
//! Source: none; LevelDB, RocksDB and Pebble leave such tables as they are.

use super::taken::{any_busy, any_run_busy};
use crate::event::CompactionReason;
use crate::options::{Compaction, KeyspaceOptions};
use crate::version::{CUT_EARLY_FROM, CompactionSpec, InputRun, KeyRange, Run, Table, Version};
use std::sync::Arc;

/// A table is small below this, and below one of `SHARE` parts of the largest that may be. What it
/// costs beside its records (a file, its names, an index of one block) is 1 % of that or less.
const SMALL_BYTES: u64 = 512 << 10;
const SHARE: u64 = 64;

/// Fewer small tables than this are left alone. No more become one than are small together by as
/// much.
const TABLES_MIN: usize = 8;

/// Bytes that a record takes beside its key and value, about, while its table is written.
const RECORD_BYTES: u64 = 32;

/// What tables count as small.
struct Small {
    file_bytes: u64,
    /// Before compression. Tables are ended by what they are then, or nearly so; where each of
    /// those that become one has less than a quarter of that, they become fewer, whatever ends
    /// them.
    raw_bytes: u64,
}

impl Small {
    fn new(options: &KeyspaceOptions) -> Small {
        let early = options.table_bytes_max / CUT_EARLY_FROM;
        let by_groups = options.groups.map_or(u64::MAX, |_| options.group_table_bytes_min);
        Small {
            file_bytes: SMALL_BYTES.min(options.table_bytes_max / SHARE),
            raw_bytes: early.min(by_groups) / 4,
        }
    }

    fn is(&self, table: &Table) -> bool {
        let meta = &table.meta;
        let raw_bytes = meta.raw_bytes.saturating_add(RECORD_BYTES.saturating_mul(meta.entries));
        meta.file_bytes < self.file_bytes
            && raw_bytes < self.raw_bytes
            && meta.range_tombstones == 0
    }
}

/// Small tables of one run, next to each other, into one.
///
/// None where a run index is kept: it knows runs and no tables, and a whole run is too much. None
/// with range tombstones, which are compacted for their own sake. One level at a time, and none
/// that several runs are to leave first, so that what is urgent does not wait for one after the
/// other.
pub(crate) fn pick_small(version: &Version, options: &KeyspaceOptions) -> Option<CompactionSpec> {
    let is_leveled = options.compaction == Compaction::Leveled;
    if !is_leveled && options.run_index {
        return None;
    }
    let (order, small) = (&options.order, Small::new(options));
    let in_run = |(level, run): (usize, &Arc<Run>)| {
        let tables = find(&run.tables, &small)?;
        let (first, last) = (tables.first()?, tables.last()?);
        // What a compaction above brings here may come between them.
        let range = KeyRange::closed(&first.meta.smallest, &last.meta.largest);
        let mut above = version.runs().take_while(|(above, _)| *above < level);
        let arrives = above.any(|(_, run)| any_busy(run.overlapping(order, &range)));
        (!arrives).then(|| CompactionSpec {
            reason: CompactionReason::SmallTables,
            level,
            output_level: level,
            output_run: Some(run.id),
            inputs: vec![InputRun { level, tables: tables.to_vec() }],
            is_move: false,
        })
    };
    let is_open = |level: usize| {
        let runs = version.level(level);
        // Level 0 is emptied anyway.
        level > 0 && !(is_leveled && runs.len() > 1) && !any_run_busy(runs)
    };
    version.runs().filter(|(level, _)| is_open(*level)).find_map(in_run)
}

/// Neighbours among these, each small and all together at most [`TABLES_MIN`] times that, which are
/// to become one.
fn find<'a>(mut tables: &'a [Arc<Table>], small: &Small) -> Option<&'a [Arc<Table>]> {
    while !tables.is_empty() {
        let mut total = 0;
        let fits = |table: &&Arc<Table>| {
            total += table.meta.file_bytes;
            small.is(table) && total <= TABLES_MIN as u64 * small.file_bytes
        };
        let count = tables.iter().take_while(fits).count();
        let (neighbours, rest) = tables.split_at(count.max(1));
        let found = alike(&neighbours[..count]);
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
