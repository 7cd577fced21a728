//! Gate: a store below somebody else's log is, after a crash, exactly as after the request of each
//! group that it tells of.
//!
//! In the first part (`cuts`) the power fails at calls that change the disk, while requests are
//! applied to 1, 16 and 256 groups, groups are deleted and made anew, carried away as files and
//! back, and everything is flushed, compacted, collected, closed and reopened. In the second one
//! (`threads`) four threads apply, each to groups of its own, with threads in the background, until
//! the power fails; again and again in one store. Each time every group is compared, in both
//! keyspaces, with what its requests up to the index made of it; and then its log goes on from
//! there. What events and `flush_group` told to be persistent must be there, and a snapshot of what
//! was persistent shows the same for as long as it is held. In the third one (`faults`) calls of
//! the same script fail, once or from then on, and then the disk heals.

mod cuts;
mod faults;
mod held;
mod log;
#[cfg(esker_planted)]
mod planted;
mod threads;
mod told;

#[cfg(esker_planted)]
pub use planted::gate as planted;

use crate::faults::fail_everywhere;
use crate::gate::{Config, Outcome, case_seed, for_cases};
use std::sync::atomic::AtomicU64;

/// How many groups there are, in turn.
const GROUPS: [u64; 3] = [1, 16, 256];

/// Runs the gate.
pub fn gate(config: &Config) -> Outcome {
    let scripts = config.choose(9, 120);
    let totals: [AtomicU64; 3] = Default::default();
    for_cases(&config.share(0.4), scripts, |case| {
        let groups = GROUPS[case as usize % GROUPS.len()];
        let stride = config.choose(if groups > 16 { 23 } else { 11 }, 1);
        cuts::cut_everywhere(case_seed(config.seed, case), groups, stride, &totals)
    })?;
    let [cuts, reopens, lost] = totals.map(AtomicU64::into_inner);
    let faults = fail_everywhere(&config.share(0.2).behind(scripts), faults::run)?;
    let seconds = config.share(0.4).seconds(6.0, 600.0);
    let [outages, requests, failed] = match config.case {
        None => threads::outages(config.seed, seconds)?,
        // These have no numbers.
        Some(_) => [0; 3],
    };
    Ok(format!(
        "{cuts} cuts, {reopens} reopens, of which {lost} lost requests; {outages} outages under threads, {failed} of them after a failed sync, {requests} requests; \
         {faults} runs with calls that fail"
    ))
}
