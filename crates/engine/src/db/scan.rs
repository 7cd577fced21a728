//! Scans: a cursor over what a snapshot sees of a key range.

use super::core::{Core, KeyspaceCore, View};
use super::scan_ahead::{Ahead, Shown};
use super::scan_range::ScanOptions;
use super::source::Source;
use crate::compaction::scheduler::toll::{Paid, Toll};
use crate::iter::{Bounds, IndexedCursor, MergeCursor, Ranked, Tombstones, VisibleCursor};
use crate::memtable::Memtable;
use crate::options::Compaction;
use crate::run_index::{EntryCursor, Slots};
use crate::table::CursorOptions;
use crate::version::{Coverage, KeyRange, RunCursor, RunTombstones};
use esker_base::{Error, KeyOrder, Result, Seq};
use std::ops::Range;
use std::sync::Arc;

/// Walks the keys of a range in order, in both directions.
///
/// A cursor sees the database as it was when it was made. While it lives, it keeps the memtables,
/// tables and run index it reads alive, memory that no budget counts and files that take space; do
/// not keep one for hours. It does not keep the database open: once that is closed, what it has not
/// read yet may be gone, and it fails then.
///
/// After an error it stands on nothing; it may be positioned again.
pub struct Cursor {
    inner: VisibleCursor<Source>,
    meter: Meter,
    keys_only: bool,
    shown: Shown,
    /// If values may stand elsewhere.
    ahead: Option<Box<Ahead>>,
    // Keeps the memtables, tables and values that are read alive.
    view: Arc<View>,
}

/// The records that a scan sees, what it pays for them, and what keeps them alive.
pub(super) struct Records {
    pub(super) inner: VisibleCursor<Source>,
    meter: Meter,
    pub(super) view: Arc<View>,
}

/// What a scan is made of, newest data first.
#[derive(Default)]
struct Gathered {
    sources: Vec<Ranked<Source>>,
    tombstones: Vec<(usize, Tombstones)>,
    /// Runs that the run index speaks for, and the rank of the newest.
    indexed: Vec<(Slots, RunCursor)>,
    indexed_rank: usize,
    /// Of what comes next.
    rank: usize,
    /// Runs that the scan pays for, and the ranks from the first to the last of them.
    runs_paid: u64,
    ranks_paid: Range<usize>,
}

impl Gathered {
    fn add_memtable(&mut self, mem: &Arc<Memtable>) {
        if mem.is_empty() {
            return;
        }
        let rank = self.rank;
        let cursors = mem.cursors().into_iter();
        self.sources.extend(cursors.map(|c| Ranked { rank, cursor: Source::Memtable(c) }));
        let sets = mem.range_tombstones().into_iter().map(Tombstones::AtHand);
        self.tombstones.extend(sets.map(|set| (rank, set)));
        self.rank += 1;
    }

    fn add_run(&mut self, cursor: RunCursor, tombstones: Option<RunTombstones>) {
        let tombstones = tombstones.map(|lazy| Tombstones::Lazy(Box::new(lazy)));
        self.tombstones.extend(tombstones.map(|lazy| (self.rank, lazy)));
        let cursor = Source::Run(Box::new(cursor));
        self.sources.push(Ranked { rank: self.rank, cursor });
        self.rank += 1;
    }

    /// The scan pays for the run that is added next.
    fn pay_for_next(&mut self) {
        if self.runs_paid == 0 {
            self.ranks_paid.start = self.rank;
        }
        self.runs_paid += 1;
        self.ranks_paid.end = self.rank + 1;
    }

    /// For the last run that it would pay for it pays nothing. Only if none was added that is not
    /// paid for between two that are.
    fn pay_less_for_last(&mut self) {
        self.runs_paid = self.runs_paid.saturating_sub(1);
        self.ranks_paid.end = self.ranks_paid.end.saturating_sub(1);
    }

    /// All runs that the index speaks for are one source, as new as the newest of them: a range
    /// tombstone of an older source must not send it on.
    fn add_indexed(&mut self, slots: Slots, cursor: RunCursor) {
        if self.indexed.is_empty() {
            self.indexed_rank = self.rank;
            self.rank += 1;
        }
        self.indexed.push((slots, cursor));
    }

