//! The rotation as the thesis built it into RocksDB 2.5, for the simulator: it differs from the
//! engine's in who has the slice when a level is done before its slice is used up.
//!
//! There the slice then goes to the level of the highest priority, and to level 0 from 8 runs on a
//! priority of 10 000 is given, from 12 on one of 100 000. Only after a slice that was used up does
//! it go to the level below; if that one is under its limit, to the highest priority again. So
//! level 0 gets every slice that is not claimed by the level below the last holder.

use esker::simulate::{LevelScore, Rule};

/// Priorities of level 0 from so many runs on.
const SLOW: (usize, f64) = (8, 10_000.0);
const FULL: (usize, f64) = (12, 100_000.0);

/// Who has the slice, and how much of it is used.
#[derive(Debug)]
pub(super) struct Theirs {
    slice_ns: u64,
    holder: Option<usize>,
    used_ns: u64,
}

impl Theirs {
    pub(super) fn new(slice_ms: u64) -> Theirs {
        Theirs { slice_ns: slice_ms * 1_000_000, holder: None, used_ns: 0 }
    }
}

fn priority(score: &LevelScore) -> f64 {
    match score {
        LevelScore { level: 0, runs, .. } if *runs >= FULL.0 => FULL.1,
        LevelScore { level: 0, runs, .. } if *runs >= SLOW.0 => SLOW.1,
        _ => score.score,
    }
}

impl Rule for Theirs {
    fn candidates(&mut self, scores: &[LevelScore]) -> Vec<(usize, f64)> {
        let mut over: Vec<(usize, f64)> = scores
            .iter()
            .filter(|score| score.is_over())
            .map(|score| (score.level, priority(score)))
            .collect();
        over.sort_by(|a, b| b.1.total_cmp(&a.1));
        let is_over = |level: &usize| over.iter().any(|(other, _)| other == level);
        if let Some(holder) = self.holder {
            let used_up = self.used_ns >= self.slice_ns;
            if used_up || !is_over(&holder) {
                let below = (holder + 1) % scores.len().max(1);
                self.holder = Some(below).filter(|below| used_up && is_over(below));
                self.used_ns = 0;
            }
        }
        if self.holder.is_none() {
            self.holder = over.first().map(|(level, _)| *level);
            self.used_ns = 0;
        }
        if let Some(at) = over.iter().position(|(level, _)| Some(*level) == self.holder) {
            over[..=at].rotate_right(1);
        }
        over
    }

    fn note_job(&mut self, level: usize, _bytes: u64, duration_ns: u64) {
        if self.holder == Some(level) {
            self.used_ns += duration_ns.max(1);
        }
    }

    fn turn(&self) -> Option<usize> {
        self.holder
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(rule: &mut Theirs, runs: usize, scores: [f64; 3]) -> Option<usize> {
        let score = |(level, score)| {
            let runs = if level == 0 { runs } else { 1 };
            LevelScore { level, score, runs, excess_bytes: 1 }
        };
        let scores: Vec<LevelScore> = scores.into_iter().enumerate().map(score).collect();
        rule.candidates(&scores).first().map(|(level, _)| *level)
    }

    #[test]
    fn a_slice_goes_down_when_it_is_used_up_and_otherwise_to_level_0() {
        let mut rule = Theirs::new(8);
        let full = [3.0, 9.0, 2.0];
        assert_eq!(first(&mut rule, 12, full), Some(0), "100 000 is more than 9");
        rule.note_job(0, 1, 7_000_000);
        assert_eq!(first(&mut rule, 12, full), Some(0), "a millisecond is left");
        rule.note_job(0, 1, 1_000_000);
        assert_eq!(first(&mut rule, 12, full), Some(1), "the level below");
        rule.note_job(1, 1, 1_000_000);
        assert_eq!(first(&mut rule, 12, [3.0, 0.9, 2.0]), Some(0), "level 1 was done early");
        rule.note_job(0, 1, 8_000_000);
        assert_eq!(first(&mut rule, 12, [3.0, 0.9, 2.0]), Some(0), "nobody below claims it");
        assert_eq!(first(&mut rule, 0, [0.5, 0.9, 0.9]), None);
        assert_eq!(first(&mut rule, 5, [1.2, 1.1, 2.0]), Some(2), "few runs: the worst");
    }
}
