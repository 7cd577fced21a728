//! Iterators over several sources: merging them, and seeing what a snapshot sees.
//!
//! Flow: db::scan builds cursors over memtables and runs -> [`MergeCursor`] -> [`VisibleCursor`].
//! Compaction uses the merge alone.
//! Threads: a cursor belongs to one thread at a time.

mod indexed;
mod lane;
mod merge;
mod retain;
mod visible;

pub(crate) use indexed::IndexedCursor;
pub(crate) use lane::Lend;
pub(crate) use merge::{MergeCursor, Ranked};
pub(crate) use retain::Retention;
pub(crate) use visible::{Bounds, LazyTombstones, Tombstones, VisibleCursor};

/// Notes that what two sources stand on was compared. Only tests count.
#[inline(always)]
fn note_comparison() {
    #[cfg(test)]
    indexed_tests::COMPARISONS.with(|count| count.set(count.get() + 1));
}

#[cfg(test)]
mod indexed_tests;
#[cfg(test)]
mod tests;