    /// What a merge reads.
    fn into_sources(mut self, coverage: Option<&Coverage>) -> Vec<Ranked<Source>> {
        let cursor = match self.indexed.len() {
            // There is nothing to choose from.
            0 | 1 => self.indexed.pop().map(|(_, cursor)| Source::Run(Box::new(cursor))),
            _ => coverage.map(|coverage| {
                let entries = EntryCursor::new(coverage.index.clone());
                Source::Indexed(Box::new(IndexedCursor::new(entries, self.indexed)))
            }),
        };
        let rank = self.indexed_rank;
        self.sources.extend(cursor.map(|cursor| Ranked { rank, cursor }));
        self.sources
    }
}

/// Counts what a cursor pays for the runs that it reads and need not: those that the run index does
/// not know; without one, of a leveled tree all but one, of a tiered tree those of level 0 but one.
struct Meter {
    /// `None` if there are none.
    toll: Option<Arc<Toll>>,
    runs: u64,
    seeks: u64,
}

impl Meter {
    fn pay(&self, inner: &VisibleCursor<Source>) {
        let Some(toll) = &self.toll else { return };
        let Meter { runs, seeks, .. } = *self;
        toll.pay(&Paid { runs, seeks, switches: inner.switches(), blocks: inner.blocks_read() });
    }
}

impl Records {
    /// Moves to the first key of the range.
    pub(super) fn seek_to_first(&mut self) -> Result<()> {
        self.meter.seeks += 1;
        self.inner.seek_to_first()
    }

    /// To be called at the end.
    pub(super) fn pay(&self) {
        self.meter.pay(&self.inner);
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        self.meter.pay(&self.inner);
    }
}

impl Core {
    /// A cursor that stands on nothing yet.
    pub(super) fn scan(
        &self,
        keyspace: &KeyspaceCore,
        options: &ScanOptions<'_>,
    ) -> Result<Cursor> {
        let (view, seq) = self.moment(keyspace, options.snapshot)?;
        self.scan_in(keyspace, options, view, seq)
    }

    /// The same in a view that was loaded before, at a sequence number of that time.
    pub(super) fn scan_in(
        &self,
        keyspace: &KeyspaceCore,
        options: &ScanOptions<'_>,
        view: Arc<View>,
        seq: Seq,
    ) -> Result<Cursor> {
        let Records { inner, meter, view } = self.records_in(keyspace, options, view, seq)?;
        let keys_only = options.keys_only;
        let may_point = !keys_only && view.may_point();
        let ahead = || {
            let (readers, clock) = (self.readers.clone(), self.env.clock.clone());
            Box::new(Ahead::new(readers, clock, self.dir.clone()))
        };
        let ahead = may_point.then(ahead);
        Ok(Cursor { inner, meter, keys_only, shown: Shown::Record, ahead, view })
    }

    /// What a scan walks through, whose values may be pointers.
    pub(super) fn records(
        &self,
        keyspace: &KeyspaceCore,
        options: &ScanOptions<'_>,
    ) -> Result<Records> {
        let (view, seq) = self.moment(keyspace, options.snapshot)?;
        self.records_in(keyspace, options, view, seq)
    }

    fn records_in(
        &self,
        keyspace: &KeyspaceCore,
        options: &ScanOptions<'_>,
        view: Arc<View>,
        seq: Seq,
    ) -> Result<Records> {
        let order = keyspace.options.order.clone();
        check_bounds(&order, options)?;
        let mut gathered = Gathered::default();
        for mem in view.memtables().filter(|_| !options.persisted) {
            gathered.add_memtable(mem);
        }
        let range = KeyRange {
            start: options.start.as_deref(),
            end: options.end.as_deref(),
            end_inclusive: false,
        };
        let table_options =
            CursorOptions { fill_cache: options.fill_cache, ..CursorOptions::default() };
        let may_index = keyspace.may_index(&view.version);
        let is_leveled = keyspace.compacted_by.load().compaction == Compaction::Leveled;
        for (nth, (level, run)) in view.version.runs().enumerate() {
            let walked = run.overlap(&order, &range);
            if walked.is_empty() {
                continue;
            }
            let cursor = RunCursor::new(order.clone(), run.clone(), walked.clone(), table_options);
            let slots = view.coverage.as_ref().map_or(0, |coverage| coverage.spoken_for(nth));
            if slots == 0 {
                if level == 0 || is_leveled || may_index {
                    gathered.pay_for_next();
                }
                gathered.add_run(cursor, RunTombstones::of(run, walked));
            } else {
                gathered.add_indexed(slots, cursor);
            }
        }
        if !may_index {
            // What compacts them leaves one.
            gathered.pay_less_for_last();
        }
        let (runs_paid, ranks_paid) = (gathered.runs_paid, gathered.ranks_paid.clone());
        let tombstones = std::mem::take(&mut gathered.tombstones);
        let sources = gathered.into_sources(view.coverage.as_deref());
        let bounds = Bounds { start: options.start.clone(), end: options.end.clone() };
        let mut merge = MergeCursor::new(order.clone(), sources);
        merge.count_switches(ranks_paid);
        let dir = self.dir.clone();
        let mut inner = VisibleCursor::new(order, merge, tombstones, seq, bounds, dir);
        inner.leave_out(&view.version.erased);
        if keyspace.toll.falls_due() {
            self.background.wake_workers();
        }
        let toll = (runs_paid > 0).then(|| keyspace.toll.clone());
        let meter = Meter { toll, runs: runs_paid, seeks: 0 };
        Ok(Records { inner, meter, view })
    }
}

