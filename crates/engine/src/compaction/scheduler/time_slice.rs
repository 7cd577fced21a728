//! Levels take turns at compacting: one time slice goes from level to level.
//!
//! ```text
//! grant    a level over its limit: the one below the last holder if it is over, otherwise the worst
//! use      the holder compacts; the time of its compactions is added up
//! revoke   the time is used up, or the level is under its limit, or enough of the excess has left it
//! ```
//!
//! The slice follows the data: what level 0 hands to level 1, level 1 hands on next, before level 0
//! comes again. So no level piles up, and what a compaction must rewrite of the next level stays in
//! proportion.
//!
//! Flushes are no part of it. With several threads the holder has as many as it has work for that
//! can be done side by side, and only what it leaves idle goes to others, whose time is not
//! counted.
//!
//! Source: Slot; there the slice has one length for all. Ours can also be measured out: a fifth
//! longer than the compactions of level 0 so far suggest that its excess takes, for whoever has it;
//! while level 0 is under its limit, than the holder's own takes. And a turn can end when a share
//! of the excess has left.
//!
//! Why all turns are equally long: in the long run as many bytes leave each level, so in equal
//! times they leave it at equal cost. What a byte costs is how many times larger the next level is;
//! the product of these is given, namely what all levels hold over what level 0 hands down, and of
//! factors with a given product the sum is least when they are equal. With turns until each level
//! is under its limit the costs are as unequal as the limits make them: 5 to 7 % fewer bytes a
//! second, more the more is written.

use crate::options::TimeSlice;
use crate::version::{DEEPEST_LEVEL, LevelScore};

/// How many times as long as an excess takes a turn is that is measured out. From 1.0 to 1.2 the
/// rate of writing falls by 2 % where level 1 may hold as much as level 0 hands down, and rises by
/// 2 to 3 % where it may hold ten times that.
const TIMES_THE_EXCESS: f64 = 1.2;

/// Who has the slice, and how much of it is left.
#[derive(Debug)]
pub(crate) struct Rotation {
    /// `None`: as long as needed.
    slice_ns: Option<u64>,
    release_share: f64,
    turn: Option<Turn>,
    last_holder: Option<usize>,
    /// Bytes per nanosecond that left each level, as measured.
    drained: [Option<f64>; DEEPEST_LEVEL + 1],
}

#[derive(Clone, Copy, Debug)]
struct Turn {
    level: usize,
    used_ns: u64,
    /// The time after which it ends, unless level 0 waits; one compaction is always made.
    end_ns: u64,
    /// The excess at which it ends early.
    release_bytes: u64,
}

impl Rotation {
    pub(super) fn new(options: &TimeSlice) -> Rotation {
        Rotation {
            slice_ns: options.slice_ms.map(|ms| ms.saturating_mul(1_000_000)),
            release_share: options.release_share,
            turn: None,
            last_holder: None,
            drained: [None; DEEPEST_LEVEL + 1],
        }
    }

    pub(super) fn turn(&self) -> Option<usize> {
        self.turn.map(|turn| turn.level)
    }

    /// The level that has the slice now: the one that had it, or else whoever it is granted to.
    pub(super) fn holder(&mut self, scores: &[LevelScore]) -> Option<usize> {
        let find = |level: usize| scores.iter().find(|score| score.level == level);
        if let Some(turn) = self.turn {
            let end_ns = self.end_ns(&turn, find(0));
            let goes_on = |score: &LevelScore| {
                score.is_over()
                    && (turn.used_ns == 0
                        || turn.used_ns < end_ns && score.excess_bytes > turn.release_bytes)
            };
            if find(turn.level).is_some_and(goes_on) {
                return Some(turn.level);
            }
            self.turn = None;
            self.last_holder = Some(turn.level);
        }
        let over = |score: &&LevelScore| score.is_over();
        let below = self.last_holder.map(|level| (level + 1) % scores.len().max(1));
        // Of equals the upper one.
        let worst = || scores.iter().rev().filter(over).max_by(|a, b| a.score.total_cmp(&b.score));
        let next = below.and_then(find).filter(over).or_else(worst)?;
        self.turn = Some(self.grant(next));
        Some(next.level)
    }

