//! Compacting for the sake of values that are kept apart: only a compaction finds out that one is dead.
//!
//! What newer runs point to may overwrite what older ones do; as long as they are not merged, both are kept. So where
//! space is short, newer runs may point to no more than a share of what the oldest does.

use super::{leveled, tiered};
use crate::options::{Compaction, KeyspaceOptions};
use crate::version::{CompactionSpec, Run, Version};
use std::sync::Arc;

/// Limits of that share. The more a tree weighs beside its values, the more it costs to merge it often.
const SHARE_MIN: f64 = 0.05;
const SHARE_MAX: f64 = 0.1;

/// What to compact so that dead values are known, where space is short.
pub(crate) fn pick_for_values(
    version: &Version,
    options: &KeyspaceOptions,
) -> Option<CompactionSpec> {
    let runs: Vec<(usize, &Arc<Run>)> = version.runs().collect();
    let (&(_, oldest), newer) = runs.split_last()?;
    let newer_bytes: u64 = newer.iter().map(|(_, run)| run.value_bytes()).sum();
    if newer_bytes as f64 <= oldest.value_bytes() as f64 * share(oldest) {
        return None;
    }
    let of_level = |level: usize| -> u64 {
        newer.iter().filter(|(at, _)| *at == level).map(|(_, run)| run.value_bytes()).sum()
    };
    let level = (0..version.depth()).max_by_key(|&level| of_level(level))?;
    match options.compaction {
        Compaction::Leveled => leveled::pick_for_values(version, options, level),
        Compaction::Tiered => tiered::pick_for_values(version),
    }
}

/// Half of what the tables weigh beside the values, within limits.
fn share(oldest: &Run) -> f64 {
    let weight = oldest.bytes() as f64 / oldest.value_bytes().max(1) as f64;
    (weight / 2.0).clamp(SHARE_MIN, SHARE_MAX)
}
