//! Tables being written for one run: by a flush or by a compaction.
//!
//! Records arrive in order; a new table is started between two user keys when the present one is
//! large enough. Range tombstones are given up front and clipped to the tables, so that each table
//! carries exactly what covers its own part of the key space and tables of a run stay disjoint.
//!
//! A run may be written in parts, each by an output of its own: what starts and ends at the same
//! keys does not overlap, its range tombstones included.
//! Crash: files are synced table by table, the directory at the end; nobody names them before that.

use super::edit::TableMeta;
use super::grouping::Grouping;
use super::store::{Table, TableStore};
use crate::block::StoredBlock;
use crate::names;
use crate::options::KeyspaceOptions;
use crate::range_tombstone::{Fragment, RangeTombstone};
use crate::table::{Origin, TableBuilder, TableSummary};
use esker_base::{KeyOrder, Result, Seq, Trailer};
use std::path::PathBuf;
use std::sync::Arc;

/// A table is cut early when it overlaps more than this many tables' worth of grandparents.
const GRANDPARENT_TABLES_MAX: u64 = 10;

/// One of so many parts of the largest that a table may be it has at least when it is cut for that.
pub(crate) const CUT_EARLY_FROM: u64 = 8;

/// A table that is cut for its size has at least so many times the bytes of its first and last key:
/// both stand in an edit of the manifest, with those of all tables that are written with it.
const BOUNDS_SHARE: u64 = 32;

/// Bytes of range tombstones after which a table is ended, however large tables may be: they are
/// one block, which is read as a whole and must be shorter than 2 GiB. What stands over the same
/// keys is not divided.
const TOMBSTONE_BYTES_MAX: u64 = 64 << 20;

/// Writes the tables of one run, or of a part of it. Dropped unfinished, it removes every file it
/// started.
pub(crate) struct RunOutput {
    store: Arc<TableStore>,
    options: Arc<KeyspaceOptions>,
    origin: Origin,
    level: usize,
    /// Fragments to be written, in order.
    tombstones: Vec<Fragment>,
    /// Index of the first fragment that is not written completely.
    next_tombstone: usize,
    /// Index of the first fragment that does not end where the run is, and bytes of those before it
    /// in the present table.
    next_border: usize,
    /// The first of those fragments.
    first_border: usize,
    tombstone_bytes: u64,
    tombstone_bytes_max: u64,
    /// Where the present table's part of the key space starts; `None` for the first.
    lower: Option<Arc<[u8]>>,
    grandparents: Vec<Arc<Table>>,
    next_grandparent: usize,
    grandparent_bytes: u64,
    grouping: Option<Grouping>,
    /// What was erased up to this sequence number is left out by the caller.
    erased_seq: Seq,
    current: Option<Open>,
    last_key: Vec<u8>,
    done: Vec<TableMeta>,
}

struct Open {
    builder: TableBuilder,
    number: u64,
    first_key_bytes: usize,
}

impl RunOutput {
    /// Tables of `origin` for `level` that carry `tombstones`. `grandparents` are the tables of the
    /// level below.
    pub(crate) fn new(
        store: Arc<TableStore>,
        options: Arc<KeyspaceOptions>,
        origin: Origin,
        level: usize,
        tombstones: Vec<Fragment>,
        grandparents: Vec<Arc<Table>>,
    ) -> RunOutput {
        let grouping = Grouping::new(&options);
        let tombstone_bytes_max = options.table_bytes_max.min(TOMBSTONE_BYTES_MAX);
        RunOutput {
            store,
            options,
            origin,
            level,
            tombstones,
            next_tombstone: 0,
            next_border: 0,
            first_border: 0,
            tombstone_bytes: 0,
            tombstone_bytes_max,
            lower: None,
            grandparents,
            next_grandparent: 0,
            grandparent_bytes: 0,
            grouping,
            erased_seq: 0,
            current: None,
            last_key: Vec::new(),
            done: Vec::new(),
        }
    }

    /// Says that what was erased up to this sequence number is left out.
    pub(crate) fn leave_out_erased(&mut self, seq: Seq) {
        self.erased_seq = seq;
    }

    /// Begins in the middle of the run: what stands before `lower` is written elsewhere.
    pub(crate) fn start_at(&mut self, lower: Arc<[u8]>) {
        let order = &self.options.order;
        self.next_tombstone = self.tombstones.partition_point(|f| !order.less(&lower, &f.span.end));
        self.next_border = self.next_tombstone;
        self.lower = Some(lower);
    }