fn check_bounds(order: &KeyOrder, options: &ScanOptions<'_>) -> Result<()> {
    match (&options.start, &options.end) {
        (Some(start), Some(end)) if order.less(end, start) => {
            Err(Error::invalid("the scan ends before it starts"))
        }
        _ => Ok(()),
    }
}

impl Cursor {
    /// True if the cursor stands on a key.
    #[inline]
    pub fn valid(&self) -> bool {
        self.inner.valid() || self.shown.is_ahead()
    }

    /// Moves to the first key of the range.
    ///
    /// # Errors
    /// `Corruption` or `Io` if a table or a value cannot be read; seek anew to go on.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.move_to(VisibleCursor::seek_to_first)
    }

    /// Moves to the last key of the range.
    ///
    /// # Errors
    /// As [`Cursor::seek_to_first`].
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.move_to(VisibleCursor::seek_to_last)
    }

    /// Moves to the first key of the range at or after `key`.
    ///
    /// # Errors
    /// As [`Cursor::seek_to_first`].
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.move_to(|inner| inner.seek(key))
    }

    /// Moves to the last key of the range before `key`.
    ///
    /// # Errors
    /// As [`Cursor::seek_to_first`].
    pub fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.move_to(|inner| inner.seek_before(key))
    }

    fn move_to(
        &mut self,
        seek: impl FnOnce(&mut VisibleCursor<Source>) -> Result<()>,
    ) -> Result<()> {
        self.meter.seeks += 1;
        self.come_back();
        seek(&mut self.inner)?;
        self.settle()
    }

    #[expect(
        clippy::should_implement_trait,
        reason = "the field's word; it does not yield an item"
    )]
    /// Moves to the following key; from the last one, to nothing.
    ///
    /// On no key, it stays there.
    /// # Errors
    /// As [`Cursor::seek_to_first`].
    /// # Cost
    /// Values that are kept apart are read ahead once several were read one after the other, by
    /// threads beside the caller's too, and are held in up to 4 MiB, or its largest value.
    #[inline]
    pub fn next(&mut self) -> Result<()> {
        if self.ahead.is_some() {
            return self.next_value();
        }
        self.inner.next()
    }

    fn next_value(&mut self) -> Result<()> {
        if self.valid()
            && let Some(ahead) = &mut self.ahead
        {
            let shown = std::mem::replace(&mut self.shown, Shown::Record);
            if let Some(shown) = ahead.next(&mut self.inner, &self.view, shown)? {
                self.shown = shown;
                return Ok(());
            }
        }
        self.inner.next()?;
        self.settle()
    }

    /// Moves to the preceding key; from the first one, to nothing.
    ///
    /// On no key, it stays there.
    /// # Errors
    /// As [`Cursor::seek_to_first`].
    pub fn prev(&mut self) -> Result<()> {
        if self.shown.is_ahead() {
            let key = self.key().to_vec();
            return self.move_to(|inner| inner.seek_before(&key));
        }
        self.come_back();
        self.inner.prev()?;
        self.settle()
    }

    /// The records stand where the cursor does, or are about to be moved.
    fn come_back(&mut self) {
        self.shown = Shown::Record;
        if let Some(ahead) = &mut self.ahead {
            ahead.leave();
        }
    }

    /// Gets the value of the key that the cursor has moved to, if it stands elsewhere.
    #[inline]
    fn settle(&mut self) -> Result<()> {
        match &mut self.ahead {
            Some(ahead) if self.inner.valid() && self.inner.is_pointer() => {
                let read = ahead.read_single(&self.view, self.inner.value());
                match &read {
                    Ok(()) => self.shown = Shown::Single,
                    Err(_) => self.inner.leave(),
                }
                read
            }
            _ => Ok(()),
        }
    }

    /// The key, good until the cursor moves.
    ///
    /// # Panics
    /// If the cursor is not valid.
    #[inline]
    pub fn key(&self) -> &[u8] {
        match &self.ahead {
            Some(ahead) if self.shown.is_ahead() => ahead.key(),
            _ => {
                assert!(self.inner.valid(), "the cursor stands on no key");
                self.inner.key()
            }
        }
    }

    /// The value, good until the cursor moves; empty if only keys are read.
    ///
    /// # Panics
    /// If the cursor is not valid.
    #[inline]
    pub fn value(&self) -> &[u8] {
        match (&self.ahead, self.shown) {
            (Some(ahead), Shown::Single | Shown::WindowSingle) => ahead.single(),
            (Some(ahead), Shown::Window) => ahead.value(),
            _ => {
                assert!(self.inner.valid(), "the cursor stands on no key");
                if self.keys_only { &[] } else { self.inner.value() }
            }
        }
    }
}

