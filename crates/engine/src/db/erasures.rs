//! What is deleted while compactions are at work.
//!
//! A compaction that began before a group was deleted has its records among what it reads, and may
//! have written them anew. It takes them out of that before it comes into force: what tells it so
//! is kept here for as long as any compaction may ask, since the version forgets what no table
//! holds any more.

use super::group_range::GroupRange;
use crate::range_tombstone::RangeTombstone;
use crate::version::{CompactionSpec, Table};
use esker_base::Seq;
use esker_base::sync::Mutex;
use esker_base::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;

/// What was erased in a keyspace while any compaction of it is at work. Changes under `versions`,
/// but for compactions that end.
#[derive(Debug, Default)]
pub(super) struct Erasures(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// For each compaction, up to which sequence number the version it began with has erased.
    jobs: Vec<Seq>,
    /// In the order of their numbers.
    erased: Vec<Erasure>,
}

/// All keys of a group, up to a sequence number.
#[derive(Clone, Debug)]
pub(super) struct Erasure {
    pub(super) range: Arc<GroupRange>,
    pub(super) seq: Seq,
}

impl Erasure {
    pub(super) fn as_tombstone(&self) -> RangeTombstone {
        let (start, end) = (self.range.group.clone(), Arc::from(&self.range.end[..]));
        RangeTombstone { start, end, seq: self.seq }
    }
}

impl Erasures {
    /// A compaction begins with a version that has erased up to this sequence number.
    pub(super) fn begin(&self, erased_seq: Seq) {
        self.0.lock().jobs.push(erased_seq);
    }

    /// One that began so is over.
    pub(super) fn end(&self, erased_seq: Seq) {
        let mut inner = self.0.lock();
        let Inner { jobs, erased } = &mut *inner;
        if let Some(at) = jobs.iter().position(|&seq| seq == erased_seq) {
            jobs.swap_remove(at);
        }
        let oldest = jobs.iter().copied().min();
        erased.retain(|one| oldest.is_some_and(|oldest| one.seq > oldest));
    }

    /// A group was erased, if anybody wants to know.
    pub(super) fn note(&self, range: &Arc<GroupRange>, seq: Seq) {
        let mut inner = self.0.lock();
        if !inner.jobs.is_empty() {
            inner.erased.push(Erasure { range: range.clone(), seq });
        }
    }

    /// What was erased since a version that had erased up to this sequence number.
    pub(super) fn since(&self, erased_seq: Seq) -> Vec<Erasure> {
        self.0.lock().erased.iter().filter(|one| one.seq > erased_seq).cloned().collect()
    }
}

/// How much of a compaction's inputs was deleted meanwhile.
pub(super) struct Gone {
    /// The inputs, and whether they were seen to be gone.
    inputs: Vec<(Arc<Table>, AtomicBool)>,
    bytes: u64,
    /// How often anybody has looked.
    looks: AtomicUsize,
    gone_bytes: AtomicU64,
}

impl Gone {
    pub(super) fn of(spec: &CompactionSpec) -> Gone {
        let inputs = spec.tables().map(|(_, table)| (table.clone(), AtomicBool::new(false)));
        Gone {
            inputs: inputs.collect(),
            bytes: spec.input_bytes(),
            looks: AtomicUsize::new(0),
            gone_bytes: AtomicU64::new(0),
        }
    }

    /// True if more than a half is gone: what is left is worth a compaction of its own, and the
    /// space of what is gone does not wait for this one. With that, deletions that are more
    /// frequent than compactions are long end some of them, but each time half as much is left to
    /// be compacted.
    ///
    /// Looks at one input in turn: there may be thousands.
    pub(super) fn is_too_much(&self) -> bool {
        let nth = self.looks.fetch_add(1, Ordering::Relaxed) % self.inputs.len().max(1);
        if let Some((table, seen)) = self.inputs.get(nth)
            && table.is_obsolete()
            && !seen.swap(true, Ordering::Relaxed)
        {
            self.gone_bytes.fetch_add(table.meta.file_bytes, Ordering::Relaxed);
        }
        self.gone_bytes.load(Ordering::Relaxed) > self.bytes / 2
    }

    /// True if anything is known to be gone: its files go when the compaction ends, which therefore
    /// takes no rests any more.
    pub(super) fn has_any(&self) -> bool {
        self.gone_bytes.load(Ordering::Relaxed) > 0
    }
}

#[cfg(all(test, not(any(esker_loom, esker_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn what_was_erased_is_known_for_as_long_as_somebody_may_ask() {
        let erasures = Erasures::default();
        let range = |group: &[u8]| Arc::new(GroupRange::of(group).expect("a group"));
        let since = |seq| -> Vec<Seq> { erasures.since(seq).iter().map(|one| one.seq).collect() };
        erasures.note(&range(b"a"), 3);
        assert!(since(0).is_empty(), "nobody is at work");
        erasures.begin(3);
        erasures.note(&range(b"b"), 5);
        erasures.begin(5);
        erasures.begin(5);
        erasures.note(&range(b"c"), 8);
        assert_eq!((since(3), since(5), since(8)), (vec![5, 8], vec![8], vec![]));
        erasures.end(5);
        assert_eq!(since(3), [5, 8]);
        erasures.end(3);
        assert_eq!(since(0), [8], "those that are left knew of the other");
        erasures.end(5);
        assert!(since(0).is_empty());
    }
}
