//! What one compaction does, as data. Policies make it, schedulers choose among it, jobs run it.

use super::store::Table;
use crate::event::CompactionReason;
use crate::trace::Amount;
use std::sync::Arc;

/// How urgent a level is. What compactions have taken does not count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelScore {
    /// Which level.
    pub level: usize,
    /// Its size over its limit.
    pub score: f64,
    /// Its sorted runs.
    pub runs: usize,
    /// What must leave it until it is under its limit.
    pub excess_bytes: u64,
}

impl LevelScore {
    /// True if it should be compacted.
    pub fn is_over(&self) -> bool {
        self.score >= 1.0
    }
}

/// Tables of one run that a compaction takes, in key order.
#[derive(Clone, Debug)]
pub(crate) struct InputRun {
    pub(crate) level: usize,
    pub(crate) tables: Vec<Arc<Table>>,
}

/// What one compaction takes and where it puts the result.
#[derive(Clone, Debug)]
pub(crate) struct CompactionSpec {
    pub(crate) reason: CompactionReason,
    pub(crate) level: usize,
    pub(crate) output_level: usize,
    /// The run the output joins; `None` makes a new run.
    pub(crate) output_run: Option<u64>,
    /// Newest data first.
    pub(crate) inputs: Vec<InputRun>,
    /// True if the tables can move as they are, without being rewritten.
    pub(crate) is_move: bool,
}

impl CompactionSpec {
    pub(crate) fn tables(&self) -> impl Iterator<Item = (usize, &Arc<Table>)> {
        self.inputs.iter().flat_map(|run| run.tables.iter().map(move |t| (run.level, t)))
    }

    /// What leaves the level that is to be made smaller.
    pub(crate) fn taken(&self) -> Amount {
        self.amount(|level| level == self.level)
    }

    /// Bytes of keys and values of what leaves that level, before compression: about what they took
    /// in memtables.
    pub(crate) fn taken_raw_bytes(&self) -> u64 {
        let taken = self.tables().filter(|(level, _)| *level == self.level);
        taken.map(|(_, table)| table.meta.raw_bytes).sum()
    }

    /// What is read besides: of the level that takes the output, and between.
    pub(crate) fn rewritten(&self) -> Amount {
        self.amount(|level| level != self.level)
    }

    fn amount(&self, of: impl Fn(usize) -> bool) -> Amount {
        let tables = self.tables().filter(|(level, _)| of(*level));
        Amount::of(tables.map(|(_, table)| table.meta.file_bytes))
    }

    pub(crate) fn input_bytes(&self) -> u64 {
        self.tables().map(|(_, t)| t.meta.file_bytes).sum()
    }
}
