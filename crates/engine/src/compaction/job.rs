//! How a compaction runs: merge the inputs, leave out what nobody can see, write the output run.
//!
//! A large one runs in parts, each with a merge and an output of its own.
//! Invariant: whatever is left out, no snapshot could see: a record shadowed by a newer one or by a
//! range tombstone of the same stripe; a tombstone that every snapshot sees and under which nothing
//! older lies.
//! Crash: inputs stay until the edit that replaces them is durable; outputs are orphans before it.

use super::parts::{self, Helpers, Part};
use crate::cursor::Cursor;
use crate::event::CompactionReason;
use crate::iter::{MergeCursor, Ranked, Retention};
use crate::options::KeyspaceOptions;
use crate::range_tombstone::{Fragment, RangeTombstones};
use crate::table::{CursorOptions, Keep, Origin};
use crate::version::{
    Change, CompactionSpec, KeyRange, Run, RunCursor, RunOutput, Table, TableMeta, TableStore,
    Version, VersionEdit,
};
use esker_base::key::SEQ_MAX;
use esker_base::{Error, KeyOrder, KeyspaceId, Kind, Result, Seq, Trailer};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Bytes of records between two looks at `stop`, and calls of `rest`: some 50 microseconds of work.
const PIECE_BYTES: usize = 16 << 10;

/// What a job needs besides its spec.
pub(crate) struct JobContext {
    pub(crate) store: Arc<TableStore>,
    pub(crate) options: Arc<KeyspaceOptions>,
    pub(crate) origin: Origin,
    /// The version the spec was made from: tells what was erased, and what lies below, but where
    /// tables are written anew only to be rid of what was erased: there it may be without files.
    pub(crate) version: Arc<Version>,
    /// Sequence numbers of live snapshots, ascending.
    pub(crate) snapshots: Vec<Seq>,
    /// Records from this sequence number on keep it. Logs may hold them: a repair that takes them
    /// from there must find out which are older than those of the tables. Or something is being
    /// erased up to it.
    pub(crate) aged_from: Seq,
    /// Asked between two pieces of work, by every thread that works; true ends the job with
    /// `Cancelled`.
    pub(crate) stop: Box<dyn Fn() -> bool + Send + Sync>,
    /// Called where `stop` is asked: may wait.
    pub(crate) rest: Box<dyn Fn() + Send + Sync>,
}

/// What a finished job did.
#[derive(Debug, Default)]
pub(crate) struct JobResult {
    pub(crate) tables: Vec<TableMeta>,
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
    /// Parts it was cut into; 0 if tables only moved.
    pub(crate) parts: u64,
    /// Something of it was deleted meanwhile, and taken out.
    pub(crate) overtaken: bool,
}

/// Runs a compaction to the end of its output, in up to `parts_max` parts. The caller commits
/// [`edit_of`].
///
/// # Errors
/// Of the disk, and `Cancelled`; in both cases no output file is left behind.
pub(crate) fn run(
    spec: &CompactionSpec,
    context: JobContext,
    parts_max: usize,
    helpers: &dyn Helpers,
) -> Result<JobResult> {
    if spec.is_move {
        let tables = spec.tables().map(|(_, t)| t.meta.clone()).collect();
        return Ok(JobResult { tables, ..JobResult::default() });
    }
    let parts = parts::cut(spec, &context.options, parts_max)?;
    run_parts(spec, context, parts, helpers)
}

/// Runs a compaction that is no move in these parts.
pub(super) fn run_parts(
    spec: &CompactionSpec,
    context: JobContext,
    parts: Vec<Part>,
    helpers: &dyn Helpers,
) -> Result<JobResult> {
    let count = parts.len() as u64;
    let job = Job::new(spec.clone(), context)?;
    let outputs = parts::work_on(parts, helpers, move |part, stop| job.run_part(part, stop))?;
    let tables = RunOutput::join(outputs)?;
    Ok(JobResult {
        bytes_read: spec.input_bytes(),
        bytes_written: tables.iter().map(|meta| meta.file_bytes).sum(),
        tables,
        parts: count,
        overtaken: false,
    })
}

