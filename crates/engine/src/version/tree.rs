//! A version: the shape of one keyspace's tree at one moment.
//!
//! A version is a list of levels, a level a list of sorted runs, a run a list of tables that do not
//! overlap. Level 0 holds a run for each flushed memtable. With leveled compaction every deeper
//! level has one run at most; with tiered compaction any level has several.
//!
//! Invariants: (1) runs of a level stand newest first; (2) tables of a run are sorted and disjoint,
//! and all records of a user key in a run are in one table; (3) of two records of a key, the newer
//! one stands in the same table, an earlier run of the level, or a higher level; (4) the log of
//! every pointer in a table is in the map of values.

use super::edit::TableMeta;
use super::run::{KeyRange, Run};
use super::store::Table;
use crate::range_tombstone::{RangeTombstone, RangeTombstones};
use crate::value_log::ValueMap;
use esker_base::key::SEQ_MAX;
use esker_base::{KeyOrder, Seq};
use std::sync::Arc;

/// The shape of a tree. Immutable.
#[derive(Clone, Debug, Default)]
pub(crate) struct Version {
    /// Level 0 first; within a level the newest run first.
    pub(crate) levels: Vec<Vec<Arc<Run>>>,
    /// Where the values are that tables point to.
    pub(crate) values: Arc<ValueMap>,
    /// What was erased and may still stand in tables or memtables: nobody sees it, at whatever
    /// moment.
    pub(crate) erased: Arc<RangeTombstones>,
    /// The newest sequence number up to which anything was erased, whether it may still stand
    /// somewhere or not; 0 if nothing was. Tables that are written note it: they hold nothing of
    /// that.
    pub(crate) erased_seq: Seq,
}

impl Version {
    /// Number of levels down to the deepest that holds a table.
    pub(crate) fn depth(&self) -> usize {
        self.levels.iter().rposition(|runs| !runs.is_empty()).map_or(0, |deepest| deepest + 1)
    }

    /// The runs of a level; none if the tree is not that deep.
    pub(crate) fn level(&self, level: usize) -> &[Arc<Run>] {
        self.levels.get(level).map_or(&[], Vec::as_slice)
    }

    /// All runs, newest data first, with their levels.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (usize, &Arc<Run>)> {
        self.levels
            .iter()
            .enumerate()
            .flat_map(|(level, runs)| runs.iter().map(move |r| (level, r)))
    }

    /// All tables with their levels.
    pub(crate) fn tables(&self) -> impl Iterator<Item = (usize, &Arc<Table>)> {
        self.runs().flat_map(|(level, run)| run.tables.iter().map(move |t| (level, t)))
    }

    /// Bytes of a level's tables.
    pub(crate) fn level_bytes(&self, level: usize) -> u64 {
        self.level(level).iter().map(|run| run.bytes()).sum()
    }

    /// This version with tables taken out and put in.
    ///
    /// Fails with the reason if the result would break invariant (2), or if a table to be taken out
    /// is not there: then the edit (or the manifest it came from) is wrong.
    pub(crate) fn apply(
        &self,
        order: &KeyOrder,
        removed: &[(u32, u64)],
        added: Vec<(u32, u64, Arc<Table>)>,
    ) -> Result<Version, &'static str> {
        let mut levels = self.levels.clone();
        for &(level, number) in removed {
            take_out(&mut levels, level as usize, number)?;
        }
        for (level, run, table) in added {
            put_in(&mut levels, level as usize, run, table);
        }
        for runs in &mut levels {
            runs.retain(|run| !run.tables.is_empty());
            runs.sort_by_key(|run| std::cmp::Reverse(run.id));
            for run in runs.iter_mut().filter(|run| !run.is_settled()) {
                Arc::make_mut(run).settle(order)?;
            }
        }
        while levels.last().is_some_and(Vec::is_empty) {
            levels.pop();
        }
        Ok(Version { levels, ..self.clone() })
    }

    /// What was erased, and nothing else: for those who are at work for long, and must not keep
    /// files that are to go.
    pub(crate) fn without_files(&self) -> Version {
        Version { levels: Vec::new(), values: Arc::default(), ..self.clone() }
    }

    /// The same tables, with values that may stand elsewhere.
    pub(crate) fn with_values(&self, values: Arc<ValueMap>) -> Version {
        Version { values, ..self.clone() }
    }

    /// Erases ranges, each up to its sequence number.
    pub(crate) fn erase(&mut self, order: &KeyOrder, ranges: &[RangeTombstone]) {
        let all: Vec<RangeTombstone> =
            self.erased.records().chain(ranges.iter().cloned()).collect();
        self.erased_seq = all.iter().map(|one| one.seq).fold(self.erased_seq, Seq::max);
        // What was erased later hides all that was erased earlier.
        self.erased = Arc::new(RangeTombstones::build(order, &all).newest());
    }

    /// Forgets what was erased and is in no table and no memtable any more, and returns it.
    /// Memtables hold nothing up to `flushed_seq`.
    pub(crate) fn forget_erased(
        &mut self,
        order: &KeyOrder,
        flushed_seq: Seq,
    ) -> Vec<RangeTombstone> {
        let stays = |erased: &RangeTombstone| {
            let (start, end) = (Some(&erased.start[..]), Some(&erased.end[..]));
            let range = KeyRange { start, end, end_inclusive: false };
            let mut tables = self.runs().flat_map(|(_, run)| run.overlapping(order, &range));
            erased.seq > flushed_seq || tables.any(|table| table.meta.may_hold(order, erased))
        };
        let (left, gone): (Vec<_>, Vec<_>) = self.erased.records().partition(stays);
        if !gone.is_empty() {
            self.erased = Arc::new(RangeTombstones::build(order, &left));
        }
        gone
    }

    /// Up to which sequence number what was erased is not in a table that is about to come in the
    /// place of tables of this version: what is forgotten by now was in none of them.
    pub(crate) fn cleared_up_to(&self, order: &KeyOrder, meta: &TableMeta) -> Seq {
        let held = self.erased_in(order, meta).filter(|one| meta.may_hold(order, one));
        let oldest = held.map(|one| one.seq).min();
        oldest.map_or(self.erased_seq, |seq| seq - 1).max(meta.erased_seq)
    }

    /// The newest sequence number up to which something was erased over this key.
    #[inline]
    pub(crate) fn erased_over(&self, order: &KeyOrder, key: &[u8]) -> Option<Seq> {
        match self.erased.is_empty() {
            true => None,
            false => self.erased.covering(order, key, SEQ_MAX),
        }
    }

    /// True if all that a range tombstone hides was erased.
    pub(crate) fn is_erased(&self, order: &KeyOrder, tombstone: &RangeTombstone) -> bool {
        let from = self.erased.position(order, &tombstone.start);
        let mut reached = &tombstone.start;
        // Groups may have been erased within others, and next to each other.
        for (at, erased) in self.erased.fragments().iter().enumerate().skip(from) {
            let is_newer =
                self.erased.newest_at(at, SEQ_MAX).is_some_and(|seq| seq >= tombstone.seq);
            if order.less(reached, &erased.start) || !is_newer {
                return false;
            }
            if !order.less(&erased.end, &tombstone.end) {
                return true;
            }
            reached = &erased.end;
        }
        false
    }

    /// True if a table holds something that was erased.
    pub(crate) fn is_partly_erased(&self, order: &KeyOrder, table: &Table) -> bool {
        self.erased_in(order, &table.meta).any(|one| table.meta.may_hold(order, &one))
    }

    /// True if any table does.
    pub(crate) fn has_partly_erased(&self, order: &KeyOrder) -> bool {
        self.tables().any(|(_, table)| self.is_partly_erased(order, table))
    }

    /// The share of all tables, by bytes, that hold something that was erased: 0 to 1.
    pub(crate) fn partly_erased_share(&self, order: &KeyOrder) -> f64 {
        let partly = self.tables().filter(|(_, table)| self.is_partly_erased(order, table));
        let partly: u64 = partly.map(|(_, table)| table.meta.file_bytes).sum();
        let all: u64 = self.runs().map(|(_, run)| run.bytes()).sum();
        partly as f64 / all.max(1) as f64
    }

    /// What was erased between the smallest and the largest key of a table.
    fn erased_in<'a>(
        &'a self,
        order: &'a KeyOrder,
        meta: &'a TableMeta,
    ) -> impl Iterator<Item = RangeTombstone> + 'a {
        let from = self.erased.position(order, &meta.smallest);
        let fragments = self.erased.fragments().iter().enumerate().skip(from);
        let within = fragments.take_while(|(_, f)| !order.less(&meta.largest, &f.start));
        within.flat_map(|(at, _)| self.erased.records_of(at))
    }
}

