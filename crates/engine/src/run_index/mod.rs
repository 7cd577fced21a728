//! Run index: which sorted runs may hold a key, for all keys of a keyspace, in memory.
//!
//! The index is a sorted list of entries. An entry is the beginning of a key, as short as tells it
//! from the other entries, and the runs that may hold keys that begin so. A get looks into the
//! named runs only; a scan goes from entry to entry and moves on the cursor of the run that is
//! named, without comparing runs.
//!
//! Flow: a table's [`DigestBuilder`] -> digest in the file -> [`DigestCursor`] -> [`unite`] ->
//! [`RunIndex`].
//! Invariants: (1) no entry covers another one or a part of it; (2) a key of a run that the index
//! covers is covered by an entry that names the run. The converse does not hold: an entry may name
//! runs that have no such key (any more), which costs a look into them and is never wrong.
//! Source: LooseKV keeps whole keys in an ordered map, each with the run of its newest record,
//! changed by every flush. We keep beginnings, and all runs that have a record, so that snapshots
//! and tombstones need no care; the index never changes but is united with what came later. REMIX
//! (FAST '21) orders positions in runs by comparing keys on disk whenever the order is made anew;
//! our order is made in memory.
//! Threads: an index is immutable and shared; builders and cursors belong to one thread.

mod digest;
mod entry;
mod index;
mod leaf;
#[cfg(test)]
pub(crate) mod tests;
mod unite;

pub(crate) use digest::{DigestBuilder, DigestCursor, DigestSource};
pub(crate) use entry::{Slots, single_slot};
pub(crate) use index::{EntryCursor, RunIndex};
pub(crate) use unite::{Entries, Renumbered, unite};

/// Runs that one index can tell apart.
pub(crate) const SLOTS_MAX: usize = Slots::BITS as usize;
