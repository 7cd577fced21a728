//! Compacting by hand, on the caller's thread, beside those in the background.

use super::{BUSY_WAIT, Chosen};
use crate::compaction::policy::{self, ManualStep, Pick};
use crate::db::core::{Core, KeyspaceCore};
use crate::options::{Compaction, KeyspaceOptions};
use crate::version::{DEEPEST_LEVEL, KeyRange};
use esker_base::sync::atomic::Ordering;
use esker_base::{Error, Result, Seq};
use std::sync::Arc;

/// While it lives, nobody begins to compact what stands below level 0 of a keyspace, as far as it
/// does not pile up: of tiers all runs are wanted at once, and where threads take turns at them
/// some would always be taken.
pub(super) struct Reserved<'a> {
    core: &'a Core,
    keyspace: &'a KeyspaceCore,
}

impl<'a> Reserved<'a> {
    pub(super) fn new(core: &'a Core, keyspace: &'a KeyspaceCore) -> Reserved<'a> {
        keyspace.reserved.fetch_add(1, Ordering::Relaxed);
        Reserved { core, keyspace }
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.keyspace.reserved.fetch_sub(1, Ordering::Relaxed);
        self.core.background.wake_workers();
    }
}

/// Compacts everything of `range` that is in tables into the deepest level that holds any of it.
/// Runs on the caller's thread, beside the background's. What is flushed meanwhile may stay: while
/// others write there would be no end.
pub(in crate::db) fn compact_range(
    core: &Core,
    keyspace: &Arc<KeyspaceCore>,
    range: &KeyRange<'_>,
) -> Result<()> {
    // What one policy has done of it another one cannot go on with.
    while !compact_range_by(core, keyspace, &keyspace.compacted_by.load_full(), range)? {}
    Ok(())
}

/// The same by one policy; false if it is not in force any more.
fn compact_range_by(
    core: &Core,
    keyspace: &Arc<KeyspaceCore>,
    options: &Arc<KeyspaceOptions>,
    range: &KeyRange<'_>,
) -> Result<bool> {
    let depth = keyspace.view.load().version.depth();
    let target = depth.saturating_sub(1).clamp(1, DEEPEST_LEVEL);
    let newest_run = keyspace.view.load().version.runs().map(|(_, run)| run.id).max().unwrap_or(0);
    let is_tiered = options.compaction == Compaction::Tiered;
    let mut reserved = None;
    for level in 0..=target {
        loop {
            core.check_writable()?;
            if keyspace.dropped.load(Ordering::Relaxed) || core.background.stopping() {
                return Err(Error::Cancelled);
            }
            match choose_manual(core, keyspace, options, (level, target, newest_run), range)? {
                Step::Run(chosen) => {
                    reserved = None;
                    // What came from level 0 one level down is merged with the rest next.
                    let only_level0 = chosen.version.runs().all(|(level, _)| level == 0);
                    let is_whole = chosen.spec.level > 0 || only_level0;
                    let result = chosen.run(core);
                    core.store.sweep();
                    core.background.wake_all();
                    if result? && is_tiered && is_whole {
                        return Ok(true);
                    }
                }
                Step::Wait => {
                    reserved =
                        reserved.or_else(|| is_tiered.then(|| Reserved::new(core, keyspace)));
                    core.wait_progress(BUSY_WAIT)?;
                }
                Step::Done => break,
                Step::Changed => return Ok(false),
            }
        }
    }
    Ok(true)
}

/// The next compaction of a step, its inputs marked as taken.
pub(super) fn choose_manual(
    core: &Core,
    keyspace: &Arc<KeyspaceCore>,
    options: &Arc<KeyspaceOptions>,
    (level, target, newest_run): (usize, usize, u64),
    range: &KeyRange<'_>,
) -> Result<Step> {
    let _versions = core.lock_versions()?;
    if keyspace.reshaping.load(Ordering::Relaxed) {
        return Ok(Step::Wait);
    }
    if !Arc::ptr_eq(options, &keyspace.compacted_by.load()) {
        return Ok(Step::Changed);
    }
    let version = keyspace.view.load().version.clone();
    let oldest_snapshot = core.snapshots.list().first().copied().unwrap_or(Seq::MAX);
    let step = ManualStep { level, target, range: *range, oldest_snapshot, newest_run };
    Ok(match policy::pick_manual(&version, options, &step) {
        Pick::Nothing => Step::Done,
        Pick::Busy => Step::Wait,
        Pick::Run(spec) => {
            let chosen = keyspace.chosen(core, version, options.clone(), spec);
            chosen.mark(true);
            Step::Run(Box::new(chosen))
        }
    })
}

pub(super) enum Step {
    Run(Box<Chosen>),
    Wait,
    Done,
    /// Another policy is in force.
    Changed,
}
