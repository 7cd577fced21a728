//! Changing how an open keyspace is compacted.
//!
//! A compaction is chosen by one policy and put in place by the same one; where two policies are at
//! work at once, one could take a run as a whole to which the other adds. So none is chosen while
//! the policy is about to change, and it changes once no table is marked as being compacted: what
//! the new policy finds is what it would find if the store were opened anew. A compaction whose
//! inputs have all left meanwhile, with a group that was deleted, may still run then; it puts
//! nothing in place.

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

#[cfg(all(test, not(any(esker_loom, esker_shuttle))))]
mod tests {
    use super::*;
    use crate::db::{Db, Setup};
    use crate::event::Event;
    use crate::options::Options;
    use esker_base::Env;
    use esker_base::checksum::mix64;
    use esker_base::sync::atomic::AtomicU64;
    use esker_base::vfs::strict::StrictVfs;
    use std::sync::OnceLock;

    /// A manual compaction during which the policy changes, once its first step is done, still
    /// leaves one run.
    #[test]
    fn a_manual_compaction_begins_anew_when_the_policy_changes() {
        let changed: Arc<OnceLock<Arc<KeyspaceCore>>> = Arc::default();
        let steps = Arc::new(AtomicU64::new(0));
        let (of, seen) = (changed.clone(), steps.clone());
        let listener = move |event: &Event| {
            if let (Event::CompactionFinished { .. }, Some(keyspace)) = (event, of.get())
                && seen.fetch_add(1, Ordering::Relaxed) == 0
            {
                // As `set_compaction` does, which would wait for this very compaction.
                let tiers = Compaction::Tiered;
                let options = KeyspaceOptions { compaction: tiers, ..(*keyspace.options).clone() };
                keyspace.compacted_by.store(Arc::new(options));
            }
        };
        let default_keyspace = KeyspaceOptions {
            memtable_bytes: 64 << 10,
            table_bytes_max: 16 << 10,
            level_base_bytes: 64 << 10,
            level_fanout: 2,
            ..KeyspaceOptions::default()
        };
        let options = Options { default_keyspace, ..Options::default() };
        let setup = Setup {
            env: Env::with_vfs(Arc::new(StrictVfs::new()), 1),
            listener: Some(Arc::new(listener)),
            inline_background: true,
            ..Setup::default()
        };
        let db = Db::open_with("/db", options, setup).expect("open");
        for number in 0..20_000 {
            db.put(&mix64(number).to_be_bytes(), &[1; 100]).expect("put");
        }
        db.flush().expect("flush");
        let keyspace = db.default_keyspace();
        let runs = || keyspace.core.view.load().version.runs().count();
        assert!(runs() >= 3, "{} runs in levels to be merged", runs());
        let _ = changed.set(keyspace.core.clone());
        keyspace.compact_range(None, None).expect("compacted");
        assert!(steps.load(Ordering::Relaxed) > 1, "the policy changed on the way");
        assert_eq!(runs(), 1);
        db.close().expect("close");
    }
}
