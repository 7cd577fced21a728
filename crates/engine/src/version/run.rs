//! Sorted runs: tables that do not overlap, and which of them a key or a range falls into.
//!
//! Invariant: a settled run is sorted, its tables are disjoint, and its fences are theirs.

use super::fences::{Fences, Place};
use super::store::Table;
use esker_base::KeyOrder;
use esker_base::sync::atomic::Ordering;
use std::ops::Range;
use std::sync::Arc;

/// Tables that do not overlap, in key order.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// Larger is newer, within a level. That of a run that is gone may come again.
    pub(crate) id: u64,
    pub(crate) tables: Vec<Arc<Table>>,
    /// Of `tables`; `None` while they change.
    fences: Option<Fences>,
}

impl Run {
    /// A run of tables that are in order and do not overlap.
    pub(crate) fn new(id: u64, tables: Vec<Arc<Table>>) -> Run {
        Run { id, tables, fences: None }
    }

    /// The tables, to be changed. [`Run::settle`] makes the run whole again.
    pub(super) fn tables_mut(&mut self) -> &mut Vec<Arc<Table>> {
        self.fences = None;
        &mut self.tables
    }

    /// True if nothing changed since the last [`Run::settle`].
    pub(super) fn is_settled(&self) -> bool {
        self.fences.is_some()
    }

    /// Sorts the tables and makes lookups in them fast.
    ///
    /// # Errors
    /// They overlap.
    pub(super) fn settle(&mut self, order: &KeyOrder) -> Result<(), &'static str> {
        self.tables.sort_by(|a, b| order.compare(&a.meta.smallest, &b.meta.smallest));
        let disjoint = |pair: &[Arc<Table>]| pair[0].ends_before(order, &pair[1].meta.smallest);
        if !self.tables.windows(2).all(disjoint) {
            return Err("tables of one run overlap");
        }
        self.fences = Some(Fences::new(order, &self.tables));
        Ok(())
    }

    /// Bytes of all table files.
    pub(crate) fn bytes(&self) -> u64 {
        self.tables.iter().map(|t| t.meta.file_bytes).sum()
    }

    /// Bytes of the values that its tables point to.
    pub(crate) fn value_bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.meta.value_bytes()).sum()
    }

    /// True if a compaction has taken a table of it.
    pub(crate) fn is_compacting(&self) -> bool {
        self.tables.iter().any(|table| table.compacting.load(Ordering::Relaxed))
    }

    /// True if range tombstones of it hide keys, which a run index does not know them by: none
    /// speaks for it.
    pub(crate) fn hides_ranges(&self) -> bool {
        self.tables.iter().any(|table| table.meta.range_tombstones > 0)
    }

    /// Point records of all tables.
    pub(crate) fn entries(&self) -> u64 {
        self.tables.iter().map(|t| t.meta.entries).sum()
    }

    #[inline]
    fn fences(&self) -> Option<&Fences> {
        self.fences.as_ref().filter(|fences| !fences.is_empty())
    }

    /// The only table that may hold `key`.
    #[inline]
    pub(crate) fn table_for(&self, order: &KeyOrder, key: &[u8]) -> Option<&Arc<Table>> {
        if let Some(fences) = self.fences() {
            let Place { position, inside } = fences.place(&self.tables, key);
            return if inside { self.tables.get(position) } else { None };
        }
        let table = self.tables.get(self.position(order, key))?;
        order.compare(&table.meta.smallest, key).is_le().then_some(table)
    }

    /// Index of the first table that does not end before `key`.
    #[inline]
    pub(crate) fn position(&self, order: &KeyOrder, key: &[u8]) -> usize {
        if let Some(fences) = self.fences() {
            return fences.place(&self.tables, key).position;
        }
        self.tables.partition_point(|t| t.ends_before(order, key))
    }

    /// The tables that may hold keys of the range. `None` bounds are open; `end` is exclusive
    /// unless `end_inclusive`.
    pub(crate) fn overlapping(&self, order: &KeyOrder, range: &KeyRange<'_>) -> &[Arc<Table>] {
        &self.tables[self.overlap(order, range)]
    }

    /// Where the tables stand that [`Run::overlapping`] returns.
    pub(crate) fn overlap(&self, order: &KeyOrder, range: &KeyRange<'_>) -> Range<usize> {
        let from = range.start.map_or(0, |start| self.position(order, start));
        let rest = &self.tables[from..];
        from..from + rest.partition_point(|t| !range.ends_before_table(order, t))
    }
}

/// A range of user keys.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KeyRange<'a> {
    /// First key; `None` is before everything.
    pub(crate) start: Option<&'a [u8]>,
    /// End; `None` is after everything.
    pub(crate) end: Option<&'a [u8]>,
    /// True if `end` itself belongs to the range.
    pub(crate) end_inclusive: bool,
}

impl<'a> KeyRange<'a> {
    /// Both ends belong to the range.
    pub(crate) fn closed(start: &'a [u8], end: &'a [u8]) -> KeyRange<'a> {
        KeyRange { start: Some(start), end: Some(end), end_inclusive: true }
    }

    fn ends_before_table(&self, order: &KeyOrder, table: &Table) -> bool {
        let Some(end) = self.end else { return false };
        match order.compare(end, &table.meta.smallest) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => !self.end_inclusive,
            std::cmp::Ordering::Greater => false,
        }
    }
}
