//! Tables are written anew, where they stand, to be rid of what was erased: deleted groups that
//! share them with others.

use super::taken::is_busy;
use crate::event::CompactionReason;
use crate::options::{Compaction, KeyspaceOptions};
use crate::version::{CompactionSpec, InputRun, Run, Table, Version};
use std::sync::Arc;

/// A table that holds something that was erased, to be written anew in its own run.
///
/// Nothing else is merged: by `group_table_bytes_min` such tables are short. The whole run where a
/// run index is kept, which knows runs and no tables. Where level 0 of a leveled tree is to be
/// compacted, neither its tables nor those of level 1: one after the other being written anew would
/// keep it from that for ever, and it is rid of what was erased when it is. Not so `if_room`: then
/// there may be room for nothing else.
pub(crate) fn pick_erased(
    version: &Version,
    options: &KeyspaceOptions,
    if_room: bool,
) -> Option<CompactionSpec> {
    if version.erased.is_empty() {
        return None;
    }
    let order = &options.order;
    let is_leveled = options.compaction == Compaction::Leveled;
    let has_index = !is_leveled && options.run_index;
    let level0_runs = version.level(0).len();
    let is_due = is_leveled && !if_room && level0_runs >= options.level0_runs_compact as usize;
    let in_run = |(level, run): (usize, &Arc<Run>)| {
        let partly = |table: &&Arc<Table>| version.is_partly_erased(order, table);
        let table = run.tables.iter().find(partly)?;
        let tables = if has_index { run.tables.clone() } else { vec![table.clone()] };
        (!tables.iter().any(|table| is_busy(table))).then(|| CompactionSpec {
            reason: CompactionReason::Erased,
            level,
            output_level: level,
            output_run: Some(run.id),
            inputs: vec![InputRun { level, tables }],
            is_move: false,
        })
    };
    version.runs().filter(|(level, _)| !(is_due && *level <= 1)).find_map(in_run)
}
