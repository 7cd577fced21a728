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
    let scores = policy::scores(version, options);
    schedule
        .candidates(&scores)
        .into_iter()
        .find_map(|(level, urgency)| Some((urgency, policy::pick(version, options, level)?)))
}
