//! How the memory that a store may take is shared out.
//!
//! ```text
//! budget -> memtables
//!        -> the rest -> an eighth: buffers of compactions
//!                    -> run indexes -> pins -> block cache, each as given, or its usual share of what is left
//! ```

use super::{KIB, KeyspaceOptions, MIB, Options, in_range};
use esker_base::{Error, Result};

/// What memtables leave of the budget, less a share for the buffers of work in the background.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryShares {
    /// Of the block cache, at the least.
    pub(crate) cache_bytes: u64,
    /// The block cache has what pins do not take of theirs, too.
    pub(crate) cache_borrows: bool,
    /// Index and filter bytes that all tables together may keep outside the block cache.
    pub(crate) pinned_bytes: u64,
    /// Of run indexes.
    pub(crate) run_index_bytes: u64,
    /// What a compaction reads of a table at a time.
    pub(crate) read_bytes: usize,
}

impl MemoryShares {
    /// What the block cache may take while so much is promised to pins.
    pub(crate) fn cache_bytes_beside(&self, promised: u64) -> u64 {
        let lent = if self.cache_borrows { self.pinned_bytes.saturating_sub(promised) } else { 0 };
        self.cache_bytes + lent
    }
}

/// Runs that a compaction is expected to merge, each with a buffer of its own.
const RUNS_READ_AT_ONCE: usize = 8;

/// Bytes with which a memtable is full: a quarter of what all may hold at the most, so that some
/// can be flushed while others fill.
pub(crate) fn memtable_limit_bytes(options: &KeyspaceOptions, memtables_bytes_max: u64) -> u64 {
    options.memtable_bytes.min(replayed_memtable_bytes(memtables_bytes_max))
}

/// The same of one that is filled from a log and made tables at once, however small memtables are
/// otherwise: one edit of the manifest names the tables of all that come of the logs.
pub(crate) fn replayed_memtable_bytes(memtables_bytes_max: u64) -> u64 {
    memtables_bytes_max / 4
}

impl Options {
    /// Bytes that all memtables together may hold.
    pub fn memtables_limit_bytes(&self) -> u64 {
        match self.memtables_bytes_max {
            0 => self.memory_budget_bytes / 2,
            n => n,
        }
    }

    /// What memtables leave: buffers of compactions, and what is kept in memory.
    fn work_and_kept_bytes(&self) -> (u64, u64) {
        let left = self.memory_budget_bytes - self.memtables_limit_bytes();
        (left / 8, left - left / 8)
    }

    /// How the rest of the memory is shared out.
    pub(crate) fn memory_shares(&self) -> MemoryShares {
        let (work, kept) = self.work_and_kept_bytes();
        let given = [self.block_cache_bytes, self.pinned_bytes_max].into_iter().flatten();
        let not_given = kept.saturating_sub(given.fold(0, u64::saturating_add));
        let usual = if self.has_run_index() { not_given.min(kept / 4) } else { 0 };
        let run_index_bytes = self.run_index_bytes_max.unwrap_or(usual);
        let blocks = kept.saturating_sub(run_index_bytes);
        let pinned_bytes = match (self.pinned_bytes_max, self.block_cache_bytes) {
            (Some(pinned), _) => pinned,
            (None, Some(cache)) => blocks.saturating_sub(cache),
            (None, None) => blocks / 4,
        };
        let cache_bytes = self.block_cache_bytes.unwrap_or(blocks.saturating_sub(pinned_bytes));
        let reads = self.compaction_thread_count() * RUNS_READ_AT_ONCE;
        let read_bytes = (work / reads as u64).clamp(32 * KIB, 512 * KIB) as usize;
        let cache_borrows = self.block_cache_bytes.is_none();
        MemoryShares { cache_bytes, cache_borrows, pinned_bytes, run_index_bytes, read_bytes }
    }