fn take_out(levels: &mut [Vec<Arc<Run>>], level: usize, number: u64) -> Result<(), &'static str> {
    let runs = levels.get_mut(level).ok_or("a removed table is not there")?;
    for run in runs.iter_mut() {
        if let Some(at) = run.tables.iter().position(|t| t.meta.number == number) {
            Arc::make_mut(run).tables_mut().remove(at);
            return Ok(());
        }
    }
    Err("a removed table is not there")
}

fn put_in(levels: &mut Vec<Vec<Arc<Run>>>, level: usize, run_id: u64, table: Arc<Table>) {
    if levels.len() <= level {
        levels.resize(level + 1, Vec::new());
    }
    let runs = &mut levels[level];
    match runs.iter_mut().find(|run| run.id == run_id) {
        Some(run) => Arc::make_mut(run).tables_mut().push(table),
        None => runs.push(Arc::new(Run::new(run_id, vec![table]))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_tombstone_is_erased_if_all_that_it_covers_is_and_it_is_no_newer() {
        let order = KeyOrder::Bytewise;
        let ranged = |start: &str, end: &str, seq: Seq| RangeTombstone {
            start: start.as_bytes().into(),
            end: end.as_bytes().into(),
            seq,
        };
        let mut version = Version::default();
        // One within another, two next to each other, one apart.
        for (start, end, seq) in [("b5", "b6", 10), ("b", "c", 20), ("c", "d", 15), ("e", "f", 30)]
        {
            version.erase(&order, &[ranged(start, end, seq)]);
        }
        let is_erased =
            |start: &str, end: &str, seq: Seq| version.is_erased(&order, &ranged(start, end, seq));
        assert!(is_erased("b", "c", 20) && is_erased("b2", "b3", 5) && is_erased("b1", "b9", 20));
        assert!(!is_erased("b", "c", 21) && !is_erased("b5", "b6", 21), "it is newer");
        assert!(is_erased("b", "d", 15) && is_erased("b9", "c1", 15));
        assert!(!is_erased("b9", "c1", 16), "than one of them");
        assert!(!is_erased("a", "b1", 1) && !is_erased("c1", "d1", 1), "it reaches beyond");
        assert!(!is_erased("c1", "e1", 1) && !is_erased("d", "e", 1) && !is_erased("x", "y", 1));
    }
}
