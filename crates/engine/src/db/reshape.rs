//! Changing how an open keyspace is compacted.
//!
//! A compaction is chosen by one policy and put in place by the same one; where two policies are at work at once, one could
//! take a run as a whole to which the other adds. So none is chosen while the policy is about to change, and it changes once none is under way: what
//! the new policy finds is what it would find if the store were opened anew.

use super::compact::BUSY_WAIT;
use super::core::{Core, KeyspaceCore};
use crate::options::{Compaction, KeyspaceOptions};
use esker_base::sync::atomic::Ordering;
use esker_base::{Error, Result};
use std::sync::Arc;

/// Has compactions go by `compaction` from now on. Waits for those under way.
pub(super) fn set_compaction(
    core: &Core,
    keyspace: &KeyspaceCore,
    compaction: Compaction,
) -> Result<()> {
    KeyspaceOptions { compaction, ..(*keyspace.options).clone() }.validate()?;
    let _reshaping = Reshaping::begin(core, keyspace)?;
    loop {
        core.check_writable()?;
        if keyspace.dropped.load(Ordering::Relaxed) || core.background.stopping() {
            return Err(Error::Cancelled);
        }
        if keyspace.change_unless_busy(core, compaction)? {
            return Ok(());
        }
        core.wait_progress(BUSY_WAIT)?;
    }
}

impl KeyspaceCore {
    fn change_unless_busy(&self, core: &Core, compaction: Compaction) -> Result<bool> {
        let _versions = core.lock_versions()?;
        let version = self.view.load().version.clone();
        if version.tables().any(|(_, table)| table.compacting.load(Ordering::Relaxed)) {
            return Ok(false);
        }
        let options = KeyspaceOptions { compaction, ..(*self.options).clone() };
        self.compacted_by.store(Arc::new(options));
        Ok(true)
    }
}

/// While it lives, no compaction of the keyspace is chosen.
struct Reshaping<'a> {
    core: &'a Core,
    keyspace: &'a KeyspaceCore,
}

impl<'a> Reshaping<'a> {
    /// Waits for others who change it.
    fn begin(core: &'a Core, keyspace: &'a KeyspaceCore) -> Result<Reshaping<'a>> {
        loop {
            {
                // Compactions are chosen under it.
                let _versions = core.lock_versions()?;
                if !keyspace.reshaping.swap(true, Ordering::Relaxed) {
                    return Ok(Reshaping { core, keyspace });
                }
            }
            core.wait_progress(BUSY_WAIT)?;
        }
    }
}

impl Drop for Reshaping<'_> {
    fn drop(&mut self) {
        self.keyspace.reshaping.store(false, Ordering::Relaxed);
        // There may be work by the new policy, and somebody may wait for this one.
        self.core.background.wake_all();
    }
}