    /// Checks the options that share out memory.
    pub(super) fn validate_memory(&self) -> Result<()> {
        in_range("memory_budget_bytes", self.memory_budget_bytes, 4 * MIB, u64::MAX)?;
        in_range("memtables_bytes_max", self.memtables_limit_bytes(), MIB, u64::MAX)?;
        if self.memtables_limit_bytes() > self.memory_budget_bytes {
            return Err(Error::invalid(format!(
                "memtables_bytes_max = {} is more than memory_budget_bytes = {}",
                self.memtables_bytes_max, self.memory_budget_bytes
            )));
        }
        let given = [
            ("block_cache_bytes", self.block_cache_bytes),
            ("pinned_bytes_max", self.pinned_bytes_max),
            ("run_index_bytes_max", self.run_index_bytes_max),
        ];
        let given = given.map(|(name, bytes)| (name, bytes.unwrap_or(0)));
        let (_, left) = self.work_and_kept_bytes();
        if given.iter().fold(0u64, |sum, (_, bytes)| sum.saturating_add(*bytes)) > left {
            let given = given.iter().filter(|(_, bytes)| *bytes > 0);
            let given: Vec<String> =
                given.map(|(name, bytes)| format!("{name} = {bytes}")).collect();
            let given = given.join(" and ");
            return Err(Error::invalid(format!(
                "{given}: more than the {left} bytes that memtables and compactions leave of \
                 memory_budget_bytes = {}",
                self.memory_budget_bytes
            )));
        }
        Ok(())
    }

    /// True if a keyspace that is named has a run index.
    fn has_run_index(&self) -> bool {
        self.all_keyspaces().any(|keyspace| keyspace.run_index)
    }

    /// Fails if the keyspace has a run index and there is no memory for it.
    pub(crate) fn check_run_index(&self, keyspace: &KeyspaceOptions) -> Result<()> {
        if !keyspace.run_index || self.memory_shares().run_index_bytes > 0 {
            return Ok(());
        }
        let why = match self.run_index_bytes_max {
            Some(_) => "run_index_bytes_max = 0: raise it, or leave it out",
            None if self.has_run_index() => {
                "block_cache_bytes and pinned_bytes_max leave none of memory_budget_bytes: lower \
                 one, or raise the budget"
            }
            None => {
                "the store was opened without a keyspace that has one: set run_index_bytes_max \
                 then, or name the keyspace with its options"
            }
        };
        Err(Error::invalid(format!("run_index = true needs memory, and {why}")))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Compaction, GIB};
    use super::*;

    #[test]
    fn shares_add_up_to_the_budget() {
        const LEFT: u64 = 448 * MIB;
        for (cache, pinned, expected) in [
            (None, None, (LEFT / 4 * 3, LEFT / 4)),
            (Some(0), None, (0, LEFT)),
            (Some(100 * MIB), None, (100 * MIB, LEFT - 100 * MIB)),
            (None, Some(0), (LEFT, 0)),
            (None, Some(100 * MIB), (LEFT - 100 * MIB, 100 * MIB)),
            (Some(7), Some(9), (7, 9)),
        ] {
            let options = Options {
                memory_budget_bytes: GIB,
                block_cache_bytes: cache,
                pinned_bytes_max: pinned,
                ..Options::default()
            };
            options.validate().expect("in range");
            let shares = options.memory_shares();
            assert_eq!(
                (shares.cache_bytes, shares.pinned_bytes),
                expected,
                "{cache:?}, {pinned:?}"
            );
            let all = shares.cache_bytes + if cache.is_none() { shares.pinned_bytes } else { 0 };
            assert_eq!(shares.cache_bytes_beside(0), all, "{cache:?}, {pinned:?}");
            assert_eq!(shares.cache_bytes_beside(shares.pinned_bytes), shares.cache_bytes);
        }
    }

    #[test]
    fn a_run_index_takes_what_is_not_given() {
        const LEFT: u64 = 448 * MIB;
        for (cache, pinned, expected) in [
            (None, None, (LEFT / 16 * 9, LEFT / 16 * 3, LEFT / 4)),
            (Some(LEFT - MIB), None, (LEFT - MIB, 0, MIB)),
            (Some(LEFT / 2), None, (LEFT / 2, LEFT / 4, LEFT / 4)),
            (None, Some(LEFT - MIB), (0, LEFT - MIB, MIB)),
            (Some(MIB), Some(LEFT - 3 * MIB), (MIB, LEFT - 3 * MIB, 2 * MIB)),
        ] {
            let mut options = Options {
                memory_budget_bytes: GIB,
                block_cache_bytes: cache,
                pinned_bytes_max: pinned,
                ..Options::default()
            };
            options.default_keyspace.compaction = Compaction::Tiered;
            options.default_keyspace.run_index = true;
            options.validate().expect("in range");
            let shares = options.memory_shares();
            let found = (shares.cache_bytes, shares.pinned_bytes, shares.run_index_bytes);
            assert_eq!(found, expected, "{cache:?}, {pinned:?}");
        }
    }
}
