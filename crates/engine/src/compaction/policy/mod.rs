//! What to compact: functions from a version and options to a `CompactionSpec`.

pub(crate) mod leveled;

use crate::version::{Run, Table};
use std::sync::Arc;

fn is_busy(table: &Table) -> bool {
    table.compacting.load(std::sync::atomic::Ordering::Relaxed)
}

fn any_busy(tables: &[Arc<Table>]) -> bool {
    tables.iter().any(|t| is_busy(t))
}

fn total_bytes(tables: &[Arc<Table>]) -> u64 {
    tables.iter().map(|t| t.meta.file_bytes).sum()
}

/// The level's only run, if the level has one.
fn only_run(runs: &[Arc<Run>]) -> Option<&Arc<Run>> {
    debug_assert!(runs.len() <= 1, "a leveled level below 0 has one run");
    runs.first()
}
