//! Which level to compact first, by the levels' scores; when to compact although none is over its
//! limit; and how fast writes may come meanwhile.
//!
//! Nothing here reads a clock or a disk: times and sizes are told.

pub(crate) mod pace;
mod time_slice;
pub(crate) mod toll;

use crate::options::{KeyspaceOptions, Scheduler};
use crate::version::LevelScore;
use time_slice::Rotation;

/// Added to the runs of level 0 from `level0_runs_slow` and from `level0_runs_max` of them on,
/// under `Priority`, for a score above any other level's. As in LevelDB and RocksDB 2.5; there all
/// keyspaces that are as far have the same score.
const FIRST: f64 = 10_000.0;
const BEFORE_ALL: f64 = 100_000.0;

/// The order in which a keyspace's levels are compacted, and what must be remembered for it.
#[derive(Debug)]
pub(crate) enum Schedule {
    /// The level furthest over its limit first.
    Ratio,
    /// The same, but level 0 first if it has so many runs, and again from so many on.
    Priority { slow: usize, max: usize },
    /// In turns.
    TimeSlice(Rotation),
}

impl Schedule {
    /// As the options say. Nothing is remembered across an open.
    pub(crate) fn new(options: &KeyspaceOptions) -> Schedule {
        match &options.scheduler {
            Scheduler::Ratio => Schedule::Ratio,
            Scheduler::Priority => Schedule::Priority {
                slow: options.level0_runs_slow as usize,
                max: options.level0_runs_max as usize,
            },
            Scheduler::TimeSlice(slice) => Schedule::TimeSlice(Rotation::new(slice)),
        }
    }

    /// The levels that are over their limits, with their urgency: the first is to be compacted if
    /// it can be, otherwise the next. The first is as urgent as the worst: whose turn it is says
    /// nothing about another keyspace's levels.
    pub(crate) fn candidates(&mut self, scores: &[LevelScore]) -> Vec<(usize, f64)> {
        let mut over: Vec<(usize, f64)> = scores
            .iter()
            .filter(|score| score.is_over())
            .map(|score| (score.level, self.urgency(score)))
            .collect();
        over.sort_by(|a, b| b.1.total_cmp(&a.1));
        if let Schedule::TimeSlice(rotation) = self
            && let Some(holder) = rotation.holder(scores)
            && let Some(at) = over.iter().position(|(level, _)| *level == holder)
        {
            // The others follow for threads for which the holder has nothing left to do.
            let worst = over[0].1;
            over[..=at].rotate_right(1);
            over[0].1 = worst;
        }
        over
    }

    fn urgency(&self, score: &LevelScore) -> f64 {
        match self {
            Schedule::Priority { max, .. } if score.level == 0 && score.runs >= *max => {
                BEFORE_ALL + score.runs as f64
            }
            Schedule::Priority { slow, .. } if score.level == 0 && score.runs >= *slow => {
                FIRST + score.runs as f64
            }
            _ => score.score,
        }
    }

    /// Notes that a compaction took so many bytes out of `level` in this time.
    pub(crate) fn note_job(&mut self, level: usize, bytes: u64, duration_ns: u64) {
        if let Schedule::TimeSlice(rotation) = self {
            rotation.note_job(level, bytes, duration_ns);
        }
    }

    /// The level whose turn it is, under `TimeSlice`.
    pub(crate) fn turn(&self) -> Option<usize> {
        match self {
            Schedule::TimeSlice(rotation) => rotation.turn(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(level: usize, score: f64, runs: usize) -> LevelScore {
        LevelScore { level, score, runs, excess_bytes: 1 }
    }

    fn levels(schedule: &mut Schedule, scores: &[LevelScore]) -> Vec<usize> {
        schedule.candidates(scores).into_iter().map(|(level, _)| level).collect()
    }

    fn of(scheduler: Scheduler) -> Schedule {
        let (level0_runs_slow, level0_runs_max) = (8, 12);
        let rest = KeyspaceOptions::default();
        Schedule::new(&KeyspaceOptions { scheduler, level0_runs_slow, level0_runs_max, ..rest })
    }

    #[test]
    fn the_level_furthest_over_its_limit_goes_first() {
        let scores = [score(0, 3.0, 12), score(1, 7.0, 1), score(2, 0.9, 1), score(3, 1.0, 1)];
        assert_eq!(levels(&mut of(Scheduler::Ratio), &scores), [1, 0, 3]);
    }

    #[test]
    fn priority_puts_level_0_first_when_it_has_many_runs() {
        let mut schedule = of(Scheduler::Priority);
        for (runs, order, urgency) in
            [(7, [1, 0], 300.0), (8, [0, 1], FIRST + 8.0), (12, [0, 1], BEFORE_ALL + 12.0)]
        {
            let scores = [score(0, 2.0, runs), score(1, 300.0, 1)];
            assert_eq!(levels(&mut schedule, &scores), order, "{runs} runs");
            assert_eq!(schedule.candidates(&scores)[0].1, urgency, "{runs} runs");
        }
        // Only what is over its limit, however many runs.
        assert_eq!(levels(&mut schedule, &[score(0, 0.5, 12), score(1, 0.5, 1)]), [0usize; 0]);
    }

    #[test]
    fn the_holder_of_the_slice_goes_before_those_who_are_worse() {
        let mut schedule = of(Scheduler::TimeSlice(Default::default()));
        let scores = [score(0, 3.0, 12), score(1, 7.0, 1), score(2, 2.0, 1)];
        assert_eq!(levels(&mut schedule, &scores), [1, 0, 2], "nobody had it: the worst");
        schedule.note_job(1, 1, u64::MAX / 2);
        assert_eq!(levels(&mut schedule, &scores), [2, 1, 0], "the level below");
        let urgencies = schedule.candidates(&scores).into_iter().map(|(_, urgency)| urgency);
        assert_eq!(urgencies.collect::<Vec<f64>>(), [7.0, 7.0, 3.0], "the keyspace's, not its own");
        assert_eq!(schedule.turn(), Some(2));
    }
}