/// The edit that puts a job's outputs in the place of its inputs, as far as these are still there.
pub(crate) fn edit_of(
    id: KeyspaceId,
    spec: &CompactionSpec,
    result: &JobResult,
    run: u64,
    is_there: impl Fn(&Table) -> bool,
) -> VersionEdit {
    let mut edit = VersionEdit::new();
    for (level, table) in spec.tables().filter(|(_, table)| is_there(table)) {
        let (level, number) = (level as u32, table.meta.number);
        edit.push(Change::TableRemoved { id, level, number });
    }
    for meta in &result.tables {
        let (level, meta) = (spec.output_level as u32, meta.clone());
        edit.push(Change::TableAdded { id, level, run, meta });
    }
    edit
}

/// What the parts of a job share.
struct Job {
    spec: CompactionSpec,
    context: JobContext,
    /// All range tombstones of the inputs.
    tombstones: RangeTombstones,
    /// Of these, what must go on.
    kept: Vec<Fragment>,
}

impl Job {
    fn new(spec: CompactionSpec, context: JobContext) -> Result<Job> {
        let order = &context.options.order;
        let tombstones = input_tombstones(&spec, order, &context.version)?;
        let below = Below::new(order, &context.version, &spec);
        let kept = kept_fragments(&tombstones, &context.snapshots, &below);
        Ok(Job { spec, context, tombstones, kept })
    }

    /// Writes the part's tables. `stop` says that another part has failed.
    fn run_part(&self, part: &Part, stop: &dyn Fn() -> bool) -> Result<RunOutput> {
        let JobContext { store, options, origin, version, .. } = &self.context;
        let mut output = RunOutput::new(
            store.clone(),
            options.clone(),
            origin.clone(),
            self.spec.output_level,
            self.kept.clone(),
            grandparents(&self.spec, version),
        );
        output.leave_out_erased(version.erased_seq);
        if let Some(start) = &part.start {
            output.start_at(start.clone());
        }
        self.merge(part, stop, &mut output)?;
        output.finish_at(part.end.clone())?;
        Ok(output)
    }

    /// Copies what is still seen of the part.
    fn merge(&self, part: &Part, stop: &dyn Fn() -> bool, output: &mut RunOutput) -> Result<()> {
        let JobContext { store, options, version, snapshots, aged_from, .. } = &self.context;
        let order = &options.order;
        let keep = Keep {
            compression: options.compression_at(self.spec.output_level),
            payload_bytes_min: options.block_bytes as usize,
        };
        let options = CursorOptions {
            keep: Some(keep),
            ..CursorOptions::compaction(store.memory.read_bytes)
        };
        let sources = self
            .spec
            .inputs
            .iter()
            .enumerate()
            .map(|(rank, run)| Ranked {
                rank,
                cursor: RunCursor::over(order.clone(), run.tables.clone(), options),
            })
            .collect();
        let mut cursor = MergeCursor::new(order.clone(), sources);
        let mut retention = Retention::new(order, snapshots, &self.tombstones);
        let mut below = Below::new(order, version, &self.spec);
        let any_erased = !version.erased.is_empty();
        let mut left_bytes = PIECE_BYTES;
        match &part.start {
            Some(start) => cursor.seek(start, Trailer::seek(SEQ_MAX))?,
            None => cursor.seek_to_first()?,
        }
        while cursor.valid() {
            let (key, trailer) = (cursor.key(), cursor.trailer());
            if part.end.as_ref().is_some_and(|end| !order.less(key, end)) {
                break;
            }
            let erased = if any_erased { version.erased_over(order, key) } else { None };
            let is_erased = erased.is_some_and(|seq| trailer.seq() <= seq);
            if !is_erased && let Some(ageless) = fate(&mut retention, &mut below, key, trailer) {
                let value = cursor.value();
                match cursor.stored_block() {
                    // Its age stands in there.
                    Some(stored) => output.add_stored(key, trailer, value, stored)?,
                    // Its age tells it from what is erased, and from what logs hold.
                    None if erased.is_some() || trailer.seq() >= *aged_from => {
                        output.add(key, trailer, value)?;
                    }
                    None => output.add(key, ageless, value)?,
                }
            }
            left_bytes = left_bytes.saturating_sub(key.len() + cursor.value().len());
            cursor.next()?;
            if left_bytes == 0 {
                left_bytes = PIECE_BYTES;
                (self.context.rest)();
                if stop() || (self.context.stop)() {
                    return Err(Error::Cancelled);
                }
            }
        }
        Ok(())
    }
}