    /// Adds a record after all before it.
    #[inline]
    pub(crate) fn add(&mut self, key: &[u8], trailer: Trailer, value: &[u8]) -> Result<()> {
        self.add_by(key, |table| table.add(key, trailer, value))
    }

    /// As [`RunOutput::add`] of a record that `stored` holds just so, and nothing else. Its table
    /// has to be compressed as these are.
    pub(crate) fn add_stored(
        &mut self,
        key: &[u8],
        trailer: Trailer,
        value: &[u8],
        stored: &StoredBlock,
    ) -> Result<()> {
        self.add_by(key, |table| table.add_stored(key, trailer, value, stored))
    }

    /// Adds a record of `key` by `add` to the table that it belongs to.
    #[inline]
    fn add_by(
        &mut self,
        key: &[u8],
        add: impl FnOnce(&mut TableBuilder) -> Result<()>,
    ) -> Result<()> {
        self.cut_among_tombstones(Some(key))?;
        if self.wants_cut(key) {
            self.end_table(Some(Arc::from(key)))?;
        }
        let open = match &mut self.current {
            Some(open) => open,
            None => {
                // What ends before the table begins is none of its neighbours below.
                self.pass_grandparents(key);
                self.grandparent_bytes = 0;
                let open = self.start_table(key.len())?;
                if let Some(grouping) = &mut self.grouping {
                    grouping.begin_table(key);
                }
                self.current.insert(open)
            }
        };
        add(&mut open.builder)?;
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        Ok(())
    }

    /// True if a new table should start with `key`.
    #[inline]
    fn wants_cut(&mut self, key: &[u8]) -> bool {
        let Some(open) = &self.current else { return false };
        let (bytes, first_key_bytes) = (open.builder.estimated_bytes(), open.first_key_bytes);
        self.pass_grandparents(key);
        let limit = self.options.table_bytes_max;
        let crowded = self.grandparent_bytes > GRANDPARENT_TABLES_MAX * limit
            && bytes > limit / CUT_EARLY_FROM;
        let bounds_bytes = (first_key_bytes + self.last_key.len()) as u64;
        let large = (bytes >= limit || crowded) && bytes >= BOUNDS_SHARE * bounds_bytes;
        let grouping = self.grouping.as_mut();
        let grouped = grouping.is_some_and(|grouping| grouping.wants_cut(key, bytes));
        // All records of a key stay in one table.
        (large || grouped) && !self.options.order.same(&self.last_key, key)
    }

    /// Counts the grandparents that end before `key`.
    #[inline]
    fn pass_grandparents(&mut self, key: &[u8]) {
        while let Some(table) = self.grandparents.get(self.next_grandparent)
            && table.ends_before(&self.options.order, key)
        {
            self.grandparent_bytes += table.meta.file_bytes;
            self.next_grandparent += 1;
        }
    }

    fn start_table(&self, first_key_bytes: usize) -> Result<Open> {
        let store = &self.store;
        let number = store.new_number();
        let path = names::table(&store.dir, number);
        let file = store.in_directory(|vfs| vfs.create(&path))?;
        let salt = store.env.entropy.next_u64();
        let mut builder = TableBuilder::new(file, &path, &self.options, self.level, salt);
        builder.set_origin(&self.origin);
        Ok(Open { builder, number, first_key_bytes })
    }

    /// Ends tables where fragments end that take as much as a table may, up to `key` (`None`: all
    /// of them): tombstones are one block, which is read as a whole.
    #[inline]
    fn cut_among_tombstones(&mut self, key: Option<&[u8]>) -> Result<()> {
        while let Some(fragment) = self.tombstones.get(self.next_border) {
            let order = &self.options.order;
            let end = &fragment.span.end;
            if key.is_some_and(|key| order.less(key, end)) {
                break;
            }
            self.next_border += 1;
            self.tombstone_bytes += bytes_of(fragment);
            let start = self
                .tombstones
                .get(self.first_border)
                .map_or(&[][..], |first| &first.span.start[..]);
            let bounds_bytes = (start.len() + end.len()) as u64;
            let large = self.tombstone_bytes >= self.tombstone_bytes_max
                && self.tombstone_bytes >= BOUNDS_SHARE * bounds_bytes;
            if large || self.tombstone_bytes >= TOMBSTONE_BYTES_MAX {
                // Fragments that end at the last key or before it were passed with it, so that its
                // records stay together.
                let end = end.clone();
                self.end_table(Some(end))?;
            }
        }
        Ok(())
    }

