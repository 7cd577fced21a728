//! The level furthest over its limit goes first.
//!
//! Source: LevelDB and RocksDB.

use crate::version::LevelScore;

/// The levels that are over their limit, most urgent first.
pub(crate) fn candidates(scores: &[LevelScore]) -> Vec<usize> {
    let mut over: Vec<LevelScore> = scores.iter().copied().filter(|s| s.score >= 1.0).collect();
    over.sort_by(|a, b| b.score.total_cmp(&a.score));
    over.into_iter().map(|s| s.level).collect()
}
