//! Which tables other compactions have taken, and how large tables are together.

use crate::version::{Run, Table};
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(super) fn is_busy(table: &Table) -> bool {
    table.compacting.load(Ordering::Relaxed)
}

pub(super) fn any_busy(tables: &[Arc<Table>]) -> bool {
    tables.iter().any(|t| is_busy(t))
}

pub(super) fn any_run_busy(runs: &[Arc<Run>]) -> bool {
    runs.iter().any(|run| any_busy(&run.tables))
}

pub(super) fn total_bytes(tables: &[Arc<Table>]) -> u64 {
    tables.iter().map(|t| t.meta.file_bytes).sum()
}
