//! Choosing: what the policy offers, in the order the schedule wants it.

use super::policy;
use super::scheduler::Schedule;
use crate::options::KeyspaceOptions;
use crate::version::{CompactionSpec, Version};

/// The most urgent compaction of a level over its limit that can run now, with its urgency.
pub(crate) fn urgent(
    version: &Version,
    options: &KeyspaceOptions,
    schedule: &mut Schedule,
) -> Option<(f64, CompactionSpec)> {
    first(version, options, schedule.candidates(&policy::scores(version, options)))
}

/// Of levels with their urgencies, the first of which something can be compacted now.
pub(crate) fn first(
    version: &Version,
    options: &KeyspaceOptions,
    candidates: Vec<(usize, f64)>,
) -> Option<(f64, CompactionSpec)> {
    let pick = |(level, urgency)| Some((urgency, policy::pick(version, options, level)?));
    candidates.into_iter().find_map(pick)
}