    fn grant(&self, score: &LevelScore) -> Turn {
        Turn {
            level: score.level,
            used_ns: 0,
            end_ns: self.slice_ns.unwrap_or_else(|| self.needed_ns(score)),
            release_bytes: (score.excess_bytes as f64 * (1.0 - self.release_share)) as u64,
        }
    }

    /// How long a level's turn is by what its excess takes, as measured; without a measure one
    /// compaction, which gives one.
    fn needed_ns(&self, score: &LevelScore) -> u64 {
        let drained = self.drained.get(score.level).copied().flatten();
        drained.map_or(0, |rate| (TIMES_THE_EXCESS * score.excess_bytes as f64 / rate) as u64)
    }

    /// The time after which a turn ends, with level 0 as it is now.
    fn end_ns(&self, turn: &Turn, level0: Option<&LevelScore>) -> u64 {
        let waits = |level0: &&LevelScore| turn.level > 0 && level0.is_over();
        match level0.filter(waits) {
            Some(level0) if self.slice_ns.is_none() => self.needed_ns(level0),
            _ => turn.end_ns,
        }
    }

    pub(super) fn note_job(&mut self, level: usize, bytes: u64, duration_ns: u64) {
        if let Some(drained) = self.drained.get_mut(level)
            && bytes > 0
        {
            let sample = bytes as f64 / duration_ns.max(1) as f64;
            *drained = Some(drained.map_or(sample, |old| old + (sample - old) / 4.0));
        }
        if let Some(turn) = self.turn.as_mut().filter(|turn| turn.level == level) {
            turn.used_ns = turn.used_ns.saturating_add(duration_ns.max(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn rotation(slice_ms: Option<u64>, release_share: f64) -> Rotation {
        Rotation::new(&TimeSlice { slice_ms, release_share })
    }

    /// Levels with these scores; one byte more than the limit for each hundredth.
    fn scores(scores: &[f64]) -> Vec<LevelScore> {
        let score = |(level, &score): (usize, &f64)| {
            let excess_bytes = (score * 100.0 - 100.0).max(0.0) as u64;
            LevelScore { level, score, runs: 1, excess_bytes }
        };
        scores.iter().enumerate().map(score).collect()
    }

    #[test]
    fn a_turn_lasts_until_its_time_is_used_up() {
        let mut rotation = rotation(Some(8), 1.0);
        let scores = scores(&[5.0, 2.0, 3.0]);
        for used_ms in [0, 3, 4] {
            rotation.note_job(0, 1, used_ms * MS);
            assert_eq!(rotation.holder(&scores), Some(0), "the worst, as nobody had it");
        }
        rotation.note_job(1, 1, 100 * MS);
        assert_eq!(rotation.holder(&scores), Some(0), "the time of others does not count");
        rotation.note_job(0, 1, MS);
        assert_eq!(rotation.holder(&scores), Some(1), "the next, although it is not the worst");
        rotation.note_job(1, 1, 8 * MS);
        assert_eq!(rotation.holder(&scores), Some(2));
        rotation.note_job(2, 1, 8 * MS);
        assert_eq!(rotation.holder(&scores), Some(0), "round again");
    }

    #[test]
    fn a_level_under_its_limit_gives_the_slice_back() {
        let mut rotation = rotation(Some(1_000), 1.0);
        assert_eq!(rotation.holder(&scores(&[0.5, 0.9, 0.9])), None, "nobody needs it");
        assert_eq!(rotation.holder(&scores(&[2.0, 0.9, 5.0])), Some(2));
        assert_eq!(
            rotation.holder(&scores(&[2.0, 5.0, 0.9])),
            Some(0),
            "the deepest is followed by level 0"
        );
        assert_eq!(rotation.holder(&scores(&[0.9, 0.9, 1.0])), Some(2), "level 1 does not need it");
        assert_eq!(rotation.holder(&scores(&[0.9, 0.9, 0.9])), None);
        assert_eq!(rotation.turn(), None);
        assert_eq!(rotation.holder(&scores(&[1.0, 1.5, 0.9])), Some(0), "after the last holder");
    }

    #[test]
    fn who_is_alone_over_its_limit_has_it_again() {
        let mut rotation = rotation(Some(1), 1.0);
        let scores = scores(&[0.1, 3.0, 0.1]);
        for _ in 0..3 {
            assert_eq!(rotation.holder(&scores), Some(1));
            rotation.note_job(1, 1, MS);
        }
    }

    #[test]
    fn a_dynamic_slice_is_a_fifth_longer_than_the_excess_takes() {
        let mut rotation = rotation(None, 1.0);
        let over = scores(&[0.5, 11.0, 2.0]);
        assert_eq!(rotation.holder(&over), Some(1));
        // 100 bytes in 20 ms: nothing was measured before, so this was the whole turn.
        rotation.note_job(1, 100, 20 * MS);
        assert_eq!(rotation.holder(&over), Some(2));
        rotation.note_job(2, 100, MS);
        // 1 000 bytes take 200 ms.
        assert_eq!(rotation.holder(&over), Some(1));
        rotation.note_job(1, 100, 239 * MS);
        assert_eq!(rotation.holder(&over), Some(1));
        rotation.note_job(1, 100, MS);
        assert_eq!(rotation.holder(&over), Some(2));
    }

    #[test]
    fn while_level_0_waits_all_have_as_long_as_it_needs() {
        let mut rotation = rotation(None, 1.0);
        let over = scores(&[5.0, 11.0, 11.0]);
        // Each gives its measure in a first turn of one compaction: 100 bytes in 20, 1 and 1 ms.
        for (level, ms) in [(1, 1), (2, 1), (0, 20)] {
            assert_eq!(rotation.holder(&over), Some(level));
            rotation.note_job(level, 100, ms * MS);
        }
        // The 400 bytes of level 0 take 80 ms, and every turn is by that, although level 1 needs
        // but 10 ms.
        for level in [1, 2, 0, 1] {
            assert_eq!(rotation.holder(&over), Some(level));
            rotation.note_job(level, 475, 95 * MS);
            assert_eq!(rotation.holder(&over), Some(level), "a millisecond is left");
            rotation.note_job(level, 5, MS);
        }
    }

    #[test]
    fn a_long_turn_ends_early_once_level_0_waits() {
        let mut rotation = rotation(None, 1.0);
        let (calm, waiting) = (scores(&[0.5, 1_001.0]), scores(&[2.0, 1_001.0]));
        rotation.note_job(0, 100, 20 * MS);
        rotation.note_job(1, 100, MS);
        assert_eq!(rotation.holder(&calm), Some(1), "1 200 ms for 100 000 bytes");
        rotation.note_job(1, 100, MS);
        rotation.note_job(1, 2_200, 22 * MS);
        assert_eq!(rotation.holder(&calm), Some(1));
        assert_eq!(rotation.holder(&waiting), Some(1), "a millisecond is left");
        rotation.note_job(1, 100, MS);
        assert_eq!(rotation.holder(&calm), Some(1));
        assert_eq!(rotation.holder(&waiting), Some(0), "24 ms are enough for level 0");
    }

    #[test]
    fn a_slice_of_a_given_length_is_not_measured_out() {
        let mut rotation = rotation(Some(50), 1.0);
        let over = scores(&[2.0, 11.0]);
        rotation.note_job(0, 100, 20 * MS);
        assert_eq!(rotation.holder(&over), Some(1));
        rotation.note_job(1, 100, 49 * MS);
        assert_eq!(rotation.holder(&over), Some(1), "not 24 ms");
        rotation.note_job(1, 100, MS);
        assert_eq!(rotation.holder(&over), Some(0));
    }

    #[test]
    fn a_turn_ends_when_its_share_of_the_excess_has_left() {
        let mut rotation = rotation(Some(1_000_000), 0.7);
        assert_eq!(rotation.holder(&scores(&[11.0, 1.1])), Some(0));
        rotation.note_job(0, 1, MS);
        assert_eq!(rotation.holder(&scores(&[4.1, 1.1])), Some(0), "31 of 100 are left");
        assert_eq!(rotation.holder(&scores(&[4.0, 1.1])), Some(1));
    }

    #[test]
    fn one_compaction_is_made_in_every_turn() {
        let mut rotation = rotation(Some(1), 0.01);
        for _ in 0..3 {
            assert_eq!(
                rotation.holder(&scores(&[2.0, 2.0])),
                Some(0),
                "asked again before it is used"
            );
        }
        // However quick it was, and however little it took away.
        rotation.note_job(0, 0, 0);
        assert_eq!(rotation.holder(&scores(&[1.9, 1.9])), Some(1));
    }
}
