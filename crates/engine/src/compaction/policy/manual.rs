//! Compaction by hand, as data: what is asked for, and what is answered to that and to scans.

use crate::version::{CompactionSpec, KeyRange};
use esker_base::Seq;

/// Which part of a compaction by hand is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ManualStep<'a> {
    /// From 0 to `target`, one after the other.
    pub(crate) level: usize,
    /// The level where everything shall end.
    pub(crate) target: usize,
    pub(crate) range: KeyRange<'a>,
    /// Tombstones up to here are needed by no snapshot.
    pub(crate) oldest_snapshot: Seq,
    /// Runs of level 0 with larger ids have come since it was asked for, and may stay.
    pub(crate) newest_run: u64,
}

/// The next compaction of a step by hand, or for scans.
#[derive(Debug)]
pub(crate) enum Pick {
    Run(CompactionSpec),
    /// Something is left, but others have it now.
    Busy,
    /// The step is done; scans would find as many runs as before.
    Nothing,
}
