//! Which level is compacted first, as a door: the engine's own schedules come in by it, and rules
//! that are only tried.

use crate::compaction::scheduler::Schedule;
use crate::version::LevelScore;

/// An order of levels.
pub trait Rule {
    /// Levels to be compacted, with their urgencies: the first if something of it can be, otherwise
    /// the next.
    fn candidates(&mut self, scores: &[LevelScore]) -> Vec<(usize, f64)>;

    /// Notes that a compaction took so many bytes out of `level` in this time.
    fn note_job(&mut self, level: usize, bytes: u64, duration_ns: u64);

    /// The level whose turn it is, if levels take turns.
    fn turn(&self) -> Option<usize>;
}

impl Rule for Schedule {
    fn candidates(&mut self, scores: &[LevelScore]) -> Vec<(usize, f64)> {
        Schedule::candidates(self, scores)
    }

    fn note_job(&mut self, level: usize, bytes: u64, duration_ns: u64) {
        Schedule::note_job(self, level, bytes, duration_ns);
    }

    fn turn(&self) -> Option<usize> {
        Schedule::turn(self)
    }
}