impl std::fmt::Debug for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cursor").field("valid", &self.valid()).finish_non_exhaustive()
    }
}

/// A key and its value, as owned bytes.
pub type Pair = (Vec<u8>, Vec<u8>);

/// Yields the keys and values of a range as owned pairs, from both ends.
///
/// After an error it ends.
pub struct Pairs {
    front: Cursor,
    /// Made when first asked for the last pair.
    back: Option<Cursor>,
    make_back: Option<Box<dyn FnOnce() -> Result<Cursor> + Send>>,
    order: KeyOrder,
    started: bool,
    /// The last key given from either end.
    front_key: Option<Vec<u8>>,
    back_key: Option<Vec<u8>>,
    done: bool,
}

impl Pairs {
    pub(super) fn new(
        front: Cursor,
        order: KeyOrder,
        make_back: impl FnOnce() -> Result<Cursor> + Send + 'static,
    ) -> Pairs {
        Pairs {
            front,
            back: None,
            make_back: Some(Box::new(make_back)),
            order,
            started: false,
            front_key: None,
            back_key: None,
            done: false,
        }
    }

    fn advance_front(&mut self) -> Result<Option<Pair>> {
        if self.started {
            self.front.next()?;
        } else {
            self.started = true;
            self.front.seek_to_first()?;
        }
        if !self.front.valid() {
            return Ok(None);
        }
        let key = self.front.key();
        if self.back_key.as_ref().is_some_and(|back| !self.order.less(key, back)) {
            return Ok(None);
        }
        if self.back.is_some() {
            self.front_key = Some(key.to_vec());
        }
        Ok(Some((key.to_vec(), self.front.value().to_vec())))
    }

    fn advance_back(&mut self) -> Result<Option<Pair>> {
        let back = match (&mut self.back, self.make_back.take()) {
            (Some(back), _) => {
                back.prev()?;
                back
            }
            (None, Some(make)) => {
                if self.front.valid() {
                    self.front_key = Some(self.front.key().to_vec());
                }
                let mut cursor = make()?;
                cursor.seek_to_last()?;
                self.back.insert(cursor)
            }
            (None, None) => return Ok(None),
        };
        if !back.valid() {
            return Ok(None);
        }
        let key = back.key();
        if self.front_key.as_ref().is_some_and(|front| !self.order.less(front, key)) {
            return Ok(None);
        }
        self.back_key = Some(key.to_vec());
        Ok(Some((key.to_vec(), back.value().to_vec())))
    }

    fn step(&mut self, advance: fn(&mut Pairs) -> Result<Option<Pair>>) -> Option<Result<Pair>> {
        if self.done {
            return None;
        }
        let next = advance(self);
        self.done = !matches!(next, Ok(Some(_)));
        next.transpose()
    }
}

impl Iterator for Pairs {
    type Item = Result<Pair>;

    fn next(&mut self) -> Option<Result<Pair>> {
        self.step(Pairs::advance_front)
    }
}

impl DoubleEndedIterator for Pairs {
    fn next_back(&mut self) -> Option<Result<Pair>> {
        self.step(Pairs::advance_back)
    }
}

impl std::fmt::Debug for Pairs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pairs").finish_non_exhaustive()
    }
}