/// The trailer a record is kept with, or `None` if it is left out.
#[inline]
fn fate(
    retention: &mut Retention<'_>,
    below: &mut Below<'_>,
    key: &[u8],
    trailer: Trailer,
) -> Option<Trailer> {
    if !retention.is_seen(key, trailer) {
        return None;
    }
    if retention.stripe(trailer.seq()) > 0 {
        return Some(trailer);
    }
    // Every snapshot sees this record, and it is the oldest of its key that anybody sees.
    match trailer.kind() {
        Some(Kind::Delete) if below.is_empty_at(key) => None,
        // Its age no longer matters; 0 takes one byte.
        Some(Kind::Put | Kind::PutPointer)
            if below.is_empty_at(key) && !retention.is_under_tombstone(key) =>
        {
            Some(trailer.with_seq(0))
        }
        _ => Some(trailer),
    }
}

/// All range tombstones of the inputs, but for those in what was erased: where the table that holds
/// one has left its level, newer records may have passed it.
fn input_tombstones(
    spec: &CompactionSpec,
    order: &KeyOrder,
    version: &Version,
) -> Result<RangeTombstones> {
    let mut all = Vec::new();
    for (_, table) in spec.tables().filter(|(_, t)| t.meta.range_tombstones > 0) {
        let reader = table.shared_reader()?;
        let set = table.range_tombstones(&reader);
        all.extend(set.records().filter(|one| !version.is_erased(order, one)));
    }
    Ok(RangeTombstones::build(order, &all))
}

/// The tombstones that must go on: those some snapshot does not see, and those with data below.
fn kept_fragments(
    tombstones: &RangeTombstones,
    snapshots: &[Seq],
    below: &Below<'_>,
) -> Vec<Fragment> {
    tombstones
        .thinned(snapshots)
        .filter_map(|Fragment { span, mut seqs }| {
            let range =
                KeyRange { start: Some(&span.start), end: Some(&span.end), end_inclusive: false };
            if !below.overlaps(&range) {
                // What every snapshot sees hides nothing any more.
                seqs.retain(|&seq| snapshots.first().is_some_and(|&oldest| oldest < seq));
            }
            (!seqs.is_empty()).then_some(Fragment { span, seqs })
        })
        .collect()
}

/// The run below the output, if there is one and no more: what is written is cut so that it
/// overlaps little of it.
fn grandparents(spec: &CompactionSpec, version: &Version) -> Vec<Arc<Table>> {
    match version.level(spec.output_level + 1) {
        [run] => run.tables.clone(),
        _ => Vec::new(),
    }
}

/// The runs that hold older data than the output, and are no part of it.
struct Below<'a> {
    order: &'a KeyOrder,
    /// Each run, and its first table that does not end before the last key asked for; `None` if
    /// they are not known.
    runs: Option<Vec<(&'a Run, usize)>>,
}

impl<'a> Below<'a> {
    fn new(order: &'a KeyOrder, version: &'a Version, spec: &CompactionSpec) -> Below<'a> {
        if spec.reason == CompactionReason::Erased {
            return Below { order, runs: None };
        }
        let taken: BTreeSet<u64> = spec.tables().map(|(_, table)| table.meta.number).collect();
        let is_older = |level: usize, run: &Run| match level.cmp(&spec.output_level) {
            Ordering::Less => false,
            // What joins a run does not overlap the rest of it.
            Ordering::Equal => spec.output_run.is_none_or(|output| run.id < output),
            Ordering::Greater => true,
        };
        let is_input = |run: &Run| run.tables.iter().all(|t| taken.contains(&t.meta.number));
        let runs = version
            .runs()
            .filter(|(level, run)| is_older(*level, run) && !is_input(run))
            .map(|(_, run)| (&**run, 0))
            .collect();
        Below { order, runs: Some(runs) }
    }

    /// True if no run below can hold `key`; false if they are not known. Keys must be asked in
    /// ascending order.
    #[inline]
    fn is_empty_at(&mut self, key: &[u8]) -> bool {
        let (order, Some(runs)) = (self.order, &mut self.runs) else { return false };
        runs.iter_mut().all(|(run, at)| {
            while run.tables.get(*at).is_some_and(|table| table.ends_before(order, key)) {
                *at += 1;
            }
            run.tables.get(*at).is_none_or(|table| order.less(key, &table.meta.smallest))
        })
    }

    fn overlaps(&self, range: &KeyRange<'_>) -> bool {
        let holds = |(run, _): &(&Run, usize)| !run.overlapping(self.order, range).is_empty();
        self.runs.as_ref().is_none_or(|runs| runs.iter().any(holds))
    }
}
