//! Coverage: a run index, and for which runs of a version it speaks.
//!
//! An index is made of runs as they were, each with a slot of its own. As versions follow each
//! other, runs stay, or are merged into one, which then has the slots of all; what flushes and bulk
//! loads add, the index does not know, and it is read as if there were no index.
//! Invariant: a run with slots holds no key that the index does not know by one of them.
//! Source: LooseKV's run map, which is a part of the manifest there. Ours is in memory, as its
//! index is.

use super::run::Run;
use super::store::Table;
use super::tree::Version;
use crate::run_index::{DigestSource, RunIndex, Slots};
use crate::table::{StoredDigest, TableReader};
use esker_base::{Error, Result};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Times as many names as records, from which on an index is stale.
const STALE_TIMES: u64 = 2;

/// What an index knows of a version. Immutable.
#[derive(Clone, Debug)]
pub(crate) struct Coverage {
    pub(crate) index: Arc<RunIndex>,
    /// The runs that the index knows, with their slots.
    covered: Vec<(Arc<Run>, Slots)>,
    /// Runs that it must speak for; of fewer it says nothing.
    runs_min: usize,
    /// For each run of the version, in the order of [`Version::runs`]: by which slots the index
    /// speaks for it in gets and scans, 0 if it does not. Empty if it speaks for too few.
    spoken_for: Vec<Slots>,
}

/// Tables that a compaction took, and the tables that they became, by their numbers.
#[derive(Clone, Debug)]
pub(crate) struct Replaced {
    pub(crate) taken: BTreeSet<u64>,
    pub(crate) by: BTreeSet<u64>,
}

impl Replaced {
    fn has_taken(&self, run: &Run) -> bool {
        run.tables.iter().any(|table| self.taken.contains(&table.meta.number))
    }

    /// True if all of the run came of what was taken.
    fn has_made(&self, run: &Run) -> bool {
        run.tables.iter().all(|table| self.by.contains(&table.meta.number))
    }
}

impl Coverage {
    /// An index of these runs, in a version that has them, or has had them.
    pub(crate) fn new(
        index: Arc<RunIndex>,
        covered: Vec<(Arc<Run>, Slots)>,
        runs_min: usize,
        version: &Version,
    ) -> Coverage {
        let mut coverage = Coverage { index, covered, runs_min, spoken_for: Vec::new() };
        coverage.settle(version);
        coverage
    }

    /// The same index in the version that came of `before`.
    pub(crate) fn follow(
        &self,
        before: &Version,
        version: &Version,
        replaced: Option<&Replaced>,
    ) -> Coverage {
        let mut covered = self.covered.clone();
        if let Some(replaced) = replaced {
            let taken = before.runs().map(|(_, run)| run).filter(|run| replaced.has_taken(run));
            let slots =
                taken.map(|run| self.slots_of(run)).try_fold(0, |all, slots| Some(all | slots?));
            if let Some(slots) = slots.filter(|&slots| slots != 0) {
                let made = version.runs().map(|(_, run)| run).filter(|run| replaced.has_made(run));
                covered.extend(made.map(|run| (run.clone(), slots)));
            }
        }
        Coverage::new(self.index.clone(), covered, self.runs_min, version)
    }

    /// Forgets runs that the version has not, and finds those that it has. What is left of a run
    /// when some of its tables were deleted has its slots: they say no less than they need to.
    fn settle(&mut self, version: &Version) {
        let slots_of = |run: &Arc<Run>| {
            let left_of = |(known, _): &&(Arc<Run>, Slots)| is_left_of(run, known);
            self.slots_of(run).or_else(|| self.covered.iter().find(left_of).map(|known| known.1))
        };
        let covered = version.runs().filter_map(|(_, run)| Some((run.clone(), slots_of(run)?)));
        self.covered = covered.collect();
        self.spoken_for = version
            .runs()
            .map(|(_, run)| self.slots_of(run).filter(|_| !run.hides_ranges()).unwrap_or(0))
            .collect();
        if self.spoken_for.iter().filter(|&&slots| slots != 0).count() < self.runs_min {
            self.spoken_for.clear();
        }
    }

    /// True if the index knows so few runs that it is not worth its memory.
    pub(crate) fn is_idle(&self) -> bool {
        self.covered.len() * 2 < self.runs_min
    }

    /// True if so many names are of records that compactions have dropped that it should be made of
    /// digests alone.
    pub(crate) fn is_stale(&self) -> bool {
        self.index.names() > STALE_TIMES * self.entries()
    }

    /// True if the index speaks for any run.
    #[inline]
    pub(crate) fn speaks(&self) -> bool {
        !self.spoken_for.is_empty()
    }

    /// The slots of a run that the index knows.
    pub(crate) fn slots_of(&self, run: &Arc<Run>) -> Option<Slots> {
        self.covered.iter().find(|(other, _)| Arc::ptr_eq(run, other)).map(|(_, slots)| *slots)
    }

    /// By which slots the index speaks for the run that stands at `nth` place in the version; 0 if
    /// it does not.
    #[inline]
    pub(crate) fn spoken_for(&self, nth: usize) -> Slots {
        self.spoken_for.get(nth).copied().unwrap_or(0)
    }

    /// Runs that the index knows.
    pub(crate) fn runs(&self) -> u64 {
        self.covered.len() as u64
    }

    /// Records of the runs that the index knows.
    pub(crate) fn entries(&self) -> u64 {
        self.covered.iter().map(|(run, _)| run.entries()).sum()
    }
}

/// True if all tables of a run are of another one, in whose order they stand.
fn is_left_of(run: &Run, known: &Run) -> bool {
    let mut tables = known.tables.iter();
    run.tables.len() < known.tables.len()
        && run.tables.iter().all(|table| tables.any(|other| Arc::ptr_eq(table, other)))
}

/// The digests of a run's tables, one after the other.
pub(crate) struct RunDigest {
    tables: std::vec::IntoIter<Arc<Table>>,
    current: Option<StoredDigest<Arc<TableReader>>>,
}

impl RunDigest {
    /// `None` if a table of the run has no digest.
    ///
    /// # Errors
    /// A table cannot be opened.
    pub(crate) fn of(run: &Run) -> Result<Option<RunDigest>> {
        for table in &run.tables {
            let properties = table.reader()?;
            let properties = properties.properties();
            if properties.digest.is_empty() && properties.entries > 0 {
                return Ok(None);
            }
        }
        Ok(Some(RunDigest { tables: run.tables.clone().into_iter(), current: None }))
    }
}

impl DigestSource for RunDigest {
    fn next_block(&mut self, block: &mut Vec<u8>) -> Result<bool> {
        loop {
            if let Some(current) = &mut self.current
                && current.next_block(block)?
            {
                return Ok(true);
            }
            let Some(table) = self.tables.next() else { return Ok(false) };
            self.current = Some(StoredDigest::new(table.shared_reader()?));
        }
    }

    fn damaged(&self, what: &'static str) -> Error {
        match &self.current {
            Some(current) => current.damaged(what),
            None => Error::corruption("", 0, what),
        }
    }
}
