//! What a keyspace knows of its run index besides what is in force.

use crate::version::{Replaced, Run, Version};
use std::sync::{Arc, Weak};

#[derive(Debug, Default)]
pub(super) struct Indexing {
    /// One is being made. What compactions have replaced since.
    pub(super) replaced: Option<Vec<Step>>,
    /// Runs without a digest. Not by their ids: one that is merged where it stands keeps its id,
    /// and may have one then.
    pub(super) without_digest: Vec<Weak<Run>>,
    /// Of these runs the index was too large.
    pub(super) too_large: Option<TooLarge>,
    /// A digest could not be read.
    pub(super) failed: bool,
    /// How many were made since open.
    pub(super) made: u64,
}

impl Indexing {
    /// True if this very run was found to have no digest.
    pub(super) fn lacks_digest(&self, run: &Arc<Run>) -> bool {
        self.without_digest.iter().any(|other| is_it(other, run))
    }
}

fn is_it(other: &Weak<Run>, run: &Arc<Run>) -> bool {
    std::ptr::eq(other.as_ptr(), Arc::as_ptr(run))
}

/// Runs of which an index would be too large.
#[derive(Debug)]
pub(super) struct TooLarge {
    runs: Vec<Weak<Run>>,
    entries: u64,
}

impl TooLarge {
    pub(super) fn of(version: &Version) -> TooLarge {
        let runs = || version.runs().map(|(_, run)| run);
        TooLarge {
            runs: runs().map(Arc::downgrade).collect(),
            entries: runs().map(|run| run.entries()).sum(),
        }
    }

    /// True if an index of this version is likely to be too large as well: nearly as many records
    /// are there, half of them in runs that were there then. What merges have written anew since
    /// may be other keys.
    pub(super) fn is_so_still(&self, version: &Version) -> bool {
        let (mut all, mut stayed) = (0, 0);
        for (_, run) in version.runs() {
            let entries = run.entries();
            all += entries;
            if self.runs.iter().any(|other| is_it(other, run)) {
                stayed += entries;
            }
        }
        all * 10 >= self.entries * 9 && stayed * 2 >= self.entries
    }
}

/// A version that followed another by a compaction.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) before: Arc<Version>,
    pub(super) after: Arc<Version>,
    pub(super) replaced: Replaced,
}
