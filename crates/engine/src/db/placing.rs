//! Where in the tree tables go that no compaction has written: those that are bulk-loaded, or come
//! from another store.

use super::core::KeyspaceCore;
use crate::compaction::policy::{self, LevelLimit};
use crate::options::Compaction;
use crate::version::{DEEPEST_LEVEL, KeyRange, TableMeta, Version, VersionSet};
use esker_base::sync::atomic::Ordering;

/// The run that tables join in a level.
pub(super) fn run_for(
    versions: &mut VersionSet,
    version: &Version,
    keyspace: &KeyspaceCore,
    level: usize,
) -> u64 {
    match (keyspace.compacted_by.load().compaction, version.level(level).first()) {
        (Compaction::Leveled, Some(run)) if level > 0 => run.id,
        _ => versions.new_run_id(),
    }
}

/// The deepest level where the tables overlap nothing in it or above; level 0 if there is none, or
/// if a compaction is under way whose output is not known yet. Tables that `leave` with the same
/// edit do not count.
pub(super) fn level_for(
    version: &Version,
    keyspace: &KeyspaceCore,
    tables: &[TableMeta],
    leave: impl Fn(&TableMeta) -> bool,
) -> usize {
    let order = &keyspace.options.order;
    let (Some(first), Some(last)) = (tables.first(), tables.last()) else { return 0 };
    let range = KeyRange::closed(&first.smallest, &last.largest);
    let busy = version.tables().any(|(_, t)| t.compacting.load(Ordering::Relaxed));
    let overlaps = |level: usize| {
        let runs = version.level(level).iter();
        runs.flat_map(|run| run.overlapping(order, &range)).any(|table| !leave(&table.meta))
    };
    if busy || overlaps(0) {
        return 0;
    }
    let bytes: u64 = tables.iter().map(|meta| meta.file_bytes).sum();
    let mut chosen = 0;
    for level in 1..=DEEPEST_LEVEL {
        if overlaps(level) {
            break;
        }
        chosen = level;
        let roomy = match policy::level_limit(&keyspace.compacted_by.load(), level) {
            LevelLimit::Bytes(limit) => version.level_bytes(level) + bytes <= limit,
            LevelLimit::Runs(_) | LevelLimit::None => true,
        };
        if roomy && level + 1 >= version.depth() {
            break;
        }
    }
    chosen
}