    /// Ends the present table before `upper` (`None`: at the end of the run). What is added next
    /// starts there.
    pub(crate) fn finish_at(&mut self, upper: Option<Arc<[u8]>>) -> Result<()> {
        self.cut_among_tombstones(upper.as_deref())?;
        self.end_table(upper)
    }

    fn end_table(&mut self, upper: Option<Arc<[u8]>>) -> Result<()> {
        (self.tombstone_bytes, self.first_border) = (0, self.next_border);
        let clipped = self.take_tombstones(upper.as_ref());
        if self.current.is_none() && !clipped.is_empty() {
            self.current = Some(self.start_table(0)?);
        }
        if let Some(Open { mut builder, number, .. }) = self.current.take() {
            for tombstone in &clipped {
                builder.add_range_tombstone(tombstone);
            }
            // Noted first, so that a failed table's file is removed with the others.
            self.done.push(unfinished(number));
            let mut meta = meta_of(number, builder.finish()?);
            meta.erased_seq = self.erased_seq;
            if let Some(last) = self.done.last_mut() {
                *last = meta;
            }
        }
        self.lower = upper;
        Ok(())
    }

    /// The parts of the tombstones between `lower` and `upper`.
    fn take_tombstones(&mut self, upper: Option<&Arc<[u8]>>) -> Vec<RangeTombstone> {
        let order = &self.options.order;
        let mut clipped = Vec::new();
        while let Some(fragment) = self.tombstones.get(self.next_tombstone) {
            let span = &fragment.span;
            if upper.is_some_and(|upper| !order.less(&span.start, upper)) {
                break;
            }
            let start = later(order, &span.start, self.lower.as_ref());
            let reaches_on = upper.is_some_and(|upper| order.less(upper, &span.end));
            let end = match upper {
                Some(upper) if reaches_on => upper,
                _ => &span.end,
            };
            for &seq in &fragment.seqs {
                clipped.push(RangeTombstone { start: start.clone(), end: end.clone(), seq });
            }
            if reaches_on {
                break;
            }
            self.next_tombstone += 1;
        }
        clipped
    }

    /// Ends the run: all tables and their names are durable. On an error none of its files stays.
    pub(crate) fn finish(mut self) -> Result<Vec<TableMeta>> {
        self.finish_at(None)?;
        RunOutput::join(vec![self])
    }

    /// The same for a run in parts, of which each has ended where the next one starts.
    pub(crate) fn join(mut parts: Vec<RunOutput>) -> Result<Vec<TableMeta>> {
        if let Some(RunOutput { store, .. }) = parts.iter().find(|part| !part.done.is_empty()) {
            store.sync_dir()?;
        }
        Ok(parts.iter_mut().flat_map(|part| std::mem::take(&mut part.done)).collect())
    }

    fn path(&self, number: u64) -> PathBuf {
        names::table(&self.store.dir, number)
    }
}

impl Drop for RunOutput {
    fn drop(&mut self) {
        let open = self.current.take().map(|open| open.number);
        for number in self.done.iter().map(|meta| meta.number).chain(open) {
            // What stays behind is an orphan, which the next open removes.
            let _ = self.store.in_directory(|vfs| vfs.remove(&self.path(number)));
        }
    }
}

/// What the tombstones of a fragment take in a table, about.
fn bytes_of(fragment: &Fragment) -> u64 {
    let span = &fragment.span;
    // Beside its ends a tombstone has its sequence number and their lengths.
    ((span.start.len() + span.end.len() + 12) * fragment.seqs.len()) as u64
}

/// The later of a key and a lower bound.
fn later(order: &KeyOrder, key: &Arc<[u8]>, lower: Option<&Arc<[u8]>>) -> Arc<[u8]> {
    match lower {
        Some(lower) if order.less(key, lower) => lower.clone(),
        _ => key.clone(),
    }
}

/// What stands for a table whose end was not reached.
fn unfinished(number: u64) -> TableMeta {
    TableMeta { number, ..TableMeta::default() }
}

/// What the manifest keeps of a finished table.
fn meta_of(number: u64, summary: TableSummary) -> TableMeta {
    TableMeta {
        number,
        salt: summary.salt,
        file_bytes: summary.file_bytes,
        smallest: summary.smallest_key.into(),
        largest: summary.largest_key.into(),
        largest_exclusive: summary.largest_exclusive,
        entries: summary.entries,
        tombstones: summary.tombstones,
        range_tombstones: summary.range_tombstones,
        raw_bytes: summary.raw_key_bytes + summary.raw_value_bytes,
        min_seq: summary.seq_min,
        max_seq: summary.seq_max,
        seq_override: None,
        erased_seq: 0,
        references: summary.references.into(),
    }
}
